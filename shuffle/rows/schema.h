/* Types, schemas and the row layout they imply.
 *
 * A value has one in-memory form, the same in batches, rows and fixed-width files (little-endian, any alignment):
 *   bool 1 byte 0/1; intN, uintN, float32, float64 their width; decimal(p,s) 16 bytes, two's complement, value * 10^s;
 *   date int32 days since 1970-01-01; timestamp int64 microseconds since 1970-01-01 00:00:00 (no zone);
 *   binary(n) n bytes; string and binary any number of bytes up to SHUFFLE_ROW_BYTES_MAX.
 *
 * A row is relocatable bytes in three parts: fixed part (columns in order, packed; a string or binary column holds the
 * uint32 end of its bytes, counted from the start of the variable part), one null bit per nullable column (bit set:
 * NULL; the fixed slot is then zero, the bytes empty), variable part. Fixed width without nullable columns has no
 * overhead.
 */
#ifndef MILLRACE_SHUFFLE_ROWS_SCHEMA_H
#define MILLRACE_SHUFFLE_ROWS_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/text/nearest.h"

enum { SHUFFLE_COLUMNS_MAX = 512, SHUFFLE_NAME_BYTES_MAX = 128, SHUFFLE_DECIMAL_DIGITS_MAX = 38 };
/* The named cap on a row's bytes; a larger row is an error that says so. */
#define SHUFFLE_ROW_BYTES_MAX (UINT32_C(16) << 20)

/* X(name, text, width): width 0 means variable, or given by the field (binary(n)). */
#define SHUFFLE_TYPE_LIST(X)                                                                                           \
    X(BOOL, "bool", 1)                                                                                                 \
    X(INT8, "int8", 1)                                                                                                 \
    X(INT16, "int16", 2)                                                                                               \
    X(INT32, "int32", 4)                                                                                               \
    X(INT64, "int64", 8)                                                                                               \
    X(UINT8, "uint8", 1)                                                                                               \
    X(UINT16, "uint16", 2)                                                                                             \
    X(UINT32, "uint32", 4)                                                                                             \
    X(UINT64, "uint64", 8)                                                                                             \
    X(FLOAT32, "float32", 4)                                                                                           \
    X(FLOAT64, "float64", 8)                                                                                           \
    X(DECIMAL, "decimal", 16)                                                                                          \
    X(DATE, "date", 4)                                                                                                 \
    X(TIMESTAMP, "timestamp", 8)                                                                                       \
    X(STRING, "string", 0)                                                                                             \
    X(BINARY, "binary", 0)                                                                                             \
    X(FIXED, "binary(n)", 0)

enum shuffle_type {
#define X(name, text, width) SHUFFLE_##name,
    SHUFFLE_TYPE_LIST(X)
#undef X
        SHUFFLE_TYPE_COUNT
};

struct shuffle_field {
    char name[SHUFFLE_NAME_BYTES_MAX + 1]; /* UTF-8 or any bytes but NUL */
    enum shuffle_type type;
    bool nullable;
    bool inferred;            /* the type was guessed from the first rows: texts it would change are refused */
    uint8_t precision, scale; /* DECIMAL only */
    uint32_t width;           /* bytes of the fixed slot: the type's, n of binary(n), 4 for STRING and BINARY */
};

/* Owns its fields. Zero-initialised is an empty schema. */
struct shuffle_schema {
    uint32_t count;
    struct shuffle_field *field;
};

void shuffle_schema_free(struct shuffle_schema *schema);
enum base_status shuffle_schema_copy(const struct shuffle_schema *from, struct shuffle_schema *to,
                                     struct base_error *error);
/* Appends a field, copied. BASE_TOO_LARGE, BASE_EXISTS (a second column of that name). */
enum base_status shuffle_schema_append(struct shuffle_schema *schema, const struct shuffle_field *field,
                                       struct base_error *error);
/* Parses "id:int64,name:string?,price:decimal(12,2)"; '?' means nullable; a name may be double-quoted ("" inside is a
 * quote). On error nothing is kept and the text names the field. */
enum base_status shuffle_schema_parse(const char *text, struct shuffle_schema *schema, struct base_error *error);
/* Makes one line of the text of a schema file: what line ends separate, commas do. Drops a byte order mark. */
void shuffle_schema_join_lines(char *text);
/* The same as text, parseable; malloc'ed, the caller frees. NULL when out of memory. */
char *shuffle_schema_format(const struct shuffle_schema *schema);
/* Parses one type such as "decimal(12,2)?" into type, nullable, precision, scale, width of *field. */
enum base_status shuffle_field_parse_type(const char *text, struct shuffle_field *field, struct base_error *error);
/* "decimal(12,2)?"; text has at least 48 bytes. */
void shuffle_field_format_type(const struct shuffle_field *field, char *text);
/* Index of the column of that exact name, or -1. */
int shuffle_schema_find(const struct shuffle_schema *schema, const char *name);
/* ` (did you mean "NAME"?)`, or "" when no column's name is near. Returns hint. */
const char *shuffle_schema_hint(const struct shuffle_schema *schema, const char *name,
                                char hint[BASE_NEAREST_HINT_BYTES]);
/* Are names and types the same? Where they come from does not count. */
bool shuffle_schema_equal(const struct shuffle_schema *a, const struct shuffle_schema *b);

static inline bool shuffle_type_variable(enum shuffle_type type)
{
    return type == SHUFFLE_STRING || type == SHUFFLE_BINARY;
}

/* Where a column lies in a row. */
struct shuffle_slot {
    enum shuffle_type type;
    uint32_t offset;  /* of the fixed slot */
    uint32_t width;   /* of the fixed slot */
    int32_t null_bit; /* or -1 */
    int32_t previous; /* column whose end offset is this variable column's start, or -1: 0 */
    uint8_t precision, scale;
};

struct shuffle_layout {
    uint32_t count;
    uint32_t fixed_bytes, null_bytes;
    uint32_t row_bytes;    /* of every row when there is no variable column, else 0 */
    int32_t last_variable; /* column, or -1 */
    struct shuffle_slot *slot;
};

enum base_status shuffle_layout_prepare(const struct shuffle_schema *schema, struct shuffle_layout *layout,
                                        struct base_error *error);
void shuffle_layout_free(struct shuffle_layout *layout);

static inline uint32_t shuffle_row_head_bytes(const struct shuffle_layout *layout)
{
    return layout->fixed_bytes + layout->null_bytes;
}

/* Bytes of the row at `row`, of which at least the head bytes are there. The result is as the row says: check it
 * against what is there and SHUFFLE_ROW_BYTES_MAX when the bytes come from outside (shuffle_row_check). */
static inline uint64_t shuffle_row_bytes(const struct shuffle_layout *layout, const uint8_t *row)
{
    if (layout->last_variable < 0)
        return layout->row_bytes;
    return (uint64_t)shuffle_row_head_bytes(layout) + base_load_u32(row + layout->slot[layout->last_variable].offset);
}

static inline bool shuffle_row_null(const struct shuffle_layout *layout, const uint8_t *row, uint32_t column)
{
    const int32_t bit = layout->slot[column].null_bit;
    return bit >= 0 && (row[layout->fixed_bytes + (uint32_t)bit / 8] >> ((uint32_t)bit % 8) & 1);
}

/* The bytes of a column's value; *bytes its length (for a NULL: 0 for variable columns, the zero slot otherwise). */
static inline const uint8_t *shuffle_row_value(const struct shuffle_layout *layout, const uint8_t *row, uint32_t column,
                                               uint32_t *bytes)
{
    const struct shuffle_slot *slot = &layout->slot[column];
    if (!shuffle_type_variable(slot->type)) {
        *bytes = slot->width;
        return row + slot->offset;
    }
    const uint32_t start = slot->previous < 0 ? 0 : base_load_u32(row + layout->slot[slot->previous].offset);
    *bytes = base_load_u32(row + slot->offset) - start;
    return row + shuffle_row_head_bytes(layout) + start;
}

/* Is the row at `row`, of which `bytes` bytes are there, whole and well-formed (ends in order, size within cap)? For
 * rows from outside. */
bool shuffle_row_check(const struct shuffle_layout *layout, const uint8_t *row, uint64_t bytes);

#endif
