/* The conformance suite under the options for experiments: each on a rung where it makes sense. */
#include <string.h>

#include "tests/net/conformance_cases.h"

static const char *const texts[] = {
    "uring-naive+coop-taskrun", "uring-bundle+sqpoll", "uring-multishot+napi=20us+min-wait=200us",
    "uring-bundle+incremental", "epoll-zc+zc-always",  "uring-send-zc+zc-always",
};

enum { TEXTS = sizeof texts / sizeof *texts };

/* Without huge pages on this machine, which is the rule, the engine says so and works all the same. */
static void huge_pages_are_used_or_missed_by_name(void **state)
{
    (void)state;
    struct bench_kind kind = *bench_kind_of(NET_ENGINE_URING_MULTISHOT);
    struct net_engine_config config = bench_config();
    struct base_error error;

    assert_int_equal(net_engine_choice_parse("uring-multishot+huge-pages", &kind.engine, &error), BASE_OK);
    struct bench *bench = bench_open(&kind, &config);
    struct net_engine *engine = bench->engines[BENCH_CLIENT];
    if (!strstr(net_engine_features(engine), "huge-pages")) {
        assert_non_null(strstr(net_engine_reason(engine), "no huge-pages: "));
        assert_non_null(strstr(net_engine_reason(engine), "vm.nr_hugepages"));
    } else {
        assert_string_equal(net_engine_reason(engine), "");
    }
    bench_close(bench);
}

static void what_is_in_force_is_said(void **state)
{
    const struct bench_kind *kinds = *state;
    struct net_engine_config config = bench_config();

    for (int i = 0; i < TEXTS; i++) {
        struct bench *bench = bench_open(&kinds[i], &config);
        struct net_engine *engine = bench->engines[BENCH_CLIENT];
        assert_string_equal(net_engine_reason(engine), "");
        for (int option = 0; option < NET_OPTION_COUNT; option++) {
            const char *word = net_option_word((enum net_option_index)option);
            assert_int_equal(strstr(net_engine_features(engine), word) != NULL, strstr(texts[i], word) != NULL);
        }
        assert_true(!strstr(net_engine_features(engine), "sqpoll") ||
                    !strstr(net_engine_features(engine), "defer-taskrun"));
        bench_close(bench);
    }
}

int main(void)
{
    static struct bench_kind kinds[TEXTS];
    const struct bench_kind *pointers[TEXTS];
    struct base_error error;

    for (int i = 0; i < TEXTS; i++) {
        kinds[i] = *bench_kind_of(NET_ENGINE_URING);
        kinds[i].name = texts[i];
        if (net_engine_choice_parse(texts[i], &kinds[i].engine, &error) != BASE_OK)
            return 1;
        pointers[i] = &kinds[i];
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_pages_are_used_or_missed_by_name),
        cmocka_unit_test_prestate(what_is_in_force_is_said, kinds),
    };
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0)
        return 1;
    return conformance_run(pointers, TEXTS);
}
