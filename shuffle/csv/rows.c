#include "shuffle/csv/rows.h"

#include <string.h>

#include "base/assert.h"

uint32_t shuffle_csv_rows_convert(const struct csv_column *column, uint32_t count,
                                  const struct shuffle_csv_options *options, uint32_t rows, struct csv_bad *bad)
{
    uint32_t first = rows;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = 0;
        const char *words = shuffle_csv_column_convert(&column[i], options, 0, first, &row);
        if (!words)
            continue;
        BASE_ASSERT(row < first); /* else a later column would take the blame of an earlier row */
        first = row;              /* of further columns only earlier rows matter */
        *bad = (struct csv_bad){.column = &column[i], .words = words};
    }
    return first;
}

bool shuffle_csv_rows_convert_good(const struct csv_column *column, uint32_t count,
                                   const struct shuffle_csv_options *options, uint32_t rows, struct csv_bad *bad)
{
    bool any = false;
    memset(bad, 0, rows * sizeof *bad);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = 0, row = 0;
        const char *words;
        while ((words = shuffle_csv_column_convert(&column[i], options, from, rows, &row)) != NULL) {
            BASE_ASSERT(row >= from && row < rows); /* it comes to an end */
            if (!bad[row].words)
                bad[row] = (struct csv_bad){.column = &column[i], .words = words};
            any = true;
            from = row + 1;
        }
    }
    return any;
}

uint32_t shuffle_csv_rows_drop_bad(const struct csv_column *column, uint32_t count, uint32_t rows,
                                   const struct csv_bad *bad)
{
    uint32_t kept = 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (bad[r].words)
            continue;
        for (uint32_t i = 0; i < count && kept < r; i++) {
            const size_t stride = shuffle_csv_column_stride(column[i].info);
            memcpy(column[i].data + kept * stride, column[i].data + r * stride, stride);
            if (column[i].null)
                column[i].null[kept] = column[i].null[r];
        }
        kept++;
    }
    return kept;
}
