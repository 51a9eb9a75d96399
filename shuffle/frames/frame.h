/* Frames: the unit sent on a lane. A header of 40 bytes, then whole rows; a row larger than a frame's usual size is a
 * frame of its own. The last frame of a lane is an END frame whose payload is the lane's totals. Pure functions:
 * nothing here owns or moves anything. */
#ifndef MILLRACE_SHUFFLE_FRAMES_FRAME_H
#define MILLRACE_SHUFFLE_FRAMES_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "shuffle/rows/schema.h"

#define SHUFFLE_FRAME_MAGIC UINT32_C(0x3146524d) /* "MRF1" */

/* Exchanges that a job may have at a time: a header says to which its frame belongs. */
enum { SHUFFLE_EXCHANGES_MAX = 4 };

enum shuffle_frame_kind { SHUFFLE_FRAME_DATA = 1, SHUFFLE_FRAME_END = 2 };
/* Flags. CHECKED: check holds XXH3-64 of the payload. The others are notes in an END, about all that its worker has
 * scanned, wherever it went: there were rows; there was one with a NULL in its key. */
enum {
    SHUFFLE_FRAME_CHECKED = 1,
    SHUFFLE_FRAME_SAW_ROWS = 2,
    SHUFFLE_FRAME_SAW_NULL_KEYS = 4,
    SHUFFLE_FRAME_NOTES = SHUFFLE_FRAME_SAW_ROWS | SHUFFLE_FRAME_SAW_NULL_KEYS
};

/* On the wire, little-endian, packed by its field sizes. */
struct shuffle_frame_header {
    uint32_t magic;
    uint8_t kind;
    uint8_t exchange;
    uint16_t flags;
    uint32_t source;      /* worker */
    uint32_t destination; /* worker */
    uint64_t sequence;    /* 0, 1, 2 ... per lane */
    uint32_t bytes;       /* payload */
    uint32_t rows;
    uint64_t check;
};
_Static_assert(sizeof(struct shuffle_frame_header) == 40, "frame header is 40 bytes on the wire");
_Static_assert(offsetof(struct shuffle_frame_header, sequence) == 16, "frame header layout");
_Static_assert(offsetof(struct shuffle_frame_header, check) == 32, "frame header layout");

/* Payload of an END frame, and what both ends keep per lane. hash_sum is modulo 2^64. */
struct shuffle_lane_totals {
    uint64_t rows, bytes, hash_sum;
};
_Static_assert(sizeof(struct shuffle_lane_totals) == 24, "lane totals are 24 bytes on the wire");

enum {
    SHUFFLE_FRAME_HEADER_BYTES = 40,
    SHUFFLE_FRAME_BYTES_MIN = 4096,
    SHUFFLE_FRAME_BYTES_MAX =
        1 << 20 /* usual frames; a frame of one large row may have SHUFFLE_ROW_BYTES_MAX payload */
};

/* Checks what can be checked about a header alone (magic, kind, sizes, flags). It came from a peer: never asserts. */
enum base_status shuffle_frame_check(const struct shuffle_frame_header *header, struct base_error *error);
/* Frame size (header included), a power of two in [MIN, MAX]: an eighth of the bytes that a lane expects, but not so
 * large that all frames of a worker (lanes * frames_per_lane, neither 0) leave its cache. */
uint32_t shuffle_frame_bytes_for(uint64_t lane_bytes_expected, uint32_t lanes, uint32_t frames_per_lane);

#endif
