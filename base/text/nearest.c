#include "base/text/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES_MAX = 128 }; /* longer words are compared no further than this */

struct base_nearest base_nearest_to(const char *text, size_t text_bytes)
{
    return (struct base_nearest){.text = text, .text_bytes = text_bytes};
}

static unsigned char nearest_lower(char letter)
{
    return (unsigned char)(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
}

static uint32_t nearest_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: Levenshtein's distance, in which swapping neighbours is one step, too. */
static uint32_t distance_of(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    uint32_t rows[3][WORD_BYTES_MAX + 1];
    uint32_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_bytes; j++)
        above[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_bytes; j++) {
            const bool same = nearest_lower(a[i - 1]) == nearest_lower(b[j - 1]);
            row[j] = nearest_least(above[j - 1] + !same, nearest_least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && nearest_lower(a[i - 1]) == nearest_lower(b[j - 2]) &&
                nearest_lower(a[i - 2]) == nearest_lower(b[j - 1]))
                row[j] = nearest_least(row[j], before[j - 2] + 1);
        }
        uint32_t *const oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_bytes];
}

void base_nearest_offer(struct base_nearest *nearest, const char *word)
{
    const size_t text_bytes = nearest->text_bytes < WORD_BYTES_MAX ? nearest->text_bytes : WORD_BYTES_MAX;
    const uint32_t distance = distance_of(nearest->text, text_bytes, word, strnlen(word, WORD_BYTES_MAX));
    if (text_bytes == 0 || 3 * (size_t)distance > text_bytes || (nearest->word && distance >= nearest->distance))
        return;
    nearest->word = word;
    nearest->distance = distance;
}

const char *base_nearest_hint(const struct base_nearest *nearest, const char *before,
                              char hint[BASE_NEAREST_HINT_BYTES])
{
    hint[0] = '\0';
    if (nearest->word)
        snprintf(hint, BASE_NEAREST_HINT_BYTES, " (did you mean \"%s%.*s\"?)", before, WORD_BYTES_MAX, nearest->word);
    return hint;
}
