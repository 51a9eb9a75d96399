/* What a client asks for, and what nodes are asked to look at for it: sources and words. */
#include <limits.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

static Wire__Source **put_sources(struct wire_scratch *scratch, const struct cluster_source *source, uint32_t count)
{
    Wire__Source **list = wire_take(scratch, count, sizeof *list);
    Wire__Source *item = wire_take(scratch, count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        wire__source__init(&item[i]);
        list[i] = &item[i];
        item[i].text = wire_bytes(source[i].text);
        item[i].schema = wire_bytes(source[i].schema);
        item[i].format = source[i].format;
        item[i].delimiter = (uint8_t)source[i].delimiter;
        item[i].quote = (uint8_t)source[i].quote;
        item[i].header = source[i].header;
        item[i].empty_is_null = source[i].empty_is_null;
        item[i].quoted_empty_is_null = source[i].quoted_empty_is_null;
        item[i].incomplete = source[i].incomplete;
        item[i].null_texts = wire_bytes(source[i].null_texts);
        item[i].bad_rows_max = source[i].bad_rows_max;
    }
    return list;
}

static uint32_t get_sources(struct wire_reader *reader, Wire__Source **wire, size_t count,
                            struct cluster_source source[2])
{
    if (count > 2) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu sources", count);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const Wire__Source *from = wire[i];
        source[i].text = wire_text(reader, "a source", from->text, CLUSTER_TEXT_BYTES_MAX);
        source[i].schema = wire_text_or_null(reader, "a schema", from->schema, CLUSTER_TEXT_BYTES_MAX);
        source[i].format = (enum cluster_format)wire_below(reader, "format", from->format, CLUSTER_FORMAT_FIXED + 1);
        source[i].delimiter = (char)wire_below(reader, "delimiter", from->delimiter, 256);
        source[i].quote = (char)wire_below(reader, "quote", from->quote, 256);
        source[i].header = (enum cluster_choice)wire_below(reader, "choice", from->header, CLUSTER_CHOICE_NO + 1);
        source[i].empty_is_null =
            (enum cluster_choice)wire_below(reader, "choice", from->empty_is_null, CLUSTER_CHOICE_NO + 1);
        source[i].quoted_empty_is_null =
            (enum cluster_choice)wire_below(reader, "choice", from->quoted_empty_is_null, CLUSTER_CHOICE_NO + 1);
        wire_get_null_texts(reader, from->null_texts, source[i].null_texts);
        source[i].bad_rows_max = from->bad_rows_max;
        source[i].incomplete =
            (enum cluster_choice)wire_below(reader, "choice", from->incomplete, CLUSTER_CHOICE_NO + 1);
    }
    return (uint32_t)count;
}

Wire__Submit *wire_put_submit(struct wire_scratch *scratch, const struct cluster_submit *submit)
{
    Wire__Submit *wire = WIRE_MAKE(scratch, wire__submit);
    if (!wire)
        return NULL;
    wire->kind = submit->kind;
    wire->source = put_sources(scratch, submit->source, submit->source_count);
    wire->n_source = submit->source_count;
    wire->join_type = submit->type;
    wire->null_equal = submit->null_equal;
    wire->null_aware = submit->null_aware;
    wire->on = wire_bytes(submit->on);
    wire->select = wire_bytes(submit->select);
    wire->out = wire_bytes(submit->out);
    wire->output = submit->output;
    wire->into_table = submit->into_table;
    wire->progress = submit->progress;
    wire->settings = wire_put_settings(scratch, &submit->settings);
    if (submit->kind == CLUSTER_KIND_BISECT)
        wire->bisect = wire_put_bisect_request(scratch, &submit->bisect);
    return wire;
}

void wire_get_submit(struct wire_reader *reader, const Wire__Submit *wire, struct cluster_submit *submit)
{
    submit->kind = (enum cluster_job_kind)wire_below(reader, "kind of job", wire->kind, CLUSTER_KIND_COUNT);
    submit->source_count = get_sources(reader, wire->source, wire->n_source, submit->source);
    static const uint32_t sources[CLUSTER_KIND_COUNT] = {
        [CLUSTER_KIND_JOIN] = 2, [CLUSTER_KIND_SHUFFLE] = 1, [CLUSTER_KIND_BISECT] = 0};
    if (submit->source_count != sources[submit->kind])
        wire_refuse(reader, BASE_PROTOCOL, "a job with %u sources", submit->source_count);
    submit->type = (enum join_type)wire_below(reader, "type of join", wire->join_type, JOIN_TYPE_COUNT);
    submit->null_equal = wire->null_equal;
    submit->null_aware = wire->null_aware;
    submit->on = wire_text(reader, "--on", wire->on, CLUSTER_TEXT_BYTES_MAX);
    submit->select = wire_text_or_null(reader, "--select", wire->select, CLUSTER_TEXT_BYTES_MAX);
    submit->out = wire_text_or_null(reader, "--out", wire->out, PATH_MAX);
    if (submit->out && submit->out[0] != '/')
        wire_refuse(reader, BASE_PROTOCOL, "the output directory %.100s is not an absolute path", submit->out);
    submit->output =
        (enum shuffle_output_kind)wire_below(reader, "kind of output", wire->output, SHUFFLE_OUTPUT_FIXED + 1);
    submit->into_table = wire->into_table;
    submit->progress = wire->progress;
    wire_get_settings(reader, wire->settings, &submit->settings);
    if (submit->kind == CLUSTER_KIND_BISECT)
        wire_get_bisect_request(reader, wire->bisect, &submit->bisect);
}

Wire__Resolve *wire_put_resolve(struct wire_scratch *scratch, const struct cluster_resolve *resolve)
{
    Wire__Resolve *wire = WIRE_MAKE(scratch, wire__resolve);
    if (!wire)
        return NULL;
    wire->source = put_sources(scratch, resolve->source, resolve->source_count);
    wire->n_source = resolve->source_count;
    wire->out = wire_bytes(resolve->out);
    wire->state = wire_bytes(resolve->state);
    wire->live = resolve->live;
    wire->n_live = resolve->live_count;
    return wire;
}

void wire_get_resolve(struct wire_reader *reader, const Wire__Resolve *wire, struct cluster_resolve *resolve)
{
    resolve->source_count = get_sources(reader, wire->source, wire->n_source, resolve->source);
    resolve->out = wire_text_or_null(reader, "--out", wire->out, PATH_MAX);
    resolve->state = wire_text(reader, "state's id", wire->state, CLUSTER_NAME_BYTES_MAX);
    resolve->live = wire_array(reader, "live jobs", wire->n_live, CLUSTER_FILES_MAX, sizeof *resolve->live);
    resolve->live_count = resolve->live ? wire->n_live : 0;
    if (resolve->live)
        memcpy(resolve->live, wire->live, wire->n_live * sizeof *resolve->live);
}
