/* Addresses as text, and listening sockets. */
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/engine/engine.h"

static void addresses_survive_a_round_trip(void **state)
{
    (void)state;
    const char *texts[] = {"10.0.0.1:7400", "127.0.0.1:0", "255.255.255.255:65535", "[::1]:7400", "[2001:db8::17]:1"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct net_address address;
        struct base_error error;
        char back[64];
        assert_int_equal(net_address_parse(texts[i], &address, &error), BASE_OK);
        assert_int_equal(address.bytes, texts[i][0] == '[' ? sizeof address.v6 : sizeof address.v4);
        net_address_format(&address, back);
        assert_string_equal(back, texts[i]);
    }
}

static void a_name_resolves(void **state)
{
    (void)state;
    struct net_address address;
    struct base_error error;
    struct addrinfo *found;

    if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
        skip(); /* a minimal root without /etc/hosts */
    freeaddrinfo(found);
    assert_int_equal(net_address_parse("localhost:7400", &address, &error), BASE_OK);
    assert_true(address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6);
}

static void nonsense_is_refused_in_words(void **state)
{
    (void)state;
    const char *texts[] = {"",
                           ":",
                           "host",
                           "host:",
                           ":7400",
                           "[::1]",
                           "[::1]7400",
                           "[]:7400",
                           "::1:7400",
                           "a:b:7400",
                           "host:http",
                           "host:65536",
                           "host:-1",
                           "host: 1",
                           "host:1x",
                           "[::1:7400",
                           "]:1",
                           "[:1",
                           "host:99999999999999999999"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct net_address address = {.bytes = 77};
        struct base_error error = {0};
        if (net_address_parse(texts[i], &address, &error) != BASE_INVALID)
            fail_msg("\"%s\" was taken", texts[i]);
        assert_non_null(strstr(error.text, "address"));
        assert_int_equal(address.bytes, 77); /* outputs are set only on success */
    }
}

static void a_long_host_is_refused(void **state)
{
    (void)state;
    char text[2000];
    struct net_address address;
    struct base_error error = {0};

    memset(text, 'h', sizeof text);
    strcpy(text + sizeof text - 4, ":12");
    assert_int_equal(net_address_parse(text, &address, &error), BASE_INVALID);
}

static void listening_twice_names_the_cause(void **state)
{
    (void)state;
    struct net_address any, bound, again;
    struct base_error error = {0};
    int fd, second = -1;

    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 16, &fd, &bound, &error), BASE_OK);
    assert_int_not_equal(bound.v4.sin_port, 0);
    assert_int_not_equal(net_listen(&bound, 16, &second, &again, &error), BASE_OK);
    assert_int_equal(second, -1);
    assert_non_null(strstr(error.text, "another program has the port"));
    close(fd);
    assert_int_equal(net_listen(&bound, 16, &fd, &again, &error), BASE_OK);
    close(fd);

    assert_int_equal(net_address_parse("192.0.2.1:0", &any, &error), BASE_OK);
    assert_int_not_equal(net_listen(&any, 16, &fd, &bound, &error), BASE_OK);
    assert_non_null(strstr(error.text, "no interface"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_survive_a_round_trip),  cmocka_unit_test(a_name_resolves),
        cmocka_unit_test(nonsense_is_refused_in_words),    cmocka_unit_test(a_long_host_is_refused),
        cmocka_unit_test(listening_twice_names_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
