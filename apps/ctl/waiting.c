/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose hosts wait though no block is stuck: for sources to join, or for acknowledgements. */
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define STILL_HEARD 2 /* seconds; who waits repeats itself more often */

/* The members that are not in. New. */
static json_t *
absent_members(json_t *job)
{
	json_t *all = get(job, "members"), *list = json_array();

	for (size_t i = 0; i < json_array_size(all); i++)
		if (strcmp(get_text(json_array_get(all, i), "state"), "joined") != 0)
			json_array_append(list, json_array_get(all, i));
	return list;
}

/* Does a host wait for the job to begin? Before the first generation whoever is in does, and a job
 * that was made and is not used yet waits for nobody. */
static bool
somebody_asks(json_t *job)
{
	json_t *all = get(job, "members");

	for (size_t i = 0; i < json_array_size(all); i++)
		if (isfinite(get_number(json_array_get(all, i), "asks")))
			return true;
	return !(get_number(job, "generation") > 0);
}

/* Has the job begun to gather, and lacks some? */
static bool
may_join(json_t *job)
{
	double joined = get_number(job, "joined");

	return strcmp(get_text(job, "state"), "joining") == 0 && joined > 0 &&
		joined < get_number(job, "size");
}

/* Are there results that somebody has not acknowledged, and no block that is open? When all live and
 * contribute, half of the buffers are enough. */
static bool
may_lack_acknowledgements(json_t *job)
{
	return strcmp(get_text(job, "state"), "running") == 0 &&
		strcmp(get_text(job, "policy"), "partial") == 0 &&
		get_number(job, "blocks_in_flight") <= 0 &&
		2 * get_number(job, "buffers.used") > get_number(job, "buffers.reserved");
}

bool
view_may_wait(json_t *job)
{
	return may_join(job) || may_lack_acknowledgements(job);
}

/* The members that are in, and silent while others repeat what they have sent. New. */
static json_t *
silent_members(json_t *job)
{
	json_t *all = get(job, "members"), *list = json_array();
	double least = INFINITY, patience = fmax(1, get_number(job, "timeout_ms") / 1e3);

	for (size_t i = 0; i < json_array_size(all); i++)
		least = fmin(least, get_number(json_array_get(all, i), "last_heard"));
	for (size_t i = 0; least < STILL_HEARD && i < json_array_size(all); i++) {
		json_t *m = json_array_get(all, i);

		if (strcmp(get_text(m, "state"), "joined") == 0 &&
			get_number(m, "last_heard") > least + patience)
			json_array_append(list, m);
	}
	return list;
}

/* They hold up who is two windows ahead, until they are given up. */
static unsigned int
tell_silent(json_t *job, FILE *out, unsigned int width)
{
	json_t *silent = silent_members(job);
	size_t count = json_array_size(silent);
	double dead_after = get_number(job, "dead_after_ms") / 1e3;
	char *text = NULL;
	size_t length;
	FILE *to = count > 0 ? open_memstream(&text, &length) : NULL;

	if (to == NULL) {
		json_decref(silent);
		return 0;
	}
	fprintf(to, "job %s: its results wait for the acknowledgement of ", get_text(job, "name"));
	view_sources(silent, to);
	if (dead_after > 0)
		fprintf(to, "; policy partial: after %s of that the others go on without %s",
			units_age(dead_after).text, count == 1 ? "it" : "them");
	else
		fprintf(to, "; dead_after_ms is 0: nothing will happen until %s",
			count == 1 ? "it sends" : "they send");
	fclose(to);
	text_print(text, out, 2, width);
	free(text);
	json_decref(silent);
	return 1;
}

static unsigned int
tell_joining(json_t *job, FILE *out, unsigned int width)
{
	double joined = get_number(job, "joined"), size = get_number(job, "size");
	bool again = get_number(job, "generation") > 0;
	char *text = NULL;
	json_t *missing;
	size_t length;
	FILE *to;

	if (!somebody_asks(job))
		return 0;
	missing = absent_members(job);
	to = open_memstream(&text, &length);
	if (to == NULL)
		err(1, "jobs");
	fprintf(to, "job %s: %s%s of %s sources have joined%s", get_text(job, "name"),
		again ? "" : "has not begun: ", units_exact(joined).text, units_exact(size).text,
		again ? " to begin anew" : "");
	if (json_array_size(missing) > 0) {
		fputs("; it waits for ", to);
		view_sources(missing, to);
	}
	fclose(to);
	text_print(text, out, 2, width);
	free(text);
	json_decref(missing);
	return 1;
}

unsigned int
view_waiting(json_t *job, FILE *out, unsigned int width)
{
	if (may_join(job))
		return tell_joining(job, out, width);
	return may_lack_acknowledgements(job) ? tell_silent(job, out, width) : 0;
}
