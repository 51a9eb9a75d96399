/* Schema resolution. A CSV file's columns are those of its header; each gets its type from the first of these that
 * knows it: the declaration, a header of name:type, the .schema file, the first rows. Declaration and .schema file may
 * name some of the columns only. Without a header the declaration counts by position.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shuffle/csv/parse.h"
#include "shuffle/rows/value.h"
#include "shuffle/source/content.h"
#include "shuffle/source/relation.h"
#include "shuffle/source/sample.h"

/* Read of the first file, and of each further one. */
enum { SAMPLE_BYTES = 1 << 20, HEAD_BYTES = 64 << 10 };

/* The beginning of a file and its first record. */
struct head {
    const char *path;
    uint8_t *data;
    size_t bytes; /* read so far */
    size_t start; /* 3 after a byte order mark, else 0 */
    bool final;   /* that is all of the file */
    size_t record_end;
    uint32_t fields;
    struct csv_field
        field[SHUFFLE_COLUMNS_MAX]; /* of the first record, in data; of a header doubled quotes made single */
};

/* Reads up to `bytes` bytes from the file's beginning, to the end of a 0-terminated buffer (malloc'ed). */
static enum base_status read_beginning(const struct shuffle_file *file, size_t bytes, uint8_t **data, size_t *got,
                                       struct base_error *error)
{
    int fd;
    enum base_status status = shuffle_file_open(file, &fd, error);
    if (status != BASE_OK)
        return status;
    uint8_t *buffer = malloc(bytes + 1);
    if (!buffer) {
        close(fd);
        return base_error_set(error, BASE_NO_MEMORY, "no memory to look at %s", file->path);
    }
    size_t have = 0;
    const bool packed = file->packing != SHUFFLE_PACKING_NONE;
    if (packed)
        status = shuffle_unpack_beginning(file->packing, fd, file->path, buffer, bytes, &have, error);
    while (!packed && status == BASE_OK && have < bytes) {
        const ssize_t more = pread(fd, buffer + have, bytes - have, (off_t)have);
        if (more < 0 && errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot read %s", file->path);
        if (more == 0)
            break;
        have += more > 0 ? (size_t)more : 0;
    }
    if (status == BASE_OK)
        status = shuffle_file_check(file, fd, error);
    close(fd);
    if (status != BASE_OK) {
        free(buffer);
        return status;
    }
    buffer[have] = 0;
    *data = buffer;
    *got = have;
    return BASE_OK;
}

static enum base_status head_error(const struct head *head, const struct csv_split *split, enum csv_result result,
                                   struct base_error *error)
{
    const uint64_t at = head->start + split->error_at;
    switch (result) {
    case CSV_QUOTE_INSIDE:
        return base_error_set(error, BASE_PARSE, "%s:1: a quote inside an unquoted field, at byte %" PRIu64, head->path,
                              at);
    case CSV_TEXT_BEHIND_QUOTE:
        return base_error_set(error, BASE_PARSE, "%s:1: text after a closing quote, at byte %" PRIu64, head->path, at);
    case CSV_FIELD_COUNT:
        return base_error_set(error, BASE_TOO_LARGE,
                              "%s:1: the first record has more than the %d columns a schema may have", head->path,
                              SHUFFLE_COLUMNS_MAX);
    case CSV_QUOTE_OPEN:
        return base_error_set(error, BASE_PARSE, "%s:%" PRIu64 ": the quote at byte %" PRIu64 " is not closed",
                              head->path, 1 + split->error_lines, at);
    default:
        return base_error_set(error, BASE_TOO_LARGE,
                              "%s:1: the first record has more than the %u bytes a record may have", head->path,
                              SHUFFLE_ROW_BYTES_MAX);
    }
}

/* Is the record, which is all of the file, what lines that end with CR alone come to? A CR is part of a line end before
 * LF only, or else of a value: a file of one long record with CRs in it has been made for other readers. */
static bool lines_end_with_cr(const struct head *head, const struct csv_split *split, enum csv_result result)
{
    if (!head->final || memchr(head->data, '\n', head->bytes))
        return false;
    if (result == CSV_TEXT_BEHIND_QUOTE)
        return head->data[head->start + split->error_at] == '\r';
    for (uint32_t i = 0; i < head->fields; i++)
        if (!head->field[i].quoted && memchr(head->field[i].data, '\r', head->field[i].bytes))
            return true;
    return false;
}

static enum base_status cr_error(const struct head *head, struct base_error *error)
{
    return base_error_set(error, BASE_PARSE,
                          "%s has no line end but CR, which is data here: convert it first, such as with "
                          "tr '\\r' '\\n'",
                          head->path);
}

/* Splits the first record of what was read. CSV_MORE: more must be read. */
static enum csv_result split_head(struct head *head, const struct shuffle_csv_options *csv, bool final,
                                  struct csv_split *split)
{
    head->start = head->bytes >= 3 && memcmp(head->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *split = (struct csv_split){.delimiter = (uint8_t)csv->delimiter,
                                .quote = (uint8_t)csv->quote,
                                .columns = SHUFFLE_COLUMNS_MAX,
                                .any_count = true,
                                .field = head->field,
                                .field_stride = 1,
                                .rows_max = 1};
    return shuffle_csv_split(split, head->data + head->start, head->bytes - head->start, 1, final);
}

/* Reads at least want bytes (or all) and the whole first record of the file. The caller frees head->data, which is NULL
 * on error. */
static enum base_status read_head(const struct shuffle_relation *relation, uint32_t file, size_t want,
                                  struct head *head, struct base_error *error)
{
    head->path = relation->file[file].path;
    head->data = NULL;
    head->bytes = 0;
    for (;; want *= 2) {
        enum base_status status = read_beginning(&relation->file[file], want, &head->data, &head->bytes, error);
        if (status != BASE_OK)
            return status;
        head->final = head->bytes < want;
        status = shuffle_content_check(head->path, &relation->csv, head->data, head->bytes, error);
        if (status != BASE_OK)
            goto refuse;
        struct csv_split split;
        enum csv_result result = split_head(head, &relation->csv, head->final, &split);
        if (result == CSV_OK && split.rows == 1) {
            head->record_end = head->start + split.consumed;
            head->fields = split.last_fields;
            if (lines_end_with_cr(head, &split, result)) {
                status = cr_error(head, error);
                goto refuse;
            }
            /* Only names are read from here; a record of values is split again, as it stands. */
            for (uint32_t i = 0; relation->csv.header && i < head->fields; i++)
                if (head->field[i].doubled)
                    shuffle_csv_undouble(&head->field[i], (uint8_t)relation->csv.quote);
            return BASE_OK;
        }
        if (result == CSV_MORE && head->bytes > SHUFFLE_ROW_BYTES_MAX)
            result = split_head(head, &relation->csv, true, &split); /* is a quote open? */
        else if (result == CSV_MORE) {
            free(head->data);
            head->data = NULL;
            head->bytes = 0;
            continue;
        }
        if (result == CSV_OK && split.rows == 0)
            status = base_error_set(error, BASE_PARSE, "%s holds nothing: a CSV file without rows still has a header",
                                    head->path);
        else if (result == CSV_TEXT_BEHIND_QUOTE && lines_end_with_cr(head, &split, result))
            status = cr_error(head, error);
        else
            status = head_error(head, &split, result, error);
    refuse:
        free(head->data);
        head->data = NULL;
        return status;
    }
}

/* ---- names ---- */

static enum base_status plain_field(const struct head *head, uint32_t column, struct shuffle_field *field,
                                    struct base_error *error)
{
    const struct csv_field *name = &head->field[column];
    if (name->bytes == 0)
        return base_error_set(error, BASE_PARSE, "%s:1: column %u of the header has no name", head->path, column + 1);
    if (name->bytes > SHUFFLE_NAME_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "%s:1: the name of column %u has more than %d bytes", head->path,
                              column + 1, SHUFFLE_NAME_BYTES_MAX);
    if (memchr(name->data, 0, name->bytes))
        return base_error_set(error, BASE_PARSE, "%s:1: the name of column %u contains a NUL byte", head->path,
                              column + 1);
    *field = (struct shuffle_field){.type = SHUFFLE_STRING, .width = 4, .nullable = true};
    memcpy(field->name, name->data, name->bytes);
    return BASE_OK;
}

/* The field "name:type" as a schema of one column. */
static bool typed_field(const struct csv_field *text, struct shuffle_field *field)
{
    char copy[2 * SHUFFLE_NAME_BYTES_MAX + 64];
    if (text->bytes >= sizeof copy || text->bytes == 0 || memchr(text->data, 0, text->bytes))
        return false;
    memcpy(copy, text->data, text->bytes);
    copy[text->bytes] = '\0';
    struct shuffle_schema schema = {0};
    if (shuffle_schema_parse(copy, &schema, NULL) != BASE_OK)
        return false;
    const bool one = schema.count == 1;
    if (one)
        *field = schema.field[0];
    shuffle_schema_free(&schema);
    return one;
}

/* Is every field of the header name:type? */
static bool header_is_typed(const struct head *head)
{
    struct shuffle_field field;
    for (uint32_t i = 0; i < head->fields; i++)
        if (!typed_field(&head->field[i], &field))
            return false;
    return true;
}

/* The columns by name; their types where the header gives them, else nullable strings. *known[i]: the type is settled.
 */
static enum base_status name_columns(const struct head *head, bool header, struct shuffle_schema *schema, bool *known,
                                     struct base_error *error)
{
    const bool typed = header && header_is_typed(head);
    for (uint32_t i = 0; i < head->fields; i++) {
        struct shuffle_field field = {.type = SHUFFLE_STRING, .width = 4, .nullable = true};
        enum base_status status = BASE_OK;
        if (typed)
            typed_field(&head->field[i], &field);
        else if (header)
            status = plain_field(head, i, &field, error);
        else
            snprintf(field.name, sizeof field.name, "c%u", i + 1);
        if (status != BASE_OK)
            return status;
        struct base_error cause;
        status = shuffle_schema_append(schema, &field, &cause);
        if (status != BASE_OK)
            return base_error_set(error, status, "%s:1: %s", head->path, cause.text);
        known[i] = typed;
    }
    return BASE_OK;
}

/* ---- declarations ---- */

static enum base_status unknown_column(const char *path, const struct shuffle_schema *schema, const char *name,
                                       const char *where, bool settled, struct base_error *error)
{
    char names[400] = "", hint[BASE_NEAREST_HINT_BYTES];
    size_t used = 0;
    for (uint32_t i = 0; i < schema->count && used < sizeof names - 1; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", schema->field[i].name);
    /* A declaration is the request's; a file is not. */
    return base_error_set(error, settled ? BASE_TYPE : BASE_NOT_FOUND,
                          "%s declares column \"%s\"%s, which the header of %s does not have: it has %s", where, name,
                          shuffle_schema_hint(schema, name, hint), path, names);
}

/* Puts the declared types into schema, by name or, without a header, by position; where says who declared them. */
static enum base_status infer_overlay(const char *path, bool header, const struct shuffle_schema *declared,
                                      const char *where, bool settled, struct shuffle_schema *schema, bool *known,
                                      struct base_error *error)
{
    if (!header && declared->count != schema->count)
        return base_error_set(error, BASE_PARSE, "%s declares %u column%s, but the first record of %s has %u field%s",
                              where, declared->count, declared->count == 1 ? "" : "s", path, schema->count,
                              schema->count == 1 ? "" : "s");
    for (uint32_t i = 0; i < declared->count; i++) {
        const int found = header ? shuffle_schema_find(schema, declared->field[i].name) : (int)i;
        if (found < 0)
            return unknown_column(path, schema, declared->field[i].name, where, settled, error);
        if (known[found] && !settled)
            continue;
        schema->field[found] = declared->field[i];
        known[found] = true;
    }
    return BASE_OK;
}

/* Parses the schema file beside path, if there is one: PATH.schema, else .schema in its directory. *where (malloc'ed)
 * is its path, NULL when there is none. */
static enum base_status read_schema_file(const char *path, struct shuffle_schema *schema, char **where,
                                         struct base_error *error)
{
    char *candidate[2] = {NULL, NULL};
    const char *slash = strrchr(path, '/');
    const int directory = !slash ? 0 : (int)(slash - path) + 1;
    if (asprintf(&candidate[0], "%s.schema", path) < 0 || asprintf(&candidate[1], "%.*s.schema", directory, path) < 0) {
        free(candidate[0]);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the path of a schema file");
    }
    enum base_status status = BASE_OK;
    *where = NULL;
    for (int i = 0; i < 2 && status == BASE_OK && !*where; i++) {
        uint8_t *text = NULL;
        size_t bytes = 0;
        struct stat about;
        struct shuffle_file file = {.path = candidate[i]};
        if (stat(candidate[i], &about) != 0)
            continue;
        shuffle_file_describe(&about, &file);
        status = read_beginning(&file, 1 << 20, &text, &bytes, error);
        if (status != BASE_OK)
            break;
        struct base_error cause;
        shuffle_schema_join_lines((char *)text);
        status = shuffle_schema_parse((const char *)text, schema, &cause);
        free(text);
        if (status != BASE_OK)
            base_error_set(error, status, "%s: %s", candidate[i], cause.text);
        *where = candidate[i];
    }
    if (status != BASE_OK)
        *where = NULL;
    for (int i = 0; i < 2; i++)
        if (candidate[i] != *where)
            free(candidate[i]);
    return status;
}

/* ---- formats ---- */

/* Does the header of a further file name the same columns in the same order? */
static enum base_status compare_headers(const struct head *head, const struct head *first, struct base_error *error)
{
    if (head->fields != first->fields)
        return base_error_set(error, BASE_PARSE, "the header of %s has %u columns, that of %s has %u", head->path,
                              head->fields, first->path, first->fields);
    for (uint32_t i = 0; i < head->fields; i++) {
        const struct csv_field *a = &head->field[i], *b = &first->field[i];
        char text_a[SHUFFLE_QUOTE_BYTES], text_b[SHUFFLE_QUOTE_BYTES];
        if (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0)
            return base_error_set(error, BASE_PARSE,
                                  "column %u is \"%s\" in the header of %s, but \"%s\" in that of %s", i + 1,
                                  shuffle_value_quote(a->data, a->bytes, text_a), head->path,
                                  shuffle_value_quote(b->data, b->bytes, text_b), first->path);
    }
    return BASE_OK;
}

static void sample_head(const struct shuffle_relation *relation, const struct head *head, struct shuffle_sample *sample)
{
    const size_t from = relation->csv.header ? head->record_end : head->start;
    if (sample)
        shuffle_sample_file(sample, &relation->csv, head->data + from, head->bytes - from, head->final);
}

/* Compares the headers of all files with the first one's, and samples their rows (unless sample is NULL). */
static enum base_status look_at_files(const struct shuffle_relation *relation, const struct head *first,
                                      struct shuffle_sample *sample, struct base_error *error)
{
    sample_head(relation, first, sample);
    const bool header = relation->csv.header;
    for (uint32_t f = 1; f < relation->file_count; f++) {
        struct head *head = malloc(sizeof *head);
        if (!head)
            return base_error_set(error, BASE_NO_MEMORY, "no memory to look at %s", relation->file[f].path);
        enum base_status status = read_head(relation, f, HEAD_BYTES, head, error);
        if (status == BASE_OK && header)
            status = compare_headers(head, first, error);
        if (status == BASE_OK)
            sample_head(relation, head, sample);
        free(head->data);
        free(head);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* Looks at all files; columns not known get their types from what they hold. */
static enum base_status infer_types(const struct shuffle_relation *relation, const struct head *first,
                                    struct shuffle_schema *schema, const bool *known, struct base_error *error)
{
    bool all_known = true;
    for (uint32_t i = 0; i < schema->count; i++)
        all_known = all_known && known[i];
    struct shuffle_sample *sample = NULL;
    enum base_status status = all_known ? BASE_OK : shuffle_sample_open(schema->count, &sample, error);
    if (status == BASE_OK)
        status = look_at_files(relation, first, sample, error);
    for (uint32_t i = 0; i < schema->count && status == BASE_OK; i++)
        if (!known[i])
            shuffle_sample_type(sample, i, &schema->field[i]);
    shuffle_sample_close(sample);
    return status;
}

/* Is an empty line all there is of the file? As its very last one it is no record, unless there is one column. */
static bool head_is_blank(const struct head *head)
{
    return head->final && head->record_end == head->bytes && head->fields == 1 && head->field[0].bytes == 0 &&
           !head->field[0].quoted;
}

/* The columns of a CSV file by name. A file without header and rows has those that are declared. */
static enum base_status find_columns(const struct head *head, bool header, const struct shuffle_schema *declared,
                                     struct shuffle_schema *schema, bool *known, struct base_error *error)
{
    if (header || !declared || !head_is_blank(head))
        return name_columns(head, header, schema, known, error);
    return shuffle_schema_copy(declared, schema, error);
}

/* declared and file_schema may be NULL. */
static enum base_status resolve_csv(struct shuffle_relation *relation, const struct shuffle_schema *declared,
                                    const struct shuffle_schema *file_schema, const char *where,
                                    struct base_error *error)
{
    struct head *head = malloc(sizeof *head);
    if (!head)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to look at %s", relation->file[0].path);
    enum base_status status = read_head(relation, 0, SAMPLE_BYTES, head, error);
    if (status != BASE_OK)
        goto free_head;
    struct shuffle_schema schema = {0};
    bool known[SHUFFLE_COLUMNS_MAX] = {false};
    const bool header = relation->csv.header;
    status = find_columns(head, header, declared ? declared : file_schema, &schema, known, error);
    if (status == BASE_OK && file_schema)
        status = infer_overlay(head->path, header, file_schema, where, false, &schema, known, error);
    if (status == BASE_OK && declared)
        status = infer_overlay(head->path, header, declared, "the declared schema", true, &schema, known, error);
    if (status == BASE_OK)
        status = infer_types(relation, head, &schema, known, error);
    if (status == BASE_OK) {
        shuffle_schema_free(&relation->schema);
        relation->schema = schema;
    } else {
        shuffle_schema_free(&schema);
    }
    free(head->data);
free_head:
    free(head);
    return status;
}

static enum base_status resolve_fixed(struct shuffle_relation *relation, const struct shuffle_schema *schema,
                                      struct base_error *error)
{
    for (uint32_t i = 0; i < schema->count; i++)
        if (shuffle_type_variable(schema->field[i].type))
            return base_error_set(
                error, BASE_TYPE,
                "column \"%s\" is of variable length, which the fixed-width file %s cannot hold: declare "
                "it binary(n), or use CSV",
                schema->field[i].name, relation->file[0].path);
    struct shuffle_layout layout;
    enum base_status status = shuffle_layout_prepare(schema, &layout, error);
    if (status != BASE_OK)
        return status;
    for (uint32_t i = 0; i < relation->file_count && status == BASE_OK; i++)
        if (relation->file[i].packing == SHUFFLE_PACKING_NONE && relation->file[i].bytes % layout.row_bytes != 0)
            status =
                base_error_set(error, BASE_PARSE,
                               "%s has %" PRIu64 " bytes, which is no multiple of the %u bytes of a row: compare the "
                               "declared schema with the file",
                               relation->file[i].path, relation->file[i].bytes, layout.row_bytes);
    shuffle_layout_free(&layout);
    if (status != BASE_OK)
        return status;
    struct shuffle_schema copy;
    status = shuffle_schema_copy(schema, &copy, error);
    if (status != BASE_OK)
        return status;
    shuffle_schema_free(&relation->schema);
    relation->schema = copy;
    return BASE_OK;
}

enum base_status shuffle_relation_resolve_schema(struct shuffle_relation *relation, const char *declared,
                                                 struct base_error *error)
{
    if (relation->placement == SHUFFLE_GENERATED)
        return !declared ? BASE_OK
                         : base_error_set(error, BASE_INVALID,
                                          "a gen: relation has its own schema (key:int64 and payload): do not "
                                          "declare one");
    if (relation->file_count == 0)
        return base_error_set(error, BASE_NOT_FOUND, "there is no file to find a schema in");
    struct shuffle_schema said = {0}, beside = {0};
    char *where = NULL;
    enum base_status status = BASE_OK;
    if (declared)
        status = shuffle_schema_parse(declared, &said, error);
    if (status == BASE_OK)
        status = read_schema_file(relation->file[0].path, &beside, &where, error);
    if (status != BASE_OK)
        goto done;
    const struct shuffle_schema *first = said.count > 0 ? &said : NULL;
    const struct shuffle_schema *second = beside.count > 0 ? &beside : NULL;
    if (relation->format == SHUFFLE_FORMAT_CSV)
        status = resolve_csv(relation, first, second, where, error);
    else if (first || second)
        status = resolve_fixed(relation, first ? first : second, error);
    else
        status =
            base_error_set(error, BASE_NOT_FOUND,
                           "the fixed-width file %s needs a schema: declare one, such as \"key:int64,amount:float64\", "
                           "or write it to %s.schema",
                           relation->file[0].path, relation->file[0].path);
done:
    free(where);
    shuffle_schema_free(&said);
    shuffle_schema_free(&beside);
    return status;
}
