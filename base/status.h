/* The one status enum of Millrace and the error that carries it with words.
 *
 * A function that can fail returns `enum base_status`; outputs are written only when it returns BASE_OK.
 * Where a person will read the failure the function also takes a `struct base_error *`, which the layer that
 * detects the failure fills once: what happened, where, and what to do. Layers above pass it on unchanged.
 */
#ifndef MILLRACE_BASE_STATUS_H
#define MILLRACE_BASE_STATUS_H

#include <stdbool.h>

/* X(name, blast radius, rank, words). The blast radius says what is lost: the operation, the lane, the node or the job.
 * The rank says which of several errors of one fault a person should read: a CAUSE says what went wrong where it did; a
 * SYMPTOM is how somebody else's fault may look, though it can be a fault of its own; an ECHO is what all neighbours of
 * a fault feel when it has brought connections down. */
#define BASE_STATUS_LIST(X)                                                                                            \
    X(OK, OPERATION, CAUSE, "ok")                                                                                      \
    X(BUSY, OPERATION, CAUSE, "busy: try again after the next completion")                                             \
    X(END, OPERATION, CAUSE, "end of input")                                                                           \
    X(INVALID, OPERATION, CAUSE, "invalid argument")                                                                   \
    X(NOT_FOUND, OPERATION, CAUSE, "not found")                                                                        \
    X(EXISTS, OPERATION, CAUSE, "exists already")                                                                      \
    X(DENIED, OPERATION, CAUSE, "permission denied")                                                                   \
    X(UNSUPPORTED, OPERATION, CAUSE, "not supported here")                                                             \
    X(TOO_LARGE, OPERATION, CAUSE, "larger than its limit")                                                            \
    X(TIMEOUT, OPERATION, SYMPTOM, "deadline passed")                                                                  \
    X(IO, OPERATION, CAUSE, "input/output error")                                                                      \
    X(NO_SPACE, OPERATION, CAUSE, "no space left on the device")                                                       \
    X(PEER_CLOSED, LANE, ECHO, "peer closed the connection before its streams ended")                                  \
    X(PEER_RESET, LANE, ECHO, "peer reset the connection")                                                             \
    X(FRAME_CORRUPT, LANE, CAUSE, "frame does not decode")                                                             \
    X(FRAME_SEQUENCE, LANE, CAUSE, "frame out of sequence")                                                            \
    X(LANE_TOTALS, LANE, CAUSE, "totals at end of stream differ")                                                      \
    X(NO_MEMORY, NODE, CAUSE, "memory budget exceeded")                                                                \
    X(NODE_LOST, NODE, CAUSE, "node lost")                                                                             \
    X(UNREACHABLE, NODE, SYMPTOM, "node cannot be reached over the network")                                           \
    X(NODE_REFUSED, NODE, SYMPTOM, "node refused the connection")                                                      \
    X(NODE_MISSING, NODE, CAUSE, "node missing")                                                                       \
    X(PROTOCOL, NODE, CAUSE, "message violates the protocol")                                                          \
    X(VERSION, NODE, CAUSE, "versions differ")                                                                         \
    X(PARSE, JOB, CAUSE, "input does not parse")                                                                       \
    X(TYPE, JOB, CAUSE, "types do not match")                                                                          \
    X(CANCELLED, JOB, CAUSE, "cancelled")                                                                              \
    X(INTERNAL, JOB, CAUSE, "internal error")                                                                          \
    X(ENGINE_BROKEN, NODE, CAUSE, "io_uring of this node broke")

enum base_status {
#define X(name, radius, rank, words) BASE_##name,
    BASE_STATUS_LIST(X)
#undef X
        BASE_STATUS_COUNT
};

enum base_radius { BASE_RADIUS_OPERATION, BASE_RADIUS_LANE, BASE_RADIUS_NODE, BASE_RADIUS_JOB };
enum base_rank { BASE_RANK_ECHO, BASE_RANK_SYMPTOM, BASE_RANK_CAUSE };

enum { BASE_ERROR_TEXT_BYTES = 768 };

/* A status with the sentence a person reads. Value type: copy it freely. Zero-initialised means "no error". */
struct base_error {
    enum base_status status;
    char text[BASE_ERROR_TEXT_BYTES];
};

/* Static string such as "busy: try again after the next completion"; never NULL, also for values out of range. */
const char *base_status_words(enum base_status status);
/* Static identifier such as "FRAME_CORRUPT"; never NULL. */
const char *base_status_name(enum base_status status);
/* Can it be the reason why something failed for good? Not OK, BUSY, END, nor a value out of range. */
bool base_status_is_failure(enum base_status status);
/* The status to tell others of something that failed: EAGAIN and EINTR of a kernel, which are BUSY, say nothing there.
 * INTERNAL for all that base_status_is_failure denies. */
enum base_status base_status_as_failure(enum base_status status);
enum base_radius base_status_radius(enum base_status status);
/* Larger is better to tell. */
enum base_rank base_status_rank(enum base_status status);

/* Converts an errno (positive). Called where the system call was made, nowhere else. Unknown values give BASE_IO. */
enum base_status base_status_from_errno(int errno_value);

/* Fills *error (may be NULL) with status and the formatted text, truncated to BASE_ERROR_TEXT_BYTES on a UTF-8
 * boundary. Returns status, so that `return base_error_set(error, BASE_PARSE, ...)` reads well. */
enum base_status base_error_set(struct base_error *error, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As base_error_set with the status of errno_value; ": strerror" is appended to the text, and after EACCES the user. */
enum base_status base_error_set_errno(struct base_error *error, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* The analyser sees one file at a time, and would believe that a failure can come back as BASE_OK. */
static inline enum base_status base_status_is(enum base_status returned, enum base_status status)
{
    (void)returned;
    return status;
}
#define base_error_set(error, status, ...) base_status_is(base_error_set(error, status, __VA_ARGS__), status)
#define base_error_set_errno(error, errno_value, ...)                                                                  \
    base_status_is(base_error_set_errno(error, errno_value, __VA_ARGS__), BASE_IO)
#endif

#endif
