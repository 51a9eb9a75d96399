/* The command line: what words become, and what is refused with which words. */
#include "cluster/options/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/options/options.h"
#include "cluster/options/value.h"
#include "cluster/protocol/listen_policy.h"

enum { WORDS_MAX = 64 };

static struct cluster_client_args args;
static struct base_error error;
static char *printed; /* what went to `out` */

/* Parses "millrace" and the words of line, which are separated by single spaces. */
static enum cluster_args_outcome parse(const char *line)
{
    static char copy[1024];
    char *argv[WORDS_MAX + 1] = {"millrace"}, *rest = NULL;
    int argc = 1;
    assert_true(strlen(line) < sizeof copy);
    strcpy(copy, line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    free(printed);
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    const enum cluster_args_outcome outcome = cluster_client_args_parse(argc, argv, out, &args, &error);
    fclose(out);
    return outcome;
}

static void refuse(const char *line, const char *words)
{
    assert_int_equal(parse(line), CLUSTER_ARGS_WRONG);
    assert_int_not_equal(error.status, BASE_OK);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", line, error.text, words);
    assert_null(strchr(error.text, '\n'));
}

static void join_fills_the_request(void **state)
{
    (void)state;
    assert_int_equal(parse("join --left /a.csv --right=local:/b/*.tsv --on a=b --select left.a --out /o "
                           "--output-format bin --engine epoll --verify --frame-bytes 64Ki --frames-per-lane 3 "
                           "--chunk-bytes 32Ki --chunks 16 --socket send-buffer=1M,nodelay=off --morsel-bytes 8Mi "
                           "--left-schema id:int64 --right-delimiter ; --right-quote ' --right-header no "
                           "--right-empty-null no --right-quoted-empty-null yes --left-format csv --json "
                           "--left-incomplete yes "
                           "--report /r"),
                     CLUSTER_ARGS_RUN);
    const struct cluster_submit *submit = &args.submit;
    assert_int_equal(args.command, CLUSTER_COMMAND_JOIN);
    assert_true(args.json);
    assert_string_equal(args.report, "/r");
    assert_int_equal(submit->kind, CLUSTER_KIND_JOIN);
    assert_int_equal(submit->source_count, 2);
    assert_string_equal(submit->source[1].text, "local:/b/*.tsv");
    assert_string_equal(submit->on, "a=b");
    assert_string_equal(submit->select, "left.a");
    assert_string_equal(submit->out, "/o");
    assert_int_equal(submit->output, SHUFFLE_OUTPUT_FIXED);
    assert_int_equal(submit->settings.engine.kind, NET_ENGINE_EPOLL);
    assert_true(submit->settings.verify);
    assert_int_equal(submit->settings.frame_bytes, 65536);
    assert_int_equal(submit->settings.frames_per_lane, 3);
    assert_int_equal(submit->settings.recv_chunk_bytes, 32768);
    assert_int_equal(submit->settings.recv_chunk_count, 16);
    assert_int_equal(submit->settings.socket.send_buffer_bytes, 1000000);
    assert_true(submit->settings.socket.nagle);
    assert_int_equal(submit->settings.morsel_bytes, 8 << 20);
    assert_string_equal(submit->source[0].schema, "id:int64");
    assert_int_equal(submit->source[0].format, CLUSTER_FORMAT_CSV);
    assert_int_equal(submit->source[0].incomplete, CLUSTER_CHOICE_YES);
    assert_int_equal(submit->source[1].incomplete, CLUSTER_CHOICE_NO);
    assert_int_equal(submit->source[0].header, CLUSTER_CHOICE_YES);
    assert_int_equal(submit->source[1].delimiter, ';');
    assert_int_equal(submit->source[1].quote, '\'');
    assert_int_equal(submit->source[1].header, CLUSTER_CHOICE_NO);
    assert_int_equal(submit->source[1].empty_is_null, CLUSTER_CHOICE_NO);
    assert_int_equal(submit->source[1].quoted_empty_is_null, CLUSTER_CHOICE_YES);
    cluster_client_args_free(&args);
}

static void shuffle_fills_the_request(void **state)
{
    (void)state;
    assert_int_equal(parse("--json shuffle --in gen:rows=10 --by key,payload --into table"), CLUSTER_ARGS_RUN);
    assert_int_equal(args.command, CLUSTER_COMMAND_SHUFFLE);
    assert_true(args.json);
    assert_int_equal(args.submit.kind, CLUSTER_KIND_SHUFFLE);
    assert_int_equal(args.submit.source_count, 1);
    assert_string_equal(args.submit.source[0].text, "gen:rows=10");
    assert_string_equal(args.submit.on, "key,payload");
    assert_true(args.submit.into_table);
    assert_int_equal(args.submit.output, SHUFFLE_OUTPUT_COUNT);
    assert_null(args.submit.out);
    cluster_client_args_free(&args);

    assert_int_equal(parse("shuffle --in /a.csv --by k --delimiter tab --out /o"), CLUSTER_ARGS_RUN);
    assert_int_equal(args.submit.source[0].delimiter, '\t');
    assert_int_equal(args.submit.output, SHUFFLE_OUTPUT_CSV);
    cluster_client_args_free(&args);
}

/* What was not given is in the request as the table says it, in every command. */
static void what_is_not_given_is_as_the_table_says(void **state)
{
    (void)state;
    static const char *const lines[] = {"join --left /a --right /b --on a=b --out /o",
                                        "shuffle --in /a --by k --out /o", "bisect"};
    int count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(parse(lines[i]), CLUSTER_ARGS_RUN);
        const struct option_command *command = &client_program.command[args.command];
        for (const struct option_group *group = command->group; group->row; group++)
            for (const struct option_row *row = group->row; row->name; row++) {
                struct cluster_client_args expected = {0};
                if (!row->preset)
                    continue;
                assert_int_equal(row->read(row, row->preset, &expected, &error), BASE_OK);
                if (memcmp(option_field(row, &args), option_field(row, &expected), row->bytes) != 0)
                    fail_msg("%s without --%s is not as with --%s=%s", lines[i], row->name, row->name, row->preset);
                count++;
            }
        cluster_client_args_free(&args);
    }
    assert_true(count > 20);
}

/* What the lower floor does with a CSV file of which nothing is said is what the table says. */
static void a_relation_is_by_itself_as_the_table_says(void **state)
{
    (void)state;
    struct shuffle_relation bare = {0}, told = {0};
    char *path = NULL;
    assert_int_equal(shuffle_relation_parse("/a.csv", &bare, &path, &error), BASE_OK);
    free(path);
    assert_int_equal(shuffle_relation_parse("/a.csv", &told, &path, &error), BASE_OK);
    free(path);
    assert_int_equal(parse("shuffle --in /a.csv --by k"), CLUSTER_ARGS_RUN);
    cluster_source_apply(&args.submit.source[0], &told);
    assert_memory_equal(&bare.csv, &told.csv, sizeof bare.csv);
    assert_int_equal(args.submit.output, SHUFFLE_OUTPUT_COUNT);
    assert_int_equal(args.submit.source[0].incomplete, CLUSTER_CHOICE_NO);
    cluster_client_args_free(&args);
    shuffle_relation_free(&bare);
    shuffle_relation_free(&told);
}

static void relative_paths_become_absolute(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0);
    char expected[3][4096];
    assert_non_null(here);
    snprintf(expected[0], sizeof expected[0], "shared:%s/a.csv", here);
    snprintf(expected[1], sizeof expected[1], "local:%s/d/b*.csv", here);
    snprintf(expected[2], sizeof expected[2], "%s/o", here);
    assert_int_equal(parse("join --left a.csv --right local:d/b*.csv --on a=b --out o"), CLUSTER_ARGS_RUN);
    assert_string_equal(args.submit.source[0].text, expected[0]);
    assert_string_equal(args.submit.source[1].text, expected[1]);
    assert_string_equal(args.submit.out, expected[2]);
    cluster_client_args_free(&args);
    free(here);
}

static void the_coordinator_comes_from_words_then_environment(void **state)
{
    (void)state;
    unsetenv("MILLRACE_COORDINATOR");
    assert_int_equal(parse("nodes"), CLUSTER_ARGS_RUN);
    assert_string_equal(args.coordinator, CLUSTER_COORDINATOR_DEFAULT);
    setenv("MILLRACE_COORDINATOR", "10.0.0.1:7400", 1);
    assert_int_equal(parse("jobs"), CLUSTER_ARGS_RUN);
    assert_string_equal(args.coordinator, "10.0.0.1:7400");
    assert_int_equal(parse("--coordinator 10.0.0.2:1 jobs"), CLUSTER_ARGS_RUN);
    assert_string_equal(args.coordinator, "10.0.0.2:1");
    assert_int_equal(parse("jobs --coordinator 10.0.0.3:1"), CLUSTER_ARGS_RUN);
    assert_string_equal(args.coordinator, "10.0.0.3:1");
    unsetenv("MILLRACE_COORDINATOR");
}

static void texts_of_null_add_up(void **state)
{
    (void)state;
    assert_int_equal(parse("join --left /a --right /b --on a=b --left-null NA --left-null \\N --left-quote none"),
                     CLUSTER_ARGS_RUN);
    assert_string_equal(args.submit.source[0].null_texts, "NA\n\\N\n");
    assert_string_equal(args.submit.source[1].null_texts, "");
    assert_int_equal(args.submit.source[0].quote, SHUFFLE_CSV_NO_QUOTE);
    cluster_client_args_free(&args);
    assert_int_equal(parse("join --left /a --right /b --on a=b --right-skip-bad-rows 2k"), CLUSTER_ARGS_RUN);
    assert_int_equal(args.submit.source[0].bad_rows_max, 0);
    assert_int_equal(args.submit.source[1].bad_rows_max, 2000);
    cluster_client_args_free(&args);
    assert_int_not_equal(parse("shuffle --in /a --by k --skip-bad-rows some"), CLUSTER_ARGS_RUN);
    cluster_client_args_free(&args);
    char line[512] = "shuffle --in /a --by k";
    for (int i = 0; i < 3; i++) {
        strcat(line, " --null ");
        memset(line + strlen(line), 'x', 100); /* the rest is zeros */
    }
    refuse(line, "at most 254 bytes");
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"", "a command is missing"},
        {"cancel 3", "no command \"cancel\"; the"},
        {"jion --left x", "no command \"jion\" (did you mean \"join\"?); the commands are"},
        {"join --lef-schema k:int64",
         "there is no option \"--lef-schema\" (did you mean \"--left-schema\"?); `millrace join"},
        {"join --selct=a", "there is no option \"--selct=a\" (did you mean \"--select\"?)"},
        {"--coordinatr x nodes", "(did you mean \"--coordinator\"?)"},
        {"join --left a --right b --on k=k --zzz", "there is no option \"--zzz\"; `millrace join"},
        {"join --left a --right b --on k=k --out x --output-format cvs",
         "(did you mean \"csv\"?): choose one of csv, bin"},
        {"join --left a --right b --on k=k --type inne", "(did you mean \"inner\"?)"},
        {"join --left a --right b --on k=k --engine epol", "(did you mean \"epoll\"?)"},
        {"join --left a --right b --on k=k --socket nodelya=on", "(did you mean \"nodelay\"?)"},
        {"bisect --cuts minimun", "(did you mean \"minimum\"?)"},
        {"--frob join", "\"--frob\""},
        {"join --frob --on a=b", "\"--frob\""},
        {"join --left", "--left lacks its value: write --left=SOURCE"},
        {"join /a.csv", "\"/a.csv\""},
        {"nodes --left /a", "\"--left\""},
        {"join --right /b --on a=b", "--left=SOURCE is missing"},
        {"join --left /a --on a=b", "--right=SOURCE is missing"},
        {"join --left /a --right /b", "--on=A=B"},
        {"shuffle --in /a", "--by=K"},
        {"join --left /a --right /b --on a=b --type sideways", "choose one of inner, left, right, full, semi, anti"},
        {"join --left /a --right /b --on a=b --engine fast", "auto, epoll, "},
        {"join --left /a --right /b --on a=b --frame-bytes 4095", "4096"},
        {"join --left /a --right /b --on a=b --frame-bytes 2Mi", "1048576"},
        {"join --left /a --right /b --on a=b --frame-bytes 5000000000", "out of range"},
        {"join --left /a --right /b --on a=b --frame-bytes 99999999999999999999",
         "is not a number from 4096 to 1048576, or 0"},
        {"join --left /a --right /b --on a=b --chunks many", "is not a number from 1 to 32768"},
        {"join --left /a --right /b --on a=b --chunks -1", "is not a number"},
        {"join --left /a --right /b --on a=b --left-delimiter ::", "one ASCII character"},
        {"join --left /a --right /b --on a=b --left-delimiter \"", "the same character"},
        {"join --left /a --right /b --on a=b --left-header maybe", "yes, no"},
        {"join --left /a --right /b --on a=b --right-schema id:int65", "--right-schema"},
        {"join --left gen:rows=x --right /b --on a=b", "--left: gen: rows=x"},
        {"join --left gen:rows=1 --right /b --on key=b --left-schema a:int8", "is generated"},
        {"join --left /a --right /b --on a=b --output-format csv", "add --out"},
        {"shuffle --in /a --by k --into table --out /o", "choose one"},
        {"shuffle --in /a --by k --into file", "table"},
        {"shuffle --by k", "--in=SOURCE is missing"},
        {"join --left /a --left /b --right /c --on a=b", "--left is given twice, with \"/a\" and \"/b\""},
        {"shuffle --in /a --by k --by l", "--by is given twice"},
        {"shuffle --in /a --in /b --by k", "--in is given twice"},
        {"shuffle --in /a --by k --schema k:int8 --schema k:int9", "--schema is given twice"},
        {"--coordinator a:1 nodes --coordinator b:1", "--coordinator is given twice, with \"a:1\" and \"b:1\""},
        {"bisect --seconds 0", "--seconds=0 is out of range: it goes from 0.05 to 60"},
        {"bisect --racks /", "--racks=/ cannot be read: Is a directory"},
        {"shuffle --in /a --by k --schema k:int65", "--schema: "},
        {"shuffle --in /a --by k --header maybe", "--header=maybe"},
        {"join --left /a --right /b --on a=b --select=", "--select has an empty value"},
        {"join --left /a --right /b --on=", "--on has an empty value"},
        {"join --left= --right /b --on a=b", "--left has an empty value"},
        {"join --left /a --right /b --on a=b --out=", "--out has an empty value"},
        {"join --left /a --right /b --on a=b --left-schema=", "--left-schema has an empty value"},
        {"join --left /a --right /b --on a=b --right-delimiter=", "--right-delimiter has an empty value"},
        {"join --left /a --right /b --on a=b --chunks=", "--chunks has an empty value"},
        {"join --left /a --right /b --on a=b --socket=", "--socket has an empty value"},
        {"join --left /a --right /b --on a=b --report=", "--report has an empty value"},
        {"shuffle --in /a --by k --null=", "--null has an empty value"},
        {"shuffle --in gen:rows=1 --by key --null=NA", "is generated"},
        {"shuffle --in gen:rows=1 --by key --quote=none", "is generated"},
        {"join --left gen:rows=1 --right gen:rows=1 --on key=key --right-header=yes", "omit --right-header, which"},
        {"shuffle --in /a --by=", "--by has an empty value"},
        {"nodes --coordinator=", "--coordinator has an empty value"},
        {"nodes --key=", "--key has an empty value"},
        {"bisect --seconds=", "--seconds has an empty value"},
        {"bisect --html=", "--html has an empty value"},
        {"doctor --interface=", "--interface has an empty value"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        refuse(lines[i][0], lines[i][1]);
}

/* The coordinator would not take such a request, and close. */
static void a_text_may_be_too_long(void **state)
{
    (void)state;
    static char long_text[CLUSTER_TEXT_BYTES_MAX + 2], program[] = "millrace", command[] = "shuffle";
    static char in[] = "--in=/a", by[] = "--by=k", select[] = "--select";
    memset(long_text, 'k', CLUSTER_TEXT_BYTES_MAX + 1);
    char *words[] = {program, command, in, by, select, long_text, NULL};
    assert_int_equal(cluster_client_args_parse(6, words, stderr, &args, &error), CLUSTER_ARGS_WRONG);
    assert_string_equal(error.text,
                        "--select=kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk... has 65537 bytes, at most 65536 are "
                        "allowed: make it shorter");
    long_text[CLUSTER_TEXT_BYTES_MAX] = '\0';
    assert_int_equal(cluster_client_args_parse(6, words, stderr, &args, &error), CLUSTER_ARGS_RUN);
    cluster_client_args_free(&args);
}

static void a_folder_may_have_too_long_a_name(void **state)
{
    (void)state;
    static char line[1024] = "shuffle --in /a --by k --out /o/";
    const size_t bytes = strlen(line);
    memset(line + bytes, 'x', 256);
    refuse(line, "has 256 bytes, at most 255 are allowed");
    line[bytes + 255] = '\0';
    assert_int_equal(parse(line), CLUSTER_ARGS_RUN);
    cluster_client_args_free(&args);
    static char out[5000], program[] = "millrace", command[] = "shuffle", in[] = "--in=/a", by[] = "--by=k";
    char *words[] = {program, command, in, by, out, NULL};
    strcpy(out, "--out=");
    for (size_t at = strlen(out); at < 4000; at++)
        out[at] = at % 2 ? 'x' : '/';
    assert_int_equal(cluster_client_args_parse(5, words, stderr, &args, &error), CLUSTER_ARGS_WRONG);
    assert_non_null(strstr(error.text, "has 3994 bytes as a whole path, at most 3839 are allowed"));
    memset(out + 4000, 'x', 500);
    assert_int_equal(cluster_client_args_parse(5, words, stderr, &args, &error), CLUSTER_ARGS_WRONG);
    assert_non_null(strstr(error.text, "has 4494 bytes, at most 4095 are allowed"));
}

static void a_wrong_word_keeps_json(void **state)
{
    (void)state;
    refuse("join --frob --json", "--frob");
    assert_true(args.json);
    assert_int_equal(args.command, CLUSTER_COMMAND_JOIN);
    refuse("join --frob", "--frob");
    assert_false(args.json);
}

/* Every command tells of itself within 80 columns, without a cluster and without checking other words. */
static void help_is_sane(void **state)
{
    (void)state;
    static const char *const lines[] = {"--help",      "join --help",    "shuffle -h",           "nodes --help",
                                        "jobs --help", "version --help", "join --left /a --help"};
    static const char *const common[] = {"Usage: millrace", "--json", "--coordinator=ADDRESS", "--help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(parse(lines[i]), CLUSTER_ARGS_DONE);
        for (size_t k = 0; k < sizeof common / sizeof *common; k++)
            if (!strstr(printed, common[k]))
                fail_msg("millrace %s does not mention %s", lines[i], common[k]);
        char *rest = NULL, *copy = strdup(printed);
        for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            if (strlen(line) > 88) /* the words of gen: stay in one piece */
                fail_msg("millrace %s has a long line: %s", lines[i], line);
        free(copy);
    }
    assert_int_equal(parse("--help"), CLUSTER_ARGS_DONE);
#define X(name, word, about) assert_non_null(strstr(printed, "  " word " "));
    CLUSTER_COMMAND_LIST(X)
#undef X
    assert_int_equal(parse("join --help"), CLUSTER_ARGS_DONE);
    static const char *const options[] = {"--left=",
                                          "--right=",
                                          "--on=",
                                          "--type=",
                                          "--select=",
                                          "--out=",
                                          "--output-format=",
                                          "--left-schema=",
                                          "--right-schema=",
                                          "--right-delimiter=",
                                          "--engine=",
                                          "--verify",
                                          "--frame-bytes=",
                                          "--frames-per-lane=",
                                          "--chunk-bytes=",
                                          "--chunks=",
                                          "--socket=",
                                          "--morsel-bytes=",
                                          "Exit codes:"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strstr(printed, options[i]))
            fail_msg("join --help does not mention %s", options[i]);
    assert_null(strstr(printed, "--by="));
}

static void version_has_two_spellings(void **state)
{
    (void)state;
    assert_int_equal(parse("version"), CLUSTER_ARGS_RUN);
    assert_int_equal(args.command, CLUSTER_COMMAND_VERSION);
    assert_int_equal(parse("--version"), CLUSTER_ARGS_RUN);
    assert_int_equal(args.command, CLUSTER_COMMAND_VERSION);
}

static int forget_printed(void **state)
{
    (void)state;
    free(printed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_fills_the_request),
        cmocka_unit_test(shuffle_fills_the_request),
        cmocka_unit_test(what_is_not_given_is_as_the_table_says),
        cmocka_unit_test(a_relation_is_by_itself_as_the_table_says),
        cmocka_unit_test(relative_paths_become_absolute),
        cmocka_unit_test(the_coordinator_comes_from_words_then_environment),
        cmocka_unit_test(texts_of_null_add_up),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(a_text_may_be_too_long),
        cmocka_unit_test(a_folder_may_have_too_long_a_name),
        cmocka_unit_test(a_wrong_word_keeps_json),
        cmocka_unit_test(help_is_sane),
        cmocka_unit_test(version_has_two_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, forget_printed);
}
