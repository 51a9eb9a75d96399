/* One message of every kind, with every field set to something. For the codec's tests and the fuzzer's first corpus. */
#ifndef MILLRACE_TESTS_CLUSTER_PROTOCOL_MESSAGE_SAMPLES_H
#define MILLRACE_TESTS_CLUSTER_PROTOCOL_MESSAGE_SAMPLES_H

#include "cluster/protocol/message.h"

/* Fills message with the sample of its kind. It borrows static memory, but for what message_sample_done frees. */
void message_sample(enum cluster_message_kind kind, struct cluster_message *message);
void message_sample_done(struct cluster_message *message);

#endif
