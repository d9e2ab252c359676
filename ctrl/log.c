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

#include "ctrl/log_priv.h"

static struct {
	enum ctrl_log_level level[CTRL_LOG_MODULE_COUNT];
	int fd;
	bool journal;
	pthread_mutex_t lock; /* of what follows, and of the room that poll has found */
	uint32_t lost; /* lines dropped since the last one that was written */
	bool torn; /* the last one was cut off: a line end is missing */
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
ctrl_log_start(const struct ctrl_log_config *config)
{
	memcpy(out.level, config->level, sizeof(out.level));
	out.journal = is_journal(out.fd);
	ctrl_log_take_rte();
}

void
ctrl_log_change_levels(const struct ctrl_log_config *config)
{
	struct ctrl_log_config given = *config;

	/* Other threads log meanwhile. */
	for (unsigned int module = 0; module < CTRL_LOG_MODULE_COUNT; module++)
		__atomic_store_n(&out.level[module], config->level[module], __ATOMIC_RELAXED);
	given.given = true; /* also defaults are other than what was */
	ctrl_log_apply(&given);
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

void
ctrl_log_add(struct ctrl_log_line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ctrl_log_add_list(line, format, args);
	va_end(args);
}

/* A line that is full stays as it is but for its end: see ctrl_log_end. */
void
ctrl_log_add_list(struct ctrl_log_line *line, const char *format, va_list args)
{
	size_t room = sizeof(line->text) - line->length;
	int wanted = vsnprintf(line->text + line->length, room, format, args);

	if (wanted < 0)
		return;
	line->truncated |= (size_t)wanted >= room;
	line->length += RTE_MIN((size_t)wanted, room - 1);
}

void
ctrl_log_begin(struct ctrl_log_line *line, const char *module, enum ctrl_log_level level)
{
	struct timespec now;
	struct tm utc;

	line->length = 0;
	line->truncated = false;
	if (out.journal) {
		ctrl_log_add(line, "<%d>", level);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		gmtime_r(&now.tv_sec, &utc);
		ctrl_log_add(line, "time=%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", utc.tm_year + 1900,
			utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
			now.tv_nsec / 1000000);
	}
	ctrl_log_add(line, "level=%s module=%s", level_words[level], module);
}

/* Of other bytes than these a terminal may take orders: C0, DEL, and above them C1 and parts of
 * characters in whatever it takes for the encoding. */
static bool
is_plain(char c)
{
	return c >= ' ' && c <= '~';
}

/* Add the last words; what is there gives way. One byte stays for the line end. */
static void
put_mark(struct ctrl_log_line *line, const char *mark)
{
	size_t length = strlen(mark);

	line->length = RTE_MIN(line->length, sizeof(line->text) - length - 1);
	memcpy(line->text + line->length, mark, length);
	line->length += length;
}

/* Write the whole line or, as far as possible, nothing. Never blocks: if the reader is slow, the line is lost. */
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
	out.torn = done >= 0 ? (size_t)done < length : out.torn;
	return done >= 0 && !out.torn;
}

/*
 * Whatever got into the line, it is one line, of printable ASCII. The descriptor is others' too, and
 * stays as blocking as they made it: the switch waits for no reader of its log.
 */
void
ctrl_log_end(struct ctrl_log_line *line)
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
	if ((!out.torn || put("\n", 1)) && put(line->text, line->length))
		out.lost = 0;
	else
		out.lost++;
	pthread_mutex_unlock(&out.lock);
}

__attribute__((format(printf, 6, 0))) static void
write_line(enum ctrl_log_module module, enum ctrl_log_level level, const char *who,
	const char *what, uint32_t suppressed, const char *format, va_list args)
{
	struct ctrl_log_line line;

	ctrl_log_begin(&line, module_words[module], level);
	ctrl_log_add(&line, " msg=\"%s\"", what);
	if (who != NULL)
		ctrl_log_add(&line, " %s", who);
	ctrl_log_add(&line, " ");
	ctrl_log_add_list(&line, format, args);
	if (suppressed > 0)
		ctrl_log_add(&line, " suppressed=%u", suppressed);
	ctrl_log_end(&line);
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
	struct ctrl_log_line line;

	if (!ctrl_log_is_on(module, level))
		return;
	ctrl_log_begin(&line, module_words[module], level);
	ctrl_log_add(&line, " msg=\"%s\"", what);
	ctrl_log_end(&line);
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

	if (!ctrl_log_is_on(module, level) || !ctrl_log_allow(limit, ctrl_log_now_ms()))
		return;
	va_start(args, format);
	write_line(module, level, NULL, what, limit->suppressed, format, args);
	va_end(args);
	limit->suppressed = 0;
}

uint64_t
ctrl_log_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
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
