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

struct search {
	struct ctl *ctl;
	json_t *asked; /* what switches have answered, by address and question; null: the job is not there; false: no answer */
	json_t *status; /* of the switch that was asked first; NULL: not asked yet, or no answer */
};

/* What is stuck of a job at another switch; NULL: too many have been asked. */
static json_t *
ask(struct search *search, const char *address, const char *job)
{
	char *path = ctl_path("/v1/blocks?job=", job, "&stuck=1"), *key;
	struct ctl other, like = *search->ctl;
	json_t *answer;

	if (asprintf(&key, "%s %s", address, path) < 0)
		err(CTL_REFUSED, "switch");
	answer = json_object_get(search->asked, key);
	if (answer == NULL && json_object_size(search->asked) < SWITCHES_MAX) {
		/* The address is another switch's word. A token that went through TLS or a socket stays there. */
		like.options.no_token = strncmp(address, "http://", 7) == 0 &&
			strncmp(search->ctl->address, "http://", 7) != 0;
		if (ctl_connect_to(&other, &like, address, address) != CTL_OK ||
			!ctl_get(&other, path, &answer))
			answer = json_false();
		ctl_close(&other);
		answer = answer == NULL ? json_null() : answer;
		json_object_set_new(search->asked, key, answer);
	}
	free(key);
	free(path);
	return answer;
}

/* What another switch says of one of these blocks, or else of its job; NULL: nothing. */
static json_t *
same_of(json_t *entry, json_t *answer)
{
	json_t *list = get(answer, "stuck"), *other, *a, *b;
	size_t i, k, l;

	json_array_foreach (list, i, other)
		json_array_foreach (get(entry, "blocks"), k, a)
			json_array_foreach (get(other, "blocks"), l, b)
				if (json_equal(a, b))
					return other;
	return json_array_get(list, 0);
}

static void follow(struct search *search, json_t *entry, const char *from, unsigned int hops);

/* Put what a switch that `entry` waits for says of these blocks. from: the switch that `entry` is of; NULL:
 * the one that was asked first. */
static void
follow_to(struct search *search, json_t *entry, const char *name, const char *address,
	const char *from, unsigned int hops)
{
	const char *job = get_text(entry, "job");
	json_t *answer = ask(search, address, job), *next = same_of(entry, answer);
	bool circle;

	if (answer == NULL)
		return;
	if (from == NULL &&
		(search->status != NULL || ctl_get(search->ctl, "/v1/status", &search->status)))
		from = json_string_value(get(search->status, "name"));
	circle = from != NULL && strcmp(get_text(next, "parent"), from) == 0;
	text_printf(stdout, 2 * hops + 2, search->ctl->width, "%*s%s%s%s%s", (int)(2 * hops), "",
		name,
		json_is_false(answer)          ? " does not answer at "
			: json_is_null(answer) ? " has no job "
					       : ": ",
		json_is_false(answer)          ? address
			: json_is_null(answer) ? job
			: next == NULL ? "nothing is stuck: packets between the two may be lost"
				       : get_text(next, "text"),
		circle ? "; packets between the two are lost" : "");
	if (next != NULL && !circle)
		follow(search, next, name, hops + 1);
}

/* Put what the switches say that an entry waits for. from: as in follow_to. */
static void
follow(struct search *search, json_t *entry, const char *from, unsigned int hops)
{
	unsigned int named = 0;
	json_t *source;
	size_t i;

	if (hops > HOPS_MAX)
		return;
	if (json_is_string(get(entry, "api")))
		follow_to(search, entry, get_text(entry, "parent"), get_text(entry, "api"), from,
			hops);
	json_array_foreach (get(entry, "missing"), i, source)
		if (json_is_string(get(source, "api")) && named++ < NAMED_MAX)
			follow_to(search, entry, get_text(source, "name"), get_text(source, "api"),
				from, hops);
}

void
view_stuck(struct ctl *ctl, json_t *answer)
{
	struct search search = {.ctl = ctl, .asked = json_object()};
	json_t *list = get(answer, "stuck"), *entry;
	size_t i;

	json_array_foreach (list, i, entry) {
		text_printf(stdout, 2, ctl->width, "job %s: %s", get_text(entry, "job"),
			get_text(entry, "text"));
		if (json_is_string(get(entry, "detail")))
			text_printf(stdout, 2, ctl->width, "  %s", get_text(entry, "detail"));
		follow(&search, entry, NULL, 1);
	}
	if (json_array_size(list) == 0)
		fputs("nothing is stuck\n", stdout);
	json_decref(search.asked);
	json_decref(search.status);
	ctl->status = CTL_OK;
}
