/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl top: ask, show, wait. */
#include "apps/ctl/top.h"

#include <err.h>
#include <stdlib.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/views.h"

#define STUCK_LIMIT   "256"
#define JOINING_ASKED 4 /* jobs that wait to begin, of which the members are asked for */

struct top {
	struct ctl *ctl;
	struct top_sample before, now;
	bool asked_twice; /* `before` is filled */
	bool failed; /* the last question has no answer */
	enum screen_event event; /* seen while a request was under way */
};

static void
sample_free(struct top_sample *sample)
{
	json_decref(sample->status);
	json_decref(sample->ports);
	json_decref(sample->jobs);
	json_decref(sample->counters);
	json_decref(sample->stuck);
	json_decref(sample->waiting);
	*sample = (struct top_sample){0};
}

/* The jobs whose hosts wait though no block is stuck. */
static bool
take_waiting(struct ctl *ctl, struct top_sample *sample, bool quiet)
{
	json_t *list = get(sample->jobs, "jobs"), *job;
	bool asked = true;

	sample->waiting = json_array();
	for (size_t i = 0; asked && i < json_array_size(list) &&
		json_array_size(sample->waiting) < JOINING_ASKED;
		i++) {
		char *path;

		if (!view_may_wait(json_array_get(list, i)))
			continue;
		path = ctl_path("/v1/jobs/", get_text(json_array_get(list, i), "name"), "");
		asked = ctl_get(ctl, path, quiet, &job);
		if (job != NULL)
			json_array_append_new(sample->waiting, job);
		free(path);
	}
	return asked;
}

/* The status must be there; the rest is left out where the switch has none of it. */
static bool
sample_take(struct ctl *ctl, struct top_sample *sample, bool quiet)
{
	*sample = (struct top_sample){0};
	sample->time = ctl_clock();
	if (ctl_get(ctl, "/v1/status", quiet, &sample->status) && sample->status != NULL &&
		ctl_get(ctl, "/v1/ports", quiet, &sample->ports) &&
		ctl_get(ctl, "/v1/jobs", quiet, &sample->jobs) &&
		ctl_get(ctl, "/v1/counters", quiet, &sample->counters) &&
		ctl_get(ctl, "/v1/blocks?stuck=1&limit=" STUCK_LIMIT, quiet, &sample->stuck) &&
		take_waiting(ctl, sample, quiet))
		return true;
	sample_free(sample);
	return false;
}

static bool
interrupted(void *argument)
{
	struct top *top = argument;
	enum screen_event event = screen_event();

	if (event != SCREEN_NOTHING)
		top->event = event;
	return event == SCREEN_QUIT || event == SCREEN_KILLED;
}

static void
show(const struct top *top)
{
	unsigned int width, rows;
	char *frame = NULL;
	size_t length;
	FILE *out = open_memstream(&frame, &length);

	if (out == NULL)
		err(CTL_REFUSED, "top");
	screen_size(&width, &rows);
	top_frame(top->asked_twice ? &top->before : NULL, &top->now,
		!top->failed ? NULL
			: top->ctl->status == CTL_NO_CONNECTION
			? top->ctl->client.error
			: "the answers make no sense: weirctl status says more",
		ctl_clock() - top->now.time, out, width, rows);
	fclose(out);
	screen_show(frame);
	free(frame);
}

static void
step(struct top *top)
{
	struct top_sample fresh;

	top->failed = !sample_take(top->ctl, &fresh, true);
	if (top->failed)
		return;
	sample_free(&top->before);
	top->before = top->now;
	top->now = fresh;
	top->asked_twice = true;
}

/* Until the next sample is due, or the user goes. */
static bool
rest(struct top *top, double until)
{
	do {
		if (top->event == SCREEN_NOTHING)
			top->event = screen_event();
		if (top->event == SCREEN_QUIT || top->event == SCREEN_KILLED)
			return false;
		if (top->event == SCREEN_REDRAW)
			show(top);
		top->event = SCREEN_NOTHING;
		screen_wait(until - ctl_clock());
	} while (ctl_clock() < until);
	return true;
}

static int
live(struct top *top)
{
	/* The first answer is waited for before the screen is taken: an error stays readable. */
	if (!sample_take(top->ctl, &top->now, false))
		return top->ctl->status;
	if (!screen_open()) {
		ctl_say("top needs a terminal; top --once prints one frame");
		sample_free(&top->now);
		return CTL_USAGE;
	}
	top->ctl->client.interrupted = interrupted;
	top->ctl->client.argument = top;
	for (;;) {
		double begin = ctl_clock();

		if (top->event == SCREEN_NOTHING)
			show(top);
		if (!rest(top, begin + top->ctl->options.interval))
			break;
		step(top);
	}
	screen_close();
	sample_free(&top->before);
	sample_free(&top->now);
	return CTL_OK;
}

/* One frame, of two samples; the marks of lines are for a screen. */
static int
once(struct top *top)
{
	double interval = top->ctl->options.interval;
	const struct timespec pause = {
		(time_t)interval, (long)((interval - (double)(time_t)interval) * 1e9)};
	char *frame = NULL;
	size_t length;
	FILE *out;

	if (!sample_take(top->ctl, &top->before, false))
		return top->ctl->status;
	nanosleep(&pause, NULL);
	if (!sample_take(top->ctl, &top->now, false)) {
		sample_free(&top->before);
		return top->ctl->status;
	}
	out = open_memstream(&frame, &length);
	if (out == NULL)
		err(CTL_REFUSED, "top");
	top_frame(&top->before, &top->now, NULL, 0, out, top->ctl->width, 0);
	fclose(out);
	for (size_t i = 0; i < length; i++)
		if (frame[i] != TOP_TITLE && frame[i] != TOP_ALARM)
			putchar(frame[i]);
	free(frame);
	sample_free(&top->before);
	sample_free(&top->now);
	return CTL_OK;
}

int
command_top(struct ctl *ctl)
{
	struct top top = {.ctl = ctl};

	if (ctl->options.json) {
		ctl_say("top prints no JSON: weirctl --json counters --watch does");
		return CTL_USAGE;
	}
	return ctl->options.once ? once(&top) : live(&top);
}
