/* The CSV scan against a character-by-character reader of whole texts, for every way of cutting a file into morsels and
 * blocks; and its errors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shuffle/csv/parse.h"
#include "tests/shuffle/scan_harness.h"

#define FILE_OF(literal) literal, sizeof literal - 1

/* The reference: records of well-formed text (behind BOM and header; an empty last line is none), as harness_row_text
 * shows columns of strings. */
static void naive_rows(const char *data, size_t bytes, uint32_t columns, struct text *rows)
{
    size_t i = bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (bool first = true; i < bytes; first = false) {
        struct text record = {0};
        bool record_ends = false, only_empty = true;
        while (!record_ends) {
            struct text value = {0};
            const bool quoted = i < bytes && data[i] == '"';
            if (quoted) {
                for (i++;; i++) {
                    if (data[i] == '"' && (i + 1 == bytes || data[i + 1] != '"'))
                        break;
                    i += data[i] == '"';
                    text_add(&value, &data[i], 1);
                }
                i++;
            }
            while (i < bytes && data[i] != ',' && data[i] != '\n')
                text_add(&value, &data[i++], 1);
            record_ends = i == bytes || data[i] == '\n';
            if (record_ends && i < bytes && value.bytes > 0 && data[i - 1] == '\r')
                value.bytes--;
            if (!quoted && value.bytes == 0) {
                text_add(&record, "-", 1);
            } else {
                text_add(&record, "[", 1);
                text_add(&record, value.data ? value.data : "", value.bytes);
                text_add(&record, "]", 1);
            }
            only_empty = only_empty && !quoted && value.bytes == 0;
            i++;
            free(value.data);
        }
        text_add(&record, "\n", 1);
        const bool trailing = columns > 1 && only_empty && record.bytes == 2 && i >= bytes;
        if (!first && !trailing)
            text_add(rows, record.data, record.bytes);
        free(record.data);
    }
}

static const struct {
    const char *data;
    size_t bytes;
    uint32_t columns;
} nasty[] = {
    {FILE_OF("a,b\n1,2\n"), 2},
    {FILE_OF("a,b\n1,2"), 2},
    {FILE_OF("a,b\r\n1,2\r\n3,4\n5,\"\"\r\n,\n"), 2},
    {FILE_OF("a,b\r\n1,2\r\n3,4\r"), 2},
    {FILE_OF("\xef\xbb\xbf"
             "a,b\nx,y\n"),
     2},
    {FILE_OF("a,b\n\"x\ny\",\"1\n\n\n2\"\n\"\",\"\"\"\"\n\"\"\"\"\"\",\"a\"\"b\"\n"), 2},
    {FILE_OF("a,b\n\"\n\",\"\r\n\"\r\n\"a,b\n,\"\"\n,\"\"\",\",\"\n,\n\",\",\"\n\"\n"), 2},
    {FILE_OF("\"a\nb\",c\n1,\"2\"\"\n\"\"\"\n\"\"\"\n\"\"\",3"), 2},
    {FILE_OF("a,b\nx\0y,\"\0\"\n\0,\0\0\n"), 2},
    {FILE_OF("a\n\nx\n\n\n\"\"\ny"), 1},
    {FILE_OF("a\r\n\r\nx\r\n"), 1},
    {FILE_OF("a,b,c\n"
             "the quick brown fox,\"jumps over, the \"\"lazy\"\" dog\",0123456789012345678901234567890123456789\n"
             "cr\rinside,a\rb,\r\r\n"
             ",,\n"
             "\"\",\"\",\"\"\n"
             "\xc3\xa4\xc3\xb6,\xe2\x82\xac,\xff\xfe\n"
             "\"a very long quoted field that is longer than any of the small blocks we read, with\nnewlines and "
             "\"\"quotes\"\", \r\nand the like\",,z\n"
             "1,2,3\n\n"),
     3},
};

static struct shuffle_relation relation_of(struct harness *harness, const char *data, size_t bytes, uint32_t columns)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    assert_ok(harness_relation(harness_write(harness, "t.csv", data, bytes), NULL, &relation, &error));
    assert_int_equal(relation.schema.count, columns);
    for (uint32_t i = 0; i < columns; i++) /* whatever the sample says */
        shuffle_field_parse_type("string?", &relation.schema.field[i], NULL);
    return relation;
}

static void scan_every_way(struct harness *harness, const struct shuffle_relation *relation, const char *data,
                           size_t bytes, const struct text *expected)
{
    static const uint32_t blocks[] = {1, 4, 5, 7, 13, 64, 4096};
    for (uint64_t morsel = 1; morsel <= bytes + 1; morsel++) {
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            struct base_error error = {0};
            struct text rows = {0};
            const struct harness_scan how = {.morsel_bytes = morsel, .block_bytes = blocks[b]};
            assert_ok(harness_scan(harness, relation, &how, &rows, &error));
            if (rows.bytes != expected->bytes || (rows.bytes > 0 && memcmp(rows.data, expected->data, rows.bytes) != 0))
                fail_msg("morsels of %" PRIu64 ", blocks of %u of\n%.*s\ngive\n%s\nnot\n%s", morsel, blocks[b],
                         (int)bytes, data, rows.data ? rows.data : "", expected->data ? expected->data : "");
            free(rows.data);
        }
    }
}

static void test_any_cut(void **state)
{
    for (size_t i = 0; i < sizeof nasty / sizeof *nasty; i++) {
        struct shuffle_relation relation = relation_of(*state, nasty[i].data, nasty[i].bytes, nasty[i].columns);
        struct text expected = {0};
        naive_rows(nasty[i].data, nasty[i].bytes, nasty[i].columns, &expected);
        scan_every_way(*state, &relation, nasty[i].data, nasty[i].bytes, &expected);
        free(expected.data);
        shuffle_relation_free(&relation);
    }
}

static void test_reference_itself(void **state)
{
    (void)state;
    struct text rows = {0};
    naive_rows(FILE_OF("a,b\r\n1,\"x\"\"\ny\"\r\n,\"\"\nlast,\r\n\n"), 2, &rows);
    assert_string_equal(rows.data, "[1][x\"\ny]\n-[]\n[last]-\n");
    free(rows.data);
}

static void test_without_header(void **state)
{
    struct harness *harness = *state;
    struct shuffle_relation relation = relation_of(harness, FILE_OF("\xef\xbb\xbf\"x\",y\n1,2\n"), 2);
    relation.csv.header = false;
    struct text expected = {0};
    text_printf(&expected, "[x][y]\n[1][2]\n");
    scan_every_way(harness, &relation, "", 12, &expected);
    free(expected.data);
    shuffle_relation_free(&relation);
}

/* Many batches, records that lie across blocks, and random texts of special characters. */
static void test_random_texts(void **state)
{
    struct harness *harness = *state;
    struct base_random random;
    base_random_seed(&random, 42);
    for (int round = 0; round < 150; round++) {
        struct text file = {0};
        text_printf(&file, "a,b\n");
        const uint64_t records = 1 + base_random_below(&random, round % 10 == 0 ? 3000 : 40);
        for (uint64_t r = 0; r < records; r++) {
            for (int field = 0; field < 2; field++) {
                const bool quoted = base_random_chance(&random, 1, 2);
                text_add(&file, "\"", quoted);
                for (uint64_t n = base_random_below(&random, 9); n > 0; n--) {
                    const char *pieces[] = {"x", "yz", ",", "\n", "\"\"", "\r\n", "\r"};
                    const char *piece = pieces[base_random_below(&random, quoted ? 7 : 2)];
                    text_add(&file, piece, strlen(piece));
                }
                text_add(&file, "\"", quoted);
                if (field == 0)
                    text_add(&file, ",", 1);
            }
            text_printf(&file, "%s", base_random_chance(&random, 1, 2) ? "\n" : "\r\n");
        }
        struct shuffle_relation relation = relation_of(harness, file.data, file.bytes, 2);
        struct text expected = {0};
        naive_rows(file.data, file.bytes, 2, &expected);
        for (int way = 0; way < 6; way++) {
            struct base_error error = {0};
            struct text rows = {0};
            const struct harness_scan how = {.morsel_bytes = 1 + base_random_below(&random, file.bytes + 50),
                                             .block_bytes = 1 + (uint32_t)base_random_below(&random, 3000)};
            assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
            assert_int_equal(rows.bytes, expected.bytes);
            assert_memory_equal(rows.data, expected.data, expected.bytes);
            free(rows.data);
        }
        free(expected.data);
        free(file.data);
        shuffle_relation_free(&relation);
    }
}

static void test_types_and_projection(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    static const char data[] = "id,name,price,when,raw,f,ok\n"
                               "-7,\"a \"\"b\"\"\",12.50,2026-07-31 10:00:00.5,\\x00ff,1.5,true\n"
                               "+8,,,,,,\n"
                               "9223372036854775807,\"\",0.01,1969-12-31,\\x,-0.0,f\n";
    assert_ok(harness_relation(harness_write(harness, "t.csv", FILE_OF(data)),
                               "id:int64,price:decimal(12,2)?,when:timestamp?,raw:binary?,f:float32?,ok:bool?",
                               &relation, &error));
    struct text rows = {0};
    const struct harness_scan all = {.morsel_bytes = 1 << 20};
    assert_ok(harness_scan(harness, &relation, &all, &rows, &error));
    assert_string_equal(rows.data, "[-7][a \"b\"][12.50][2026-07-31 10:00:00.5][\\x00ff][1.5][true]\n"
                                   "[8]------\n"
                                   "[9223372036854775807][][0.01][1969-12-31 00:00:00][\\x][-0][false]\n");
    free(rows.data);
    rows = (struct text){0};
    static const uint32_t some[] = {1, 0, 1, 4};
    const struct harness_scan projected = {.project = some, .project_count = 4, .morsel_bytes = 9, .block_bytes = 8};
    assert_ok(harness_scan(harness, &relation, &projected, &rows, &error));
    assert_string_equal(rows.data, "[a \"b\"][-7][a \"b\"][\\x00ff]\n-[8]--\n[][9223372036854775807][][\\x]\n");
    free(rows.data);
    shuffle_relation_free(&relation);
}

/* Integers of every length, with and without sign, and with a wrong byte at every place. */
static void test_integers(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text file = {0}, expected = {0}, rows = {0};
    static const char digits[] = "9182736450918273645";
    text_printf(&file, "n:int64\n");
    for (int count = 1; count <= 18; count++)
        for (int from = 0; from + count <= 19; from++)
            for (int sign = 0; sign < 3; sign++) {
                const char *first = digits + from;
                text_printf(&file, "%.*s%.*s\n", sign > 0, sign == 1 ? "-" : "+", count, first);
                while (*first == '0' && first + 1 < digits + from + count)
                    first++;
                text_printf(&expected, "[%.*s%.*s]\n", sign == 1 && *first != '0', "-",
                            (int)(digits + from + count - first), first);
            }
    struct shuffle_relation relation;
    assert_ok(harness_relation(harness_write(harness, "t.csv", file.data, file.bytes), NULL, &relation, &error));
    const struct harness_scan how = {.morsel_bytes = 1 << 20};
    assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
    assert_string_equal(rows.data, expected.data);
    shuffle_relation_free(&relation);
    static const char head[] = "n:int64\n", wrong[] = "/:; \x01\x3f\xb1-.x";
    for (int count = 1; count <= 17; count++) {
        for (int at = 0; at < count; at++) {
            char line[32];
            memcpy(line, head, sizeof head - 1);
            memcpy(line + 8, digits, 18);
            line[8 + at] = wrong[(count + at) % (int)(sizeof wrong - 1)];
            if (at == 0 && line[8] == '-' && count > 1)
                line[8] = ' ';
            harness_write(harness, "t.csv", line, 8 + (size_t)count);
            char path[128];
            snprintf(path, sizeof path, "%s/t.csv", harness->directory);
            assert_ok(harness_relation(path, NULL, &relation, &error));
            assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
            assert_text("is not an integer");
            shuffle_relation_free(&relation);
        }
    }
    free(file.data);
    free(expected.data);
    free(rows.data);
}

static void test_null_options(void **state)
{
    struct harness *harness = *state;
    static const char *const expected[2][2] = {{"[][]\n", "[]-\n"}, {"-[]\n", "--\n"}};
    for (int empty = 0; empty < 2; empty++) {
        for (int quoted = 0; quoted < 2; quoted++) {
            struct base_error error = {0};
            struct text rows = {0};
            struct shuffle_relation relation = relation_of(harness, FILE_OF("a,b\n,\"\"\n"), 2);
            relation.csv.empty_is_null = empty;
            relation.csv.quoted_empty_is_null = quoted;
            const struct harness_scan how = {.morsel_bytes = 100};
            assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
            assert_string_equal(rows.data, expected[empty][quoted]);
            free(rows.data);
            shuffle_relation_free(&relation);
        }
    }
}

/* Texts that mean NULL, of every way to convert a column, unless they are quoted; what is NULL has no bytes. */
static void test_null_texts(void **state)
{
    struct harness *harness = *state;
    static const char data[] =
        "s,i,f,d,b\nNA,999,NA,\\N,\\N\n\"NA\",\"999\",1.5,2026-01-01,\\x00\nNAN,9990,\\N,NA,999\n"
        "\\N,-1,0.5,2026-01-02,\\xff\n,NA,,,\n";
    static const char expected[] = "-----\n[NA][999][1.5][2026-01-01][\\x00]\n[NAN][9990]---\n"
                                   "-[-1][0.5][2026-01-02][\\xff]\n-----\n";
    for (uint32_t block = 4; block <= 64; block += 6) {
        struct base_error error = {0};
        struct shuffle_relation relation;
        struct text rows = {0};
        char *path;
        assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", FILE_OF(data)), &relation, &path, &error));
        strcpy(relation.csv.null_texts, "NA\n999\n\\N\n");
        assert_ok(shuffle_relation_list(&relation, path, &error));
        assert_ok(shuffle_relation_resolve_schema(&relation, "b:binary?", &error));
        const struct harness_scan how = {.morsel_bytes = 10, .block_bytes = block};
        assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
        assert_string_equal(rows.data, expected);
        assert_ok(shuffle_relation_resolve_schema(&relation, "b:binary?,i:int64", &error));
        assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
        assert_text("t.csv:2: column \"i\" is 999, but its type int64 does not allow NULL");
        free(rows.data);
        free(path);
        shuffle_relation_free(&relation);
    }
}

/* Without quotes every line is a record, wherever the file is cut. */
static void test_no_quotes(void **state)
{
    struct harness *harness = *state;
    static const char data[] = "a,b\n5\" pipe,\"x\n\"\",\"\"\"\r\n\",\n\"a\"b,c\"\n";
    static const char expected[] = "[5\" pipe][\"x]\n[\"\"][\"\"\"]\n[\"]-\n[\"a\"b][c\"]\n";
    for (uint64_t morsel = 1; morsel < 50; morsel += 3)
        for (uint32_t block = 4; block <= 64; block += 12) {
            struct base_error error = {0};
            struct text rows = {0};
            struct shuffle_relation relation;
            char *path;
            assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", FILE_OF(data)), &relation, &path, &error));
            relation.csv.quote = SHUFFLE_CSV_NO_QUOTE;
            assert_ok(shuffle_relation_list(&relation, path, &error));
            assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
            const struct harness_scan how = {.morsel_bytes = morsel, .block_bytes = block};
            assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
            assert_string_equal(rows.data, expected);
            free(rows.data);
            free(path);
            shuffle_relation_free(&relation);
        }
}

/* Every kind of bad row, between good ones with line ends in quotes and texts that mean NULL. */
#define DIRTY                                                                                                          \
    "id,s,d,b\n1,\"a\nb\",1.5,\\x00\nx,good,1,\\x01\n2,,2.25,NA\n3,short\n\r\n,no id,1,\n4,\"d\"\"q\",NA,\\xff\n"      \
    "5,t,1.234,\\x01\n6,too,1,\\x01,many,\"of\nthem\"\n7,t,1,\\x0\ny,two,bad,ones\n8,\"\",-0.5,\\x0a0b\n\n\n9,end,9,"
#define DIRTY_SCHEMA "id:int64,s:string?,d:decimal(5,2)?,b:binary?"

static const char dirty_good[] = "[1][a\nb][1.50][\\x00]\n[2]-[2.25]-\n[4][d\"q]-[\\xff]\n[8][][-0.50][\\x0a0b]\n"
                                 "[9][end][9.00]-\n";
static const struct {
    uint64_t line;
    const char *reason;
} dirty_bad[] = {
    {4, "column \"id\" (int64): \"x\" is no"},
    {6, "the record at byte 51 has 2 fields where the schema has 4 columns"},
    {7, "an empty line: the record has 1 field where the schema has 4 columns"},
    {8, "column \"id\" is empty, but its type int64 does not allow NULL"},
    {10, "column \"d\" (decimal(5,2)?): \"1.234\" "},
    {11, "has 6 fields where the schema has 4 columns"},
    {13, "column \"b\" (binary?): \"\\x0\" "},
    {14, "column \"id\" (int64): \"y\" "},
    {16, "an empty line"},
    {17, "an empty line"},
};

static void scan_dirty(struct harness *harness, uint64_t morsel_bytes, uint32_t block_bytes, struct text *rows,
                       struct shuffle_rejects *rejects)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path;
    assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", FILE_OF(DIRTY)), &relation, &path, &error));
    strcpy(relation.csv.null_texts, "NA\n");
    relation.csv.bad_rows_max = 100;
    assert_ok(shuffle_relation_list(&relation, path, &error));
    assert_ok(shuffle_relation_resolve_schema(&relation, DIRTY_SCHEMA, &error));
    const struct harness_scan how = {.morsel_bytes = morsel_bytes, .block_bytes = block_bytes, .rejects = rejects};
    assert_ok(harness_scan(harness, &relation, &how, rows, &error));
    free(path);
    shuffle_relation_free(&relation);
}

/* The same rows are left out wherever the file is cut: a bad row may begin a batch, end it, be cut by a block's edge.
 */
static void test_bad_rows_are_left_out(void **state)
{
    static const uint32_t blocks[] = {4, 5, 7, 13, 64, 4096};
    for (uint64_t morsel = 1; morsel <= sizeof DIRTY; morsel++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            struct text rows = {0};
            struct shuffle_rejects rejects = {0};
            scan_dirty(*state, morsel, blocks[b], &rows, &rejects);
            assert_string_equal(rows.data, dirty_good);
            assert_int_equal(rejects.count, sizeof dirty_bad / sizeof *dirty_bad);
            assert_int_equal(rejects.kept, SHUFFLE_REJECTS_KEPT);
            for (uint32_t i = 0; i < rejects.kept; i++) {
                assert_int_equal(rejects.reject[i].line, dirty_bad[i].line);
                if (!strstr(rejects.reject[i].reason, dirty_bad[i].reason))
                    fail_msg("line %" PRIu64 ": %s", rejects.reject[i].line, rejects.reject[i].reason);
            }
            free(rows.data);
        }
}

/* Only the first stay, in order, when batches are full of bad rows; a batch of nothing else gives no row. */
static void test_many_bad_rows(void **state)
{
    struct harness *harness = *state;
    struct text data = {0};
    text_printf(&data, "a,b\n");
    for (int r = 0; r < 5000; r++) /* rows 1000 to 3999 are bad, and every third of the others */
        text_printf(&data, r % 3 == 0 || (r >= 1000 && r < 4000) ? (r % 2 == 0 ? "%d,x\n" : "%d\n") : "%d,1\n", r);
    static const uint64_t morsels[] = {100, 4096, 1 << 20};
    for (int m = 0; m < 3; m++) {
        struct base_error error = {0};
        struct shuffle_relation relation;
        struct shuffle_rejects rejects = {0};
        struct text rows = {0};
        assert_ok(harness_relation(harness_write(harness, "t.csv", data.data, data.bytes), "a:int64,b:int64", &relation,
                                   &error));
        const struct harness_scan how = {.morsel_bytes = morsels[m], .block_bytes = 4096, .rejects = &rejects};
        assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
        uint64_t good = 0;
        for (size_t i = 0; i < rows.bytes; i++)
            good += rows.data[i] == '\n';
        assert_int_equal(rejects.count, 3000 + 334 + 333);
        assert_int_equal(good, 5000 - rejects.count);
        for (uint32_t i = 0; i < SHUFFLE_REJECTS_KEPT; i++)
            assert_int_equal(rejects.reject[i].line, 2 + 3 * i);
        free(rows.data);
        shuffle_relation_free(&relation);
    }
    free(data.data);
}

/* Rows of an inferred type, and what stays an error: quotes that break off, also in a record of too many fields. */
static void test_bad_rows_of_other_kinds(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path;
    struct text data = {0};
    text_printf(&data, "a,b\nstray\n"); /* the sample passes this over */
    for (int r = 0; r < 1100; r++)
        text_printf(&data, "%d,%d\n", r, r);
    text_printf(&data, "007,1\n1e5,1\n");
    assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", data.data, data.bytes), &relation, &path, &error));
    relation.csv.bad_rows_max = 9;
    assert_ok(shuffle_relation_list(&relation, path, &error));
    assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
    assert_int_equal(relation.schema.field[0].type, SHUFFLE_INT64);
    struct shuffle_rejects rejects = {0};
    struct text rows = {0};
    struct harness_scan how = {.morsel_bytes = 512, .block_bytes = 64, .rejects = &rejects};
    assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
    assert_int_equal(rejects.count, 3);
    assert_int_equal(rejects.reject[0].line, 2);
    assert_int_equal(rejects.reject[1].line, 1103);
    assert_non_null(strstr(rejects.reject[1].reason, "\"007\" would become \"7\""));
    assert_int_equal(rejects.reject[2].line, 1104);
    free(rows.data);
    free(data.data);
    free(path);
    shuffle_relation_free(&relation);
    static const char *const broken[] = {"a,b\n1,2\n1,2,3,x\"y\"\n", "a,b\n1,2\n1,2,\"3\"x\n", "a,b\n1,2\n1\n1,\"2\n"};
    static const char *const told[] = {"t.csv:3: a quote inside", "t.csv:3: text after", "t.csv:4: the quote at byte"};
    for (int i = 0; i < 3; i++)
        for (uint32_t block = 4; block <= 64; block += 12) {
            assert_ok(harness_relation(harness_write(harness, "t.csv", broken[i], strlen(broken[i])), "a:int64,b:int64",
                                       &relation, &error));
            rows = (struct text){0};
            how = (struct harness_scan){.morsel_bytes = 1 << 20, .block_bytes = block, .rejects = &rejects};
            assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
            assert_text(told[i]);
            free(rows.data);
            shuffle_relation_free(&relation);
        }
}

/* Scans data, which must fail whatever the cut, and returns the error of the scan in one piece. */
static struct base_error scan_error(struct harness *harness, const char *data, size_t bytes, const char *declared)
{
    static const uint64_t morsels[] = {1, 3, 16, 1 << 20};
    struct base_error error = {0};
    for (size_t m = 0; m < 4; m++) {
        for (uint32_t block = 4; block <= 64; block += 12) {
            struct shuffle_relation relation;
            struct text rows = {0};
            error = (struct base_error){0};
            assert_ok(harness_relation(harness_write(harness, "t.csv", data, bytes), declared, &relation, &error));
            const struct harness_scan how = {.morsel_bytes = morsels[m], .block_bytes = block};
            const enum base_status status = harness_scan(harness, &relation, &how, &rows, &error);
            assert_int_equal(status, BASE_PARSE);
            assert_int_equal(error.status, BASE_PARSE);
            free(rows.data);
            shuffle_relation_free(&relation);
        }
    }
    return error;
}

static void test_errors(void **state)
{
    struct harness *harness = *state;
    struct base_error error = scan_error(harness, FILE_OF("a,b\n1,2\n3,4\"\n5,6\n"), NULL);
    assert_text("t.csv:3: a quote inside an unquoted field, at byte 11");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n\"3\"x,4\n"), NULL);
    assert_text("t.csv:3: text after a closing quote, at byte 11");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n\"3\" ,4\n"), NULL);
    assert_text("t.csv:3: text after a closing quote, at byte 11");
    error = scan_error(harness, FILE_OF("a,b\n1,\"2\n\"\n3,\"x\n1,2\n1,2\n"), NULL);
    assert_text("t.csv:4: the quote at byte 13 is not closed before the file ends");
    error = scan_error(harness, FILE_OF("a,b\n\"1\n\",2\n3\n"), NULL);
    assert_text("t.csv:4: the record at byte 11 has 1 field where the schema has 2 columns");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n1,2,3\n"), NULL);
    assert_text("t.csv:3: the record at byte 8 has at least 3 fields where the schema has 2 columns");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n\n3,4\n"), NULL);
    assert_text("t.csv:3: an empty line: the record has 1 field where the schema has 2 columns");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n\n\n"), NULL);
    assert_text("t.csv:3: an empty line");
    error = scan_error(harness, FILE_OF("a,b\n1,2\n\"3\n\n\"\n"), NULL); /* the line in which the record begins */
    assert_text("t.csv:3: the record at byte 8 has 1 field");
}

static void test_value_errors(void **state)
{
    struct harness *harness = *state;
    struct base_error error = scan_error(harness, FILE_OF("id,price\n\"1\",2\n2,\"fr\ne\x01 bar\"\n"), "price:float64");
    assert_text("t.csv:3: column \"price\" (float64): \"fr\\x0ae\\x01 bar\" is not a number");
    assert_text("\"price:string\"");
    assert_text("--left-schema");
    assert_text("t.csv.schema");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n,300\n"), "id:int64");
    assert_text("t.csv:3: column \"id\" is empty, but its type int64 does not allow NULL: declare it \"id:int64?\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,300\n"), "n:int8?");
    assert_text("t.csv:3: column \"n\" (int8?): \"300\" is out of range for int8 (-128 to 127)");
    assert_text("\"n:int64?\"");
    /* Of several the first row's is told, also before a record that cannot be split; and a type that can be joined. */
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,y\nx,3\n"), "id:int64,n:int64");
    assert_text("t.csv:3: column \"n\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,y\n3,\"4\"\"\"5\n"), "id:int64,n:int64");
    assert_text("t.csv:3: column \"n\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\nx,3\n,4\n"), "id:int64,n:int64");
    assert_text("t.csv:3: column \"id\" (int64): \"x\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,1.0\n"), "n:int64");
    assert_text("\"n:decimal(19,0)\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,1e3\n"), "n:int64");
    assert_text("\"n:float64\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2\n2,1.234\n"), "n:decimal(5,2)");
    assert_text("\"n:decimal(6,3)\"");
    error = scan_error(harness, FILE_OF("id,n\n1,2026-01-01\n2,noon\n"), "n:date");
    assert_text("\"n:string\"");
    error = scan_error(harness, FILE_OF("id,n\n1,\\xabc\n"), "n:binary?");
    assert_text("\"\\xabc\" is not binary");
}

/* Behind the sample an inferred column takes no text that it would change; a declared one does. */
static void test_late_texts(void **state)
{
    struct harness *harness = *state;
    static const char *const cases[][3] = {
        {"10001", "02134",
         "would become \"2134\": declare the column, \"k:string?\" to keep its texts or \"k:int64?\""},
        {"1", "12345678901234567", NULL},
        {"1", "-0", "would become \"0\""},
        {"1", "+1", "would become \"1\""},
        {"1", "-12", NULL},
        {"1", "000000000000000000000012", "would become \"12\""},
        {"1", "1.0",
         "is not an integer: correct it, or declare the column, such as \"k:decimal(19,0)?\" or \"k:string?\""},
        {"1", "2.50", "such as \"k:decimal(20,1)?\" or \"k:string?\""},
        {"1", "12345678901234567890", "such as \"k:decimal(20,0)?\" or \"k:string?\""},
        {"1", "zip", "such as \"k:string?\", with"},
        {"1.5", "1.10", "would become \"1.1\""},
        {"1.5", "007.5", "would become \"7.5\""},
        {"1.5", "-0", "would become \"0\""},
        {"1.5", "9007199254740993", "would become \"9007199254740992\""},
        {"1.5", "12345678901234567890.123", "would become \"1.2345678901234567e+19\""},
        {"1.5", "2", NULL},
        {"true", "t", "would become \"true\""},
        {"true", "1", "would become \"true\""},
        {"2026-01-01", "+2026-01-02", "would become \"2026-01-02\""},
        {"2026-01-01", "2026-01-02 10:00", "such as \"k:timestamp?\" or \"k:string?\""},
        {"2026-01-01 10:00:00", "2026-01-02", "would become \"2026-01-02 00:00:00\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text data = {0};
        text_printf(&data, "k,n\n");
        for (int r = 0; r < 1100; r++)
            text_printf(&data, "%s,%d\n", cases[i][0], r);
        text_printf(&data, "%s,1100\n", cases[i][1]);
        const char *path = harness_write(harness, "t.csv", data.data, data.bytes);
        struct base_error error = {0};
        struct shuffle_relation relation;
        struct text rows = {0};
        const struct harness_scan how = {.morsel_bytes = 700, .block_bytes = 256};
        assert_ok(harness_relation(path, NULL, &relation, &error));
        const enum base_status status = harness_scan(harness, &relation, &how, &rows, &error);
        assert_int_equal(status, !cases[i][2] ? BASE_OK : BASE_PARSE);
        if (cases[i][2]) {
            assert_text("t.csv:1102: column \"k\" (");
            assert_text(cases[i][2]);
        }
        free(rows.data);
        shuffle_relation_free(&relation);
        free(data.data);
    }
}

/* Of a record that is too large that is said, and not that its last fields are missing. */
static void test_large_record_is_named(void **state)
{
    struct harness *harness = *state;
    const size_t bytes = 20 << 20;
    char *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 'x', bytes);
    memcpy(data, "a,b,c\n1,2,3\n4,", 14);
    memcpy(data + bytes - 5, "y,z\n", 4);
    struct base_error error = {0};
    struct shuffle_relation relation;
    struct text rows = {0};
    assert_ok(harness_relation(harness_write(harness, "t.csv", data, bytes - 1), "a:string,b:string,c:string",
                               &relation, &error));
    const struct harness_scan how = {.morsel_bytes = 1 << 20};
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_TOO_LARGE);
    assert_text("t.csv:3: the record at byte 12 has more than the 16777216 bytes a record may have");
    free(rows.data);
    shuffle_relation_free(&relation);
    free(data);
}

/* A quote left open early in a large file must not take memory for the whole of it. */
static void test_open_quote_is_bounded(void **state)
{
    struct harness *harness = *state;
    const size_t bytes = 40 << 20;
    char *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 'x', bytes);
    static const char head[] = "a,b\n1,2\n3,\"";
    memcpy(data, head, sizeof head - 1);
    for (size_t i = 100; i < bytes; i += 100)
        data[i] = '\n';
    struct base_error error = {0};
    struct shuffle_relation relation;
    assert_ok(harness_relation(harness_write(harness, "t.csv", data, bytes), NULL, &relation, &error));
    for (uint64_t morsel = 4 << 20; morsel <= 64 << 20; morsel *= 16) {
        base_governor_peak_reset(harness->governor);
        struct text rows = {0};
        const struct harness_scan how = {.morsel_bytes = morsel};
        assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
        assert_text("t.csv:3: the quote at byte 10 is not closed within the 16777216 bytes a record may have");
        assert_true(base_governor_peak_bytes(harness->governor) < 100 << 20);
        free(rows.data);
    }
    free(data);
    shuffle_relation_free(&relation);
}

static void test_large_field(void **state)
{
    struct harness *harness = *state;
    const size_t bytes = 5 << 20;
    struct text file = {0};
    char *large = malloc(bytes);
    assert_non_null(large);
    memset(large, 'q', bytes);
    text_printf(&file, "a,b\n1,");
    text_add(&file, large, bytes);
    text_printf(&file, "\n2,end\n");
    struct shuffle_relation relation = relation_of(harness, file.data, file.bytes, 2);
    struct base_error error = {0};
    struct text rows = {0};
    const struct harness_scan how = {.morsel_bytes = 1 << 20, .block_bytes = 1 << 16};
    assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
    assert_int_equal(rows.bytes, 3 + bytes + 3 + 9);
    assert_string_equal(rows.data + rows.bytes - 9, "[2][end]\n");
    free(rows.data);
    free(large);
    free(file.data);
    shuffle_relation_free(&relation);
}

/* Declared widths do not make a scan hold a thousand times a row's bytes. */
static void test_wide_columns(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    struct text file = {0}, rows = {0};
    text_printf(&file, "n,a,b\n");
    for (int i = 0; i < 40; i++)
        text_printf(&file, "%d,,%s\n", i, i % 3 == 0 ? "\"x\ny\"" : "z");
    assert_ok(harness_relation(harness_write(harness, "t.csv", file.data, file.bytes), "a:binary(1000003)?,n:int64",
                               &relation, &error));
    base_governor_peak_reset(harness->governor);
    const struct harness_scan how = {.morsel_bytes = 1000, .block_bytes = 50};
    assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
    assert_true(base_governor_peak_bytes(harness->governor) < 20 << 20);
    struct text expected = {0};
    for (int i = 0; i < 40; i++)
        text_printf(&expected, "[%d]-[%s]\n", i, i % 3 == 0 ? "x\ny" : "z");
    assert_string_equal(rows.data, expected.data);
    free(file.data);
    free(rows.data);
    free(expected.data);
    shuffle_relation_free(&relation);
}

static void test_file_trouble(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text rows = {0};
    struct shuffle_relation relation = relation_of(harness, FILE_OF("a,b\n1,2\n"), 2);
    const struct harness_scan how = {.morsel_bytes = 100};
    harness_write(harness, "t.csv", FILE_OF("a,b\n1,2\n3,4\n"));
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_IO);
    assert_text("t.csv changed while the job ran: it has 12 bytes, but counted 8");
    shuffle_relation_free(&relation);
    relation = relation_of(harness, FILE_OF("a,b\n1,2\n"), 2);
    harness_fail_after(harness, 1);
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_IO);
    assert_text("cannot read");
    assert_text("t.csv at byte 0");
    shuffle_relation_free(&relation);
}

/* Several files one after the other, opened anew for each morsel's file. */
static void test_several_files(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    harness_write(harness, "1.csv", FILE_OF("a,b\n1,x\n2,y"));
    harness_write(harness, "2.csv", FILE_OF("a,b\n"));
    harness_write(harness, "3.csv", FILE_OF("a,b\r\n3,\"z\n\"\r\n"));
    char source[128];
    snprintf(source, sizeof source, "local:%s/*.csv", harness->directory);
    for (uint64_t morsel = 1; morsel < 20; morsel += 3) {
        struct shuffle_relation relation;
        struct text rows = {0};
        assert_ok(harness_relation(source, NULL, &relation, &error));
        const struct harness_scan how = {.morsel_bytes = morsel, .block_bytes = 4};
        assert_ok(harness_scan(harness, &relation, &how, &rows, &error));
        assert_string_equal(rows.data, "[1][x]\n[2][y]\n[3][z\n]\n");
        free(rows.data);
        shuffle_relation_free(&relation);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_itself),
        cmocka_unit_test_setup_teardown(test_any_cut, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_without_header, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_random_texts, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_types_and_projection, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_integers, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_null_options, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_null_texts, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bad_rows_are_left_out, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_many_bad_rows, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bad_rows_of_other_kinds, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_no_quotes, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_errors, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_value_errors, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_late_texts, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_large_record_is_named, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_open_quote_is_bounded, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_large_field, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_wide_columns, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_file_trouble, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_several_files, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
