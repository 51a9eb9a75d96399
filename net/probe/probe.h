/* What the running kernel gives to this process, found by trying each thing once, never by its version: a distribution
 * adds features to old kernels, and a policy takes them from new ones. Version numbers appear only in the words about
 * what is missing.
 *
 * Everything is tried on the calling thread with rings, sockets (over the loopback interface) and memory of its own,
 * which are gone when the call returns. Every wait has a limit; all of it takes well below a second, but where a kernel
 * does not answer. */
#ifndef MILLRACE_NET_PROBE_PROBE_H
#define MILLRACE_NET_PROBE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, word, area, what it is, first Linux that has it). In the order of reading; the first one decides about all
 * others of io_uring. */
#define NET_PROBE_LIST(X)                                                                                              \
    X(URING, "io-uring", SETUP, "an io_uring at all", "5.1")                                                           \
    X(DEFER_TASKRUN, "defer-taskrun", SETUP, "task work when the ring's only issuer asks for it", "6.1")               \
    X(DISABLED_START, "disabled-start", SETUP, "a ring opened by one thread, owned by another", "5.10")                \
    X(SUBMIT_ALL, "submit-all", SETUP, "one bad entry does not stop a batch", "5.18")                                  \
    X(TASKRUN_FLAG, "taskrun-flag", SETUP, "pending task work is announced", "5.19")                                   \
    X(CLAMP, "clamp", SETUP, "ring sizes clamped to what is allowed", "5.6")                                           \
    X(ENGINE_RING, "engine-ring", SETUP, "a ring of the size that a worker needs", "6.1")                              \
    X(COOP_TASKRUN, "coop-taskrun", SETUP, "task work without interrupting the thread", "5.19")                        \
    X(SQPOLL, "sqpoll", SETUP, "a kernel thread that submits", "5.11")                                                 \
    X(CQE32, "cqe32", SETUP, "completions of 32 bytes", "5.19")                                                        \
    X(CQE_MIXED, "cqe-mixed", SETUP, "completions of 16 and 32 bytes in one ring", "6.18")                             \
    X(NO_SQARRAY, "no-sqarray", SETUP, "submission without an index array", "6.6")                                     \
    X(REGISTERED_RING, "registered-ring", REGISTER, "the ring's own descriptor registered", "5.18")                    \
    X(REGISTERED_FILES, "registered-files", REGISTER, "a sparse table of descriptors", "5.19")                         \
    X(REGISTERED_BUFFERS, "registered-buffers", REGISTER, "memory registered for fixed sends", "5.1")                  \
    X(BUFFER_RING, "buffer-ring", REGISTER, "a ring of provided receive buffers", "5.19")                              \
    X(RESIZE, "resize", REGISTER, "a ring that grows", "6.13")                                                         \
    X(WAIT_REGION, "wait-region", REGISTER, "registered wait arguments", "6.13")                                       \
    X(MIN_WAIT, "min-wait", REGISTER, "waiting for a batch or a short time", "6.12")                                   \
    X(NAPI, "napi", REGISTER, "busy polling of the network card by the ring", "6.9")                                   \
    X(MSG_RING, "msg-ring", REGISTER, "messages from ring to ring", "5.18")                                            \
    X(MULTISHOT_ACCEPT, "multishot-accept", RECEIVE, "one request accepts many connections", "5.19")                   \
    X(MULTISHOT_RECEIVE, "multishot-receive", RECEIVE, "one request serves many receives", "6.0")                      \
    X(BUNDLE, "bundle", RECEIVE, "several buffers in one completion, in order", "6.10")                                \
    X(INCREMENTAL, "incremental", RECEIVE, "buffers consumed piece by piece, in order", "6.12")                        \
    X(RECV_ZC, "recv-zc", RECEIVE, "zero-copy receive from a queue of a card", "6.15")                                 \
    X(RECV_ZC_COPY, "recv-zc-copy", RECEIVE, "zero-copy receive's interface, copying, on any card", "7.0")             \
    X(SEND_ZC, "send-zc", SEND, "zero-copy send", "6.0")                                                               \
    X(SEND_ZC_FIXED, "send-zc-fixed", SEND, "zero-copy send from registered memory", "6.0")                            \
    X(SENDMSG_ZC, "sendmsg-zc", SEND, "zero-copy send of several segments", "6.1")                                     \
    X(MSG_ZEROCOPY, "msg-zerocopy", SEND, "zero-copy send without io_uring", "4.14")                                   \
    X(EPOLL_PWAIT2, "epoll-pwait2", OTHER, "epoll timeouts in nanoseconds", "5.11")                                    \
    X(HUGE_PAGES, "huge-pages", OTHER, "memory of reserved huge pages", "2.6.32")

enum net_probe_id {
#define X(name, word, area, about, since) NET_PROBE_##name,
    NET_PROBE_LIST(X)
#undef X
        NET_PROBE_COUNT
};

/* X(name, word) */
#define NET_PROBE_AREA_LIST(X)                                                                                         \
    X(SETUP, "set-up")                                                                                                 \
    X(REGISTER, "register")                                                                                            \
    X(RECEIVE, "receive")                                                                                              \
    X(SEND, "send")                                                                                                    \
    X(OTHER, "other")

enum net_probe_area {
#define X(name, word) NET_PROBE_AREA_##name,
    NET_PROBE_AREA_LIST(X)
#undef X
        NET_PROBE_AREA_COUNT
};

/* X(name, word) */
#define NET_PROBE_STATE_LIST(X)                                                                                        \
    X(WORKS, "works")                                                                                                  \
    X(MISSING, "missing")     /* this kernel does not have it */                                                       \
    X(FORBIDDEN, "forbidden") /* a policy, or a capability that this process lacks */                                  \
    X(LIMITED, "limited")     /* a limit of this process forbids it */                                                 \
    X(BROKEN, "broken")       /* it answers, but wrongly: do not use it here */                                        \
    X(UNTRIED, "untried")     /* something else prevented the attempt, which why names */

enum net_probe_state {
#define X(name, word) NET_PROBE_STATE_##name,
    NET_PROBE_STATE_LIST(X)
#undef X
        NET_PROBE_STATE_COUNT
};

enum { NET_PROBE_WHY_BYTES = 192 };

struct net_probe_result {
    enum net_probe_state state;
    int os_error; /* positive errno that the kernel answered, or 0 */
    bool copied;  /* zero-copy sends: the kernel said that it copied, which it always does over the loopback */
    char why[NET_PROBE_WHY_BYTES]; /* "" where it works and there is nothing to say */
};

/* A try fills in nothing but what it found out: `why` in full for BROKEN and UNTRIED, else the caller finds words for
 * the errno. Returns 0 when the thing works, or a negative errno. A try that found the thing answering wrongly calls
 * probe_broken, whose result it returns. */
typedef int probe_try(struct net_probe_result *result);
/* Those that the ring engine repeats for itself before it relies on what they try. */
probe_try probe_bundle, probe_incremental;

struct net_probe {
    struct net_probe_result result[NET_PROBE_COUNT];
};

/* Tries everything in the list. */
void net_probe_run(struct net_probe *probe);

/* Tries to bind receive queue `queue` of an interface for zero-copy receive, and lets go of it at once. On a card that
 * can do it this stalls the card's traffic for a moment: only for whoever asked for that interface. */
void net_probe_receive_zc(uint32_t interface_index, uint32_t queue, struct net_probe_result *result);

/* Static words; never NULL. */
const char *net_probe_word(enum net_probe_id id);
const char *net_probe_about(enum net_probe_id id);
const char *net_probe_since(enum net_probe_id id);
enum net_probe_area net_probe_area(enum net_probe_id id);
const char *net_probe_area_word(enum net_probe_area area);
const char *net_probe_state_word(enum net_probe_state state);

/* How a TCP socket of Millrace comes out here. Sizes in bytes; 0 or "" where it could not be asked. */
struct net_probe_socket {
    char congestion_default[16]; /* of a new socket */
    char congestion[16];         /* in force on a socket of Millrace */
    bool congestion_settable;    /* false: the default stayed because none of ours could be set */
    uint32_t send_buffer_bytes, recv_buffer_bytes;
    bool nodelay;
    uint32_t notsent_lowat_bytes; /* 0: no limit */
};

void net_probe_socket(struct net_probe_socket *socket);

#endif
