/* Monotonic and CPU clocks, in nanoseconds. Workers do not call these: their engine tells them the time. */
#ifndef MILLRACE_BASE_CLOCK_H
#define MILLRACE_BASE_CLOCK_H

#include <stdint.h>

#define BASE_NS_PER_US UINT64_C(1000)
#define BASE_NS_PER_MS UINT64_C(1000000)
#define BASE_NS_PER_S UINT64_C(1000000000)

uint64_t base_clock_now_ns(void);
/* User and system time of the calling thread, from getrusage. */
void base_clock_thread_cpu_ns(uint64_t *user_ns, uint64_t *system_ns);
/* Context switches of the calling thread: because it waited, and because another was to run. */
void base_clock_thread_switches(uint64_t *voluntary, uint64_t *involuntary);

#endif
