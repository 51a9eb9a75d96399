/* Key values in normal form: what hashing and comparing agree on. Internal to shuffle/rows/key_*.c. */
#ifndef MILLRACE_SHUFFLE_ROWS_KEY_VALUE_H
#define MILLRACE_SHUFFLE_ROWS_KEY_VALUE_H

#include "shuffle/rows/key.h"

/* An integer of any width: sign-extended, or zero-extended, to 64 bits. uint64 above INT64_MAX has the bits of a
 * negative number: equal bits are the same value only when key_integer_wraps agrees. */
static inline uint64_t key_integer(enum shuffle_type type, const uint8_t *at)
{
    switch (type) {
    case SHUFFLE_INT8:
        return (uint64_t)(int64_t)(int8_t)*at;
    case SHUFFLE_INT16:
        return (uint64_t)(int64_t)(int16_t)base_load_u16(at);
    case SHUFFLE_INT32:
    case SHUFFLE_DATE:
        return (uint64_t)(int64_t)(int32_t)base_load_u32(at);
    case SHUFFLE_UINT16:
        return base_load_u16(at);
    case SHUFFLE_UINT32:
        return base_load_u32(at);
    case SHUFFLE_INT64:
    case SHUFFLE_UINT64:
    case SHUFFLE_TIMESTAMP:
        return base_load_u64(at);
    default: /* BOOL, UINT8 */
        return *at;
    }
}

/* Does the value lie above INT64_MAX, where its bits would read as a negative number? */
static inline bool key_integer_wraps(enum shuffle_type type, uint64_t value)
{
    return type == SHUFFLE_UINT64 && value >> 63;
}

/* The bits of a double with one zero and one NaN. */
static inline uint64_t key_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = value == 0 ? 0 : bits;
    return value == value ? bits : UINT64_C(0x7ff8000000000000); /* also under vectorisation: no branch */
}

static inline uint64_t key_float(enum shuffle_type type, const uint8_t *at)
{
    if (type == SHUFFLE_FLOAT32) {
        float value;
        memcpy(&value, at, sizeof value);
        return key_double((double)value);
    }
    double value;
    memcpy(&value, at, sizeof value);
    return key_double(value);
}

/* value = mantissa / 10^scale, the mantissa without trailing zeros: one form per value. The scale of 100 is -2. */
struct key_decimal {
    unsigned __int128 magnitude;
    bool negative;
    int32_t scale;
};

static inline struct key_decimal key_decimal(const struct shuffle_slot *slot, const uint8_t *at)
{
    __int128 value;
    struct key_decimal decimal = {0};
    if (slot->type == SHUFFLE_DECIMAL) {
        memcpy(&value, at, sizeof value);
        decimal.scale = slot->scale;
    } else {
        const uint64_t bits = key_integer(slot->type, at);
        value = slot->type == SHUFFLE_UINT64 ? (__int128)bits : (__int128)(int64_t)bits;
    }
    if (value == 0)
        return (struct key_decimal){0};
    decimal.negative = value < 0;
    unsigned __int128 magnitude = decimal.negative ? -(unsigned __int128)value : (unsigned __int128)value;
    /* Only an even number can end in a zero; short numbers, the usual ones, are divided in 64 bits. */
    while (magnitude >> 64 && !(magnitude & 1) && magnitude % 10 == 0) {
        magnitude /= 10;
        decimal.scale--;
    }
    if (!(magnitude >> 64)) {
        uint64_t low = (uint64_t)magnitude;
        while (!(low & 1) && low % 10 == 0) {
            low /= 10;
            decimal.scale--;
        }
        magnitude = low;
    }
    decimal.magnitude = magnitude;
    return decimal;
}

static inline bool key_decimal_equal(struct key_decimal a, struct key_decimal b)
{
    return a.magnitude == b.magnitude && a.scale == b.scale && a.negative == b.negative;
}

#endif
