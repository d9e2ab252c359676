/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structured logs of the control plane, one line per event, as logfmt on stderr:
 *
 *   time=2026-01-31T12:00:00.123Z level=notice module=ctrl msg="job created" uid=0 job=ring size=4
 *
 * If stderr is the journal, a line begins with <N>, the priority for journald, and has no `time`.
 * Each module has a level of its own (`log.modules` of the configuration). Messages that DPDK and
 * the data plane's modules log through rte_log have the same form.
 *
 * Fields are a printf format of key=value pairs. Text from outside goes through ctrl_log_quote;
 * characters that are not printable ASCII are always replaced, so that no text forges a line.
 *
 * Logging never blocks: a line that does not fit into the pipe or socket is lost, and the next one
 * written ends in lost=N.
 *
 * Thread safety: a line is one write(2), and any thread may log; a call site with a limit is the
 * control thread's.
 */
#ifndef CTRL_LOG_H
#define CTRL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The numbers are syslog's. */
enum ctrl_log_level {
	CTRL_LOG_ERROR = 3,
	CTRL_LOG_WARNING,
	CTRL_LOG_NOTICE,
	CTRL_LOG_INFO,
	CTRL_LOG_DEBUG,
};

/* The words of `log.level`, in the order of the levels. */
#define CTRL_LOG_LEVELS "error|warning|notice|info|debug"

/* Name, word, what it logs: first the data plane's modules, which use rte_log, then all modules. */
#define CTRL_LOG_RTE_MODULES(X)                                                                    \
	X(PPE, "ppe", "The engines.")                                                              \
	X(PKTBUF, "pktbuf", "Packet memory and ports.")                                            \
	X(RMW, "rmw", "Aggregation buffers.")                                                      \
	X(HASHENGINE, "hashengine", "Tables.")

#define CTRL_LOG_MODULES(X)                                                                        \
	X(SWITCH, "switch", "Start, stop, signals, watchdog.")                                     \
	X(CTRL, "ctrl", "Jobs, configuration, state. Changes are logged at any level.")            \
	X(API, "api", "The control API's server and its clients.")                                 \
	CTRL_LOG_RTE_MODULES(X)

enum ctrl_log_module {
#define X(name, word, help) CTRL_LOG_##name,
	CTRL_LOG_MODULES(X)
#undef X
		CTRL_LOG_MODULE_COUNT
};

#define CTRL_LOG_LINE_BYTES  1024 /* maximum of a line; a longer one ends in truncated=1 */
#define CTRL_LOG_BURST       10 /* lines at once of a call site with a limit, ... */
#define CTRL_LOG_INTERVAL_MS 1000 /* ... and one more each interval */

/* The section `log` of a configuration. */
struct ctrl_log_config {
	enum ctrl_log_level level[CTRL_LOG_MODULE_COUNT];
	bool is_configured; /* the file has the section */
};

/* Set the levels, find out whether stderr is the journal, and take over the messages of rte_log.
 * Call it before EAL starts. Without it, levels from notice up are logged, with times. */
void ctrl_log_start(const struct ctrl_log_config *config);

/* Change the levels while running, also those of rte_log. */
void ctrl_log_change_levels(const struct ctrl_log_config *config);

/*
 * Set the levels of rte_log for Weir's modules that use it. Call it after EAL has started, because
 * EAL sets levels of its own. Without the section `log`, the levels stay as EAL's --log-level has
 * set them.
 */
void ctrl_log_apply(const struct ctrl_log_config *config);

/* Log one message of rte_log, NUL-terminated, without its line end. For tests. */
void ctrl_log_rte_line(int logtype, unsigned int rte_level, const char *text);

/* Log to another descriptor, with or without the journal's prefix: for tests. */
void ctrl_log_to(int fd, bool journal);

/* True if a line of this module and level is written. */
bool ctrl_log_is_on(enum ctrl_log_module module, enum ctrl_log_level level);

/* Log. what: the event in a few words, constant. format: the fields, "job=%s size=%u". */
void ctrl_log(enum ctrl_log_module module, enum ctrl_log_level level, const char *what,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Log an event without fields. */
void ctrl_log_say(enum ctrl_log_module module, enum ctrl_log_level level, const char *what);

/* A token bucket: what a call site may still write. All zero is a full bucket. */
struct ctrl_log_limit {
	uint64_t full_at_ms; /* when the bucket is full again; monotonic clock */
	uint32_t suppressed; /* lines since the last one written */
};

/* True if a line may be written now; otherwise the line is counted. Reads no clock. */
bool ctrl_log_allow(struct ctrl_log_limit *limit, uint64_t now_ms);

/* Log within a limit; the next line written has suppressed=N. See CTRL_LOG_LIMITED. */
void ctrl_log_limited(struct ctrl_log_limit *limit, enum ctrl_log_module module,
	enum ctrl_log_level level, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* As ctrl_log, with a limit per call site: for events that others can cause at will. */
#define CTRL_LOG_LIMITED(module, level, what, ...)                                                 \
	do {                                                                                       \
		static struct ctrl_log_limit limit_of_site;                                        \
		ctrl_log_limited(&limit_of_site, (module), (level), (what), __VA_ARGS__);          \
	} while (0)

/* Who makes a change, as fields. */
struct ctrl_log_who {
	char text[160];
};

/* A process of this machine: the Unix socket's peer, or the sender of a signal. */
struct ctrl_log_who ctrl_log_who_process(uid_t uid, pid_t pid);

/* A tenant, or NULL for a client without a token, and the address it comes from. */
struct ctrl_log_who ctrl_log_who_tenant(const char *tenant, const char *address);

/* Weir itself: a timeout, a restored state. why: a word. */
struct ctrl_log_who ctrl_log_who_itself(const char *why);

/* Log a change of the running switch, done or refused: always written, in module ctrl at notice.
 * what: "job created"; format: the fields of the new state. */
void ctrl_log_change(const struct ctrl_log_who *who, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As ctrl_log_change, within a limit, for changes that clients can cause at will:
 * CTRL_LOG_CHANGE_LIMITED. */
void ctrl_log_change_limited(struct ctrl_log_limit *limit, const struct ctrl_log_who *who,
	const char *what, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* As ctrl_log_change, with a limit per call site. */
#define CTRL_LOG_CHANGE_LIMITED(who, what, ...)                                                    \
	do {                                                                                       \
		static struct ctrl_log_limit limit_of_site;                                        \
		ctrl_log_change_limited(&limit_of_site, (who), (what), __VA_ARGS__);               \
	} while (0)

/* A value for a field: unchanged if it is a word, otherwise in quotes and escaped; at most 120
 * bytes. */
struct ctrl_log_value {
	char text[128];
};
struct ctrl_log_value ctrl_log_quote(const char *text);

#endif
