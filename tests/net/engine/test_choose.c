/* What AUTO and URING are made of: a table of traffic and experience, and what must come of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "net/engine/choose.h"
#include "net/engine/rung.h"

#define GIB (UINT64_C(1) << 30)
/* Bytes of a row and of a message, connections, bytes expected on each; the chunks are left to be chosen. */
#define TRAFFIC(row, frame, count, each)                                                                               \
    {                                                                                                                  \
        .row_bytes = (row), .frame_bytes = (frame), .connections = (count), .connection_bytes = (each)                 \
    }

struct choice_case {
    const char *name;
    struct net_traffic traffic;
    struct net_experience experience;
    uint32_t missing;
    bool uring, multishot, zc;
    uint32_t chunk_bytes, chunk_count;
    const char *words;
};

static const struct net_engine_choice automatic = {.kind = NET_ENGINE_AUTO};

static const struct choice_case cases[] = {
    {.name = "first job: zero-copy is tried",
     .traffic = TRAFFIC(16, 64 << 10, 2, GIB),
     .uring = true,
     .multishot = true,
     .zc = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "zero-copy send is tried"},
    {.name = "the kernel copied: off",
     .traffic = TRAFFIC(16, 64 << 10, 2, GIB),
     .experience = {.zc_sends = 100, .zc_copied = 100},
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "zero-copy send is off: of 100 so far the kernel copied 100; connections that gave up: "},
    {.name = "no memory to account for it: connections gave it up",
     .traffic = TRAFFIC(16, 64 << 10, 2, GIB),
     .experience = {.zc_off = 2},
     .uring = true,
     .multishot = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "of 0 so far the kernel copied 0; connections that gave up: 2"},
    {.name = "half copied is not most",
     .traffic = TRAFFIC(16, 8 << 10, 2, GIB),
     .experience = {.zc_sends = 100, .zc_copied = 50},
     .uring = true,
     .multishot = true,
     .zc = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "zero-copy send works"},
    {.name = "too few sends to know",
     .traffic = TRAFFIC(16, 8 << 10, 2, GIB),
     .experience = {.zc_sends = 3, .zc_copied = 3},
     .uring = true,
     .multishot = true,
     .zc = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "is tried"},
    {.name = "a card, large messages: one-shot",
     .traffic = TRAFFIC(4096, 64 << 10, 2, GIB),
     .experience = {.zc_sends = 1000, .zc_copied = 1},
     .uring = true,
     .multishot = false,
     .zc = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "one-shot receive"},
    {.name = "a card, messages below 13 KiB: multishot",
     .traffic = TRAFFIC(64, 12 << 10, 2, GIB),
     .experience = {.zc_sends = 1000, .zc_copied = 1},
     .uring = true,
     .multishot = true,
     .zc = true,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "multishot receive"},
    {.name = "a small job does not pin memory",
     .traffic = TRAFFIC(16, 64 << 10, 2, 1000),
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "too little to send"},
    {.name = "many connections: more chunks, the same memory",
     .traffic = TRAFFIC(16, 64 << 10, 60, GIB),
     .experience = {.zc_sends = 100, .zc_copied = 100},
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 16 << 10,
     .chunk_count = 128,
     .words = "over 60 connections"},
    {.name = "starved: more chunks",
     .traffic = TRAFFIC(16, 64 << 10, 5, GIB),
     .experience = {.zc_sends = 100, .zc_copied = 100, .receives = 5000, .receive_starved = 1000},
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 32 << 10,
     .chunk_count = 64,
     .words = "64 chunks of 32 KiB"},
    {.name = "one busy connection that fills its chunks: larger ones",
     .traffic = TRAFFIC(4096, 64 << 10, 1, GIB),
     .experience =
         {.zc_sends = 100, .zc_copied = 100, .receives = 5000, .received_bytes = 99, .receive_capacity_bytes = 100},
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 128 << 10,
     .chunk_count = 16,
     .words = "16 chunks of 128 KiB"},
    {.name = "less than a row for each: no message is smaller than a row",
     .traffic = TRAFFIC(16, 64 << 10, 5, 4),
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "for rows of 16 B in messages of 16 B"},
    {.name = "no zero-copy send",
     .traffic = TRAFFIC(16, 64 << 10, 2, GIB),
     .missing = NET_FEATURE_SEND_ZC,
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "no zero-copy send here"},
    {.name = "no io_uring",
     .traffic = TRAFFIC(16, 64 << 10, 2, GIB),
     .missing = NET_FEATURE_URING,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "epoll"},
    {.name = "one node",
     .traffic = TRAFFIC(16, 64 << 10, 0, GIB),
     .uring = true,
     .multishot = true,
     .zc = false,
     .chunk_bytes = 64 << 10,
     .chunk_count = 32,
     .words = "no connection"},
};

static void every_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct choice_case *the = &cases[i];
        struct net_chosen chosen;
        net_choose(&automatic, &the->traffic, &the->experience, the->missing, &chosen);
        if (((chosen.features & NET_FEATURE_URING) != 0) != the->uring ||
            ((chosen.features & NET_FEATURE_MULTISHOT) != 0) != the->multishot ||
            ((chosen.features & NET_FEATURE_SEND_ZC) != 0) != the->zc || chosen.chunk_bytes != the->chunk_bytes ||
            chosen.chunk_count != the->chunk_count || !strstr(chosen.why, the->words))
            fail_msg("%s: features %x, %u chunks of %u, \"%s\"", the->name, chosen.features, chosen.chunk_count,
                     chosen.chunk_bytes, chosen.why);
        assert_int_equal(chosen.features & the->missing, 0);
    }
}

static void what_was_asked_for_wins(void **state)
{
    (void)state;
    const struct net_traffic traffic = {16, 64 << 10, 60, GIB, .chunk_bytes = 4096, .chunk_count = 2};
    const struct net_experience experience = {0};
    struct net_chosen chosen;
    net_choose(&automatic, &traffic, &experience, 0, &chosen);
    assert_int_equal(chosen.chunk_bytes, 4096);
    assert_int_equal(chosen.chunk_count, 2);
    assert_non_null(strstr(chosen.why, "2 chunks of 4 KiB"));
}

/* What is needed by an option that was named is not chosen away. */
static void an_option_keeps_what_it_needs(void **state)
{
    (void)state;
    const struct net_engine_choice choice = {.kind = NET_ENGINE_URING, .options = NET_FEATURE_INCREMENTAL};
    const struct net_traffic traffic = {4096, 64 << 10, 2, GIB, 0, 0};
    const struct net_experience experience = {.zc_sends = 1000, .zc_copied = 1};
    struct net_chosen chosen;
    net_choose(&choice, &traffic, &experience, 0, &chosen);
    assert_true(chosen.features & NET_FEATURE_MULTISHOT);
    assert_non_null(strstr(chosen.why, "multishot receive"));
}

static void named_rungs_are_left_alone(void **state)
{
    (void)state;
    const struct net_traffic traffic = {16, 64 << 10, 60, GIB, 0, 0};
    const struct net_experience experience = {.zc_sends = 1000};
    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++) {
        struct net_chosen chosen;
        if (kind == NET_ENGINE_AUTO || kind == NET_ENGINE_URING)
            continue;
        net_choose(&(struct net_engine_choice){.kind = (enum net_engine_kind)kind}, &traffic, &experience, 0, &chosen);
        assert_int_equal(chosen.features, 0);
        assert_string_equal(chosen.why, "");
        assert_int_equal(chosen.chunk_bytes, NET_CHUNK_BYTES);
        assert_int_equal(chosen.chunk_count, NET_CHUNK_COUNT);
    }
}

/* The longest numbers fit the sentence. */
static void the_longest_sentence_is_whole(void **state)
{
    (void)state;
    const struct net_traffic traffic = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX};
    const struct net_experience experience = {.zc_sends = UINT64_MAX, .zc_copied = UINT64_MAX, .zc_off = UINT64_MAX};
    struct net_chosen chosen;
    net_choose(&(struct net_engine_choice){.kind = NET_ENGINE_URING}, &traffic, &experience, 0, &chosen);
    static const char end[] = "connections that gave up: 18446744073709551615";
    const size_t length = strlen(chosen.why);
    assert_string_equal(chosen.why + length - strlen(end), end);
}

static void receiving_is_forgotten_soon_sending_later(void **state)
{
    (void)state;
    struct net_experience experience = {.zc_sends = 100,
                                        .zc_copied = 90,
                                        .zc_off = 9,
                                        .receives = 80,
                                        .received_bytes = 60,
                                        .receive_capacity_bytes = 40,
                                        .receive_starved = 20};
    net_experience_age(&experience);
    assert_int_equal(experience.zc_sends, 100);
    assert_int_equal(experience.zc_copied, 90);
    assert_int_equal(experience.receives, 40);
    assert_int_equal(experience.received_bytes, 30);
    assert_int_equal(experience.receive_capacity_bytes, 20);
    assert_int_equal(experience.receive_starved, 10);
    for (int job = 2; job < NET_EXPERIENCE_JOBS; job++)
        net_experience_age(&experience);
    assert_int_equal(experience.zc_copied, 90);
    net_experience_age(&experience);
    assert_int_equal(experience.zc_sends, 0);
    assert_int_equal(experience.zc_copied, 0);
    assert_int_equal(experience.zc_off, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case),
                                       cmocka_unit_test(what_was_asked_for_wins),
                                       cmocka_unit_test(named_rungs_are_left_alone),
                                       cmocka_unit_test(an_option_keeps_what_it_needs),
                                       cmocka_unit_test(the_longest_sentence_is_whole),
                                       cmocka_unit_test(receiving_is_forgotten_soon_sending_later)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
