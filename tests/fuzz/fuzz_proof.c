/* The proof of a key: however the bytes are cut, one verdict; and nobody is believed whose code is not right.
 *
 * Input: a byte that chooses the role and the sizes of pieces, then the stream. Key and nonce are fixed, so the corpus
 * can hold conversations that succeed. */
#include <string.h>

#include "base/assert.h"
#include "net/proof/proof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct net_key *key;

static void open_proof(struct net_proof *proof, enum net_proof_role role)
{
    static const uint8_t secret[NET_KEY_BYTES] = {1};
    static const uint8_t nonce[NET_KEY_NONCE_BYTES] = {2};
    struct base_error error;
    if (!key)
        BASE_ASSERT(net_key_make(secret, &key, &error) == BASE_OK);
    net_proof_open(proof, key, role, NET_PROOF_CONTROL, nonce);
}

/* Of what a machine in PROVED took last: did it hold the one code that proves? */
static void check_proved(const struct net_proof *proof)
{
    struct {
        char label[24];
        uint8_t role, purpose, zero[6];
        uint8_t nonce[2][NET_KEY_NONCE_BYTES];
    } claim = {.label = "millrace cluster key 1",
               .role = proof->role == NET_PROOF_CALLER ? NET_PROOF_CALLEE : NET_PROOF_CALLER,
               .purpose = NET_PROOF_CONTROL};
    uint8_t mac[NET_KEY_MAC_BYTES];
    memcpy(claim.nonce, proof->nonce, sizeof claim.nonce);
    net_key_mac(key, &claim, sizeof claim, mac);
    BASE_ASSERT(memcmp(mac, proof->in + 40, sizeof mac) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const enum net_proof_role role = data[0] & 1 ? NET_PROOF_CALLEE : NET_PROOF_CALLER;
    const size_t piece = 1 + (data[0] >> 1);
    struct net_proof whole, cut;
    open_proof(&whole, role);
    open_proof(&cut, role);
    const size_t taken = net_proof_take(&whole, data + 1, size - 1);
    BASE_ASSERT(taken <= size - 1);
    size_t taken_cut = 0;
    for (size_t at = 1; at < size; at += piece)
        taken_cut += net_proof_take(&cut, data + at, size - at < piece ? size - at : piece);
    BASE_ASSERT(whole.state == cut.state && whole.why == cut.why && whole.out_bytes == cut.out_bytes);
    BASE_ASSERT(memcmp(whole.out, cut.out, whole.out_bytes) == 0);
    BASE_ASSERT((whole.state == NET_PROOF_FAILED) == (whole.why != NET_PROOF_WHY_NOTHING));
    if (whole.state != NET_PROOF_FAILED)
        BASE_ASSERT(taken == taken_cut && whole.in_bytes < NET_PROOF_MESSAGE_BYTES);
    if (whole.state == NET_PROOF_PROVED) {
        BASE_ASSERT(taken == (role == NET_PROOF_CALLER ? 1U : 2U) * NET_PROOF_MESSAGE_BYTES);
        check_proved(&whole);
    }
    return 0;
}
