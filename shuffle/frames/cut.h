/* A cut row: one that arrived in several pieces of memory, and stays there.
 *
 * Received bytes come in chunks that end anywhere, so with small chunks (zero-copy receive has pages) most wide rows
 * lie in two of them or more. Making such a row whole costs a copy of it. Instead it is handed on as it lies, and what
 * somebody wants to look at is put together only where it lies across an edge: mostly nothing at all.
 *
 * Invariant: of a layout with columns of variable length the head (fixed part and null bits) lies whole in piece 0. */
#ifndef MILLRACE_SHUFFLE_FRAMES_CUT_H
#define MILLRACE_SHUFFLE_FRAMES_CUT_H

#include "shuffle/rows/key.h"

enum {
    SHUFFLE_CUT_PIECES_MAX = 16,
    SHUFFLE_CUT_BYTES_MIN = 256 /* smaller rows are cheaper copied than handed on in pieces */
};

struct shuffle_cut {
    uint32_t bytes; /* of the row */
    uint32_t count; /* of pieces */
    struct {
        const uint8_t *data;
        uint32_t begin; /* in the row */
    } piece[SHUFFLE_CUT_PIECES_MAX];
    uint8_t *whole; /* room for the row; what lies across an edge is put together here, at its place in the row */
    uint64_t joined_bytes; /* that were copied there */
};

/* Copies part of the row. */
void shuffle_cut_copy(const struct shuffle_cut *cut, uint32_t offset, uint32_t bytes, uint8_t *to);
/* Copies part of the row to its place in `whole`. */
void shuffle_cut_join(struct shuffle_cut *cut, uint32_t offset, uint32_t bytes);
/* Part of the row in one piece; joined when it lies across an edge. */
const uint8_t *shuffle_cut_part(struct shuffle_cut *cut, uint32_t offset, uint32_t bytes);
/* A row pointer that may be read for nothing but the parts of this key: they are joined when they do not lie in one
 * piece. */
const uint8_t *shuffle_cut_key(struct shuffle_cut *cut, const struct shuffle_layout *layout,
                               const struct shuffle_key *key);
/* Where the bytes of a column's value lie in the row (for a NULL as shuffle_row_value), and whether it is NULL. */
uint32_t shuffle_cut_value(const struct shuffle_cut *cut, const struct shuffle_layout *layout, uint32_t column,
                           uint32_t *bytes);
bool shuffle_cut_null(const struct shuffle_cut *cut, const struct shuffle_layout *layout, uint32_t column);

/* Among pointers to rows one may stand for a cut row: it has the highest bit, which no address has, and must not be
 * read. */
#define SHUFFLE_CUT_MARK (UINT64_C(1) << 63)

static inline const uint8_t *shuffle_cut_row(const struct shuffle_cut *cut)
{
    return (const uint8_t *)((uintptr_t)cut | SHUFFLE_CUT_MARK);
}

/* NULL: the row lies in one piece, at `row`. */
static inline struct shuffle_cut *shuffle_row_cut(const uint8_t *row)
{
    const uintptr_t bits = (uintptr_t)row;
    return __builtin_expect((bits & SHUFFLE_CUT_MARK) != 0, 0) ? (struct shuffle_cut *)(bits & ~SHUFFLE_CUT_MARK)
                                                               : NULL;
}

#endif
