#include "base/text/shown.h"

#include <string.h>

static bool shown_continues(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return false;
    return true;
}

/* The character's code point and length; 0 for what is no UTF-8 in its shortest form. */
static size_t shown_decode(const char *text, size_t bytes, unsigned *point)
{
    static const unsigned first_of_length[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char lead = (unsigned char)text[0];
    const size_t length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
    if (length == 0 || length > bytes || !shown_continues(text + 1, length - 1))
        return 0;
    *point = length == 1 ? lead : lead & (0x7fU >> length);
    for (size_t i = 1; i < length; i++)
        *point = *point << 6 | ((unsigned char)text[i] & 0x3f);
    const bool surrogate = *point >= 0xd800 && *point < 0xe000;
    return *point < first_of_length[length] || *point > 0x10ffff || surrogate ? 0 : length;
}

/* C0, DEL, C1; the line separators; what turns the direction of writing. */
static bool shown_controls(unsigned point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

size_t base_shown_character(const char *text, size_t bytes)
{
    unsigned point;
    const size_t length = bytes > 0 ? shown_decode(text, bytes, &point) : 0;
    return length > 0 && !shown_controls(point) ? length : 0;
}

bool base_shown_is(const char *text, size_t bytes)
{
    size_t length = 1;
    for (size_t i = 0; i < bytes && length > 0; i += length)
        length = base_shown_character(text + i, bytes - i);
    return length > 0;
}

size_t base_shown_copy(const char *text, size_t bytes, char *to, size_t to_bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t length = base_shown_character(text + i, bytes - i);
        if ((length > 0 ? length : BASE_SHOWN_GROWTH) > to_bytes - 1 - used)
            break;
        if (length > 0) {
            memcpy(to + used, text + i, length);
            used += length;
            i += length;
            continue;
        }
        const unsigned char byte = (unsigned char)text[i++];
        memcpy(to + used, (const char[]){'\\', 'x', digits[byte >> 4], digits[byte & 15]}, BASE_SHOWN_GROWTH);
        used += BASE_SHOWN_GROWTH;
    }
    to[used] = '\0';
    return used;
}

const char *base_shown_text(const char *text, char to[BASE_SHOWN_BYTES])
{
    base_shown_copy(text, strlen(text), to, BASE_SHOWN_BYTES);
    return to;
}

bool base_shown_write(const char *text, size_t bytes, FILE *to)
{
    for (size_t i = 0; i < bytes;) {
        char escape[BASE_SHOWN_GROWTH + 1];
        const size_t length = text[i] == '\n' ? 1 : base_shown_character(text + i, bytes - i);
        if (length > 0)
            fwrite(text + i, 1, length, to);
        else
            fwrite(escape, 1, base_shown_copy(text + i, 1, escape, sizeof escape), to);
        i += length > 0 ? length : 1;
    }
    return !ferror(to);
}
