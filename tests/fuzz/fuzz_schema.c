/* Schemas and source words: a text either is refused or is written out as a text that means the same. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "shuffle/source/relation.h"

static void schema(const char *text)
{
    struct shuffle_schema first, second;
    struct base_error error;
    if (shuffle_schema_parse(text, &first, &error) != BASE_OK)
        return;
    char *written = shuffle_schema_format(&first);
    BASE_ASSERT(written && shuffle_schema_parse(written, &second, &error) == BASE_OK);
    BASE_ASSERT(shuffle_schema_equal(&first, &second));
    struct shuffle_layout layout;
    if (shuffle_layout_prepare(&first, &layout, &error) == BASE_OK)
        shuffle_layout_free(&layout);
    free(written);
    shuffle_schema_free(&first);
    shuffle_schema_free(&second);
}

static void source(const char *text)
{
    struct shuffle_relation relation;
    struct base_error error;
    char *path;
    if (shuffle_relation_parse(text, &relation, &path, &error) != BASE_OK)
        return;
    BASE_ASSERT((!path) == (relation.placement == SHUFFLE_GENERATED));
    BASE_ASSERT(path || relation.generator.row_bytes >= 8);
    free(path);
    shuffle_relation_free(&relation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    BASE_ASSERT(text);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    schema(text);
    source(text);
    free(text);
    return 0;
}
