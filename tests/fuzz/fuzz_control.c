/* Control messages: bytes either are refused or decode into a message that, written again, decodes into the same. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/protocol/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cluster_message message;
    struct base_error error;
    uint8_t *first, *second;
    size_t first_count, second_count;
    if (cluster_codec_decode(data, bytes, &message, &error) != BASE_OK)
        return 0;
    BASE_ASSERT(cluster_codec_encode(&message, 0, &first, &first_count, &error) == BASE_OK);
    cluster_message_free(&message);
    BASE_ASSERT(cluster_codec_decode(first, first_count, &message, &error) == BASE_OK);
    BASE_ASSERT(cluster_codec_encode(&message, 0, &second, &second_count, &error) == BASE_OK);
    BASE_ASSERT(first_count == second_count && memcmp(first, second, first_count) == 0);
    cluster_message_free(&message);
    free(first);
    free(second);
    return 0;
}
