/* The manual's options, the help and the completions come from the tables: all are rendered here and compared. */
#include "cluster/options/manual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/daemon_options.h"
#include "cluster/options/options.h"
#include "cluster/report/bisect_report.h"
#include "cluster/report/report.h"
#include "tests/cluster/manual_block.h"

enum { MARK_BYTES = 200 };

static const struct option_program *const programs[] = {&client_program, &daemon_program};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* The front (command -1) and the commands of a program. */
static const struct option_command *command_at(const struct option_program *program, int at)
{
    return at < 0 ? program->front : &program->command[at];
}

static void print_options(const void *command, FILE *to)
{
    option_manual_print(command, to);
}

static void expect_page(const struct option_command *command)
{
    char path[4096], begin_mark[MARK_BYTES], end_mark[MARK_BYTES], what[MARK_BYTES];
    snprintf(path, sizeof path, "%s/%s", MILLRACE_MANUAL, command->page);
    snprintf(begin_mark, sizeof begin_mark,
             ".\\\" Options of %s, as MILLRACE_WRITE=1 test_cluster_options_manual wrote them\n", command->name);
    snprintf(end_mark, sizeof end_mark, ".\\\" End of the options of %s\n", command->name);
    snprintf(what, sizeof what, "the options of %s", command->name);
    manual_block_check(path, begin_mark, end_mark, what, print_options, command);
}

static void the_manual_has_the_options_of_the_tables(void **state)
{
    (void)state;
    for (int p = 0; p < PROGRAMS; p++)
        for (int c = -1; c < (int)programs[p]->count; c++)
            if (command_at(programs[p], c)->page)
                expect_page(command_at(programs[p], c));
}

/* A command without a page of its own has the options of the front alone. */
static void every_option_is_in_the_manual(void **state)
{
    (void)state;
    for (int p = 0; p < PROGRAMS; p++)
        for (uint32_t c = 0; c < programs[p]->count; c++) {
            const struct option_command *command = &programs[p]->command[c];
            if (command->page)
                continue;
            assert_ptr_equal(command->group[0].row, programs[p]->front->group[0].row);
            assert_null(command->group[1].row);
        }
}

static void expect_in(const char *text, const char *what, const struct option_command *command, const char *format,
                      const struct option_row *row)
{
    char word[128];
    snprintf(word, sizeof word, format, row->name);
    if (!strstr(text, word))
        fail_msg("%s of %s lacks %s", what, command->name, word);
}

/* Blanks and line ends become one blank each: argp wraps lines. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!strchr(" \n", *from))
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    *to = '\0';
}

static void expect_default(const char *text, const struct option_command *command, const struct option_row *row)
{
    char words[OPTION_HELP_BYTES] = " (required)";
    if (row->preset || row->unset)
        snprintf(words, sizeof words, " (default: %s)", row->preset ? row->preset : row->unset);
    const char *at = strstr(text, row->help);
    if (!at || strncmp(at + strlen(row->help), words, strlen(words)) != 0)
        fail_msg("the help of %s --%s does not say%s", command->name, row->name, words);
}

static void help_has_every_option_and_its_default(void **state)
{
    (void)state;
    for (int p = 0; p < PROGRAMS; p++)
        for (int c = -1; c < (int)programs[p]->count; c++) {
            const struct option_command *command = command_at(programs[p], c);
            char *text = NULL;
            size_t bytes;
            FILE *to = open_memstream(&text, &bytes);
            assert_int_equal(option_table_help(command, c < 0 ? programs[p] : NULL, to), BASE_OK);
            fclose(to);
            join_lines(text);
            for (const struct option_group *group = command->group; group->row; group++)
                for (const struct option_row *row = group->row; row->name; row++) {
                    expect_in(text, "the help", command, "--%s", row);
                    if (option_row_takes_value(row) && !row->alias)
                        expect_default(text, command, row);
                }
            free(text);
        }
}

static void tables_are_well_formed(void **state)
{
    (void)state;
    for (int p = 0; p < PROGRAMS; p++)
        for (int c = -1; c < (int)programs[p]->count; c++) {
            const struct option_command *command = command_at(programs[p], c);
            const struct option_row *seen[OPTION_ROWS_MAX];
            int count = 0;
            assert_non_null(command->text);
            for (const struct option_group *group = command->group; group->row; group++)
                for (const struct option_row *row = group->row; row->name; row++) {
                    assert_non_null(row->read);
                    assert_non_null(row->help);
                    assert_true(count < OPTION_ROWS_MAX);
                    if (row->help[strlen(row->help) - 1] == '.' && !strstr(row->help, "..."))
                        fail_msg("%s --%s: the help ends with a full stop", command->name, row->name);
                    const int answers = !!row->preset + !!row->unset + !!row->needed;
                    if (answers != option_row_takes_value(row))
                        fail_msg("%s --%s: %d of preset, unset and needed say what holds without it", command->name,
                                 row->name, answers);
                    if (strstr(row->help, "efault") ||
                        (row->manual && (strstr(row->manual, "he default is") || strstr(row->manual, "(default"))))
                        fail_msg("%s --%s: the texts name a default, which preset or unset does", command->name,
                                 row->name);
                    for (int i = 0; i < count; i++)
                        if (strcmp(seen[i]->name, row->name) == 0 || (row->letter && seen[i]->letter == row->letter))
                            fail_msg("%s has --%s twice", command->name, row->name);
                    seen[count++] = row;
                }
        }
}

static void expect_keys(const struct option_command *command, char *json)
{
    int count = 0;
    assert_non_null(json);
    for (const struct option_group *group = command->group; group->row; group++)
        for (const struct option_row *row = group->row; row->name; row++) {
            char key[64];
            snprintf(key, sizeof key, "\"%s\":", row->json ? row->json : "");
            if (row->json && !strstr(json, key))
                fail_msg("%s --%s: the JSON object has no key %s: %s", command->name, row->name, row->json, json);
            count += row->json != NULL;
        }
    assert_true(count > 0);
    free(json);
}

/* The keys that tables name are those of the object that the command, or for daemons `millrace nodes', prints. */
static void reported_options_have_their_keys(void **state)
{
    (void)state;
    const struct cluster_report report = {.kind = CLUSTER_KIND_JOIN};
    const struct bisect_report measured = {0};
    struct cluster_node_entry entry = {0};
    const struct cluster_nodes nodes = {.count = 1, .entry = &entry};
    expect_keys(&client_program.command[CLUSTER_COMMAND_JOIN], report_json(&report, 1, "/o", 0));
    expect_keys(&client_program.command[CLUSTER_COMMAND_SHUFFLE], report_json(&report, 1, "/o", 0));
    expect_keys(&client_program.command[CLUSTER_COMMAND_BISECT], bisect_report_json(&measured));
    expect_keys(&daemon_program.command[DAEMON_COORDINATOR], report_nodes_json(&nodes));
    expect_keys(&daemon_program.command[DAEMON_NODE], report_nodes_json(&nodes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_well_formed),           cmocka_unit_test(the_manual_has_the_options_of_the_tables),
        cmocka_unit_test(every_option_is_in_the_manual),    cmocka_unit_test(help_has_every_option_and_its_default),
        cmocka_unit_test(reported_options_have_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
