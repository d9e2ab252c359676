/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structured logs of the control side, a line an event, as logfmt on stderr:
 *
 *   time=2026-01-31T12:00:00.123Z level=notice module=ctrl msg="job created" uid=0 job=ring size=4
 *
 * Where stderr is the journal's, a line begins with <N>, the priority that journald takes, and
 * `time` is left out. Each module has a level of its own (`log.modules` of the configuration). What
 * DPDK and the data plane's modules log through rte_log comes out in the same form.
 *
 * Fields are a printf format of key=value pairs. Text from outside goes through ctrl_log_quote;
 * other characters than printable ASCII are always replaced, so that no text forges a line.
 *
 * Logging never blocks: a line that does not fit into the pipe or socket is lost, and the next one written
 * ends in lost=N.
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

/* Name, word, what it tells: the data plane's modules, which log through rte_log, and all. */
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

#define CTRL_LOG_LINE_BYTES  1024 /* of a line at most; what is longer ends in truncated=1 */
#define CTRL_LOG_BURST       10 /* lines at once of a call site with a limit, ... */
#define CTRL_LOG_INTERVAL_MS 1000 /* ... and one more each interval */

/* The section `log` of a configuration. */
struct ctrl_log_config {
	enum ctrl_log_level level[CTRL_LOG_MODULE_COUNT];
	bool is_configured; /* the file has the section */
};

/*
 * Set the levels, find out whether stderr is the journal's, and take over what rte_log writes.
 * Before EAL starts. Without it: everything from notice up, with times.
 */
void ctrl_log_start(const struct ctrl_log_config *config);

/* Other levels while running, those of rte_log with them. */
void ctrl_log_change_levels(const struct ctrl_log_config *config);

/*
 * Tell rte_log the levels of Weir's modules that log through it: after EAL has started, which sets
 * levels of its own. Without the section `log` they stay as EAL's --log-level left them.
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

/* What a call site may still write: a token bucket. All zero is a full one. */
struct ctrl_log_limit {
	uint64_t full_at_ms; /* when the bucket is full again; monotonic clock */
	uint32_t suppressed; /* lines since the last one written */
};

/* True if a line may be written now; else it is counted. Reads no clock. */
bool ctrl_log_allow(struct ctrl_log_limit *limit, uint64_t now_ms);

/* Log within a limit; the next line written tells suppressed=N. See CTRL_LOG_LIMITED. */
void ctrl_log_limited(struct ctrl_log_limit *limit, enum ctrl_log_module module,
	enum ctrl_log_level level, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* The same, with a limit of this call site's own: for what others can cause as often as they like. */
#define CTRL_LOG_LIMITED(module, level, what, ...)                                                 \
	do {                                                                                       \
		static struct ctrl_log_limit limit_of_site;                                        \
		ctrl_log_limited(&limit_of_site, (module), (level), (what), __VA_ARGS__);          \
	} while (0)

/* Who changes something, as fields. */
struct ctrl_log_who {
	char text[160];
};

/* A process of this machine: the Unix socket's peer, or the sender of a signal. */
struct ctrl_log_who ctrl_log_who_process(uid_t uid, pid_t pid);

/* A tenant, or NULL for a client without a token, and the address it comes from. */
struct ctrl_log_who ctrl_log_who_tenant(const char *tenant, const char *address);

/* Weir itself: a timeout, a restored state. why: a word. */
struct ctrl_log_who ctrl_log_who_itself(const char *why);

/*
 * Log a change of the running switch, done or refused: always written, in module ctrl at notice.
 * what: "job created"; format: the fields that tell what is now.
 */
void ctrl_log_change(const struct ctrl_log_who *who, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same within a limit, for changes that clients can cause as often as they like: CTRL_LOG_CHANGE_LIMITED. */
void ctrl_log_change_limited(struct ctrl_log_limit *limit, const struct ctrl_log_who *who,
	const char *what, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* With a limit of this call site's own. */
#define CTRL_LOG_CHANGE_LIMITED(who, what, ...)                                                    \
	do {                                                                                       \
		static struct ctrl_log_limit limit_of_site;                                        \
		ctrl_log_change_limited(&limit_of_site, (who), (what), __VA_ARGS__);               \
	} while (0)

/* A value for a field: as it is when it is a word, else in quotes, escaped; at most 120 bytes. */
struct ctrl_log_value {
	char text[128];
};
struct ctrl_log_value ctrl_log_quote(const char *text);

#endif
