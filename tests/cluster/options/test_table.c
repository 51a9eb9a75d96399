/* Every option of every command is given bad values: the message names the option, the value, and what is allowed. */
#include "cluster/options/table.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/daemon_options.h"
#include "cluster/options/options.h"
#include "cluster/options/value.h"

static const struct option_program *const programs[] = {&client_program, &daemon_program};
enum { PROGRAMS = sizeof programs / sizeof *programs, WORD_BYTES = CLUSTER_TEXT_BYTES_MAX + 100 };

static union {
    struct cluster_client_args client;
    struct daemon_args daemon;
} target;
static struct base_error error;

/* Reads up to two words after the command's. */
static enum base_status read_words(const struct option_command *command, const char *first, const char *second)
{
    char *argv[] = {(char *)(uintptr_t)command->name, (char *)(uintptr_t)first, (char *)(uintptr_t)second, NULL};
    struct option_reading reading = {.target = &target, .error = &error};
    memset(&target, 0, sizeof target);
    error = (struct base_error){0};
    const enum base_status status = option_table_read(command, second ? 3 : 2, argv, &reading);
    for (uint32_t i = 0; i < reading.given_count; i++)
        if (reading.given[i].row->read == option_read_text)
            free(*(char **)option_field(reading.given[i].row, &target));
    assert_int_equal(status, error.status);
    return status;
}

static void expect_words(const char *word, const char *said)
{
    if (error.status == BASE_OK)
        fail_msg("%.100s is taken", word);
    if (!strstr(error.text, said))
        fail_msg("%.100s: \"%s\" does not say \"%s\"", word, error.text, said);
    if (strchr(error.text, '\n'))
        fail_msg("%.100s: a message of several lines: %s", word, error.text);
}

typedef void row_check(const struct option_command *command, const struct option_row *row);

static void each_row(row_check *check)
{
    for (int p = 0; p < PROGRAMS; p++)
        for (int c = -1; c < (int)programs[p]->count; c++) {
            const struct option_command *command = c < 0 ? programs[p]->front : &programs[p]->command[c];
            for (const struct option_group *group = command->group; group->row; group++)
                for (const struct option_row *row = group->row; row->name; row++)
                    check(command, row);
        }
}

static void check_bad_value(const struct option_command *command, const struct option_row *row)
{
    static char word[WORD_BYTES];
    char said[200];
    if (!option_row_takes_value(row)) {
        snprintf(word, sizeof word, "--%s=1", row->name);
        read_words(command, word, NULL);
        expect_words(word, "takes no value");
        return;
    }
    snprintf(word, sizeof word, "--%s", row->name);
    read_words(command, word, NULL);
    snprintf(said, sizeof said, "--%s lacks its value: write --%s=", row->name, row->name);
    expect_words(word, said);
    snprintf(word, sizeof word, "--%s=", row->name);
    read_words(command, word, NULL);
    expect_words(word, "has an empty value");
    if (option_takes_any(row) && row->most == 0)
        return;
    const bool any = option_takes_any(row) || row->repeats;
    snprintf(word, sizeof word, "--%s=no such/value", row->name);
    if (any)
        memset(word + strlen(word), 'x', row->repeats ? 300 : row->most);
    word[row->repeats ? 300 : any ? strlen(row->name) + 4 + row->most : strlen(word)] = '\0';
    read_words(command, word, NULL);
    snprintf(said, sizeof said, "--%s=no such/value", row->name);
    expect_words(word, said);
    memset(word, 0, sizeof word);
}

static void a_bad_value_is_named_with_its_option(void **state)
{
    (void)state;
    each_row(check_bad_value);
}

static void check_range(const struct option_command *command, const struct option_row *row)
{
    char word[100], said[200];
    if (row->read != option_read_number)
        return;
    snprintf(said, sizeof said, "it goes from %" PRIu64 " to %" PRIu64, row->least, row->most);
    snprintf(word, sizeof word, "--%s=%" PRIu64, row->name, row->most + 1);
    if (row->most < UINT64_MAX) {
        read_words(command, word, NULL);
        expect_words(word, said);
    }
    snprintf(word, sizeof word, "--%s=%" PRIu64, row->name, row->most);
    assert_int_equal(read_words(command, word, NULL), BASE_OK);
    snprintf(word, sizeof word, "--%s=0", row->name);
    read_words(command, word, NULL);
    if (row->least > 0 && !row->zero)
        expect_words(word, said);
    else
        assert_int_equal(error.status, BASE_OK);
    if (row->least > 1) {
        snprintf(word, sizeof word, "--%s=%" PRIu64, row->name, row->least - 1);
        read_words(command, word, NULL);
        expect_words(word, said);
    }
}

static void a_number_out_of_range_is_told_the_range(void **state)
{
    (void)state;
    each_row(check_range);
}

/* One letter too many in the middle of a name: it begins no other. */
static void check_misspelt(const struct option_command *command, const struct option_row *row)
{
    char word[100], said[200];
    const int half = (int)strlen(row->name) / 2;
    snprintf(word, sizeof word, "--%.*sq%s", half, row->name, row->name + half);
    read_words(command, word, NULL);
    snprintf(said, sizeof said, "there is no option \"%s\"", word);
    expect_words(word, said);
    if (strlen(row->name) >= 3)
        expect_words(word, "did you mean \"--");
}

static void a_misspelt_option_gets_a_hint(void **state)
{
    (void)state;
    each_row(check_misspelt);
}

static void check_misspelt_choice(const struct option_command *command, const struct option_row *row)
{
    char word[100];
    if (row->read != option_read_choice)
        return;
    for (const struct option_choice *choice = row->choice; choice->word; choice++) {
        snprintf(word, sizeof word, "--%s=%sx", row->name, choice->word);
        read_words(command, word, NULL);
        expect_words(word, strlen(choice->word) >= 3 ? "did you mean" : "choose one of");
        expect_words(word, choice->word);
        snprintf(word, sizeof word, "--%s=%s", row->name, choice->word);
        assert_int_equal(read_words(command, word, NULL), BASE_OK);
    }
}

static void a_misspelt_choice_gets_a_hint(void **state)
{
    (void)state;
    each_row(check_misspelt_choice);
}

static void check_twice(const struct option_command *command, const struct option_row *row)
{
    char first[100], second[100];
    if (!option_takes_any(row) && row->read != option_read_number && row->read != option_read_choice)
        return;
    const char *one = row->read == option_read_choice ? row->choice->word : "4096";
    const char *other = row->read == option_read_choice ? "other" : "8192";
    if (row->read == option_read_number && row->most < 8192) {
        one = "1";
        other = "2";
    }
    snprintf(first, sizeof first, "--%s=%s", row->name, one);
    snprintf(second, sizeof second, "--%s=%s", row->name, other);
    read_words(command, first, second);
    expect_words(second, row->name);
    expect_words(second, "is given twice, with \"");
    expect_words(second, one);
    expect_words(second, other);
    assert_int_equal(read_words(command, first, first), BASE_OK);
}

static void an_option_with_two_values_names_both(void **state)
{
    (void)state;
    each_row(check_twice);
}

static void what_may_repeat_repeats(void **state)
{
    (void)state;
    const struct option_command *shuffle = &client_program.command[CLUSTER_COMMAND_SHUFFLE];
    assert_int_equal(read_words(shuffle, "--null=NA", "--null=nil"), BASE_OK);
    assert_string_equal(target.client.submit.source[0].null_texts, "NA\nnil\n");
}

static void misspelt_commands_get_a_hint(void **state)
{
    (void)state;
    for (int p = 0; p < PROGRAMS; p++)
        for (uint32_t c = 0; c < programs[p]->count; c++) {
            char word[64], said[200];
            const char *right = programs[p]->command[c].word;
            snprintf(word, sizeof word, "%sq", right);
            error = (struct base_error){0};
            assert_null(option_command_find(programs[p], word, &error));
            snprintf(said, sizeof said, "there is no command \"%s\" (did you mean \"%s\"?)", word, right);
            expect_words(word, said);
            error = (struct base_error){0};
            assert_ptr_equal(option_command_find(programs[p], right, &error), &programs[p]->command[c]);
        }
}

static void an_ambiguous_option_names_two(void **state)
{
    (void)state;
    read_words(&client_program.command[CLUSTER_COMMAND_JOIN], "--frame=3", NULL);
    expect_words("--frame", "\"--frame\" is ambiguous: it begins --frame-bytes and --frames-per-lane");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_value_is_named_with_its_option),
        cmocka_unit_test(a_number_out_of_range_is_told_the_range),
        cmocka_unit_test(a_misspelt_option_gets_a_hint),
        cmocka_unit_test(a_misspelt_choice_gets_a_hint),
        cmocka_unit_test(an_option_with_two_values_names_both),
        cmocka_unit_test(what_may_repeat_repeats),
        cmocka_unit_test(misspelt_commands_get_a_hint),
        cmocka_unit_test(an_ambiguous_option_names_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
