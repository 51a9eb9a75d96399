#include "cluster/report/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/shown.h"

void json_out_put(struct json_out *out, json_t *object, const char *key, json_t *value)
{
    out->failed |= json_object_set_new(object, key, value) != 0;
}

void json_out_append(struct json_out *out, json_t *array, json_t *value)
{
    out->failed |= json_array_append_new(array, value) != 0;
}

json_t *json_out_text(const char *text)
{
    if (!text)
        text = "";
    json_t *string = json_string(text);
    if (string)
        return string;
    const size_t bytes = strlen(text), shown_bytes = BASE_SHOWN_GROWTH * bytes + 1;
    char *shown = malloc(shown_bytes);
    if (!shown)
        return NULL;
    base_shown_copy(text, bytes, shown, shown_bytes);
    string = json_string(shown);
    free(shown);
    return string;
}

void json_out_put_text(struct json_out *out, json_t *object, const char *key, const char *text)
{
    json_out_put(out, object, key, json_out_text(text));
}

json_t *json_out_words(struct json_out *out, const char *text)
{
    json_t *array = json_array();
    char *copy = strdup(text ? text : "");
    char *rest = copy;
    if (!copy)
        out->failed = true;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        json_out_append(out, array, json_out_text(word));
    free(copy);
    return array;
}

void json_out_put_text_or_null(struct json_out *out, json_t *object, const char *key, const char *text)
{
    json_out_put(out, object, key, text && *text ? json_out_text(text) : json_null());
}

void json_out_put_count(struct json_out *out, json_t *object, const char *key, uint64_t count)
{
    json_out_put(out, object, key, json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count));
}

void json_out_put_real(struct json_out *out, json_t *object, const char *key, double number)
{
    json_out_put(out, object, key, isfinite(number) ? json_real(number) : json_null());
}

void json_out_put_bool(struct json_out *out, json_t *object, const char *key, bool value)
{
    json_out_put(out, object, key, json_boolean(value));
}

char *json_out_finish(const struct json_out *out, json_t *object)
{
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    char *text = out->failed || !object ? NULL : json_dumps(object, flags);
    /* Also where it is printed to a terminal: control characters beyond ASCII become \\u escapes, as all others then.
     */
    if (text && !base_shown_is(text, strlen(text))) {
        free(text);
        text = json_dumps(object, flags | JSON_ENSURE_ASCII);
    }
    json_decref(object);
    return text;
}
