/* The codec's part for schemas and relations. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

Wire__Field **wire_put_schema(struct wire_scratch *scratch, const struct shuffle_schema *schema)
{
    Wire__Field **list = wire_take(scratch, schema->count, sizeof(Wire__Field *));
    Wire__Field *item = wire_take(scratch, schema->count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct shuffle_field *field = &schema->field[i];
        wire__field__init(&item[i]);
        item[i].name = wire_bytes(field->name);
        item[i].type = field->type;
        item[i].nullable = field->nullable;
        item[i].precision = field->precision;
        item[i].scale = field->scale;
        item[i].width = field->width;
        item[i].inferred = field->inferred;
        list[i] = &item[i];
    }
    return list;
}

static uint32_t field_width(const Wire__Field *wire)
{
    static const uint32_t widths[] = {
#define X(name, text, width) width,
        SHUFFLE_TYPE_LIST(X)
#undef X
    };
    if (wire->type == SHUFFLE_FIXED)
        return wire->width;
    return shuffle_type_variable((enum shuffle_type)wire->type) ? 4 : widths[wire->type];
}

static void get_field(struct wire_reader *reader, const Wire__Field *wire, struct shuffle_field *field)
{
    memset(field, 0, sizeof *field);
    if (wire->name.len == 0 || wire->name.len > SHUFFLE_NAME_BYTES_MAX || memchr(wire->name.data, 0, wire->name.len)) {
        wire_refuse(reader, BASE_PROTOCOL, "a column's name is malformed");
        return;
    }
    memcpy(field->name, wire->name.data, wire->name.len);
    field->type = (enum shuffle_type)wire_below(reader, "column type", wire->type, SHUFFLE_TYPE_COUNT);
    if (reader->failed)
        return;
    field->nullable = wire->nullable;
    field->inferred = wire->inferred;
    field->width = field_width(wire);
    if (field->width == 0 || field->width != wire->width || field->width > SHUFFLE_ROW_BYTES_MAX)
        wire_refuse(reader, BASE_PROTOCOL, "column \"%s\" is %u bytes wide", field->name, wire->width);
    if (field->type != SHUFFLE_DECIMAL)
        return;
    if (wire->precision < 1 || wire->precision > SHUFFLE_DECIMAL_DIGITS_MAX || wire->scale > wire->precision) {
        wire_refuse(reader, BASE_PROTOCOL, "column \"%s\" is decimal(%u,%u)", field->name, wire->precision,
                    wire->scale);
        return;
    }
    field->precision = (uint8_t)wire->precision;
    field->scale = (uint8_t)wire->scale;
}

void wire_get_schema(struct wire_reader *reader, Wire__Field **wire, size_t count, struct shuffle_schema *schema)
{
    if (count > SHUFFLE_COLUMNS_MAX)
        wire_refuse(reader, BASE_PROTOCOL, "%zu columns, at most %d are allowed", count, SHUFFLE_COLUMNS_MAX);
    for (size_t i = 0; i < count && !reader->failed; i++) {
        struct shuffle_field field;
        get_field(reader, wire[i], &field);
        struct base_error error;
        if (!reader->failed && shuffle_schema_append(schema, &field, &error) != BASE_OK)
            wire_refuse(reader, error.status == BASE_NO_MEMORY ? BASE_NO_MEMORY : BASE_PROTOCOL, "%s", error.text);
    }
}

static Wire__Generator *put_generator(struct wire_scratch *scratch, const struct shuffle_generator *generator)
{
    Wire__Generator *wire = wire_take(scratch, 1, sizeof *wire);
    if (!wire)
        return NULL;
    wire__generator__init(wire);
    wire->rows = generator->rows;
    wire->row_bytes = generator->row_bytes;
    wire->keys = generator->keys;
    wire->key_count = generator->key_count;
    wire->zipf_exponent = generator->zipf_exponent;
    wire->seed = generator->seed;
    wire->preload = generator->preload;
    return wire;
}

static void get_generator(struct wire_reader *reader, const Wire__Generator *wire, struct shuffle_generator *generator)
{
    if (!wire_there(reader, "generator", wire))
        return;
    generator->rows = wire->rows;
    generator->row_bytes = wire->row_bytes;
    generator->keys =
        (enum shuffle_key_distribution)wire_below(reader, "key distribution", wire->keys, SHUFFLE_KEYS_STRIDE + 1);
    generator->key_count = wire->key_count;
    generator->zipf_exponent = wire->zipf_exponent;
    generator->seed = wire->seed;
    generator->preload = wire->preload;
    const bool keyed = generator->keys == SHUFFLE_KEYS_UNIFORM || generator->keys == SHUFFLE_KEYS_ZIPF;
    const bool zipf_bad =
        generator->keys == SHUFFLE_KEYS_ZIPF && !(generator->zipf_exponent > 0 && generator->zipf_exponent <= 100);
    if (wire->row_bytes < 8 || wire->row_bytes > SHUFFLE_ROW_BYTES_MAX || wire->rows > SHUFFLE_GENERATED_ROWS_MAX ||
        (keyed && (wire->key_count == 0 || wire->key_count > INT64_MAX)) || zipf_bad)
        wire_refuse(reader, BASE_PROTOCOL, "a generator's numbers are out of range");
}

static Wire__File **put_files(struct wire_scratch *scratch, const struct shuffle_relation *relation)
{
    Wire__File **list = wire_take(scratch, relation->file_count, sizeof(Wire__File *));
    Wire__File *item = wire_take(scratch, relation->file_count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < relation->file_count; i++) {
        wire__file__init(&item[i]);
        item[i].path = wire_bytes(relation->file[i].path);
        item[i].bytes = relation->file[i].bytes;
        item[i].modified_ns = relation->file[i].modified_ns;
        item[i].device = relation->file[i].device;
        item[i].inode = relation->file[i].inode;
        item[i].packing = relation->file[i].packing;
        list[i] = &item[i];
    }
    return list;
}

Wire__Relation *wire_put_relation(struct wire_scratch *scratch, const struct shuffle_relation *relation)
{
    Wire__Relation *wire = wire_take(scratch, 1, sizeof *wire);
    if (!wire)
        return NULL;
    wire__relation__init(wire);
    wire->placement = relation->placement;
    wire->format = relation->format;
    wire->delimiter = (uint8_t)relation->csv.delimiter;
    wire->quote = (uint8_t)relation->csv.quote;
    wire->header = relation->csv.header;
    wire->empty_is_null = relation->csv.empty_is_null;
    wire->quoted_empty_is_null = relation->csv.quoted_empty_is_null;
    wire->null_texts = wire_bytes(relation->csv.null_texts);
    wire->bad_rows_max = relation->csv.bad_rows_max;
    if (relation->placement == SHUFFLE_GENERATED)
        wire->generator = put_generator(scratch, &relation->generator);
    wire->field = wire_put_schema(scratch, &relation->schema);
    wire->n_field = relation->schema.count;
    wire->file = put_files(scratch, relation);
    wire->n_file = relation->file_count;
    wire->rows_known = relation->rows_known;
    wire->rows = relation->rows;
    return wire;
}

/* A generated relation has a key and, where its rows are wider, a payload: its scan makes nothing else. */
static void wire_check_generated(struct wire_reader *reader, const struct shuffle_relation *relation)
{
    const struct shuffle_field *field = relation->schema.field;
    const uint32_t payload_bytes = relation->generator.row_bytes - 8;
    if (reader->failed)
        return;
    bool right = relation->schema.count == (payload_bytes > 0 ? 2 : 1) && relation->file_count == 0 &&
                 field[0].type == SHUFFLE_INT64 && !field[0].nullable;
    if (right && payload_bytes > 0)
        right = field[1].type == SHUFFLE_FIXED && !field[1].nullable && field[1].width == payload_bytes;
    if (!right)
        wire_refuse(reader, BASE_PROTOCOL, "a generated relation has other columns than its rows");
}

void wire_get_null_texts(struct wire_reader *reader, struct ProtobufCBinaryData data,
                         char texts[SHUFFLE_NULL_TEXTS_BYTES])
{
    char *text = wire_text(reader, "texts that mean NULL", data, SHUFFLE_NULL_TEXTS_BYTES - 1);
    if (text)
        snprintf(texts, SHUFFLE_NULL_TEXTS_BYTES, "%s", text);
    free(text);
}

void wire_get_relation(struct wire_reader *reader, const Wire__Relation *wire, struct shuffle_relation *relation)
{
    if (!wire_there(reader, "relation", wire))
        return;
    relation->placement =
        (enum shuffle_placement)wire_below(reader, "placement", wire->placement, SHUFFLE_GENERATED + 1);
    relation->format = (enum shuffle_format)wire_below(reader, "format", wire->format, SHUFFLE_FORMAT_FIXED + 1);
    relation->csv.delimiter = (char)wire_below(reader, "delimiter", wire->delimiter, 256);
    relation->csv.quote = (char)wire_below(reader, "quote", wire->quote, 256);
    relation->csv.header = wire->header;
    relation->csv.empty_is_null = wire->empty_is_null;
    relation->csv.quoted_empty_is_null = wire->quoted_empty_is_null;
    wire_get_null_texts(reader, wire->null_texts, relation->csv.null_texts);
    relation->csv.bad_rows_max = wire->bad_rows_max;
    if (relation->placement == SHUFFLE_GENERATED)
        get_generator(reader, wire->generator, &relation->generator);
    wire_get_schema(reader, wire->field, wire->n_field, &relation->schema);
    if (wire->n_field == 0)
        wire_refuse(reader, BASE_PROTOCOL, "a relation has no columns");
    relation->file = wire_array(reader, "files", wire->n_file, CLUSTER_FILES_MAX, sizeof *relation->file);
    relation->file_count = relation->file ? (uint32_t)wire->n_file : 0;
    if (relation->placement == SHUFFLE_GENERATED)
        wire_check_generated(reader, relation);
    relation->rows_known = wire->rows_known;
    relation->rows = wire->rows;
    for (uint32_t i = 0; i < relation->file_count; i++) {
        relation->file[i].path = wire_text(reader, "a path", wire->file[i]->path, PATH_MAX);
        relation->file[i].bytes = wire->file[i]->bytes;
        relation->file[i].modified_ns = wire->file[i]->modified_ns;
        relation->file[i].device = wire->file[i]->device;
        relation->file[i].inode = wire->file[i]->inode;
        relation->file[i].packing =
            (enum shuffle_packing)wire_below(reader, "packing", wire->file[i]->packing, SHUFFLE_PACKING_COUNT);
        if (wire->file[i]->bytes > INT64_MAX)
            wire_refuse(reader, BASE_PROTOCOL, "a file of more bytes than a file can have");
    }
}
