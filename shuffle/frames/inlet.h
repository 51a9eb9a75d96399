/* An inlet: where one peer's bytes come in. It parses frames and rows from a stream of pieces (received chunks, or
 * whole frames from a neighbour's mailbox), checks them and offers the rows to their exchange's sink. Internal to the
 * mesh, of which it knows nothing. */
#ifndef MILLRACE_SHUFFLE_FRAMES_INLET_H
#define MILLRACE_SHUFFLE_FRAMES_INLET_H

#include "base/state.h"
#include "shuffle/frames/cut.h"
#include "shuffle/frames/exchange_state.h"
#include "shuffle/frames/mailbox.h"

/* Bytes in order, and to whom they go back. */
struct shuffle_piece {
    const uint8_t *data;
    uint32_t bytes;
    struct net_chunk chunk;      /* data NULL: none */
    struct shuffle_frame *frame; /* of another worker of this node, or NULL */
    struct shuffle_piece *next;  /* in an inlet's queue */
};

/* What all inlets of a worker share: where things come from and go back to, and what they have together. */
struct shuffle_inlets {
    struct net_engine *engine;         /* chunks are its */
    struct base_governor *governor;    /* of stitch buffers */
    struct shuffle_mailroom *mailroom; /* frames of neighbours go back into it; NULL: there are none */
    const char *const *node_name;      /* of each worker, for messages */
    uint32_t worker, local_first;      /* this one's number, and of its node's first */
    struct shuffle_exchange *exchange[SHUFFLE_EXCHANGES_MAX]; /* those that are open, by number */
    uint64_t *received_bytes;                                 /* payload that came over connections, of each worker */
    struct shuffle_group *spares;
    uint32_t stalled;        /* inlets that wait */
    uint32_t kept, kept_max; /* chunks that inlets keep for a cut row although all else in them is done with */
};

enum shuffle_inlet_state { SHUFFLE_INLET_HEADER, SHUFFLE_INLET_ROWS, SHUFFLE_INLET_TOTALS, SHUFFLE_INLET_STATE_COUNT };

struct shuffle_inlet {
    struct shuffle_inlets *shared;
    uint32_t peer;
    struct base_state state; /* enum shuffle_inlet_state */
    bool stalled;            /* it waits, and is counted among those that do */
    bool failed;             /* an error was returned: nothing is parsed any more */

    struct shuffle_piece piece; /* being parsed; data NULL: none */
    uint32_t piece_at;
    struct shuffle_piece *queue, **queue_end; /* after it */

    struct shuffle_frame_header header; /* of the frame being parsed */
    uint32_t header_bytes;              /* of it that are there */
    struct shuffle_exchange *exchange;
    uint32_t payload_left, rows_left;
    struct shuffle_lane_totals totals; /* of an END frame */
    void *check;                       /* XXH3 state of the payload; NULL until a checked frame comes */

    struct shuffle_group *group; /* rows the sink has not taken yet, or NULL */

    /* A row cut by the edge of a piece. */
    uint8_t *stitch; /* room for it, or for what is put together of it */
    uint32_t stitch_capacity;
    uint32_t stitch_bytes, stitch_need; /* of it that are there; until it is whole (or its head, to know its size) */
    bool stitch_sized;                  /* its size is known */
    bool cutting;                       /* it is left where it lies: cut says where. Else it is copied */
    struct shuffle_cut cut;
    struct shuffle_piece kept[SHUFFLE_CUT_PIECES_MAX]; /* where it lies, but for its last part */
    uint32_t kept_count;
};

void shuffle_inlet_open(struct shuffle_inlet *inlet, struct shuffle_inlets *shared, uint32_t peer);
/* Makes room for a cut row ahead of need. */
enum base_status shuffle_inlet_reserve(struct shuffle_inlet *inlet, uint32_t row_bytes, struct base_error *error);
/* Takes over a piece and parses as far as the sink goes along. Errors name the peer. BASE_OK also when it has to wait.
 */
enum base_status shuffle_inlet_push(struct shuffle_inlet *inlet, const struct shuffle_piece *piece,
                                    struct base_error *error);
/* Goes on after waiting. */
enum base_status shuffle_inlet_run(struct shuffle_inlet *inlet, bool *worked, struct base_error *error);
/* Does it hold bytes that are not taken yet? Then it waits for a sink, or for its exchange to be opened. */
bool shuffle_inlet_holds(const struct shuffle_inlet *inlet);
/* Gives all pieces back, forgets everything and frees memory. */
void shuffle_inlet_drop(struct shuffle_inlet *inlet);
/* Frees what the inlets have together; all are dropped. */
void shuffle_inlets_free(struct shuffle_inlets *shared);

/* Inside the inlet: inlet.c calls inlet_stitch.c, and both call inlet_piece.c. */

/* What is left of the piece. */
static inline const uint8_t *shuffle_inlet_piece(const struct shuffle_inlet *inlet, uint32_t *left)
{
    *left = inlet->piece.bytes - inlet->piece_at;
    return inlet->piece.data + inlet->piece_at;
}

/* A cut row is there as a whole; it is the first of the next group, or of the one on offer. */
static inline bool shuffle_inlet_stitched(const struct shuffle_inlet *inlet)
{
    return inlet->stitch_bytes > 0 && inlet->stitch_sized && inlet->stitch_bytes == inlet->stitch_need;
}

/* Size of the row at `row`, whose head is there, in a frame that has payload_left from there on; 0: it does not fit. */
static inline uint32_t shuffle_inlet_row_size(const struct shuffle_layout *layout, const uint8_t *row,
                                              uint64_t payload_left)
{
    const uint64_t bytes = shuffle_row_bytes(layout, row);
    return bytes <= payload_left && bytes <= SHUFFLE_ROW_BYTES_MAX ? (uint32_t)bytes : 0;
}

/* inlet_piece.c */

/* Payload bytes have been looked at. */
void shuffle_inlet_took(struct shuffle_inlet *inlet, const uint8_t *bytes, uint32_t count);
/* Copies up to `want` bytes from the piece; returns how many. */
uint32_t shuffle_inlet_copy(struct shuffle_inlet *inlet, void *to, uint32_t want);
/* A piece stays for longer: words say where, before the peer's number. */
void shuffle_inlet_keep(struct shuffle_inlet *inlet, const struct shuffle_piece *piece, const char *words);
/* A piece goes back to where it came from. */
void shuffle_inlet_release(struct shuffle_inlet *inlet, const struct shuffle_piece *piece);
enum base_status shuffle_inlet_fail(const struct shuffle_inlet *inlet, struct base_error *error,
                                    enum base_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
enum base_status shuffle_inlet_misfit(const struct shuffle_inlet *inlet, struct base_error *error);

/* inlet_stitch.c */

/* Goes on collecting a cut row, or begins to. It may still be incomplete afterwards. */
enum base_status shuffle_inlet_stitch(struct shuffle_inlet *inlet, struct base_error *error);
/* A cut row that is whole, for a group: a pointer to it, or one that is good for its key. */
const uint8_t *shuffle_inlet_stitched_row(struct shuffle_inlet *inlet);
/* The sink has taken the row, or nobody will. */
void shuffle_inlet_stitch_done(struct shuffle_inlet *inlet);
/* The piece is used up. True: the cut row needs it, it is kept. */
bool shuffle_inlet_keeps(struct shuffle_inlet *inlet);

#endif
