/* Log lines for operators: one line an event on standard error, `time level node message`.
 * The layer that detects a failure logs it once. Thread safe: a line is one write. It never waits for a reader: lines
 * that a pipe, terminal or socket does not take are lost, and the next that it takes says how many. */
#ifndef MILLRACE_BASE_LOG_H
#define MILLRACE_BASE_LOG_H

enum base_log_level { BASE_LOG_ERROR, BASE_LOG_WARN, BASE_LOG_INFO, BASE_LOG_DEBUG };

/* Lines above level are dropped. Default: BASE_LOG_INFO. */
void base_log_set_level(enum base_log_level level);
/* Name shown in every line, copied (truncated to 63 bytes): "coordinator", "n3". */
void base_log_set_name(const char *name);
void base_log(enum base_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define base_log_error(...) base_log(BASE_LOG_ERROR, __VA_ARGS__)
#define base_log_warn(...) base_log(BASE_LOG_WARN, __VA_ARGS__)
#define base_log_info(...) base_log(BASE_LOG_INFO, __VA_ARGS__)
#define base_log_debug(...) base_log(BASE_LOG_DEBUG, __VA_ARGS__)

#endif
