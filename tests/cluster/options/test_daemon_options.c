/* The command line of millraced: what words become, what is not given, and what is refused with which words. */
#include "cluster/options/daemon_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/options/value.h"

static struct daemon_args args;
static struct base_error error;

/* Parses "millraced" and the words of line, which are separated by single spaces. */
static enum daemon_outcome parse(const char *line)
{
    static char copy[1024];
    char *argv[32] = {(char[]){"millraced"}}, *rest = NULL;
    int argc = 1;
    assert_true(strlen(line) < sizeof copy);
    strcpy(copy, line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    FILE *out = fopen("/dev/null", "w");
    const enum daemon_outcome outcome = daemon_args_parse(argc, argv, out, &args, &error);
    fclose(out);
    return outcome;
}

static void refuse(const char *line, const char *words)
{
    assert_int_equal(parse(line), DAEMON_WRONG);
    assert_int_not_equal(error.status, BASE_OK);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", line, error.text, words);
    assert_null(strchr(error.text, '\n'));
}

#define NODE "node --name a --listen 127.0.0.1 --coordinator 127.0.0.1:1"
#define COORDINATOR "coordinator --listen 127.0.0.1:1 --state /s"

static void words_fill_the_configuration(void **state)
{
    (void)state;
    assert_int_equal(
        parse("node --name a --listen ::1 --coordinator 127.0.0.1:1 --nic e --rx-queues 3-5 --workers 7 -v "
              "--zc-area 1Mi --zc-chunk 64Ki --ports 512 --memory 1G --engine epoll --pin --open-to-all"),
        DAEMON_RUN);
    assert_int_equal(args.command, DAEMON_NODE);
    assert_string_equal(args.node.name, "a");
    assert_int_equal(args.node.workers, 7);
    assert_int_equal(args.node.place.queue_first, 3);
    assert_int_equal(args.node.place.queue_last, 5);
    assert_int_equal(args.node.place.port_first, 512);
    assert_int_equal(args.node.place.area_bytes, 1 << 20);
    assert_int_equal(args.node.place.piece_bytes, 1 << 16);
    assert_string_equal(args.node.place.nic, "e");
    assert_int_equal(args.node.memory_bytes, 1000000000);
    assert_int_equal(args.node.engine.kind, NET_ENGINE_EPOLL);
    assert_true(args.node.pin);
    assert_true(args.node.open_to_all);
    assert_true(args.verbose);
    assert_int_equal(parse(COORDINATOR " --nodes 5 --key /k"), DAEMON_RUN);
    assert_int_equal(args.command, DAEMON_COORDINATOR);
    assert_string_equal(args.coordinator.state_folder, "/s");
    assert_int_equal(args.coordinator.nodes_expected, 5);
    assert_string_equal(args.key, "/k");
    assert_int_equal(parse("--version"), DAEMON_RUN);
    assert_true(args.version);
}

static void what_is_not_given_is_as_the_table_says(void **state)
{
    (void)state;
    static const char *const lines[] = {NODE, COORDINATOR};
    int count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(parse(lines[i]), DAEMON_RUN);
        for (const struct option_group *group = daemon_program.command[args.command].group; group->row; group++)
            for (const struct option_row *row = group->row; row->name; row++) {
                struct daemon_args expected = {0};
                if (!row->preset)
                    continue;
                assert_int_equal(row->read(row, row->preset, &expected, &error), BASE_OK);
                if (memcmp(option_field(row, &args), option_field(row, &expected), row->bytes) != 0)
                    fail_msg("%s without --%s is not as with --%s=%s", lines[i], row->name, row->name, row->preset);
                count++;
            }
    }
    assert_int_equal(count, 4);
}

/* Their words in the table are "one for each core" and "half of the machine's memory". */
static void what_is_computed_is_as_the_table_says(void **state)
{
    (void)state;
    assert_int_equal(parse(NODE), DAEMON_RUN);
    assert_int_equal(args.node.workers, sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(args.node.memory_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2);
}

static void what_is_needed_is_asked_for(void **state)
{
    (void)state;
    refuse("", "a command is missing: coordinator, node");
    refuse("coordinator --listen 127.0.0.1:1", "--state=FOLDER is missing: a folder");
    refuse("coordinator --state /s", "--listen=ADDRESS is missing: where");
    refuse("node --name a --listen 127.0.0.1", "--coordinator=ADDRESS is missing: where");
    refuse("node --name a --coordinator 127.0.0.1:1", "--listen=HOST is missing: at which");
    refuse("node --listen 127.0.0.1 --coordinator 127.0.0.1:1", "--name=NAME is missing: a name");
    assert_int_equal(parse("node --help"), DAEMON_DONE);
    assert_int_equal(parse("help"), DAEMON_DONE);
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {NODE " --ports 512", "go together"},
        {NODE " --nic e", "go together"},
        {NODE " --rx-queues 1-2", "go together"},
        {NODE " --nic e --rx-queues 5-3", "--rx-queues=5-3 is not a range of receive queues"},
        {NODE " --nic e --rx-queues 5", "--rx-queues=5 is not a range"},
        {NODE " --nic e --rx-queues 1-70000", "is not a range of receive queues from 0 to 65535"},
        {NODE " --nic e --rx-queues 1-2 --zc-chunk 5000", "--zc-chunk=5000 is not a power of two from a page"},
        {NODE " --nic e --rx-queues 1-2 --zc-chunk 2Gi", "is not a power of two"},
        {NODE " --workers 0", "--workers=0 is out of range: it goes from 1 to 1024"},
        {NODE " --coordinator 127.0.0.1:2", "--coordinator is given twice"},
        {"node --name a/b", "--name=a/b is not a name of up to 63"},
        {"node --name a --listen nowhere", "--listen=nowhere"},
        {"node --name a --listen 127.0.0.1 --coordinator 127.0.0.1", "--coordinator=127.0.0.1"},
        {COORDINATOR " --nodes 100000", "--nodes=100000 is out of range"},
        {"coordinate", "(did you mean \"coordinator\"?)"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        refuse(lines[i][0], lines[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_fill_the_configuration),
        cmocka_unit_test(what_is_not_given_is_as_the_table_says),
        cmocka_unit_test(what_is_computed_is_as_the_table_says),
        cmocka_unit_test(what_is_needed_is_asked_for),
        cmocka_unit_test(wrong_values_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
