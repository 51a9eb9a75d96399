#include "net/refusal.h"

#include <errno.h>
#include <stdio.h>

const char *net_uring_refusal(int os_error)
{
    switch (os_error) {
    case EPERM: {
        char setting = '0';
        FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
        if (file != NULL) {
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
