#include "cluster/options/completion.h"

#include <string.h>

typedef void row_printer(const struct option_command *command, const struct option_row *row, FILE *to);

static void each_row(const struct option_command *command, row_printer *print, FILE *to)
{
    for (const struct option_group *group = command->group; group->row; group++)
        for (const struct option_row *row = group->row; row->name; row++)
            print(command, row, to);
}

/* Prints text with a backslash before each of the bytes in `special`, and a quote as a quoted string has it. */
static void print_quoted(const char *text, const char *special, FILE *to)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else if (strchr(special, *text))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
}

static void print_choices(const struct option_row *row, FILE *to)
{
    for (const struct option_choice *choice = row->choice; choice && choice->word; choice++)
        fprintf(to, "%s%s", choice == row->choice ? "" : " ", choice->word);
}

/* ---- bash ---- */

static void bash_option(const struct option_command *command, const struct option_row *row, FILE *to)
{
    (void)command;
    fprintf(to, " --%s%s", row->name, option_row_takes_value(row) ? "=" : "");
}

static void bash_value(const struct option_command *command, const struct option_row *row, FILE *to)
{
    if (!option_row_takes_value(row))
        return;
    fprintf(to, "        '%s --%s')", command->word ? command->word : "", row->name);
    if (row->path != OPTION_PATH_NONE)
        fprintf(to, " kind=-%c ;;\n", row->path == OPTION_PATH_FILE ? 'f' : 'd');
    if (row->path == OPTION_PATH_NONE && !row->choice)
        fputs(" return ;;\n", to);
    if (row->path == OPTION_PATH_NONE && row->choice) {
        fputs(" kind=-W words='", to);
        print_choices(row, to);
        fputs("' ;;\n", to);
    }
}

static void bash_words(const struct option_command *command, FILE *to)
{
    fprintf(to, "            '%s') words+='", command->word ? command->word : "");
    each_row(command, bash_option, to);
    fprintf(to, "'%s ;;\n", command->word && command->bare ? "; [[ $current == -* ]] || kind=-f" : "");
}

void option_completion_bash(const struct option_program *program, FILE *to)
{
    fprintf(
        to,
        "# bash completion of %s, made from its tables of options\n"
        "_%s()\n{\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option='' command='' word\n"
        "    local kind='' words=''\n"
        "    if [[ $current == = ]]; then\n"
        "        current='' option=$before\n"
        "    elif [[ $before == = ]]; then\n"
        "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    else\n"
        "        option=$before\n"
        "    fi\n"
        "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
        "        case $word in\n            ",
        program->name, program->name);
    for (uint32_t i = 0; i < program->count; i++)
        fprintf(to, "%s%s", i ? " | " : "", program->command[i].word);
    fputs(") command=$word && break ;;\n"
          "        esac\n"
          "    done\n"
          "    case \"$command $option\" in\n",
          to);
    each_row(program->front, bash_value, to);
    for (uint32_t i = 0; i < program->count; i++)
        each_row(&program->command[i], bash_value, to);
    fputs("    esac\n"
          "    if [[ -z $kind ]]; then\n"
          "        kind=-W\n"
          "        case $command in\n",
          to);
    bash_words(program->front, to);
    for (uint32_t i = 0; i < program->count; i++)
        bash_words(&program->command[i], to);
    fputs("        esac\n"
          "        [[ -n $command ]] || words+='",
          to);
    for (uint32_t i = 0; i < program->count; i++)
        fprintf(to, " %s", program->command[i].word);
    fprintf(to,
            "'\n"
            "    fi\n"
            "    if [[ $kind == -W ]]; then\n"
            "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
            "        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null\n"
            "    else\n"
            "        mapfile -t COMPREPLY < <(compgen \"$kind\" -- \"$current\")\n"
            "        compopt -o filenames 2>/dev/null\n"
            "    fi\n"
            "}\n"
            "complete -F _%s %s\n",
            program->name, program->name);
}

/* ---- zsh ---- */

static void zsh_option(const struct option_command *command, const struct option_row *row, FILE *to)
{
    (void)command;
    char value[OPTION_VALUE_BYTES], help[OPTION_HELP_BYTES];
    fprintf(to, " \\\n                '%s--%s%s[", row->repeats ? "*" : "", row->name,
            option_row_takes_value(row) ? "=" : "");
    print_quoted(option_row_help(row, help), "[]:\\", to);
    fputc(']', to);
    if (option_row_takes_value(row)) {
        fputc(':', to);
        print_quoted(option_row_value(row, value), "[]:\\", to);
        fputc(':', to);
        if (row->path != OPTION_PATH_NONE)
            fputs(row->path == OPTION_PATH_FILE ? "_files" : "_files -/", to);
        else if (row->choice)
            fputc('(', to), print_choices(row, to), fputc(')', to);
        else
            fputc(' ', to);
    }
    fputc('\'', to);
}

void option_completion_zsh(const struct option_program *program, FILE *to)
{
    fprintf(to, "#compdef %s\n# zsh completion of %s, made from its tables of options\n_%s()\n{\n", program->name,
            program->name, program->name);
    fputs("    local -a commands\n    local context state line curcontext=$curcontext\n    commands=(\n", to);
    for (uint32_t i = 0; i < program->count; i++) {
        fprintf(to, "        '%s:", program->command[i].word);
        print_quoted(program->command[i].about, ":\\", to);
        fputs("'\n", to);
    }
    fputs("    )\n    _arguments -C", to);
    each_row(program->front, zsh_option, to);
    fputs(" \\\n                '1: :->command' '*:: :->rest'\n"
          "    case $state in\n"
          "        command) _describe command commands ;;\n"
          "        rest)\n"
          "            case $words[1] in\n",
          to);
    for (uint32_t i = 0; i < program->count; i++) {
        fprintf(to, "            %s) _arguments", program->command[i].word);
        each_row(&program->command[i], zsh_option, to);
        fprintf(to, "%s ;;\n", program->command[i].bare ? " '1: :_files'" : "");
    }
    fprintf(to, "            esac ;;\n    esac\n}\n_%s \"$@\"\n", program->name);
}

/* ---- fish ---- */

/* Of words that are no option only the first that names a command does; those before it are values. */
static void fish_commands(const struct option_program *program, FILE *to)
{
    fprintf(to, "function __%s_at\n    for word in (commandline -opc)[2..]\n        if contains -- $word",
            program->name);
    for (uint32_t i = 0; i < program->count; i++)
        fprintf(to, " %s", program->command[i].word);
    fputs("\n            test \"$word\" = \"$argv[1]\"\n            return\n        end\n    end\n    test -z "
          "\"$argv[1]\"\n"
          "end\n",
          to);
}

static void fish_option(const struct option_command *command, const struct option_row *row, FILE *to)
{
    char help[OPTION_HELP_BYTES];
    const int bytes = (int)strcspn(command->name, " ");
    fprintf(to, "complete -c %.*s -n '__%.*s_at%s' -l %s", bytes, command->name, bytes, command->name,
            command->name + bytes, row->name);
    if (row->letter)
        fprintf(to, " -s %c", row->letter);
    if (row->path != OPTION_PATH_NONE)
        fputs(" -r -F", to);
    else if (row->choice)
        fputs(" -x -a '", to), print_choices(row, to), fputc('\'', to);
    else if (row->value)
        fputs(" -x", to);
    fputs(" -d '", to);
    print_quoted(option_row_help(row, help), "", to);
    fputs("'\n", to);
}

void option_completion_fish(const struct option_program *program, FILE *to)
{
    fprintf(to, "# fish completion of %s, made from its tables of options\ncomplete -c %s -f\n", program->name,
            program->name);
    fish_commands(program, to);
    for (uint32_t i = 0; i < program->count; i++) {
        fprintf(to, "complete -c %s -n '__%s_at' -a %s -d '", program->name, program->name, program->command[i].word);
        print_quoted(program->command[i].about, "", to);
        fputs("'\n", to);
        if (program->command[i].bare)
            fprintf(to, "complete -c %s -n '__%s_at %s' -F\n", program->name, program->name, program->command[i].word);
    }
    each_row(program->front, fish_option, to);
    for (uint32_t i = 0; i < program->count; i++)
        each_row(&program->command[i], fish_option, to);
}
