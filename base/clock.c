#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

#include "base/assert.h"

uint64_t base_clock_now_ns(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    BASE_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * BASE_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t timeval_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * BASE_NS_PER_S + (uint64_t)time.tv_usec * BASE_NS_PER_US;
}

static struct rusage thread_usage(void)
{
    struct rusage usage;
    int failed = getrusage(RUSAGE_THREAD, &usage);
    BASE_ASSERT(failed == 0);
    return usage;
}

void base_clock_thread_cpu_ns(uint64_t *user_ns, uint64_t *system_ns)
{
    const struct rusage usage = thread_usage();
    *user_ns = timeval_ns(usage.ru_utime);
    *system_ns = timeval_ns(usage.ru_stime);
}

void base_clock_thread_switches(uint64_t *voluntary, uint64_t *involuntary)
{
    const struct rusage usage = thread_usage();
    *voluntary = (uint64_t)usage.ru_nvcsw;
    *involuntary = (uint64_t)usage.ru_nivcsw;
}
