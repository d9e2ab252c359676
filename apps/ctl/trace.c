/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

static int
save(const char *name, const struct client_answer *trace)
{
	bool failed = true;
	FILE *file;

	if (trace->length == 0 || strchr("{[", trace->body[0]) == NULL) {
		ctl_say("the answer is not a trace");
		return CTL_REFUSED;
	}
	if (strcmp(name, "-") == 0) {
		get_print(trace->body, trace->length, stdout);
		return CTL_OK;
	}
	file = fopen(name, "we");
	if (file != NULL) {
		get_print(trace->body, trace->length, file);
		failed = ferror(file) != 0;
		failed |= fclose(file) != 0;
	}
	if (failed) {
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
