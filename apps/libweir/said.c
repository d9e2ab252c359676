/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What calls said, as errno keeps what system calls did: each thread has its own texts, so that no thread is told
 * of another's failure, and a child of fork() needs no lock for them. They are of fixed number and size, so that a
 * thread that ends leaves nothing to free. (A destructor of the thread's would outlive a library that is unloaded.)
 */
#include "apps/libweir/weir_priv.h"

#include <stdarg.h>
#include <stdio.h>

struct said {
	uint64_t handle; /* its number; 0: none */
	uint64_t turn; /* of the thread's texts, the oldest gives way */
	char text[WEIR_ERROR_MAX];
};

static _Thread_local struct said said[WEIR_SAID_HANDLES];
static _Thread_local uint64_t turns;

static struct said *
said_of(const struct weir *weir)
{
	for (unsigned int i = 0; i < WEIR_SAID_HANDLES; i++)
		if (said[i].handle == weir->number)
			return &said[i];
	return NULL;
}

/* The place for a new text of this handle. */
static char *
renew(const struct weir *weir)
{
	struct said *s = said_of(weir);

	if (s == NULL) {
		s = &said[0];
		for (unsigned int i = 1; i < WEIR_SAID_HANDLES; i++)
			if (said[i].turn < s->turn)
				s = &said[i];
	}
	s->handle = weir->number;
	s->turn = ++turns;
	return s->text;
}

int
weir_say(const struct weir *weir, int code, const char *text)
{
	snprintf(renew(weir), WEIR_ERROR_MAX, "%s", text);
	return code;
}

int
weir_refuse(const struct weir *weir, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(renew(weir), WEIR_ERROR_MAX, format, arguments);
	va_end(arguments);
	return code;
}

const char *
weir_last_error(const struct weir *weir)
{
	const struct said *s;

	if (weir == NULL)
		return "no memory for a handle";
	s = said_of(weir);
	return s != NULL ? s->text : "";
}
