#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "net/proof/proof.h"
#include "shuffle/mesh/preamble.h"

/* Workers 0 and 1 are of this node, 2 and 3 of another; worker 1 is called by worker 3. */
static const struct shuffle_mesh_config here = {
    .job = 7, .token = {1, 2, 3}, .workers = 4, .worker = 1, .local_first = 0, .local_count = 2};
static const struct shuffle_mesh_config there = {
    .job = 7, .token = {1, 2, 3}, .workers = 4, .worker = 3, .local_first = 2, .local_count = 2};

static const char *check(const struct shuffle_preamble *preamble)
{
    static char text[SHUFFLE_PREAMBLE_TEXT_BYTES];
    return shuffle_preamble_check(&here, preamble, text);
}

static struct shuffle_preamble made(void)
{
    struct shuffle_preamble preamble;
    shuffle_preamble_fill(&there, 1, &preamble);
    return preamble;
}

static void a_worker_of_another_node_is_known(void **state)
{
    (void)state;
    const struct shuffle_preamble preamble = made();
    assert_null(check(&preamble));
}

static void another_protocol_is_refused_with_both_numbers(void **state)
{
    (void)state;
    struct shuffle_preamble preamble = made();
    preamble.protocol = 1; /* what version 0.1.0 said */
    char ours[BASE_BUILD_TEXT_BYTES], wanted[SHUFFLE_PREAMBLE_TEXT_BYTES];
    snprintf(wanted, sizeof wanted,
             "speaks protocol 00000001, and this is millrace %s: install one build of Millrace on all machines",
             base_build_describe(ours));
    assert_string_equal(check(&preamble), wanted);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at; /* of a byte that is another one */
        const char *words;
    } cases[] = {
        {offsetof(struct shuffle_preamble, magic), "does not speak this protocol"},
        {offsetof(struct shuffle_preamble, job), "token"},
        {offsetof(struct shuffle_preamble, token) + SHUFFLE_TOKEN_BYTES - 1, "token"},
        {offsetof(struct shuffle_preamble, destination), "another worker"},
        {offsetof(struct shuffle_preamble, source), "no worker of another node"}, /* 3 ^ 2 is of this node */
        {offsetof(struct shuffle_preamble, source) + 3, "no worker of another node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shuffle_preamble preamble = made();
        ((uint8_t *)&preamble)[cases[i].at] ^= 2;
        assert_non_null(check(&preamble));
        if (!strstr(check(&preamble), cases[i].words))
            fail_msg("'%s' does not say '%s'", check(&preamble), cases[i].words);
    }
    struct shuffle_preamble proof = made();
    proof.magic = NET_PROOF_MAGIC;
    assert_string_equal(check(&proof), "it proves a key, and this daemon has none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_of_another_node_is_known),
        cmocka_unit_test(another_protocol_is_refused_with_both_numbers),
        cmocka_unit_test(strangers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
