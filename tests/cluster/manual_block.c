#include "tests/cluster/manual_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE_BYTES = 1 << 20 };

static char *page_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, PAGE_BYTES);
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, PAGE_BYTES - 1, file) > 0);
    fclose(file);
    return text;
}

static char *block_print(void (*print)(const void *context, FILE *to), const void *context, size_t *bytes)
{
    char *block = NULL;
    FILE *to = open_memstream(&block, bytes);
    assert_non_null(to);
    print(context, to);
    assert_int_equal(fclose(to), 0);
    return block;
}

void manual_block_check(const char *page, const char *begin_line, const char *end_line, const char *what,
                        void (*print)(const void *context, FILE *to), const void *context)
{
    size_t bytes = 0;
    char *block = block_print(print, context, &bytes);
    char *text = page_read(page), *begin = strstr(text, begin_line), *end = strstr(text, end_line);
    if (!begin || !end || begin > end) {
        fail_msg("%s has no place for %s", page, what);
        abort();
    }
    begin += strlen(begin_line);
    if (getenv("MILLRACE_WRITE")) {
        FILE *file = fopen(page, "w");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(begin - text), text, block, end);
        assert_int_equal(fclose(file), 0);
    } else if (bytes != (size_t)(end - begin) || memcmp(begin, block, bytes) != 0) {
        fail_msg("%s has not %s as the table has it: run this test with MILLRACE_WRITE=1", page, what);
    }
    free(text);
    free(block);
}
