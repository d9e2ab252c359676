/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: all of the switch logs through rte_log, one line per event, as logfmt on stderr:
 *
 *   time=2026-01-31T12:00:00.123Z level=notice module=ctrl msg="job created" uid=0 job=ring size=4
 *
 * If stderr is the journal, a line begins with <N>, the priority for journald, and has no `time`.
 *
 * This file owns rte_log's stream, from the start of the program on, and gives each message this
 * form. A message that begins with msg=" consists of fields, as ctrl_log makes them; each line of
 * any other message becomes the msg of a line. Each module is a log type of rte_log, "weir.ctrl",
 * and has a level of its own (`log.modules` of the configuration); other types are module dpdk.
 *
 * Fields are a printf format of key=value pairs. Text from outside goes through ctrl_log_quote;
 * characters that are not printable ASCII are always replaced, so that no text forges a line.
 *
 * Logging never blocks: a line that does not fit into the pipe or socket is lost, and the next one
 * written ends in lost=N. The last lines are kept in memory, also lost ones.
 *
 * Thread safety: any thread may log. A line is one write(2).
 */
#ifndef CTRL_LOG_H
#define CTRL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rte_log.h>

/* The words of `log.level`, from RTE_LOG_ERR to RTE_LOG_DEBUG. */
#define CTRL_LOG_LEVELS "error|warning|notice|info|debug"

/* Name, word, what it logs. */
#define CTRL_LOG_MODULES(X)                                                                        \
	X(SWITCH, "switch", "Start, stop, signals, watchdog.")                                     \
	X(CTRL, "ctrl", "Jobs, configuration, state. Changes are logged at any level.")            \
	X(API, "api", "The control API's server and its clients.")                                 \
	X(PPE, "ppe", "The engines.")                                                              \
	X(PKTBUF, "pktbuf", "Packet memory and ports.")                                            \
	X(RMW, "rmw", "Aggregation buffers.")                                                      \
	X(HASHENGINE, "hashengine", "Tables.")

enum ctrl_log_module {
#define X(name, word, help) CTRL_LOG_##name,
	CTRL_LOG_MODULES(X)
#undef X
		CTRL_LOG_MODULE_COUNT,
	/* Changes of the running switch, done or refused: always logged, as module ctrl. */
	CTRL_LOG_CHANGE = CTRL_LOG_MODULE_COUNT,
};

#define CTRL_LOG_LINE_BYTES  1024 /* maximum of a line; a longer one ends in truncated=1 */
#define CTRL_LOG_KEPT        256 /* lines kept in memory */
#define CTRL_LOG_BURST       10 /* lines at once of a call site with a limit, ... */
#define CTRL_LOG_INTERVAL_MS 1000 /* ... and one more each interval */

/* The section `log` of a configuration. */
struct ctrl_log_config {
	uint32_t level[CTRL_LOG_MODULE_COUNT]; /* RTE_LOG_ERR and so on */
};

/* By module. */
extern const char *const ctrl_log_words[];

/* Set the levels, at any time. Call it also after EAL has started, because EAL sets levels of its
 * own. Without it, levels from notice up are logged. */
void ctrl_log_set_levels(const struct ctrl_log_config *config);

/* Log to another descriptor, with or without the journal's prefix: for tests, before other threads
 * log. */
void ctrl_log_to(int fd, bool journal);

/* A token bucket: what a call site may still write. All zero is a full bucket. */
struct ctrl_log_limit {
	uint64_t full_at_ms; /* when the bucket is full again; monotonic clock */
	uint32_t suppressed; /* lines since the last one written */
};

/* True if a line may be written now; otherwise the line is counted. For tests. */
bool ctrl_log_allow(struct ctrl_log_limit *limit, uint64_t now_ms);

/* What the macros below call. limit: NULL for none; format: msg="..." and the fields. */
void ctrl_log_fields(struct ctrl_log_limit *limit, enum ctrl_log_module module, uint32_t level,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Log within a limit, for events that others can cause at will; the next line written has
 * suppressed=N. limit: CTRL_LOG_SITE, or NULL for none. For the rest see ctrl_log. */
#define ctrl_log_limited(limit, module, level, what, format, ...)                                  \
	ctrl_log_fields(limit, module, level, "msg=\"%s\" " format, what, ##__VA_ARGS__)

/* The limit of this call site. */
#define CTRL_LOG_SITE                                                                              \
	(__extension__({                                                                           \
		static struct ctrl_log_limit limit_of_site;                                        \
		&limit_of_site;                                                                    \
	}))

/* Log. level: RTE_LOG_ERR and so on; what: the event in a few words, without quotes; format: the
 * fields, "job=%s size=%u", or "". */
#define ctrl_log(module, level, what, format, ...)                                                 \
	ctrl_log_limited(NULL, module, level, what, format, ##__VA_ARGS__)

/* Log a change. who makes it, as fields: "uid=%u pid=%d" of a process, "tenant=%s address=%s" of a
 * client on TCP, "by=weir why=%s" of Weir itself; what: "job created"; format: the fields of the
 * new state. */
#define ctrl_log_change(who, what, format, ...)                                                    \
	ctrl_log_change_limited(NULL, who, what, format, ##__VA_ARGS__)

/* As ctrl_log_change, within a limit, for changes that clients can cause at will. */
#define ctrl_log_change_limited(limit, who, what, format, ...)                                     \
	ctrl_log_limited(                                                                          \
		limit, CTRL_LOG_CHANGE, RTE_LOG_NOTICE, what, "%s " format, who, ##__VA_ARGS__)

/* A value for a field: unchanged if it is a word, otherwise in quotes and escaped; at most 120
 * bytes. */
struct ctrl_log_value {
	char text[128];
};
struct ctrl_log_value ctrl_log_quote(const char *text);

/*
 * Copy a kept line: the first one numbered *number or later, whose number replaces *number. Always
 * with its time; without its line end and lost=N. False: there is none yet. Lines are numbered
 * from 0 in the order of logging; a jump of *number tells how many are kept no longer. A *number
 * beyond the next line is of a former run of the switch, and becomes 0.
 */
bool ctrl_log_read(uint64_t *number, char text[CTRL_LOG_LINE_BYTES]);

#endif
