#include "cluster/link/frame.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/bytes.h"

/* Field 100 of the envelope, of 64 bits: (100 << 3 | 1), a varint of two bytes. */
enum { FRAME_TAG_BYTES = 2, FRAME_TAG_0 = 0xa1, FRAME_TAG_1 = 0x06 };
_Static_assert(CLUSTER_FRAME_TAIL_BYTES == FRAME_TAG_BYTES + sizeof(uint64_t), "a tag and a checksum");

/* The length counts as the seed, so that it is covered, too. */
static uint64_t frame_checksum(const uint8_t *bytes, size_t count)
{
    return XXH3_64bits_withSeed(bytes, count, count);
}

enum base_status cluster_frame_encode(const struct cluster_message *message, uint8_t **bytes, size_t *count,
                                      struct base_error *error)
{
    uint8_t *made;
    size_t size;
    enum base_status status = cluster_codec_encode(message, CLUSTER_FRAME_HEAD_BYTES, &made, &size, error);
    if (status != BASE_OK)
        return status;
    uint8_t *grown = realloc(made, size + CLUSTER_FRAME_TAIL_BYTES);
    if (!grown) {
        free(made);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a control message %s",
                              cluster_message_name(message->kind));
    }
    const size_t body = size - CLUSTER_FRAME_HEAD_BYTES;
    base_store_u32(grown, (uint32_t)(body + CLUSTER_FRAME_TAIL_BYTES));
    grown[size] = FRAME_TAG_0;
    grown[size + 1] = FRAME_TAG_1;
    base_store_u64(grown + size + FRAME_TAG_BYTES, frame_checksum(grown + CLUSTER_FRAME_HEAD_BYTES, body));
    *bytes = grown;
    *count = size + CLUSTER_FRAME_TAIL_BYTES;
    return BASE_OK;
}

enum base_status cluster_frame_decode(const uint8_t *bytes, size_t count, struct cluster_message *message,
                                      struct base_error *error)
{
    const size_t body = count < CLUSTER_FRAME_TAIL_BYTES ? 0 : count - CLUSTER_FRAME_TAIL_BYTES;
    const uint8_t *tail = bytes + body;
    if (body > 0 && tail[0] == FRAME_TAG_0 && tail[1] == FRAME_TAG_1) {
        if (base_load_u64(tail + FRAME_TAG_BYTES) == frame_checksum(bytes, body))
            return cluster_codec_decode(bytes, body, message, error);
        return base_error_set(error, BASE_FRAME_CORRUPT,
                              "a control message of %zu bytes was changed in transit: its checksum differs", count);
    }
    const enum base_status status = cluster_codec_decode(bytes, count, message, error);
    if (status == BASE_OK && message->kind != CLUSTER_MESSAGE_REFUSED) {
        cluster_message_free(message);
        return base_error_set(error, BASE_FRAME_CORRUPT,
                              "a control message of %zu bytes was changed in transit: it has no checksum", count);
    }
    return status;
}
