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

/* The object that a measure's key "group.word" names, made when it is not there yet; *word is the key in it. */
static json_t *group_of(struct json_out *out, json_t *object, const char *key, const char **word)
{
    const char *dot = strchr(key, '.');
    char group[64];
    *word = dot ? dot + 1 : key;
    if (!dot)
        return object;
    snprintf(group, sizeof group, "%.*s", (int)(dot - key), key);
    if (!json_object_get(object, group))
        json_out_put(out, object, group, json_object());
    return json_object_get(object, group);
}

void json_out_put_measures(struct json_out *out, json_t *object, const struct base_measure *list, uint32_t count,
                           const void *measures, enum base_shown where)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t value = ((const uint64_t *)measures)[i];
        const char *word;
        if (!(list[i].shown & where))
            continue;
        json_t *group = group_of(out, object, list[i].key, &word);
        if (list[i].over_nodes == BASE_FOLD_SUM_KNOWN && value == BASE_MEASURE_UNKNOWN)
            json_out_put(out, group, word, json_null());
        else if (list[i].unit == BASE_UNIT_NS && group == object)
            json_out_put_real(out, group, word, (double)value / 1e9);
        else
            json_out_put_count(out, group, word, value);
    }
}

void json_out_put_per_gib(struct json_out *out, json_t *object, const struct base_measure *list, uint32_t count,
                          const void *measures, uint64_t bytes)
{
    const double gib = (double)bytes / (1 << 30);
    for (uint32_t i = 0; i < count; i++) {
        if (!list[i].per_gib)
            continue;
        const double value = (double)((const uint64_t *)measures)[i];
        const double before = json_number_value(json_object_get(object, list[i].per_gib));
        const double here = list[i].unit == BASE_UNIT_NS ? value / 1e9 : value;
        json_out_put(out, object, list[i].per_gib, bytes ? json_real(before + here / gib) : json_null());
    }
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
