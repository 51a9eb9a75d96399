/* The command line: what words become, and what is refused with which words. */
#include "cluster/options/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/link/listen_policy.h"
#include "cluster/options/options.h"
#include "cluster/options/value.h"
#include "tests/cluster/options/words.h"

static void join_fills_the_request(void **state)
{
    (void)state;
    const struct cluster_submit *submit =
        words_take("join --left /a.csv --right=local:/b/*.tsv --on a=b --select left.a --json");
    assert_int_equal(words.args.command, CLUSTER_COMMAND_JOIN);
    assert_true(words.args.json);
    assert_int_equal(submit->kind, CLUSTER_KIND_JOIN);
    assert_int_equal(submit->source_count, 2);
    assert_string_equal(submit->source[1].text, "local:/b/*.tsv");
    assert_string_equal(submit->on, "a=b");
    assert_string_equal(submit->select, "left.a");
    words_free();
}

static void shuffle_fills_the_request(void **state)
{
    (void)state;
    assert_int_equal(words_parse("--json shuffle --in gen:rows=10 --by key,payload --into table"), CLUSTER_ARGS_RUN);
    assert_int_equal(words.args.command, CLUSTER_COMMAND_SHUFFLE);
    assert_true(words.args.json);
    assert_int_equal(words.args.submit.kind, CLUSTER_KIND_SHUFFLE);
    assert_int_equal(words.args.submit.source_count, 1);
    assert_string_equal(words.args.submit.source[0].text, "gen:rows=10");
    assert_string_equal(words.args.submit.on, "key,payload");
    assert_true(words.args.submit.into_table);
    assert_int_equal(words.args.submit.output, SHUFFLE_OUTPUT_COUNT);
    assert_null(words.args.submit.out);
    words_free();

    assert_int_equal(words_parse("shuffle --in /a.csv --by k --delimiter tab --out /o"), CLUSTER_ARGS_RUN);
    assert_int_equal(words.args.submit.source[0].delimiter, '\t');
    assert_int_equal(words.args.submit.output, SHUFFLE_OUTPUT_CSV);
    words_free();
}

/* What was not given is in the request as the table says it, in every command. */
static void what_is_not_given_is_as_the_table_says(void **state)
{
    (void)state;
    static const char *const lines[] = {"join --left /a --right /b --on a=b --out /o",
                                        "shuffle --in /a --by k --out /o", "bisect"};
    int count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(words_parse(lines[i]), CLUSTER_ARGS_RUN);
        const struct option_command *command = &client_program.command[words.args.command];
        for (const struct option_group *group = command->group; group->row; group++)
            for (const struct option_row *row = group->row; row->name; row++) {
                struct cluster_client_args expected = {0};
                if (!row->preset)
                    continue;
                assert_int_equal(row->read(row, row->preset, &expected, &words.error), BASE_OK);
                if (memcmp(option_field(row, &words.args), option_field(row, &expected), row->bytes) != 0)
                    fail_msg("%s without --%s is not as with --%s=%s", lines[i], row->name, row->name, row->preset);
                count++;
            }
        words_free();
    }
    assert_true(count > 20);
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
    assert_int_equal(words_parse("join --left a.csv --right local:d/b*.csv --on a=b --out o"), CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.submit.source[0].text, expected[0]);
    assert_string_equal(words.args.submit.source[1].text, expected[1]);
    assert_string_equal(words.args.submit.out, expected[2]);
    words_free();
    free(here);
}

static void the_coordinator_comes_from_words_then_environment(void **state)
{
    (void)state;
    unsetenv("MILLRACE_COORDINATOR");
    assert_int_equal(words_parse("nodes"), CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.coordinator, CLUSTER_COORDINATOR_DEFAULT);
    setenv("MILLRACE_COORDINATOR", "10.0.0.1:7400", 1);
    assert_int_equal(words_parse("jobs"), CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.coordinator, "10.0.0.1:7400");
    assert_int_equal(words_parse("--coordinator 10.0.0.2:1 jobs"), CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.coordinator, "10.0.0.2:1");
    assert_int_equal(words_parse("jobs --coordinator 10.0.0.3:1"), CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.coordinator, "10.0.0.3:1");
    unsetenv("MILLRACE_COORDINATOR");
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
        {"join --left a --right b --on k=k --type inne", "(did you mean \"inner\"?)"},
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
        {"shuffle --in /a --by k --into table --out /o", "choose one"},
        {"shuffle --in /a --by k --into file", "table"},
        {"shuffle --by k", "--in=SOURCE is missing"},
        {"join --left /a --left /b --right /c --on a=b", "--left is given twice, with \"/a\" and \"/b\""},
        {"shuffle --in /a --by k --by l", "--by is given twice"},
        {"shuffle --in /a --in /b --by k", "--in is given twice"},
        {"--coordinator a:1 nodes --coordinator b:1", "--coordinator is given twice, with \"a:1\" and \"b:1\""},
        {"join --left /a --right /b --on a=b --select=", "--select has an empty value"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        words_refuse(lines[i][0], lines[i][1]);
}

/* The coordinator would not take such a request, and close. */
static void a_text_may_be_too_long(void **state)
{
    (void)state;
    static char long_text[CLUSTER_TEXT_BYTES_MAX + 2], program[] = "millrace", command[] = "shuffle";
    static char in[] = "--in=/a", by[] = "--by=k", select[] = "--select";
    memset(long_text, 'k', CLUSTER_TEXT_BYTES_MAX + 1);
    char *argv[] = {program, command, in, by, select, long_text, NULL};
    assert_int_equal(cluster_client_args_parse(6, argv, stderr, &words.args, &words.error), CLUSTER_ARGS_WRONG);
    assert_string_equal(words.error.text,
                        "--select=kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk... has 65537 bytes, at most 65536 are "
                        "allowed: make it shorter");
    long_text[CLUSTER_TEXT_BYTES_MAX] = '\0';
    assert_int_equal(cluster_client_args_parse(6, argv, stderr, &words.args, &words.error), CLUSTER_ARGS_RUN);
    words_free();
}

static void a_wrong_word_keeps_json(void **state)
{
    (void)state;
    words_refuse("join --frob --json", "--frob");
    assert_true(words.args.json);
    assert_int_equal(words.args.command, CLUSTER_COMMAND_JOIN);
    words_refuse("join --frob", "--frob");
    assert_false(words.args.json);
}

/* Every command tells of itself within 80 columns, without a cluster and without checking other words. */
static void help_is_sane(void **state)
{
    (void)state;
    static const char *const lines[] = {"--help",      "join --help",    "shuffle -h",           "nodes --help",
                                        "jobs --help", "version --help", "join --left /a --help"};
    static const char *const common[] = {"Usage: millrace", "--json", "--coordinator=ADDRESS", "--help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(words_parse(lines[i]), CLUSTER_ARGS_DONE);
        for (size_t k = 0; k < sizeof common / sizeof *common; k++)
            if (!strstr(words.printed, common[k]))
                fail_msg("millrace %s does not mention %s", lines[i], common[k]);
        char *rest = NULL, *copy = strdup(words.printed);
        for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            if (strlen(line) > 88) /* the words of gen: stay in one piece */
                fail_msg("millrace %s has a long line: %s", lines[i], line);
        free(copy);
    }
    assert_int_equal(words_parse("--help"), CLUSTER_ARGS_DONE);
#define X(name, word, about) assert_non_null(strstr(words.printed, "  " word " "));
    CLUSTER_COMMAND_LIST(X)
#undef X
    assert_int_equal(words_parse("join --help"), CLUSTER_ARGS_DONE);
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
        if (!strstr(words.printed, options[i]))
            fail_msg("join --help does not mention %s", options[i]);
    assert_null(strstr(words.printed, "--by="));
}

static void version_has_two_spellings(void **state)
{
    (void)state;
    assert_int_equal(words_parse("version"), CLUSTER_ARGS_RUN);
    assert_int_equal(words.args.command, CLUSTER_COMMAND_VERSION);
    assert_int_equal(words_parse("--version"), CLUSTER_ARGS_RUN);
    assert_int_equal(words.args.command, CLUSTER_COMMAND_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_fills_the_request),
        cmocka_unit_test(shuffle_fills_the_request),
        cmocka_unit_test(what_is_not_given_is_as_the_table_says),
        cmocka_unit_test(relative_paths_become_absolute),
        cmocka_unit_test(the_coordinator_comes_from_words_then_environment),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(a_text_may_be_too_long),
        cmocka_unit_test(a_wrong_word_keeps_json),
        cmocka_unit_test(help_is_sane),
        cmocka_unit_test(version_has_two_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, words_forget);
}
