/* Codec of the control plane: struct cluster_message <-> bytes (protobuf, see millrace.proto). The one place that knows
 * protobuf.
 *
 * Bytes come from outside: every count, size, enumeration and cross-reference (columns of a key, files of a morsel's
 * side are for the user of the message) is checked here, and a message that passes can be used without further checks
 * of its shape. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_CODEC_H
#define MILLRACE_CLUSTER_PROTOCOL_CODEC_H

#include <stddef.h>

#include "cluster/protocol/message.h"

/* Largest message on a control connection, and the largest before the peer has said HELLO. */
#define CLUSTER_MESSAGE_BYTES_MAX (UINT32_C(64) << 20)
#define CLUSTER_HELLO_BYTES_MAX (UINT32_C(1) << 20)

/* *bytes is malloc'ed. `reserve` bytes are left free at its front (for a length); *count includes them. BASE_TOO_LARGE,
 * as cluster_message_too_large says it; BASE_NO_MEMORY. */
enum base_status cluster_codec_encode(const struct cluster_message *message, size_t reserve, uint8_t **bytes,
                                      size_t *count, struct base_error *error);
/* *message then owns what it points to. BASE_PROTOCOL with what is wrong; BASE_VERSION for a HELLO of another protocol
 * or build, whose text names both; nothing is kept on error. */
enum base_status cluster_codec_decode(const uint8_t *bytes, size_t count, struct cluster_message *message,
                                      struct base_error *error);

#endif
