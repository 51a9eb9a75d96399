#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/output/encode.h"
#include "shuffle/rows/value.h"

void shuffle_output_csv_prepare(struct output_encoder *encoder)
{
    uint64_t bound = 0;
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct shuffle_slot *slot = encoder->item[i].slot;
        bound += shuffle_type_variable(slot->type) ? 0 : shuffle_value_text_bound(slot->type, slot->width);
    }
    encoder->bound_bytes = bound + encoder->count; /* and a delimiter or line end each */
}

/* Twice the bytes covers doubled quotes and hexadecimal digits; two more, the quotes around or the \x. */
uint64_t shuffle_output_csv_bound(const struct output_encoder *encoder, const uint8_t *const row[2])
{
    uint64_t bound = encoder->bound_bytes;
    for (uint32_t i = 0; encoder->variable && i < encoder->count; i++)
        if (shuffle_type_variable(encoder->item[i].slot->type))
            bound += 2 + 2 * (uint64_t)output_item_bytes(&encoder->item[i], row);
    return bound;
}

/* Must the string be put in quotes? Also when it could be taken for NULL or for a byte order mark. */
static bool wants_quotes(const uint8_t *text, uint32_t bytes)
{
    if (bytes == 0 || text[0] == 0xef)
        return true;
    for (uint32_t i = 0; i < bytes; i++) {
        const uint8_t c = text[i];
        if (c <= ',' && (c == ',' || c == '"' || c == '\n' || c == '\r'))
            return true;
    }
    return false;
}

static size_t encode_string(const uint8_t *text, uint32_t bytes, uint8_t *to)
{
    if (!wants_quotes(text, bytes)) {
        memcpy(to, text, bytes);
        return bytes;
    }
    uint8_t *out = to;
    *out++ = '"';
    for (uint32_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            *out++ = '"';
        *out++ = text[i];
    }
    *out++ = '"';
    return (size_t)(out - to);
}

size_t shuffle_output_csv_encode(const struct output_encoder *encoder, const uint8_t *const row[2], uint8_t *to)
{
    uint8_t *out = to;
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct output_item *item = &encoder->item[i];
        uint32_t bytes;
        const uint8_t *value = output_item_value(item, row, &bytes);
        if (value && item->slot->type == SHUFFLE_STRING)
            out += encode_string(value, bytes, out);
        else if (value)
            out += shuffle_value_format(item->slot, value, bytes, out);
        *out++ = ',';
    }
    if (encoder->count == 0)
        out++;
    out[-1] = '\n';
    BASE_ASSERT_SLOW((uint64_t)(out - to) <= shuffle_output_csv_bound(encoder, row));
    return (size_t)(out - to);
}

char *shuffle_output_csv_header(const struct shuffle_schema *schema)
{
    char *header = malloc((size_t)schema->count * (4 * SHUFFLE_NAME_BYTES_MAX + 64) + 2);
    if (!header)
        return NULL;
    char *at = header;
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct shuffle_schema one = {.count = 1, .field = &schema->field[i]};
        char *field = shuffle_schema_format(&one);
        if (!field) {
            free(header);
            return NULL;
        }
        at += encode_string((const uint8_t *)field, (uint32_t)strlen(field), (uint8_t *)at);
        *at++ = i + 1 < schema->count ? ',' : '\n';
        free(field);
    }
    *at = '\0';
    BASE_ASSERT(schema->count == 0 || at[-1] == '\n');
    return header;
}
