/* What the other end of a pipe or a file size limit does is an error of the write that meets it (EPIPE, EFBIG), not the
 * end of the process. */
#ifndef MILLRACE_CLUSTER_SIGNALS_H
#define MILLRACE_CLUSTER_SIGNALS_H

#include <signal.h>

/* At the beginning of main: for all threads. */
static inline void cluster_signals_ignore(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

#endif
