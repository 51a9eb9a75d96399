#include "shuffle/source/unpack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"

enum {
    GZIP_WINDOW_BITS = 15 + 16, /* the largest window, with gzip's header and trailer */
    GZIP_BYTES = 64 << 10,      /* what zlib holds at most */
    ZSTD_WINDOW_LOG_MAX = 27,   /* the most that zstd itself takes without being asked for more */
    BEGINNING_BYTES = 64 << 10  /* of one read */
};

struct shuffle_unpacker {
    enum shuffle_packing packing;
    struct base_governor *governor;
    uint64_t drawn_bytes;
    bool whole;   /* stands after a member or frame */
    bool started; /* some input was taken */
    bool pending;
    z_stream gzip;
    bool gzip_open;
    ZSTD_DStream *zstd;
};

static bool ends_in(const char *path, size_t bytes, const char *suffix)
{
    const size_t tail = strlen(suffix);
    return bytes > tail && memcmp(path + bytes - tail, suffix, tail) == 0;
}

enum shuffle_packing shuffle_packing_of(const char *path, size_t *bytes)
{
    static const struct {
        const char *suffix;
        enum shuffle_packing packing;
    } known[] = {{".gz", SHUFFLE_PACKING_GZIP}, {".zst", SHUFFLE_PACKING_ZSTD}, {".zstd", SHUFFLE_PACKING_ZSTD}};
    const size_t all = strlen(path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!ends_in(path, all, known[i].suffix))
            continue;
        if (bytes)
            *bytes = all - strlen(known[i].suffix);
        return known[i].packing;
    }
    if (bytes)
        *bytes = all;
    return SHUFFLE_PACKING_NONE;
}

/* Draws so that `bytes` are drawn in all. */
static enum base_status unpack_draw(struct shuffle_unpacker *unpacker, uint64_t bytes, struct base_error *error)
{
    BASE_ASSERT(unpacker->governor || unpacker->drawn_bytes == 0); /* what was drawn can be given back */
    if (!unpacker->governor || bytes <= unpacker->drawn_bytes)
        return BASE_OK;
    const enum base_status status =
        base_governor_draw(unpacker->governor, BASE_HOLDER_SCAN, bytes - unpacker->drawn_bytes, error);
    if (status == BASE_OK)
        unpacker->drawn_bytes = bytes;
    return status;
}

static bool unpack_make(struct shuffle_unpacker *unpacker)
{
    if (unpacker->packing == SHUFFLE_PACKING_GZIP)
        return unpacker->gzip_open = inflateInit2(&unpacker->gzip, GZIP_WINDOW_BITS) == Z_OK;
    unpacker->zstd = ZSTD_createDStream();
    return unpacker->zstd &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(unpacker->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX));
}

enum base_status shuffle_unpacker_open(enum shuffle_packing packing, struct base_governor *governor,
                                       struct shuffle_unpacker **unpacker, struct base_error *error)
{
    struct shuffle_unpacker *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to unpack a file");
    BASE_ASSERT(packing != SHUFFLE_PACKING_NONE);
    made->packing = packing;
    made->governor = governor;
    made->whole = true;
    enum base_status status = unpack_draw(made, GZIP_BYTES, error);
    if (status == BASE_OK && !unpack_make(made))
        status = base_error_set(error, BASE_NO_MEMORY, "no memory to unpack a file");
    if (status != BASE_OK) {
        shuffle_unpacker_close(made);
        return status;
    }
    *unpacker = made;
    return BASE_OK;
}

/* One call of zlib. Zeros after a member are padding, as for gzip(1). */
static enum base_status gzip_once(struct shuffle_unpacker *unpacker, struct shuffle_unpack_step *step,
                                  struct base_error *error)
{
    z_stream *gzip = &unpacker->gzip;
    if (unpacker->whole && unpacker->started) {
        for (; step->in_bytes > 0 && *step->in == 0; step->in_bytes--)
            step->in++;
        if (step->in_bytes == 0)
            return BASE_OK;
        inflateReset(gzip);
    }
    const uInt in = (uInt)(step->in_bytes < UINT32_MAX ? step->in_bytes : UINT32_MAX);
    const uInt out = (uInt)(step->out_bytes < UINT32_MAX ? step->out_bytes : UINT32_MAX);
    gzip->next_in = (Bytef *)(uintptr_t)step->in;
    gzip->avail_in = in;
    gzip->next_out = step->out;
    gzip->avail_out = out;
    const int result = inflate(gzip, Z_NO_FLUSH);
    step->in += in - gzip->avail_in;
    step->in_bytes -= in - gzip->avail_in;
    step->out += out - gzip->avail_out;
    step->out_bytes -= out - gzip->avail_out;
    unpacker->started = true;
    unpacker->whole = result == Z_STREAM_END;
    unpacker->pending = result == Z_OK && gzip->avail_out == 0;
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
        return BASE_OK;
    if (result == Z_MEM_ERROR)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to unpack it");
    return base_error_set(error, BASE_PARSE, "it is no gzip data, or damaged (%s)",
                          gzip->msg ? gzip->msg : "a dictionary is needed");
}

static enum base_status zstd_once(struct shuffle_unpacker *unpacker, struct shuffle_unpack_step *step,
                                  struct base_error *error)
{
    ZSTD_inBuffer in = {step->in, step->in_bytes, 0};
    ZSTD_outBuffer out = {step->out, step->out_bytes, 0};
    const size_t result = ZSTD_decompressStream(unpacker->zstd, &out, &in);
    step->in += in.pos;
    step->in_bytes -= in.pos;
    step->out += out.pos;
    step->out_bytes -= out.pos;
    unpacker->started = true;
    unpacker->whole = result == 0;
    unpacker->pending = result != 0 && out.pos == out.size;
    if (ZSTD_isError(result))
        return base_error_set(error, BASE_PARSE, "it is no zstd data, or damaged (%s)", ZSTD_getErrorName(result));
    return unpack_draw(unpacker, ZSTD_sizeof_DStream(unpacker->zstd), error);
}

enum base_status shuffle_unpacker_step(struct shuffle_unpacker *unpacker, struct shuffle_unpack_step *step,
                                       struct base_error *error)
{
    while (step->out_bytes > 0 && (step->in_bytes > 0 || unpacker->pending)) {
        const size_t in = step->in_bytes, out = step->out_bytes;
        const enum base_status status = unpacker->packing == SHUFFLE_PACKING_GZIP ? gzip_once(unpacker, step, error)
                                                                                  : zstd_once(unpacker, step, error);
        if (status != BASE_OK)
            return status;
        BASE_ASSERT(step->in_bytes <= in && step->out_bytes <= out);
        if (step->in_bytes == in && step->out_bytes == out)
            break;
    }
    return BASE_OK;
}

bool shuffle_unpacker_pending(const struct shuffle_unpacker *unpacker)
{
    return unpacker->pending;
}

bool shuffle_unpacker_whole(const struct shuffle_unpacker *unpacker)
{
    return unpacker->whole && unpacker->started;
}

void shuffle_unpacker_close(struct shuffle_unpacker *unpacker)
{
    if (!unpacker)
        return;
    if (unpacker->gzip_open)
        inflateEnd(&unpacker->gzip);
    ZSTD_freeDStream(unpacker->zstd);
    if (unpacker->governor)
        base_governor_return(unpacker->governor, BASE_HOLDER_SCAN, unpacker->drawn_bytes);
    free(unpacker);
}

static enum base_status unpack_unpack(struct shuffle_unpacker *unpacker, int fd, const char *path, uint8_t *chunk,
                                      struct shuffle_unpack_step *step, struct base_error *error)
{
    for (uint64_t offset = 0; step->out_bytes > 0;) {
        if (step->in_bytes == 0 && !unpacker->pending) {
            const ssize_t got = pread(fd, chunk, BEGINNING_BYTES, (off_t)offset);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return base_error_set_errno(error, errno, "cannot read %s", path);
            if (got == 0 && !shuffle_unpacker_whole(unpacker))
                return base_error_set(error, BASE_PARSE,
                                      "%s: the compressed data ends too early, at byte %" PRIu64 " of the file", path,
                                      offset);
            if (got == 0)
                break;
            offset += (uint64_t)got;
            step->in = chunk;
            step->in_bytes = (size_t)got;
        }
        struct base_error cause;
        const enum base_status status = shuffle_unpacker_step(unpacker, step, &cause);
        if (status != BASE_OK)
            return base_error_set(error, status, "%s: %s, at byte %" PRIu64 " of the file", path, cause.text,
                                  offset - step->in_bytes);
    }
    return BASE_OK;
}

enum base_status shuffle_unpack_beginning(enum shuffle_packing packing, int fd, const char *path, uint8_t *data,
                                          size_t bytes, size_t *got, struct base_error *error)
{
    struct shuffle_unpacker *unpacker = NULL;
    uint8_t *chunk = malloc(BEGINNING_BYTES);
    if (!chunk)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to look at %s", path);
    struct shuffle_unpack_step step = {.out_bytes = bytes};
    step.out = data;
    enum base_status status = shuffle_unpacker_open(packing, NULL, &unpacker, error);
    if (status == BASE_OK)
        status = unpack_unpack(unpacker, fd, path, chunk, &step, error);
    shuffle_unpacker_close(unpacker);
    free(chunk);
    if (status == BASE_OK)
        *got = bytes - step.out_bytes;
    return status;
}
