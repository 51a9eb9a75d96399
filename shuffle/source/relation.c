#include "shuffle/source/relation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/nearest.h"
#include "base/text/number.h"

void shuffle_relation_free(struct shuffle_relation *relation)
{
    shuffle_relation_forget_files(relation);
    shuffle_schema_free(&relation->schema);
    *relation = (struct shuffle_relation){0};
}

/* ---- A source's words ---- */

/* The text of one word's value, and where it came from, for messages. */
struct word {
    char name[16];
    char value[64];
};

static enum base_status bad_word(const struct word *word, const char *right, struct base_error *error)
{
    return base_error_set(error, BASE_INVALID, "gen: %s=%s is not understood: %s", word->name, word->value, right);
}

/* Of the words a person probably meant one of. */
static enum base_status unknown_word(const struct word *word, struct base_error *error)
{
    static const char *const words[] = {"rows", "row", "keys", "seed", "preload"};
    struct base_nearest nearest = base_nearest_to(word->name, strlen(word->name));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        base_nearest_offer(&nearest, words[i]);
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_INVALID,
                          "gen: %s=%s is not understood%s: the words are rows=, row=, keys=, seed= and preload=",
                          word->name, word->value, base_nearest_hint(&nearest, "", hint));
}

static bool word_count(const struct word *word, uint64_t *count)
{
    return base_number_parse(word->value, count);
}

/* "S:K" of zipf:S:K. */
static bool parse_zipf(const char *text, struct shuffle_generator *generator)
{
    char *end;
    errno = 0;
    const double exponent = strtod(text, &end);
    if (errno != 0 || end == text || *end != ':' || !(exponent > 0 && exponent <= 100))
        return false;
    generator->zipf_exponent = exponent;
    return base_number_parse(end + 1, &generator->key_count) && generator->key_count > 0;
}

static enum base_status bad_keys(const struct word *word, struct base_error *error)
{
    static const char *const words[] = {"unique", "uniform", "zipf", "one", "stride"};
    const size_t bytes = strcspn(word->value, ":");
    struct base_nearest nearest = base_nearest_to(word->value, bytes);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(word->value, words[i], bytes) != 0 || words[i][bytes] != '\0')
            base_nearest_offer(&nearest, words[i]);
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_INVALID,
                          "gen: %s=%s is not understood%s: keys is unique, uniform:K, zipf:S:K, one or stride, with K "
                          "keys and exponent S, such as zipf:1.1:1M",
                          word->name, word->value, base_nearest_hint(&nearest, "", hint));
}

static enum base_status parse_keys(const struct word *word, struct shuffle_generator *generator,
                                   struct base_error *error)
{
    const char *value = word->value;
    bool understood = true;
    if (strcmp(value, "unique") == 0) {
        generator->keys = SHUFFLE_KEYS_UNIQUE;
    } else if (strcmp(value, "one") == 0) {
        generator->keys = SHUFFLE_KEYS_ONE;
    } else if (strcmp(value, "stride") == 0) {
        generator->keys = SHUFFLE_KEYS_STRIDE;
    } else if (strncmp(value, "uniform:", 8) == 0) {
        generator->keys = SHUFFLE_KEYS_UNIFORM;
        understood = base_number_parse(value + 8, &generator->key_count) && generator->key_count > 0;
    } else if (strncmp(value, "zipf:", 5) == 0) {
        generator->keys = SHUFFLE_KEYS_ZIPF;
        understood = parse_zipf(value + 5, generator);
    } else {
        understood = false;
    }
    return understood ? BASE_OK : bad_keys(word, error);
}

static enum base_status parse_gen_word(const struct word *word, struct shuffle_generator *generator,
                                       struct base_error *error)
{
    uint64_t number;
    if (strcmp(word->name, "keys") == 0)
        return parse_keys(word, generator, error);
    if (strcmp(word->name, "rows") == 0)
        return word_count(word, &generator->rows) ? BASE_OK
                                                  : bad_word(word, "rows is a number up to 2^48, such as 16M", error);
    if (strcmp(word->name, "seed") == 0)
        return word_count(word, &generator->seed) ? BASE_OK : bad_word(word, "seed is a number below 2^64", error);
    if (strcmp(word->name, "row") == 0) {
        if (!word_count(word, &number) || number < 8 || number > SHUFFLE_ROW_BYTES_MAX)
            return bad_word(word, "row is the number of bytes of a row, from 8 to 16777216, such as 64", error);
        generator->row_bytes = (uint32_t)number;
        return BASE_OK;
    }
    if (strcmp(word->name, "preload") == 0) {
        if (!word_count(word, &number) || number > 1)
            return bad_word(word, "preload is 0 or 1", error);
        generator->preload = number == 1;
        return BASE_OK;
    }
    return unknown_word(word, error);
}

/* Copies "name=value" up to the next comma or the end; *at then stands after it. */
static enum base_status relation_next_word(const char **at, struct word *word, struct base_error *error)
{
    const size_t bytes = strcspn(*at, ",");
    const char *equals = memchr(*at, '=', bytes);
    const size_t name = !equals ? 0 : (size_t)(equals - *at);
    const size_t value = !equals ? 0 : bytes - name - 1;
    if (name == 0 || name >= sizeof word->name || value == 0 || value >= sizeof word->value)
        return base_error_set(error, BASE_INVALID,
                              "gen: \"%.*s\" is not understood: write word=value, where the words are rows=, row=, "
                              "keys=, seed= and preload=",
                              (int)(bytes < 80 ? bytes : 80), *at);
    memcpy(word->name, *at, name);
    word->name[name] = '\0';
    memcpy(word->value, equals + 1, value);
    word->value[value] = '\0';
    *at += bytes + ((*at)[bytes] == ',');
    return BASE_OK;
}

static enum base_status generated_schema(const struct shuffle_generator *generator, struct shuffle_schema *schema,
                                         struct base_error *error)
{
    const struct shuffle_field key = {.name = "key", .type = SHUFFLE_INT64, .width = 8};
    const struct shuffle_field payload = {
        .name = "payload", .type = SHUFFLE_FIXED, .width = generator->row_bytes - (uint32_t)sizeof(int64_t)};
    const enum base_status status = shuffle_schema_append(schema, &key, error);
    return status == BASE_OK && payload.width > 0 ? shuffle_schema_append(schema, &payload, error) : status;
}

/* Of two words of one name neither may win unseen; `seen` has a bit for each that was there, the first for rows. */
static enum base_status relation_once(const struct word *word, uint32_t *seen, struct base_error *error)
{
    static const char *const names[] = {"rows", "row", "keys", "seed", "preload"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word->name, names[i]) != 0)
            continue;
        if (*seen >> i & 1)
            return base_error_set(error, BASE_INVALID, "gen: %s= is given twice: give it once", word->name);
        *seen |= UINT32_C(1) << i;
    }
    return BASE_OK;
}

static enum base_status parse_gen(const char *text, struct shuffle_relation *relation, struct base_error *error)
{
    struct shuffle_generator *generator = &relation->generator;
    *generator = (struct shuffle_generator){.row_bytes = 16, .seed = 1};
    uint32_t seen = 0;
    for (const char *at = text; *at != '\0';) {
        struct word word = {.name = ""};
        enum base_status status = relation_next_word(&at, &word, error);
        if (status == BASE_OK)
            status = relation_once(&word, &seen, error);
        if (status == BASE_OK)
            status = parse_gen_word(&word, generator, error);
        if (status != BASE_OK)
            return status;
    }
    if (!(seen & 1))
        return base_error_set(error, BASE_INVALID, "gen: rows= is missing, such as gen:rows=16M,row=64");
    if (generator->keys == SHUFFLE_KEYS_STRIDE && generator->rows > UINT64_C(1) << 32)
        return base_error_set(error, BASE_INVALID,
                              "gen: keys=stride gives at most 4294967296 different keys, not %" PRIu64,
                              generator->rows);
    if (generator->rows > SHUFFLE_GENERATED_ROWS_MAX || generator->key_count > INT64_MAX)
        return base_error_set(error, BASE_INVALID, "gen: rows are at most %" PRIu64 ", keys at most %" PRId64,
                              SHUFFLE_GENERATED_ROWS_MAX, INT64_MAX);
    relation->placement = SHUFFLE_GENERATED;
    relation->format = SHUFFLE_FORMAT_FIXED;
    return generated_schema(generator, &relation->schema, error);
}

enum base_status shuffle_relation_parse(const char *text, struct shuffle_relation *relation, char **path,
                                        struct base_error *error)
{
    struct shuffle_relation parsed = {
        .placement = SHUFFLE_SHARED,
        .format = SHUFFLE_FORMAT_CSV,
        .csv = {.delimiter = ',', .quote = '"', .header = true, .empty_is_null = true},
    };
    if (strncmp(text, "gen:", 4) == 0) {
        const enum base_status status = parse_gen(text + 4, &parsed, error);
        if (status != BASE_OK) {
            shuffle_relation_free(&parsed);
            return status;
        }
        *relation = parsed;
        *path = NULL;
        return BASE_OK;
    }
    const char *rest = text;
    if (strncmp(text, "shared:", 7) == 0) {
        rest = text + 7;
    } else if (strncmp(text, "local:", 6) == 0) {
        rest = text + 6;
        parsed.placement = SHUFFLE_LOCAL;
    }
    if (*rest == '\0')
        return base_error_set(error, BASE_INVALID,
                              "the source \"%s\" names no file: write PATH, shared:PATH, local:GLOB or gen:rows=N,...",
                              text);
    char *copy = strdup(rest);
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the path %s", rest);
    shuffle_relation_format_by_suffix(&parsed, rest);
    *relation = parsed;
    *path = copy;
    return BASE_OK;
}

/* ---- morsels ---- */

/* Bytes (or generated rows) of one morsel: fixed-width rows are never divided. */
static enum base_status morsel_step(const struct shuffle_relation *relation, uint64_t morsel_bytes, uint64_t *step,
                                    struct base_error *error)
{
    *step = base_max_u64(morsel_bytes, 1);
    if (relation->placement == SHUFFLE_GENERATED) {
        *step = base_max_u64(morsel_bytes / relation->generator.row_bytes, 1);
    } else if (relation->format == SHUFFLE_FORMAT_FIXED) {
        struct shuffle_layout layout;
        const enum base_status status = shuffle_layout_prepare(&relation->schema, &layout, error);
        if (status != BASE_OK)
            return status;
        *step = base_max_u64(morsel_bytes / base_max_u64(layout.row_bytes, 1), 1) * base_max_u64(layout.row_bytes, 1);
        shuffle_layout_free(&layout);
    }
    return BASE_OK;
}

/* A compressed file can only be read from its beginning: it is one morsel. */
static uint64_t morsel_step_of_file(const struct shuffle_file *file, uint64_t step)
{
    return file->packing == SHUFFLE_PACKING_NONE ? step : base_max_u64(file->bytes, 1);
}

static void divide_bytes(uint32_t file, uint64_t size, uint64_t step, struct shuffle_morsel *morsels, uint64_t *count)
{
    for (uint64_t begin = 0; begin < size; begin += base_min_u64(step, size - begin)) {
        morsels[*count] = (struct shuffle_morsel){
            .file = file, .begin = begin, .end = begin + base_min_u64(step, size - begin), .line = 1, .index = *count};
        ++*count;
    }
}

enum base_status shuffle_relation_divide(const struct shuffle_relation *relation, uint64_t morsel_bytes,
                                         struct shuffle_morsel **morsels, uint64_t *count, struct base_error *error)
{
    uint64_t step;
    const enum base_status status = morsel_step(relation, morsel_bytes, &step, error);
    if (status != BASE_OK)
        return status;
    const bool generated = relation->placement == SHUFFLE_GENERATED;
    uint64_t wanted = generated ? relation->generator.rows / step + (relation->generator.rows % step != 0) : 0;
    for (uint32_t i = 0; i < relation->file_count; i++) {
        const uint64_t piece = morsel_step_of_file(&relation->file[i], step);
        wanted += relation->file[i].bytes / piece + (relation->file[i].bytes % piece != 0);
    }
    struct shuffle_morsel *made =
        wanted > SIZE_MAX / sizeof *made ? NULL : malloc((wanted > 0 ? wanted : 1) * sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY,
                              "no memory for %" PRIu64 " morsels of %" PRIu64 " bytes: choose larger morsels", wanted,
                              morsel_bytes);
    uint64_t divided = 0;
    if (generated)
        divide_bytes(0, relation->generator.rows, step, made, &divided);
    for (uint32_t i = 0; i < relation->file_count; i++)
        divide_bytes(i, relation->file[i].bytes, morsel_step_of_file(&relation->file[i], step), made, &divided);
    *morsels = made;
    *count = divided;
    return BASE_OK;
}

bool shuffle_relation_needs_survey(const struct shuffle_relation *relation, uint64_t morsel_bytes)
{
    if (relation->placement == SHUFFLE_GENERATED || relation->format != SHUFFLE_FORMAT_CSV)
        return false;
    for (uint32_t i = 0; i < relation->file_count; i++)
        if (relation->file[i].packing == SHUFFLE_PACKING_NONE &&
            relation->file[i].bytes > base_max_u64(morsel_bytes, 1))
            return true;
    return false;
}
