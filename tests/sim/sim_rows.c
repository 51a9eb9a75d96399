#include "tests/sim/sim_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/assert.h"

static void rows_text(struct base_random *random, struct sim_row *row)
{
    static const char letters[] = "abcxyz ,\"\n\r01";
    row->text_null = base_random_chance(random, 1, 12);
    row->text_bytes = row->text_null ? 0 : (uint32_t)base_random_below(random, sizeof row->text);
    for (uint32_t i = 0; i < row->text_bytes; i++)
        row->text[i] = letters[base_random_below(random, sizeof letters - 1)];
}

void sim_rows_make(struct base_random *random, uint32_t count, uint64_t key_count, struct sim_rows *rows)
{
    rows->count = count;
    rows->row = calloc(count + 1, sizeof *rows->row);
    BASE_ASSERT(rows->row);
    for (uint32_t i = 0; i < count; i++) {
        struct sim_row *row = &rows->row[i];
        row->key_null = base_random_chance(random, 1, 15);
        row->key = (int64_t)base_random_below(random, key_count) - (int64_t)(key_count / 2);
        rows_text(random, row);
    }
}

void sim_rows_free(struct sim_rows *rows)
{
    free(rows->row);
    rows->row = NULL;
}

static void rows_write_text(FILE *file, const struct sim_row *row, bool quote)
{
    bool needed = row->text_bytes == 0;
    for (uint32_t i = 0; i < row->text_bytes; i++)
        needed |= strchr(",\"\n\r", row->text[i]) != NULL;
    if (!needed && !quote) {
        fwrite(row->text, 1, row->text_bytes, file);
        return;
    }
    fputc('"', file);
    for (uint32_t i = 0; i < row->text_bytes; i++) {
        if (row->text[i] == '"')
            fputc('"', file);
        fputc(row->text[i], file);
    }
    fputc('"', file);
}

/* Up to three bad rows; *line is that of the last row before them. */
static void rows_write_bad(struct base_random *random, FILE *file, struct sim_bad *bad, uint64_t *line)
{
    static const char *const text[] = {
        "x7,text", "1,two,three", "7", "", "99999999999999999999,t", "1,\"a\nb\",\"\n\",", "\"1 \",t"};
    static const uint64_t more[] = {0, 0, 0, 0, 0, 2, 0};
    if (!base_random_chance(random, 1, 6))
        return;
    for (uint64_t i = base_random_below(random, 3) + 1; i > 0; i--) {
        const uint64_t which = base_random_below(random, 7);
        fprintf(file, "%s%s", base_random_chance(random, 1, 3) ? "\r\n" : "\n", text[which]);
        ++*line;
        if (bad->count < 10)
            bad->line[bad->count] = *line;
        bad->count++;
        *line += more[which];
    }
}

static void rows_write(struct base_random *random, const struct sim_rows *rows, const char *prefix, const char *path,
                       struct sim_bad *bad)
{
    uint64_t line = 1;
    FILE *file = fopen(path, "w");
    BASE_ASSERT(file);
    fprintf(file, "%skey:int64?,%stext:string?", prefix, prefix);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sim_row *row = &rows->row[i];
        if (bad)
            rows_write_bad(random, file, bad, &line);
        fputs(base_random_chance(random, 1, 3) ? "\r\n" : "\n", file);
        line++;
        for (uint32_t b = 0; !row->text_null && b < row->text_bytes; b++)
            line += row->text[b] == '\n';
        if (!row->key_null)
            fprintf(file, base_random_chance(random, 1, 4) ? "\"%lld\"" : "%lld", (long long)row->key);
        fputc(',', file);
        if (!row->text_null)
            rows_write_text(file, row, base_random_chance(random, 1, 4));
    }
    if (base_random_chance(random, 1, 2) || rows->count == 0)
        fputc('\n', file);
    BASE_ASSERT(fclose(file) == 0);
}

void sim_rows_write(struct base_random *random, const struct sim_rows *rows, const char *prefix, const char *path)
{
    rows_write(random, rows, prefix, path, NULL);
}

void sim_rows_write_dirty(struct base_random *random, const struct sim_rows *rows, const char *prefix, const char *path,
                          struct sim_bad *bad)
{
    memset(bad, 0, sizeof *bad);
    rows_write(random, rows, prefix, path, bad);
}

static uint8_t *rows_encode(uint8_t *to, bool null, const void *bytes, uint32_t count)
{
    *to++ = !null;
    if (null)
        return to;
    memcpy(to, &count, sizeof count);
    memcpy(to + sizeof count, bytes, count);
    return to + sizeof count + count;
}

static uint8_t *rows_encode_side(uint8_t *to, const struct sim_row *row)
{
    static const struct sim_row nothing = {.key_null = true, .text_null = true};
    row = row ? row : &nothing;
    to = rows_encode(to, row->key_null, &row->key, sizeof row->key);
    return rows_encode(to, row->text_null, row->text, row->text_bytes);
}

/* A row of the result, of which either may be NULL. */
static void rows_give(const struct sim_question *question, const struct sim_row *a, const struct sim_row *b,
                      uint64_t *count, uint64_t *checksum)
{
    uint8_t row[2 * (13 + 5 + sizeof a->text)];
    uint8_t *end = rows_encode_side(row, a);
    if (join_type_pairs(question->type))
        end = rows_encode_side(end, b);
    *checksum += XXH3_64bits(row, (size_t)(end - row));
    ++*count;
}

static bool rows_equal(const struct sim_question *question, const struct sim_row *a, const struct sim_row *b)
{
    const bool null = a->key_null || b->key_null, nulls = a->key_null && b->key_null;
    if (null ? !(nulls && question->null_equal) : a->key != b->key)
        return false;
    if (!question->texts)
        return true;
    if (a->text_null || b->text_null)
        return a->text_null && b->text_null && question->null_equal;
    return a->text_bytes == b->text_bytes && memcmp(a->text, b->text, a->text_bytes) == 0;
}

/* Is `row` NOT IN the keys of the right side? As SQL has it: true, and neither false nor unknown. */
static bool rows_not_in(const struct sim_row *row, const struct sim_rows *right)
{
    for (uint32_t j = 0; j < right->count; j++)
        if (row->key_null || right->row[j].key_null || row->key == right->row[j].key)
            return false;
    return true;
}

void sim_rows_join(const struct sim_rows *left, const struct sim_rows *right, const struct sim_question *question,
                   uint64_t *count, uint64_t *checksum)
{
    const enum join_type type = question->type;
    bool *matched = calloc(right->count + 1, sizeof *matched);
    BASE_ASSERT(matched);
    *count = *checksum = 0;
    for (uint32_t i = 0; i < left->count; i++) {
        const struct sim_row *a = &left->row[i];
        bool found = false;
        for (uint32_t j = 0; j < right->count; j++) {
            if (!rows_equal(question, a, &right->row[j]))
                continue;
            found = matched[j] = true;
            if (join_type_pairs(type))
                rows_give(question, a, &right->row[j], count, checksum);
        }
        if (question->null_aware ? rows_not_in(a, right)
            : found              ? type == JOIN_TYPE_SEMI
                                 : type == JOIN_TYPE_LEFT || type == JOIN_TYPE_FULL || type == JOIN_TYPE_ANTI)
            rows_give(question, a, NULL, count, checksum);
    }
    for (uint32_t j = 0; j < right->count; j++)
        if (!matched[j] && (type == JOIN_TYPE_RIGHT || type == JOIN_TYPE_FULL))
            rows_give(question, NULL, &right->row[j], count, checksum);
    free(matched);
}
