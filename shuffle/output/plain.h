/* Checksums of plain result rows, a group at a time. Plain: every item is of fixed width and never NULL, so all images
 * (the encoding a checksum is taken of) look alike but for the values. Internal to the output. */
#ifndef MILLRACE_SHUFFLE_OUTPUT_PLAIN_H
#define MILLRACE_SHUFFLE_OUTPUT_PLAIN_H

#include "shuffle/output/encode.h"

enum { OUTPUT_PLAIN_ROWS = 64, OUTPUT_PLAIN_IMAGE_BYTES_MAX = 512 };

/* Can the rows of this encoder be plain? */
bool shuffle_output_plain(const struct output_encoder *encoder, uint32_t image_bytes);
/* Writes what is the same in every image, its markers and lengths, into OUTPUT_PLAIN_ROWS images, one after the other
 * at `images`. */
void shuffle_output_plain_prepare(const struct output_encoder *encoder, uint32_t image_bytes, uint8_t *images);
/* Sum modulo 2^64 of the checksums of rows 0 .. count-1, none of whose used sides is NULL. Overwrites the values in the
 * images. */
uint64_t shuffle_output_plain_sum(const struct output_encoder *encoder, uint32_t image_bytes, uint8_t *images,
                                  const uint8_t *const *const rows[2], uint32_t count);

#endif
