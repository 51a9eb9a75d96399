/* The text form of socket settings: what is read, what is refused and how, and that writing reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "net/engine/socket_settings.h"

static void texts_are_read(void **state)
{
    (void)state;
    struct net_socket_settings settings;
    struct base_error error = {0};
    assert_int_equal(net_socket_settings_parse("congestion=bbr,send-buffer=4Mi,recv-buffer=8Mi,notsent-lowat=128Ki,"
                                               "nodelay=off",
                                               &settings, &error),
                     BASE_OK);
    assert_string_equal(settings.congestion, "bbr");
    assert_int_equal(settings.send_buffer_bytes, 4 << 20);
    assert_int_equal(settings.recv_buffer_bytes, 8 << 20);
    assert_int_equal(settings.notsent_lowat_bytes, 128 << 10);
    assert_true(settings.nagle);

    char text[NET_SOCKET_TEXT_BYTES];
    struct net_socket_settings again;
    net_socket_settings_format(&settings, text);
    assert_int_equal(net_socket_settings_parse(text, &again, &error), BASE_OK);
    assert_true(net_socket_settings_equal(&settings, &again));
}

static void nothing_is_the_default(void **state)
{
    (void)state;
    const struct net_socket_settings zero = {0};
    struct net_socket_settings settings = {.nagle = true};
    struct base_error error = {0};
    char text[NET_SOCKET_TEXT_BYTES] = "?";
    assert_int_equal(net_socket_settings_parse("", &settings, &error), BASE_OK);
    assert_true(net_socket_settings_equal(&settings, &zero));
    net_socket_settings_format(&zero, text);
    assert_string_equal(text, "");
    assert_int_equal(net_socket_settings_parse("send-buffer=0,nodelay=on", &settings, &error), BASE_OK);
    assert_true(net_socket_settings_equal(&settings, &zero));
}

/* The longest text there can be fits. */
static void the_longest_text_fits(void **state)
{
    (void)state;
    const struct net_socket_settings settings = {.congestion = "abcdefghijklmno",
                                                 .send_buffer_bytes = NET_SOCKET_BUFFER_BYTES_MAX,
                                                 .recv_buffer_bytes = NET_SOCKET_BUFFER_BYTES_MAX,
                                                 .notsent_lowat_bytes = NET_SOCKET_BUFFER_BYTES_MAX,
                                                 .nagle = true};
    struct net_socket_settings again;
    struct base_error error = {0};
    char text[NET_SOCKET_TEXT_BYTES];
    net_socket_settings_format(&settings, text);
    assert_int_equal(net_socket_settings_parse(text, &again, &error), BASE_OK);
    assert_true(net_socket_settings_equal(&settings, &again));
}

static void wrong_texts_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"cubic", "\"cubic\" is no socket setting"},
        {",", "is no socket setting"},
        {"congestion=", "congestion= is no name"},
        {"congestion=abcdefghijklmnop", "is no name"},
        {"congestion=a/b", "is no name"},
        {"congestion=bbr,congestion=reno", "congestion is given twice"},
        {"send-buffer=4Ki,send-buffer=0", "send-buffer is given twice"},
        {"send-buffer=much", "send-buffer=much is not a number up to 536870912"},
        {"send-buffer=99999999999999999999", "99999999999999999999 is not a number up to"},
        {"send-buffer=4095", "send-buffer=4095 is out of range"},
        {"recv-buffer=1Gi", "recv-buffer=1Gi is out of range"},
        {"nodelay=yes", "nodelay=yes is not understood: choose on or off"},
        {"mtu=9000", "no socket setting \"mtu\": choose of congestion, send-buffer"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct net_socket_settings settings = {.send_buffer_bytes = 7};
        struct base_error error = {0};
        assert_int_equal(net_socket_settings_parse(wrong[i].text, &settings, &error), BASE_INVALID);
        if (!strstr(error.text, wrong[i].words))
            fail_msg("%s: %s", wrong[i].text, error.text);
        assert_int_equal(settings.send_buffer_bytes, 7); /* unchanged */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_read), cmocka_unit_test(nothing_is_the_default),
                                       cmocka_unit_test(the_longest_text_fits),
                                       cmocka_unit_test(wrong_texts_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
