#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/shuffle/scan_harness.h"

static void test_gen_words(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path = (char *)&relation;
    assert_ok(
        shuffle_relation_parse("gen:rows=16M,row=64,keys=zipf:1.1:1000000,seed=7,preload=1", &relation, &path, &error));
    assert_null(path);
    assert_int_equal(relation.placement, SHUFFLE_GENERATED);
    assert_int_equal(relation.generator.rows, 16000000);
    assert_int_equal(relation.generator.row_bytes, 64);
    assert_int_equal(relation.generator.keys, SHUFFLE_KEYS_ZIPF);
    assert_int_equal(relation.generator.key_count, 1000000);
    assert_true(relation.generator.zipf_exponent == 1.1);
    assert_int_equal(relation.generator.seed, 7);
    assert_true(relation.generator.preload);
    assert_int_equal(relation.schema.count, 2);
    assert_string_equal(relation.schema.field[0].name, "key");
    assert_string_equal(relation.schema.field[1].name, "payload");
    assert_int_equal(relation.schema.field[1].width, 56);
    shuffle_relation_free(&relation);
    assert_ok(shuffle_relation_parse("gen:rows=2Ki,row=8,keys=uniform:3k", &relation, &path, &error));
    assert_int_equal(relation.generator.rows, 2048);
    assert_int_equal(relation.generator.key_count, 3000);
    assert_int_equal(relation.schema.count, 1);
    assert_int_equal(shuffle_relation_resolve_schema(&relation, "a:int8", &error), BASE_INVALID);
    assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
    shuffle_relation_free(&relation);
}

static void test_refused_words(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"gen:", "rows= is missing"},
        {"gen:row=16", "rows= is missing"},
        {"gen:rows", "write word=value"},
        {"gen:rows=", "write word=value"},
        {"gen:rows=1x", "rows is a number"},
        {"gen:rows=-1", "rows is a number"},
        {"gen:rows=99999999999999999999", "rows is a number up to 2^48"},
        {"gen:rows=18446744073709551615G", "rows is a number"},
        {"gen:rows=1,rwo=8",
         "rwo=8 is not understood (did you mean \"row\"?): the words are rows=, row=, keys=, seed= and preload="},
        {"gen:rows=1,sed=8", "sed=8 is not understood (did you mean \"seed\"?): the words are"},
        {"gen:rows=1,keys=unifrom:3", "(did you mean \"uniform\"?): keys is unique"},
        {"gen:rows=1,keys=uniqe", "(did you mean \"unique\"?): keys is unique"},
        {"gen:rows=1,row=7", "from 8 to 16777216"},
        {"gen:rows=1,row=17M", "from 8 to 16777216"},
        {"gen:rows=1,keys=uniform", "keys is unique, uniform:K"},
        {"gen:rows=1,keys=uniform:0", "keys is unique, uniform:K"},
        {"gen:rows=1,keys=zipf:0:5", "keys is unique, uniform:K"},
        {"gen:rows=1,keys=zipf:1.1", "keys is unique, uniform:K"},
        {"gen:rows=1,keys=zipf:nan:5", "keys is unique, uniform:K"},
        {"gen:rows=5G,keys=stride", "at most 4294967296"},
        {"gen:rows=1,preload=yes", "preload is 0 or 1"},
        {"gen:rows=10,rows=11", "rows= is given twice"},
        {"gen:rows=10,row=16,seed=1,row=16", "row= is given twice"},
        {"gen:keys=one,rows=10,keys=one", "keys= is given twice"},
        {"shared:", "names no file"},
        {"", "names no file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_error error = {0};
        struct shuffle_relation relation = {.file_count = 99};
        char *path;
        assert_int_equal(shuffle_relation_parse(cases[i][0], &relation, &path, &error), BASE_INVALID);
        assert_int_equal(relation.file_count, 99);
        assert_text(cases[i][1]);
    }
}

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path;
        enum shuffle_placement placement;
        enum shuffle_format format;
        char delimiter;
    } cases[] = {
        {"shared:/a/b.csv", "/a/b.csv", SHUFFLE_SHARED, SHUFFLE_FORMAT_CSV, ','},
        {"/a/b.tsv", "/a/b.tsv", SHUFFLE_SHARED, SHUFFLE_FORMAT_CSV, '\t'},
        {"local:/a/*.bin", "/a/*.bin", SHUFFLE_LOCAL, SHUFFLE_FORMAT_FIXED, ','},
        {"b", "b", SHUFFLE_SHARED, SHUFFLE_FORMAT_CSV, ','},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_error error = {0};
        struct shuffle_relation relation;
        char *path;
        assert_ok(shuffle_relation_parse(cases[i].text, &relation, &path, &error));
        assert_string_equal(path, cases[i].path);
        assert_int_equal(relation.placement, cases[i].placement);
        assert_int_equal(relation.format, cases[i].format);
        assert_int_equal(relation.csv.delimiter, cases[i].delimiter);
        assert_true(relation.csv.header && relation.csv.empty_is_null && !relation.csv.quoted_empty_is_null);
        free(path);
        shuffle_relation_free(&relation);
    }
}

static void test_listing(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation = {.format = SHUFFLE_FORMAT_CSV};
    char path[128];
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_NOT_FOUND);
    assert_text("holds no data files");
    harness_write(harness, "b.csv", "x\n1\n", 4);
    harness_write(harness, "a.csv", "x\n", 2);
    harness_write(harness, "_SUCCESS.json", "{}", 2);
    harness_write(harness, ".hidden", "x", 1);
    harness_write(harness, "a.csv.schema", "x:int64", 7);
    assert_ok(shuffle_relation_list(&relation, harness->directory, &error));
    assert_int_equal(relation.file_count, 2);
    assert_non_null(strstr(relation.file[0].path, "/a.csv"));
    assert_int_equal(relation.file[1].bytes, 4);
    assert_true(relation.file[1].modified_ns > INT64_C(1000000000000000000));
    snprintf(path, sizeof path, "%s/?.csv*", harness->directory);
    assert_ok(shuffle_relation_list(&relation, path, &error));
    assert_int_equal(relation.file_count, 2);
    snprintf(path, sizeof path, "%s/*.tsv", harness->directory);
    assert_int_equal(shuffle_relation_list(&relation, path, &error), BASE_NOT_FOUND);
    assert_text("no file matches");
    snprintf(path, sizeof path, "%s/nothing", harness->directory);
    assert_int_equal(shuffle_relation_list(&relation, path, &error), BASE_NOT_FOUND);
    assert_text("does not exist on this machine");
    assert_int_equal(shuffle_relation_list(&relation, "/dev/null", &error), BASE_INVALID);
    harness_write(harness, "c.csv", "", 0);
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_PARSE);
    assert_text("c.csv has 0 bytes");
    assert_int_equal(relation.file_count, 0);
    harness_write(harness, "c.csv", "x", 1);
    harness_write(harness, "d.bin", "x", 1);
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_INVALID);
    assert_text("d.bin is of another format");
    relation.format_given = true; /* whatever their names */
    assert_ok(shuffle_relation_list(&relation, harness->directory, &error));
    assert_int_equal(relation.file_count, 4);
    shuffle_relation_free(&relation);
}

static void make_folder(const struct harness *harness, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", harness->directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* The names of the files below the harness's folder, each with a blank. */
static void expect_files(const struct harness *harness, const char *source, const char *names)
{
    struct base_error error = {0};
    struct shuffle_relation relation = {.format = SHUFFLE_FORMAT_CSV};
    char path[256];
    struct text found = {0};
    snprintf(path, sizeof path, "%s%s", harness->directory, source);
    assert_ok(shuffle_relation_list(&relation, path, &error));
    for (uint32_t i = 0; i < relation.file_count; i++)
        text_printf(&found, "%s ", relation.file[i].path + strlen(harness->directory) + 1);
    assert_string_equal(found.data, names);
    free(found.data);
    shuffle_relation_free(&relation);
}

static void test_folders_in_folders(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    static const char *const folders[] = {"b", "b/k=2", "b/k=10", "a", "_temporary", ".hidden", "empty"};
    static const char *const files[] = {"z.csv",        "b/y.csv",           "b/k=2/x.csv",    "b/k=10/w.csv",
                                        "a/v.csv",      "_temporary/no.csv", ".hidden/no.csv", "_SUCCESS.json",
                                        "a/_notes.csv", "a/v.csv.schema"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(harness, folders[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        harness_write(harness, files[i], "x\n", 2);
    expect_files(harness, "", "z.csv a/v.csv b/y.csv b/k=10/w.csv b/k=2/x.csv ");
    expect_files(harness, "/*", "a/v.csv b/y.csv b/k=10/w.csv b/k=2/x.csv z.csv ");
    expect_files(harness, "/a/_*", "a/_notes.csv ");
    expect_files(harness, "/*/*", "a/v.csv b/k=10/w.csv b/k=2/x.csv b/y.csv ");
    char path[256];
    snprintf(path, sizeof path, "%s/b/k=2/up", harness->directory);
    assert_int_equal(symlink("../../a", path), 0);
    expect_files(harness, "/b", "b/y.csv b/k=10/w.csv b/k=2/x.csv b/k=2/up/v.csv ");
    struct shuffle_relation relation = {.format = SHUFFLE_FORMAT_CSV};
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_INVALID);
    assert_text("/a by another name");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../../b", path), 0);
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_INVALID);
    assert_text("/b by another name");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(shuffle_relation_list(&relation, harness->directory, &error), BASE_INVALID);
    assert_text("b/k=2/up is a pipe");
    shuffle_relation_free(&relation);
}

/* Resolves data (NULL: the file that is there) under name; the schema as text, or the error. */
static char *resolved(struct harness *harness, const char *data, const char *declared)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    char path[128];
    if (data)
        harness_write(harness, "t.csv", data, strlen(data));
    snprintf(path, sizeof path, "%s/t.csv", harness->directory);
    if (harness_relation(path, declared, &relation, &error) != BASE_OK)
        return strdup(error.text);
    char *text = shuffle_schema_format(&relation.schema);
    shuffle_relation_free(&relation);
    return text;
}

static void expect(struct harness *harness, const char *data, const char *declared, const char *schema)
{
    char *text = resolved(harness, data, declared);
    if (!strstr(text, schema))
        fail_msg("%s with %s: %s, not %s", data ? data : "the file that is there",
                 declared ? declared : "nothing declared", text, schema);
    free(text);
}

static void test_inference(void **state)
{
    struct harness *harness = *state;
    expect(harness,
           "a,b,c,d,e,f\ntrue,1,1.5,2024-01-01,2024-01-01 10:00:00,x\nfalse,-2,2,2024-01-02,2024-01-02 00:00:00,1\n",
           NULL, "a:bool?,b:int64?,c:float64?,d:date?,e:timestamp?,f:string?");
    expect(harness, "a,b,c\n,\"\",\n,,1\n", NULL, "a:string?,b:string?,c:int64?");
    expect(harness, "a,b,c,d\n007,0.25,9223372036854775808,-0\n", NULL, "a:string?,b:float64?,c:string?,d:string?");
    expect(harness, "a,b,c,d\n1.5,9007199254740992.5,t,+1\n9007199254740993,1,f,2\n", NULL,
           "a:string?,b:string?,c:string?,d:string?");
    expect(harness, "a,b\n1,nan\n2,inf\n", NULL, "a:int64?,b:string?");
    expect(harness, "a\n1\n2.5\n", NULL, "a:float64?");
    expect(harness, "a\n0\n-10\n", NULL, "a:int64?");
    expect(harness, "\"a,b\",\"c\"\"d\"\n\"1\",\"2\"", NULL, "\"a,b\":int64?,\"c\"\"d\":int64?");
    expect(harness, "\xef\xbb\xbf\"a\"\n1\n", NULL, "a:int64?");
    expect(harness, "a,b", NULL, "a:string?,b:string?");
    expect(harness, "a,b\r\n", NULL, "a:string?,b:string?");
    expect(harness, "a,b\n1,2\n3\n", NULL, "a:int64?,b:int64?");
}

static void test_declared(void **state)
{
    struct harness *harness = *state;
    expect(harness, "a,b\n1,2\n", "b:string", "a:int64?,b:string");
    expect(harness, "a,b\n1,2\n", "b:string,a:int8", "a:int8,b:string");
    expect(harness, "a,b\n1,2\n", "c:string", "declares column \"c\", which the header of");
    expect(harness, NULL, "c:string", "it has a, b");
    expect(harness, "a:int16,\"b:decimal(5,2)?\"\n1,2\n", NULL, "a:int16,b:decimal(5,2)?");
    expect(harness, "a:int16,\"b:decimal(5,2)?\"\n1,2\n", "b:float32", "a:int16,b:float32");
    expect(harness, "a:int16,b\n1,2\n", NULL, "\"a:int16\":int64?,b:int64?");
    expect(harness, "time:utc\n1\n", NULL, "\"time:utc\":int64?");
    harness_write(harness, "t.csv.schema", "b:int8\r\n", 8);
    expect(harness, "a,b\n1,2\n", NULL, "a:int64?,b:int8");
    static const char *const files[] = {"\xef\xbb\xbf\x62:int8", /* b, which \xbf would take for its own */
                                        "a:int64?\nb:int8\n", "a:int64?,\r\nb:int8\r\n\r\n",
                                        "\xef\xbb\xbf\na:int64?\n\n,  b:int8", "a:int64?\n\tb:int8"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        harness_write(harness, "t.csv.schema", files[i], strlen(files[i]));
        expect(harness, "a,b\n1,2\n", NULL, "a:int64?,b:int8");
    }
    harness_write(harness, "t.csv.schema", "\"a\nb\":int8\nc:bool", 17);
    expect(harness, "\"a\nb\",c\n1,true\n", NULL, "a\nb:int8,c:bool");
    harness_write(harness, "t.csv.schema", "b:int8\r\n", 8);
    expect(harness, "a,b\n1,2\n", "b:string", "a:int64?,b:string");
    expect(harness, "a:int16,b:int16\n1,2\n", NULL, "a:int16,b:int16");
    harness_write(harness, "t.csv.schema", "z:int8\n", 7);
    expect(harness, "a,b\n1,2\n", NULL, "t.csv.schema declares column \"z\"");
    harness_write(harness, "t.csv.schema", "nonsense\n", 9);
    expect(harness, "a,b\n1,2\n", NULL, "t.csv.schema: column \"nonsense\" lacks its type");
    expect(harness, "a,b\n1,2\n", "a:in", "type \"in\" is unknown");
    expect(harness, "a,b\n1,2\n", "a:in64", "type \"in64\" is unknown (did you mean \"int64\"?)");
    expect(harness, "a,b\n1,2\n", "a:varchar(10)?", "(did you mean \"string\"?)");
    expect(harness, "a,b\n1,2\n", "a:Decimal(3,1)", "(did you mean \"decimal\"?)");
    expect(harness, "a,b\n1,2\n", "a:geometry", "is unknown: it is one of");
}

static void test_bad_headers(void **state)
{
    struct harness *harness = *state;
    expect(harness, "a,,c\n", NULL, "t.csv:1: column 2 of the header has no name");
    expect(harness, "a,b,a\n", NULL, "t.csv:1: there are two columns named \"a\"");
    expect(harness, "a,b\"c\n", NULL, "t.csv:1: a quote inside an unquoted field, at byte 3");
    expect(harness, "a,\n\"b\n", NULL, "column 2 of the header has no name");
    expect(harness, "a,\"\nb\n", NULL, "t.csv:1: the quote at byte 2 is not closed");
    expect(harness, "\xef\xbb\xbf", NULL, "t.csv holds nothing");
    expect(harness, "amount,number\n1,2\n", "amuont:int64", "column \"amuont\" (did you mean \"amount\"?)");
    struct text many = {0};
    for (int i = 0; i <= SHUFFLE_COLUMNS_MAX; i++)
        text_printf(&many, "c%d,", i);
    expect(harness, many.data, NULL, "more than the 512 columns");
    free(many.data);
}

static void test_without_header(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path;
    assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", "1,x\n2,y\n", 8), &relation, &path, &error));
    relation.csv.header = false;
    assert_ok(shuffle_relation_list(&relation, path, &error));
    assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
    char *text = shuffle_schema_format(&relation.schema);
    assert_string_equal(text, "c1:int64?,c2:string?");
    free(text);
    assert_int_equal(shuffle_relation_resolve_schema(&relation, "a:int8", &error), BASE_PARSE);
    assert_text("declares 1 column, but the first record of");
    assert_ok(shuffle_relation_resolve_schema(&relation, "a:int8,b:string", &error));
    assert_int_equal(shuffle_schema_find(&relation.schema, "b"), 1);
    free(path);
    shuffle_relation_free(&relation);
}

/* CSV that begins a little like something else, or has zero bytes in a field all through. */
static void test_formats_that_are_csv(void **state)
{
    struct harness *harness = *state;
    static const char *const texts[] = {"BZh9,b\n1,2\n", "PK,b\n1,2\n"};
    char zeros[4096] = "key:int64,text:string\n0,";
    for (size_t i = strlen(zeros); i + 2 < sizeof zeros; i += 2)
        memcpy(zeros + i, "\0\xff", 2);
    zeros[sizeof zeros - 1] = '\n';
    for (size_t i = 0; i <= sizeof texts / sizeof *texts; i++) {
        const bool last = i == sizeof texts / sizeof *texts;
        struct base_error error = {0};
        struct shuffle_relation relation;
        char *path;
        harness_write(harness, "1.csv", last ? zeros : texts[i], last ? sizeof zeros : strlen(texts[i]));
        assert_ok(shuffle_relation_parse(harness->directory, &relation, &path, &error));
        assert_ok(shuffle_relation_list(&relation, path, &error));
        assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
        free(path);
        shuffle_relation_free(&relation);
    }
    unlink(harness_write(harness, "1.csv", "x", 1));
}

/* What is no CSV is named, wherever it is in the list of files, with a header and without. */
static void test_other_formats(void **state)
{
    struct harness *harness = *state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *words;
    } cases[] = {
#define CASE(data, words) {data, sizeof data - 1, words}
        CASE("\x1f\x8b\x08\0\0\0", "is a gzip file by its first bytes, not CSV: give it a name that ends in .gz"),
        CASE("PK\x03\x04....", "a zip file"),
        CASE("\xfd"
             "7zXZ\0..",
             "an xz file"),
        CASE("\x28\xb5\x2f\xfd....", "a zstd file"),
        CASE("BZh91AY&SY...", "a bzip2 file"),
        CASE("PAR1\x15\x04", "a Parquet file by its first bytes, not CSV: export"),
        CASE("ARROW1\0\0", "an Arrow (Feather) file"),
        CASE("FEA1\0\0\0\0", "a Feather file"),
        CASE("\x7f"
             "ELF\x02\x01",
             "an ELF program"),
        CASE("\xff\xfe"
             "a\0\n\0",
             "text in UTF-16"),
        CASE("\xfe\xff"
             "\0a\0\n",
             "text in UTF-16"),
        CASE("a\0,\0b\0\n\0"
             "1\0,\0\x32\0\n\0",
             "text in UTF-16"),
        CASE("\0a\0,\0b\0\n\0\x31\0,\0\x32\0\n", "text in UTF-16"),
        CASE("a\0\0\0\n\0\0\0", "text in UTF-32"),
        CASE("\0\0\xfe\xff\0\0\0a\0\0\0\n", "text in UTF-32"),
        CASE("{\"a\": 1}\n{\"a\": 2}\n", "is JSON by its first bytes"),
        CASE("[\n  {\n    \"a\": 1\n  }\n]\n", "is JSON by its first bytes"),
        CASE("a,b\r1,2\r3,4\r", "no line end but CR"),
        CASE("\"a\",\"b\"\r1,2\r", "no line end but CR"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = 0; how < 4; how++) {
            struct base_error error = {0};
            struct shuffle_relation relation;
            char *path;
            harness_write(harness, "1.csv", "a,b\n1,2\n", 8);
            harness_write(harness, how < 2 ? "1.csv" : "2.csv", cases[i].data, cases[i].bytes);
            assert_ok(shuffle_relation_parse(harness->directory, &relation, &path, &error));
            relation.csv.header = how % 2 == 0;
            assert_ok(shuffle_relation_list(&relation, path, &error));
            assert_int_equal(shuffle_relation_resolve_schema(&relation, NULL, &error), BASE_PARSE);
            assert_text(cases[i].words);
            assert_text(how < 2 ? "1.csv " : "2.csv ");
            free(path);
            shuffle_relation_free(&relation);
        }
    unlink(harness_write(harness, "1.csv", "x", 1));
    unlink(harness_write(harness, "2.csv", "x", 1));
    /* These look alike and are CSV. */
    expect(harness, "BZh,b\n1,2\n", NULL, "BZh:int64?,b:int64?");
    expect(harness, "PK,b\n1,2\n", NULL, "PK:int64?,b:int64?");
    expect(harness, "PAR1,PAR2\n1,2\n", NULL, "PAR1:int64?,PAR2:int64?");
    expect(harness, "FEA1\n1\n", NULL, "FEA1:int64?");
    expect(harness, "[x],{y}\n1,2\n", NULL, "[x]:int64?,{y}:int64?");
    expect(harness, "a,b\r", NULL, "no line end but CR");
    expect(harness, "a,\"b\rc\"", NULL, "a:string?,b\rc:string?");
}

/* A file that is one line end has no rows, unless there is one column: then a NULL. */
static void test_one_line_end_without_header(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    static const char *const declared[] = {NULL, "a:int8?", "a:int8?,b:string?"};
    static const char *const rows[] = {"-\n", "-\n", NULL};
    for (int i = 0; i < 3; i++)
        for (int crlf = 0; crlf < 2; crlf++) {
            struct shuffle_relation relation;
            struct text found = {0};
            char *path;
            harness_write(harness, "t.csv", crlf ? "\r\n" : "\n", 1 + (size_t)crlf);
            assert_ok(shuffle_relation_parse(harness->directory, &relation, &path, &error));
            relation.csv.header = false;
            assert_ok(shuffle_relation_list(&relation, path, &error));
            assert_ok(shuffle_relation_resolve_schema(&relation, declared[i], &error));
            const struct harness_scan how = {.morsel_bytes = 100, .block_bytes = 64};
            assert_ok(harness_scan(harness, &relation, &how, &found, &error));
            if (!rows[i])
                assert_int_equal(found.bytes, 0);
            else
                assert_string_equal(found.data, rows[i]);
            free(found.data);
            free(path);
            shuffle_relation_free(&relation);
        }
}

static void test_headers_must_agree(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    harness_write(harness, "1.csv", "a,b\n1,2\n", 8);
    harness_write(harness, "2.csv", "a,\"b\"\n1,2\n", 10);
    assert_ok(harness_relation(harness->directory, NULL, &relation, &error));
    shuffle_relation_free(&relation);
    harness_write(harness, "3.csv", "b,a\n1,2\n", 8);
    assert_int_equal(harness_relation(harness->directory, NULL, &relation, &error), BASE_PARSE);
    assert_text("column 1 is \"b\" in the header of");
    harness_write(harness, "3.csv", "a,b,c\n", 6);
    assert_int_equal(harness_relation(harness->directory, NULL, &relation, &error), BASE_PARSE);
    assert_text("has 3 columns");
}

static void test_fixed_files(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    const char *path = harness_write(harness, "t.bin", "123456789012", 12);
    assert_int_equal(harness_relation(path, NULL, &relation, &error), BASE_NOT_FOUND);
    assert_text("needs a schema");
    assert_int_equal(harness_relation(path, "a:int64", &relation, &error), BASE_PARSE);
    assert_text("has 12 bytes, which is no multiple of the 8 bytes of a row");
    assert_int_equal(harness_relation(path, "a:int64,s:string", &relation, &error), BASE_TYPE);
    assert_text("column \"s\" is of variable length");
    assert_ok(harness_relation(path, "a:int32,b:binary(2)", &relation, &error));
    assert_int_equal(relation.format, SHUFFLE_FORMAT_FIXED);
    struct shuffle_morsel *morsels;
    uint64_t count;
    assert_ok(shuffle_relation_divide(&relation, 7, &morsels, &count, &error));
    assert_int_equal(count, 2);
    assert_int_equal(morsels[1].begin, 6);
    assert_int_equal(morsels[1].end, 12);
    assert_false(shuffle_relation_needs_survey(&relation, 7));
    free(morsels);
    shuffle_relation_free(&relation);
    harness_write(harness, ".schema", "a:int32", 7);
    assert_ok(harness_relation(harness->directory, NULL, &relation, &error));
    assert_int_equal(relation.format, SHUFFLE_FORMAT_FIXED);
    shuffle_relation_free(&relation);
}

static void test_divide(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct shuffle_file files[3] = {{.bytes = 10}, {.bytes = 0}, {.bytes = 4}};
    struct shuffle_relation relation = {.format = SHUFFLE_FORMAT_CSV, .file_count = 3, .file = files};
    struct shuffle_morsel *morsels;
    uint64_t count;
    assert_ok(shuffle_relation_divide(&relation, 4, &morsels, &count, &error));
    assert_int_equal(count, 4);
    static const uint64_t expected[][3] = {{0, 0, 4}, {0, 4, 8}, {0, 8, 10}, {2, 0, 4}};
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(morsels[i].index, i);
        assert_int_equal(morsels[i].file, expected[i][0]);
        assert_int_equal(morsels[i].begin, expected[i][1]);
        assert_int_equal(morsels[i].end, expected[i][2]);
        assert_int_equal(morsels[i].line, 1);
    }
    assert_true(shuffle_relation_needs_survey(&relation, 9));
    assert_false(shuffle_relation_needs_survey(&relation, 10));
    free(morsels);
    struct shuffle_relation generated = {.placement = SHUFFLE_GENERATED, .generator = {.rows = 10, .row_bytes = 16}};
    assert_ok(shuffle_relation_divide(&generated, 64, &morsels, &count, &error));
    assert_int_equal(count, 3);
    assert_int_equal(morsels[2].begin, 8);
    assert_int_equal(morsels[2].end, 10);
    free(morsels);
    generated.generator.rows = 0;
    assert_ok(shuffle_relation_divide(&generated, 64, &morsels, &count, &error));
    assert_int_equal(count, 0);
    free(morsels);
}

static void test_survey_apply(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct shuffle_morsel morsels[4] = {{.file = 0}, {.file = 0}, {.file = 0}, {.file = 1, .quote_open = true}};
    struct shuffle_survey surveys[4] = {{2, 1, 5}, {0, 3, 2}, {3, 1, 1}, {1, 2, 4}};
    assert_ok(shuffle_survey_apply(surveys, morsels, 4, &error));
    static const uint64_t expected[4][2] = {{0, 1}, {1, 3}, {1, 7}, {0, 1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(morsels[i].quote_open, expected[i][0]);
        assert_int_equal(morsels[i].line, expected[i][1]);
    }
    surveys[3].index = 2;
    assert_int_equal(shuffle_survey_apply(surveys, morsels, 4, &error), BASE_PROTOCOL);
    assert_text("there twice");
    surveys[3].index = 4;
    assert_int_equal(shuffle_survey_apply(surveys, morsels, 4, &error), BASE_PROTOCOL);
    assert_text("of no morsel");
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gen_words),
        cmocka_unit_test(test_refused_words),
        cmocka_unit_test(test_paths),
        WITH_FILES(test_listing),
        WITH_FILES(test_folders_in_folders),
        WITH_FILES(test_inference),
        WITH_FILES(test_declared),
        WITH_FILES(test_bad_headers),
        WITH_FILES(test_without_header),
        WITH_FILES(test_headers_must_agree),
        WITH_FILES(test_other_formats),
        WITH_FILES(test_formats_that_are_csv),
        WITH_FILES(test_one_line_end_without_header),
        WITH_FILES(test_fixed_files),
        cmocka_unit_test(test_divide),
        cmocka_unit_test(test_survey_apply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
