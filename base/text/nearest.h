/* The known word that somebody probably meant by an unknown one, for "did you mean". */
#ifndef MILLRACE_BASE_TEXT_NEAREST_H
#define MILLRACE_BASE_TEXT_NEAREST_H

#include <stddef.h>
#include <stdint.h>

/* Begin with base_nearest_to, offer every known word, then ask for the nearest. Borrows all texts. */
struct base_nearest {
    const char *text;
    size_t text_bytes;
    const char *word; /* the nearest so far, or NULL */
    uint32_t distance;
};

struct base_nearest base_nearest_to(const char *text, size_t text_bytes);

/* A word is near when inserting, deleting, changing or swapping neighbouring letters makes it of the text in at most
 * one step for every three letters of the text; upper and lower case are one. Of equally near words the first stays. */
void base_nearest_offer(struct base_nearest *nearest, const char *word);

/* Writes ` (did you mean "WORD"?)` into hint and returns it, or "" if no word is near. before stands in front of the
 * word: "--" for an option, else "". */
enum { BASE_NEAREST_HINT_BYTES = 192 };
const char *base_nearest_hint(const struct base_nearest *nearest, const char *before,
                              char hint[BASE_NEAREST_HINT_BYTES]);

#endif
