#include "net/proof/proof.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum proof_kind { PROOF_CHALLENGE = 1, PROOF_ANSWER, PROOF_PROOF, PROOF_REFUSAL, PROOF_KINDS };

/* On the wire, little-endian; what a kind does not use is zero and not looked at. */
struct proof_message {
    uint32_t magic;
    uint8_t version, kind, purpose;
    uint8_t reason; /* of a REFUSAL: enum net_proof_why, as the sender sees it */
    uint8_t nonce[NET_KEY_NONCE_BYTES];
    uint8_t mac[NET_KEY_MAC_BYTES];
};
_Static_assert(sizeof(struct proof_message) == NET_PROOF_MESSAGE_BYTES, "message is 72 bytes on the wire");
_Static_assert(offsetof(struct proof_message, version) == 4 && offsetof(struct proof_message, nonce) == 8 &&
                   offsetof(struct proof_message, mac) == 40,
               "message layout");

enum { PROOF_HEAD_BYTES = offsetof(struct proof_message, kind) }; /* what all versions begin with */

/* What is authenticated. */
struct proof_claim {
    char label[24];
    uint8_t role, purpose, zero[6];
    uint8_t nonce[2][NET_KEY_NONCE_BYTES];
};
_Static_assert(sizeof(struct proof_claim) == 32 + 2 * NET_KEY_NONCE_BYTES, "no padding is authenticated");

#define PROOF_LABEL "millrace cluster key 1"
_Static_assert(sizeof PROOF_LABEL <= sizeof((struct proof_claim *)0)->label, "label fits");

static const char *const words[NET_PROOF_WHYS] = {
#define X(name, text) text,
    NET_PROOF_WHY_LIST(X)
#undef X
};

const char *net_proof_words(enum net_proof_why why)
{
    return (unsigned)why < NET_PROOF_WHYS ? words[why] : "failed for no known reason";
}

/* The code by which role proves that it has the key. */
static void proof_mac(const struct net_proof *proof, enum net_proof_role role, uint8_t mac[NET_KEY_MAC_BYTES])
{
    BASE_ASSERT(proof->key && (role == NET_PROOF_CALLER || role == NET_PROOF_CALLEE));
    struct proof_claim claim = {.label = PROOF_LABEL, .role = (uint8_t)role, .purpose = (uint8_t)proof->purpose};
    memcpy(claim.nonce, proof->nonce, sizeof claim.nonce);
    net_key_mac(proof->key, &claim, sizeof claim, mac);
}

static bool peer_proves(const struct net_proof *proof, const struct proof_message *message)
{
    const enum net_proof_role peer = proof->role == NET_PROOF_CALLER ? NET_PROOF_CALLEE : NET_PROOF_CALLER;
    uint8_t mac[NET_KEY_MAC_BYTES];
    proof_mac(proof, peer, mac);
    return net_key_mac_equal(mac, message->mac);
}

static struct proof_message message_make(enum proof_kind kind, enum net_proof_purpose purpose)
{
    return (struct proof_message){
        .magic = NET_PROOF_MAGIC, .version = NET_PROOF_VERSION, .kind = (uint8_t)kind, .purpose = (uint8_t)purpose};
}

static void proof_say(struct net_proof *proof, const struct proof_message *message)
{
    BASE_ASSERT(proof->out_bytes + sizeof *message <= sizeof proof->out);
    memcpy(proof->out + proof->out_bytes, message, sizeof *message);
    proof->out_bytes += (uint32_t)sizeof *message;
}

void net_proof_refuse(enum net_proof_purpose purpose, uint8_t refusal[NET_PROOF_MESSAGE_BYTES])
{
    struct proof_message message = message_make(PROOF_REFUSAL, purpose);
    message.reason = NET_PROOF_WHY_WANTS_NO_KEY;
    memcpy(refusal, &message, sizeof message);
}

/* The peer is told where it can understand it. */
static void proof_fail(struct net_proof *proof, enum net_proof_why why, bool tell)
{
    /* A side that has proved that it has the key stays so: what comes after is the connection's. */
    BASE_ASSERT(proof->state != NET_PROOF_PROVED && proof->state != NET_PROOF_FAILED && why != NET_PROOF_WHY_NOTHING);
    proof->state = NET_PROOF_FAILED;
    proof->why = why;
    if (!tell)
        return;
    struct proof_message message = message_make(PROOF_REFUSAL, proof->purpose);
    message.reason = (uint8_t)why;
    proof_say(proof, &message);
}

/* Steps: a message of the kind that the state waits for. */

static void on_challenge(struct net_proof *proof, const struct proof_message *message)
{
    BASE_ASSERT(proof->role == NET_PROOF_CALLEE && proof->state == NET_PROOF_LISTENING); /* it answers once */
    memcpy(proof->nonce[NET_PROOF_CALLER], message->nonce, NET_KEY_NONCE_BYTES);
    struct proof_message answer = message_make(PROOF_ANSWER, proof->purpose);
    memcpy(answer.nonce, proof->nonce[NET_PROOF_CALLEE], NET_KEY_NONCE_BYTES);
    proof_mac(proof, NET_PROOF_CALLEE, answer.mac);
    proof_say(proof, &answer);
    proof->state = NET_PROOF_ANSWERED;
}

static void on_answer(struct net_proof *proof, const struct proof_message *message)
{
    BASE_ASSERT(proof->role == NET_PROOF_CALLER && proof->state == NET_PROOF_CALLED);
    memcpy(proof->nonce[NET_PROOF_CALLEE], message->nonce, NET_KEY_NONCE_BYTES);
    if (!peer_proves(proof, message)) {
        proof_fail(proof, NET_PROOF_WHY_OTHER_KEY, true);
        return;
    }
    struct proof_message answer = message_make(PROOF_PROOF, proof->purpose);
    proof_mac(proof, NET_PROOF_CALLER, answer.mac);
    proof_say(proof, &answer);
    proof->state = NET_PROOF_PROVED;
}

static void on_proof(struct net_proof *proof, const struct proof_message *message)
{
    BASE_ASSERT(proof->role == NET_PROOF_CALLEE && proof->state == NET_PROOF_ANSWERED); /* both nonces are there */
    if (peer_proves(proof, message))
        proof->state = NET_PROOF_PROVED;
    else
        proof_fail(proof, NET_PROOF_WHY_OTHER_KEY, true);
}

static void on_refusal(struct net_proof *proof, const struct proof_message *message)
{
    const bool known = message->reason > NET_PROOF_WHY_NOTHING && message->reason < NET_PROOF_WHYS;
    proof_fail(proof, known ? (enum net_proof_why)message->reason : NET_PROOF_WHY_NONSENSE, false);
}

typedef void proof_step(struct net_proof *proof, const struct proof_message *message);

/* By state and kind; what is not here breaks the rules. */
static proof_step *const steps[NET_PROOF_STATES][PROOF_KINDS] = {
    [NET_PROOF_CALLED] = {[PROOF_ANSWER] = on_answer, [PROOF_REFUSAL] = on_refusal},
    [NET_PROOF_LISTENING] = {[PROOF_CHALLENGE] = on_challenge},
    [NET_PROOF_ANSWERED] = {[PROOF_PROOF] = on_proof, [PROOF_REFUSAL] = on_refusal},
};

/* Is what has come of a message so far the beginning of one? If not, the machine has failed. */
static bool beginning_fits(struct net_proof *proof)
{
    const uint32_t magic = NET_PROOF_MAGIC;
    const uint32_t count = proof->in_bytes < sizeof magic ? proof->in_bytes : (uint32_t)sizeof magic;
    if (memcmp(proof->in, &magic, count) != 0)
        proof_fail(proof, proof->state == NET_PROOF_ANSWERED ? NET_PROOF_WHY_NONSENSE : NET_PROOF_WHY_NO_KEY, false);
    else if (proof->in_bytes >= PROOF_HEAD_BYTES && proof->in[4] != NET_PROOF_VERSION)
        proof_fail(proof, NET_PROOF_WHY_VERSION, true);
    return proof->state != NET_PROOF_FAILED;
}

static void message_come(struct net_proof *proof)
{
    struct proof_message message;
    BASE_ASSERT(proof->in_bytes == sizeof message);
    memcpy(&message, proof->in, sizeof message);
    proof->in_bytes = 0;
    proof_step *const step = message.kind < PROOF_KINDS ? steps[proof->state][message.kind] : NULL;
    if (!step)
        proof_fail(proof, NET_PROOF_WHY_NONSENSE, false);
    else if (message.purpose != proof->purpose)
        proof_fail(proof, NET_PROOF_WHY_PURPOSE, message.kind != PROOF_REFUSAL);
    else
        step(proof, &message);
}

void net_proof_open(struct net_proof *proof, const struct net_key *key, enum net_proof_role role,
                    enum net_proof_purpose purpose, const uint8_t nonce[NET_KEY_NONCE_BYTES])
{
    *proof = (struct net_proof){.key = key,
                                .role = role,
                                .purpose = purpose,
                                .state = role == NET_PROOF_CALLER ? NET_PROOF_CALLED : NET_PROOF_LISTENING};
    memcpy(proof->nonce[role], nonce, NET_KEY_NONCE_BYTES);
    if (role == NET_PROOF_CALLEE)
        return;
    struct proof_message challenge = message_make(PROOF_CHALLENGE, purpose);
    memcpy(challenge.nonce, nonce, NET_KEY_NONCE_BYTES);
    proof_say(proof, &challenge);
}

size_t net_proof_take(struct net_proof *proof, const uint8_t *bytes, size_t count)
{
    size_t taken = 0;
    while (taken < count && proof->state != NET_PROOF_PROVED && proof->state != NET_PROOF_FAILED) {
        BASE_ASSERT(proof->in_bytes < NET_PROOF_MESSAGE_BYTES); /* a whole message was looked at */
        const size_t some = base_min_u64(count - taken, NET_PROOF_MESSAGE_BYTES - proof->in_bytes);
        memcpy(proof->in + proof->in_bytes, bytes + taken, some);
        proof->in_bytes += (uint32_t)some;
        taken += some;
        if (beginning_fits(proof) && proof->in_bytes == NET_PROOF_MESSAGE_BYTES)
            message_come(proof);
    }
    return taken;
}
