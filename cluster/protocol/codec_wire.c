/* The codec's tools: scratch memory for trees, and a reader that complains once. */
#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wire_block {
    struct wire_block *next;
    size_t used, bytes;
    alignas(16) uint8_t data[];
};

enum { WIRE_BLOCK_BYTES = 16 << 10 };

void *wire_take(struct wire_scratch *scratch, size_t count, size_t bytes)
{
    size_t need;
    if (__builtin_mul_overflow(count, bytes, &need) || need > SIZE_MAX / 2) {
        scratch->failed = true;
        return NULL;
    }
    need = base_align_up(need ? need : 1, 16);
    struct wire_block *block = scratch->blocks;
    if (!block || block->bytes - block->used < need) {
        const size_t room = need > WIRE_BLOCK_BYTES ? need : WIRE_BLOCK_BYTES;
        block = calloc(1, sizeof *block + room);
        if (!block) {
            scratch->failed = true;
            return NULL;
        }
        block->bytes = room;
        block->next = scratch->blocks;
        scratch->blocks = block;
    }
    void *taken = block->data + block->used;
    block->used += need;
    return taken;
}

void wire_release(struct wire_scratch *scratch)
{
    while (scratch->blocks) {
        struct wire_block *block = scratch->blocks;
        scratch->blocks = block->next;
        free(block);
    }
}

ProtobufCBinaryData wire_bytes(const char *text)
{
    return (ProtobufCBinaryData){text ? strlen(text) : 0, (uint8_t *)(uintptr_t)text};
}

void wire_refuse(struct wire_reader *reader, enum base_status status, const char *format, ...)
{
    if (reader->failed)
        return;
    reader->failed = true;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    base_error_set(reader->error, status, "control message: %s", text);
}

char *wire_text(struct wire_reader *reader, const char *what, ProtobufCBinaryData data, size_t max)
{
    if (reader->failed)
        return NULL;
    if (data.len > max) {
        wire_refuse(reader, BASE_PROTOCOL, "%s has %zu bytes, at most %zu are allowed", what, data.len, max);
        return NULL;
    }
    if (data.len && memchr(data.data, 0, data.len)) {
        wire_refuse(reader, BASE_PROTOCOL, "%s holds a zero byte", what);
        return NULL;
    }
    char *text = malloc(data.len + 1);
    if (!text) {
        wire_refuse(reader, BASE_NO_MEMORY, "no memory for %s", what);
        return NULL;
    }
    if (data.len)
        memcpy(text, data.data, data.len);
    text[data.len] = 0;
    return text;
}

char *wire_files(struct wire_reader *reader, ProtobufCBinaryData data)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    char *text = wire_text(reader, "name of files", data, SHUFFLE_PUBLISH_NAME_BYTES - 1);
    if (text && (!*text || strspn(text, allowed) != strlen(text)))
        wire_refuse(reader, BASE_PROTOCOL, "a name of files that no job has");
    return text;
}

char *wire_text_or_null(struct wire_reader *reader, const char *what, ProtobufCBinaryData data, size_t max)
{
    return data.len ? wire_text(reader, what, data, max) : NULL;
}

uint32_t wire_below(struct wire_reader *reader, const char *what, uint64_t value, uint64_t limit)
{
    if (value < limit)
        return (uint32_t)value;
    wire_refuse(reader, BASE_PROTOCOL, "%s is %" PRIu64 ", must be below %" PRIu64, what, value, limit);
    return 0;
}

void *wire_array(struct wire_reader *reader, const char *what, size_t count, size_t max, size_t bytes)
{
    if (reader->failed || count == 0)
        return NULL;
    if (count > max) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu of %s, at most %zu are allowed", count, what, max);
        return NULL;
    }
    void *array = calloc(count, bytes);
    if (!array)
        wire_refuse(reader, BASE_NO_MEMORY, "no memory for %zu of %s", count, what);
    return array;
}

bool wire_there(struct wire_reader *reader, const char *what, const void *message)
{
    if (!message)
        wire_refuse(reader, BASE_PROTOCOL, "%s is missing", what);
    return !reader->failed;
}

/* Such a struct is an array of uint64_t. */
uint64_t *wire_put_measures(struct wire_scratch *scratch, const void *measures, uint32_t count)
{
    uint64_t *values = wire_take(scratch, count, sizeof *values);
    if (values)
        memcpy(values, measures, count * sizeof *values);
    return values;
}

void wire_get_measures(struct wire_reader *reader, const uint64_t *values, size_t value_count, void *measures,
                       uint32_t count)
{
    if (value_count != count)
        wire_refuse(reader, BASE_PROTOCOL, "%zu measures, expected %u", value_count, count);
    else
        memcpy(measures, values, count * sizeof *values);
}
