/* The walk over all entries after the last probe, in the order in which they were written, for the rows that have found
 * no partner. The caller limits how far a step of it goes, so that a worker's turn stays short. */
#include "base/assert.h"
#include "join/table_internal.h"

bool join_table_unmarked(const struct join_table *table, struct join_table_cursor *cursor, uint64_t *visits,
                         uint32_t rows_max, const uint8_t **rows, uint32_t *count)
{
    BASE_ASSERT(table->sealed && rows_max > 0);
    uint32_t found = 0;
    *count = 0;
    for (; cursor->block < table->block_count && cursor->block <= table->block_current; cursor->block++) {
        const uint8_t *end = join_block_end(table, cursor->block);
        const uint8_t *at = cursor->at ? cursor->at : table->block[cursor->block].start;
        for (; at<end && * visits> 0 && found < rows_max; --*visits) {
            rows[found] = join_entry_row(at);
            found += !(base_load_u64(at) & JOIN_LINK_MATCHED);
            at += join_entry_size(table, at);
        }
        BASE_ASSERT(at <= end);
        cursor->at = at < end ? at : NULL;
        *count = found;
        if (at < end)
            return true;
    }
    return false;
}
