#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/state.h"
#include "tests/child_output.h"

enum { LAMP_OFF, LAMP_ON, LAMP_BROKEN, LAMP_STATES };
static const struct base_state_row lamp_rows[LAMP_STATES] = {
    [LAMP_OFF] = {"off", 1U << LAMP_ON},
    [LAMP_ON] = {"on", 1U << LAMP_OFF},
    [LAMP_BROKEN] = {"broken", 1U << LAMP_OFF | 1U << LAMP_ON},
};
static const struct base_machine lamp = {"lamp", lamp_rows, LAMP_STATES};

static void states_follow_the_table(void **state)
{
    (void)state;
    struct base_state machine;
    base_state_begin(&machine, &lamp, LAMP_OFF);
    for (int i = 0; i < 20; i++) {
        base_state_enter(&machine, LAMP_ON);
        assert_string_equal(base_state_word(&machine), "on");
        base_state_enter(&machine, LAMP_OFF);
    }
    base_state_enter(&machine, LAMP_BROKEN);
    assert_int_equal(machine.now, LAMP_BROKEN);
    assert_int_equal(machine.transitions, 41);
}

/* Breaks the lamp, then goes to the state that *next names. */
static void enter_after_broken(void *next)
{
    struct base_state machine;
    base_state_begin(&machine, &lamp, LAMP_OFF);
    base_state_enter(&machine, LAMP_ON);
    base_state_enter(&machine, LAMP_BROKEN);
    base_state_enter(&machine, *(const uint32_t *)next);
}

/* What a process says that this transition ends. */
static void words_of_the_end(uint32_t next, char *text, size_t bytes)
{
    bool aborted;
    assert_false(child_output(enter_after_broken, &next, text, bytes, &aborted));
    assert_true(aborted);
}

static void a_bad_transition_names_its_states(void **state)
{
    (void)state;
    char text[4096];
    words_of_the_end(LAMP_ON, text, sizeof text);
    if (!strstr(text, "lamp: on must not follow broken (before that: on, off; 2 transitions)"))
        fail_msg("it says: %s", text);
    words_of_the_end(LAMP_STATES, text, sizeof text);
    assert_non_null(strstr(text, "lamp: no state of it must not follow broken"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_the_table),
        cmocka_unit_test(a_bad_transition_names_its_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
