#include "shuffle/rows/schema.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/assert.h"

static const struct {
    const char *text;
    uint32_t width;
} type_info[SHUFFLE_TYPE_COUNT] = {
#define X(name, text, width) [SHUFFLE_##name] = {text, width},
    SHUFFLE_TYPE_LIST(X)
#undef X
};

void shuffle_schema_free(struct shuffle_schema *schema)
{
    free(schema->field);
    *schema = (struct shuffle_schema){0};
}

enum base_status shuffle_schema_copy(const struct shuffle_schema *from, struct shuffle_schema *to,
                                     struct base_error *error)
{
    struct shuffle_schema copy = {.count = from->count};
    if (from->count > 0) {
        copy.field = malloc(from->count * sizeof *copy.field);
        if (!copy.field)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for a schema of %u columns", from->count);
        memcpy(copy.field, from->field, from->count * sizeof *copy.field);
    }
    *to = copy;
    return BASE_OK;
}

enum base_status shuffle_schema_append(struct shuffle_schema *schema, const struct shuffle_field *field,
                                       struct base_error *error)
{
    if (schema->count >= SHUFFLE_COLUMNS_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "column \"%s\" is one more than the %d columns a schema may have",
                              field->name, SHUFFLE_COLUMNS_MAX);
    if (shuffle_schema_find(schema, field->name) >= 0)
        return base_error_set(error, BASE_EXISTS, "there are two columns named \"%s\": rename one of them",
                              field->name);
    struct shuffle_field *grown = realloc(schema->field, (schema->count + 1) * sizeof *grown);
    if (!grown)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a schema of %u columns", schema->count + 1);
    schema->field = grown;
    schema->field[schema->count++] = *field;
    return BASE_OK;
}

int shuffle_schema_find(const struct shuffle_schema *schema, const char *name)
{
    BASE_ASSERT(schema->count <= SHUFFLE_COLUMNS_MAX && (schema->field || schema->count == 0));
    for (uint32_t i = 0; i < schema->count; i++)
        if (strcmp(schema->field[i].name, name) == 0)
            return (int)i;
    return -1;
}

const char *shuffle_schema_hint(const struct shuffle_schema *schema, const char *name,
                                char hint[BASE_NEAREST_HINT_BYTES])
{
    struct base_nearest nearest = base_nearest_to(name, strlen(name));
    for (uint32_t i = 0; i < schema->count; i++)
        base_nearest_offer(&nearest, schema->field[i].name);
    return base_nearest_hint(&nearest, "", hint);
}

static bool field_equal(const struct shuffle_field *a, const struct shuffle_field *b)
{
    return strcmp(a->name, b->name) == 0 && a->type == b->type && a->nullable == b->nullable &&
           a->precision == b->precision && a->scale == b->scale && a->width == b->width;
}

bool shuffle_schema_equal(const struct shuffle_schema *a, const struct shuffle_schema *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!field_equal(&a->field[i], &b->field[i]))
            return false;
    return true;
}

/* Reads a decimal number of at most 9 digits at *at, blanks around it skipped. */
static bool scan_number(const char **at, uint32_t *number)
{
    const char *p = *at;
    while (*p == ' ')
        p++;
    uint32_t value = 0;
    int digits = 0;
    for (; isdigit((unsigned char)*p); p++) {
        if (++digits > 9)
            return false;
        value = value * 10 + (uint32_t)(*p - '0');
    }
    while (*p == ' ')
        p++;
    *at = p;
    *number = value;
    return digits > 0;
}

/* "(12,2)" after decimal. */
static enum base_status schema_parse_decimal(const char *text, const char **at, struct shuffle_field *field,
                                             struct base_error *error)
{
    uint32_t precision, scale = 0;
    const char *p = *at;
    bool well_formed = *p == '(' && (p++, scan_number(&p, &precision));
    if (well_formed && *p == ',')
        well_formed = (p++, scan_number(&p, &scale));
    if (!well_formed || *p != ')')
        return base_error_set(error, BASE_PARSE,
                              "type \"%s\": decimal needs precision and scale, such as decimal(12,2)", text);
    if (precision < 1 || precision > SHUFFLE_DECIMAL_DIGITS_MAX || scale > precision)
        return base_error_set(error, BASE_PARSE,
                              "type \"%s\": a decimal has 1 to %d digits, and no more of them after the point than "
                              "it has in all",
                              text, SHUFFLE_DECIMAL_DIGITS_MAX);
    field->precision = (uint8_t)precision;
    field->scale = (uint8_t)scale;
    *at = p + 1;
    return BASE_OK;
}

/* "(n)" after binary. */
static enum base_status parse_fixed(const char *text, const char **at, struct shuffle_field *field,
                                    struct base_error *error)
{
    uint32_t bytes;
    const char *p = *at + 1;
    if (!scan_number(&p, &bytes) || *p != ')')
        return base_error_set(error, BASE_PARSE, "type \"%s\": binary needs a number of bytes, such as binary(16)",
                              text);
    if (bytes < 1 || bytes > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_PARSE, "type \"%s\": binary(n) has 1 to %u bytes", text,
                              SHUFFLE_ROW_BYTES_MAX);
    field->type = SHUFFLE_FIXED;
    field->width = bytes;
    *at = p + 1;
    return BASE_OK;
}

static bool find_type(const char *word, size_t bytes, enum shuffle_type *type)
{
    for (int i = 0; i < SHUFFLE_TYPE_COUNT; i++) {
        if (i != SHUFFLE_FIXED && strlen(type_info[i].text) == bytes && memcmp(type_info[i].text, word, bytes) == 0) {
            *type = (enum shuffle_type)i;
            return true;
        }
    }
    return false;
}

/* Words of other systems, and what they are here. */
static const struct {
    const char *word, *type;
} type_synonyms[] = {
    {"int", "int32"},    {"integer", "int32"},      {"bigint", "int64"},   {"long", "int64"},   {"smallint", "int16"},
    {"tinyint", "int8"}, {"float", "float64"},      {"double", "float64"}, {"real", "float32"}, {"numeric", "decimal"},
    {"text", "string"},  {"varchar", "string"},     {"char", "string"},    {"str", "string"},   {"bytes", "binary"},
    {"blob", "binary"},  {"datetime", "timestamp"},
};

static const char *type_hint(const char *text, char hint[BASE_NEAREST_HINT_BYTES])
{
    const size_t bytes = strcspn(text, "(? ");
    struct base_nearest nearest = base_nearest_to(text, bytes);
    for (int i = 0; i < SHUFFLE_TYPE_COUNT; i++)
        if (i != SHUFFLE_FIXED)
            base_nearest_offer(&nearest, type_info[i].text);
    for (size_t i = 0; i < sizeof type_synonyms / sizeof *type_synonyms; i++)
        if (strlen(type_synonyms[i].word) == bytes && strncasecmp(type_synonyms[i].word, text, bytes) == 0)
            nearest.word = type_synonyms[i].type;
    return base_nearest_hint(&nearest, "", hint);
}

enum base_status shuffle_field_parse_type(const char *text, struct shuffle_field *field, struct base_error *error)
{
    struct shuffle_field parsed = *field;
    const char *p = text;
    while (*p == ' ')
        p++;
    const size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789");
    char hint[BASE_NEAREST_HINT_BYTES];
    if (!find_type(p, word, &parsed.type))
        return base_error_set(error, BASE_PARSE,
                              "type \"%s\" is unknown%s: it is one of bool, int8, int16, int32, int64, uint8, uint16, "
                              "uint32, uint64, float32, float64, decimal(p,s), date, timestamp, string, binary, "
                              "binary(n), with '?' after it when the column may be NULL",
                              text, type_hint(p, hint));
    p += word;
    parsed.precision = parsed.scale = 0;
    parsed.width = type_info[parsed.type].width;
    if (shuffle_type_variable(parsed.type))
        parsed.width = 4;
    enum base_status status = BASE_OK;
    if (parsed.type == SHUFFLE_DECIMAL)
        status = schema_parse_decimal(text, &p, &parsed, error);
    else if (parsed.type == SHUFFLE_BINARY && *p == '(')
        status = parse_fixed(text, &p, &parsed, error);
    if (status != BASE_OK)
        return status;
    parsed.nullable = *p == '?';
    p += parsed.nullable;
    while (*p == ' ')
        p++;
    if (*p != '\0')
        return base_error_set(error, BASE_PARSE, "type \"%s\": \"%s\" after the type is not understood", text, p);
    *field = parsed;
    return BASE_OK;
}

void shuffle_field_format_type(const struct shuffle_field *field, char *text)
{
    const char *mark = field->nullable ? "?" : "";
    if (field->type == SHUFFLE_DECIMAL)
        snprintf(text, 48, "decimal(%u,%u)%s", field->precision, field->scale, mark);
    else if (field->type == SHUFFLE_FIXED)
        snprintf(text, 48, "binary(%u)%s", field->width, mark);
    else
        snprintf(text, 48, "%s%s", type_info[field->type].text, mark);
}

/* Copies the name at *at, plain or quoted, into field->name; *at then stands at what follows it. */
static enum base_status parse_name(const char **at, struct shuffle_field *field, struct base_error *error)
{
    const char *p = *at;
    size_t bytes = 0;
    const bool quoted = *p == '"';
    p += quoted;
    for (; *p != '\0'; p++) {
        if (quoted && *p == '"') {
            if (p[1] != '"')
                break;
            p++;
        } else if (!quoted && (*p == ':' || *p == ',')) {
            break;
        }
        if (bytes == SHUFFLE_NAME_BYTES_MAX)
            return base_error_set(error, BASE_TOO_LARGE, "the column name \"%.40s...\" has more than %d bytes", *at,
                                  SHUFFLE_NAME_BYTES_MAX);
        field->name[bytes++] = *p;
    }
    if (quoted && *p != '"')
        return base_error_set(error, BASE_PARSE, "the quote before column name %.60s is not closed", *at);
    p += quoted;
    while (!quoted && bytes > 0 && field->name[bytes - 1] == ' ')
        bytes--;
    field->name[bytes] = '\0';
    if (bytes == 0)
        return **at != '\0' ? base_error_set(error, BASE_PARSE, "a column name is missing before \"%.60s\"", *at)
                            : base_error_set(error, BASE_PARSE, "a column name is missing at the end");
    *at = p;
    return BASE_OK;
}

/* Copies the type up to the next comma outside parentheses. */
static enum base_status parse_type(const char **at, struct shuffle_field *field, struct base_error *error)
{
    char text[64];
    size_t bytes = 0;
    int depth = 0;
    const char *p = *at;
    for (; *p != '\0' && (*p != ',' || depth > 0); p++) {
        depth += (*p == '(') - (*p == ')');
        if (bytes == sizeof text - 1)
            return base_error_set(error, BASE_PARSE, "column \"%s\": type \"%.40s...\" is unknown", field->name, *at);
        text[bytes++] = *p;
    }
    text[bytes] = '\0';
    struct base_error cause;
    const enum base_status status = shuffle_field_parse_type(text, field, &cause);
    if (status != BASE_OK)
        return base_error_set(error, status, "column \"%s\": %s", field->name, cause.text);
    *at = p;
    return BASE_OK;
}

static enum base_status parse_field(const char **at, struct shuffle_field *field, struct base_error *error)
{
    while (**at == ' ')
        ++*at;
    enum base_status status = parse_name(at, field, error);
    if (status != BASE_OK)
        return status;
    while (**at == ' ')
        ++*at;
    if (**at != ':')
        return base_error_set(error, BASE_PARSE, "column \"%s\" lacks its type: write name:type, such as \"%s:int64\"",
                              field->name, field->name);
    ++*at;
    return parse_type(at, field, error);
}

enum base_status shuffle_schema_parse(const char *text, struct shuffle_schema *schema, struct base_error *error)
{
    struct shuffle_schema parsed = {0};
    const char *p = text;
    enum base_status status;
    for (;;) {
        struct shuffle_field field = {0};
        status = parse_field(&p, &field, error);
        if (status != BASE_OK)
            goto drop;
        status = shuffle_schema_append(&parsed, &field, error);
        if (status != BASE_OK)
            goto drop;
        if (*p == '\0')
            break;
        p++; /* the comma at which a type ends */
    }
    *schema = parsed;
    return BASE_OK;
drop:
    shuffle_schema_free(&parsed);
    return status;
}

static bool name_is_plain(const char *name)
{
    const size_t bytes = strlen(name);
    BASE_ASSERT(bytes > 0 && bytes <= SHUFFLE_NAME_BYTES_MAX); /* every source of names refuses others */
    return !strpbrk(name, ":,\"") && name[0] != ' ' && name[bytes - 1] != ' ';
}

static char *put_name(char *to, const char *name)
{
    if (name_is_plain(name))
        return stpcpy(to, name);
    *to++ = '"';
    for (; *name != '\0'; name++) {
        if (*name == '"')
            *to++ = '"';
        *to++ = *name;
    }
    *to++ = '"';
    *to = '\0';
    return to;
}

void shuffle_schema_join_lines(char *text)
{
    const char *from = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
    char *to = text;
    bool quoted = false, pending = false; /* a line end came, and what follows it may need a comma */
    for (; *from != '\0'; from++) {
        const bool blank = *from == ' ' || *from == '\t' || *from == '\r' || *from == '\n';
        if (!quoted && blank && (to == text || pending || *from != ' ')) {
            pending = pending || (*from == '\n' && to != text);
            continue;
        }
        if (pending && to[-1] != ',' && *from != ',')
            *to++ = ',';
        pending = false;
        quoted ^= *from == '"';
        *to++ = *from;
    }
    while (to > text && (to[-1] == ' ' || to[-1] == ','))
        to--;
    *to = '\0';
}

char *shuffle_schema_format(const struct shuffle_schema *schema)
{
    /* per field: the name with every byte doubled, quotes, colon, type, comma */
    char *text = malloc((size_t)schema->count * (2 * SHUFFLE_NAME_BYTES_MAX + 52) + 1);
    if (!text)
        return NULL;
    char *to = text;
    *to = '\0';
    for (uint32_t i = 0; i < schema->count; i++) {
        char type[48];
        shuffle_field_format_type(&schema->field[i], type);
        if (i > 0)
            *to++ = ',';
        to = put_name(to, schema->field[i].name);
        *to++ = ':';
        to = stpcpy(to, type);
    }
    return text;
}
