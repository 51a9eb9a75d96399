#include "cluster/bisect/rate.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    double bits;
} units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};

bool bisect_rate_parse(const char *text, double *bits_per_second)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].word) == 0 && number > 0 && number * units[i].bits <= 1e16) {
            *bits_per_second = number * units[i].bits;
            return true;
        }
    return false;
}

void bisect_rate_format(double bits_per_second, char *text)
{
    static const char *const names[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    if (!isfinite(bits_per_second) || bits_per_second < 0) {
        snprintf(text, BISECT_RATE_BYTES, "-");
        return;
    }
    size_t unit = 0;
    while (bits_per_second >= 999.5 && unit + 1 < sizeof names / sizeof *names) {
        bits_per_second /= 1000;
        unit++;
    }
    const int digits = bits_per_second < 10 ? 2 : bits_per_second < 100 ? 1 : 0;
    snprintf(text, BISECT_RATE_BYTES, "%.*f %s", digits, bits_per_second, names[unit]);
}

/* One RATE or SEND/RECEIVE. */
static bool link_parse(char *text, struct bisect_link *link)
{
    char *slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    struct bisect_link found;
    if (!bisect_rate_parse(text, &found.send))
        return false;
    found.receive = found.send;
    if (slash && !bisect_rate_parse(slash + 1, &found.receive))
        return false;
    *link = found;
    return true;
}

enum base_status bisect_links_find(const char *text, const char *node, struct bisect_link *link,
                                   struct base_error *error)
{
    struct bisect_link common = {0}, own = {0};
    char *copy = strdup(text ? text : "");
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the rates of links");
    enum base_status status = BASE_OK;
    char *rest;
    for (char *word = strtok_r(copy, ",", &rest); word && status == BASE_OK; word = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(word, '=');
        if (equals)
            *equals = '\0';
        struct bisect_link *into = !equals ? &common : strcmp(word, node) == 0 ? &own : &(struct bisect_link){0};
        if (!link_parse(equals ? equals + 1 : word, into))
            status =
                base_error_set(error, BASE_INVALID,
                               "--link-rate=%s is not understood: write RATE[,NODE=RATE...], where RATE is a number "
                               "with kbit, mbit, gbit or tbit after it, or SEND/RECEIVE of such",
                               text);
    }
    free(copy);
    if (status == BASE_OK)
        *link = own.send > 0 ? own : common;
    return status;
}

enum base_status bisect_links_check(const char *text, bisect_name_fn *name, const void *context, uint32_t count,
                                    struct base_error *error)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the rates of links");
    enum base_status status = BASE_OK;
    char *rest;
    for (char *word = strtok_r(copy, ",", &rest); word && status == BASE_OK; word = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = '\0';
        bool found = false;
        for (uint32_t i = 0; i < count && !found; i++)
            found = strcmp(word, name(context, i)) == 0;
        if (!found)
            status = base_error_set(
                error, BASE_INVALID,
                "--link-rate names %s, which is no node of this cluster; `millrace nodes' lists them", word);
    }
    free(copy);
    return status;
}
