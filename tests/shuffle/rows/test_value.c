#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "shuffle/rows/value.h"

static struct shuffle_field field_of(const char *type)
{
    struct shuffle_field field = {0};
    assert_int_equal(shuffle_field_parse_type(type, &field, NULL), BASE_OK);
    return field;
}

static struct shuffle_slot slot_of(const struct shuffle_field *field)
{
    return (struct shuffle_slot){.type = field->type, .width = field->width, .scale = field->scale};
}

/* type, text, and what the value's text is; NULL: refused. */
static const struct {
    const char *type, *text, *canonical;
} cases[] = {
    {"bool", "true", "true"},
    {"bool", "F", "false"},
    {"bool", "1", "true"},
    {"bool", "yes", NULL},
    {"bool", "", NULL},
    {"int8", "-128", "-128"},
    {"int8", "127", "127"},
    {"int8", "+5", "5"},
    {"int8", "-129", NULL},
    {"int8", "128", NULL},
    {"int8", "007", "7"},
    {"int16", "-32768", "-32768"},
    {"int16", "32768", NULL},
    {"int32", "2147483647", "2147483647"},
    {"int32", "2147483648", NULL},
    {"int32", "-2147483648", "-2147483648"},
    {"int64", "-9223372036854775808", "-9223372036854775808"},
    {"int64", "9223372036854775807", "9223372036854775807"},
    {"int64", "9223372036854775808", NULL},
    {"int64", "-9223372036854775809", NULL},
    {"int64", "99999999999999999999999", NULL},
    {"int64", "-0", "0"},
    {"int64", "", NULL},
    {"int64", "-", NULL},
    {"int64", "1 ", NULL},
    {"int64", " 1", NULL},
    {"int64", "1.0", NULL},
    {"int64", "0x10", NULL},
    {"uint8", "255", "255"},
    {"uint8", "256", NULL},
    {"uint8", "-1", NULL},
    {"uint8", "-0", "0"},
    {"uint32", "4294967295", "4294967295"},
    {"uint64", "18446744073709551615", "18446744073709551615"},
    {"uint64", "18446744073709551616", NULL},
    {"float64", "0.1", "0.1"},
    {"float64", "-0.0", "-0"},
    {"float64", "-0", "-0"},
    {"float64", "1e3", "1000"},
    {"float64", "1E+3", "1000"},
    {"float64", ".5", "0.5"},
    {"float64", "5.", "5"},
    {"float64", "123456789012345678", "1.2345678901234568e+17"},
    {"float64", "0.30000000000000004", "0.30000000000000004"},
    {"float64", "1.7976931348623157e308", "1.7976931348623157e+308"},
    {"float64", "1e400", NULL},
    {"float64", "1e-400", NULL},
    {"float64", "0e999999999", "0"},
    {"float64", "inf", "Infinity"},
    {"float64", "-Infinity", "-Infinity"},
    {"float64", "NaN", "NaN"},
    {"float64", ".", NULL},
    {"float64", "e5", NULL},
    {"float64", "1e", NULL},
    {"float64", "1e+", NULL},
    {"float64", "0x1p3", NULL},
    {"float64", "1,5", NULL},
    {"float64", "1.2.3", NULL},
    {"float64", "nan(1)", NULL},
    {"float32", "0.1", "0.1"},
    {"float32", "16777217", "16777216"},
    {"float32", "3.4028235e38", "3.4028235e+38"},
    {"float32", "3.5e38", NULL},
    {"float32", "-0", "-0"},
    {"decimal(12,2)", "1.5", "1.50"},
    {"decimal(12,2)", "-1.500", "-1.50"},
    {"decimal(12,2)", "1.505", NULL},
    {"decimal(12,2)", "0", "0.00"},
    {"decimal(12,2)", "-.05", "-0.05"},
    {"decimal(12,2)", "5.", "5.00"},
    {"decimal(12,2)", "9999999999.99", "9999999999.99"},
    {"decimal(12,2)", "10000000000", NULL},
    {"decimal(12,2)", "0000000000000000000000000000000000000000000001", "1.00"},
    {"decimal(12,2)", "1e2", NULL},
    {"decimal(12,2)", ".", NULL},
    {"decimal(12,2)", "", NULL},
    {"decimal(38,0)", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
    {"decimal(38,0)", "-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"},
    {"decimal(38,0)", "100000000000000000000000000000000000000", NULL},
    {"decimal(38,38)", "0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"},
    {"decimal(38,38)", "1", NULL},
    {"date", "1970-01-01", "1970-01-01"},
    {"date", "2024-02-29", "2024-02-29"},
    {"date", "2023-02-29", NULL},
    {"date", "1900-02-29", NULL},
    {"date", "2000-02-29", "2000-02-29"},
    {"date", "0000-01-01", "0000-01-01"},
    {"date", "9999-12-31", "9999-12-31"},
    {"date", "+12000-06-30", "+12000-06-30"},
    {"date", "-0044-03-15", "-0044-03-15"},
    {"date", "12000-06-30", NULL},
    {"date", "2024-13-01", NULL},
    {"date", "2024-00-01", NULL},
    {"date", "2024-1-1", NULL},
    {"date", "2024-01-32", NULL},
    {"date", "2024-01-01 ", NULL},
    {"date", "+99999999-01-01", NULL},
    {"date", "", NULL},
    {"timestamp", "1970-01-01 00:00:00", "1970-01-01 00:00:00"},
    {"timestamp", "1969-12-31T23:59:59.999999", "1969-12-31 23:59:59.999999"},
    {"timestamp", "2026-07-31 13:45", "2026-07-31 13:45:00"},
    {"timestamp", "2026-07-31 13:45:06.5", "2026-07-31 13:45:06.5"},
    {"timestamp", "2026-07-31", "2026-07-31 00:00:00"},
    {"timestamp", "2026-07-31 24:00:00", NULL},
    {"timestamp", "2026-07-31 13:60:00", NULL},
    {"timestamp", "2026-07-31 13:45:06.1234567", NULL},
    {"timestamp", "2026-07-31 13:45:06Z", NULL},
    {"timestamp", "2026-07-31 13:45:06+02", NULL},
    {"timestamp", "2026-07-31 13", NULL},
    {"timestamp", "2026-07-31 ", NULL},
    {"timestamp", "+300000-01-01", NULL},
    {"binary(3)", "\\x00fF10", "\\x00ff10"},
    {"binary(3)", "\\x00ff", NULL},
    {"binary(3)", "\\x00ff1g", NULL},
    {"binary(3)", "00ff10aa", NULL},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct shuffle_field field = field_of(cases[i].type);
        const struct shuffle_slot slot = slot_of(&field);
        uint8_t value[32] = {0}, again[32] = {0}, text[128];
        const char *words = shuffle_value_parse(&field, (const uint8_t *)cases[i].text, strlen(cases[i].text), value);
        if (!words != !!cases[i].canonical)
            fail_msg("%s \"%s\": %s", cases[i].type, cases[i].text, words ? words : "was taken");
        if (words)
            continue;
        const size_t bytes = shuffle_value_format(&slot, value, field.width, text);
        assert_true(bytes <= shuffle_value_text_bound(field.type, field.width));
        text[bytes] = '\0';
        assert_string_equal((const char *)text, cases[i].canonical);
        assert_null(shuffle_value_parse(&field, text, bytes, again));
        assert_memory_equal(value, again, field.width);
    }
}

/* Any bits of any type are written as text that reads back as the same bits (NaN: as NaN). */
static void test_random_round_trip(void **state)
{
    (void)state;
    static const char *const types[] = {"int8",   "int16",   "int32", "int64",     "uint8",   "uint16",   "uint32",
                                        "uint64", "float32", "date",  "timestamp", "float64", "binary(7)"};
    struct base_random random;
    base_random_seed(&random, 3);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct shuffle_field field = field_of(types[t]);
        const struct shuffle_slot slot = slot_of(&field);
        for (int i = 0; i < 30000; i++) {
            uint8_t value[8], again[8], text[128];
            uint64_t bits = base_random_next(&random);
            bits = i % 3 == 0 ? bits >> base_random_below(&random, 64) : i % 3 == 1 ? 0 - (bits >> 40) : bits;
            memcpy(value, &bits, sizeof value);
            const size_t bytes = shuffle_value_format(&slot, value, field.width, text);
            assert_true(bytes <= shuffle_value_text_bound(field.type, field.width));
            const char *words = shuffle_value_parse(&field, text, bytes, again);
            if (words)
                fail_msg("%s %.*s %s", types[t], (int)bytes, text, words);
            if (memcmp(text, "NaN", 3) != 0)
                assert_memory_equal(value, again, field.width);
        }
    }
}

/* The short way to a double agrees with strtod. */
static void test_floats_like_strtod(void **state)
{
    (void)state;
    const struct shuffle_field field = field_of("float64"), narrow = field_of("float32");
    struct base_random random;
    base_random_seed(&random, 4);
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double expected, value;
        float expected_narrow, value_narrow;
        int bytes = 0;
        for (uint64_t n = 1 + base_random_below(&random, 18); n > 0; n--)
            text[bytes++] = (char)('0' + base_random_below(&random, 10));
        text[bytes++] = '.';
        for (uint64_t n = base_random_below(&random, 12); n > 0; n--)
            text[bytes++] = (char)('0' + base_random_below(&random, 10));
        if (base_random_chance(&random, 1, 2)) {
            text[bytes++] = 'e';
            text[bytes++] = base_random_chance(&random, 1, 2) ? '-' : '+';
            text[bytes++] = (char)('0' + base_random_below(&random, 3));
            text[bytes++] = (char)('0' + base_random_below(&random, 10));
        }
        text[bytes] = '\0';
        expected = strtod(text, NULL);
        assert_null(shuffle_value_parse(&field, (uint8_t *)text, (size_t)bytes, (uint8_t *)&value));
        assert_memory_equal(&value, &expected, sizeof value);
        expected_narrow = strtof(text, NULL);
        if (!shuffle_value_parse(&narrow, (uint8_t *)text, (size_t)bytes, (uint8_t *)&value_narrow))
            assert_memory_equal(&value_narrow, &expected_narrow, sizeof value_narrow);
    }
}

/* Random spellings of numbers: what is said to be kept is written as the same text. */
static void test_kept_texts(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 20261201);
    const struct shuffle_field field = field_of("float64");
    const struct shuffle_slot slot = slot_of(&field);
    int kept = 0;
    for (int i = 0; i < 300000; i++) {
        static const char letters[] = "0012345.9-";
        uint8_t text[24], value[8], written[SHUFFLE_VALUE_TEXT_MAX];
        const size_t bytes = 1 + base_random_below(&random, sizeof text);
        for (size_t b = 0; b < bytes; b++)
            text[b] = (uint8_t)letters[base_random_below(&random, b == 0 ? 10 : 9)];
        if (shuffle_value_parse(&field, text, bytes, value))
            continue;
        const size_t length = shuffle_value_format(&slot, value, 8, written);
        const bool same = length == bytes && memcmp(written, text, bytes) == 0;
        const bool zero = bytes == 2 && memcmp(text, "-0", 2) == 0;
        if (shuffle_value_kept(&field, text, bytes, value) != (same && !zero))
            fail_msg("%.*s is written %.*s", (int)bytes, (const char *)text, (int)length, (const char *)written);
        kept += same;
    }
    assert_true(kept > 10000);
}

static void test_every_day(void **state)
{
    (void)state;
    const struct shuffle_field field = field_of("date");
    const struct shuffle_slot slot = slot_of(&field);
    uint8_t text[64], value[4];
    int year = 1200, month = 1, day = 1; /* counted on by hand, from a day that is known */
    assert_null(shuffle_value_parse(&field, (const uint8_t *)"1200-01-01", 10, value));
    int32_t days = (int32_t)base_load_u32(value);
    assert_int_equal(days, -281237);
    for (; year < 2500; days++) {
        char expected[64];
        snprintf(expected, sizeof expected, "%04d-%02d-%02d", year, month, day);
        base_store_u32(value, (uint32_t)days);
        const size_t bytes = shuffle_value_format(&slot, value, 4, text);
        text[bytes] = '\0';
        assert_string_equal((const char *)text, expected);
        static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        const bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if (++day > length[month - 1] + leap) {
            day = 1;
            month = month % 12 + 1;
            year += month == 1;
        }
    }
}

static void test_quote(void **state)
{
    (void)state;
    char text[SHUFFLE_QUOTE_BYTES];
    assert_string_equal(shuffle_value_quote((const uint8_t *)"a\0b\n\xff\xc3\xa4", 7, text),
                        "a\\x00b\\x0a\\xff\xc3\xa4");
    uint8_t large[1000];
    memset(large, 0xff, sizeof large);
    shuffle_value_quote(large, sizeof large, text);
    assert_int_equal(strlen(text), 163);
    assert_string_equal(text + 160, "...");
    assert_string_equal(shuffle_value_quote(large, 0, text), "");
    assert_string_equal(shuffle_value_quote((const uint8_t *)"\xe2\x82", 2, text), "\\xe2\\x82");
}

/* The digits and the exponent of a number make up for each other, also when both are enormous. */
static void test_enormous_exponents(void **state)
{
    (void)state;
    enum { ZEROS = 100000 };
    const struct shuffle_field field = {.type = SHUFFLE_FLOAT64, .width = 8};
    char *text = malloc(ZEROS + 32);
    assert_non_null(text);
    memset(text, '0', ZEROS + 2);
    text[1] = '.';
    double value = 0;
    strcpy(text + ZEROS + 2, "1e100001");
    assert_null(shuffle_value_parse(&field, (const uint8_t *)text, strlen(text), (uint8_t *)&value));
    assert_true(value == 1);
    strcpy(text + ZEROS + 2, "1e1000000");
    const char *words = shuffle_value_parse(&field, (const uint8_t *)text, strlen(text), (uint8_t *)&value);
    assert_non_null(words);
    assert_non_null(strstr(words, "out of range"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_random_round_trip),
        cmocka_unit_test(test_floats_like_strtod),
        cmocka_unit_test(test_kept_texts),
        cmocka_unit_test(test_every_day),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_enormous_exponents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
