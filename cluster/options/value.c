#include "cluster/options/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "net/engine/engine.h"

const struct option_choice option_engine_choices[] = {{"auto", 0},
#define X(name, word, features, idea) {word, 0},
                                                      NET_RUNG_LIST(X)
#undef X
                                                          {NULL, 0}};

enum base_status option_read_flag(const struct option_row *row, const char *text, void *target,
                                  struct base_error *error)
{
    (void)text;
    (void)error;
    BASE_ASSERT(row->bytes == sizeof(bool));
    *(bool *)option_field(row, target) = true;
    return BASE_OK;
}

static enum base_status check_length(const struct option_row *row, const char *text, struct base_error *error)
{
    if (row->most == 0 || strlen(text) <= row->most)
        return BASE_OK;
    return base_error_set(error, BASE_INVALID,
                          "--%s=%.40s... has %zu bytes, at most %" PRIu64 " are allowed: make it shorter", row->name,
                          text, strlen(text), row->most);
}

enum base_status option_read_borrowed(const struct option_row *row, const char *text, void *target,
                                      struct base_error *error)
{
    const enum base_status status = check_length(row, text, error);
    if (status == BASE_OK)
        *(const char **)option_field(row, target) = text;
    return status;
}

enum base_status option_read_text(const struct option_row *row, const char *text, void *target,
                                  struct base_error *error)
{
    char **copy = option_field(row, target);
    const enum base_status status = check_length(row, text, error);
    if (status != BASE_OK)
        return status;
    BASE_ASSERT(!*copy);
    *copy = strdup(text);
    if (!*copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
    return BASE_OK;
}

bool option_takes_any(const struct option_row *row)
{
    return row->read == option_read_borrowed || row->read == option_read_text;
}

enum base_status option_read_number(const struct option_row *row, const char *text, void *target,
                                    struct base_error *error)
{
    uint64_t value;
    const char *zero = row->zero ? ", or 0 for the default" : "";
    if (!base_number_parse(text, &value))
        return base_error_set(error, BASE_INVALID,
                              "--%s=%.80s is not a number from %" PRIu64 " to %" PRIu64 "%s: write " BASE_NUMBER_WORDS,
                              row->name, text, row->least, row->most, zero);
    if ((value != 0 || !row->zero) && (value < row->least || value > row->most))
        return base_error_set(error, BASE_INVALID,
                              "--%s=%.80s is out of range: it goes from %" PRIu64 " to %" PRIu64 "%s", row->name, text,
                              row->least, row->most, zero);
    const uint32_t narrow = (uint32_t)value;
    BASE_ASSERT(row->bytes == sizeof value || (row->bytes == sizeof narrow && value == narrow));
    if (row->bytes == sizeof narrow)
        memcpy(option_field(row, target), &narrow, sizeof narrow);
    else
        memcpy(option_field(row, target), &value, sizeof value);
    return BASE_OK;
}

enum base_status option_read_choice(const struct option_row *row, const char *text, void *target,
                                    struct base_error *error)
{
    char list[128] = "", hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest nearest = base_nearest_to(text, strlen(text));
    for (const struct option_choice *choice = row->choice; choice->word; choice++) {
        if (strcmp(text, choice->word) == 0) {
            BASE_ASSERT(row->bytes == sizeof(bool) || row->bytes == sizeof(int));
            if (row->bytes == sizeof(bool))
                *(bool *)option_field(row, target) = choice->value != 0;
            else
                memcpy(option_field(row, target), &choice->value, sizeof choice->value);
            return BASE_OK;
        }
        base_nearest_offer(&nearest, choice->word);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", choice->word);
    }
    return base_error_set(error, BASE_INVALID, "--%s=%.80s is not understood%s: choose one of %s", row->name, text,
                          base_nearest_hint(&nearest, "", hint), list);
}

enum base_status option_read_engine(const struct option_row *row, const char *text, void *target,
                                    struct base_error *error)
{
    struct base_error inner = {0};
    const enum base_status status = net_engine_choice_parse(text, option_field(row, target), &inner);
    return status == BASE_OK ? status : base_error_set(error, status, "--%s=%.80s: %s", row->name, text, inner.text);
}

enum base_status option_read_address(const struct option_row *row, const char *text, void *target,
                                     struct base_error *error)
{
    struct base_error inner = {0};
    const enum base_status status = net_address_parse(text, option_field(row, target), &inner);
    return status == BASE_OK ? status : base_error_set(error, status, "--%s=%.80s: %s", row->name, text, inner.text);
}
