/* Building a JSON object of which any piece may fail for lack of memory: the failure is remembered, and shows once at
 * the end. jansson's containers take over what is put into them, and refuse NULL. */
#ifndef MILLRACE_CLUSTER_REPORT_JSON_OUT_H
#define MILLRACE_CLUSTER_REPORT_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/measure.h"

/* Zero-initialised at the start; passed to every call for one object. */
struct json_out {
    bool failed;
};

void json_out_put(struct json_out *out, json_t *object, const char *key, json_t *value);
void json_out_append(struct json_out *out, json_t *array, json_t *value);
/* In a text with bytes that are not UTF-8 these, and control characters, become \xNN; NULL is "". */
json_t *json_out_text(const char *text);
/* "a b" -> ["a","b"] */
json_t *json_out_words(struct json_out *out, const char *text);
/* null for "". */
void json_out_put_text_or_null(struct json_out *out, json_t *object, const char *key, const char *text);
void json_out_put_text(struct json_out *out, json_t *object, const char *key, const char *text);
/* Beyond 63 bits: the largest that fits. */
void json_out_put_count(struct json_out *out, json_t *object, const char *key, uint64_t count);
/* null when it is not finite. */
void json_out_put_real(struct json_out *out, json_t *object, const char *key, double number);
void json_out_put_bool(struct json_out *out, json_t *object, const char *key, bool value);
/* The measures (a struct that the list of `count` describes) that are shown there; times in seconds, null where
 * unknown. */
void json_out_put_measures(struct json_out *out, json_t *object, const struct base_measure *list, uint32_t count,
                           const void *measures, enum base_shown where);
/* What those that are given per GiB came to for each of so many bytes; null without any. */
void json_out_put_per_gib(struct json_out *out, json_t *object, const struct base_measure *list, uint32_t count,
                          const void *measures, uint64_t bytes);
/* Writes the object, on one line, and lets go of it. malloc'ed; NULL when any piece failed. */
char *json_out_finish(const struct json_out *out, json_t *object);

#endif
