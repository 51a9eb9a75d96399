/* How two ends of a connection prove to each other that they have the same key (net/proof/key.h), before either looks
 * at any other byte. Bytes in, bytes out: nothing here reads, writes, waits or knows the time.
 *
 *   caller                                             callee
 *   CHALLENGE  nonce C                            ->
 *                                                 <-   ANSWER  nonce S, MAC(key, "callee", purpose, C, S)
 *   PROOF      MAC(key, "caller", purpose, C, S)  ->
 *   ...        what the connection is for              ...
 *
 *  - Each code covers a fresh random number of the other side, so what was recorded proves nothing later (replay).
 *  - It covers who speaks and both numbers, so a message sent back to where it came from proves nothing (reflection),
 *    and the purpose, so a control connection cannot be talked into proving something for a data connection.
 *  - A callee says nothing about the key before it was asked, a caller nothing before the callee has proved itself.
 *  - Messages have one size; a state takes one message of one kind. Whatever else comes fails the connection, at its
 *    first wrong byte where that shows that the other side does not know this handshake at all.
 *
 * A side that finds the other wanting appends a REFUSAL with its reason, which proves nothing and is believed for
 * nothing but an error message. A side without a key answers a CHALLENGE with one too (net_proof_refuse). */
#ifndef MILLRACE_NET_PROOF_PROOF_H
#define MILLRACE_NET_PROOF_PROOF_H

#include "net/proof/key.h"

#define NET_PROOF_MAGIC UINT32_C(0x314b524d) /* "MRK1": as a length in front of a control message far too large */

enum { NET_PROOF_VERSION = 1, NET_PROOF_MESSAGE_BYTES = 72, NET_PROOF_MESSAGES_OUT = 2 };

enum net_proof_role { NET_PROOF_CALLER, NET_PROOF_CALLEE };
/* What the connection is for. */
enum net_proof_purpose { NET_PROOF_CONTROL = 1, NET_PROOF_DATA = 2 };

enum net_proof_state {
    NET_PROOF_CALLED,    /* caller: the challenge is out, waits for the answer */
    NET_PROOF_LISTENING, /* callee: waits for the challenge */
    NET_PROOF_ANSWERED,  /* callee: the answer is out, waits for the proof */
    NET_PROOF_PROVED,    /* the other side has the key */
    NET_PROOF_FAILED,    /* see why */
    NET_PROOF_STATES
};

/* X(name, what is wrong with the other side and what to do, to be read after its name) */
#define NET_PROOF_WHY_LIST(X)                                                                                          \
    X(NOTHING, "has the cluster's key")                                                                                \
    X(NO_KEY, "shows no key, which is needed here: start it with --key=FILE and a copy of this side's key file")       \
    X(OTHER_KEY, "has another key: give both sides copies of one key file")                                            \
    X(WANTS_NO_KEY, "has no key, but this side has: start it with --key=FILE too, or this side without")               \
    X(VERSION, "proves its key by other rules: run the same version of Millrace on both sides")                        \
    X(PURPOSE, "is there for another kind of connection: is that the right address and port?")                         \
    X(NONSENSE, "broke the rules of proving a key: is that Millrace?")

enum net_proof_why {
#define X(name, words) NET_PROOF_WHY_##name,
    NET_PROOF_WHY_LIST(X)
#undef X
        NET_PROOF_WHYS
};

/* Plain data, to be embedded. `in` and `out` are the machine's; out is only appended to, so what was handed to a kernel
 * stays where it is. */
struct net_proof {
    const struct net_key *key; /* borrowed */
    enum net_proof_role role;
    enum net_proof_purpose purpose;
    enum net_proof_state state;
    enum net_proof_why why;
    uint8_t nonce[2][NET_KEY_NONCE_BYTES]; /* by role */
    uint8_t in[NET_PROOF_MESSAGE_BYTES];
    uint8_t out[NET_PROOF_MESSAGES_OUT * NET_PROOF_MESSAGE_BYTES];
    uint32_t in_bytes, out_bytes;
    uint32_t out_sent; /* the user's: bytes of out that are being sent */
};

/* Begins; nonce is fresh from net_key_nonce and copied. A caller's challenge is in out. */
void net_proof_open(struct net_proof *proof, const struct net_key *key, enum net_proof_role role,
                    enum net_proof_purpose purpose, const uint8_t nonce[NET_KEY_NONCE_BYTES]);
/* Takes received bytes, as many as belong to the handshake (returned); what is after them in PROVED is the
 * connection's. Then look at state, and send what out has more. In FAILED nothing is taken any more. */
size_t net_proof_take(struct net_proof *proof, const uint8_t *bytes, size_t count);

/* Words such as "has another key: give both sides copies of one key file". */
const char *net_proof_words(enum net_proof_why why);
/* For a side without a key: the answer to a peer whose first bytes are NET_PROOF_MAGIC. */
void net_proof_refuse(enum net_proof_purpose purpose, uint8_t refusal[NET_PROOF_MESSAGE_BYTES]);

#endif
