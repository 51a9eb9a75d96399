#include "shuffle/frames/frame.h"

#include "base/bytes.h"

enum base_status shuffle_frame_check(const struct shuffle_frame_header *header, struct base_error *error)
{
    if (header->magic != SHUFFLE_FRAME_MAGIC)
        return base_error_set(error, BASE_FRAME_CORRUPT, "a frame begins with 0x%08x instead of its mark",
                              header->magic);
    if (header->flags & ~(SHUFFLE_FRAME_CHECKED | (header->kind == SHUFFLE_FRAME_END ? SHUFFLE_FRAME_NOTES : 0)))
        return base_error_set(error, BASE_FRAME_CORRUPT, "a frame has unknown flags 0x%04x", header->flags);
    if (header->exchange >= SHUFFLE_EXCHANGES_MAX)
        return base_error_set(error, BASE_FRAME_CORRUPT, "a frame names exchange %u of at most %d", header->exchange,
                              SHUFFLE_EXCHANGES_MAX);
    switch (header->kind) {
    case SHUFFLE_FRAME_DATA:
        /* Every row has at least one byte. */
        if (header->rows == 0 || header->rows > header->bytes || header->bytes > SHUFFLE_ROW_BYTES_MAX)
            return base_error_set(error, BASE_FRAME_CORRUPT, "a frame has %u rows in %u bytes (at most %u)",
                                  header->rows, header->bytes, SHUFFLE_ROW_BYTES_MAX);
        return BASE_OK;
    case SHUFFLE_FRAME_END:
        if (header->rows != 0 || header->bytes != sizeof(struct shuffle_lane_totals))
            return base_error_set(error, BASE_FRAME_CORRUPT, "an end-of-stream frame has %u rows and %u bytes",
                                  header->rows, header->bytes);
        return BASE_OK;
    default:
        return base_error_set(error, BASE_FRAME_CORRUPT, "a frame is of unknown kind %u", header->kind);
    }
}

/* Frames are written by the scan and read by the kernel soon after: from cache if all of a worker's fit. Six workers on
 * two cores moved 4 KiB rows at 4.2 GiB/s with ten frames of 1 MiB each, at 5.0 with ten of 128 KiB. Below 64 KiB the
 * system calls cost more than the cache gives. */
uint32_t shuffle_frame_bytes_for(uint64_t lane_bytes_expected, uint32_t lanes, uint32_t frames_per_lane)
{
    enum { CACHE_BYTES = 2 << 20, CACHED_BYTES_MIN = 64 << 10 };
    const uint64_t share_bytes = CACHE_BYTES / ((uint64_t)lanes * frames_per_lane);
    const uint64_t bytes_max = base_min_u64(SHUFFLE_FRAME_BYTES_MAX, base_max_u64(share_bytes, CACHED_BYTES_MIN));
    uint32_t bytes = SHUFFLE_FRAME_BYTES_MIN;

    while (bytes * UINT64_C(2) <= bytes_max && bytes * UINT64_C(2) <= lane_bytes_expected / 8)
        bytes *= 2;
    return bytes;
}
