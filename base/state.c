#include "base/state.h"

#include <stdio.h>

#include "base/assert.h"

static const char *word_of(const struct base_machine *machine, uint32_t state)
{
    return state < machine->count && machine->row[state].word ? machine->row[state].word : "no state of it";
}

/* "task of a join: pass 1 must not follow closed (before that: closing, failed, opened; 3 transitions)". */
static void state_refuse(const struct base_state *state, uint32_t next)
{
    char text[512];
    int used = snprintf(text, sizeof text, "%s: %s must not follow %s", state->machine->name,
                        word_of(state->machine, next), base_state_word(state));
    const uint32_t kept = state->transitions < BASE_STATE_TRACE ? state->transitions : BASE_STATE_TRACE;
    for (uint32_t i = 1; i <= kept && used > 0 && used < (int)sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i == 1 ? " (before that: " : ", ",
                         word_of(state->machine, state->trace[(state->transitions - i) % BASE_STATE_TRACE]));
    if (kept > 0 && used > 0 && used < (int)sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, "; %u transitions)", state->transitions);
    base_assert_failed(__FILE__, __LINE__, text);
}

void base_state_begin(struct base_state *state, const struct base_machine *machine, uint32_t first)
{
    BASE_ASSERT(machine->count <= BASE_STATES_MAX && first < machine->count);
    *state = (struct base_state){.machine = machine, .now = (uint8_t)first};
}

void base_state_enter(struct base_state *state, uint32_t next)
{
    BASE_ASSERT(state->machine);
    if (next >= state->machine->count || !(state->machine->row[next].predecessors >> state->now & 1))
        state_refuse(state, next);
    state->trace[state->transitions++ % BASE_STATE_TRACE] = state->now;
    state->now = (uint8_t)next;
}

const char *base_state_word(const struct base_state *state)
{
    return word_of(state->machine, state->now);
}
