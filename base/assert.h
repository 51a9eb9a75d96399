/* Assertions for our own mistakes; bad input, peers and kernels get an error instead.
 * BASE_ASSERT is cheap and stays on in release builds. BASE_ASSERT_SLOW walks structures and is on in debug builds
 * only. */
#ifndef MILLRACE_BASE_ASSERT_H
#define MILLRACE_BASE_ASSERT_H

/* Prints file, line and expression, then aborts. */
void base_assert_failed(const char *file, int line, const char *expression) __attribute__((noreturn, cold));

#define BASE_ASSERT(expression)                                                                                        \
    (__builtin_expect(!!(expression), 1) ? (void)0 : base_assert_failed(__FILE__, __LINE__, #expression))

#ifdef NDEBUG
#define BASE_ASSERT_SLOW(expression) ((void)sizeof(expression))
#else
#define BASE_ASSERT_SLOW(expression) BASE_ASSERT(expression)
#endif

#endif
