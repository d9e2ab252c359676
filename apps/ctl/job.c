/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl job create, set and delete; member delete. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/views.h"

#define POLL_NS 100000000

static int
show(struct ctl *ctl, const char *method, const char *path, json_t *body)
{
	json_t *answer;

	if (!ctl_ask(ctl, method, path, body, &answer))
		return ctl->status;
	view_job(answer, stdout, ctl->width);
	json_decref(answer);
	return CTL_OK;
}

int
command_job_create(struct ctl *ctl)
{
	json_t *body = json_incref(ctl->options.fields);
	json_t *name = json_string(ctl->options.words[0]);

	if (json_object_get(body, "size") == NULL || name == NULL) {
		ctl_say(name == NULL ? "the name is not UTF-8"
				     : "job create: --size N is missing: how many sources it has");
		json_decref(name);
		json_decref(body);
		return CTL_USAGE;
	}
	json_object_set_new(body, "name", name);
	return show(ctl, "POST", "/v1/jobs", body);
}

int
command_job_set(struct ctl *ctl)
{
	char *path;
	int status;

	if (json_object_size(ctl->options.fields) == 0) {
		ctl_say("job set: nothing to set: --timeout-ms, --policy, --dead-after-ms, "
			"--rejoin, --rate-mbit or --expire-s");
		return CTL_USAGE;
	}
	path = ctl_path("/v1/jobs/", ctl->options.words[0], "");
	status = show(ctl, "PATCH", path, json_incref(ctl->options.fields));
	free(path);
	return status;
}

/* Until the job is not there any more; for --timeout at most. */
static int
wait_until_gone(struct ctl *ctl, const char *path)
{
	const struct timespec pause = {0, POLL_NS};
	struct timespec now;
	double end = 0, time;
	json_t *answer;

	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
		if (end == 0)
			end = time + ctl->options.timeout;
		if (!ctl_get(ctl, path, false, &answer))
			return ctl->status;
		if (answer == NULL) {
			puts("gone");
			return CTL_OK;
		}
		json_decref(answer);
		nanosleep(&pause, NULL);
	} while (time < end);
	ctl_say("after %g s the job still drains: blocks --stuck says for whom it waits; "
		"--timeout waits longer",
		ctl->options.timeout);
	return CTL_REFUSED;
}

int
command_job_delete(struct ctl *ctl)
{
	char *path = ctl_path("/v1/jobs/", ctl->options.words[0], "");
	json_t *answer;

	if (ctl_ask(ctl, "DELETE", path, NULL, &answer)) {
		const char *state = get_text(answer, "state");

		if (strcmp(state, "draining") != 0)
			puts("gone");
		else if (ctl->options.wait)
			ctl->status = wait_until_gone(ctl, path);
		else
			puts("draining: gone when its blocks are (--wait waits for it)");
		json_decref(answer);
	}
	free(path);
	return ctl->status;
}

/* Is there still a member of this rank? Sources of the configuration stay, and a host that lives
 * joins again. */
static bool
is_member(struct ctl *ctl, const char *job, const char *rank)
{
	char *path = ctl_path("/v1/jobs/", job, "");
	json_t *answer, *list;
	bool found = false;

	if (ctl_get(ctl, path, false, &answer)) {
		list = get(answer, "members");
		for (size_t i = 0; i < json_array_size(list); i++) {
			json_t *member = json_array_get(list, i);

			found |= get_number(member, "rank") == atof(rank) &&
				strcmp(get_text(member, "state"), "joined") == 0;
		}
		ctl->status = found ? CTL_REFUSED : CTL_OK;
		json_decref(answer);
	}
	free(path);
	return found;
}

int
command_member_delete(struct ctl *ctl)
{
	const char *job = ctl->options.words[0], *rank = ctl->options.words[1];
	char *members = ctl_path("/v1/jobs/", job, "/members/");
	char *path = ctl_path(members, rank, "");
	json_t *answer;

	if (ctl_ask(ctl, "DELETE", path, NULL, &answer)) {
		json_decref(answer);
		if (is_member(ctl, job, rank))
			ctl_say("rank %s is still in job %s: its place is the configuration's, or "
				"it has joined again",
				rank, job);
		else if (ctl->status == CTL_OK)
			puts("gone");
	}
	free(path);
	free(members);
	return ctl->status;
}
