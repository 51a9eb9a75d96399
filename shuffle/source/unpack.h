/* Compressed files: gzip (any number of members) and zstd (any number of frames), by the suffix of their names. The one
 * place that knows zlib and libzstd. */
#ifndef MILLRACE_SHUFFLE_SOURCE_UNPACK_H
#define MILLRACE_SHUFFLE_SOURCE_UNPACK_H

#include "base/memory/memory.h"

enum shuffle_packing { SHUFFLE_PACKING_NONE, SHUFFLE_PACKING_GZIP, SHUFFLE_PACKING_ZSTD, SHUFFLE_PACKING_COUNT };

/* By .gz, .zst or .zstd; *bytes (may be NULL) is the length of the path without that suffix. */
enum shuffle_packing shuffle_packing_of(const char *path, size_t *bytes);

struct shuffle_unpacker;

/* What a step takes from and writes to; the step moves on what it used. */
struct shuffle_unpack_step {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

/* Draws what it holds from the governor (may be NULL) as scan buffers; a zstd frame may ask for a window of up to 128
 * MiB. */
enum base_status shuffle_unpacker_open(enum shuffle_packing packing, struct base_governor *governor,
                                       struct shuffle_unpacker **unpacker, struct base_error *error);
/* Goes on until input or room ends. BASE_PARSE: damaged, with what is wrong; BASE_NO_MEMORY. */
enum base_status shuffle_unpacker_step(struct shuffle_unpacker *unpacker, struct shuffle_unpack_step *step,
                                       struct base_error *error);
/* Has it more to write although it took all input? */
bool shuffle_unpacker_pending(const struct shuffle_unpacker *unpacker);
/* May the input end here: after a whole member or frame? */
bool shuffle_unpacker_whole(const struct shuffle_unpacker *unpacker);
/* May be NULL. */
void shuffle_unpacker_close(struct shuffle_unpacker *unpacker);

/* Unpacks the beginning of the file fd (path for messages) into data, *got bytes: as many as asked for, or all.
 * Blocking reads: not for workers. */
enum base_status shuffle_unpack_beginning(enum shuffle_packing packing, int fd, const char *path, uint8_t *data,
                                          size_t bytes, size_t *got, struct base_error *error);

#endif
