#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "join/plan.h"

/* A generated relation with a schema of our choice stands for any source: planning looks at schemas and sizes only. */
static struct shuffle_relation relation(const char *schema, uint64_t rows)
{
    struct shuffle_relation made = {.placement = SHUFFLE_GENERATED, .generator = {.rows = rows, .row_bytes = 16}};
    struct base_error error = {0};
    assert_int_equal(shuffle_schema_parse(schema, &made.schema, &error), BASE_OK);
    return made;
}

static enum base_status plan(const char *left, const char *right, const struct join_request *request,
                             struct join_plan *made, struct base_error *error)
{
    struct shuffle_relation sides[2] = {relation(left, 1000)};
    if (request->kind == JOIN_JOB_JOIN)
        sides[1] = relation(right, 10);
    memset(error, 0, sizeof *error);
    return join_plan_make(request, sides, made, error);
}

static void expect_error(const char *on, const char *select, enum base_status status, const char *words)
{
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .on = on, .select = select};
    assert_int_equal(plan("id:int64,name:string?", "id:int32,label:string", &request, &made, &error), status);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_all_columns_and_smaller_side(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .on = "id=id"};
    assert_int_equal(plan("id:int64,name:string?", "id:int32,label:string", &request, &made, &error), BASE_OK);
    assert_int_equal(made.build, 1);
    assert_int_equal(join_plan_pass_side(&made, 1), 0);
    char *result = shuffle_schema_format(&made.result);
    assert_string_equal(result, "id:int64,name:string?,right.id:int32,label:string");
    free(result);
    assert_int_equal(made.side[0].key.part[0].class, SHUFFLE_KEY_INTEGER);
    assert_false(made.side[0].key_nullable);
    join_plan_free(&made);
}

static void test_only_what_is_needed_travels(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .on = "c=\"x,y\"", .select = "right.b,left.c"};
    assert_int_equal(plan("a:int64,b:int64,c:string?", "b:float64,\"x,y\":string", &request, &made, &error), BASE_OK);
    assert_int_equal(made.side[0].project_count, 1);
    assert_int_equal(made.side[0].project[0], 2);
    assert_true(made.side[0].key_nullable);
    assert_int_equal(made.side[1].project_count, 2);
    assert_int_equal(made.item[0].side, 1);
    assert_int_equal(made.item[0].column, 1); /* the key was projected first */
    assert_int_equal(made.item[1].side, 0);
    join_plan_free(&made);
}

static void expect_result(const char *select, const char *schema)
{
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .on = "id=id", .select = select};
    assert_int_equal(plan("id:int64,v:string", "id:int32,v:float64,w:bool", &request, &made, &error), BASE_OK);
    char *result = shuffle_schema_format(&made.result);
    assert_string_equal(result, schema);
    free(result);
    join_plan_free(&made);
}

static void test_the_right_one_of_two_equal_names_is_renamed(void **state)
{
    (void)state;
    expect_result("left.v,right.v", "v:string,right.v:float64");
    expect_result("right.v,left.v", "right.v:float64,v:string");
    expect_result("right.id,w,right.v,left.id,left.v", "right.id:int32,w:bool,right.v:float64,id:int64,v:string");
    expect_result("right.v,right.v,left.v", "right.v:float64,right.v.2:float64,v:string");
    expect_result("left.v,left.v", "v:string,left.v:string");
    expect_result("right.v", "v:float64");
}

static void test_rows_that_could_not_be_read_back_are_refused(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    struct join_request request = {
        .kind = JOIN_JOB_SHUFFLE, .on = "id", .out = "/somewhere", .output = SHUFFLE_OUTPUT_CSV, .select = "id,p"};
    assert_int_equal(plan("id:int64,p:binary(8388602)", NULL, &request, &made, &error), BASE_OK);
    join_plan_free(&made);
    assert_int_equal(plan("id:int64,p:binary(8388608)", NULL, &request, &made, &error), BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "16777216 bytes"));
    assert_non_null(strstr(error.text, "--select"));
    request.output = SHUFFLE_OUTPUT_FIXED;
    assert_int_equal(plan("id:int64,p:binary(8388608)", NULL, &request, &made, &error), BASE_OK);
    join_plan_free(&made);
    request.select = "p,p";
    assert_int_equal(plan("id:int64,p:binary(8388609)", NULL, &request, &made, &error), BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "16777216 bytes"));
    request = (struct join_request){.kind = JOIN_JOB_SHUFFLE, .on = "id"}; /* counted only, but too wide to travel */
    assert_int_equal(plan("id:int64,p:binary(16777216)", NULL, &request, &made, &error), BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "16777216 bytes"));
}

static void test_composite_keys(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .on = "id=id,name=label"};
    assert_int_equal(plan("id:int64,name:string?", "id:int32,label:string", &request, &made, &error), BASE_OK);
    assert_int_equal(made.side[1].key.count, 2);
    assert_int_equal(made.side[1].key.part[1].class, SHUFFLE_KEY_BYTES);
    join_plan_free(&made);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    expect_error("id=nope", NULL, BASE_NOT_FOUND, "the right input has no column \"nope\"; its columns are id, label");
    expect_error("id=id", "nope", BASE_NOT_FOUND, "the left one are id, name; of the right one id, label");
    expect_error("id", NULL, BASE_INVALID, "no '=' after \"id\": write id=id if both columns have that name");
    expect_error("id=id,name", NULL, BASE_INVALID, "no '=' after \"name\": write name=name");
    expect_error("", NULL, BASE_INVALID, "--on");
    expect_error("id=", NULL, BASE_INVALID, "missing at the end");
    expect_error("\"id=id", NULL, BASE_INVALID, "never closed");
    expect_error("id=label", NULL, BASE_TYPE, "label");
    expect_error("id=id", "id", BASE_INVALID, "left.id or right.id");
    expect_error("id=id", "left.none", BASE_NOT_FOUND, "none");
    expect_error("id=id", "name,", BASE_INVALID, "missing at the end");
}

/* What the type of join makes of the result's columns. */
static void expect_typed(enum join_type type, const char *select, const char *schema)
{
    struct join_plan made;
    struct base_error error;
    const struct join_request request = {.kind = JOIN_JOB_JOIN, .type = type, .on = "id=id", .select = select};
    assert_int_equal(plan("id:int64,v:string?", "id:int32,w:bool", &request, &made, &error), BASE_OK);
    char *result = shuffle_schema_format(&made.result);
    assert_string_equal(result, schema);
    free(result);
    for (uint32_t i = 0; i < made.side[1].project_count; i++)
        assert_true(join_type_pairs(type) || made.side[1].project[i] == 0); /* the key alone travels */
    join_plan_free(&made);
}

static void test_types_and_their_columns(void **state)
{
    (void)state;
    expect_typed(JOIN_TYPE_INNER, NULL, "id:int64,v:string?,right.id:int32,w:bool");
    expect_typed(JOIN_TYPE_LEFT, NULL, "id:int64,v:string?,right.id:int32?,w:bool?");
    expect_typed(JOIN_TYPE_RIGHT, "w,left.id", "w:bool,id:int64?");
    expect_typed(JOIN_TYPE_FULL, "w,left.id", "w:bool?,id:int64?");
    expect_typed(JOIN_TYPE_SEMI, NULL, "id:int64,v:string?");
    expect_typed(JOIN_TYPE_ANTI, "id", "id:int64"); /* there is one side to take it from */
}

static void expect_refused(struct join_request request, const char *on, const char *words)
{
    struct join_plan made;
    struct base_error error;
    request.kind = JOIN_JOB_JOIN;
    request.on = on;
    assert_int_not_equal(plan("id:int64?,name:string?", "id:int32,label:string", &request, &made, &error), BASE_OK);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_types_and_what_they_refuse(void **state)
{
    (void)state;
    expect_refused((struct join_request){.type = JOIN_TYPE_SEMI, .select = "id,label"}, "id=id", "left side only");
    expect_refused((struct join_request){.type = JOIN_TYPE_ANTI, .select = "right.id"}, "id=id", "--type=anti");
    expect_refused((struct join_request){.type = JOIN_TYPE_ANTI, .select = "nope"}, "id=id", "no input has a column");
    expect_refused((struct join_request){.type = JOIN_TYPE_LEFT, .null_aware = true}, "id=id", "no such rule");
    expect_refused((struct join_request){.type = JOIN_TYPE_ANTI, .null_aware = true, .null_equal = true}, "id=id",
                   "contradict");
    expect_refused((struct join_request){.type = JOIN_TYPE_ANTI, .null_aware = true}, "id=id,name=label",
                   "one pair of columns");
}

static void test_rules_for_nulls(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    struct join_request request = {.kind = JOIN_JOB_JOIN, .on = "id=id", .null_equal = true};
    assert_int_equal(plan("id:int64", "id:int32?", &request, &made, &error), BASE_OK);
    assert_true(made.null_equal && made.side[0].key.null_equal && made.side[1].key.null_equal);
    join_plan_free(&made);
    assert_int_equal(plan("id:int64", "id:int32,v:string?", &request, &made, &error), BASE_OK);
    assert_false(made.null_equal || made.side[0].key.null_equal); /* no key can be NULL */
    join_plan_free(&made);
    request = (struct join_request){.kind = JOIN_JOB_JOIN, .on = "id=id", .type = JOIN_TYPE_ANTI};
    struct shuffle_relation sides[2] = {relation("id:int64?", 10), relation("id:int64?", 1000)};
    assert_int_equal(join_plan_make(&request, sides, &made, &error), BASE_OK);
    assert_int_equal(made.build, 0);
    join_plan_free(&made);
    request.null_aware = true;
    sides[0] = relation("id:int64?", 10);
    sides[1] = relation("id:int64?", 1000);
    assert_int_equal(join_plan_make(&request, sides, &made, &error), BASE_OK);
    assert_int_equal(made.build, 1); /* what is there decides, whatever it costs */
    join_plan_free(&made);
}

static void test_shuffle_has_one_side(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    struct join_request request = {.kind = JOIN_JOB_SHUFFLE, .on = "name,id", .into_table = true};
    assert_int_equal(plan("id:int64,name:string?", NULL, &request, &made, &error), BASE_OK);
    assert_int_equal(made.sides, 1);
    assert_int_equal(made.build, 0);
    assert_int_equal(made.side[0].key.count, 2);
    join_plan_free(&made);
    request.out = "somewhere";
    assert_int_equal(plan("id:int64,name:string?", NULL, &request, &made, &error), BASE_INVALID);
}

static void test_sizes_of_relations(void **state)
{
    (void)state;
    struct shuffle_relation vast = relation("key:int64,payload:binary(8)", SHUFFLE_GENERATED_ROWS_MAX);
    vast.generator.row_bytes = SHUFFLE_ROW_BYTES_MAX; /* 2^72 bytes */
    assert_true(join_plan_relation_bytes(&vast) == UINT64_MAX);
    assert_true(join_plan_relation_rows(&vast) == SHUFFLE_GENERATED_ROWS_MAX);
    shuffle_relation_free(&vast);
    struct shuffle_file file = {.bytes = UINT64_C(1000) * (8 + 2 + 1)};
    struct shuffle_relation fixed = relation("a:int64,b:int16?", 0);
    fixed.placement = SHUFFLE_SHARED;
    fixed.format = SHUFFLE_FORMAT_FIXED;
    fixed.file = &file;
    fixed.file_count = 1;
    assert_int_equal(join_plan_relation_rows(&fixed), 1000);
    assert_true(join_plan_rows_exact(&fixed));
    file.packing = SHUFFLE_PACKING_ZSTD;
    assert_false(join_plan_rows_exact(&fixed));
    struct shuffle_file vast_files[3] = {{.bytes = INT64_MAX}, {.bytes = INT64_MAX}, {.bytes = 3}};
    fixed.file = vast_files;
    fixed.file_count = 3;
    assert_true(join_plan_relation_bytes(&fixed) == UINT64_MAX);
    shuffle_schema_free(&fixed.schema);
}

static void test_fixed_output_has_no_room_for_strings(void **state)
{
    (void)state;
    struct join_plan made;
    struct base_error error;
    struct join_request request = {
        .kind = JOIN_JOB_SHUFFLE, .on = "id", .out = "somewhere", .output = SHUFFLE_OUTPUT_FIXED};
    assert_int_equal(plan("id:int64,name:string?", NULL, &request, &made, &error), BASE_TYPE);
    assert_non_null(strstr(error.text, "\"name\" is a string?"));
    request.select = "id,id";
    assert_int_equal(plan("id:int64,name:string?", NULL, &request, &made, &error), BASE_OK);
    assert_string_equal(made.result.field[1].name, "in.id");
    join_plan_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_columns_and_smaller_side),
        cmocka_unit_test(test_only_what_is_needed_travels),
        cmocka_unit_test(test_the_right_one_of_two_equal_names_is_renamed),
        cmocka_unit_test(test_rows_that_could_not_be_read_back_are_refused),
        cmocka_unit_test(test_composite_keys),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_types_and_their_columns),
        cmocka_unit_test(test_types_and_what_they_refuse),
        cmocka_unit_test(test_rules_for_nulls),
        cmocka_unit_test(test_shuffle_has_one_side),
        cmocka_unit_test(test_fixed_output_has_no_room_for_strings),
        cmocka_unit_test(test_sizes_of_relations),
    };
    return cmocka_run_group_tests_name("join.plan", tests, NULL, NULL);
}
