#include "join/words.h"

#include <stdio.h>
#include <string.h>

enum base_status join_words_name(const char **at, const char *stop, char *name, struct base_error *error)
{
    const char *from = *at;
    const bool quoted = *from == '"';
    size_t bytes = 0;
    from += quoted;
    for (;; from++) {
        if (*from == '\0') {
            if (quoted)
                return base_error_set(error, BASE_INVALID, "\"%s\" has a double quote that is never closed", *at);
            break;
        }
        if (quoted && *from == '"') {
            if (from[1] != '"') {
                from++;
                break;
            }
            from++;
        } else if (!quoted && (*from == ',' || strchr(stop, *from))) {
            break;
        }
        if (bytes == SHUFFLE_NAME_BYTES_MAX)
            return base_error_set(error, BASE_TOO_LARGE, "a column name is longer than %d bytes in \"%.60s...\"",
                                  SHUFFLE_NAME_BYTES_MAX, *at);
        name[bytes++] = *from;
    }
    name[bytes] = '\0';
    if (bytes == 0)
        return *from != '\0' ? base_error_set(error, BASE_INVALID, "a column name is missing before \"%s\"", from)
                             : base_error_set(error, BASE_INVALID, "a column name is missing at the end");
    if (*from != '\0' && *from != ',' && !strchr(stop, *from))
        return base_error_set(error, BASE_INVALID, "\"%s\" follows the quoted name \"%s\"; expected ','", from, name);
    *at = from;
    return BASE_OK;
}

const char *join_words_side(const char **at)
{
    static const char *const side[2] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        const size_t bytes = strlen(side[i]);
        if (strncmp(*at, side[i], bytes) == 0 && (*at)[bytes] == '.') {
            *at += bytes + 1;
            return side[i];
        }
    }
    return NULL;
}

void join_words_columns(const struct shuffle_schema *schema, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < schema->count; i++) {
        const char *name = schema->field[i].name;
        /* Quotes where a name could be taken for several, as when the wrong delimiter was used. */
        const char *quote = name[strcspn(name, ",;|\t")] != '\0' ? "\"" : "";
        const int wrote = snprintf(text + used, bytes - used, "%s%s%s%s", i > 0 ? ", " : "", quote, name, quote);
        if (wrote < 0 || (size_t)wrote >= bytes - used) {
            snprintf(text + bytes - 5, 5, " ...");
            return;
        }
        used += (size_t)wrote;
    }
}

enum base_status join_words_rename(const struct shuffle_schema *result, const char *side, char *name,
                                   struct base_error *error)
{
    char tried[2 * SHUFFLE_NAME_BYTES_MAX + 32];
    for (unsigned i = 1; i <= SHUFFLE_COLUMNS_MAX + 1; i++) {
        const int wrote = i == 1 ? snprintf(tried, sizeof tried, "%s.%s", side, name)
                                 : snprintf(tried, sizeof tried, "%s.%s.%u", side, name, i);
        if (wrote > SHUFFLE_NAME_BYTES_MAX)
            break;
        if (shuffle_schema_find(result, tried) < 0) {
            memcpy(name, tried, (size_t)wrote + 1);
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_TOO_LARGE, "no free name for a second result column \"%s\"; use --select", name);
}
