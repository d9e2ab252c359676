/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/weir_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SET_MAX 256 /* characters of a printed set of sources */

int
weir_explain(struct weir *weir, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(weir->error, sizeof(weir->error), format, arguments);
	va_end(arguments);
	return code;
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
 * Who is missing, as far as it can be told: from the number of sources if that is known (not 0),
 * else the gaps below the highest source that is there. Source ids need not be dense; where
 * missing ones can't be told from those that don't exist, the text says who is there.
 */
static void
print_missing(const struct weir *weir, char *text, size_t size, const uint8_t *bitmap,
	unsigned int sources)
{
	char missing[SET_MAX], present[SET_MAX];
	unsigned int in = print_set(present, bitmap, true, WEIR_SOURCES_MAX);
	unsigned int out = print_set(missing, bitmap, false, sources), highest = WEIR_SOURCES_MAX;

	if (in + out == sources) {
		snprintf(text, size, "missing: %s%s %s (%u of %u are in)", weir->rank,
			out == 1 ? "" : "s", missing, in, sources);
		return;
	}
	while (highest > 0 && !weir_bitmap_has(bitmap, highest - 1))
		highest--;
	out = print_set(missing, bitmap, false, highest);
	if (in == 0)
		snprintf(text, size, "no %s is in", weir->rank);
	else if (sources == 0 && out > 0)
		snprintf(text, size,
			"missing: %s%s %s, and those above %u if the job has them (in: %s)",
			weir->rank, out == 1 ? "" : "s", missing, highest - 1, present);
	else
		snprintf(text, size, "only %s%s %s %s in, the job's others are missing", weir->rank,
			in == 1 ? "" : "s", present, in == 1 ? "is" : "are");
}

static void
print_switch(char *text, size_t size, const struct weir *weir)
{
	const struct sockaddr_in *to =
		weir->base_form && weir->running ? &weir->switch_base : &weir->switch_ext;
	char address[INET_ADDRSTRLEN] = "?";

	inet_ntop(AF_INET, &to->sin_addr, address, sizeof(address));
	snprintf(text, size, "%s:%u", address, ntohs(to->sin_port));
}

static const char *
print_own(char text[INET_ADDRSTRLEN], const struct weir *weir)
{
	const char *printed = inet_ntop(AF_INET, &weir->own.sin_addr, text, INET_ADDRSTRLEN);

	return printed != NULL ? printed : "?";
}

static void
print_network_error(char *text, size_t size, int error)
{
	text[0] = '\0';
	if (error == ECONNREFUSED)
		snprintf(text, size, " (%s: nobody listens there)", strerror(error));
	else if (error == ENETUNREACH || error == ENETDOWN || error == EINVAL ||
		error == EADDRNOTAVAIL)
		snprintf(text, size, " (%s: has this host lost its link, or its address?)",
			strerror(error));
	else if (error != 0)
		snprintf(text, size, " (%s)", strerror(error));
}

int
weir_explain_join(struct weir *weir, uint64_t waited)
{
	char where[64], network[96], missing[3 * SET_MAX], own[INET_ADDRSTRLEN];
	unsigned long long ms = waited / WEIR_NS_PER_MS;

	print_switch(where, sizeof(where), weir);
	print_network_error(network, sizeof(network), weir->network_error);
	if (weir->have_waiting) {
		print_missing(weir, missing, sizeof(missing), weir->waiting, weir->waited_for);
		return weir_explain(weir, -ETIMEDOUT,
			"%s did not begin within %llu ms, %s; start every %s of the job within the "
			"join timeout",
			weir->job_text, ms, missing, weir->rank);
	}
	return weir_explain(weir, -ETIMEDOUT,
		"the switch at %s has not answered the join of %s, %s %u (%s) for %llu ms%s; is it "
		"running, is the job in its configuration, and %s?",
		where, weir->job_text, weir->rank, weir->source, print_own(own, weir), ms, network,
		weir->auth != NULL ? "is this the job's key" : "does it need no key");
}

int
weir_explain_timeout(struct weir *weir, uint64_t now)
{
	const struct weir_operation *o = weir->current;
	char where[64], network[96], missing[3 * SET_MAX], own[INET_ADDRSTRLEN];
	unsigned long long ms = (now - o->progressed) / WEIR_NS_PER_MS;
	uint64_t silent;

	print_switch(where, sizeof(where), weir);
	print_network_error(network, sizeof(network), weir->network_error);
	if (weir->have_waiting) {
		print_missing(weir, missing, sizeof(missing), weir->waiting, weir->sources);
		return weir_explain(weir, -ETIMEDOUT,
			"%s: no block has completed for %llu ms (%u of %u have); block %u waits, "
			"%s; "
			"they are dead, slow, or not in this operation",
			weir->job_text, ms, o->done, o->blocks, weir->waiting_block, missing);
	}
	silent = now - (weir->heard_at > o->started ? weir->heard_at : o->started);
	ms = silent / WEIR_NS_PER_MS;
	return weir_explain(weir, -ETIMEDOUT,
		"the switch at %s has not answered %s %u (%s) of %s for %llu ms%s (%u of %u blocks "
		"have completed); is it running? It names missing %ss only after the job's timeout "
		"of %u ms",
		where, weir->rank, weir->source, print_own(own, weir), weir->job_text, ms, network,
		o->done, o->blocks, weir->rank, weir->timeout_ms);
}

static int
explain_mismatch(struct weir *weir, uint32_t block, const uint8_t *p, size_t bytes)
{
	struct weir_mismatch m;

	if (bytes < sizeof(m))
		return weir_explain(weir, -EPROTO, "%s: the %ss disagree about block %u",
			weir->job_text, weir->rank, block);
	memcpy(&m, p, sizeof(m));
	return weir_explain(weir, -EPROTO,
		"%s: the %ss disagree about the %s of block %u: %s %u has %u, %s %u has %u; every "
		"%s must call the same operation with the same count and type",
		weir->job_text, weir->rank, weir_field_text(m.field), block, weir->rank, m.source,
		weir_get16(m.block), weir->rank, m.other, weir_get16(m.offered), weir->rank);
}

/* A contribution of a generation that is not the switch's. */
static int
explain_stale(struct weir *weir, unsigned int generation)
{
	if (generation == WEIR_GEN_JOIN)
		return weir_explain(weir, -ESTALE,
			"%s has no generation at the switch, this handle is of generation %u: the "
			"switch was restarted, the job made again, or one of its %ss joins anew; "
			"join again on every host",
			weir->job_text, weir->generation, weir->rank);
	return weir_explain(weir, -ESTALE,
		"%s has generation %u now, this handle is of %u: the job's %ss have joined again "
		"without this one's knowledge; join again on every host",
		weir->job_text, generation, weir->generation, weir->rank);
}

static int
explain_refused(struct weir *weir, unsigned int generation)
{
	char own[INET_ADDRSTRLEN];

	if (generation == WEIR_GEN_JOIN)
		return weir_explain(weir, -ENOENT,
			"%s is gone at the switch: it was deleted, or the switch was restarted "
			"without it; make it again, and join again on all %ss",
			weir->job_text, weir->rank);
	return weir_explain(weir, -EACCES,
		"%s: the switch refuses %s %u at %s: it is no longer in the job (expired, or "
		"left), or another host has its place; join again",
		weir->job_text, weir->rank, weir->source, print_own(own, weir));
}

int
weir_explain_status(
	struct weir *weir, const struct weir_header *h, const uint8_t *payload, size_t bytes)
{
	char missing[3 * SET_MAX] = "";
	uint32_t nth = h->block_id - weir->current->first;
	uint32_t of = weir->current->blocks;

	switch (h->status) {
	case WEIR_STATUS_ERROR:
		if (bytes >= WEIR_BITMAP_BYTES)
			print_missing(weir, missing, sizeof(missing), payload, weir->sources);
		return weir_explain(weir, -EIO,
			"%s: block %u (%u of %u) timed out after %u ms at the switch, %s; the "
			"job's policy is `error`: restart the missing %ss and join again on all",
			weir->job_text, h->block_id, nth + 1, of, weir->timeout_ms, missing,
			weir->rank);
	case WEIR_STATUS_MISMATCH: return explain_mismatch(weir, h->block_id, payload, bytes);
	case WEIR_STATUS_EXPIRED:
		return weir_explain(weir, -ENODATA,
			"%s: the result of block %u is gone at the switch (expired): %s %u was "
			"silent for too long, and the others went on without it, or another sender "
			"uses its number; join again on all %ss",
			weir->job_text, h->block_id, weir->rank, weir->source, weir->rank);
	case WEIR_STATUS_STALE: return explain_stale(weir, h->gen_id);
	case WEIR_STATUS_WINDOW:
		return weir_explain(weir, -ERANGE,
			"%s: the switch takes block %u for ahead of the window of %u: the switch "
			"was restarted, or another sender uses %s %u; join again on all %ss",
			weir->job_text, h->block_id, weir->window_job, weir->rank, weir->source,
			weir->rank);
	case WEIR_STATUS_UNSUPPORTED:
		return weir_explain(weir, -EOPNOTSUPP,
			"%s: the switch does not serve this operation (collective %u, type %u, "
			"op %u)",
			weir->job_text, weir->current->collective, weir->current->dtype,
			weir->current->op);
	case WEIR_STATUS_REFUSED: return explain_refused(weir, h->gen_id);
	default:
		return weir_explain(weir, -EPROTO, "%s: block %u came back with status %u",
			weir->job_text, h->block_id, h->status);
	}
}

int
weir_explain_size(struct weir *weir, size_t datagram)
{
	return weir_explain(weir, -EMSGSIZE,
		"a block of %zu bytes (%u elements and the header), %zu with IP and UDP, does not "
		"fit the "
		"MTU of the interface: raise the MTU to at least that, on the switch's side too, "
		"or lower "
		"the job's `elements`",
		datagram, weir->current ? weir->current->per_block : weir->elements, datagram + 28);
}

int
weir_explain_partial(struct weir *weir)
{
	bool all = weir_find_missing(weir);
	char late[SET_MAX];

	/* Where not all ids are known, those that were in time say more. */
	print_set(late, all ? weir->result.missing : weir->punctual, true, WEIR_SOURCES_MAX);
	return weir_explain(weir, WEIR_PARTIAL,
		"%s: %llu of %llu blocks are partial sums, of at least %u of %u %ss; %s%s(s) %s "
		"came later than the job's timeout of %u ms",
		weir->job_text, (unsigned long long)weir->result.degraded,
		(unsigned long long)weir->result.blocks, weir->result.sources_least, weir->sources,
		weir->rank, all ? "" : "all but ", weir->rank, late, weir->timeout_ms);
}

int
weir_explain_ahead(struct weir *weir, const struct weir_slot *slot, const struct weir_header *kept)
{
	const struct weir_operation *o = weir->current;

	return weir_explain(weir, -EPROTO,
		"%s: the other %ss have called something else: block %u has %u elements of type %u "
		"(collective %u, operation %u), and this call %u of type %u (%u, %u); every %s "
		"must "
		"call the same operation with the same count and type",
		weir->job_text, weir->rank, slot->block, kept->grad_cnt, kept->dtype,
		kept->collective, kept->op,
		o->element_bytes == 0 ? 0 : slot->payload_bytes / o->element_bytes, o->dtype,
		o->collective, o->op, weir->rank);
}
