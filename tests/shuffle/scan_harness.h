/* What the tests of scans and outputs share: a directory of their own, a simulated engine whose file operations are
 * late and out of order, and rows as text that can be compared. */
#ifndef MILLRACE_TESTS_SHUFFLE_SCAN_HARNESS_H
#define MILLRACE_TESTS_SHUFFLE_SCAN_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/engine/engine.h"
#include "net/sim/sim.h"
#include "shuffle/scan/scan.h"
#include "shuffle/source/relation.h"

struct harness {
    char directory[64];
    struct base_governor *governor;
    struct net_sim_world *world;
    struct net_engine *engine;
};

/* cmocka fixtures; *state is a struct harness. file_error_after as in struct net_sim_config. */
int harness_setup(void **state);
int harness_teardown(void **state);
/* Another world, in which file operation number n fails. */
void harness_fail_after(struct harness *harness, uint32_t n);

/* Writes a file into the directory; returns its path in a static buffer. */
const char *harness_write(const struct harness *harness, const char *name, const void *data, size_t bytes);
/* A whole file; malloc'ed, 0-terminated. */
char *harness_read(const char *path, size_t *bytes);

/* Polls once, hands the events to scans and outputs, and lets time pass when there were none. */
void harness_turn(struct harness *harness);

/* Text that grows; zero-initialised is empty. The caller frees data. */
struct text {
    char *data;
    size_t bytes, capacity;
};
void text_add(struct text *text, const void *data, size_t bytes);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A batch's row as text: per column "-" for NULL or "[value]", then a newline. */
void harness_row_text(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row,
                      struct text *text);

struct harness_scan {
    const uint32_t *project; /* NULL: all columns */
    uint32_t project_count;
    uint64_t morsel_bytes;
    uint32_t block_bytes;
    struct shuffle_rejects *rejects; /* bad rows are left out, and counted here */
};

/* Cuts, surveys when there is need, scans all morsels in order. */
enum base_status harness_scan(struct harness *harness, const struct shuffle_relation *relation,
                              const struct harness_scan *how, struct text *rows, struct base_error *error);

/* parse, list and resolve_schema in one. */
enum base_status harness_relation(const char *source, const char *declared, struct shuffle_relation *relation,
                                  struct base_error *error);

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        struct base_error *harness_error = &error;                                                                     \
        if ((call) != BASE_OK)                                                                                         \
            fail_msg("%s: %s", #call, harness_error->text);                                                            \
    } while (0)
#define assert_text(part)                                                                                              \
    do {                                                                                                               \
        if (!strstr(error.text, part))                                                                                 \
            fail_msg("\"%s\" is not in: %s", part, error.text);                                                        \
    } while (0)

#endif
