/* Where daemons may listen: with a key anywhere, without one nowhere unless whoever starts them opens it to all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/link/listen_policy.h"

static struct base_error error;

static struct net_address address_of(const char *text)
{
    struct net_address address;
    assert_int_equal(net_address_parse(text, &address, &error), BASE_OK);
    return address;
}

static enum base_status allowed(const char *text, bool has_key, bool open_to_all)
{
    const struct net_address address = address_of(text);
    error.text[0] = '\0';
    return cluster_listen_allowed(&address, has_key, open_to_all, &error);
}

static void test_a_key_allows_every_address(void **state)
{
    (void)state;
    assert_int_equal(allowed("127.0.0.1:7400", true, false), BASE_OK);
    assert_int_equal(allowed("192.0.2.1:7400", true, false), BASE_OK);
    assert_int_equal(allowed("[::]:7400", true, false), BASE_OK);
}

static void test_without_a_key_nobody_listens_unasked(void **state)
{
    (void)state;
    assert_int_equal(allowed("127.0.0.1:7400", false, false), BASE_DENIED);
    assert_non_null(strstr(error.text, "key"));
    assert_int_equal(allowed("192.0.2.1:7400", false, false), BASE_DENIED);
}

static void test_open_to_all_is_for_loopback(void **state)
{
    (void)state;
    assert_int_equal(allowed("127.0.0.1:7400", false, true), BASE_OK);
    assert_int_equal(allowed("[::1]:7400", false, true), BASE_OK);
    assert_int_equal(allowed("192.0.2.1:7400", false, true), BASE_DENIED);
    assert_int_equal(allowed("0.0.0.0:7400", false, true), BASE_DENIED); /* these tests run in no cluster's namespace */
}

static void test_others_do_not_reach_a_wildcard(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
    } cases[] = {
        {"0.0.0.0:1", BASE_INVALID}, {"[::]:1", BASE_INVALID}, {"192.0.2.1:1", BASE_OK}, {"127.0.0.1:1", BASE_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct net_address address = address_of(cases[i].text);
        assert_int_equal(cluster_listen_reachable(&address, &error), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_allows_every_address),
        cmocka_unit_test(test_without_a_key_nobody_listens_unasked),
        cmocka_unit_test(test_open_to_all_is_for_loopback),
        cmocka_unit_test(test_others_do_not_reach_a_wildcard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
