/* What a process says that does something forbidden: runs it in a child and keeps its standard error. */
#ifndef MILLRACE_TESTS_CHILD_OUTPUT_H
#define MILLRACE_TESTS_CHILD_OUTPUT_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* True: it ended by itself with exit code 0. *aborted: an assertion ended it. */
static inline bool child_output(void (*run)(void *context), void *context, char *text, size_t text_bytes, bool *aborted)
{
    int ends[2], status = 0;
    *aborted = false;
    if (pipe(ends) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run(context);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got = 0;
    char rest[4096]; /* what has no room is read, too: a child that cannot write would not end */
    while (child > 0 && (got = read(ends[0], rest, sizeof rest)) > 0) {
        const size_t room = text_bytes - 1 - used, bytes = (size_t)got < room ? (size_t)got : room;
        memcpy(text + used, rest, bytes);
        used += bytes;
    }
    text[used] = '\0';
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    *aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What is missing at a close is told by every build; those with costly assertions abort then. */
#ifdef NDEBUG
#define CHILD_MISSING_ABORTS false
#else
#define CHILD_MISSING_ABORTS true
#endif

#endif
