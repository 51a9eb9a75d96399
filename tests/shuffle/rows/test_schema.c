#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shuffle/rows/schema.h"

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "id:int64",
        "id:int64,name:string?,price:decimal(12,2)",
        ("a:bool,b:int8?,c:int16,d:int32,e:uint8,f:uint16,g:uint32,h:uint64,i:float32?,j:float64,k:date,l:timestamp?,"
         "m:string,n:binary?,o:binary(16),p:decimal(38,38)?"),
        "\"a,b\":int64,\"c:d\":int8,\"e\"\"f\":date,\" g \":bool",
        "with blank:int64,\xc3\xa4:string",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct base_error error = {0};
        struct shuffle_schema schema, copy;
        assert_int_equal(shuffle_schema_parse(texts[i], &schema, &error), BASE_OK);
        char *text = shuffle_schema_format(&schema);
        assert_string_equal(text, texts[i]);
        assert_int_equal(shuffle_schema_copy(&schema, &copy, &error), BASE_OK);
        assert_true(shuffle_schema_equal(&schema, &copy));
        copy.field[0].nullable = !copy.field[0].nullable;
        assert_false(shuffle_schema_equal(&schema, &copy));
        free(text);
        shuffle_schema_free(&schema);
        shuffle_schema_free(&copy);
    }
}

static void test_lenient_blanks(void **state)
{
    (void)state;
    struct shuffle_schema schema;
    assert_int_equal(shuffle_schema_parse(" id : int64 , d: decimal( 12 , 2 ) ?", &schema, NULL), BASE_PARSE);
    assert_int_equal(shuffle_schema_parse(" id : int64 , d: decimal( 12 , 2 )? ", &schema, NULL), BASE_OK);
    char *text = shuffle_schema_format(&schema);
    assert_string_equal(text, "id:int64,d:decimal(12,2)?");
    free(text);
    shuffle_schema_free(&schema);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        enum base_status status;
    } cases[] = {
        {"", "a column name is missing", BASE_PARSE},
        {"id", "column \"id\" lacks its type: write name:type", BASE_PARSE},
        {"id:", "column \"id\": type \"\" is unknown", BASE_PARSE},
        {"id:int", "type \"int\" is unknown (did you mean \"int32\"?): it is one of bool", BASE_PARSE},
        {"id:int64,", "a column name is missing at the end", BASE_PARSE},
        {"id:int64??", "\"?\" after the type", BASE_PARSE},
        {"id:int64x", "is unknown", BASE_PARSE},
        {"a:int64,a:int8", "two columns named \"a\"", BASE_EXISTS},
        {"\"a:int64", "is not closed", BASE_PARSE},
        {"p:decimal", "decimal needs precision and scale", BASE_PARSE},
        {"p:decimal(39,2)", "1 to 38 digits", BASE_PARSE},
        {"p:decimal(4,5)", "no more of them after the point", BASE_PARSE},
        {"p:decimal(0,0)", "1 to 38 digits", BASE_PARSE},
        {"p:decimal(99999999999,2)", "decimal needs", BASE_PARSE},
        {"b:binary(0)", "1 to 16777216 bytes", BASE_PARSE},
        {"b:binary(16777217)", "1 to 16777216 bytes", BASE_PARSE},
        {"b:binary(x)", "number of bytes", BASE_PARSE},
        {"b:binary(1", "number of bytes", BASE_PARSE},
        {"b:string(4)", "after the type", BASE_PARSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_error error = {0};
        struct shuffle_schema schema = {.count = 77};
        assert_int_equal(shuffle_schema_parse(cases[i].text, &schema, &error), cases[i].status);
        assert_int_equal(schema.count, 77);
        if (!strstr(error.text, cases[i].words))
            fail_msg("\"%s\" gives: %s", cases[i].text, error.text);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct shuffle_schema schema = {0};
    for (int i = 0; i < SHUFFLE_COLUMNS_MAX; i++) {
        struct shuffle_field field = {.type = SHUFFLE_INT64, .width = 8};
        snprintf(field.name, sizeof field.name, "c%d", i);
        assert_int_equal(shuffle_schema_append(&schema, &field, &error), BASE_OK);
    }
    const struct shuffle_field field = {.name = "more", .type = SHUFFLE_INT64, .width = 8};
    assert_int_equal(shuffle_schema_append(&schema, &field, &error), BASE_TOO_LARGE);
    assert_int_equal(shuffle_schema_find(&schema, "c511"), 511);
    assert_int_equal(shuffle_schema_find(&schema, "C511"), -1);
    shuffle_schema_free(&schema);
    char text[2 * SHUFFLE_NAME_BYTES_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text + SHUFFLE_NAME_BYTES_MAX, ":int8", 6);
    assert_int_equal(shuffle_schema_parse(text, &schema, &error), BASE_OK);
    shuffle_schema_free(&schema);
    memcpy(text + SHUFFLE_NAME_BYTES_MAX, "x:int8", 7);
    assert_int_equal(shuffle_schema_parse(text, &schema, &error), BASE_TOO_LARGE);
}

static struct shuffle_layout layout_of(const char *text)
{
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    assert_int_equal(shuffle_schema_parse(text, &schema, NULL), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&schema, &layout, NULL), BASE_OK);
    shuffle_schema_free(&schema);
    return layout;
}

static void test_layout_fixed(void **state)
{
    (void)state;
    struct shuffle_layout layout = layout_of("a:int8,b:int64,c:binary(5),d:decimal(4,1)");
    assert_int_equal(layout.row_bytes, 30);
    assert_int_equal(layout.null_bytes, 0);
    assert_int_equal(layout.slot[1].offset, 1);
    assert_int_equal(layout.slot[3].offset, 14);
    assert_int_equal(layout.slot[3].scale, 1);
    assert_int_equal(layout.last_variable, -1);
    shuffle_layout_free(&layout);
    layout = layout_of("a:int8?,b:int8,c:int8?,d:int8?,e:int8?,f:int8?,g:int8?,h:int8?,i:int8?,j:int8?");
    assert_int_equal(layout.fixed_bytes, 10);
    assert_int_equal(layout.null_bytes, 2);
    assert_int_equal(layout.row_bytes, 12);
    assert_int_equal(layout.slot[1].null_bit, -1);
    assert_int_equal(layout.slot[9].null_bit, 8);
    shuffle_layout_free(&layout);
    struct base_error error = {0};
    struct shuffle_schema schema;
    assert_int_equal(shuffle_schema_parse("a:binary(16777216),b:int8", &schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&schema, &layout, &error), BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "\"b\""));
    shuffle_schema_free(&schema);
    assert_int_equal(shuffle_schema_parse("a:binary(16777216)?", &schema, &error),
                     BASE_OK); /* and a byte of null bits */
    assert_int_equal(shuffle_layout_prepare(&schema, &layout, &error), BASE_TOO_LARGE);
    shuffle_schema_free(&schema);
}

/* a:string, b:int8, c:binary? with values "xy", 7, "\1\2\3". */
static void test_row_check(void **state)
{
    (void)state;
    struct shuffle_layout layout = layout_of("a:string,b:int8,c:binary?");
    assert_int_equal(layout.row_bytes, 0);
    assert_int_equal(layout.last_variable, 2);
    uint8_t row[] = {2, 0, 0, 0, 7, 5, 0, 0, 0, 0, 'x', 'y', 1, 2, 3};
    uint32_t bytes;
    assert_int_equal(shuffle_row_bytes(&layout, row), sizeof row);
    assert_memory_equal(shuffle_row_value(&layout, row, 0, &bytes), "xy", 2);
    assert_int_equal(bytes, 2);
    assert_memory_equal(shuffle_row_value(&layout, row, 2, &bytes), "\1\2\3", 3);
    assert_int_equal(bytes, 3);
    assert_true(shuffle_row_check(&layout, row, sizeof row));
    assert_true(shuffle_row_check(&layout, row, sizeof row + 1));
    for (uint64_t cut = 0; cut < sizeof row; cut++)
        assert_false(shuffle_row_check(&layout, row, cut));
    row[0] = 6; /* a ends behind c */
    assert_false(shuffle_row_check(&layout, row, sizeof row));
    row[0] = 2;
    row[8] = 1; /* larger than a row may be */
    assert_false(shuffle_row_check(&layout, row, UINT64_MAX));
    shuffle_layout_free(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_lenient_blanks), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_layout_fixed),   cmocka_unit_test(test_row_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
