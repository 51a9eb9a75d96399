#include "net/engine/socket_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/number.h"

enum { WORD_BYTES = 64 };

/* Settings that are sizes. */
static const struct size_setting {
    const char *word;
    size_t offset;
    uint32_t least;
} sizes[] = {
    {"send-buffer", offsetof(struct net_socket_settings, send_buffer_bytes), NET_SOCKET_BUFFER_BYTES_MIN},
    {"recv-buffer", offsetof(struct net_socket_settings, recv_buffer_bytes), NET_SOCKET_BUFFER_BYTES_MIN},
    {"notsent-lowat", offsetof(struct net_socket_settings, notsent_lowat_bytes), 1},
};

enum { SIZES = sizeof sizes / sizeof *sizes };

static enum base_status read_size(const struct size_setting *size, const char *text,
                                  struct net_socket_settings *settings, struct base_error *error)
{
    uint64_t value;
    if (!base_number_parse(text, &value))
        return base_error_set(error, BASE_INVALID,
                              "socket setting %s=%s is not a number up to %d: write " BASE_NUMBER_WORDS, size->word,
                              text, NET_SOCKET_BUFFER_BYTES_MAX);
    if (value != 0 && (value < size->least || value > NET_SOCKET_BUFFER_BYTES_MAX))
        return base_error_set(error, BASE_INVALID,
                              "socket setting %s=%s is out of range: it goes from %u to %d, or 0 for the default",
                              size->word, text, size->least, NET_SOCKET_BUFFER_BYTES_MAX);
    const uint32_t narrow = (uint32_t)value;
    memcpy((char *)settings + size->offset, &narrow, sizeof narrow);
    return BASE_OK;
}

/* Whether the name exists is the kernel's to say, on every node. */
static enum base_status read_congestion(const char *text, struct net_socket_settings *settings,
                                        struct base_error *error)
{
    const size_t bytes = strlen(text);
    const size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (bytes == 0 || bytes >= sizeof settings->congestion || plain != bytes)
        return base_error_set(
            error, BASE_INVALID,
            "socket setting congestion=%s is no name of a congestion control: cubic, reno and bbr are", text);
    memcpy(settings->congestion, text, bytes + 1);
    return BASE_OK;
}

static enum base_status read_nodelay(const char *text, struct net_socket_settings *settings, struct base_error *error)
{
    settings->nagle = strcmp(text, "off") == 0;
    if (!settings->nagle && strcmp(text, "on") != 0)
        return base_error_set(error, BASE_INVALID, "socket setting nodelay=%s is not understood: choose on or off",
                              text);
    return BASE_OK;
}

static enum base_status setting_unknown(const char *word, struct base_error *error)
{
    struct base_nearest nearest = base_nearest_to(word, strlen(word));
    base_nearest_offer(&nearest, "congestion");
    base_nearest_offer(&nearest, "nodelay");
    for (uint32_t i = 0; i < SIZES; i++)
        base_nearest_offer(&nearest, sizes[i].word);
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_INVALID,
                          "there is no socket setting \"%s\"%s: choose of congestion, send-buffer, recv-buffer, "
                          "notsent-lowat, nodelay",
                          word, base_nearest_hint(&nearest, "", hint));
}

/* Reads one setting; `seen` has a bit for each that was there before. */
static enum base_status read_setting(const char *word, const char *value, uint32_t *seen,
                                     struct net_socket_settings *settings, struct base_error *error)
{
    uint32_t which = 0;
    while (which < SIZES && strcmp(word, sizes[which].word) != 0)
        which++;
    if (which == SIZES)
        which += strcmp(word, "congestion") == 0 ? 0 : strcmp(word, "nodelay") == 0 ? 1 : 2;
    if (which == SIZES + 2)
        return setting_unknown(word, error);
    if (*seen & 1U << which)
        return base_error_set(error, BASE_INVALID, "socket setting %s is given twice: give it once", word);
    *seen |= 1U << which;
    if (which < SIZES)
        return read_size(&sizes[which], value, settings, error);
    return which == SIZES ? read_congestion(value, settings, error) : read_nodelay(value, settings, error);
}

/* Copies the next "word=value" of *text, which ends at a comma or the end. */
static enum base_status settings_next_word(const char **text, char *word, char **value, struct base_error *error)
{
    const size_t bytes = strcspn(*text, ",");
    const char *equals = memchr(*text, '=', bytes);
    if (!equals || bytes >= WORD_BYTES)
        return base_error_set(error, BASE_INVALID, "\"%.*s\" is no socket setting: write setting=value[,...]",
                              (int)(bytes < WORD_BYTES ? bytes : WORD_BYTES), *text);
    memcpy(word, *text, bytes);
    word[bytes] = '\0';
    *value = word + (equals - *text);
    *(*value)++ = '\0';
    *text += bytes;
    return BASE_OK;
}

enum base_status net_socket_settings_parse(const char *text, struct net_socket_settings *settings,
                                           struct base_error *error)
{
    struct net_socket_settings read = {0};
    uint32_t seen = 0;
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char word[WORD_BYTES];
        char *value;
        enum base_status status = settings_next_word(&at, word, &value, error);
        if (status == BASE_OK)
            status = read_setting(word, value, &seen, &read, error);
        if (status != BASE_OK)
            return status;
    }
    *settings = read;
    return BASE_OK;
}

static void settings_append(char *text, const char *word, const char *value)
{
    const size_t used = strlen(text);
    snprintf(text + used, NET_SOCKET_TEXT_BYTES - used, "%s%s=%s", used ? "," : "", word, value);
}

void net_socket_settings_format(const struct net_socket_settings *settings, char *text)
{
    *text = '\0';
    if (settings->congestion[0] != '\0')
        settings_append(text, "congestion", settings->congestion);
    for (size_t i = 0; i < SIZES; i++) {
        uint32_t value;
        char digits[16];
        memcpy(&value, (const char *)settings + sizes[i].offset, sizeof value);
        snprintf(digits, sizeof digits, "%u", value);
        if (value != 0)
            settings_append(text, sizes[i].word, digits);
    }
    if (settings->nagle)
        settings_append(text, "nodelay", "off");
}

bool net_socket_settings_equal(const struct net_socket_settings *a, const struct net_socket_settings *b)
{
    return strcmp(a->congestion, b->congestion) == 0 && a->send_buffer_bytes == b->send_buffer_bytes &&
           a->recv_buffer_bytes == b->recv_buffer_bytes && a->notsent_lowat_bytes == b->notsent_lowat_bytes &&
           a->nagle == b->nagle;
}
