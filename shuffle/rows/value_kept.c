/* Which texts come back unchanged: a column whose type was inferred may hold no others, or two texts would become one
 * value. The usual shapes are recognised; what is left is written and compared. */
#include "shuffle/rows/value.h"
#include "shuffle/rows/value_time.h"

/* What a double keeps of any decimal number, and so what is written of it; below 10^-4 it is written with an exponent.
 */
enum { FLOAT64_DIGITS = 15, FLOAT64_ZEROS_MAX = 3 };

/* Integers have one text: no sign but -, no zero before other digits. */
static bool integer_kept(const uint8_t *text, size_t bytes)
{
    const size_t sign = text[0] == '-';
    return text[0] != '+' && (text[sign] != '0' || bytes == 1);
}

/* Is the number spelled as [-]digits[.digits] that are written so again? False: it may be all the same. */
static bool float64_is_plain(const uint8_t *text, size_t bytes)
{
    const size_t first = text[0] == '-';
    size_t at = first, zeros = 0;
    while (at < bytes && shuffle_value_is_digit(text[at]))
        at++;
    const size_t whole = at - first;
    if (whole == 0 || (text[first] == '0' && whole > 1) || bytes - first > FLOAT64_DIGITS + 1)
        return false;
    if (at == bytes)
        return whole <= FLOAT64_DIGITS && !(first == 1 && text[first] == '0');
    if (text[at] != '.' || text[bytes - 1] == '0' || text[bytes - 1] == '.')
        return false;
    const size_t point = at++;
    while (at < bytes && text[at] == '0')
        at++;
    zeros = at - point - 1;
    while (at < bytes && shuffle_value_is_digit(text[at]))
        at++;
    return at == bytes && (text[first] != '0' || zeros <= FLOAT64_ZEROS_MAX);
}

/* YYYY-MM-DD, or that and HH:MM:SS after a blank. */
static bool time_is_plain(enum shuffle_type type, const uint8_t *text, size_t bytes)
{
    if (!shuffle_value_is_digit(text[0]))
        return false;
    return type == SHUFFLE_DATE ? bytes == 10 : bytes == 19 && text[10] == ' ';
}

static bool written_again(const struct shuffle_field *field, const uint8_t *text, size_t bytes, const uint8_t *value)
{
    const struct shuffle_slot slot = {
        .type = field->type, .width = field->width, .precision = field->precision, .scale = field->scale};
    uint8_t written[SHUFFLE_VALUE_TEXT_MAX];
    return bytes <= sizeof written && shuffle_value_format(&slot, value, field->width, written) == bytes &&
           memcmp(written, text, bytes) == 0;
}

bool shuffle_value_kept(const struct shuffle_field *field, const uint8_t *text, size_t bytes, const uint8_t *value)
{
    switch (field->type) {
    case SHUFFLE_INT64:
        return integer_kept(text, bytes);
    case SHUFFLE_FLOAT64:
        if (float64_is_plain(text, bytes))
            return true;
        if (bytes == 2 && text[0] == '-' && text[1] == '0') /* is written again, but equals 0 */
            return false;
        break;
    case SHUFFLE_DATE:
    case SHUFFLE_TIMESTAMP:
        if (time_is_plain(field->type, text, bytes))
            return true;
        break;
    default:
        break;
    }
    return written_again(field, text, bytes, value);
}
