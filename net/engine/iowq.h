/* The kernel's own threads for io_uring requests. */
#ifndef MILLRACE_NET_ENGINE_IOWQ_H
#define MILLRACE_NET_ENGINE_IOWQ_H

#include <stdint.h>

/* Threads of this process that the kernel has started to carry out io_uring requests which could not be done at once
 * (io-wq), as there are now. None is due to sockets as long as all is well; files may need some. */
uint32_t net_iowq_workers(void);

#endif
