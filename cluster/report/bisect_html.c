/* The page: bisect_page.html, which the assembler puts into the program, with the JSON object in the place made for it.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/report/bisect_report.h"

__asm__(".pushsection .rodata\n"
        ".type bisect_page, @object\n"
        "bisect_page:\n"
        ".incbin \"" MILLRACE_BISECT_PAGE "\"\n"
        ".byte 0\n"
        ".size bisect_page, . - bisect_page\n"
        ".popsection\n");
extern const char bisect_page[] __attribute__((visibility("hidden")));

static const char place[] = "@MILLRACE_DATA@";

/* Inside a script element no text may look like its end, or like the beginning of another: "<" becomes "\u003c", which
 * JSON reads as the same. */
static const char angle[] = "\\u003c";

static char *put_safely(char *to, const char *json)
{
    for (; *json; json++)
        if (*json == '<')
            to = (char *)mempcpy(to, angle, sizeof angle - 1);
        else
            *to++ = *json;
    return to;
}

char *bisect_report_html(const char *json)
{
    const char *at = strstr(bisect_page, place);
    const char *after = at + strlen(place);
    const size_t before = (size_t)(at - bisect_page);
    char *page = malloc(before + (sizeof angle - 1) * strlen(json) + strlen(after) + 1);
    if (!page)
        return NULL;
    memcpy(page, bisect_page, before);
    char *end = put_safely(page + before, json);
    memcpy(end, after, strlen(after) + 1);
    return page;
}
