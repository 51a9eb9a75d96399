#include "cluster/options/manual.h"

#include <string.h>

/* An option with its value: choices are words to type, all else stands for something. */
static void print_name(const struct option_row *row, FILE *to)
{
    char text[OPTION_VALUE_BYTES];
    const char *value = option_row_value(row, text);
    if (row->letter)
        fprintf(to, " Fl %c ,", row->letter);
    fprintf(to, " Fl -%s", row->name);
    if (*value == '\0')
        return;
    fprintf(to, " Ns = Ns %s ", row->value ? "Ar" : "Cm");
    for (const char *at = value; *at; at++)
        if (*at == '|')
            fputs(" | ", to);
        else
            fputc(*at, to);
}

static void print_text(const struct option_command *command, const struct option_row *row, FILE *to)
{
    if (row->manual)
        fprintf(to, "%s\n", row->manual);
    else
        fprintf(to, "%s%s\n", row->help, row->help[strlen(row->help) - 1] == '?' ? "" : ".");
    if (row->preset)
        fprintf(to, "The default is\n.Cm %s .\n", strcmp(row->preset, "\"") == 0 ? "\\(dq" : row->preset);
    if (row->unset)
        fprintf(to, "The default is %s.\n", row->unset);
    if (row->needed)
        fputs("It is required.\n", to);
    if (row->repeats && !strstr(row->help, "several times"))
        fputs("It may be given several times.\n", to);
    if (row->json)
        fprintf(to, "%sreports it as\n.Cm %s .\n", command->reports ? command->reports : "The JSON object ", row->json);
}

static bool is_alias(const struct option_row *row)
{
    return row->name && row->alias;
}

void option_manual_print(const struct option_command *command, FILE *to)
{
    for (const struct option_group *group = command->group; group->row; group++) {
        if (group->heading)
            fprintf(to, "%s.Ss %.*s\n.Bl -tag -width Ds\n", group == command->group ? "" : ".El\n",
                    (int)strcspn(group->heading, ":"), group->heading);
        for (const struct option_row *row = group->row; row->name; row++) {
            if (is_alias(row))
                continue;
            fputs(".It", to);
            print_name(row, to);
            if (is_alias(row + 1)) {
                fputs(" ,", to);
                print_name(row + 1, to);
            }
            fputc('\n', to);
            print_text(command, row, to);
        }
    }
    fputs(".El\n", to);
}
