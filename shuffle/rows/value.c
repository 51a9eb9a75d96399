#include "shuffle/rows/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/text/shown.h"
#include "shuffle/rows/value_time.h"

/* ---- integers ---- */

/* Digits only, at least one, below 2^64. */
static bool scan_magnitude(const uint8_t *text, size_t bytes, uint64_t *magnitude)
{
    if (bytes == 0)
        return false;
    uint64_t value = 0;
    const size_t safe = bytes < 19 ? bytes : 19; /* 19 digits cannot overflow */
    size_t i = 0;
    for (; i < safe; i++) {
        if (!shuffle_value_is_digit(text[i]))
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    for (; i < bytes; i++) {
        if (!shuffle_value_is_digit(text[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *magnitude = value;
    return true;
}

static bool all_digits(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!shuffle_value_is_digit(text[i]))
            return false;
    return bytes > 0;
}

bool shuffle_value_scan_int64(const uint8_t *text, size_t bytes, int64_t *value)
{
    const bool negative = bytes > 0 && text[0] == '-';
    const size_t sign = negative || (bytes > 0 && text[0] == '+');
    uint64_t magnitude;
    if (!scan_magnitude(text + sign, bytes - sign, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* X(name, unsigned, bits, words) */
#define INTEGER_LIST(X)                                                                                                \
    X(INT8, false, 8, "is out of range for int8 (-128 to 127)")                                                        \
    X(INT16, false, 16, "is out of range for int16 (-32768 to 32767)")                                                 \
    X(INT32, false, 32, "is out of range for int32 (-2147483648 to 2147483647)")                                       \
    X(INT64, false, 64, "is out of range for int64 (-9223372036854775808 to 9223372036854775807)")                     \
    X(UINT8, true, 8, "is out of range for uint8 (0 to 255)")                                                          \
    X(UINT16, true, 16, "is out of range for uint16 (0 to 65535)")                                                     \
    X(UINT32, true, 32, "is out of range for uint32 (0 to 4294967295)")                                                \
    X(UINT64, true, 64, "is out of range for uint64 (0 to 18446744073709551615)")

static const struct {
    bool is_unsigned;
    uint8_t bits;
    const char *range_words;
} integer_info[SHUFFLE_TYPE_COUNT] = {
#define X(name, is_unsigned, bits, words) [SHUFFLE_##name] = {is_unsigned, bits, words},
    INTEGER_LIST(X)
#undef X
};

static const char *parse_integer(enum shuffle_type type, const uint8_t *text, size_t bytes, uint8_t *to)
{
    const bool negative = bytes > 0 && text[0] == '-';
    const size_t sign = negative || (bytes > 0 && text[0] == '+');
    uint64_t magnitude;
    if (!scan_magnitude(text + sign, bytes - sign, &magnitude))
        return all_digits(text + sign, bytes - sign) ? integer_info[type].range_words : "is not an integer";
    const uint32_t bits = integer_info[type].bits;
    uint64_t limit; /* of the magnitude */
    if (integer_info[type].is_unsigned)
        limit = negative ? 0 : UINT64_MAX >> (64 - bits);
    else
        limit = (UINT64_C(1) << (bits - 1)) - !negative;
    if (magnitude > limit)
        return integer_info[type].range_words;
    const uint64_t value = negative ? 0 - magnitude : magnitude;
    memcpy(to, &value, bits / 8);
    return NULL;
}

static size_t format_magnitude(uint64_t value, uint8_t *to)
{
    uint8_t digits[20];
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; i < count; i++)
        to[i] = digits[count - 1 - i];
    return count;
}

static size_t format_signed(int64_t value, uint8_t *to)
{
    if (value >= 0)
        return format_magnitude((uint64_t)value, to);
    *to = '-';
    return 1 + format_magnitude(0 - (uint64_t)value, to + 1);
}

/* ---- bool ---- */

static bool value_word_is(const uint8_t *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && strncasecmp((const char *)text, word, bytes) == 0;
}

static const char *parse_bool(const uint8_t *text, size_t bytes, uint8_t *to)
{
    if (value_word_is(text, bytes, "true") || value_word_is(text, bytes, "t") || value_word_is(text, bytes, "1"))
        *to = 1;
    else if (value_word_is(text, bytes, "false") || value_word_is(text, bytes, "f") || value_word_is(text, bytes, "0"))
        *to = 0;
    else
        return "is not a bool (true or false)";
    return NULL;
}

/* ---- floats ---- */

/* A number as the text spells it: up to 19 digits and a power of ten. */
struct spelled {
    bool negative;
    bool special;   /* inf or nan */
    int digits;     /* significant ones, leading zeros apart */
    uint64_t value; /* of the digits, exact up to 19 */
    int exponent;
};

/* An exponent that the digits of a field, however many, cannot make up for: larger ones need not be told apart. */
enum { EXPONENT_LARGE = 100000000 };
_Static_assert(EXPONENT_LARGE > SHUFFLE_ROW_BYTES_MAX, "a field has fewer digits");

static bool value_spell(const uint8_t *text, size_t bytes, struct spelled *number)
{
    size_t i = 0;
    *number = (struct spelled){0};
    if (i < bytes && (text[i] == '-' || text[i] == '+'))
        number->negative = text[i++] == '-';
    number->special = value_word_is(text + i, bytes - i, "inf") || value_word_is(text + i, bytes - i, "infinity") ||
                      value_word_is(text + i, bytes - i, "nan");
    if (number->special)
        return true;
    bool point = false, any = false;
    for (; i < bytes; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (!shuffle_value_is_digit(text[i]))
            break;
        any = true;
        if (number->digits < 19) /* more digits than fit are left to convert_slowly */
            number->value = number->value * 10 + (uint64_t)(text[i] - '0');
        number->digits += number->digits > 0 || text[i] != '0';
        number->exponent -= point;
    }
    if (!any)
        return false;
    if (i < bytes && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        const bool negative = i < bytes && text[i] == '-';
        i += i < bytes && (text[i] == '-' || text[i] == '+');
        if (!all_digits(text + i, bytes - i))
            return false;
        int exponent = 0;
        for (; i < bytes; i++)
            exponent = exponent < EXPONENT_LARGE ? exponent * 10 + (text[i] - '0') : exponent;
        number->exponent += negative ? -exponent : exponent;
    }
    return i == bytes;
}

static const double ten_to[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* What is not exact in a few steps: strtod's work, or strtof's for a float32, because through a double it would be
 * rounded twice. *value holds either. */
static const char *convert_slowly(const uint8_t *text, size_t bytes, const struct spelled *number, bool single,
                                  double *value)
{
    char small[128];
    char *copy = bytes < sizeof small ? small : malloc(bytes + 1); /* terminated */
    if (!copy)
        return "could not be read: no memory";
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    *value = single ? (double)strtof(copy, NULL) : strtod(copy, NULL);
    if (copy != small)
        free(copy);
    if (number->special || (!isinf(*value) && (*value != 0 || number->digits == 0)))
        return NULL;
    return single ? "is out of range for float32" : "is out of range for float64";
}

static const char *parse_float64(const uint8_t *text, size_t bytes, uint8_t *to)
{
    struct spelled number;
    if (!value_spell(text, bytes, &number))
        return "is not a number";
    double value;
    const char *words = NULL;
    /* Both factors exact: one rounding, so the result is the nearest (Clinger 1990). */
    if (!number.special && number.digits <= 15 && number.exponent >= -22 && number.exponent <= 22) {
        value = (double)number.value;
        value = number.exponent < 0 ? value / ten_to[-number.exponent] : value * ten_to[number.exponent];
        value = number.negative ? -value : value;
    } else {
        words = convert_slowly(text, bytes, &number, false, &value);
    }
    if (!words)
        memcpy(to, &value, sizeof value);
    return words;
}

static const char *parse_float32(const uint8_t *text, size_t bytes, uint8_t *to)
{
    struct spelled number;
    if (!value_spell(text, bytes, &number))
        return "is not a number";
    float value;
    const char *words = NULL;
    if (!number.special && number.digits <= 7 && number.exponent >= -10 && number.exponent <= 10) {
        value = (float)number.value;
        value = number.exponent < 0 ? value / (float)ten_to[-number.exponent] : value * (float)ten_to[number.exponent];
        value = number.negative ? -value : value;
    } else {
        double wide = 0;
        words = convert_slowly(text, bytes, &number, true, &wide);
        value = (float)wide;
    }
    if (!words)
        memcpy(to, &value, sizeof value);
    return words;
}

static size_t format_special(double value, uint8_t *to)
{
    const char *word = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    return (size_t)(stpcpy((char *)to, word) - (char *)to);
}

static size_t format_float64(const uint8_t *from, uint8_t *to)
{
    double value;
    memcpy(&value, from, sizeof value);
    if (!isfinite(value))
        return format_special(value, to);
    if (fabs(value) < 1e15 && trunc(value) == value && !(value == 0 && signbit(value)))
        return format_signed((int64_t)value, to);
    int bytes = 0;
    for (int digits = 15; digits <= 17; digits++) {
        bytes = snprintf((char *)to, SHUFFLE_VALUE_TEXT_MAX, "%.*g", digits, value);
        if (strtod((const char *)to, NULL) == value)
            break;
    }
    return (size_t)bytes;
}

static size_t format_float32(const uint8_t *from, uint8_t *to)
{
    float value;
    memcpy(&value, from, sizeof value);
    if (!isfinite(value))
        return format_special((double)value, to);
    int bytes = 0;
    for (int digits = 6; digits <= 9; digits++) {
        bytes = snprintf((char *)to, SHUFFLE_VALUE_TEXT_MAX, "%.*g", digits, (double)value);
        if (strtof((const char *)to, NULL) == value)
            break;
    }
    return (size_t)bytes;
}

/* ---- decimal ---- */

static const char *value_parse_decimal(const struct shuffle_field *field, const uint8_t *text, size_t bytes,
                                       uint8_t *to)
{
    const bool negative = bytes > 0 && text[0] == '-';
    size_t i = negative || (bytes > 0 && text[0] == '+');
    unsigned __int128 value = 0;
    int digits = 0, fraction = 0;
    bool point = false, any = false, too_fine = false;
    for (; i < bytes; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (!shuffle_value_is_digit(text[i]))
            return "is not a decimal number such as 12.34";
        any = true;
        if (point && fraction == field->scale) {
            too_fine |= text[i] != '0';
            continue;
        }
        fraction += point;
        if (digits == 0 && text[i] == '0')
            continue;
        if (digits++ < SHUFFLE_DECIMAL_DIGITS_MAX)
            value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (!any)
        return "is not a decimal number such as 12.34";
    if (too_fine)
        return "has more digits after the point than the column's decimal type";
    for (; fraction < field->scale; fraction++) {
        value *= digits < SHUFFLE_DECIMAL_DIGITS_MAX ? 10 : 1;
        digits += digits > 0;
    }
    if (digits > field->precision)
        return "has more digits before the point than the column's decimal type";
    const __int128 signed_value = negative ? -(__int128)value : (__int128)value;
    memcpy(to, &signed_value, sizeof signed_value);
    return NULL;
}

static size_t format_decimal(const uint8_t *from, uint8_t scale, uint8_t *to)
{
    __int128 value;
    memcpy(&value, from, sizeof value);
    unsigned __int128 magnitude = value < 0 ? 0 - (unsigned __int128)value : (unsigned __int128)value;
    uint8_t digits[40];
    size_t count = 0, bytes = 0;
    while (magnitude != 0 || count <= scale) {
        digits[count++] = (uint8_t)('0' + (uint8_t)(magnitude % 10));
        magnitude /= 10;
    }
    if (value < 0)
        to[bytes++] = '-';
    while (count > 0) {
        if (count == scale)
            to[bytes++] = '.';
        to[bytes++] = digits[--count];
    }
    return bytes;
}

/* ---- binary ---- */

static int hex_of(uint8_t c)
{
    if (shuffle_value_is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *shuffle_value_parse_binary(const uint8_t *text, size_t bytes, uint8_t *to, uint32_t *made)
{
    static const char words[] = "is not binary: \\x and pairs of hexadecimal digits";
    if (bytes < 2 || text[0] != '\\' || text[1] != 'x' || bytes % 2 != 0)
        return words;
    for (size_t i = 2; i < bytes; i++) /* first all, so that a bad text is whole for the message */
        if (hex_of(text[i]) < 0)
            return words;
    for (size_t i = 2; i < bytes; i += 2)
        to[i / 2 - 1] = (uint8_t)(hex_of(text[i]) << 4 | hex_of(text[i + 1]));
    *made = (uint32_t)(bytes / 2 - 1);
    return NULL;
}

static size_t format_binary(const uint8_t *value, uint32_t bytes, uint8_t *to)
{
    static const char digits[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'x';
    for (uint32_t i = 0; i < bytes; i++) {
        to[2 + 2 * (size_t)i] = (uint8_t)digits[value[i] >> 4];
        to[3 + 2 * (size_t)i] = (uint8_t)digits[value[i] & 15];
    }
    return 2 + 2 * (size_t)bytes;
}

/* ---- all types ---- */

const char *shuffle_value_parse(const struct shuffle_field *field, const uint8_t *text, size_t bytes, uint8_t *to)
{
    switch (field->type) {
    case SHUFFLE_BOOL:
        return parse_bool(text, bytes, to);
    case SHUFFLE_FLOAT32:
        return parse_float32(text, bytes, to);
    case SHUFFLE_FLOAT64:
        return parse_float64(text, bytes, to);
    case SHUFFLE_DECIMAL:
        return value_parse_decimal(field, text, bytes, to);
    case SHUFFLE_DATE:
        return shuffle_value_parse_date(text, bytes, to);
    case SHUFFLE_TIMESTAMP:
        return shuffle_value_parse_timestamp(text, bytes, to);
    case SHUFFLE_FIXED: {
        uint32_t made;
        if (bytes != 2 + 2 * (size_t)field->width)
            return "is not \\x and as many hexadecimal pairs as the column's binary(n) has bytes";
        return shuffle_value_parse_binary(text, bytes, to, &made);
    }
    default:
        return parse_integer(field->type, text, bytes, to);
    }
}

size_t shuffle_value_format(const struct shuffle_slot *slot, const uint8_t *value, uint32_t bytes, uint8_t *to)
{
    switch (slot->type) {
    case SHUFFLE_BOOL:
        return (size_t)(stpcpy((char *)to, *value ? "true" : "false") - (char *)to);
    case SHUFFLE_INT8:
        return format_signed((int8_t)*value, to);
    case SHUFFLE_INT16:
        return format_signed((int16_t)base_load_u16(value), to);
    case SHUFFLE_INT32:
        return format_signed((int32_t)base_load_u32(value), to);
    case SHUFFLE_INT64:
        return format_signed((int64_t)base_load_u64(value), to);
    case SHUFFLE_UINT8:
        return format_magnitude(*value, to);
    case SHUFFLE_UINT16:
        return format_magnitude(base_load_u16(value), to);
    case SHUFFLE_UINT32:
        return format_magnitude(base_load_u32(value), to);
    case SHUFFLE_UINT64:
        return format_magnitude(base_load_u64(value), to);
    case SHUFFLE_FLOAT32:
        return format_float32(value, to);
    case SHUFFLE_FLOAT64:
        return format_float64(value, to);
    case SHUFFLE_DECIMAL:
        return format_decimal(value, slot->scale, to);
    case SHUFFLE_DATE:
        return shuffle_value_format_date((int32_t)base_load_u32(value), to);
    case SHUFFLE_TIMESTAMP:
        return shuffle_value_format_timestamp((int64_t)base_load_u64(value), to);
    case SHUFFLE_STRING:
        if (bytes > 0)
            memcpy(to, value, bytes);
        return bytes;
    default:
        return format_binary(value, bytes, to);
    }
}

char *shuffle_value_quote(const uint8_t *text, size_t bytes, char *to)
{
    char *out = to;
    size_t i = 0;
    for (int characters = 0; i < bytes && characters < 40; characters++) {
        const size_t length = base_shown_character((const char *)text + i, bytes - i);
        const size_t taken = length > 0 ? length : 1;
        out += base_shown_copy((const char *)text + i, taken, out, BASE_SHOWN_GROWTH + 1);
        i += taken;
    }
    memcpy(out, i < bytes ? "..." : "", i < bytes ? 4 : 1);
    return to;
}
