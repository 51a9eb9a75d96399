/* A control connection: messages with length and checksum (cluster/link/frame.h), over a non-blocking TCP socket
 * (TCP_NODELAY), for an epoll loop. With a key both ends first prove that they have it (net/proof/proof.h): until then
 * no message is looked at, and those that are sent wait. Without one nothing is said in front of the messages.
 *
 * The loop registers cluster_link_fd with cluster_link_interest, calls cluster_link_ready when epoll says so, then
 * takes messages with cluster_link_receive until BASE_BUSY. After a call that may send, the interest may have changed.
 * Nothing here blocks or looks at a clock. */
#ifndef MILLRACE_CLUSTER_LINK_LINK_H
#define MILLRACE_CLUSTER_LINK_LINK_H

#include "cluster/protocol/codec.h"
#include "net/proof/key.h"

struct cluster_link;

/* What may wait to be sent on one link; beyond it the peer does not read and the link fails. Room for one message of
 * the largest size is always there. */
#define CLUSTER_LINK_QUEUE_BYTES_MAX (UINT64_C(128) << 20)
/* A link whose peer takes no byte of a waiting message for this long fails. */
#define CLUSTER_LINK_STALL_NS (UINT64_C(3) * 1000000000)
/* A message arrives whole within this, from its first byte to its last. */
#define CLUSTER_LINK_PART_NS (UINT64_C(30) * 1000000000)

/* Takes over a socket that a listener accepted (also on error: closed). Until cluster_link_trust no message may be
 * larger than a hello. key (NULL: none) is borrowed until close. How long a caller may take to prove it is up to the
 * loop. */
enum base_status cluster_link_adopt(int fd, const struct net_key *key, struct cluster_link **link,
                                    struct base_error *error);
/* Starts connecting; fails with BASE_TIMEOUT when the connection does not stand at deadline_ns, with the key (NULL:
 * none; borrowed until close) proved by both sides. Messages may be sent at once: they wait. Errors name the address.
 */
enum base_status cluster_link_connect(const struct net_address *address, const struct net_key *key,
                                      uint64_t deadline_ns, struct cluster_link **link, struct base_error *error);
/* The peer's hello or welcome was fine: messages up to CLUSTER_MESSAGE_BYTES_MAX are taken from now on. */
void cluster_link_trust(struct cluster_link *link);
void cluster_link_close(struct cluster_link *link);

int cluster_link_fd(const struct cluster_link *link);
/* EPOLLIN, EPOLLOUT. */
uint32_t cluster_link_interest(const struct cluster_link *link);
bool cluster_link_connected(const struct cluster_link *link);
/* True when the other side has the key, or none is needed. */
bool cluster_link_proved(const struct cluster_link *link);
/* "10.0.0.1:7400", of the other end. */
const char *cluster_link_peer(const struct cluster_link *link);

/* Moves bytes as far as the socket allows. Also call it when cluster_link_deadline_ns has passed. An error is the
 * link's end (BASE_PEER_CLOSED, BASE_PEER_RESET, BASE_TIMEOUT, ...), but whole messages that came before it can still
 * be received. */
enum base_status cluster_link_ready(struct cluster_link *link, uint64_t now_ns, struct base_error *error);
/* Next message; the caller frees it with cluster_message_free. BASE_BUSY: none now. BASE_PROTOCOL, BASE_VERSION,
 * BASE_TOO_LARGE: the link's end. So is BASE_DENIED: this side has a key that the other does not prove to have, or the
 * reverse. A peer that speaks without a key, and no other, can still be sent why it is refused. */
enum base_status cluster_link_receive(struct cluster_link *link, struct cluster_message *message,
                                      struct base_error *error);
/* Queues a message and sends what the socket takes at once. BASE_TOO_LARGE, BASE_NO_MEMORY: this message cannot be
 * sent, but others can. The link's end are BASE_TIMEOUT: the peer does not read, so that the queue is full; and
 * BASE_DENIED: as of cluster_link_receive. A broken socket is told by the next cluster_link_ready, not here. */
enum base_status cluster_link_send(struct cluster_link *link, const struct cluster_message *message, uint64_t now_ns,
                                   struct base_error *error);
/* True when all that was queued is the kernel's. */
bool cluster_link_flushed(const struct cluster_link *link);
/* When connecting, the proof of the key, a stalled send or a message in part fails; or UINT64_MAX. */
uint64_t cluster_link_deadline_ns(const struct cluster_link *link);

/* Blocking helper for clients: sends what waits and receives one message, at most until deadline_ns (base_clock_now_ns
 * time). */
enum base_status cluster_link_wait(struct cluster_link *link, uint64_t deadline_ns, struct cluster_message *message,
                                   struct base_error *error);

/* Fills a HELLO of this build for a client. It borrows static text only. */
void cluster_hello_fill(enum cluster_role role, struct cluster_message *message);

#endif
