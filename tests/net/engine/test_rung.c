/* Choices of an engine as text: what is read, what is refused and with which words, and that nothing is lost between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/engine/ops.h"
#include "net/engine/rung.h"

struct good {
    const char *text, *canonical; /* NULL: the text itself */
};

static const struct good good[] = {
    {"auto", NULL},
    {"epoll", NULL},
    {"uring", NULL},
    {"uring-naive", NULL},
    {"uring-naive+coop-taskrun", NULL},
    {"epoll-zc+zc-always", NULL},
    {"uring-send-zc+zc-always+napi", "uring-send-zc+napi=50us+zc-always"},
    {"uring-naive+sqpoll", NULL},
    {"uring-defer+sqpoll", NULL},
    {"uring-bundle+incremental", NULL},
    {"uring+napi", "uring+napi=50us"},
    {"uring+napi=50us", NULL},
    {"uring+napi=7", "uring+napi=7us"},
    {"uring+napi=1000000us", NULL},
    {"uring-fixed+min-wait=1us", NULL},
    {"uring-bundle+huge-pages+min-wait=200+napi", "uring-bundle+napi=50us+min-wait=200us+huge-pages"},
    {"uring-multishot+huge-pages+min-wait=1000000us+napi=1000000us+sqpoll",
     "uring-multishot+sqpoll+napi=1000000us+min-wait=1000000us+huge-pages"},
};

static const struct {
    const char *text, *words;
} bad[] = {
    {"", "there is no engine \"\""},
    {"urin", "there is no engine \"urin\" (did you mean \"uring\"?): choose one of auto, epoll"},
    {"uringx", "there is no engine \"uringx\""},
    {"URING", "there is no engine \"URING\""},
    {" uring", "there is no engine \" uring\""},
    {"+napi", "there is no engine \"\""},
    {"uring+", "there is no engine option \"\""},
    {"uring+sqpol", "option \"sqpol\" (did you mean \"sqpoll\"?): options after"},
    {"uring++napi", "there is no engine option \"\""},
    {"uring+turbo", "there is no engine option \"turbo\": options after NAME+ are sqpoll, coop-taskrun, "
                    "incremental, napi"},
    {"uring+sqpoll ", "there is no engine option \"sqpoll \""},
    {"uring+napi=10us+napi=20us", "the engine option napi is there twice"},
    {"uring+sqpoll=1", "the engine option sqpoll takes no value"},
    {"uring+huge-pages=", "the engine option huge-pages takes no value"},
    {"uring+min-wait", "the engine option min-wait takes a time of 1 to 1000000 microseconds"},
    {"uring+min-wait=", "takes a time"},
    {"uring+min-wait=0", "takes a time"},
    {"uring+min-wait=us", "takes a time"},
    {"uring+min-wait=5ms", "takes a time"},
    {"uring+min-wait=-5us", "takes a time"},
    {"uring+min-wait=1000001", "takes a time"},
    {"uring+min-wait=99999999999999999999us", "takes a time"},
    {"uring+napi=", "the engine option napi takes a time"},
    {"uring+napi=50usx", "takes a time"},
    {"auto+sqpoll", "auto takes no options, because it may choose epoll: name a rung, as in uring+sqpoll"},
    {"epoll+sqpoll", "sqpoll is an option of io_uring, which epoll does not use"},
    {"epoll+min-wait=10us", "min-wait is an option of io_uring"},
    {"epoll+napi", "napi is an option of io_uring"},
    {"epoll+zc-always", "epoll sends with a copy, so there is nothing that zc-always could keep on"},
    {"uring-bundle+zc-always", "choose epoll-zc or uring-send-zc"},
    {"epoll-zc+huge-pages+zc-always", "huge-pages is an option of io_uring"},
    {"epoll+huge-pages", "huge-pages is an option of io_uring"},
    {"uring-naive+sqpoll+coop-taskrun", "sqpoll and coop-taskrun exclude each other"},
    {"uring-fixed+incremental", "incremental is about provided buffers, which uring-fixed does not use"},
    {"uring-recv-zc+incremental", "which uring-recv-zc does not use"},
    {"uring-defer+coop-taskrun", "uring-defer defers task work already"},
    {"uring-recv-zc+sqpoll", "uring-recv-zc needs deferred task work, which sqpoll replaces"},
    {"uring+coop-taskrun", "uring defers task work already, which goes further than coop-taskrun"},
};

static void good_texts_are_read_and_written_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct net_engine_choice choice, again;
        struct base_error error;
        char text[NET_CHOICE_TEXT_BYTES];

        if (net_engine_choice_parse(good[i].text, &choice, &error) != BASE_OK)
            fail_msg("%s: %s", good[i].text, error.text);
        net_engine_choice_format(&choice, text);
        assert_string_equal(text, good[i].canonical ? good[i].canonical : good[i].text);
        assert_int_equal(net_engine_choice_parse(text, &again, &error), BASE_OK);
        assert_true(net_engine_choice_equal(&choice, &again));
        assert_int_equal(net_engine_choice_check(&choice, &error), BASE_OK);
    }
}

static void bad_texts_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct net_engine_choice choice = {.kind = NET_ENGINE_KIND_COUNT};
        struct base_error error = {0};

        assert_int_equal(net_engine_choice_parse(bad[i].text, &choice, &error), BASE_INVALID);
        if (!strstr(error.text, bad[i].words))
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].text, error.text, bad[i].words);
        assert_int_equal(choice.kind, NET_ENGINE_KIND_COUNT); /* outputs are written on success only */
    }
}

/* Every rung with every set of options: either it is refused, or its text reads back as itself. */
static void every_combination_is_refused_or_survives(void **state)
{
    (void)state;
    uint32_t accepted = 0;

    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++) {
        for (unsigned set = 0; set < 1U << NET_OPTION_COUNT; set++) {
            struct net_engine_choice choice = {.kind = (enum net_engine_kind)kind}, again;
            struct base_error error = {0};
            char text[NET_CHOICE_TEXT_BYTES];

            for (int option = 0; option < NET_OPTION_COUNT; option++)
                if (set & 1U << option)
                    choice.options |= (uint32_t)net_option_feature((enum net_option_index)option);
            if (choice.options & NET_FEATURE_NAPI)
                choice.option_us[NET_OPTION_INDEX_NAPI] = NET_OPTION_US_MAX;
            if (choice.options & NET_FEATURE_MIN_WAIT)
                choice.option_us[NET_OPTION_INDEX_MIN_WAIT] = NET_OPTION_US_MAX;
            net_engine_choice_format(&choice, text);
            assert_int_equal(net_engine_choice_parse(text, &again, &error), net_engine_choice_check(&choice, &error));
            if (net_engine_choice_check(&choice, &error) != BASE_OK)
                continue;
            assert_true(net_engine_choice_equal(&choice, &again));
            accepted++;
        }
    }
    assert_true(accepted > NET_ENGINE_KIND_COUNT);
}

/* From a peer or a caller, not from a text. */
static void numbers_that_no_text_gives_are_refused(void **state)
{
    (void)state;
    const struct net_engine_choice choices[] = {
        {.kind = NET_ENGINE_KIND_COUNT},
        {.kind = NET_ENGINE_URING, .options = NET_FEATURE_BUNDLE},
        {.kind = NET_ENGINE_URING, .options = 1U << 31},
        {.kind = NET_ENGINE_URING, .options = NET_FEATURE_NAPI},
        {.kind = NET_ENGINE_URING, .option_us[NET_OPTION_INDEX_NAPI] = 5},
        {.kind = NET_ENGINE_URING, .options = NET_FEATURE_SQPOLL, .option_us[NET_OPTION_INDEX_SQPOLL] = 5},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct base_error error = {0};
        assert_int_equal(net_engine_choice_check(&choices[i], &error), BASE_INVALID);
        assert_true(strlen(error.text) > 0);
    }
}

static void different_choices_are_not_equal(void **state)
{
    (void)state;
    const char *const texts[] = {"uring", "uring-naive", "uring+napi", "uring+napi=51us", "uring+min-wait=50us"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    struct net_engine_choice choices[TEXTS];
    struct base_error error;

    for (int i = 0; i < TEXTS; i++)
        assert_int_equal(net_engine_choice_parse(texts[i], &choices[i], &error), BASE_OK);
    for (int i = 0; i < TEXTS; i++)
        for (int k = 0; k < TEXTS; k++)
            assert_int_equal(net_engine_choice_equal(&choices[i], &choices[k]), i == k);
}

static void features_follow_the_choice(void **state)
{
    (void)state;
    struct net_engine_choice choice;
    struct base_error error;

    assert_int_equal(net_engine_choice_parse("uring-defer+sqpoll", &choice, &error), BASE_OK);
    assert_int_equal(net_engine_choice_features(&choice),
                     NET_FEATURE_URING | NET_FEATURE_BATCHED_SUBMIT | NET_FEATURE_SQPOLL);
    assert_int_equal(net_engine_choice_parse("uring-bundle", &choice, &error), BASE_OK);
    assert_int_equal(net_engine_choice_features(&choice), net_rung_features(NET_ENGINE_URING_BUNDLE));
    assert_int_equal(net_rung_features(NET_ENGINE_AUTO), net_rung_features(NET_ENGINE_URING));
    /* Each rung on io_uring keeps what the one before has; only registered receive memory goes when buffers are
     * provided, and what goes with provided buffers when the card has an area instead. */
    const uint32_t replaced[NET_ENGINE_KIND_COUNT] = {
        [NET_ENGINE_URING_MULTISHOT] = NET_FEATURE_REGISTERED_BUFFERS,
        [NET_ENGINE_URING_RECV_ZC] = NET_FEATURE_BUNDLE,
    };
    for (int kind = NET_ENGINE_URING_DEFER; kind < NET_ENGINE_URING; kind++) {
        const uint32_t before = net_rung_features((enum net_engine_kind)(kind - 1));
        const uint32_t lost = before & ~net_rung_features((enum net_engine_kind)kind);
        assert_int_equal(lost, replaced[kind]);
    }
}

/* Locked memory, open files, capabilities and the kernel's age may all stand in the way at once: each cause is told. */
static void every_reason_is_told(void **state)
{
    (void)state;
    struct net_engine engine = {.features = UINT32_MAX};
    const uint32_t missed = net_rung_features(NET_ENGINE_URING_RECV_ZC) | NET_FEATURE_NAPI | NET_FEATURE_HUGE_PAGES;
    for (uint32_t left = missed & ~(uint32_t)NET_FEATURE_URING; left != 0; left &= left - 1)
        net_engine_miss(&engine, (enum net_feature)(left & -left),
                        "no memory is left that this user may lock: raise ulimit -l");
    net_engine_note(&engine, "the last word");
    assert_non_null(strstr(engine.reason, "; no huge-pages: no memory"));
    assert_non_null(strstr(engine.reason, "ulimit -l; the last word"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_are_read_and_written_again),
        cmocka_unit_test(bad_texts_are_refused_with_the_reason),
        cmocka_unit_test(every_combination_is_refused_or_survives),
        cmocka_unit_test(numbers_that_no_text_gives_are_refused),
        cmocka_unit_test(different_choices_are_not_equal),
        cmocka_unit_test(features_follow_the_choice),
        cmocka_unit_test(every_reason_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
