/* The codec's part for bad rows that were left out: from nodes, and to clients. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

Wire__Rejects *wire_put_rejects(struct wire_scratch *scratch, const struct shuffle_rejects *rejects)
{
    if (!rejects)
        return NULL;
    Wire__Rejects *wire = WIRE_MAKE(scratch, wire__rejects);
    Wire__Reject **list = wire_take(scratch, rejects->kept, sizeof *list);
    Wire__Reject *item = wire_take(scratch, rejects->kept, sizeof *item);
    if (!wire || !list || !item)
        return NULL;
    for (uint32_t i = 0; i < rejects->kept; i++) {
        wire__reject__init(&item[i]);
        list[i] = &item[i];
        item[i].morsel = rejects->reject[i].morsel;
        item[i].line = rejects->reject[i].line;
        item[i].file = rejects->reject[i].file;
        item[i].reason = wire_bytes(rejects->reject[i].reason);
    }
    wire->count = rejects->count;
    wire->reject = list;
    wire->n_reject = rejects->kept;
    return wire;
}

void wire_get_rejects(struct wire_reader *reader, const Wire__Rejects *wire, struct shuffle_rejects **rejects)
{
    if (!wire)
        return;
    if (wire->n_reject > SHUFFLE_REJECTS_KEPT || wire->n_reject > wire->count) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu bad rows of %" PRIu64, wire->n_reject, wire->count);
        return;
    }
    struct shuffle_rejects *made = wire_array(reader, "bad rows", 1, 1, sizeof *made);
    if (!made)
        return;
    *rejects = made;
    made->count = wire->count;
    made->kept = (uint32_t)wire->n_reject;
    for (uint32_t i = 0; i < made->kept; i++) {
        made->reject[i].morsel = wire->reject[i]->morsel;
        made->reject[i].line = wire->reject[i]->line;
        made->reject[i].file = wire->reject[i]->file;
        char *reason = wire_text(reader, "what is wrong with a row", wire->reject[i]->reason, SHUFFLE_REASON_BYTES - 1);
        if (reason)
            memcpy(made->reject[i].reason, reason, strlen(reason) + 1);
        free(reason);
    }
}

static bool put_skipped(struct wire_scratch *scratch, const struct cluster_skipped *skipped, Wire__Skipped *wire)
{
    Wire__SkippedRow **list = wire_take(scratch, skipped->row_count, sizeof *list);
    Wire__SkippedRow *item = wire_take(scratch, skipped->row_count, sizeof *item);
    if (!list || !item)
        return false;
    for (uint32_t i = 0; i < skipped->row_count; i++) {
        wire__skipped_row__init(&item[i]);
        list[i] = &item[i];
        item[i].node = wire_bytes(skipped->row[i].node);
        item[i].path = wire_bytes(skipped->row[i].path);
        item[i].line = skipped->row[i].line;
        item[i].reason = wire_bytes(skipped->row[i].reason);
    }
    wire->count = skipped->count;
    wire->row = list;
    wire->n_row = skipped->row_count;
    return true;
}

Wire__Skipped **wire_put_skipped(struct wire_scratch *scratch, const struct cluster_skipped skipped[2])
{
    Wire__Skipped **list = wire_take(scratch, 2, sizeof *list);
    Wire__Skipped *item = wire_take(scratch, 2, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t side = 0; side < 2; side++) {
        wire__skipped__init(&item[side]);
        list[side] = &item[side];
        if (!put_skipped(scratch, &skipped[side], &item[side]))
            return NULL;
    }
    return list;
}

void wire_get_skipped(struct wire_reader *reader, Wire__Skipped *const *wire, size_t count,
                      struct cluster_skipped skipped[2])
{
    if (count != 2) {
        wire_refuse(reader, BASE_PROTOCOL, "bad rows of %zu inputs, expected 2", count);
        return;
    }
    for (uint32_t side = 0; side < 2; side++) {
        struct cluster_skipped *to = &skipped[side];
        to->count = wire[side]->count;
        to->row = wire_array(reader, "bad rows", wire[side]->n_row, SHUFFLE_REJECTS_KEPT, sizeof *to->row);
        to->row_count = to->row ? (uint32_t)wire[side]->n_row : 0;
        for (uint32_t i = 0; i < to->row_count; i++) {
            const Wire__SkippedRow *row = wire[side]->row[i];
            to->row[i].node = wire_text(reader, "a node's name", row->node, CLUSTER_NAME_BYTES_MAX);
            to->row[i].path = wire_text(reader, "a path", row->path, PATH_MAX);
            to->row[i].line = row->line;
            to->row[i].reason = wire_text(reader, "what is wrong with a row", row->reason, SHUFFLE_REASON_BYTES - 1);
        }
    }
}
