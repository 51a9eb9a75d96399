/* Stands in for the kernel header of this name where the system has none (before Linux 6.12's headers): liburing 2.15
 * includes it for one constant. CMake puts this folder on the include path only there. */
#ifndef MILLRACE_NET_COMPAT_LINUX_BLKDEV_H
#define MILLRACE_NET_COMPAT_LINUX_BLKDEV_H

#include <linux/ioctl.h>

#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

#endif
