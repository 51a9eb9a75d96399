/* What every TCP socket of a kernel engine is set to, and the few socket calls the engines share. Inside net/ only. */
#ifndef MILLRACE_NET_SOCKET_TCP_H
#define MILLRACE_NET_SOCKET_TCP_H

#include "net/engine/ops.h"

struct net_tcp {
    /* What was asked for, and the congestion control in force; its name is empty where none is settable: then the
     * kernel's default stays. */
    struct net_socket_settings set;
    struct net_port_block ports; /* of connections made here */
    uint16_t ports_next;         /* in the block: where to begin looking */
};

/* Finds by trying what may be set. Congestion control: the one asked for, or BASE_INVALID that says what there is to
 * choose from; when none is asked for cubic, else reno, else the kernel's default. Buffers that the kernel clamps are
 * noted as the engine's reason (NULL: they are not noted). */
enum base_status net_tcp_choose(const struct net_socket_settings *settings, struct net_engine *engine,
                                struct net_tcp *tcp, struct base_error *error);
/* Sets a stream or listening socket up. Options that the kernel refuses are left: none is needed for correctness.
 * Buffer sizes must be set before connecting or listening for the window scale to follow them. */
void net_tcp_apply(const struct net_tcp *tcp, int fd);
/* Writes "congestion=cubic", with the kernel's default named when it stays. */
void net_tcp_describe(const struct net_tcp *tcp, char *text, size_t text_bytes);

/* Whether fd listens. */
bool net_tcp_listens(int fd);
/* A stream socket to connect to address, non-blocking, set up by net_tcp_apply, with a local port of the block. */
enum base_status net_tcp_socket(struct net_tcp *tcp, const struct net_address *address, int *fd,
                                struct base_error *error);
/* The status of a connect that ended with os_error. */
enum base_status net_tcp_connected(const struct net_tcp *tcp, int os_error);
/* Makes an adopted fd non-blocking and sets it up. On error a stream is closed; a listener stays its owner's. */
enum base_status net_tcp_adopt(const struct net_tcp *tcp, int fd, bool listener, struct base_error *error);
/* Ends the connection in both directions without closing fd: by RST when aborting, else by FIN. Whatever waits on the
 * socket returns. */
void net_tcp_stop(int fd, bool abort_connection);

/* Whether fd's connection is gone altogether, where a FIN of the peer would have left it half open. Meaningless after
 * our own FIN. */
bool net_tcp_was_reset(int fd);
/* Whether accept failed for a passing reason (look again at once), or for one that needs time or help: then it is tried
 * again after NET_ACCEPT_RETRY_NS. */
#define NET_ACCEPT_RETRY_NS UINT64_C(100000000)
bool net_accept_transient(int os_error);
/* Logs, at most once a second per process, that an accepted connection was dropped or accepting was put off. */
void net_accept_complain(int os_error, uint64_t now_ns);

/* Advances a send by bytes: sets *first past the whole segments that are out and trims the one that is out in part. */
void net_send_advance(struct net_send_op *op, uint32_t *first, size_t bytes);
/* Bytes of all segments from first on. */
size_t net_send_left(const struct net_send_op *op, uint32_t first);
/* How a send ended that is over. */
enum base_status net_send_status(const struct net_send_op *op);

#endif
