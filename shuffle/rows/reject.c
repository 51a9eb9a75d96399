#include "shuffle/rows/reject.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

/* The place of a row among those kept, or NULL. */
static struct shuffle_reject *reject_place(struct shuffle_rejects *rejects, uint64_t morsel, uint64_t line)
{
    BASE_ASSERT(rejects->kept <= SHUFFLE_REJECTS_KEPT && rejects->kept <= rejects->count); /* each is counted first */
    uint32_t at = rejects->kept;
    while (at > 0 && (morsel < rejects->reject[at - 1].morsel ||
                      (morsel == rejects->reject[at - 1].morsel && line < rejects->reject[at - 1].line)))
        at--;
    if (at == SHUFFLE_REJECTS_KEPT)
        return NULL;
    if (rejects->kept < SHUFFLE_REJECTS_KEPT)
        rejects->kept++;
    memmove(&rejects->reject[at + 1], &rejects->reject[at], (rejects->kept - at - 1) * sizeof *rejects->reject);
    return &rejects->reject[at];
}

struct shuffle_reject *shuffle_rejects_add(struct shuffle_rejects *rejects, uint64_t morsel, uint32_t file,
                                           uint64_t line)
{
    rejects->count++;
    struct shuffle_reject *at = reject_place(rejects, morsel, line);
    if (at)
        *at = (struct shuffle_reject){.morsel = morsel, .line = line, .file = file};
    return at;
}

void shuffle_rejects_merge(struct shuffle_rejects *rejects, const struct shuffle_rejects *from)
{
    BASE_ASSERT(rejects != from && from->kept <= from->count);
    rejects->count += from->count;
    for (uint32_t i = 0; i < from->kept; i++) {
        struct shuffle_reject *at = reject_place(rejects, from->reject[i].morsel, from->reject[i].line);
        if (!at)
            return;
        *at = from->reject[i];
    }
}
