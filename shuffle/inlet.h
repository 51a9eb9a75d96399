/* An inlet: where one peer's bytes come in. It cuts frames and rows out of a stream of pieces (received chunks, or
 * whole frames from a neighbour's mailbox), checks them and offers the rows to their exchange's sink. Internal to the
 * mesh. */
#ifndef MILLRACE_SHUFFLE_INLET_H
#define MILLRACE_SHUFFLE_INLET_H

#include "shuffle/lane.h"

struct shuffle_mesh;

/* Bytes in order, and to whom they go back. */
struct shuffle_piece {
    const uint8_t *data;
    uint32_t bytes;
    struct net_chunk chunk;      /* data NULL: none */
    struct shuffle_frame *frame; /* of another worker of this node, or NULL */
    struct shuffle_piece *next;  /* in an inlet's queue */
};

enum shuffle_inlet_state { SHUFFLE_INLET_HEADER, SHUFFLE_INLET_ROWS, SHUFFLE_INLET_TOTALS };

struct shuffle_inlet {
    struct shuffle_mesh *mesh;
    uint32_t peer;
    enum shuffle_inlet_state state;
    bool counted_stalled;
    bool failed; /* an error was returned: nothing is cut any more */

    struct shuffle_piece piece; /* being cut; data NULL: none */
    uint32_t piece_at;
    struct shuffle_piece *queue, **queue_end; /* behind it */

    struct shuffle_frame_header header; /* of the frame being cut */
    uint32_t header_bytes;              /* of it that are there */
    struct shuffle_exchange *exchange;
    uint32_t payload_left, rows_left;
    struct shuffle_lane_totals totals; /* of an END frame */
    void *check;                       /* XXH3 state of the payload; NULL until a checked frame comes */

    struct shuffle_group *group; /* rows the sink has not taken yet, or NULL */
    uint8_t *stitch;             /* a row cut by the edge of a piece */
    uint32_t stitch_capacity, stitch_bytes, stitch_need;
};

void shuffle_inlet_open(struct shuffle_inlet *inlet, struct shuffle_mesh *mesh, uint32_t peer);
/* Makes room for a cut row ahead of need. */
enum base_status shuffle_inlet_reserve(struct shuffle_inlet *inlet, uint32_t row_bytes, struct base_error *error);
/* Takes over a piece and cuts as far as the sink goes along. Errors name the peer. BASE_OK also when it has to wait. */
enum base_status shuffle_inlet_push(struct shuffle_inlet *inlet, const struct shuffle_piece *piece,
                                    struct base_error *error);
/* Goes on after waiting. */
enum base_status shuffle_inlet_run(struct shuffle_inlet *inlet, bool *worked, struct base_error *error);
/* Does it wait for a sink, or for its exchange to be opened? */
bool shuffle_inlet_stalled(const struct shuffle_inlet *inlet);
/* Gives all pieces back, forgets everything and frees memory. */
void shuffle_inlet_drop(struct shuffle_inlet *inlet);

#endif
