/* Pieces: taking bytes out of them, giving them back, and what is said when they are wrong. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <xxhash.h> /* the library's: its streaming form cannot be inlined without optimisation */

#include "base/assert.h"
#include "shuffle/frames/inlet.h"

enum base_status shuffle_inlet_fail(const struct shuffle_inlet *inlet, struct base_error *error,
                                    enum base_status status, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return base_error_set(error, status, "from worker %u on node %s: %s", inlet->peer,
                          inlet->shared->node_name[inlet->peer], text);
}

void shuffle_inlet_took(struct shuffle_inlet *inlet, const uint8_t *bytes, uint32_t count)
{
    BASE_ASSERT(count <= inlet->payload_left);
    inlet->payload_left -= count;
    if (inlet->header.flags & SHUFFLE_FRAME_CHECKED)
        XXH3_64bits_update(inlet->check, bytes, count);
}

enum base_status shuffle_inlet_misfit(const struct shuffle_inlet *inlet, struct base_error *error)
{
    return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT, "exchange %u: a row of frame %" PRIu64 " is malformed",
                              inlet->header.exchange, inlet->header.sequence);
}

uint32_t shuffle_inlet_copy(struct shuffle_inlet *inlet, void *to, uint32_t want)
{
    uint32_t left;
    const uint8_t *from = shuffle_inlet_piece(inlet, &left);
    const uint32_t bytes = want < left ? want : left;
    memcpy(to, from, bytes);
    inlet->piece_at += bytes;
    return bytes;
}

void shuffle_inlet_keep(struct shuffle_inlet *inlet, const struct shuffle_piece *piece, const char *words)
{
    if (piece->chunk.data)
        net_chunk_keep(inlet->shared->engine, &piece->chunk, words, inlet->peer);
}

void shuffle_inlet_release(struct shuffle_inlet *inlet, const struct shuffle_piece *piece)
{
    const struct shuffle_inlets *shared = inlet->shared;
    BASE_ASSERT(!(piece->chunk.data && piece->frame)); /* one owner */
    if (piece->chunk.data)
        net_chunk_release(shared->engine, &piece->chunk);
    if (piece->frame)
        shuffle_mailroom_return(shared->mailroom, shared->worker - shared->local_first,
                                inlet->peer - shared->local_first, piece->frame);
}
