/* Output, execution and tuning of join and shuffle: what words become, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/options.h"
#include "tests/cluster/options/words.h"

#define JOIN "join --left /a --right /b --on a=b "

static void words_fill_the_request(void **state)
{
    (void)state;
    const struct cluster_submit *submit =
        words_take(JOIN "--out /o --output-format bin --engine epoll --verify --frame-bytes 64Ki --frames-per-lane 3 "
                        "--chunk-bytes 32Ki --chunks 16 --socket send-buffer=1M,nodelay=off --morsel-bytes 8Mi "
                        "--report /r");
    assert_string_equal(words.args.report, "/r");
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
    words_free();
}

/* Nothing is written without --out; with it CSV is. */
static void the_output_goes_by_out(void **state)
{
    (void)state;
    const struct cluster_submit *submit = words_take("shuffle --in /a --by k");
    assert_null(submit->out);
    assert_int_equal(submit->output, SHUFFLE_OUTPUT_COUNT);
    assert_false(submit->settings.verify);
    assert_null(words.args.report);
    words_free();
    submit = words_take("shuffle --in /a --by k --out /o");
    assert_int_equal(submit->output, SHUFFLE_OUTPUT_CSV);
    words_free();
}

/* 0 is what holds without the option: the planner chooses. */
static void zero_leaves_the_choice_to_the_planner(void **state)
{
    (void)state;
    const struct cluster_submit *submit =
        words_take(JOIN "--frame-bytes 0 --frames-per-lane 0 --chunk-bytes 0 --chunks 0 --morsel-bytes 0");
    assert_int_equal(submit->settings.frame_bytes, 0);
    assert_int_equal(submit->settings.frames_per_lane, 0);
    assert_int_equal(submit->settings.recv_chunk_bytes, 0);
    assert_int_equal(submit->settings.recv_chunk_count, 0);
    assert_int_equal(submit->settings.morsel_bytes, 0);
    words_free();
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"join --left a --right b --on k=k --out x --output-format cvs",
         "(did you mean \"csv\"?): choose one of csv, bin"},
        {"join --left a --right b --on k=k --engine epol", "(did you mean \"epoll\"?)"},
        {"join --left a --right b --on k=k --socket nodelya=on", "(did you mean \"nodelay\"?)"},
        {"join --left /a --right /b --on a=b --engine fast", "auto, epoll, "},
        {"join --left /a --right /b --on a=b --frame-bytes 4095", "4096"},
        {"join --left /a --right /b --on a=b --frame-bytes 2Mi", "1048576"},
        {"join --left /a --right /b --on a=b --frame-bytes 5000000000", "out of range"},
        {"join --left /a --right /b --on a=b --frame-bytes 99999999999999999999",
         "is not a number from 4096 to 1048576, or 0"},
        {"join --left /a --right /b --on a=b --chunks many", "is not a number from 1 to 32768"},
        {"join --left /a --right /b --on a=b --chunks -1", "is not a number"},
        {"join --left /a --right /b --on a=b --output-format csv", "add --out"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        words_refuse(lines[i][0], lines[i][1]);
}

static void a_folder_may_have_too_long_a_name(void **state)
{
    (void)state;
    static char line[1024] = "shuffle --in /a --by k --out /o/";
    const size_t bytes = strlen(line);
    memset(line + bytes, 'x', 256);
    words_refuse(line, "has 256 bytes, at most 255 are allowed");
    line[bytes + 255] = '\0';
    assert_int_equal(words_parse(line), CLUSTER_ARGS_RUN);
    words_free();
    static char out[5000], program[] = "millrace", command[] = "shuffle", in[] = "--in=/a", by[] = "--by=k";
    char *argv[] = {program, command, in, by, out, NULL};
    strcpy(out, "--out=");
    for (size_t at = strlen(out); at < 4000; at++)
        out[at] = at % 2 ? 'x' : '/';
    assert_int_equal(cluster_client_args_parse(5, argv, stderr, &words.args, &words.error), CLUSTER_ARGS_WRONG);
    assert_non_null(strstr(words.error.text, "has 3994 bytes as a whole path, at most 3839 are allowed"));
    memset(out + 4000, 'x', 500);
    assert_int_equal(cluster_client_args_parse(5, argv, stderr, &words.args, &words.error), CLUSTER_ARGS_WRONG);
    assert_non_null(strstr(words.error.text, "has 4494 bytes, at most 4095 are allowed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_fill_the_request),
        cmocka_unit_test(the_output_goes_by_out),
        cmocka_unit_test(zero_leaves_the_choice_to_the_planner),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(a_folder_may_have_too_long_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, words_forget);
}
