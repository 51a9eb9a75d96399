#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    const char *words;
    enum base_radius radius;
    enum base_rank rank;
} statuses[] = {
#define X(name, radius, rank, words) [BASE_##name] = {#name, words, BASE_RADIUS_##radius, BASE_RANK_##rank},
    BASE_STATUS_LIST(X)
#undef X
};

static bool status_is_known(enum base_status status)
{
    return (unsigned)status < BASE_STATUS_COUNT;
}

const char *base_status_words(enum base_status status)
{
    return status_is_known(status) ? statuses[status].words : "unknown status";
}

const char *base_status_name(enum base_status status)
{
    return status_is_known(status) ? statuses[status].name : "UNKNOWN";
}

bool base_status_is_failure(enum base_status status)
{
    return status_is_known(status) && status != BASE_OK && status != BASE_BUSY && status != BASE_END;
}

enum base_status base_status_as_failure(enum base_status status)
{
    return base_status_is_failure(status) ? status : BASE_INTERNAL;
}

enum base_radius base_status_radius(enum base_status status)
{
    return status_is_known(status) ? statuses[status].radius : BASE_RADIUS_JOB;
}

enum base_rank base_status_rank(enum base_status status)
{
    return status_is_known(status) ? statuses[status].rank : BASE_RANK_CAUSE;
}

enum base_status base_status_from_errno(int errno_value)
{
    static const struct {
        int errno_value;
        enum base_status status;
    } conversions[] = {
        {0, BASE_OK},
        {EAGAIN, BASE_BUSY},
        {EINTR, BASE_BUSY},
        {EINPROGRESS, BASE_BUSY},
        {EINVAL, BASE_INVALID},
        {EISDIR, BASE_INVALID},
        {ENOTDIR, BASE_INVALID},
        {ENOENT, BASE_NOT_FOUND},
        {EEXIST, BASE_EXISTS},
        {EADDRINUSE, BASE_EXISTS},
        {ENOTEMPTY, BASE_EXISTS},
        {EACCES, BASE_DENIED},
        {EPERM, BASE_DENIED},
        {EROFS, BASE_DENIED},
        {ENOSYS, BASE_UNSUPPORTED},
        {EOPNOTSUPP, BASE_UNSUPPORTED},
        {EAFNOSUPPORT, BASE_UNSUPPORTED},
        {EPROTONOSUPPORT, BASE_UNSUPPORTED},
        {E2BIG, BASE_TOO_LARGE},
        {EFBIG, BASE_TOO_LARGE},
        {EMSGSIZE, BASE_TOO_LARGE},
        {ENAMETOOLONG, BASE_TOO_LARGE},
        {EOVERFLOW, BASE_TOO_LARGE},
        {ETIMEDOUT, BASE_TIMEOUT},
        {ETIME, BASE_TIMEOUT},
        {ENOSPC, BASE_NO_SPACE},
        {EDQUOT, BASE_NO_SPACE},
        {ECONNRESET, BASE_PEER_RESET},
        {ECONNABORTED, BASE_PEER_RESET},
        {EPIPE, BASE_PEER_RESET},
        {ENOTCONN, BASE_PEER_RESET},
        {ENOMEM, BASE_NO_MEMORY},
        {ENOBUFS, BASE_NO_MEMORY},
        {ECONNREFUSED, BASE_NODE_REFUSED},
        {EHOSTUNREACH, BASE_UNREACHABLE},
        {EHOSTDOWN, BASE_UNREACHABLE},
        {ENETUNREACH, BASE_UNREACHABLE},
        {ENETDOWN, BASE_UNREACHABLE},
        {EPROTO, BASE_PROTOCOL},
        {ECANCELED, BASE_CANCELLED},
    };
    for (size_t i = 0; i < sizeof conversions / sizeof conversions[0]; i++) {
        if (conversions[i].errno_value == errno_value)
            return conversions[i].status;
    }
    return BASE_IO;
}

/* Length of text without a UTF-8 sequence that its end splits. */
static size_t whole_characters(const char *text, size_t bytes)
{
    size_t start = bytes;
    while (start > 0 && bytes - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return bytes;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needs = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return bytes - (start - 1) < needs ? start - 1 : bytes;
}

/* Appends to error->text, which is terminated, and truncates at its end. */
static void text_append(struct base_error *error, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void text_append(struct base_error *error, const char *format, va_list arguments)
{
    size_t used = strlen(error->text);
    size_t space = sizeof error->text - used;
    int wanted = vsnprintf(error->text + used, space, format, arguments);
    if (wanted < 0) {
        error->text[used] = '\0';
    } else if ((size_t)wanted >= space) {
        error->text[whole_characters(error->text, sizeof error->text - 1)] = '\0';
    }
}

static void text_append_string(struct base_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void text_append_string(struct base_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_append(error, format, arguments);
    va_end(arguments);
}

/* Arguments may point into error->text itself ("%s: while doing this", error->text), hence the copy. */
static void error_fill(struct base_error *error, enum base_status status, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void error_fill(struct base_error *error, enum base_status status, const char *format, va_list arguments)
{
    struct base_error fresh = {.status = status};
    text_append(&fresh, format, arguments);
    *error = fresh;
}

#undef base_error_set /* the analyser's, see the header */
#undef base_error_set_errno

enum base_status base_error_set(struct base_error *error, enum base_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        error_fill(error, status, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum base_status base_error_set_errno(struct base_error *error, int errno_value, const char *format, ...)
{
    enum base_status status = base_status_from_errno(errno_value);
    if (error) {
        char words[128];
        va_list arguments;
        va_start(arguments, format);
        error_fill(error, status, format, arguments);
        va_end(arguments);
        text_append_string(error, ": %s", strerror_r(errno_value, words, sizeof words));
        if (errno_value == EACCES) /* who was denied: a daemon is often another user than its client */
            text_append_string(error, " (running as user %u)", (unsigned)geteuid());
    }
    return status;
}
