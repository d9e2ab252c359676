/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes through rte_log - EAL, drivers, the data plane's modules - in the form of all other lines. */
#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_log.h>

#include "ctrl/log_priv.h"

#define TYPES_MAX 1024 /* log types with a limit of their own; DPDK with all drivers has 500 */

/* The modules that log through rte_log, as their files register themselves. */
static const struct {
	enum ctrl_log_module module;
	const char *type, *word;
} modules[] = {
	{CTRL_LOG_PPE, "weir.ppe", "ppe"},
	{CTRL_LOG_PKTBUF, "weir.pktbuf", "pktbuf"},
	{CTRL_LOG_RMW, "weir.rmw", "rmw"},
	{CTRL_LOG_HASHENGINE, "weir.hashengine", "hashengine"},
};

/* Guarded by the lock of rte_log's stream, which is held while a line is written. */
static struct ctrl_log_limit limits[TYPES_MAX];

static const char *
room_of(int logtype)
{
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		if (rte_log_register(modules[i].type) ==
			logtype) /* finds it: it is there already */
			return modules[i].word;
	return "dpdk";
}

/* RTE_LOG_EMERG is 1 where syslog's is 0; Weir has no worse level than error. */
static enum ctrl_log_level
level_of(unsigned int rte_level)
{
	return (enum ctrl_log_level)RTE_MIN(
		RTE_MAX((int)rte_level - 1, (int)CTRL_LOG_ERROR), (int)CTRL_LOG_DEBUG);
}

void
ctrl_log_rte_line(int logtype, unsigned int rte_level, const char *text)
{
	struct ctrl_log_limit *limit = &limits[(unsigned int)logtype % TYPES_MAX];
	enum ctrl_log_level level = level_of(rte_level);
	struct ctrl_log_line line;

	/* A driver can complain about every packet. Who asked for more than warnings gets all. */
	if (level <= CTRL_LOG_WARNING && !ctrl_log_allow(limit, ctrl_log_now_ms()))
		return;
	ctrl_log_begin(&line, room_of(logtype), level);
	ctrl_log_add(&line, " msg=\"");
	for (const char *p = text; *p != '\0' && *p != '\n'; p++)
		ctrl_log_add(&line, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	ctrl_log_add(&line, "\"");
	if (limit->suppressed > 0)
		ctrl_log_add(&line, " suppressed=%u", limit->suppressed);
	limit->suppressed = 0;
	ctrl_log_end(&line);
}

/* rte_log flushes its stream after each message. */
static ssize_t
take(void *cookie, const char *bytes, size_t length)
{
	char text[CTRL_LOG_LINE_BYTES];
	size_t used = 0;

	(void)cookie;
	for (size_t i = 0; i <= length; i++) {
		if (i < length && bytes[i] != '\n') {
			if (used + 1 < sizeof(text))
				text[used++] = bytes[i];
			continue;
		}
		text[used] = '\0';
		if (used > 0)
			ctrl_log_rte_line(rte_log_cur_msg_logtype(),
				(unsigned int)rte_log_cur_msg_loglevel(), text);
		used = 0;
	}
	return (ssize_t)length;
}

/* For the life of the process: threads log until the end. */
void
ctrl_log_take_rte(void)
{
	static FILE *stream;

	if (stream == NULL)
		stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take});
	if (stream != NULL)
		rte_openlog_stream(stream);
}

/*
 * EAL has a level for all types beside theirs. Where a module wants more than it lets through, each
 * type is given it instead, so that the others stay as quiet as they were.
 */
static void
lift(uint32_t wanted)
{
	uint32_t all = rte_log_get_global_level();
	int level;

	if (wanted <= all)
		return;
	for (uint32_t type = 0; (level = rte_log_get_level(type)) >= 0; type++)
		if ((uint32_t)level > all)
			rte_log_set_level(type, all);
	rte_log_set_global_level(wanted);
}

void
ctrl_log_apply(const struct ctrl_log_config *config)
{
	uint32_t most = 0;

	if (!config->given)
		return;
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		most = RTE_MAX(most, (uint32_t)config->level[modules[i].module] + 1);
	lift(most);
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		rte_log_set_level_pattern(
			modules[i].type, (uint32_t)config->level[modules[i].module] + 1);
}
