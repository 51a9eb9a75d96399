/* The proof of a key: who is believed, and above all who is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "net/proof/proof.h"

enum { MESSAGE = NET_PROOF_MESSAGE_BYTES };

static struct net_key *right, *wrong;
static uint8_t next_nonce = 1;

static void begin(struct net_proof *proof, const struct net_key *key, enum net_proof_role role)
{
    uint8_t nonce[NET_KEY_NONCE_BYTES];
    memset(nonce, next_nonce++, sizeof nonce);
    net_proof_open(proof, key, role, NET_PROOF_CONTROL, nonce);
}

/* Everything that `from` has to say and has not said goes to `to`, in pieces. */
static void pass(struct net_proof *from, struct net_proof *to, uint32_t piece)
{
    while (from->out_sent < from->out_bytes) {
        const uint32_t count = (uint32_t)base_min_u64(piece, from->out_bytes - from->out_sent);
        net_proof_take(to, from->out + from->out_sent, count);
        from->out_sent += count;
    }
}

static void converse(struct net_proof *caller, struct net_proof *callee, uint32_t piece)
{
    for (int i = 0; i < 3; i++) {
        pass(caller, callee, piece);
        pass(callee, caller, piece);
    }
}

static void expect_failed(const struct net_proof *proof, enum net_proof_why why)
{
    assert_int_equal(proof->state, NET_PROOF_FAILED);
    assert_int_equal(proof->why, why);
}

static void one_key_proves(void **state)
{
    (void)state;
    for (uint32_t piece = 1; piece <= 2 * MESSAGE; piece++) {
        struct net_proof caller, callee;
        begin(&caller, right, NET_PROOF_CALLER);
        begin(&callee, right, NET_PROOF_CALLEE);
        assert_int_equal(callee.out_bytes, 0); /* who is called waits to be asked */
        converse(&caller, &callee, piece);
        assert_int_equal(caller.state, NET_PROOF_PROVED);
        assert_int_equal(callee.state, NET_PROOF_PROVED);
        assert_int_equal(caller.out_bytes, 2 * MESSAGE);
        assert_int_equal(callee.out_bytes, MESSAGE);
    }
}

static void what_follows_is_left_alone(void **state)
{
    (void)state;
    struct net_proof caller, callee;
    uint8_t stream[MESSAGE + 5] = {0};
    begin(&caller, right, NET_PROOF_CALLER);
    begin(&callee, right, NET_PROOF_CALLEE);
    pass(&caller, &callee, MESSAGE);
    pass(&callee, &caller, MESSAGE);
    memcpy(stream, caller.out + MESSAGE, MESSAGE);
    assert_int_equal(net_proof_take(&callee, stream, sizeof stream), MESSAGE);
    assert_int_equal(callee.state, NET_PROOF_PROVED);
    assert_int_equal(net_proof_take(&callee, stream, sizeof stream), 0);
}

/* Both hear that keys differ, and neither has proved anything. */
static void two_keys_do_not(void **state)
{
    (void)state;
    struct net_proof caller, callee;
    begin(&caller, right, NET_PROOF_CALLER);
    begin(&callee, wrong, NET_PROOF_CALLEE);
    converse(&caller, &callee, MESSAGE);
    expect_failed(&caller, NET_PROOF_WHY_OTHER_KEY);
    expect_failed(&callee, NET_PROOF_WHY_OTHER_KEY);
}

static void a_caller_without_a_key(void **state)
{
    (void)state;
    static const char *const firsts[] = {"M", "MR", "MRK", "\x20\0\0\0\x0a\x10", "GET / HTTP/1.1", "MRP1\1\0\0\0"};
    static const size_t counts[] = {1, 2, 3, 6, 14, 8};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        struct net_proof callee;
        begin(&callee, right, NET_PROOF_CALLEE);
        net_proof_take(&callee, (const uint8_t *)firsts[i], counts[i]);
        if (i < 3)
            assert_int_equal(callee.state, NET_PROOF_LISTENING); /* may still become one */
        else
            expect_failed(&callee, NET_PROOF_WHY_NO_KEY);
        assert_int_equal(callee.out_bytes, 0);
    }
}

static void a_callee_without_a_key(void **state)
{
    (void)state;
    struct net_proof caller;
    uint8_t refusal[MESSAGE];
    begin(&caller, right, NET_PROOF_CALLER);
    net_proof_refuse(NET_PROOF_CONTROL, refusal);
    assert_int_equal(net_proof_take(&caller, refusal, MESSAGE), MESSAGE);
    expect_failed(&caller, NET_PROOF_WHY_WANTS_NO_KEY);
    assert_int_equal(caller.out_bytes, MESSAGE); /* the challenge, and nothing that proves */
}

/* A recorded conversation proves nothing to a later one, in either direction. */
static void replay(void **state)
{
    (void)state;
    struct net_proof caller, callee, again;
    begin(&caller, right, NET_PROOF_CALLER);
    begin(&callee, right, NET_PROOF_CALLEE);
    converse(&caller, &callee, MESSAGE);
    begin(&again, right, NET_PROOF_CALLEE);
    net_proof_take(&again, caller.out, caller.out_bytes);
    expect_failed(&again, NET_PROOF_WHY_OTHER_KEY);
    begin(&again, right, NET_PROOF_CALLER);
    net_proof_take(&again, callee.out, callee.out_bytes);
    expect_failed(&again, NET_PROOF_WHY_OTHER_KEY);
}

/* What one says does not come back as what another says: neither to itself, nor in the other role. */
static void reflection(void **state)
{
    (void)state;
    struct net_proof caller, callee;
    begin(&caller, right, NET_PROOF_CALLER);
    net_proof_take(&caller, caller.out, caller.out_bytes);
    expect_failed(&caller, NET_PROOF_WHY_NONSENSE);
    begin(&callee, right, NET_PROOF_CALLEE);
    begin(&caller, right, NET_PROOF_CALLER);
    pass(&caller, &callee, MESSAGE);
    net_proof_take(&callee, callee.out, callee.out_bytes);
    expect_failed(&callee, NET_PROOF_WHY_NONSENSE);
    /* The callee's code, dressed as the caller's. */
    uint8_t dressed[MESSAGE];
    begin(&callee, right, NET_PROOF_CALLEE);
    begin(&caller, right, NET_PROOF_CALLER);
    pass(&caller, &callee, MESSAGE);
    memcpy(dressed, caller.out, MESSAGE);
    dressed[5] = 3; /* PROOF */
    memcpy(dressed + 40, callee.out + 40, NET_KEY_MAC_BYTES);
    net_proof_take(&callee, dressed, MESSAGE);
    expect_failed(&callee, NET_PROOF_WHY_OTHER_KEY);
}

/* A conversation that somebody in between changes at one bit: at least the one who hears it fails. A bit that is not
 * looked at may pass. */
static void a_changed_bit(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 3 * MESSAGE * 8; bit++) {
        const uint32_t turn = bit / (MESSAGE * 8), at = bit / 8 % MESSAGE;
        const uint8_t flip = (uint8_t)(1 << bit % 8);
        struct net_proof caller, callee;
        begin(&caller, right, NET_PROOF_CALLER);
        begin(&callee, right, NET_PROOF_CALLEE);
        if (turn == 0)
            caller.out[at] ^= flip;
        pass(&caller, &callee, MESSAGE);
        if (turn == 1)
            callee.out[at] ^= flip;
        pass(&callee, &caller, MESSAGE);
        if (turn == 2)
            caller.out[MESSAGE + at] ^= flip;
        pass(&caller, &callee, MESSAGE);
        const bool looked_at = at < 7 || (turn < 2 && at >= 8 && at < 40) || (turn > 0 && at >= 40);
        const bool proved = caller.state == NET_PROOF_PROVED && callee.state == NET_PROOF_PROVED;
        assert_int_equal(proved, !looked_at);
    }
}

static void cut_anywhere(void **state)
{
    (void)state;
    for (uint32_t cut = 0; cut < 2 * MESSAGE; cut++) {
        struct net_proof caller, callee;
        begin(&caller, right, NET_PROOF_CALLER);
        begin(&callee, right, NET_PROOF_CALLEE);
        pass(&caller, &callee, MESSAGE);
        pass(&callee, &caller, MESSAGE);
        struct net_proof late;
        begin(&late, right, NET_PROOF_CALLEE);
        net_proof_take(&late, caller.out, cut);
        assert_int_equal(late.state, cut < MESSAGE ? NET_PROOF_LISTENING : NET_PROOF_ANSWERED);
        begin(&caller, right, NET_PROOF_CALLER);
        net_proof_take(&caller, callee.out, cut < MESSAGE ? cut : MESSAGE - 1);
        assert_int_equal(caller.state, NET_PROOF_CALLED);
    }
}

static void another_purpose_or_version(void **state)
{
    (void)state;
    struct net_proof caller, callee;
    uint8_t nonce[NET_KEY_NONCE_BYTES] = {9};
    net_proof_open(&caller, right, NET_PROOF_CALLER, NET_PROOF_DATA, nonce);
    begin(&callee, right, NET_PROOF_CALLEE);
    converse(&caller, &callee, 7);
    expect_failed(&callee, NET_PROOF_WHY_PURPOSE);
    expect_failed(&caller, NET_PROOF_WHY_PURPOSE);
    /* A code for one purpose, dressed as one for another. */
    struct net_proof data;
    begin(&caller, right, NET_PROOF_CALLER);
    net_proof_open(&data, right, NET_PROOF_CALLEE, NET_PROOF_DATA, nonce);
    uint8_t dressed[MESSAGE];
    memcpy(dressed, caller.out, MESSAGE);
    dressed[6] = NET_PROOF_DATA;
    net_proof_take(&data, dressed, MESSAGE);
    assert_int_equal(data.state, NET_PROOF_ANSWERED);
    memcpy(dressed, data.out, MESSAGE);
    dressed[6] = NET_PROOF_CONTROL;
    net_proof_take(&caller, dressed, MESSAGE);
    expect_failed(&caller, NET_PROOF_WHY_OTHER_KEY);
    /* Another version says so at its fifth byte, and is told so. */
    begin(&caller, right, NET_PROOF_CALLER);
    begin(&callee, right, NET_PROOF_CALLEE);
    caller.out[4] = 2;
    net_proof_take(&callee, caller.out, 5);
    expect_failed(&callee, NET_PROOF_WHY_VERSION);
    pass(&callee, &caller, MESSAGE);
    expect_failed(&caller, NET_PROOF_WHY_VERSION);
}

/* Whatever comes and however it is cut: no proof, no byte out of bounds (sanitizers), one verdict. */
static void garbage(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 5);
    for (int i = 0; i < 20000; i++) {
        struct net_proof whole, cut;
        uint8_t nonce[NET_KEY_NONCE_BYTES] = {1}, bytes[3 * MESSAGE];
        const enum net_proof_role role = i % 2 ? NET_PROOF_CALLER : NET_PROOF_CALLEE;
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)base_random_next(&random);
        const uint32_t magic = NET_PROOF_MAGIC;
        for (size_t at = 0; at < sizeof bytes && i % 8; at += MESSAGE) {
            memcpy(bytes + at, &magic, sizeof magic);
            bytes[at + 4] = NET_PROOF_VERSION;
            bytes[at + 5] %= 6;
            bytes[at + 6] = NET_PROOF_CONTROL;
        }
        net_proof_open(&whole, right, role, NET_PROOF_CONTROL, nonce);
        net_proof_open(&cut, right, role, NET_PROOF_CONTROL, nonce);
        net_proof_take(&whole, bytes, sizeof bytes);
        for (size_t at = 0; at < sizeof bytes; at++)
            net_proof_take(&cut, bytes + at, 1);
        assert_int_equal(whole.state, NET_PROOF_FAILED);
        assert_int_equal(cut.state, NET_PROOF_FAILED);
        assert_int_equal(whole.why, cut.why);
        assert_int_equal(whole.out_bytes, cut.out_bytes);
    }
}

static void every_failure_has_words(void **state)
{
    (void)state;
    for (int why = -1; why <= NET_PROOF_WHYS; why++)
        assert_true(strlen(net_proof_words((enum net_proof_why)why)) > 10);
}

/* The fuzzer's corpus: a byte that says who hears it (0: a caller, 1: a callee), and what the other side says to a key
 * and a nonce that the fuzzer has too. After a change of the handshake, run this test once with MILLRACE_CORPUS_WRITE=1
 * and commit what it wrote. */
static void corpus_file(const char *name, uint8_t hearer, const uint8_t *bytes, size_t count)
{
    char path[512];
    uint8_t kept[512], wanted[512];
    assert_true(count < sizeof wanted);
    wanted[0] = hearer;
    memcpy(wanted + 1, bytes, count);
    snprintf(path, sizeof path, "%s/%s", MILLRACE_CORPUS, name);
    FILE *file = fopen(path, getenv("MILLRACE_CORPUS_WRITE") ? "w+b" : "rb");
    if (!file)
        fail_msg("%s is missing", path);
    if (getenv("MILLRACE_CORPUS_WRITE")) {
        assert_int_equal(fwrite(wanted, 1, count + 1, file), count + 1);
        rewind(file);
    }
    if (fread(kept, 1, sizeof kept, file) != count + 1 || memcmp(kept, wanted, count + 1) != 0)
        fail_msg("%s is not the sample any more: write it again (MILLRACE_CORPUS_WRITE=1)", path);
    fclose(file);
}

static void the_corpus_is_current(void **state)
{
    (void)state;
    const uint8_t secret[NET_KEY_BYTES] = {1}, fuzzers[NET_KEY_NONCE_BYTES] = {2}, others[NET_KEY_NONCE_BYTES] = {3};
    struct net_key *key;
    struct base_error error;
    struct net_proof caller, callee;
    uint8_t refusal[MESSAGE];
    assert_int_equal(net_key_make(secret, &key, &error), BASE_OK);
    net_proof_open(&caller, key, NET_PROOF_CALLER, NET_PROOF_CONTROL, fuzzers);
    net_proof_open(&callee, key, NET_PROOF_CALLEE, NET_PROOF_CONTROL, others);
    converse(&caller, &callee, MESSAGE);
    assert_int_equal(caller.state, NET_PROOF_PROVED);
    corpus_file("ANSWER", 0, callee.out, callee.out_bytes);
    net_proof_open(&caller, key, NET_PROOF_CALLER, NET_PROOF_CONTROL, others);
    net_proof_open(&callee, key, NET_PROOF_CALLEE, NET_PROOF_CONTROL, fuzzers);
    converse(&caller, &callee, MESSAGE);
    assert_int_equal(callee.state, NET_PROOF_PROVED);
    corpus_file("CHALLENGE_PROOF", 1, caller.out, caller.out_bytes);
    net_proof_open(&caller, key, NET_PROOF_CALLER, NET_PROOF_CONTROL, others);
    net_proof_open(&callee, right, NET_PROOF_CALLEE, NET_PROOF_CONTROL, fuzzers);
    converse(&caller, &callee, MESSAGE);
    assert_int_equal(caller.state, NET_PROOF_FAILED);
    corpus_file("CHALLENGE_REFUSAL", 1, caller.out, caller.out_bytes);
    net_proof_refuse(NET_PROOF_CONTROL, refusal);
    corpus_file("REFUSAL", 0, refusal, sizeof refusal);
    corpus_file("NO_KEY", 1, (const uint8_t *)"MRP1\1\0\0\0", 8);
    net_key_close(key);
}

static int make_keys(void **state)
{
    (void)state;
    struct base_error error;
    uint8_t bytes[NET_KEY_BYTES] = {1, 2, 3};
    if (net_key_make(bytes, &right, &error) != BASE_OK)
        return -1;
    bytes[31] = 1;
    return net_key_make(bytes, &wrong, &error) == BASE_OK ? 0 : -1;
}

static int close_keys(void **state)
{
    (void)state;
    net_key_close(right);
    net_key_close(wrong);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_proves),
        cmocka_unit_test(what_follows_is_left_alone),
        cmocka_unit_test(two_keys_do_not),
        cmocka_unit_test(a_caller_without_a_key),
        cmocka_unit_test(a_callee_without_a_key),
        cmocka_unit_test(replay),
        cmocka_unit_test(reflection),
        cmocka_unit_test(a_changed_bit),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(another_purpose_or_version),
        cmocka_unit_test(garbage),
        cmocka_unit_test(every_failure_has_words),
        cmocka_unit_test(the_corpus_is_current),
    };
    return cmocka_run_group_tests(tests, make_keys, close_keys);
}
