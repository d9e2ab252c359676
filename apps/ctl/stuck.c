/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is stuck, and why, in the switch's own words: where a block waits for another switch of a tree, that switch is asked,
 * and its words are put behind, until one of them names hosts. Each switch is asked once, and may take --timeout.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"

#define SWITCHES_MAX 32 /* that are asked */
#define HOPS_MAX     8 /* between switches */
#define NAMED_MAX    4 /* switches that one block waits for, and that are asked */

struct asked {
	char *address, *job;
	json_t *answer; /* NULL: the job is not there, or */
	bool silent; /* there was no answer */
};

struct search {
	struct ctl *ctl;
	struct asked asked[SWITCHES_MAX];
	unsigned int count;
	json_t *status; /* of the switch that was asked first; NULL: not asked yet, or no answer */
};

/* What is stuck of a job at another switch; NULL: too many have been asked. */
static const struct asked *
ask(struct search *search, const char *address, const char *job)
{
	struct asked *asked = search->asked;
	struct ctl other, like = *search->ctl;
	char *path;

	for (unsigned int i = 0; i < search->count; i++, asked++)
		if (strcmp(asked->address, address) == 0 && strcmp(asked->job, job) == 0)
			return asked;
	if (search->count == SWITCHES_MAX)
		return NULL;
	search->count++;
	*asked = (struct asked){.address = strdup(address), .job = strdup(job), .silent = true};
	if (asked->address == NULL || asked->job == NULL)
		err(CTL_REFUSED, "switch");
	/* The address is another switch's word. A token that went through TLS or a socket stays there. */
	like.options.no_token = strncmp(address, "http://", 7) == 0 &&
		strncmp(search->ctl->address, "http://", 7) != 0;
	path = ctl_path("/v1/blocks?job=", job, "&stuck=1");
	if (ctl_connect_to(&other, &like, asked->address, asked->address) == CTL_OK)
		asked->silent = !ctl_get(&other, path, &asked->answer);
	ctl_close(&other);
	free(path);
	return asked;
}

static bool
share_block(json_t *a, json_t *b)
{
	json_t *first = get(a, "blocks"), *second = get(b, "blocks");

	for (size_t i = 0; i < json_array_size(first); i++)
		for (size_t k = 0; k < json_array_size(second); k++)
			if (json_equal(json_array_get(first, i), json_array_get(second, k)))
				return true;
	return false;
}

/* What another switch says of these blocks, or else of its job; NULL: nothing. */
static json_t *
same_of(json_t *entry, json_t *answer)
{
	json_t *list = get(answer, "stuck");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (share_block(entry, json_array_get(list, i)))
			return json_array_get(list, i);
	return json_array_get(list, 0);
}

static void follow(struct search *search, json_t *entry, const char *from, unsigned int hops);

/* Put what a switch that `entry` waits for says of these blocks. from: the switch that `entry` is of; NULL:
 * the one that was asked first. */
static void
follow_to(struct search *search, json_t *entry, const char *name, const char *address,
	const char *from, unsigned int hops)
{
	const struct asked *asked = ask(search, address, get_text(entry, "job"));
	int indent = 2 * (int)hops;
	json_t *next;
	bool circle;

	if (asked == NULL)
		return;
	if (from == NULL &&
		(search->status != NULL || ctl_get(search->ctl, "/v1/status", &search->status)))
		from = json_string_value(get(search->status, "name"));
	next = same_of(entry, asked->answer);
	circle = from != NULL && strcmp(get_text(next, "parent"), from) == 0;
	if (asked->silent)
		text_printf(stdout, 2 * hops + 2, search->ctl->width, "%*s%s does not answer at %s",
			indent, "", name, address);
	else if (asked->answer == NULL)
		text_printf(stdout, 2 * hops + 2, search->ctl->width, "%*s%s has no job %s", indent,
			"", name, get_text(entry, "job"));
	else
		text_printf(stdout, 2 * hops + 2, search->ctl->width, "%*s%s: %s%s", indent, "",
			name,
			next == NULL ? "nothing is stuck: packets between the two may be lost"
				     : get_text(next, "text"),
			circle ? "; packets between the two are lost" : "");
	if (next != NULL && !circle)
		follow(search, next, name, hops + 1);
}

/* Put what the switches say that an entry waits for. from: as in follow_to. */
static void
follow(struct search *search, json_t *entry, const char *from, unsigned int hops)
{
	json_t *missing = get(entry, "missing");
	unsigned int named = 0;

	if (hops > HOPS_MAX)
		return;
	if (json_is_string(get(entry, "api")))
		follow_to(search, entry, get_text(entry, "parent"), get_text(entry, "api"), from,
			hops);
	for (size_t i = 0; i < json_array_size(missing) && named < NAMED_MAX; i++) {
		json_t *source = json_array_get(missing, i);

		if (!json_is_string(get(source, "api")))
			continue;
		named++;
		follow_to(search, entry, get_text(source, "name"), get_text(source, "api"), from,
			hops);
	}
}

void
view_stuck(struct ctl *ctl, json_t *answer)
{
	json_t *list = get(answer, "stuck");
	struct search search = {.ctl = ctl};

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *entry = json_array_get(list, i);

		text_printf(stdout, 2, ctl->width, "job %s: %s", get_text(entry, "job"),
			get_text(entry, "text"));
		if (json_is_string(get(entry, "detail")))
			text_printf(stdout, 2, ctl->width, "  %s", get_text(entry, "detail"));
		follow(&search, entry, NULL, 1);
	}
	if (json_array_size(list) == 0)
		fputs("nothing is stuck\n", stdout);
	for (unsigned int i = 0; i < search.count; i++) {
		free(search.asked[i].address);
		free(search.asked[i].job);
		json_decref(search.asked[i].answer);
	}
	json_decref(search.status);
	ctl->status = CTL_OK;
}
