/* What a job may ask of its TCP sockets. All zeros are the defaults. The text form, on the command line and on the
 * wire, is "congestion=bbr,send-buffer=4Mi,recv-buffer=4Mi,notsent-lowat=128Ki,nodelay=off", any part of it in any
 * order; "" asks for nothing. */
#ifndef MILLRACE_NET_ENGINE_SOCKET_SETTINGS_H
#define MILLRACE_NET_ENGINE_SOCKET_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    NET_CONGESTION_BYTES = 16, /* TCP_CA_NAME_MAX */
    NET_SOCKET_TEXT_BYTES = 160,
    NET_SOCKET_BUFFER_BYTES_MIN = 4 << 10,
    NET_SOCKET_BUFFER_BYTES_MAX = 1 << 29
};

struct net_socket_settings {
    char congestion[NET_CONGESTION_BYTES]; /* control asked for; "": the best allowed of cubic, reno, kernel default */
    uint32_t send_buffer_bytes, recv_buffer_bytes; /* SO_SNDBUF, SO_RCVBUF; 0: the kernel's own sizing, which adapts */
    uint32_t notsent_lowat_bytes; /* TCP_NOTSENT_LOWAT: a send waits while more than this is unsent; 0: no such limit */
    bool nagle;                   /* nodelay=off: small segments wait for acknowledgements of those before */
};

/* Reads the text form. Errors: BASE_INVALID, naming the word and what is understood. */
enum base_status net_socket_settings_parse(const char *text, struct net_socket_settings *settings,
                                           struct base_error *error);
/* Writes what is not default; "" when all is. text has NET_SOCKET_TEXT_BYTES. */
void net_socket_settings_format(const struct net_socket_settings *settings, char *text);
bool net_socket_settings_equal(const struct net_socket_settings *a, const struct net_socket_settings *b);

#endif
