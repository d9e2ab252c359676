/* SPDX-License-Identifier: BSD-3-Clause */
/* How a log line is put together; ctrl/log.c for Weir's own, ctrl/log_rte.c for rte_log's. */
#ifndef CTRL_LOG_PRIV_H
#define CTRL_LOG_PRIV_H

#include <stdarg.h>

#include "ctrl/log.h"

struct ctrl_log_line {
	size_t length;
	bool truncated;
	char text[CTRL_LOG_LINE_BYTES];
};

/* Begin with priority or time, level and module; add; end and write. */
void ctrl_log_begin(struct ctrl_log_line *line, const char *module, enum ctrl_log_level level);
void ctrl_log_add(struct ctrl_log_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ctrl_log_add_list(struct ctrl_log_line *line, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
void ctrl_log_end(struct ctrl_log_line *line);

/* Milliseconds of the monotonic clock. */
uint64_t ctrl_log_now_ms(void);

/* Make rte_log write its lines here. ctrl/log_rte.c */
void ctrl_log_take_rte(void);

/* One message of rte_log as a line: NUL-terminated, its line end is cut off. ctrl/log_rte.c */
void ctrl_log_rte_line(int logtype, unsigned int rte_level, const char *text);

#endif
