/* Values: a text that is taken for a value is written as a text that is taken for the same value. The first byte
 * chooses the type. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "shuffle/rows/value.h"

static const char *const types[] = {"bool",           "int8",      "int16",    "int32",         "int64",
                                    "uint8",          "uint16",    "uint32",   "uint64",        "float32",
                                    "float64",        "date",      "binary",   "decimal(12,2)", "decimal(38,0)",
                                    "decimal(38,38)", "timestamp", "binary(5)"};

static void check(const struct shuffle_field *field, const uint8_t *data, size_t bytes)
{
    const struct shuffle_slot slot = {.type = field->type, .width = field->width, .scale = field->scale};
    uint8_t first[16] = {0}, second[16] = {0}, text[64];
    char quoted[SHUFFLE_QUOTE_BYTES];
    BASE_ASSERT(strlen(shuffle_value_quote(data, bytes, quoted)) < sizeof quoted);
    if (shuffle_value_parse(field, data, bytes, first))
        return;
    const size_t written = shuffle_value_format(&slot, first, field->width, text);
    BASE_ASSERT(written <= shuffle_value_text_bound(field->type, field->width));
    BASE_ASSERT(!shuffle_value_parse(field, text, written, second));
    BASE_ASSERT(memcmp(first, second, field->width) == 0 || memcmp(text, "NaN", 3) == 0);
}

static void check_binary(const uint8_t *data, size_t bytes)
{
    uint8_t *value = malloc(bytes + 1);
    uint32_t made;
    BASE_ASSERT(value);
    if (!shuffle_value_parse_binary(data, bytes, value, &made)) {
        const struct shuffle_slot slot = {.type = SHUFFLE_BINARY};
        uint8_t *text = malloc(shuffle_value_text_bound(SHUFFLE_BINARY, made));
        BASE_ASSERT(text && shuffle_value_format(&slot, value, made, text) == bytes);
        free(text);
    }
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    struct shuffle_field field = {0};
    const char *type = types[data[0] % (sizeof types / sizeof *types)];
    BASE_ASSERT(shuffle_field_parse_type(type, &field, NULL) == BASE_OK);
    if (field.type == SHUFFLE_BINARY)
        check_binary(data + 1, bytes - 1);
    else
        check(&field, data + 1, bytes - 1);
    return 0;
}
