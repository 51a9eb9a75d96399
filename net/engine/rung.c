/* Names and meaning of rungs, features and options: tables made from the lists in the header. */
#include "net/engine/rung.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/nearest.h"

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

struct option {
    const char *word, *idea;
    enum net_feature feature;
    enum net_option_value value;
};

static const struct option options[NET_OPTION_COUNT] = {
#define X(name, word, value, idea) {word, idea, NET_FEATURE_##name, value},
    NET_OPTION_LIST(X)
#undef X
};

static const uint32_t options_all = 0
#define X(name, word, value, idea) | NET_FEATURE_##name
    NET_OPTION_LIST(X)
#undef X
    ;

static bool rung_word_is(const char *word, const char *text, size_t bytes)
{
    return strncmp(word, text, bytes) == 0 && word[bytes] == '\0';
}

static int rung_find(const char *text, size_t bytes)
{
    int kind = 0;
    while (kind < NET_ENGINE_KIND_COUNT && !rung_word_is(rungs[kind].word, text, bytes))
        kind++;
    return kind;
}

static int option_find(const char *text, size_t bytes)
{
    int option = 0;
    while (option < NET_OPTION_COUNT && !rung_word_is(options[option].word, text, bytes))
        option++;
    return option;
}

static enum base_status rung_unknown(const char *text, size_t bytes, struct base_error *error)
{
    char list[256] = "", hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest nearest = base_nearest_to(text, bytes);
    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", rungs[kind].word);
        base_nearest_offer(&nearest, rungs[kind].word);
    }
    return base_error_set(error, BASE_INVALID, "there is no engine \"%.*s\"%s: choose one of %s", (int)bytes, text,
                          base_nearest_hint(&nearest, "", hint), list);
}

static enum base_status option_unknown(const char *text, size_t bytes, struct base_error *error)
{
    char list[128] = "", hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest nearest = base_nearest_to(text, strcspn(text, "=+") < bytes ? strcspn(text, "=+") : bytes);
    for (int option = 0; option < NET_OPTION_COUNT; option++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s%s", used ? ", " : "", options[option].word,
                 options[option].value == NET_OPTION_TIME ? "=US" : "");
        base_nearest_offer(&nearest, options[option].word);
    }
    return base_error_set(error, BASE_INVALID, "there is no engine option \"%.*s\"%s: options after NAME+ are %s",
                          (int)bytes, text, base_nearest_hint(&nearest, "", hint), list);
}

/* Reads "50" or "50us" of exactly these bytes; 0 for anything else. */
static uint32_t time_read(const char *text, size_t bytes)
{
    uint32_t us = 0;
    size_t at = 0;
    for (; at < bytes && text[at] >= '0' && text[at] <= '9' && us <= NET_OPTION_US_MAX; at++)
        us = us * 10 + (uint32_t)(text[at] - '0');
    if (at == 0 || !(at == bytes || rung_word_is("us", text + at, bytes - at)) || us > NET_OPTION_US_MAX)
        return 0;
    return us;
}

/* Reads one option of exactly these bytes into choice. */
static enum base_status option_read(const char *text, size_t bytes, struct net_engine_choice *choice,
                                    struct base_error *error)
{
    const char *equals = memchr(text, '=', bytes);
    const size_t word_bytes = equals ? (size_t)(equals - text) : bytes;
    const int option = option_find(text, word_bytes);
    if (option == NET_OPTION_COUNT)
        return option_unknown(text, word_bytes, error);
    const struct option *found = &options[option];
    if (choice->options & (uint32_t)found->feature)
        return base_error_set(error, BASE_INVALID, "the engine option %s is there twice", found->word);
    if (equals && found->value == NET_OPTION_PLAIN)
        return base_error_set(error, BASE_INVALID, "the engine option %s takes no value", found->word);
    uint32_t us = found->value == NET_OPTION_TIME_OR_DEFAULT ? NET_NAPI_US_DEFAULT : 0;
    if (equals)
        us = time_read(equals + 1, bytes - word_bytes - 1);
    if (us == 0 && found->value != NET_OPTION_PLAIN)
        return base_error_set(error, BASE_INVALID,
                              "the engine option %s takes a time of 1 to %d microseconds, as in %s=50us", found->word,
                              NET_OPTION_US_MAX, found->word);
    choice->options |= (uint32_t)found->feature;
    choice->option_us[option] = us;
    return BASE_OK;
}

enum base_status net_engine_choice_parse(const char *text, struct net_engine_choice *choice, struct base_error *error)
{
    size_t bytes = strcspn(text, "+");
    const int kind = rung_find(text, bytes);
    if (kind == NET_ENGINE_KIND_COUNT)
        return rung_unknown(text, bytes, error);
    struct net_engine_choice read = {.kind = (enum net_engine_kind)kind};
    for (text += bytes; *text == '+'; text += bytes) {
        bytes = strcspn(++text, "+");
        const enum base_status status = option_read(text, bytes, &read, error);
        if (status != BASE_OK)
            return status;
    }
    const enum base_status status = net_engine_choice_check(&read, error);
    if (status == BASE_OK)
        *choice = read;
    return status;
}

void net_engine_choice_format(const struct net_engine_choice *choice, char text[NET_CHOICE_TEXT_BYTES])
{
    int used = snprintf(text, NET_CHOICE_TEXT_BYTES, "%s", rungs[choice->kind].word);
    for (int option = 0; option < NET_OPTION_COUNT; option++) {
        if (!(choice->options & (uint32_t)options[option].feature))
            continue;
        used += snprintf(text + used, NET_CHOICE_TEXT_BYTES - (size_t)used, "+%s", options[option].word);
        if (options[option].value != NET_OPTION_PLAIN)
            used += snprintf(text + used, NET_CHOICE_TEXT_BYTES - (size_t)used, "=%uus", choice->option_us[option]);
        BASE_ASSERT(used < NET_CHOICE_TEXT_BYTES);
    }
}

static enum base_status times_check(const struct net_engine_choice *choice, struct base_error *error)
{
    for (int option = 0; option < NET_OPTION_COUNT; option++) {
        const bool timed =
            (choice->options & (uint32_t)options[option].feature) && options[option].value != NET_OPTION_PLAIN;
        const uint32_t us = choice->option_us[option];
        if (timed ? us == 0 || us > NET_OPTION_US_MAX : us != 0)
            return base_error_set(error, BASE_INVALID, "the engine option %s cannot be %u us", options[option].word,
                                  us);
    }
    return BASE_OK;
}

enum base_status net_engine_choice_check(const struct net_engine_choice *choice, struct base_error *error)
{
    if ((unsigned)choice->kind >= NET_ENGINE_KIND_COUNT)
        return base_error_set(error, BASE_INVALID, "engine number %u is unknown", (unsigned)choice->kind);
    const struct rung *rung = &rungs[choice->kind];
    const uint32_t asked = choice->options;
    if (asked & ~options_all)
        return base_error_set(error, BASE_INVALID, "engine option bits %#x are unknown", asked & ~options_all);
    if (asked != 0 && choice->kind == NET_ENGINE_AUTO)
        return base_error_set(error, BASE_INVALID,
                              "auto takes no options, because it may choose epoll: name a rung, as in "
                              "uring+%s",
                              feature_words[__builtin_ctz(asked)]);
    const uint32_t of_uring = asked & ~(uint32_t)NET_FEATURE_ZC_ALWAYS;
    if (of_uring != 0 && !(rung->features & NET_FEATURE_URING))
        return base_error_set(error, BASE_INVALID,
                              "%s is an option of io_uring, which %s does not use: choose a uring rung",
                              feature_words[__builtin_ctz(of_uring)], rung->word);
    if ((asked & NET_FEATURE_ZC_ALWAYS) && !(rung->features & NET_FEATURE_SEND_ZC))
        return base_error_set(
            error, BASE_INVALID,
            "%s sends with a copy, so there is nothing that zc-always could keep on: choose epoll-zc or "
            "uring-send-zc",
            rung->word);
    if ((asked & NET_FEATURE_SQPOLL) && (asked & NET_FEATURE_COOP_TASKRUN))
        return base_error_set(
            error, BASE_INVALID,
            "sqpoll and coop-taskrun exclude each other: with sqpoll a kernel thread runs the task work, "
            "and nobody is interrupted");
    if ((asked & NET_FEATURE_SQPOLL) && (rung->features & NET_FEATURE_RECV_ZC))
        return base_error_set(error, BASE_INVALID,
                              "%s needs deferred task work, which sqpoll replaces: choose another rung with sqpoll",
                              rung->word);
    if ((asked & NET_FEATURE_INCREMENTAL) &&
        (rung->features & (NET_FEATURE_MULTISHOT | NET_FEATURE_RECV_ZC)) != NET_FEATURE_MULTISHOT)
        return base_error_set(error, BASE_INVALID,
                              "incremental is about provided buffers, which %s does not use: choose uring-multishot, "
                              "uring-bundle or uring-send-zc",
                              rung->word);
    if ((asked & NET_FEATURE_COOP_TASKRUN) && (rung->features & NET_FEATURE_DEFER_TASKRUN))
        return base_error_set(error, BASE_INVALID,
                              "%s defers task work already, which goes further than coop-taskrun: choose "
                              "uring-naive+coop-taskrun",
                              rung->word);
    return times_check(choice, error);
}

bool net_engine_choice_equal(const struct net_engine_choice *a, const struct net_engine_choice *b)
{
    return a->kind == b->kind && a->options == b->options &&
           memcmp(a->option_us, b->option_us, sizeof a->option_us) == 0;
}

uint32_t net_engine_choice_features(const struct net_engine_choice *choice)
{
    uint32_t features = net_rung_features(choice->kind) | choice->options;
    if (features & NET_FEATURE_SQPOLL)
        features &= ~(uint32_t)NET_FEATURE_DEFER_TASKRUN;
    if (features & NET_FEATURE_INCREMENTAL)
        features &= ~(uint32_t)NET_FEATURE_BUNDLE;
    return features;
}

const char *net_option_word(enum net_option_index option)
{
    return options[option].word;
}

const char *net_option_idea(enum net_option_index option)
{
    return options[option].idea;
}

enum net_feature net_option_feature(enum net_option_index option)
{
    return options[option].feature;
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
