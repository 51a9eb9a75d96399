/* The ladder of engines: named rungs, each the one before plus one idea, and options for experiments on top of a rung.
 *
 * A rung is a set of features. What of it the kernel, a policy or a limit does not allow is found by trying when the
 * engine is opened, left out, and told (net_engine_reason); a rung on io_uring never becomes one on epoll, except
 * through AUTO. docs/ladder.md explains the rungs and says what each was measured to bring. */
#ifndef MILLRACE_NET_ENGINE_RUNG_H
#define MILLRACE_NET_ENGINE_RUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* X(name, word): ideas that a rung consists of. The first group are the ladder's, the second the experiments'. */
#define NET_FEATURE_LIST(X)                                                                                            \
    X(URING, "io_uring")                        /* not set: epoll */                                                   \
    X(DEFER_TASKRUN, "defer-taskrun")           /* single issuer, task work when the owner asks for it */              \
    X(BATCHED_SUBMIT, "batched-submit")         /* one enter per turn instead of one per operation */                  \
    X(REGISTERED_RING, "registered-ring")       /* the ring's own descriptor */                                        \
    X(REGISTERED_FILES, "registered-files")     /* sockets in the ring's file table */                                 \
    X(REGISTERED_BUFFERS, "registered-buffers") /* receive memory, or zero-copy send memory */                         \
    X(MULTISHOT, "multishot")                   /* accept and receive; chunks from a provided buffer ring */           \
    X(BUNDLE, "bundle")                         /* several chunks in one completion */                                 \
    X(SEND_ZC, "send-zc")                       /* zero-copy send, off again per connection where the kernel copies */ \
    X(RECV_ZC, "recv-zc")                       /* a card writes into our memory; takes the provided buffers' place */ \
    X(SQPOLL, "sqpoll")                         /* a kernel thread takes submissions: no enter while it is awake */    \
    X(COOP_TASKRUN, "coop-taskrun")             /* task work without interrupting the owner */                         \
    X(INCREMENTAL, "incremental")               /* a chunk filled by several completions, in the place of bundles */   \
    X(NAPI, "napi")                             /* a wait polls the network card first */                              \
    X(MIN_WAIT, "min-wait")     /* a wait ends with a batch, or after a short time with what is there */               \
    X(HUGE_PAGES, "huge-pages") /* receive memory of reserved huge pages */                                            \
    X(ZC_ALWAYS, "zc-always")   /* zero-copy send although the kernel copies */

enum net_feature_index {
#define X(name, word) NET_FEATURE_INDEX_##name,
    NET_FEATURE_LIST(X)
#undef X
        NET_FEATURE_COUNT
};

enum net_feature {
#define X(name, word) NET_FEATURE_##name = 1 << NET_FEATURE_INDEX_##name,
    NET_FEATURE_LIST(X)
#undef X
};

/* X(name, word, features, idea) in the ladder's order. AUTO and URING come first and last: they choose among the
 * rungs. */
#define NET_RUNG_LIST(X)                                                                                               \
    X(EPOLL, "epoll", 0, "readiness: edge-triggered epoll, as an expert writes it")                                    \
    X(EPOLL_ZC, "epoll-zc", NET_FEATURE_SEND_ZC, "sends from our memory (MSG_ZEROCOPY), completed when it is free")    \
    X(URING_NAIVE, "uring-naive", NET_RUNG_NAIVE, "the epoll loop's calls replaced by requests, one enter each")       \
    X(URING_DEFER, "uring-defer", NET_RUNG_DEFER,                                                                      \
      "completions are worked on when the owner asks, and a turn submits once")                                        \
    X(URING_FIXED, "uring-fixed", NET_RUNG_FIXED,                                                                      \
      "ring, sockets and receive memory are registered once instead of looked up each time")                           \
    X(URING_MULTISHOT, "uring-multishot", NET_RUNG_MULTISHOT,                                                          \
      "one request serves many receives, from a ring of provided buffers")                                             \
    X(URING_BUNDLE, "uring-bundle", NET_RUNG_BUNDLE, "one completion fills several chunks")                            \
    X(URING_SEND_ZC, "uring-send-zc", NET_RUNG_SEND_ZC,                                                                \
      "sends from our memory, registered with the ring, completed when it is free")                                    \
    X(URING_RECV_ZC, "uring-recv-zc", NET_RUNG_RECV_ZC,                                                                \
      "a card's receive queue writes payload into our memory, completions say where")                                  \
    X(URING, "uring", NET_RUNG_MULTISHOT, "the best set for this machine and this traffic")

/* What the rungs on io_uring consist of. Each is the one before plus one idea; only the provided buffers of MULTISHOT
 * take the place of registered receive memory, and the area of RECV_ZC that of provided buffers: the kernel does not
 * combine them. */
enum net_rung_features {
    NET_RUNG_NAIVE = NET_FEATURE_URING,
    NET_RUNG_DEFER = NET_RUNG_NAIVE | NET_FEATURE_DEFER_TASKRUN | NET_FEATURE_BATCHED_SUBMIT,
    NET_RUNG_REGISTERED = NET_RUNG_DEFER | NET_FEATURE_REGISTERED_RING | NET_FEATURE_REGISTERED_FILES,
    NET_RUNG_FIXED = NET_RUNG_REGISTERED | NET_FEATURE_REGISTERED_BUFFERS,
    NET_RUNG_MULTISHOT = NET_RUNG_REGISTERED | NET_FEATURE_MULTISHOT,
    NET_RUNG_BUNDLE = NET_RUNG_MULTISHOT | NET_FEATURE_BUNDLE,
    NET_RUNG_SEND_ZC = NET_RUNG_BUNDLE | NET_FEATURE_SEND_ZC | NET_FEATURE_REGISTERED_BUFFERS,
    NET_RUNG_RECV_ZC = NET_RUNG_MULTISHOT | NET_FEATURE_SEND_ZC | NET_FEATURE_REGISTERED_BUFFERS | NET_FEATURE_RECV_ZC
};

enum net_engine_kind {
    NET_ENGINE_AUTO, /* URING, or EPOLL where io_uring is forbidden */
#define X(name, word, features, idea) NET_ENGINE_##name,
    NET_RUNG_LIST(X)
#undef X
        NET_ENGINE_KIND_COUNT
};

/* X(name, word, time, idea): options for experiments on top of a rung, features each. */
#define NET_OPTION_LIST(X)                                                                                             \
    X(SQPOLL, "sqpoll", NET_OPTION_PLAIN, "a kernel thread submits and runs the task work")                            \
    X(COOP_TASKRUN, "coop-taskrun", NET_OPTION_PLAIN, "task work waits for the next system call")                      \
    X(INCREMENTAL, "incremental", NET_OPTION_PLAIN, "a chunk is filled by several completions; instead of bundles")    \
    X(NAPI, "napi", NET_OPTION_TIME_OR_DEFAULT, "busy polling of the network card for so long before a wait")          \
    X(MIN_WAIT, "min-wait", NET_OPTION_TIME, "wait for a batch of completions, but not longer than this")              \
    X(HUGE_PAGES, "huge-pages", NET_OPTION_PLAIN, "receive memory of reserved huge pages")                             \
    X(ZC_ALWAYS, "zc-always", NET_OPTION_PLAIN, "zero-copy send also where the kernel copies anyway")

enum net_option_value { NET_OPTION_PLAIN, NET_OPTION_TIME, NET_OPTION_TIME_OR_DEFAULT };

enum net_option_index {
#define X(name, word, value, idea) NET_OPTION_INDEX_##name,
    NET_OPTION_LIST(X)
#undef X
        NET_OPTION_COUNT
};

enum { NET_OPTION_US_MAX = 1000000, NET_NAPI_US_DEFAULT = 50 };

/* What a job or a daemon asks for. Plain data. */
struct net_engine_choice {
    enum net_engine_kind kind;
    uint32_t options;                     /* bits of enum net_feature, only of the option list */
    uint32_t option_us[NET_OPTION_COUNT]; /* 1 to NET_OPTION_US_MAX where the option is set and has a time, else 0 */
};

/* Text of a choice: RUNG[+OPTION...] as in "auto", "epoll", "uring-multishot+napi=50us+huge-pages". In this text each
 * option comes once, in any order. Buffers for net_engine_choice_format. */
enum { NET_CHOICE_TEXT_BYTES = 128 };

/* Reads such a text and checks it. Errors: BASE_INVALID, naming what there is to choose from, or why it makes no sense.
 */
enum base_status net_engine_choice_parse(const char *text, struct net_engine_choice *choice, struct base_error *error);
void net_engine_choice_format(const struct net_engine_choice *choice, char text[NET_CHOICE_TEXT_BYTES]);
/* Whether a choice makes sense; BASE_INVALID says why not. */
enum base_status net_engine_choice_check(const struct net_engine_choice *choice, struct base_error *error);
bool net_engine_choice_equal(const struct net_engine_choice *a, const struct net_engine_choice *b);

/* The rung's word and idea (static); its features. AUTO has the features of URING. */
const char *net_rung_word(enum net_engine_kind kind);
const char *net_rung_idea(enum net_engine_kind kind);
uint32_t net_rung_features(enum net_engine_kind kind);
/* The features that a choice asks for, options included: SQPOLL takes the place of deferred task work. */
uint32_t net_engine_choice_features(const struct net_engine_choice *choice);
/* The option's word and idea (static), and its bit. */
const char *net_option_word(enum net_option_index option);
const char *net_option_idea(enum net_option_index option);
enum net_feature net_option_feature(enum net_option_index option);
/* The feature's word (static); feature is one bit. */
const char *net_feature_word(enum net_feature feature);
/* Writes the words of all features set, separated by spaces; returns the length it would have (as snprintf). */
int net_features_format(uint32_t features, char *text, size_t text_bytes);

#endif
