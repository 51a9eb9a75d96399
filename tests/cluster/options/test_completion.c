/* Completions are made of the tables: every command, option and choice is in the scripts of all shells, and what a
 * table says breaks none of them. What the shells make of the scripts: completion_shells.py. */
#include "cluster/options/completion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/daemon_options.h"
#include "cluster/options/options.h"

typedef void completion_printer(const struct option_program *program, FILE *to);

static const struct shell {
    const char *name, *option, *choice;
    completion_printer *print;
} shells[] = {{"bash", " --%s", "%s", option_completion_bash},
              {"zsh", "--%s", "%s", option_completion_zsh},
              {"fish", " -l %s ", "%s", option_completion_fish}};
enum { SHELLS = sizeof shells / sizeof *shells };

static char *print(const struct shell *shell, const struct option_program *program)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    shell->print(program, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

static void expect(const char *text, const struct shell *shell, const char *format, const char *word)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, format, word);
    if (!strstr(text, wanted))
        fail_msg("the completions for %s lack \"%s\"", shell->name, wanted);
}

static void expect_rows(const char *text, const struct shell *shell, const struct option_command *command)
{
    if (command->word)
        expect(text, shell, "%s", command->word);
    for (const struct option_group *group = command->group; group->row; group++)
        for (const struct option_row *row = group->row; row->name; row++) {
            expect(text, shell, shell->option, row->name);
            for (const struct option_choice *choice = row->path ? NULL : row->choice; choice && choice->word; choice++)
                expect(text, shell, shell->choice, choice->word);
        }
}

static void every_option_and_choice_is_in_the_scripts(void **state)
{
    (void)state;
    const struct option_program *const programs[] = {&client_program, &daemon_program};
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        for (size_t s = 0; s < SHELLS; s++) {
            char *text = print(&shells[s], programs[p]);
            expect_rows(text, &shells[s], programs[p]->front);
            for (uint32_t c = 0; c < programs[p]->count; c++)
                expect_rows(text, &shells[s], &programs[p]->command[c]);
            free(text);
        }
}

/* A table whose texts have what shells give a meaning to. */
static const struct option_choice odd_choices[] = {{"one", 0}, {"two=", 0}, {0}};
static const struct option_row odd_rows[] = {
    {.name = "free", .value = "TEXT", .help = "It's [any]: $HOME `x` \\ \"y\"", .unset = "none"},
    {.name = "pick", .choice = odd_choices, .preset = "one", .help = "Pick"},
    {.name = "where", .letter = 'w', .value = "FOLDER", .path = OPTION_PATH_FOLDER, .unset = "here", .help = "Where"},
    {.name = "again", .value = "X", .repeats = true, .unset = "none", .help = "Again"},
    {0}};
static const struct option_command odd_front = {.name = "odd", .group = {{NULL, odd_rows}}};
static const struct option_command odd_commands[] = {
    {.name = "odd do", .word = "do", .about = "it's: done", .bare = "FILE", .group = {{NULL, odd_rows}}}};
static const struct option_program odd_program = {"odd", &odd_front, odd_commands, 1};

static void texts_are_quoted(void **state)
{
    (void)state;
    char *bash = print(&shells[0], &odd_program), *zsh = print(&shells[1], &odd_program);
    char *fish = print(&shells[2], &odd_program);
    assert_non_null(strstr(bash, "'do --pick') kind=-W words='one two=' ;;"));
    assert_non_null(strstr(bash, "'do --where') kind=-d ;;"));
    assert_non_null(strstr(bash, "'do --free') return ;;"));
    assert_non_null(strstr(bash, "|| kind=-f"));
    assert_non_null(strstr(zsh, "'--free=[It'\\''s \\[any\\]\\: $HOME `x` \\\\ \"y\" (default\\: none)]:TEXT: '"));
    assert_non_null(strstr(zsh, "'*--again=["));
    assert_non_null(strstr(zsh, "'do:it'\\''s\\: done'"));
    assert_non_null(strstr(zsh, ":(one two=)'"));
    assert_non_null(strstr(fish, "-l free -x -d 'It'\\''s [any]: $HOME `x`"));
    assert_non_null(strstr(fish, "-l where -s w -r -F"));
    assert_non_null(strstr(fish, "-n '__odd_at do' -l pick -x -a 'one two='"));
    assert_non_null(strstr(fish, "-n '__odd_at do' -F"));
    free(bash);
    free(zsh);
    free(fish);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_and_choice_is_in_the_scripts),
        cmocka_unit_test(texts_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
