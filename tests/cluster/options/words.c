#include "tests/cluster/options/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS_MAX = 64 };

struct words words;

enum cluster_args_outcome words_parse(const char *line)
{
    static char copy[1024];
    char *argv[WORDS_MAX + 1] = {(char[]){"millrace"}}, *rest = NULL;
    int argc = 1;
    assert_true(strlen(line) < sizeof copy);
    strcpy(copy, line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    free(words.printed);
    size_t bytes;
    FILE *out = open_memstream(&words.printed, &bytes);
    assert_non_null(out);
    const enum cluster_args_outcome outcome = cluster_client_args_parse(argc, argv, out, &words.args, &words.error);
    fclose(out);
    return outcome;
}

const struct cluster_submit *words_take(const char *line)
{
    if (words_parse(line) != CLUSTER_ARGS_RUN)
        fail_msg("%s: %s", line, words.error.text);
    return &words.args.submit;
}

void words_refuse(const char *line, const char *said)
{
    assert_int_equal(words_parse(line), CLUSTER_ARGS_WRONG);
    assert_int_not_equal(words.error.status, BASE_OK);
    if (!strstr(words.error.text, said))
        fail_msg("%s: \"%s\" does not say \"%s\"", line, words.error.text, said);
    assert_null(strchr(words.error.text, '\n'));
}

void words_free(void)
{
    cluster_client_args_free(&words.args);
}

int words_forget(void **state)
{
    (void)state;
    free(words.printed);
    words.printed = NULL;
    return 0;
}
