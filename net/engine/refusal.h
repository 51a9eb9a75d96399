/* Why io_uring is not to be had, in words. Inside net/ only. */
#ifndef MILLRACE_NET_ENGINE_REFUSAL_H
#define MILLRACE_NET_ENGINE_REFUSAL_H

/* What an operator can do about a ring that the kernel does not give (os_error is positive; the words are static).
 * NULL: not a matter of io_uring being allowed. */
const char *net_uring_refusal(int os_error);

/* A policy can forbid the two calls without which a ring is of no use, and allow to make one: words for that (static),
 * or NULL. The ring may be one that is not enabled yet. */
const char *net_uring_filter(int ring_fd);
/* The same about the receive queue of a card that the kernel does not hand to a ring; never NULL. */
const char *net_recv_zc_refusal(int os_error);

#endif
