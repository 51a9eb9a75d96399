/* How a message lies on a control connection: its length (little-endian uint32, which does not count itself), the
 * codec's bytes, and a checksum over both. The checksum looks like a field that the codec does not know, so that a peer
 * of another version can still read a HELLO and say why it refuses it. */
#ifndef MILLRACE_CLUSTER_LINK_FRAME_H
#define MILLRACE_CLUSTER_LINK_FRAME_H

#include "cluster/protocol/codec.h"

enum { CLUSTER_FRAME_HEAD_BYTES = 4, CLUSTER_FRAME_TAIL_BYTES = 10 };

/* *bytes is malloc'ed. Errors of cluster_codec_encode. */
enum base_status cluster_frame_encode(const struct cluster_message *message, uint8_t **bytes, size_t *count,
                                      struct base_error *error);
/* Of what follows the length; `count` is the length. BASE_FRAME_CORRUPT: the checksum differs, or there is none (which
 * is allowed in a REFUSED, since older peers say it without). Else as of cluster_codec_decode. */
enum base_status cluster_frame_decode(const uint8_t *bytes, size_t count, struct cluster_message *message,
                                      struct base_error *error);

#endif
