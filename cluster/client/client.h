/* The client's side of a control connection: say hello, ask or submit, wait for the answer. Used by `millrace` only;
 * one thread.
 *
 * Ctrl-C (SIGINT, SIGTERM, SIGHUP) while a job runs cancels it and waits for its report; a second one quits at once.
 */
#ifndef MILLRACE_CLUSTER_CLIENT_CLIENT_H
#define MILLRACE_CLUSTER_CLIENT_CLIENT_H

#include "cluster/protocol/message.h"
#include "net/proof/key.h"

/* How `millrace` ends. */
enum cluster_exit {
    CLUSTER_EXIT_OK = 0,
    CLUSTER_EXIT_FAILED = 1,
    CLUSTER_EXIT_USAGE = 2,
    CLUSTER_EXIT_CLUSTER = 3, /* unreachable or incomplete */
    CLUSTER_EXIT_CANCELLED = 4
};

/* The first answer must come within this; connecting included. */
#define CLUSTER_CLIENT_ANSWER_NS (UINT64_C(5) * 1000000000)
/* A cancelled job is waited for this long. */
#define CLUSTER_CLIENT_CANCEL_NS (UINT64_C(10) * 1000000000)
/* While a job waits or runs the coordinator is asked this often for a sign of life, and given up when it gave none for
 * this long; sooner when somebody wants to leave. */
#define CLUSTER_CLIENT_BEAT_NS (UINT64_C(1) * 1000000000)
#define CLUSTER_CLIENT_SILENCE_NS (UINT64_C(5) * 1000000000)
#define CLUSTER_CLIENT_LEAVING_SILENCE_NS (UINT64_C(2) * 1000000000)

struct cluster_client;

/* Connects, proves the cluster's key (NULL: there is none; borrowed until close), says hello, and waits for the
 * welcome. Every error means that the cluster cannot be used (CLUSTER_EXIT_CLUSTER). */
enum base_status cluster_client_open(const char *coordinator, const struct net_key *key, struct cluster_client **client,
                                     struct base_error *error);
void cluster_client_close(struct cluster_client *client);

/* Nodes the coordinator waits for, 0: any number. */
uint32_t cluster_client_nodes_expected(const struct cluster_client *client);

/* Sends LIST_NODES or LIST_JOBS and waits for the answer, which the caller frees. Errors mean that the cluster cannot
 * be used. */
enum base_status cluster_client_ask(struct cluster_client *client, enum cluster_message_kind question,
                                    struct cluster_message *answer, struct base_error *error);

/* Submits and waits for the end of the job. BASE_OK: *report is a REPORT message, whatever became of the job, and the
 * caller frees it. BASE_CANCELLED: left before a report came. Anything else: the connection was lost or the request was
 * refused. With submit->progress a bar is drawn on standard error. */
enum base_status cluster_client_run(struct cluster_client *client, const struct cluster_submit *submit,
                                    struct cluster_message *report, struct base_error *error);

/* The same, for a job that tells more than its end: `watch` gets every message that cluster_client_run knows nothing
 * of, and may take it over. Its errors end the waiting. */
typedef enum base_status cluster_client_watch_fn(void *context, struct cluster_message *message,
                                                 struct base_error *error);
enum base_status cluster_client_run_watched(struct cluster_client *client, const struct cluster_submit *submit,
                                            cluster_client_watch_fn *watch, void *context,
                                            struct cluster_message *report, struct base_error *error);

/* What `millrace` exits with after a report: cluster_exit_code, or CLUSTER_EXIT_USAGE for a bad request.
 * docs/man/millrace.1 says the same. */
enum cluster_exit cluster_client_exit(const struct cluster_report *report);

#endif
