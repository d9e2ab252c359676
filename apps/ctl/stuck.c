/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is stuck, and why: where a block waits for another switch of a tree, that switch is asked, until one of them
 * names hosts. Each switch is asked once, and may take --timeout.
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

static void put_who(
	struct search *search, json_t *entry, const char *from, unsigned int hops, FILE *out);

/* A switch that `entry` waits for, and what it waits for itself. from: the switch that `entry` is of. */
static void
put_switch(struct search *search, json_t *entry, const char *name, const char *address,
	const char *from, unsigned int hops, FILE *out)
{
	const char *job = get_text(entry, "job");
	const struct asked *asked = ask(search, address, job);
	json_t *next;

	fputs(name, out);
	if (asked == NULL)
		return;
	next = same_of(entry, asked->answer);
	if (asked->silent) {
		fprintf(out, ", which does not answer at %s", address);
	} else if (asked->answer == NULL) {
		fprintf(out, ", which has no job %s", job);
	} else if (next == NULL) {
		fputs(", where nothing is stuck: packets between the two may be lost", out);
	} else if (strcmp(get_text(next, "parent"), from) == 0) {
		fprintf(out, ", which waits for %s: packets between the two are lost", from);
	} else {
		fputs(", which waits for ", out);
		put_who(search, next, name, hops + 1, out);
	}
}

/* Whom an entry waits for. from: the switch that it is of. */
static void
put_who(struct search *search, json_t *entry, const char *from, unsigned int hops, FILE *out)
{
	json_t *missing = get(entry, "missing");
	size_t count = json_array_size(missing), put = 0;

	if (hops < HOPS_MAX && json_is_string(get(entry, "api"))) {
		put_switch(search, entry, get_text(entry, "parent"), get_text(entry, "api"), from,
			hops, out);
		return;
	}
	for (size_t i = 0; i < count && put < NAMED_MAX && hops < HOPS_MAX; i++) {
		json_t *source = json_array_get(missing, i);

		if (!json_is_string(get(source, "api")))
			continue;
		if (put++ > 0)
			fputs("; and for ", out);
		put_switch(search, entry, get_text(source, "name"), get_text(source, "api"), from,
			hops, out);
	}
	if (put == 0)
		fputs(get_text(entry, "who"), out);
	else if (put < count)
		fprintf(out, "; and for %zu more", count - put);
}

/* Does it wait for a switch whose address is known? */
static bool
leads_on(json_t *entry)
{
	json_t *missing = get(entry, "missing");

	for (size_t i = 0; i < json_array_size(missing); i++)
		if (json_is_string(get(json_array_get(missing, i), "api")))
			return true;
	return json_is_string(get(entry, "api"));
}

/* The sentence of an entry, its second part replaced by what the other switches say. New. */
static char *
tell(struct search *search, json_t *entry, const char *from)
{
	const char *what = get_text(entry, "what"), *all = get_text(entry, "text");
	size_t told = strlen(what) + 1 + strlen(get_text(entry, "who")), length;
	FILE *out;
	char *text;

	out = open_memstream(&text, &length);
	if (out == NULL)
		err(CTL_REFUSED, "sentence");
	fprintf(out, "job %s: %s ", get_text(entry, "job"), what);
	put_who(search, entry, from, 0, out);
	if (strlen(all) > told && strncmp(all, what, strlen(what)) == 0)
		fputs(all + told, out); /* what the policy will do */
	if (fclose(out) != 0)
		err(CTL_REFUSED, "sentence");
	return text;
}

/* The name of the switch that was asked first; "-": unknown. Kept in `status`, new. */
static const char *
first_name(struct ctl *ctl, json_t **status)
{
	return ctl_get(ctl, "/v1/status", status) ? get_text(*status, "name") : "-";
}

void
view_stuck(struct ctl *ctl, json_t *answer)
{
	json_t *list = get(answer, "stuck"), *status = NULL;
	struct search search = {.ctl = ctl};
	const char *from = NULL;

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *entry = json_array_get(list, i);

		if (leads_on(entry)) {
			char *text;

			if (from == NULL)
				from = first_name(ctl, &status);
			text = tell(&search, entry, from);
			text_print(text, stdout, 2, ctl->width);
			free(text);
		} else {
			text_printf(stdout, 2, ctl->width, "job %s: %s", get_text(entry, "job"),
				get_text(entry, "text"));
		}
		if (json_is_string(get(entry, "detail")))
			text_printf(stdout, 2, ctl->width, "  %s", get_text(entry, "detail"));
	}
	if (json_array_size(list) == 0)
		fputs("nothing is stuck\n", stdout);
	for (unsigned int i = 0; i < search.count; i++) {
		free(search.asked[i].address);
		free(search.asked[i].job);
		json_decref(search.asked[i].answer);
	}
	json_decref(status);
	ctl->status = CTL_OK;
}
