/* State machines: a table of states with their predecessors, and one function that makes every transition. It holds
 * each to the table, in release builds too, and keeps a trace: a bad one ends the program with the names of both states
 * and of those before. */
#ifndef MILLRACE_BASE_STATE_H
#define MILLRACE_BASE_STATE_H

#include <stdint.h>

enum { BASE_STATES_MAX = 32, BASE_STATE_TRACE = 8 };

/* A row of the table, at its state's number. */
struct base_state_row {
    const char *word;
    uint32_t predecessors; /* bit n: state n may come before */
};

/* The table; constant. */
struct base_machine {
    const char *name; /* "task of a join" */
    const struct base_state_row *row;
    uint32_t count; /* of states, at most BASE_STATES_MAX */
};

/* One that runs. Its owner reads `now` and changes it by base_state_enter alone. */
struct base_state {
    const struct base_machine *machine;
    uint8_t now;
    uint8_t trace[BASE_STATE_TRACE]; /* ring: states left, the latest at transitions - 1 */
    uint32_t transitions;
};

void base_state_begin(struct base_state *state, const struct base_machine *machine, uint32_t first);
/* Aborts when the table does not allow it: a defect of ours. */
void base_state_enter(struct base_state *state, uint32_t next);
/* Static word. */
const char *base_state_word(const struct base_state *state);

#endif
