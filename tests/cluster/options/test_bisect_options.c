/* The options of `millrace bisect`: what words become, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/bisect_racks.h"
#include "tests/cluster/options/words.h"

static void words_fill_the_request(void **state)
{
    (void)state;
    const struct cluster_submit *submit =
        words_take("bisect --seconds 0.25 --cuts 7 --streams 3 --socket nodelay=off "
                   "--engine epoll,uring-bundle --link-rate 1gbit,n2=5mbit --html /h");
    assert_int_equal(submit->kind, CLUSTER_KIND_BISECT);
    assert_int_equal(submit->bisect.duration_ns, 250 * BASE_NS_PER_MS);
    assert_int_equal(submit->bisect.cuts, CLUSTER_BISECT_COUNT);
    assert_int_equal(submit->bisect.cut_count, 7);
    assert_int_equal(submit->bisect.streams, 3);
    assert_true(submit->settings.socket.nagle);
    assert_int_equal(words.args.bisect.engine_count, 2);
    assert_int_equal(words.args.bisect.engine[0].kind, NET_ENGINE_EPOLL);
    assert_int_equal(words.args.bisect.engine[1].kind, NET_ENGINE_URING_BUNDLE);
    assert_string_equal(words.args.bisect.link_rate, "1gbit,n2=5mbit");
    assert_string_equal(words.args.bisect.html, "/h");
    words_free();
    submit = words_take("bisect --cuts minimum");
    assert_int_equal(submit->bisect.cuts, CLUSTER_BISECT_LEAST);
    assert_int_equal(submit->bisect.duration_ns, BASE_NS_PER_S);
    assert_int_equal(words.args.bisect.engine_count, 1);
    assert_int_equal(words.args.bisect.engine[0].kind, NET_ENGINE_AUTO);
    words_free();
    submit = words_take("bisect --cuts all");
    assert_int_equal(submit->bisect.cuts, CLUSTER_BISECT_ALL);
    assert_int_equal(submit->bisect.cut_count, 0);
    words_free();
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"bisect --cuts minimun", "(did you mean \"minimum\"?)"},
        {"bisect --seconds 0", "--seconds=0 is out of range: it goes from 0.05 to 60"},
        {"bisect --racks /", "--racks=/ cannot be read: Is a directory"},
        {"bisect --seconds 61", "--seconds=61 is out of range: it goes from 0.05 to 60"},
        {"bisect --seconds 1s", "--seconds=1s is not a number: write seconds from 0.05 to 60"},
        {"bisect --seconds nan", "--seconds=nan is out of range"},
        {"bisect --cuts 0", "choose all, minimum, or a number from 1 to 100000"},
        {"bisect --streams 0", "--streams=0 is out of range: it goes from 1 to 65536"},
        {"bisect --engine epoll,fast", "--engine=epoll,fast: "},
        {"bisect --link-rate fast", "fast"},
        {"bisect --racks /no/such/file", "--racks=/no/such/file cannot be read: No such file"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        words_refuse(lines[i][0], lines[i][1]);
}

static void racks_come_from_a_file(void **state)
{
    (void)state;
    struct cluster_bisect_request request = {0};
    struct base_error error;
    char path[] = "/tmp/millrace-racks-XXXXXX";
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fputs("# hosts\r\nn1 cores=4 rack=left # first\n\nn2\tcores=2\nn3 rack=right cores=1", file);
    fclose(file);
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(bisect_racks_read(path, &request, &error), BASE_OK);
        assert_int_equal(request.rack_count, 2);
        assert_string_equal(request.rack[0].node, "n1");
        assert_string_equal(request.rack[0].rack, "left");
        assert_string_equal(request.rack[1].rack, "right");
    }
    file = fopen(path, "w");
    fputs("n1 rack=", file);
    fclose(file);
    assert_int_equal(bisect_racks_read(path, &request, &error), BASE_PARSE);
    assert_non_null(strstr(error.text, "line 1"));
    remove(path);
    assert_int_equal(bisect_racks_read(path, &request, &error), BASE_NOT_FOUND);
    assert_int_equal(request.rack_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_fill_the_request),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(racks_come_from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, words_forget);
}
