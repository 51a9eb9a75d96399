#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text/shown.h"

static void expect(const char *text, const char *shown)
{
    assert_string_equal(base_shown(text), shown);
    assert_string_equal(base_shown(base_shown(text)), shown);
}

static void ordinary_text_stays(void **state)
{
    (void)state;
    expect("", "");
    expect("/data/Größe 名 \U0001f600 \\x1b \"q\"", "/data/Größe 名 \U0001f600 \\x1b \"q\"");
}

static void what_drives_a_terminal_becomes_visible(void **state)
{
    (void)state;
    expect("a\x1b[2Jb", "a\\x1b[2Jb");
    expect("a\nb\r\tc\x7f", "a\\x0ab\\x0d\\x09c\\x7f");
    expect("\xc2\x9b"
           "31m",
           "\\xc2\\x9b31m"); /* C1: the eight-bit CSI */
    expect("a\u202Eb\u2066c\u2028", "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xe2\\x80\\xa8");
}

static void bytes_that_are_no_utf8_become_visible(void **state)
{
    (void)state;
    expect("\xff\xc0\x80", "\\xff\\xc0\\x80");                            /* never, and not the shortest form */
    expect("\xe0\x80\xaf\xed\xa0\x80", "\\xe0\\x80\\xaf\\xed\\xa0\\x80"); /* overlong, surrogate */
    expect("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");                   /* beyond the last */
    expect("x\xe5\x90", "x\\xe5\\x90");                                   /* cut */
    expect("\x9b", "\\x9b");
}

static void a_copy_ends_at_a_whole_character(void **state)
{
    (void)state;
    char to[6];
    assert_int_equal(base_shown_copy("abcd\x1b", 5, to, sizeof to), 4);
    assert_string_equal(to, "abcd");
    assert_int_equal(base_shown_copy("abcö", 5, to, 5), 3);
    assert_string_equal(to, "abc");
    assert_int_equal(base_shown_copy("\x1b", 1, to, 1), 0);
    assert_string_equal(to, "");
}

static void a_text_keeps_its_lines(void **state)
{
    (void)state;
    char *written = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&written, &bytes);
    static const char text[] = "one\x1b\ntwo\xc2\x85\xff\nö\n";
    assert_true(base_shown_write(text, strlen(text), to));
    fclose(to);
    assert_string_equal(written, "one\\x1b\ntwo\\xc2\\x85\\xff\nö\n");
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_stays),
        cmocka_unit_test(what_drives_a_terminal_becomes_visible),
        cmocka_unit_test(bytes_that_are_no_utf8_become_visible),
        cmocka_unit_test(a_copy_ends_at_a_whole_character),
        cmocka_unit_test(a_text_keeps_its_lines),
    };
    return cmocka_run_group_tests_name("base.shown", tests, NULL, NULL);
}
