/* The first bytes of a connection, both ways: who calls whom for which job, and the job's secret token. */
#ifndef MILLRACE_SHUFFLE_MESH_PREAMBLE_H
#define MILLRACE_SHUFFLE_MESH_PREAMBLE_H

#include <stddef.h>

#include "shuffle/mesh/mesh.h"

#define SHUFFLE_PREAMBLE_MAGIC UINT32_C(0x3150524d) /* "MRP1" */
enum { SHUFFLE_PREAMBLE_TEXT_BYTES = 256 };

/* On the wire, little-endian. */
struct shuffle_preamble {
    uint32_t magic;
    uint32_t protocol; /* base_build_protocol: both ends must share it */
    uint64_t job;
    uint8_t token[SHUFFLE_TOKEN_BYTES];
    uint32_t source;      /* worker that says this */
    uint32_t destination; /* worker it is said to */
};
_Static_assert(sizeof(struct shuffle_preamble) == 40, "preamble is 40 bytes on the wire");
_Static_assert(offsetof(struct shuffle_preamble, source) == 32, "preamble layout");

void shuffle_preamble_fill(const struct shuffle_mesh_config *config, uint32_t destination,
                           struct shuffle_preamble *preamble);
/* NULL when it was said by a worker of another node, to this worker, for this job, with its token; else what is
 * wrong: in text, to be read after its name and worth a line in the log, when it is of another build. The token is
 * compared in constant time. */
const char *shuffle_preamble_check(const struct shuffle_mesh_config *config, const struct shuffle_preamble *preamble,
                                   char text[SHUFFLE_PREAMBLE_TEXT_BYTES]);

#endif
