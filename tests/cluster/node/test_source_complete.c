/* Results as sources: whole, without their marker, without a part; and which option the advice names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/node/source_complete.h"

#define ROWS "id,name\n1,a\n2,b\n"

static char folder[] = "/tmp/millrace-complete-XXXXXX";
static char part[2][64], marker[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    for (int i = 0; i < 2; i++)
        snprintf(part[i], sizeof part[i], "%s/part-%05d.csv", folder, i);
    snprintf(marker, sizeof marker, "%s/_SUCCESS.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(part[0]);
    unlink(part[1]);
    unlink(marker);
    return rmdir(folder);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_result(void)
{
    char text[128];
    write_file(part[0], ROWS);
    write_file(part[1], ROWS);
    snprintf(text, sizeof text, "{\"parts\": 2, \"bytes\": %zu, \"rows\": 4}", 2 * strlen(ROWS));
    write_file(marker, text);
}

/* Looks at the folder as a source; *rows is UINT64_MAX when they are not known. */
static enum base_status look(const char *side, uint64_t *rows, struct base_error *error)
{
    struct shuffle_relation relation;
    char *path;
    memset(&relation, 0, sizeof relation);
    assert_int_equal(shuffle_relation_parse(folder, &relation, &path, error), BASE_OK);
    assert_int_equal(shuffle_relation_list(&relation, path, error), BASE_OK);
    const enum base_status status = cluster_source_complete(path, side, &relation, error);
    *rows = relation.rows_known ? relation.rows : UINT64_MAX;
    shuffle_relation_free(&relation);
    free(path);
    return status;
}

static void a_whole_result_has_known_rows(void **state)
{
    (void)state;
    struct base_error error;
    uint64_t rows;
    write_result();
    assert_int_equal(look("", &rows, &error), BASE_OK);
    assert_int_equal(rows, 4);
}

/* The option that reads it all the same is that of the side which is asked about. */
static void the_advice_names_the_side(void **state)
{
    (void)state;
    static const char *const sides[] = {"", "left-", "right-"};
    struct base_error error;
    uint64_t rows;
    for (int fault = 0; fault < 4; fault++) {
        write_result();
        if (fault == 0)
            unlink(marker);
        else if (fault == 1)
            unlink(part[1]);
        else if (fault == 2)
            write_file(marker, "{}");
        else
            write_file(part[1], ROWS "3,c\n");
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
            char option[32];
            snprintf(option, sizeof option, " --%sincomplete=yes", sides[i]);
            assert_int_equal(look(sides[i], &rows, &error), BASE_IO);
            if (!strstr(error.text, option) || strstr(error.text, "(null)"))
                fail_msg("fault %d: no%s in: %s", fault, option, error.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_result_has_known_rows),
        cmocka_unit_test(the_advice_names_the_side),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
