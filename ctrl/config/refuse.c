/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/refuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctrl/config/locate.h"

struct ctrl_path
ctrl_path(const char *format, ...)
{
	struct ctrl_path path;
	va_list args;

	va_start(args, format);
	vsnprintf(path.text, sizeof(path.text), format, args);
	va_end(args);
	return path;
}

/* A file's strings may hold anything; an error is one line of print. */
static void
make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void write_error(const struct ctrl_source *source, struct ctrl_place place,
	const char *where, const char *format, va_list args) __attribute__((format(printf, 4, 0)));

static void
write_error(const struct ctrl_source *source, struct ctrl_place place, const char *where,
	const char *format, va_list args)
{
	int used = snprintf(source->error, source->error_size, "%s:%u:%u: %s%s", source->file,
		place.line, place.column, where, *where != '\0' ? ": " : "");

	if (used >= 0 && (size_t)used < source->error_size)
		vsnprintf(source->error + used, source->error_size - (size_t)used, format, args);
	make_printable(source->error);
}

int
ctrl_refuse(const struct ctrl_source *source, struct ctrl_path path, const char *format, ...)
{
	struct ctrl_place place = ctrl_locate(source->text, source->length, path.text, NULL);
	va_list args;

	va_start(args, format);
	write_error(source, place, path.text, format, args);
	va_end(args);
	return -EINVAL;
}

int
ctrl_refuse_key(const struct ctrl_source *source, struct ctrl_path path, const char *key,
	const char *format, ...)
{
	struct ctrl_place place = ctrl_locate(source->text, source->length, path.text, key);
	char where[CTRL_PATH_MAX + 80];
	va_list args;

	snprintf(
		where, sizeof(where), "%s%s%.64s", path.text, path.text[0] != '\0' ? "." : "", key);
	va_start(args, format);
	write_error(source, place, where, format, args);
	va_end(args);
	return -EINVAL;
}

int
ctrl_refuse_text(const struct ctrl_source *source, const json_error_t *why)
{
	snprintf(source->error, source->error_size, "%s:%d:%d: %s", source->file,
		why->line < 1 ? 1 : why->line, why->column < 1 ? 1 : why->column, why->text);
	/* It quotes what it stands at, and goes on behind that in lines of its own. */
	source->error[strcspn(source->error, "\n")] = '\0';
	make_printable(source->error);
	return -EINVAL;
}
