/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl trace. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/units.h"

static bool
write_all(FILE *file, const struct client_answer *trace)
{
	bool failed;

	get_print(trace->body, trace->length, file);
	failed = ferror(file);
	return fclose(file) == 0 && !failed;
}

/* A new file beside the named one, as fopen() would make it. */
static FILE *
open_beside(const char *name, char *part, size_t size)
{
	mode_t mask = umask(0);
	FILE *file = NULL;
	int fd;

	umask(mask);
	if (snprintf(part, size, "%s.XXXXXX", name) >= (int)size) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	fd = mkostemp(part, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fchmod(fd, 0666 & ~mask) == 0)
		file = fdopen(fd, "w");
	if (file == NULL) {
		int saved = errno;

		close(fd);
		unlink(part);
		errno = saved;
	}
	return file;
}

/* A regular file is there whole or not at all; a device or a FIFO is written to as it is. */
static bool
write_file(const char *name, const struct client_answer *trace)
{
	struct stat kind;
	bool whole = stat(name, &kind) < 0 || S_ISREG(kind.st_mode);
	char part[4096];
	FILE *file = whole ? open_beside(name, part, sizeof(part)) : fopen(name, "we");

	if (file == NULL)
		return false;
	if (write_all(file, trace) && (!whole || rename(part, name) == 0))
		return true;
	if (whole) {
		int saved = errno;

		unlink(part);
		errno = saved;
	}
	return false;
}

static int
save(const char *name, const struct client_answer *trace)
{
	if (trace->length == 0 || strchr("{[", trace->body[0]) == NULL) {
		ctl_say("the answer is not a trace");
		return CTL_REFUSED;
	}
	if (strcmp(name, "-") == 0) {
		get_print(trace->body, trace->length, stdout);
		return CTL_OK;
	}
	if (!write_file(name, trace)) {
		ctl_say("%s: %s", name, strerror(errno));
		return CTL_REFUSED;
	}
	fprintf(stderr, "weirctl: %s: %s, for https://ui.perfetto.dev or chrome://tracing\n", name,
		units_bytes((double)trace->length).text);
	return CTL_OK;
}

int
command_trace(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	struct client_answer trace;
	char path[64];
	int status = CTL_REFUSED;

	if (o->output == NULL) {
		ctl_say("trace: -o FILE is missing; - is standard output");
		return CTL_USAGE;
	}
	snprintf(path, sizeof(path), "/v1/trace?ms=%.0f", o->span * 1e3 < 1 ? 1 : o->span * 1e3);
	ctl->client.most = CLIENT_TRACE_MAX;
	if (!client_request(&ctl->client, "GET", path, NULL, o->span, &trace)) {
		ctl_say("%s", ctl->client.error);
		return CTL_NO_CONNECTION;
	}
	if (trace.status == 200)
		status = save(o->output, &trace);
	else
		ctl_refused(ctl, &trace);
	free(trace.body);
	return status;
}
