/* Names and meaning of rungs, features and options: tables made from the lists in the header. */
#include "net/rung.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

struct rung {
    const char *word, *idea;
    uint32_t features;
};

static const struct rung rungs[NET_ENGINE_KIND_COUNT] = {
#define X(name, word, features, idea) [NET_ENGINE_##name] = {word, idea, features},
    NET_RUNG_LIST(X)
#undef X
        [NET_ENGINE_AUTO] = {"auto", "uring where io_uring works, else epoll", 0}};

static const char *const feature_words[NET_FEATURE_COUNT] = {
#define X(name, word) word,
    NET_FEATURE_LIST(X)
#undef X
};

static enum net_engine_kind rung_find(const char *word, size_t bytes)
{
    int kind = 0;
    while (kind < NET_ENGINE_KIND_COUNT && (strncmp(rungs[kind].word, word, bytes) != 0 || rungs[kind].word[bytes]))
        kind++;
    return (enum net_engine_kind)kind;
}

static enum base_status rung_unknown(const char *text, struct base_error *error)
{
    char list[256] = "";
    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", rungs[kind].word);
    }
    return base_error_set(error, BASE_INVALID, "there is no engine \"%s\": choose one of %s", text, list);
}

enum base_status net_engine_choice_parse(const char *text, struct net_engine_choice *choice, struct base_error *error)
{
    const struct net_engine_choice read = {.kind = rung_find(text, strlen(text))};
    if (read.kind == NET_ENGINE_KIND_COUNT)
        return rung_unknown(text, error);
    *choice = read;
    return BASE_OK;
}

void net_engine_choice_format(const struct net_engine_choice *choice, char text[NET_CHOICE_TEXT_BYTES])
{
    snprintf(text, NET_CHOICE_TEXT_BYTES, "%s", rungs[choice->kind].word);
}

enum base_status net_engine_choice_check(const struct net_engine_choice *choice, struct base_error *error)
{
    if ((unsigned)choice->kind >= NET_ENGINE_KIND_COUNT)
        return base_error_set(error, BASE_INVALID, "engine number %u is unknown", (unsigned)choice->kind);
    return BASE_OK;
}

bool net_engine_choice_equal(const struct net_engine_choice *a, const struct net_engine_choice *b)
{
    return a->kind == b->kind;
}

const char *net_rung_word(enum net_engine_kind kind)
{
    return rungs[kind].word;
}

const char *net_rung_idea(enum net_engine_kind kind)
{
    return rungs[kind].idea;
}

uint32_t net_rung_features(enum net_engine_kind kind)
{
    return rungs[kind == NET_ENGINE_AUTO ? NET_ENGINE_URING : kind].features;
}

const char *net_feature_word(enum net_feature feature)
{
    BASE_ASSERT(feature != 0 && ((unsigned)feature & ((unsigned)feature - 1)) == 0);
    return feature_words[__builtin_ctz((unsigned)feature)];
}

int net_features_format(uint32_t features, char *text, size_t text_bytes)
{
    int used = 0;
    if (text_bytes > 0)
        *text = '\0';
    for (uint32_t left = features; left != 0; left &= left - 1) {
        const size_t at = (size_t)used < text_bytes ? (size_t)used : text_bytes;
        used += snprintf(text + at, text_bytes - at, "%s%s", used ? " " : "", feature_words[__builtin_ctz(left)]);
    }
    return used;
}
