/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/inquiry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apps/libweir/weir_priv.h" /* weir_bitmap_has */

#define NAMED_MAX 8 /* missing sources that are named one by one */

/* Add to a text of `size` bytes; what does not fit is cut off. */
static void __attribute__((format(printf, 3, 4)))
append(char *to, size_t size, const char *format, ...)
{
	size_t used = strlen(to);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(to + used, size - used, format, arguments);
	va_end(arguments);
}

/* An address of the answer, or "": nothing else of it is printed as it came. */
static const char *
address_of(const json_t *member, char text[INET_ADDRSTRLEN])
{
	const char *value = json_string_value(json_object_get(member, "address"));
	struct in_addr address;

	text[0] = '\0';
	if (value != NULL && inet_pton(AF_INET, value, &address) == 1)
		inet_ntop(AF_INET, &address, text, INET_ADDRSTRLEN);
	return text;
}

static bool
is_state(const json_t *member, const char *state)
{
	const char *value = json_string_value(json_object_get(member, "state"));

	return value != NULL && strcmp(value, state) == 0;
}

static const json_t *
member_of(const json_t *members, unsigned int rank)
{
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member)
		if (json_integer_value(json_object_get(member, "rank")) == (json_int_t)rank)
			return member;
	return NULL;
}

static int
gone(const struct weir_inquiry *q, const char *how, char *text, size_t size)
{
	snprintf(text, size,
		"job \"%.64s\" is gone at the switch (says %s): %s; make it again, and join again "
		"on all ranks",
		q->name, q->where, how);
	return -ENOENT;
}

/* Is this source still the member that it was? */
static int
judge_member(const struct weir_inquiry *q, const json_t *member, char *text, size_t size)
{
	char at[INET_ADDRSTRLEN];

	/* The address of one that has left stays: who waits for it is told where it was. */
	if (member == NULL || is_state(member, "expired") || is_state(member, "left") ||
		address_of(member, at)[0] == '\0') {
		snprintf(text, size,
			"rank %u is no longer a member of job \"%.64s\" (says %s): it %s; join "
			"it again",
			q->source, q->name, q->where,
			member != NULL && is_state(member, "expired")
				? "was silent for longer than the job's expire_s"
				: "has left, or was removed");
		return -EACCES;
	}
	if (strcmp(at, q->address) == 0)
		return 0;
	snprintf(text, size,
		"rank %u of job \"%.64s\" is another host now, %s (says %s): join again, as "
		"another "
		"rank or when it has left",
		q->source, q->name, at, q->where);
	return -EACCES;
}

/* "source 1 (10.77.0.2, last heard 3.2 s ago)" */
static void
add_source(char *text, size_t size, unsigned int rank, const json_t *member)
{
	const json_t *heard = json_object_get(member, "last_heard");
	char at[INET_ADDRSTRLEN];

	if (address_of(member, at)[0] == '\0') {
		append(text, size, "rank %u (has not joined)", rank);
		return;
	}
	append(text, size, "rank %u (%s, ", rank, at);
	if (is_state(member, "expired"))
		append(text, size, "has expired)");
	else if (is_state(member, "left"))
		append(text, size, "has left)");
	else if (json_is_number(heard))
		append(text, size, "last heard %.1f s ago)", json_number_value(heard));
	else
		append(text, size, "not heard yet)");
}

/* Those of a list that are not `present` (NULL: all of it), by address. */
static void
add_missing(const json_t *members, const uint8_t *present, char *text, size_t size)
{
	unsigned int count = 0;
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member) {
		json_int_t rank = json_integer_value(json_object_get(member, "rank"));

		if (rank < 0 || rank >= WEIR_SOURCES_MAX ||
			(present != NULL && weir_bitmap_has(present, (unsigned int)rank)) ||
			count++ >= NAMED_MAX)
			continue;
		append(text, size, count == 1 ? "; the switch waits for " : ", ");
		add_source(text, size, (unsigned int)rank, member);
	}
	if (count > NAMED_MAX)
		append(text, size, " and %u more", count - NAMED_MAX);
}

/* The switch's packets don't come: does it hear ours, and who else is quiet? */
static void
add_silence(const struct weir_inquiry *q, const json_t *member, char *text, size_t size)
{
	append(text, size, "; its control API has the job, and ");
	add_source(text, size, q->source, member);
	append(text, size,
		": if that is long ago this host's packets don't reach it, else its own don't "
		"come");
}

static int
judge(const struct weir_inquiry *q, const json_t *job, char *text, size_t size)
{
	const json_t *members = json_object_get(job, "members"), *member;
	const json_t *generation = json_object_get(job, "generation");
	int code;

	if (is_state(job, "draining"))
		return gone(q, "it was deleted", text, size);
	if (!json_is_array(members) || !json_is_integer(generation))
		return 0; /* another version's, or no switch: it settles nothing */
	if (json_integer_value(json_object_get(job, "id")) != q->job)
		return gone(q, "another job has its name", text, size);
	member = member_of(members, q->source);
	code = judge_member(q, member, text, size);
	if (code < 0)
		return code;
	if (q->generation != 0 && json_integer_value(generation) == 0) {
		snprintf(text, size,
			"job \"%.64s\" has not begun at the switch (says %s), this handle is of "
			"generation %u: the switch was restarted, or the job made again; join "
			"again on every host",
			q->name, q->where, q->generation);
		return -ESTALE;
	}
	if (q->generation != 0 && json_integer_value(generation) != q->generation) {
		snprintf(text, size,
			"job \"%.64s\" has generation %d now, this handle is of %u (says %s): its "
			"ranks have joined again, or the switch was restarted; join again "
			"on every host",
			q->name, (int)json_integer_value(generation), q->generation, q->where);
		return -ESTALE;
	}
	if (q->present != NULL)
		add_missing(members, q->present, text, size);
	else
		add_silence(q, member, text, size);
	return 0;
}

int
weir_inquiry_read(const struct weir_inquiry *q, long status, const char *body, size_t length,
	char *text, size_t size)
{
	json_t *all = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
	const char *code =
		json_string_value(json_object_get(json_object_get(all, "error"), "code"));
	int verdict = 0;

	text[0] = '\0';
	if (status == 404 && code != NULL && strcmp(code, "unknown_job") == 0)
		verdict = gone(
			q, "it was deleted, or the switch was restarted without it", text, size);
	else if (status == 200 && json_is_object(all))
		verdict = judge(q, all, text, size);
	json_decref(all);
	return verdict;
}

void
weir_inquiry_read_block(
	const struct weir_inquiry *q, const char *body, size_t length, char *text, size_t size)
{
	json_t *all = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
	const json_t *block = json_array_get(json_object_get(all, "blocks"), 0);
	const json_t *missing = json_object_get(block, "missing");

	if (json_array_size(missing) > 0 && member_of(missing, q->source) == NULL) {
		text[0] = '\0';
		add_missing(missing, NULL, text, size);
	}
	json_decref(all);
}
