/* Which pairs of columns may be compared, and the comparison of two rows' keys. */
#include "shuffle/rows/key_value.h"

static bool is_integer(enum shuffle_type type)
{
    return type >= SHUFFLE_INT8 && type <= SHUFFLE_UINT64;
}

static bool is_float(enum shuffle_type type)
{
    return type == SHUFFLE_FLOAT32 || type == SHUFFLE_FLOAT64;
}

static bool is_binary(enum shuffle_type type)
{
    return type == SHUFFLE_BINARY || type == SHUFFLE_FIXED;
}

enum base_status shuffle_key_pair_class(const struct shuffle_field *a, const struct shuffle_field *b,
                                        enum shuffle_key_class *class, struct base_error *error)
{
    const enum shuffle_type s = a->type, t = b->type;
    if ((is_integer(s) && is_integer(t)) ||
        (s == t && (s == SHUFFLE_BOOL || s == SHUFFLE_DATE || s == SHUFFLE_TIMESTAMP))) {
        *class = SHUFFLE_KEY_INTEGER;
    } else if ((s == SHUFFLE_DECIMAL || is_integer(s)) && (t == SHUFFLE_DECIMAL || is_integer(t))) {
        *class = SHUFFLE_KEY_DECIMAL;
    } else if (is_float(s) && is_float(t)) {
        *class = SHUFFLE_KEY_FLOAT;
    } else if ((s == SHUFFLE_STRING && t == SHUFFLE_STRING) || (is_binary(s) && is_binary(t))) {
        *class = SHUFFLE_KEY_BYTES;
    } else {
        char a_type[48], b_type[48];
        shuffle_field_format_type(a, a_type);
        shuffle_field_format_type(b, b_type);
        return base_error_set(error, BASE_TYPE,
                              "column %s (%s) cannot be compared with column %s (%s): declare both with types of one "
                              "kind (integers and decimals, floats, strings, binaries, dates, timestamps or bools)",
                              a->name, a_type, b->name, b_type);
    }
    return BASE_OK;
}

static bool part_equal(enum shuffle_key_class class, const struct shuffle_layout *layout_a, const uint8_t *row_a,
                       uint32_t column_a, const struct shuffle_layout *layout_b, const uint8_t *row_b,
                       uint32_t column_b)
{
    const struct shuffle_slot *a = &layout_a->slot[column_a], *b = &layout_b->slot[column_b];
    switch (class) {
    case SHUFFLE_KEY_INTEGER: {
        const uint64_t x = key_integer(a->type, row_a + a->offset), y = key_integer(b->type, row_b + b->offset);
        return x == y && (a->type == b->type || key_integer_wraps(a->type, x) == key_integer_wraps(b->type, y));
    }
    case SHUFFLE_KEY_DECIMAL:
        return key_decimal_equal(key_decimal(a, row_a + a->offset), key_decimal(b, row_b + b->offset));
    case SHUFFLE_KEY_FLOAT:
        return key_float(a->type, row_a + a->offset) == key_float(b->type, row_b + b->offset);
    default: {
        uint32_t bytes_a, bytes_b;
        const uint8_t *x = shuffle_row_value(layout_a, row_a, column_a, &bytes_a);
        const uint8_t *y = shuffle_row_value(layout_b, row_b, column_b, &bytes_b);
        return bytes_a == bytes_b && memcmp(x, y, bytes_a) == 0;
    }
    }
}

/* With null_equal: are both parts NULL, or neither? *both says which. */
static bool part_nulls_agree(const struct shuffle_layout *layout_a, const uint8_t *row_a, uint32_t column_a,
                             const struct shuffle_layout *layout_b, const uint8_t *row_b, uint32_t column_b, bool *both)
{
    *both = shuffle_row_null(layout_a, row_a, column_a);
    return *both == shuffle_row_null(layout_b, row_b, column_b);
}

bool shuffle_key_equal(const struct shuffle_key *key_a, const struct shuffle_layout *layout_a, const uint8_t *row_a,
                       const struct shuffle_key *key_b, const struct shuffle_layout *layout_b, const uint8_t *row_b)
{
    for (uint32_t i = 0; i < key_a->count; i++) {
        const uint32_t column_a = key_a->part[i].column, column_b = key_b->part[i].column;
        bool null = false;
        if (key_a->null_equal && !part_nulls_agree(layout_a, row_a, column_a, layout_b, row_b, column_b, &null))
            return false;
        if (!null && !part_equal(key_a->part[i].class, layout_a, row_a, column_a, layout_b, row_b, column_b))
            return false;
    }
    return true;
}
