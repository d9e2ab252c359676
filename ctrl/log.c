/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_log.h>

#define TYPES_MAX 1024 /* log types with a limit of their own; DPDK with all drivers has 500 */

struct line {
	size_t length;
	bool truncated;
	char text[CTRL_LOG_LINE_BYTES];
};

static struct {
	enum ctrl_log_level level[CTRL_LOG_MODULE_COUNT];
	int fd;
	bool journal;
	pthread_mutex_t lock; /* guards the fields below, and the space that poll has found */
	uint32_t lost; /* lines dropped since the last written line */
	bool is_torn; /* the last line was cut off: a line end is missing */
} out = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.level = {[0 ... CTRL_LOG_MODULE_COUNT - 1] = CTRL_LOG_NOTICE},
	.fd = STDERR_FILENO,
};

static const char *const level_words[] = {
	[CTRL_LOG_ERROR] = "error",
	[CTRL_LOG_WARNING] = "warning",
	[CTRL_LOG_NOTICE] = "notice",
	[CTRL_LOG_INFO] = "info",
	[CTRL_LOG_DEBUG] = "debug",
};

static const char *const module_words[] = {
#define X(name, word, help) [CTRL_LOG_##name] = word,
	CTRL_LOG_MODULES(X)
#undef X
};

/* sd-daemon(3): the stream is the journal's if $JOURNAL_STREAM names the file behind it. */
static bool
is_journal(int fd)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return text != NULL && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
		fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void
ctrl_log_to(int fd, bool journal)
{
	out.fd = fd;
	out.journal = journal;
}

bool
ctrl_log_is_on(enum ctrl_log_module module, enum ctrl_log_level level)
{
	return level <= __atomic_load_n(&out.level[module], __ATOMIC_RELAXED);
}

/* Nothing is added to a full line but its end: see end. */
__attribute__((format(printf, 2, 0))) static void
add_list(struct line *line, const char *format, va_list args)
{
	size_t room = sizeof(line->text) - line->length;
	int wanted = vsnprintf(line->text + line->length, room, format, args);

	if (wanted < 0)
		return;
	line->truncated |= (size_t)wanted >= room;
	line->length += RTE_MIN((size_t)wanted, room - 1);
}

__attribute__((format(printf, 2, 3))) static void
add(struct line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_list(line, format, args);
	va_end(args);
}

/* Begin with priority or time, level and module. */
static void
begin(struct line *line, const char *module, enum ctrl_log_level level)
{
	struct timespec now;
	struct tm utc;

	line->length = 0;
	line->truncated = false;
	if (out.journal) {
		add(line, "<%d>", level);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		gmtime_r(&now.tv_sec, &utc);
		add(line, "time=%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", utc.tm_year + 1900,
			utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
			now.tv_nsec / 1000000);
	}
	add(line, "level=%s module=%s", level_words[level], module);
}

/* A terminal may take other bytes for commands: C0, DEL, C1, and parts of multi-byte characters. */
static bool
is_plain(char c)
{
	return c >= ' ' && c <= '~';
}

/* Add a mark at the end, over other text if the line is full. One byte is kept for the line end. */
static void
put_mark(struct line *line, const char *mark)
{
	size_t length = strlen(mark);

	line->length = RTE_MIN(line->length, sizeof(line->text) - length - 1);
	memcpy(line->text + line->length, mark, length);
	line->length += length;
}

/* Write the whole line or, as far as possible, nothing. Never blocks: if the reader is slow, the
 * line is lost. */
static bool
put(const char *text, size_t length)
{
	struct pollfd fd = {out.fd, POLLOUT, 0};
	ssize_t done;

	/* A pipe that polls writable has room for PIPE_BUF bytes, which is more than a line. */
	if (poll(&fd, 1, 0) != 1)
		return false;
	do {
		done = send(out.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done < 0 && errno == ENOTSOCK)
			done = write(out.fd, text, length);
	} while (done < 0 && errno == EINTR);
	out.is_torn = done >= 0 ? (size_t)done < length : out.is_torn;
	return done >= 0 && !out.is_torn;
}

/* Write a line as printable ASCII, whatever it contains. Other processes share the descriptor, so
 * its flags do not change. The switch never waits for the reader. */
static void
end(struct line *line)
{
	char mark[48] = "", lost[32] = "";

	pthread_mutex_lock(&out.lock);
	if (out.lost > 0)
		snprintf(lost, sizeof(lost), " lost=%u", out.lost);
	snprintf(mark, sizeof(mark), "%s%s", line->truncated ? " truncated=1" : "", lost);
	put_mark(line, mark);
	for (size_t i = 0; i < line->length; i++)
		if (!is_plain(line->text[i]))
			line->text[i] = '?';
	line->text[line->length++] = '\n';
	if ((!out.is_torn || put("\n", 1)) && put(line->text, line->length))
		out.lost = 0;
	else
		out.lost++;
	pthread_mutex_unlock(&out.lock);
}

__attribute__((format(printf, 6, 0))) static void
write_line(enum ctrl_log_module module, enum ctrl_log_level level, const char *who,
	const char *what, uint32_t suppressed, const char *format, va_list args)
{
	struct line line;

	begin(&line, module_words[module], level);
	add(&line, " msg=\"%s\"", what);
	if (who != NULL)
		add(&line, " %s", who);
	add(&line, " ");
	add_list(&line, format, args);
	if (suppressed > 0)
		add(&line, " suppressed=%u", suppressed);
	end(&line);
}

void
ctrl_log(enum ctrl_log_module module, enum ctrl_log_level level, const char *what,
	const char *format, ...)
{
	va_list args;

	if (!ctrl_log_is_on(module, level))
		return;
	va_start(args, format);
	write_line(module, level, NULL, what, 0, format, args);
	va_end(args);
}

void
ctrl_log_say(enum ctrl_log_module module, enum ctrl_log_level level, const char *what)
{
	struct line line;

	if (!ctrl_log_is_on(module, level))
		return;
	begin(&line, module_words[module], level);
	add(&line, " msg=\"%s\"", what);
	end(&line);
}

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool
ctrl_log_allow(struct ctrl_log_limit *limit, uint64_t now_ms)
{
	uint64_t from = RTE_MAX(limit->full_at_ms, now_ms);

	if (from - now_ms > (uint64_t)(CTRL_LOG_BURST - 1) * CTRL_LOG_INTERVAL_MS) {
		limit->suppressed++;
		return false;
	}
	limit->full_at_ms = from + CTRL_LOG_INTERVAL_MS;
	return true;
}

void
ctrl_log_limited(struct ctrl_log_limit *limit, enum ctrl_log_module module,
	enum ctrl_log_level level, const char *what, const char *format, ...)
{
	va_list args;

	if (!ctrl_log_is_on(module, level) || !ctrl_log_allow(limit, now_ms()))
		return;
	va_start(args, format);
	write_line(module, level, NULL, what, limit->suppressed, format, args);
	va_end(args);
	limit->suppressed = 0;
}

struct ctrl_log_who
ctrl_log_who_process(uid_t uid, pid_t pid)
{
	struct ctrl_log_who who;

	snprintf(who.text, sizeof(who.text), "uid=%u pid=%d", uid, pid);
	return who;
}

struct ctrl_log_who
ctrl_log_who_tenant(const char *tenant, const char *address)
{
	struct ctrl_log_who who;

	snprintf(who.text, sizeof(who.text), "tenant=%.64s address=%.64s",
		ctrl_log_quote(tenant != NULL ? tenant : "-").text, ctrl_log_quote(address).text);
	return who;
}

struct ctrl_log_who
ctrl_log_who_itself(const char *why)
{
	struct ctrl_log_who who;

	snprintf(who.text, sizeof(who.text), "by=weir why=%s", ctrl_log_quote(why).text);
	return who;
}

void
ctrl_log_change(const struct ctrl_log_who *who, const char *what, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(CTRL_LOG_CTRL, CTRL_LOG_NOTICE, who->text, what, 0, format, args);
	va_end(args);
}

void
ctrl_log_change_limited(struct ctrl_log_limit *limit, const struct ctrl_log_who *who,
	const char *what, const char *format, ...)
{
	va_list args;

	if (!ctrl_log_allow(limit, now_ms()))
		return;
	va_start(args, format);
	write_line(
		CTRL_LOG_CTRL, CTRL_LOG_NOTICE, who->text, what, limit->suppressed, format, args);
	va_end(args);
	limit->suppressed = 0;
}

static bool
is_word(const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/@+[]";

	return text[0] != '\0' && text[strspn(text, plain)] == '\0' && strlen(text) <= 120;
}

struct ctrl_log_value
ctrl_log_quote(const char *text)
{
	struct ctrl_log_value value;
	size_t used = 0;

	if (is_word(text)) {
		snprintf(value.text, sizeof(value.text), "%s", text);
		return value;
	}
	value.text[used++] = '"';
	for (; *text != '\0' && used < 112; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			value.text[used++] = '\\';
		if (!is_plain(*text))
			used += (size_t)snprintf(
				value.text + used, sizeof(value.text) - used, "\\x%02x", c);
		else
			value.text[used++] = *text;
	}
	used += (size_t)snprintf(
		value.text + used, sizeof(value.text) - used, "%s\"", *text != '\0' ? "..." : "");
	return value;
}

/* -- messages of rte_log (EAL, drivers, the data plane's modules) as lines of this log */

/* The modules that log through rte_log, as their files register themselves. */
static const struct {
	enum ctrl_log_module module;
	const char *type;
} modules[] = {
#define X(name, word, help) {CTRL_LOG_##name, "weir." word},
	CTRL_LOG_RTE_MODULES(X)
#undef X
};

/* Guarded by the lock of rte_log's stream, which is held while a line is written. */
static struct ctrl_log_limit limits[TYPES_MAX];

static const char *
room_of(int logtype)
{
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		if (rte_log_register(modules[i].type) ==
			logtype) /* finds the type, which is registered already */
			return module_words[modules[i].module];
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
	struct line line;

	/* A driver may warn about every packet. More verbose levels have no limit: they are on only
	 * by request. */
	if (level <= CTRL_LOG_WARNING && !ctrl_log_allow(limit, now_ms()))
		return;
	begin(&line, room_of(logtype), level);
	add(&line, " msg=\"");
	for (const char *p = text; *p != '\0' && *p != '\n'; p++)
		add(&line, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	add(&line, "\"");
	if (limit->suppressed > 0)
		add(&line, " suppressed=%u", limit->suppressed);
	limit->suppressed = 0;
	end(&line);
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

/* The stream is never closed: threads log until the process ends. */
static void
take_rte(void)
{
	static FILE *stream;

	if (stream == NULL)
		stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take});
	if (stream != NULL)
		rte_openlog_stream(stream);
}

/*
 * EAL has a global level beside the levels of the types. If a module needs a higher one, the global
 * level is raised, and each type is limited to the former one, so that the other types stay as
 * quiet as before.
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

	if (!config->is_configured)
		return;
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		most = RTE_MAX(most, (uint32_t)config->level[modules[i].module] + 1);
	lift(most);
	for (unsigned int i = 0; i < RTE_DIM(modules); i++)
		rte_log_set_level_pattern(
			modules[i].type, (uint32_t)config->level[modules[i].module] + 1);
}

void
ctrl_log_start(const struct ctrl_log_config *config)
{
	memcpy(out.level, config->level, sizeof(out.level));
	out.journal = is_journal(out.fd);
	take_rte();
}

void
ctrl_log_change_levels(const struct ctrl_log_config *config)
{
	struct ctrl_log_config all_levels = *config;

	/* Other threads log meanwhile. */
	for (unsigned int module = 0; module < CTRL_LOG_MODULE_COUNT; module++)
		__atomic_store_n(&out.level[module], config->level[module], __ATOMIC_RELAXED);
	all_levels.is_configured = true; /* defaults may differ from the former levels, too */
	ctrl_log_apply(&all_levels);
}
