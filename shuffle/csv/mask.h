/* One bit per byte: which of 64 bytes are the sought ones. Inside the CSV parser only. */
#ifndef MILLRACE_SHUFFLE_CSV_MASK_H
#define MILLRACE_SHUFFLE_CSV_MASK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>

static inline uint64_t csv_mask_of(const uint8_t *at, uint8_t byte)
{
    const __m256i sought = _mm256_set1_epi8((char)byte);
    const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)at);
    const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32));
    const uint64_t low_bits = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, sought));
    const uint64_t high_bits = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, sought));
    return low_bits | high_bits << 32;
}

#elif defined(__SSE2__)
#include <emmintrin.h>

static inline uint64_t csv_mask_of(const uint8_t *at, uint8_t byte)
{
    const __m128i sought = _mm_set1_epi8((char)byte);
    uint64_t bits = 0;
    for (size_t part = 0; part < 4; part++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * part));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, sought)) << (16 * part);
    }
    return bits;
}

#else

static inline uint64_t csv_mask_of(const uint8_t *at, uint8_t byte)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < 64; i++)
        bits |= (uint64_t)(at[i] == byte) << i;
    return bits;
}

#endif

/* The 64 bytes at data + base, or a copy of the fewer that are there, padded with a byte that is none of the sought. */
static inline const uint8_t *csv_mask_window(const uint8_t *data, size_t bytes, size_t base, uint8_t *copy,
                                             uint8_t padding)
{
    if (bytes - base >= 64)
        return data + base;
    memset(copy, padding, 64);
    memcpy(copy, data + base, bytes - base);
    return copy;
}

#endif
