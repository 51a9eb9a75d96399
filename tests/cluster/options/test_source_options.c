/* What can be said of an input: of a join's two, of a shuffle's one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/options/options.h"
#include "tests/cluster/options/words.h"

static void words_describe_their_own_side(void **state)
{
    (void)state;
    const struct cluster_submit *submit =
        words_take("join --left /a.csv --right=local:/b/*.tsv --on a=b --left-schema id:int64 --right-delimiter ; "
                   "--right-quote ' --right-header no --right-empty-null no --right-quoted-empty-null yes "
                   "--left-format csv --left-incomplete yes");
    const struct cluster_source *left = &submit->source[0], *right = &submit->source[1];
    assert_string_equal(left->schema, "id:int64");
    assert_null(right->schema);
    assert_int_equal(left->format, CLUSTER_FORMAT_CSV);
    assert_int_equal(right->format, CLUSTER_FORMAT_BY_SUFFIX);
    assert_int_equal(left->incomplete, CLUSTER_CHOICE_YES);
    assert_int_equal(right->incomplete, CLUSTER_CHOICE_NO);
    assert_int_equal(left->header, CLUSTER_CHOICE_YES);
    assert_int_equal(right->header, CLUSTER_CHOICE_NO);
    assert_int_equal(left->delimiter, 0); /* goes by the name */
    assert_int_equal(right->delimiter, ';');
    assert_int_equal(left->quote, '"');
    assert_int_equal(right->quote, '\'');
    assert_int_equal(left->empty_is_null, CLUSTER_CHOICE_YES);
    assert_int_equal(right->empty_is_null, CLUSTER_CHOICE_NO);
    assert_int_equal(left->quoted_empty_is_null, CLUSTER_CHOICE_NO);
    assert_int_equal(right->quoted_empty_is_null, CLUSTER_CHOICE_YES);
    words_free();
}

static void words_stand_for_characters(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        char delimiter, quote;
    } cases[] = {{"--delimiter tab", '\t', '"'},
                 {"--delimiter \\t", '\t', '"'},
                 {"--delimiter |", '|', '"'},
                 {"--quote none", 0, SHUFFLE_CSV_NO_QUOTE},
                 {"--quote tab --delimiter ;", ';', '\t'}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[100];
        snprintf(line, sizeof line, "shuffle --in /a --by k %s", cases[i].line);
        const struct cluster_submit *submit = words_take(line);
        assert_int_equal(submit->source[0].delimiter, cases[i].delimiter);
        assert_int_equal(submit->source[0].quote, cases[i].quote);
        words_free();
    }
}

/* What the lower floor does with a CSV file of which nothing is said is what the table says. */
static void a_relation_is_by_itself_as_the_table_says(void **state)
{
    (void)state;
    struct shuffle_relation bare = {0}, told = {0};
    char *path = NULL;
    assert_int_equal(shuffle_relation_parse("/a.csv", &bare, &path, &words.error), BASE_OK);
    free(path);
    assert_int_equal(shuffle_relation_parse("/a.csv", &told, &path, &words.error), BASE_OK);
    free(path);
    assert_int_equal(words_parse("shuffle --in /a.csv --by k"), CLUSTER_ARGS_RUN);
    cluster_source_apply(&words.args.submit.source[0], &told);
    assert_memory_equal(&bare.csv, &told.csv, sizeof bare.csv);
    assert_int_equal(words.args.submit.output, SHUFFLE_OUTPUT_COUNT);
    assert_int_equal(words.args.submit.source[0].incomplete, CLUSTER_CHOICE_NO);
    words_free();
    shuffle_relation_free(&bare);
    shuffle_relation_free(&told);
}

static void texts_of_null_add_up(void **state)
{
    (void)state;
    assert_int_equal(words_parse("join --left /a --right /b --on a=b --left-null NA --left-null \\N --left-quote none"),
                     CLUSTER_ARGS_RUN);
    assert_string_equal(words.args.submit.source[0].null_texts, "NA\n\\N\n");
    assert_string_equal(words.args.submit.source[1].null_texts, "");
    assert_int_equal(words.args.submit.source[0].quote, SHUFFLE_CSV_NO_QUOTE);
    words_free();
    assert_int_equal(words_parse("join --left /a --right /b --on a=b --right-skip-bad-rows 2k"), CLUSTER_ARGS_RUN);
    assert_int_equal(words.args.submit.source[0].bad_rows_max, 0);
    assert_int_equal(words.args.submit.source[1].bad_rows_max, 2000);
    words_free();
    assert_int_not_equal(words_parse("shuffle --in /a --by k --skip-bad-rows some"), CLUSTER_ARGS_RUN);
    words_free();
    char line[512] = "shuffle --in /a --by k";
    for (int i = 0; i < 3; i++) {
        strcat(line, " --null ");
        memset(line + strlen(line), 'x', 100); /* the rest is zeros */
    }
    words_refuse(line, "at most 254 bytes");
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"join --left /a --right /b --on a=b --left-delimiter ::", "one ASCII character"},
        {"join --left /a --right /b --on a=b --left-delimiter \"", "the same character"},
        {"join --left /a --right /b --on a=b --left-header maybe", "yes, no"},
        {"join --left /a --right /b --on a=b --right-schema id:int65", "--right-schema"},
        {"join --left gen:rows=x --right /b --on a=b", "--left: gen: rows=x"},
        {"join --left gen:rows=1 --right /b --on key=b --left-schema a:int8", "is generated"},
        {"shuffle --in /a --by k --schema k:int8 --schema k:int9", "--schema is given twice"},
        {"shuffle --in /a --by k --schema k:int65", "--schema: "},
        {"shuffle --in /a --by k --header maybe", "--header=maybe"},
        {"shuffle --in gen:rows=1 --by key --null=NA", "is generated"},
        {"shuffle --in gen:rows=1 --by key --quote=none", "is generated"},
        {"join --left gen:rows=1 --right gen:rows=1 --on key=key --right-header=yes", "omit --right-header, which"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        words_refuse(lines[i][0], lines[i][1]);
}

/* Errors of an input name the option as the command has it. */
static void options_are_called_as_in_their_command(void **state)
{
    (void)state;
    static const struct {
        enum cluster_job_kind kind;
        uint32_t index;
        const char *what, *option;
    } cases[] = {{CLUSTER_KIND_JOIN, 0, "", "left"},
                 {CLUSTER_KIND_JOIN, 1, "-schema", "right-schema"},
                 {CLUSTER_KIND_SHUFFLE, 0, "", "in"},
                 {CLUSTER_KIND_SHUFFLE, 0, "-schema", "schema"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char option[CLIENT_OPTION_BYTES];
        const struct cluster_submit submit = {.kind = cases[i].kind};
        client_source_option(&submit, cases[i].index, cases[i].what, option);
        assert_string_equal(option, cases[i].option);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_describe_their_own_side),
        cmocka_unit_test(words_stand_for_characters),
        cmocka_unit_test(a_relation_is_by_itself_as_the_table_says),
        cmocka_unit_test(texts_of_null_add_up),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(options_are_called_as_in_their_command),
    };
    return cmocka_run_group_tests(tests, NULL, words_forget);
}
