#include "net/engine/refusal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *net_uring_refusal(int os_error)
{
    switch (os_error) {
    case EPERM: {
        char setting = '0';
        FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
        if (file) {
            int got = fgetc(file);
            setting = got == EOF ? '0' : (char)got;
            fclose(file);
        }
        if (setting == '2')
            return "io_uring is disabled for everyone (sysctl kernel.io_uring_disabled=2)";
        if (setting == '1')
            return "io_uring is disabled for this user (sysctl kernel.io_uring_disabled=1): join the group of "
                   "kernel.io_uring_group";
        return "io_uring_setup is not permitted (EPERM): allow it in the seccomp profile of this container";
    }
    case EACCES:
        return "io_uring_setup is denied (EACCES): allow it in this host's security policy";
    case ENOSYS:
        return "io_uring_setup does not exist here (ENOSYS): a seccomp profile hides it, or the kernel is built "
               "without it";
    case EINVAL:
        return "this kernel's io_uring is too old (needs Linux 5.19)";
    case ENOMEM:
        return "the limit of locked memory is too small for an io_uring: raise ulimit -l";
    default:
        return NULL;
    }
}

/* Both calls are refused by the kernel itself in other words than these. */
static bool refusal_forbidden(long result)
{
    return result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS);
}

const char *net_uring_filter(int ring_fd)
{
    if (refusal_forbidden(syscall(SYS_io_uring_enter, ring_fd, 0, 0, 0, NULL, 0)))
        return "io_uring_enter is not permitted: allow it, and io_uring_register, in the seccomp profile of this "
               "container";
    if (refusal_forbidden(syscall(SYS_io_uring_register, ring_fd, INT32_MAX, NULL, 0)))
        return "io_uring_register is not permitted: allow it in the seccomp profile of this container";
    return NULL;
}

const char *net_recv_zc_refusal(int os_error)
{
    switch (os_error) {
    case EPERM:
    case EACCES:
        return "needs CAP_NET_ADMIN: setcap cap_net_admin+ep on millraced, or run it as root";
    case EOPNOTSUPP:
        return "the driver cannot hand a receive queue to io_uring, or this queue has an XDP program";
    case EINVAL:
        return "this kernel has no zero-copy receive (Linux 6.15 and newer do), the interface has no such queue, or "
               "tcp-data-split and hds-thresh are not set for it";
    case EBUSY:
    case EEXIST:
        return "the queue belongs to another ring, to AF_XDP or to an XDP program: end that first";
    case ERANGE:
        return "the interface has no such queue, or its rings are too large for the area";
    case ENODEV:
        return "there is no such interface any more";
    case ENOMEM:
        return "no memory to pin: raise ulimit -l";
    case ENOSYS:
        return "this kernel has no io_uring, or a seccomp profile hides it";
    default:
        return strerror(os_error);
    }
}
