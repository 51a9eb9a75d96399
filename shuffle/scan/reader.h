/* A reader: bytes of files through the worker's engine, several reads in flight, handed out as blocks in file order.
 *
 * A range is read in two parts: [begin, ahead_end) eagerly, and on towards the end of the file only as far as blocks
 * are asked for (the tail of a morsel's last record). Never blocks, but for open(2). */
#ifndef MILLRACE_SHUFFLE_SCAN_READER_H
#define MILLRACE_SHUFFLE_SCAN_READER_H

#include "net/engine/engine.h"
#include "shuffle/source/relation.h"

struct shuffle_reader;

enum { SHUFFLE_READER_PADDING = 64 };

struct shuffle_reader_config {
    struct net_engine *engine;
    struct base_governor *governor;
    uint32_t block_bytes;     /* at least 1 */
    uint32_t reads_in_flight; /* at least 1 */
    uint32_t tag;             /* of the file operations */
    void *context;            /* of the file operations */
};

struct shuffle_reader_block {
    uint8_t *data; /* the reader's; may be written to; SHUFFLE_READER_PADDING bytes after the block are readable */
    uint32_t bytes;
    uint64_t offset; /* of data in the file; in a compressed one: in what it holds */
    bool final;      /* the file ends with this block, which may be empty if the file is compressed */
};

enum base_status shuffle_reader_open(const struct shuffle_reader_config *config, struct shuffle_reader **reader,
                                     struct base_error *error);
/* Begins a range of file (borrowed until the next begin); reads of the range before are left to finish unseen. The file
 * is opened by the next call of shuffle_reader_next and kept open. begin <= file->bytes. */
void shuffle_reader_begin(struct shuffle_reader *reader, const struct shuffle_file *file, uint64_t begin,
                          uint64_t ahead_end);
/* BASE_OK: *block, valid until the next call. BASE_BUSY: wait for a FILE event. BASE_END: the file has no more. Else an
 * error naming the file; BASE_IO too when the file is no longer the one of the plan. */
enum base_status shuffle_reader_next(struct shuffle_reader *reader, struct shuffle_reader_block *block,
                                     struct base_error *error);
/* After the last block that is wanted of the range: the file is still what the plan was made from, so every block was.
 * BASE_IO when it has changed. */
enum base_status shuffle_reader_check(const struct shuffle_reader *reader, struct base_error *error);
/* A FILE event of an operation of this reader. */
void shuffle_reader_event(struct shuffle_reader *reader, const struct net_event *event);
bool shuffle_reader_idle(const struct shuffle_reader *reader);
/* Must be idle. */
void shuffle_reader_close(struct shuffle_reader *reader);
/* Bytes read since opening: of a compressed file those that it has, not those that it holds. */
uint64_t shuffle_reader_bytes(const struct shuffle_reader *reader);

#endif
