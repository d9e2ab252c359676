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

#define TYPES_MAX  1024 /* log types with a limit of their own; DPDK with all drivers has 500 */
#define TAIL_BYTES 80 /* for the end of a line: quote, truncated=1, suppressed=N, lost=N */

const char *const ctrl_log_words[] = {[CTRL_LOG_CHANGE] = "ctrl",
	[CTRL_LOG_CHANGE + 1] = "dpdk", /* any other type */
#define X(name, word, help) [CTRL_LOG_##name] = word,
	CTRL_LOG_MODULES(X)
#undef X
};

static int types[CTRL_LOG_CHANGE + 1]; /* of rte_log, by module */

static struct {
	int fd;
	bool journal;
	uint32_t lost; /* lines dropped since the last written line */
	bool is_torn; /* the last line was cut off: a line end is missing */
	uint64_t nb_lines;
	char kept[CTRL_LOG_KEPT][CTRL_LOG_LINE_BYTES];
	struct ctrl_log_limit limit[TYPES_MAX]; /* of messages without fields, by log type */
} out;

/* Guards `out`, all limits, and the space that poll has found. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The message that this thread logs. glibc 2.37 and later writes it in pieces. */
static __thread struct {
	char text[2 * CTRL_LOG_LINE_BYTES]; /* what does not fit is cut from the line anyway */
	size_t used;
	bool has_fields;
	struct ctrl_log_limit *limit; /* of a message with fields */
} message;

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

/* A terminal may take other bytes for commands: C0, DEL, C1, and parts of multi-byte characters. */
static bool
is_plain(char c)
{
	return c >= ' ' && c <= '~';
}

/* Write the whole line or, as far as possible, nothing. Never blocks: if the reader is slow, the
 * line is lost. Other processes share the descriptor, so its flags do not change. */
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

__attribute__((format(printf, 4, 5))) static void
add(char *text, size_t size, size_t *used, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	*used += (size_t)vsnprintf(text + *used, size - *used, format, args);
	va_end(args);
}

/* Make the line of a message that has no line end, keep it and write it. */
static void
log_line(const char *text, size_t length, bool has_fields, struct ctrl_log_limit *limit)
{
	/* Weir has no worse level than error. */
	int level = RTE_MAX(rte_log_cur_msg_loglevel(), (int)RTE_LOG_ERR);
	char line[CTRL_LOG_LINE_BYTES], *start = line;
	const char *word = CTRL_LOG_LEVELS;
	unsigned int module = 0;
	struct timespec now;
	struct tm utc;
	size_t used, i;

	if (limit != NULL && !ctrl_log_allow(limit, now_ms()))
		return;
	length -= text[length - 1] == ' '; /* there are no fields */
	for (int skipped = RTE_LOG_ERR; skipped < level; skipped++)
		word = strchr(word, '|') + 1;
	while (module <= CTRL_LOG_CHANGE && types[module] != rte_log_cur_msg_logtype())
		module++;
	clock_gettime(CLOCK_REALTIME, &now);
	used = strftime(line, sizeof(line), "time=%FT%T", gmtime_r(&now.tv_sec, &utc));
	add(line, sizeof(line), &used, ".%03ldZ ", now.tv_nsec / 1000000);
	if (out.journal)
		start += used - strlen("<N>");
	add(line, sizeof(line), &used, "level=%.*s module=%s %s", (int)strcspn(word, "|"), word,
		ctrl_log_words[module], has_fields ? "" : "msg=\"");
	for (i = 0; i < length && used < sizeof(line) - TAIL_BYTES; i++) {
		if (!has_fields && (text[i] == '"' || text[i] == '\\'))
			line[used++] = '\\';
		line[used++] = is_plain(text[i]) ? text[i] : '?';
	}
	add(line, sizeof(line), &used, "%s%s", has_fields ? "" : "\"",
		i < length ? " truncated=1" : "");
	if (limit != NULL && limit->suppressed > 0) {
		add(line, sizeof(line), &used, " suppressed=%u", limit->suppressed);
		limit->suppressed = 0;
	}
	memcpy(out.kept[out.nb_lines++ % CTRL_LOG_KEPT], line, used + 1);
	if (out.lost > 0)
		add(line, sizeof(line), &used, " lost=%u", out.lost);
	add(line, sizeof(line), &used, "\n");
	if (out.journal) {
		start[0] = '<';
		start[1] = (char)('0' + level - 1); /* syslog's numbers are one less */
		start[2] = '>';
	}
	if ((!out.is_torn || put("\n", 1)) && put(start, (size_t)(line + used - start)))
		out.lost = 0;
	else
		out.lost++;
}

static void
end_message(void)
{
	struct ctrl_log_limit *limit = message.limit;

	if (message.used == 0)
		return;
	/* A driver may warn about every packet. More verbose levels have no limit: they are on only
	 * by request. */
	if (!message.has_fields && rte_log_cur_msg_loglevel() <= (int)RTE_LOG_WARNING)
		limit = &out.limit[rte_log_cur_msg_logtype() % TYPES_MAX];
	pthread_mutex_lock(&lock);
	log_line(message.text, message.used, message.has_fields, limit);
	pthread_mutex_unlock(&lock);
	message.used = 0;
}

/* The stream has no buffer: the thread that logs calls this, with a message or a piece of it. In a
 * message without fields each line is one of the log. */
static ssize_t
take(void *cookie, const char *text, size_t length)
{
	(void)cookie;
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n' && !message.has_fields)
			end_message();
		else if (message.used < sizeof(message.text))
			message.text[message.used++] = text[i];
	}
	return (ssize_t)length;
}

/* The stream is never closed: threads log until the process ends. */
RTE_INIT(begin)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take});

#define X(name, word, help)                                                                        \
	types[CTRL_LOG_##name] = rte_log_register_type_and_pick_level("weir." word, RTE_LOG_NOTICE);
	CTRL_LOG_MODULES(X)
	X(CHANGE, "change", )
#undef X
	ctrl_log_to(STDERR_FILENO, is_journal(STDERR_FILENO));
	if (stream != NULL) {
		setvbuf(stream, NULL, _IONBF, 0);
		rte_openlog_stream(stream);
	}
}

void
ctrl_log_to(int fd, bool journal)
{
	out.fd = fd;
	out.journal = journal;
}

void
ctrl_log_set_levels(const struct ctrl_log_config *config)
{
	uint32_t all = rte_log_get_global_level();
	int level;

	/* EAL's --log-level=LEVEL is a limit for all types. Make it one of each type, so that types
	 * of Weir may log more and the others stay as quiet as before. */
	for (uint32_t type = 0; (level = rte_log_get_level(type)) >= 0; type++)
		rte_log_set_level(type, RTE_MIN((uint32_t)level, all));
	rte_log_set_global_level(RTE_LOG_DEBUG);
	for (unsigned int module = 0; module < CTRL_LOG_MODULE_COUNT; module++)
		rte_log_set_level((uint32_t)types[module], config->level[module]);
	rte_log_set_level((uint32_t)types[CTRL_LOG_CHANGE], RTE_LOG_NOTICE);
}

void
ctrl_log_fields(struct ctrl_log_limit *limit, enum ctrl_log_module module, uint32_t level,
	const char *format, ...)
{
	va_list args;

	end_message();
	message.has_fields = true;
	message.limit = limit;
	va_start(args, format);
	rte_vlog(level, (uint32_t)types[module], format, args);
	va_end(args);
	end_message();
	message.has_fields = false;
	message.limit = NULL;
}

struct ctrl_log_value
ctrl_log_quote(const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/@+[]";
	struct ctrl_log_value value = {"\""};
	size_t length = strlen(text), used = 1;

	if (length > 0 && length <= 120 && strspn(text, plain) == length) {
		memcpy(value.text, text, length + 1);
		return value;
	}
	for (; *text != '\0' && used < 112; text++) {
		if (*text == '"' || *text == '\\')
			value.text[used++] = '\\';
		add(value.text, sizeof(value.text), &used, is_plain(*text) ? "%c" : "\\x%02x",
			(unsigned char)*text);
	}
	add(value.text, sizeof(value.text), &used, "%s\"", *text != '\0' ? "..." : "");
	return value;
}

bool
ctrl_log_read(uint64_t *number, char text[CTRL_LOG_LINE_BYTES])
{
	bool is_kept;

	pthread_mutex_lock(&lock);
	if (*number > out.nb_lines)
		*number = 0;
	if (*number + CTRL_LOG_KEPT < out.nb_lines)
		*number = out.nb_lines - CTRL_LOG_KEPT;
	is_kept = *number < out.nb_lines;
	if (is_kept)
		memcpy(text, out.kept[*number % CTRL_LOG_KEPT], CTRL_LOG_LINE_BYTES);
	pthread_mutex_unlock(&lock);
	return is_kept;
}
