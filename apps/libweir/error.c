/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/handle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- texts of failures ---- */

#define SET_MAX     256 /* characters of a printed set of sources */
#define SILENCE_MAX 512 /* of the words on a silent switch */
#define CALL_MAX    80 /* of an operation in words */

int
weir_error_set(struct weir_handle *h, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(h->error, sizeof(h->error), format, arguments);
	va_end(arguments);
	return code;
}

void
weir_error_add(struct weir_handle *h, const char *text)
{
	size_t used = strlen(h->error);

	snprintf(h->error + used, sizeof(h->error) - used, "%s", text);
}

/* An operation, or a block of it, in words: "reduce (sum of fp32, to 3)". */
static const char *
print_call(char text[CALL_MAX], unsigned int collective, unsigned int op, unsigned int dtype,
	unsigned int root)
{
	const char *name = weir_collective_text(collective), *type = weir_dtype_text(dtype);
	const struct collective_row *row = weir_collective_row(collective);
	char where[24] = "";

	if (row->rooted)
		snprintf(where, sizeof(where), ", root %u", root);
	if (collective == WEIR_COLLECTIVE_BARRIER)
		snprintf(text, CALL_MAX, "%s", name);
	else if (row->contribution == CONTRIBUTION_REDUCE)
		snprintf(text, CALL_MAX, "%s (%s of %s%s)", name, weir_op_text(op), type, where);
	else
		snprintf(text, CALL_MAX, "%s (%s%s)", name, type, where);
	return text;
}

static const char *
print_request(char text[CALL_MAX], const struct weir_request *o)
{
	return print_call(text, o->geometry.collective, o->op, o->dtype, o->geometry.root);
}

static unsigned long long
ms(uint64_t ns)
{
	return ns / WEIR_NS_PER_MS;
}

/* The sources s < limit with has(s) == wanted, as "0-2, 5"; returns how many. */
static unsigned int
print_set(char text[SET_MAX], const uint8_t *bitmap, bool wanted, unsigned int limit)
{
	unsigned int count = 0;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned int s = 0; s < limit; s++) {
		unsigned int last = s;

		if (weir_bitmap_has(bitmap, s) != wanted)
			continue;
		while (last + 1 < limit && weir_bitmap_has(bitmap, last + 1) == wanted)
			last++;
		count += last - s + 1;
		if (used + 16 < SET_MAX)
			used += (size_t)snprintf(text + used, SET_MAX - used,
				last > s ? "%s%u-%u" : "%s%u", used ? ", " : "", s, last);
		else if (used + 5 < SET_MAX)
			used += (size_t)snprintf(text + used, SET_MAX - used, ", ...");
		s = last;
	}
	return count;
}

/*
 * Name the missing ones of `sources` sources. Their ids need not be dense. If missing ids can't be
 * told from ids that don't exist, the text names the sources that are in.
 */
static void
print_missing(const struct weir_handle *h, char *text, size_t size, const uint8_t *bitmap,
	unsigned int sources)
{
	char set[SET_MAX];
	unsigned int in = print_set(set, bitmap, true, WEIR_SOURCES_MAX);

	if (in + print_set(set, bitmap, false, sources) == sources) {
		snprintf(text, size, "missing: %s%s %s (%u of %u are in)", h->noun,
			sources - in == 1 ? "" : "s", set, in, sources);
		return;
	}
	print_set(set, bitmap, true, WEIR_SOURCES_MAX);
	snprintf(text, size, "only %s%s %s %s in, the job's others are missing", h->noun,
		in == 1 ? "" : "s", set, in == 1 ? "is" : "are");
}

static const char *
print_address(char text[INET_ADDRSTRLEN], const struct sockaddr_in *from)
{
	return inet_ntop(AF_INET, &from->sin_addr, text, INET_ADDRSTRLEN);
}

/* "the switch at 10.0.0.1:12001 has not answered source 3 (10.0.0.3) of job 1 for 300 ms", and what
 * the kernel says. */
static const char *
print_silence(char text[SILENCE_MAX], const struct weir_handle *h, const char *what, uint64_t ns)
{
	const struct sockaddr_in *to =
		h->base_form && h->generation != 0 ? &h->switch_base : &h->switch_ext;
	int error = h->network_error;
	bool lost = error == ENETUNREACH || error == ENETDOWN || error == EINVAL ||
		error == EADDRNOTAVAIL;
	char where[INET_ADDRSTRLEN], own[INET_ADDRSTRLEN];

	snprintf(text, SILENCE_MAX,
		"the switch at %s:%u has not answered %s%s %u (%s) of %s for %llu ms%s%s%s",
		print_address(where, to), ntohs(to->sin_port), what, h->noun, h->source,
		print_address(own, &h->own), h->job_text, ms(ns), error != 0 ? " (" : "",
		error != 0 ? strerror(error) : "",
		error == ECONNREFUSED           ? ": no process listens there)"
			: error == EHOSTUNREACH ? ": does it answer ARP?)"
			: lost                  ? ": did this host lose its link or its address?)"
			: error != 0            ? ")"
						: "");
	return text;
}

int
weir_error_join(struct weir_handle *h, uint64_t waited)
{
	char silence[SILENCE_MAX], missing[2 * SET_MAX];

	if (h->has_waiting) {
		print_missing(h, missing, sizeof(missing), h->waiting, h->waited_for);
		return weir_error_set(h, -ETIMEDOUT,
			"%s did not begin within %llu ms, %s; start every %s of the job, each with "
			"a number of its own, within the join timeout",
			h->job_text, ms(waited), missing, h->noun);
	}
	return weir_error_set(h, -ETIMEDOUT,
		"%s; is it running, is the job in its configuration, and %s?",
		print_silence(silence, h, "the join of ", waited),
		h->is_key_configured      ? "is this the job's key"
			: h->auth != NULL ? "does no other process have this rank"
					  : "does it need no key");
}

int
weir_error_timeout(
	struct weir_handle *h, const struct weir_request *o, uint64_t progressed, uint64_t now)
{
	char missing[2 * SET_MAX], call[CALL_MAX];

	print_request(call, o);
	/* Has the switch said that it waits for other sources, and does it still answer? It answers
	 * probes and repetitions, whose intervals grow up to WEIR_RTO_MOST. */
	if (h->has_waiting && now - h->heard_at < (now - progressed) / 4 * 3) {
		print_missing(h, missing, sizeof(missing), h->waiting, h->sources);
		return weir_error_set(h, -ETIMEDOUT,
			"%s, %s: no block has completed for %llu ms (%u of %u have); block %u "
			"waits, %s; they are dead, slow, or not in this operation",
			h->job_text, call, ms(now - progressed), o->done, o->blocks,
			h->waiting_block, missing);
	}
	if (h->join_heard_at != 0 && h->join_heard_at + 3 * WEIR_JOIN_REPEAT_NS > now)
		return weir_error_set(h, -ETIMEDOUT,
			"%s, %s: the switch is up, but no block has completed for %llu ms (%u of "
			"%u have): a %s is late, dead, or not in this operation. The switch names "
			"missing %ss only after the job's timeout of %u ms",
			h->job_text, call, ms(now - progressed), o->done, o->blocks, h->noun,
			h->noun, h->timeout_ms);
	return weir_error_silence(
		h, o, now - (h->heard_at > o->started ? h->heard_at : o->started));
}

int
weir_error_silence(struct weir_handle *h, const struct weir_request *o, uint64_t silent)
{
	char silence[SILENCE_MAX], call[CALL_MAX];

	print_request(call, o);
	print_silence(silence, h, "", silent);
	return weir_error_set(h, -ETIMEDOUT,
		"%s (%s: %u of %u blocks have completed); is it running? It names missing %ss only "
		"after the job's timeout of %u ms",
		silence, call, o->done, o->blocks, h->noun, h->timeout_ms);
}

/* A field's value in words. */
static const char *
print_value(char text[32], unsigned int field, unsigned int value)
{
	switch (field) {
	case WEIR_FIELD_COLLECTIVE: return weir_collective_text(value);
	case WEIR_FIELD_OP: return weir_op_text(value);
	case WEIR_FIELD_DTYPE: return weir_dtype_text(value);
	case WEIR_FIELD_LENGTH: snprintf(text, 32, "%u elements", value); break;
	case WEIR_FIELD_FINAL: return value ? "its end here" : "more to come";
	default: snprintf(text, 32, "%u", value);
	}
	return text;
}

static int
error_mismatch(struct weir_handle *h, const struct weir_request *o, uint32_t block,
	const uint8_t *p, size_t bytes)
{
	char call[CALL_MAX], has[32], offers[32];
	struct weir_mismatch m;
	const char *what;

	print_request(call, o);
	if (bytes < sizeof(m))
		return weir_error_set(h, -EPROTO, "%s, %s: the %ss disagree about block %u",
			h->job_text, call, h->noun, block);
	memcpy(&m, p, sizeof(m));
	what = m.field == WEIR_FIELD_LENGTH   ? "length"
		: m.field == WEIR_FIELD_FINAL ? "end of the operation"
		: m.field == WEIR_FIELD_OP    ? "operation"
					      : weir_field_text(m.field);
	return weir_error_set(h, -EPROTO,
		"%s, %s: the %ss disagree about the %s in block %u: %s %u has %s, %s %u has %s; "
		"every %s must call the same operations in the same order, with the same count, "
		"type, operation and root",
		h->job_text, call, h->noun, what, block, h->noun, m.source,
		print_value(has, m.field, weir_get16(m.block)), h->noun, m.other,
		print_value(offers, m.field, weir_get16(m.offered)), h->noun);
}

int
weir_error_stale(struct weir_handle *h, const struct weir_header *reply)
{
	/* A newer switch may have reasons that this library does not know. */
	const unsigned int why =
		reply->src_cnt <= WEIR_OVER_GONE ? reply->src_cnt : WEIR_OVER_UNSAID;

	if (reply->gen_id == WEIR_GEN_JOIN)
		return weir_error_set(h, -ESTALE,
			"%s has no generation at the switch; this handle has generation %u: %s. "
			"Join again on every host.",
			h->job_text, h->generation, weir_over_text(why));
	return weir_error_set(h, -ESTALE,
		"%s has generation %u; this handle has %u. The other %ss joined again without this "
		"one. Join again on every host.",
		h->job_text, reply->gen_id, h->generation, h->noun);
}

int
weir_error_displaced(struct weir_handle *h, const uint8_t *payload)
{
	char at[INET_ADDRSTRLEN] = "";
	struct weir_displaced by;

	memcpy(&by, payload, sizeof(by));
	inet_ntop(AF_INET, by.address, at, sizeof(at));
	return weir_error_set(h, -EEXIST,
		"%s: the place of %s %u was taken by a newer join from %s port %u "
		"(%02x:%02x:%02x:%02x:%02x:%02x): is another process running as %s %u?",
		h->job_text, h->noun, h->source, at, weir_get16(by.port), by.mac[0], by.mac[1],
		by.mac[2], by.mac[3], by.mac[4], by.mac[5], h->noun, h->source);
}

int
weir_error_status(struct weir_handle *h, const struct weir_request *o, uint32_t block,
	const struct weir_shape *shape, const struct weir_header *reply, const uint8_t *payload,
	size_t bytes)
{
	char missing[2 * SET_MAX] = "", call[CALL_MAX], own[INET_ADDRSTRLEN];

	switch (reply->status) {
	case WEIR_STATUS_ERROR:
		if (bytes >= WEIR_BITMAP_BYTES)
			print_missing(h, missing, sizeof(missing), payload, h->sources);
		return weir_error_set(h, -EIO,
			"%s, %s: block %u (%u of %u) timed out after %u ms at the switch, %s; the "
			"job's policy is `error`, or the root's data is what is missing: restart "
			"the missing %ss and join again on all",
			h->job_text, print_request(call, o), block, block - o->first + 1, o->blocks,
			h->timeout_ms, missing, h->noun);
	case WEIR_STATUS_MISMATCH: return error_mismatch(h, o, block, payload, bytes);
	case WEIR_STATUS_EXPIRED:
		return weir_error_set(h, -ENODATA,
			"%s: the result of block %u is gone at the switch (expired): %s %u was "
			"silent for too long, and the others went on without it, or another sender "
			"uses its number; join again on all %ss",
			h->job_text, block, h->noun, h->source, h->noun);
	case WEIR_STATUS_STALE: return weir_error_stale(h, reply);
	case WEIR_STATUS_WINDOW:
		return weir_error_set(h, -ERANGE,
			"%s: the switch refuses block %u, which is outside its window of %u: it "
			"was restarted, or another sender uses %s %u; join again on all %ss",
			h->job_text, block, h->window_job, h->noun, h->source, h->noun);
	case WEIR_STATUS_UNSUPPORTED:
		return weir_error_set(h, -EOPNOTSUPP,
			"%s: the switch does not serve this operation, %s: is it older than this "
			"library, or the block larger than the job's?",
			h->job_text,
			print_call(call, shape->collective, o->op, o->dtype, shape->root));
	case WEIR_STATUS_REFUSED: /* the control API tells which it is (weir_query_job) */
		return weir_error_set(h, -ENOENT,
			"%s is gone at the switch: it was deleted, or the switch was restarted "
			"without it; or %s %u at %s is no longer in it; create it again, or join "
			"again",
			h->job_text, h->noun, h->source, print_address(own, &h->own));
	default:
		return weir_error_set(h, -EPROTO, "%s: block %u came back with status %u",
			h->job_text, block, reply->status);
	}
}

int
weir_error_partial(struct weir_handle *h, struct weir_request *o)
{
	bool all = weir_partial_missing(h, o);
	char late[SET_MAX];

	/* If not all ids are known, name the sources that were in time. */
	print_set(late, all ? o->result.missing : o->punctual, true, WEIR_SOURCES_MAX);
	return weir_error_set(h, WEIR_PARTIAL,
		"%s: %llu of %llu blocks are partial, of at least %u of %u %ss; %s%s(s) %s came "
		"later than the job's timeout of %u ms",
		h->job_text, (unsigned long long)o->result.degraded,
		(unsigned long long)o->result.blocks, o->result.sources_least, h->sources, h->noun,
		all ? "" : "all but ", h->noun, late, h->timeout_ms);
}

int
weir_error_unexpected(struct weir_handle *h, const struct weir_request *o, uint32_t block,
	const struct weir_shape *shape, const struct weir_header *kept)
{
	char theirs[CALL_MAX], ours[CALL_MAX];

	return weir_error_set(h, -EPROTO,
		"%s: the other %ss have called something else: block %u has %u elements of %s, and "
		"this call %u of %s; every %s must call the same operations in the same order, "
		"with the same count, type, operation and root",
		h->job_text, h->noun, block, kept->grad_cnt,
		print_call(theirs, kept->collective, kept->op, kept->dtype, kept->root),
		shape->elements, print_call(ours, shape->collective, o->op, o->dtype, shape->root),
		h->noun);
}

/* ---- waiting ---- */

#define WARN_NS (3000 * WEIR_NS_PER_MS)

uint64_t
weir_warn_due(struct weir_handle *h, uint64_t since)
{
	if (h->waits_since != since) {
		h->waits_since = since;
		h->warn_at = since + WARN_NS;
	}
	return h->warn_at;
}

void
weir_warn(struct weir_handle *h, const char *prefix, const char *text)
{
	pthread_mutex_lock(&h->warn_lock);
	if (h->warn != NULL)
		h->warn(h->warn_context, text);
	else if (!h->is_muted)
		fprintf(stderr, "weir: %s%s\n", prefix, text);
	pthread_mutex_unlock(&h->warn_lock);
}

void
weir_warn_waiting(struct weir_handle *h, const char *text)
{
	h->warn_at = h->waits_since + 2 * (weir_now() - h->waits_since);
	weir_warn(h, "still waiting: ", text);
}

/* ---- the last text of each thread ----
 *
 * As with errno, each thread has its own texts: no thread sees another's failure, and a child of
 * fork() needs no lock. Number and size are fixed, so a thread that ends leaves nothing to free. (A
 * thread destructor would outlive a library that is unloaded.)
 */

struct last {
	uint64_t handle; /* its number; 0: none */
	uint64_t turn; /* grows with each text of the thread; the oldest is replaced */
	char text[WEIR_ERROR_MAX];
};

static _Thread_local struct last lasts[WEIR_ERROR_HANDLES];
static _Thread_local uint64_t turns;

int
weir_error_return(const struct weir_handle *h, int code, const char *format, ...)
{
	struct last *l = &lasts[0]; /* the place of its text */
	va_list arguments;

	for (unsigned int i = 0; i < WEIR_ERROR_HANDLES && l->handle != h->number; i++)
		if (lasts[i].handle == h->number || lasts[i].turn < l->turn)
			l = &lasts[i];
	l->handle = h->number;
	l->turn = ++turns;
	va_start(arguments, format);
	vsnprintf(l->text, sizeof(l->text), format, arguments);
	va_end(arguments);
	return code;
}

const char *
weir_error_last(const struct weir_handle *h)
{
	for (unsigned int i = 0; i < WEIR_ERROR_HANDLES; i++)
		if (lasts[i].handle == h->number)
			return lasts[i].text;
	return "";
}
