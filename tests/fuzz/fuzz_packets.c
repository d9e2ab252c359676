/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames for the whole switch: parser, dispatch, crossbar and all programs, with jobs of every kind. The
 * input is a list of steps: right contributions and joins, the same with bytes changed, rubbish, time
 * that passes, attributes that change. One job has parents, one has switches as sources; the input plays
 * all of them.
 *
 * Whatever comes: each packet has one end, nothing is leaked, what leaves is well-formed, and as long as
 * nothing has been changed in an aggregation header, a result is what its collective makes of the sources
 * that it names, and of no others.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "tests/eal/rig.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/fuzz.h"
#include "tests/eal/rig.h"
#include "tests/model/tags.h"

#define JOBS       6
#define PORTS      3
#define STEPS_MAX  128
#define HEADER     42 /* where the aggregation header begins */
#define RAW_MAX    1600
#define ELEMENTS   CALLS_ELEMENTS
#define GENERATION 7 /* of the jobs that have it fixed */
#define RANKS      4 /* of trees */
#define TREE       0x88 /* of the bits 0xc8 of a step's kind */
#define PARENTS    2
#define CHILDREN   3

/* The last two are of trees, and no other steps than theirs are about them. */
enum { JOINED, FIXED, AUTHENTICATED, GROUP, LEAF, PARENT };

static const struct ranks leaf_ranks = {1, 2};
static const struct ranks children[CHILDREN] = {{0, 1}, {1, 2}, {3, 1}};

static struct rig rig;
static struct rig_config config;
static uint8_t frame[RIG_FRAME_MAX];
static const uint8_t job_key[WEIR_KEY_BYTES] = {1, 2, 3};

/* What hosts know of their job, from what they hear. */
static struct {
	uint16_t generation;
	uint16_t sources; /* of it; 0: who knows */
	uint8_t challenge[4][WEIR_CHALLENGE_BYTES]; /* by source */
	uint8_t begun[WEIR_CHALLENGE_BYTES];
	uint32_t joins; /* sent */
} heard[JOBS];
static bool varied; /* not only allreduce and barrier, which the base form tells apart */
static bool changed; /* some aggregation header or payload was not as a host makes it */
static uint64_t cuts; /* 0: one segment */

/* --- hosts ------------------------------------------------------------------------------------- */

static void
sign(uint8_t *header, unsigned int payload, unsigned int source, uint32_t block)
{
	uint8_t key[WEIR_KEY_BYTES];

	tags_source_key(job_key, (uint8_t)source, 0, key);
	tags_contributions_key(
		key, heard[AUTHENTICATED].begun, heard[AUTHENTICATED].generation, key);
	tags_gmac(key, 0, block, header, header + WEIR_EXT_BYTES, payload,
		header + WEIR_EXT_BYTES + payload);
}

static unsigned int
contribution(
	unsigned int j, unsigned int source, uint32_t block, const struct call *call, bool extended)
{
	bool tagged = j == AUTHENTICATED;
	struct weir_header h = {.job_id = rig.job[j].id,
		.src_id = (uint8_t)source,
		.block_id = block,
		.gen_id = heard[j].generation,
		.grad_cnt = call->count,
		.collective = call->collective,
		.root = call->root,
		.dtype = call->count == 0 ? 0 : WEIR_DTYPE_INT32,
		.flags = tagged ? WEIR_FLAG_AUTHENTICATED : 0,
		.extended = extended || tagged};
	uint32_t payload[ELEMENTS + WEIR_TAG_BYTES / 4] = {0};
	unsigned int count = calls_sent(call, (struct ranks){source, 1}, 1u << source,
		heard[j].sources == 0 ? 1 : heard[j].sources, payload);
	unsigned int bytes;

	bytes = rig_frame(frame, source, &h, payload, count * 4 + (tagged ? WEIR_TAG_BYTES : 0));
	if (tagged) {
		sign(frame + HEADER, count * 4, source, block);
		rig_fix_checksums(frame);
	}
	return bytes;
}

static unsigned int
join(unsigned int j, unsigned int source, uint8_t nonce, bool base_form)
{
	bool tagged = j == AUTHENTICATED;
	struct weir_header h = {.job_id = rig.job[j].id,
		.src_id = (uint8_t)source,
		.block_id = nonce,
		.collective = WEIR_COLLECTIVE_JOIN,
		.op = nonce & WEIR_JOIN_ASKS_LIST,
		.flags = tagged     ? WEIR_FLAG_AUTHENTICATED
			: base_form ? WEIR_FLAG_BASE_RESULTS
				    : 0,
		.extended = true};
	uint8_t payload[sizeof(struct weir_join_proof) + WEIR_TAG_BYTES] = {0};
	unsigned int bytes;

	memcpy(payload, heard[j].challenge[source & 3], WEIR_CHALLENGE_BYTES);
	payload[WEIR_CHALLENGE_BYTES + 3] = nonce;
	weir_put32(payload + offsetof(struct weir_join_proof, count), ++heard[j].joins);
	bytes = rig_frame(frame, source, &h, payload, tagged ? sizeof(payload) : 0);
	if (tagged) {
		uint8_t key[WEIR_KEY_BYTES];

		tags_source_key(job_key, (uint8_t)source, 0, key);
		tags_join(key, weir_get32(frame + 26), weir_get16(frame + 34), frame + HEADER,
			frame + HEADER + WEIR_EXT_BYTES + sizeof(struct weir_join_proof));
		rig_fix_checksums(frame);
	}
	return bytes;
}

/* --- switches of trees ---------------------------------------------------------------------------- */

static uint32_t
mask_of(struct ranks own)
{
	return ((1u << own.count) - 1) << own.first;
}

/* The frame of a result or reply from a parent of the leaf, or of a contribution of a child, with these elements, and the
 * bitmap that its header says. */
static unsigned int
frame_of_switch(const struct weir_header *h, const uint32_t *elements, unsigned int count,
	uint32_t in, const struct ppe_parent *parent)
{
	uint8_t bytes[ELEMENTS * 4 + WEIR_BITMAP_BYTES] = {0};
	unsigned int n = count * 4;

	if (n > 0)
		memcpy(bytes, elements, n);
	if (h->degraded) {
		bytes[n] = (uint8_t)in;
		n += WEIR_BITMAP_BYTES;
	} else if (h->status == WEIR_STATUS_MISMATCH) {
		const struct weir_mismatch what = {
			.field = (uint8_t)(1 + in % 4), .other = (uint8_t)(in % RANKS)};

		memcpy(bytes, &what, sizeof(what));
		n = sizeof(what);
	}
	n = rig_frame(frame, h->src_id, h, bytes, n);
	weir_put16(frame + 34, WEIR_PORT_UP);
	if (parent != NULL) {
		memcpy(frame + 6, parent->mac, sizeof(parent->mac));
		weir_put32(frame + 26, parent->address);
		weir_put16(frame + 34, parent->udp);
		weir_put16(frame + 36, WEIR_PORT_UP);
	}
	rig_fix_checksums(frame);
	return n;
}

/* Without its root's rank a collective from one rank has failed. */
static bool
lacks_root(const struct call *call, struct ranks own, uint32_t in)
{
	return (call->collective == WEIR_COLLECTIVE_BROADCAST ||
		       call->collective == WEIR_COLLECTIVE_SCATTER) &&
		(mask_of(own) & ~in & 1u << call->root) != 0;
}

static bool
has_payload(uint8_t status)
{
	return status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL;
}

static struct weir_header
header_of_switch(unsigned int j, uint32_t block, const struct call *call, uint8_t status,
	struct ranks own, uint32_t *in)
{
	if (status == WEIR_STATUS_OK)
		*in = mask_of(own);
	else if (status == WEIR_STATUS_PARTIAL && lacks_root(call, own, *in))
		status = WEIR_STATUS_ERROR;
	return (struct weir_header){.job_id = rig.job[j].id,
		.block_id = block,
		.gen_id = heard[j].generation,
		.src_cnt = weir_is_control(call->collective) ? 0 : (uint8_t)__builtin_popcount(*in),
		.grad_cnt = has_payload(status) ? call->count : 0,
		.collective = call->collective,
		.root = call->root,
		.dtype = call->count == 0 ? 0 : WEIR_DTYPE_INT32,
		.status = status,
		.degraded = status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
			status == WEIR_STATUS_WAITING,
		.extended = true};
}

static unsigned int
contribution_of_child(
	unsigned int child, uint32_t block, const struct call *call, uint8_t status, uint32_t in)
{
	const struct ranks own = children[child];
	uint32_t elements[ELEMENTS];
	struct weir_header h;
	unsigned int count;

	in &= mask_of(own);
	if (in == 0)
		in = 1u << own.first;
	h = header_of_switch(PARENT, block, call, status, own, &in);
	h.src_id = (uint8_t)own.first;
	h.flags = WEIR_FLAG_UP;
	count = has_payload(h.status) ? calls_sent(call, own, in, RANKS, elements) : 0;
	return frame_of_switch(&h, elements, count, in, NULL);
}

static unsigned int
answer_of_parent(
	unsigned int p, uint32_t block, const struct call *call, uint8_t status, uint32_t in)
{
	const struct ppe_parent *parent = &rig.job[LEAF].parent[p];
	const struct ranks all = {0, RANKS};
	uint32_t elements[ELEMENTS];
	struct weir_header h;
	unsigned int count;

	in = (in & mask_of(all)) == 0 ? 1 : in & mask_of(all);
	h = header_of_switch(LEAF, block, call, status, all, &in);
	h.job_id = parent->job;
	h.src_id = (uint8_t)leaf_ranks.first;
	if (status == WEIR_STATUS_STALE)
		h.gen_id++;
	count = has_payload(h.status) ? calls_got(call, leaf_ranks, in, RANKS, elements) : 0;
	return frame_of_switch(&h, elements, count, in, parent);
}

/* --- what leaves --------------------------------------------------------------------------------- */

static int
job_of(uint8_t id)
{
	for (int j = 0; j < JOBS; j++)
		if (rig.job[j].id == id)
			return j;
	return -1;
}

static void
learn(unsigned int j, const struct weir_header *h, const uint8_t *payload, unsigned int bytes)
{
	struct weir_accepted accepted;
	const size_t more = weir_accepted_read(payload, bytes, false, &accepted);

	if (h->status == WEIR_STATUS_OK) {
		heard[j].generation = h->gen_id;
		heard[j].sources = h->src_cnt;
		if (j == AUTHENTICATED && bytes >= more + WEIR_CHALLENGE_BYTES)
			memcpy(heard[j].begun, payload + more, WEIR_CHALLENGE_BYTES);
	} else if (h->status == WEIR_STATUS_WAITING && j == AUTHENTICATED &&
		bytes >= WEIR_BITMAP_BYTES + WEIR_CHALLENGE_BYTES) {
		memcpy(heard[j].challenge[h->src_id & 3], payload + WEIR_BITMAP_BYTES,
			WEIR_CHALLENGE_BYTES);
	}
}

/* A packet to a parent of the leaf. */
static void
hear_above(const uint8_t *bytes, unsigned int port)
{
	const struct ppe_job *job = &rig.job[LEAF];
	const unsigned int n = weir_get16(bytes + 38) - 8u - WEIR_EXT_BYTES;
	const uint8_t *payload = bytes + HEADER + WEIR_EXT_BYTES;
	struct weir_header h = {.extended = true};
	unsigned int p;

	weir_header_read(&h, bytes + HEADER);
	p = (h.block_id & (job->window - 1u)) % PARENTS;
	/* The block's parent may have said that it waits: then others are asked. */
	if (weir_is_control(h.collective))
		p = h.job_id == job->parent[0].job ? 0 : 1;
	FUZZ_CHECK(rig_checksums_hold(bytes), "a wrong checksum to a parent");
	FUZZ_CHECK(port == job->parent[p].port &&
			weir_get32(bytes + 30) == job->parent[p].address &&
			memcmp(bytes, job->parent[p].mac, 6) == 0 &&
			weir_get16(bytes + 36) == job->parent[p].udp &&
			h.job_id == job->parent[p].job,
		"block %u to another parent than %u", h.block_id, p);
	FUZZ_CHECK(
		h.flags == WEIR_FLAG_UP && h.src_id == leaf_ranks.first && h.gen_id == GENERATION,
		"flags %u, source %u, generation %u to a parent", h.flags, h.src_id, h.gen_id);
	if (weir_is_control(h.collective)) {
		FUZZ_CHECK(
			n == 0 && h.src_cnt == 0, "an acknowledgement or a probe of %u bytes", n);
		return;
	}
	if (h.status == WEIR_STATUS_MISMATCH)
		FUZZ_CHECK(!h.degraded && h.grad_cnt == 0 && n == sizeof(struct weir_mismatch),
			"a mismatch of %u bytes to a parent", n);
	else if (h.status == WEIR_STATUS_ERROR)
		FUZZ_CHECK(h.degraded && h.grad_cnt == 0 && n == WEIR_BITMAP_BYTES &&
				(payload[0] & ~mask_of(leaf_ranks)) == 0 &&
				__builtin_popcount(payload[0]) == h.src_cnt,
			"an error of %u bytes to a parent, ranks %#x", n, payload[0]);
	else
		FUZZ_CHECK(h.status == (h.degraded ? WEIR_STATUS_PARTIAL : WEIR_STATUS_OK),
			"%s to a parent", weir_status_text(h.status));
	if (!changed && has_payload(h.status))
		calls_check(&h, payload, n, leaf_ranks, RANKS, true);
}

/* The ranks of a result's receiver. */
static struct ranks
receiver(unsigned int j, uint8_t source)
{
	for (unsigned int c = 0; j == PARENT && c < CHILDREN; c++)
		if (children[c].first == source)
			return children[c];
	return (struct ranks){source, 1};
}

static void
hear(const uint8_t *bytes, unsigned int size, unsigned int port)
{
	struct weir_header h;
	const uint8_t *payload;
	unsigned int n;
	int j;

	/* Of the switch itself; what hosts send to each other is forwarded as it is. */
	if (size < 12 || memcmp(bytes + 6, rig_switch_mac, 6) != 0)
		return;
	if (size >= HEADER + WEIR_EXT_BYTES && weir_get16(bytes + 34) == WEIR_PORT_UP) {
		hear_above(bytes, port);
		return;
	}
	if (!rig_parse(bytes, size, &h, &payload, &n))
		return;
	FUZZ_CHECK(rig_checksums_hold(bytes), "a wrong checksum");
	FUZZ_CHECK(h.status <= WEIR_STATUS_DISPLACED, "status %u", h.status);
	j = job_of(h.job_id);
	FUZZ_CHECK(j >= 0 || h.status == WEIR_STATUS_REFUSED, "%s, of job %u",
		weir_status_text(h.status), h.job_id);
	if (j < 0)
		return;
	if (h.extended && h.collective == WEIR_COLLECTIVE_JOIN)
		learn((unsigned int)j, &h, payload, n);
	else if (!changed && heard[j].sources != 0 && (h.extended || !varied) &&
		(h.status == WEIR_STATUS_OK || h.status == WEIR_STATUS_PARTIAL))
		calls_check(&h, payload, n, receiver((unsigned int)j, h.src_id), heard[j].sources,
			false);
}

static void
drain(void)
{
	static uint8_t out[RIG_FRAME_MAX];

	for (unsigned int p = 0; p < PORTS; p++)
		for (unsigned int n; (n = rig_receive(&rig, p, out, 0)) > 0;)
			hear(out, n, p);
}

/* --- steps --------------------------------------------------------------------------------------- */

/* Some bytes change; perhaps the frame is cut, or more follows. Perhaps checksums are made right. */
static unsigned int
spoil(struct fuzz_input *in, unsigned int bytes)
{
	uint8_t how = fuzz_8(in);

	for (unsigned int i = 0; i < (how & 3); i++) {
		unsigned int at = fuzz_8(in) % bytes;

		frame[at] ^= fuzz_8(in);
		changed |= at >= HEADER;
	}
	if ((how & 4) != 0)
		bytes = 1 + fuzz_8(in) % bytes;
	if ((how & 8) != 0) {
		size_t more = fuzz_8(in);
		const uint8_t *from = fuzz_take(in, &more);

		memcpy(frame + bytes, from, more);
		bytes += (unsigned int)more;
	}
	/* A VLAN tag. */
	if ((how & 16) != 0 && bytes > 12) {
		memmove(frame + 16, frame + 12, bytes - 12);
		weir_put16(frame + 12, 0x8100);
		weir_put16(frame + 14, fuzz_8(in));
		return bytes + 4;
	}
	/* The lengths as the frame's. */
	if ((how & 32) != 0 && bytes > HEADER) {
		weir_put16(frame + 16, (uint16_t)(bytes - 14));
		weir_put16(frame + 38, (uint16_t)(bytes - 34));
		changed |= (how & 15) != 0;
	}
	if ((how & 64) != 0 && bytes >= HEADER && 34u + weir_get16(frame + 38) <= bytes)
		rig_fix_checksums(frame);
	return bytes;
}

/* Segments and headroom of all sizes. */
static void
inject(unsigned int port, unsigned int bytes)
{
	struct rte_mbuf *first = NULL, *last = NULL;

	for (unsigned int at = 0; at < bytes;) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(rig.pool);
		unsigned int take = bytes - at;

		FUZZ_CHECK(m != NULL, "the switch keeps all mbufs");
		if (cuts != 0) {
			m->data_off = (uint16_t)(rig_random(&cuts) % 129);
			take = 1 + (unsigned int)(rig_random(&cuts) % take);
		}
		memcpy(rte_pktmbuf_append(m, (uint16_t)take), frame + at, take);
		at += take;
		if (first == NULL) {
			first = last = m;
			continue;
		}
		last->next = m;
		last = m;
		first->nb_segs++;
		first->pkt_len += take;
	}
	if (rte_ring_enqueue(rig.to[port][0], first) < 0)
		FUZZ_WRONG("port %u takes nothing", port);
}

static void
step_contribution(struct fuzz_input *in, uint8_t kind)
{
	uint8_t who = fuzz_8(in), block = fuzz_8(in);
	unsigned int j = who & 3, source = who >> 2 & 3, bytes;
	struct call call = {.count = rig.job[j].elements};

	if ((who & 0x20) != 0)
		call = (struct call){.collective = WEIR_COLLECTIVE_BARRIER};
	else if ((who & 0x40) != 0)
		call = calls_any(fuzz_8(in), rig.job[j].nb_sources), varied = true;
	bytes = contribution(j, source, (uint32_t)(int8_t)block, &call, (who & 0x50) != 0x10);
	if ((who & 0x80) != 0)
		cuts = who * 2654435761u + block;
	if ((kind & 0x40) != 0)
		bytes = spoil(in, bytes);
	inject((kind & 0x80) != 0 ? fuzz_8(in) % PORTS : source % PORTS, bytes);
}

static void
step_join(struct fuzz_input *in, uint8_t kind)
{
	uint8_t who = fuzz_8(in);
	unsigned int source = who >> 2 & 3;
	unsigned int bytes = join(who & 3, source, who >> 5, (who & 0x10) != 0);

	if ((kind & 0x40) != 0)
		bytes = spoil(in, bytes);
	inject((kind & 0x80) != 0 ? fuzz_8(in) % PORTS : source % PORTS, bytes);
}

/* All sources of a job join, and what they hear is taken. */
static void
step_join_all(struct fuzz_input *in)
{
	uint8_t who = fuzz_8(in);
	unsigned int j = who & 3;

	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int s = 0; s < rig.job[j].nb_sources; s++)
			inject(s % PORTS, join(j, s, who >> 3, (who & 4) != 0));
		rig_rest(&rig);
		drain();
	}
}

static void
step_raw(struct fuzz_input *in, uint8_t kind)
{
	size_t size = fuzz_8(in) * ((kind & 0x40) != 0 ? 6u : 1u);
	const uint8_t *from = fuzz_take(in, &size);

	if (size == 0)
		return;
	memcpy(frame, from, size);
	changed = true;
	inject(kind % PORTS, (unsigned int)size);
}

static void
step_attributes(struct fuzz_input *in)
{
	uint8_t what = fuzz_8(in);
	struct ppe_job *job = &rig.job[what & 3];

	rig_rest(&rig);
	drain();
	job->policy = (uint8_t)((what >> 2 & 3) % 3);
	job->timeout_ms = (what & 0x10) != 0 ? 10 : 100;
	/* Its last source goes, or comes back. */
	if ((what & 0x20) != 0) {
		job->members[0] ^= UINT64_C(1) << (job->nb_sources - 1);
		if ((what & 3) == FIXED)
			heard[FIXED].sources = 0;
	}
	job->rate_mbit = (what & 0x40) != 0 ? 1 : 0;
	rig_change_jobs(&rig);
}

/* A job of a tree: a packet of a host or a child, right or spoiled; an answer of a parent; another policy. */
static void
step_tree(struct fuzz_input *in)
{
	uint8_t what = fuzz_8(in), who = fuzz_8(in), block = fuzz_8(in);
	static const uint8_t sent[] = {
		WEIR_STATUS_OK, WEIR_STATUS_PARTIAL, WEIR_STATUS_ERROR, WEIR_STATUS_MISMATCH};
	const uint32_t id = (uint32_t)(int8_t)block;
	unsigned int port = 0, p, bytes;
	struct call call = {.count = ELEMENTS};

	if ((what & 7) == 7) {
		rig_rest(&rig);
		drain();
		rig.job[(who & 1) != 0 ? LEAF : PARENT].policy = (uint8_t)(block % 3);
		rig_change_jobs(&rig);
		return;
	}
	if ((what & 0x20) != 0)
		call = calls_any(fuzz_8(in), RANKS);
	if ((what & 0x40) != 0)
		call = (struct call){.collective = (what & 6) != 2 ? WEIR_COLLECTIVE_BARRIER
				: (who & 1) != 0                   ? WEIR_COLLECTIVE_PROBE
								   : WEIR_COLLECTIVE_ACKNOWLEDGE};
	switch (what & 7) {
	case 0:
	case 1:
	case 2:
		port = leaf_ranks.first + who % leaf_ranks.count;
		bytes = contribution(LEAF, port, id, &call, true);
		break;
	case 3:
	case 4:
		p = who % CHILDREN;
		port = children[p].first;
		bytes = contribution_of_child(p, id, &call,
			weir_is_control(call.collective) ? 0 : sent[who >> 2 & 3], who >> 4);
		break;
	default:
		/* Mostly the parent whose block it is. */
		p = ((who & 1) + block) % PARENTS;
		port = rig.job[LEAF].parent[p].port;
		bytes = answer_of_parent(p, id, &call,
			(what & 7) == 5 ? sent[who >> 1 & 3] : who >> 1 & 7, who >> 4);
		break;
	}
	if ((what & 8) != 0)
		bytes = spoil(in, bytes);
	inject((what & 0x10) != 0 ? fuzz_8(in) % PORTS : port % PORTS, bytes);
}

static void
step(struct fuzz_input *in)
{
	uint8_t kind = fuzz_8(in);

	switch (kind & 7) {
	case 4: step_join(in, kind); break;
	case 5: step_raw(in, kind >> 3); break;
	case 6: rig_pass_us(fuzz_8(in) * ((kind & 8) != 0 ? 100000u : 1000u)); break;
	case 7:
		if ((kind & 0xc8) == TREE)
			step_tree(in);
		else if ((kind & 8) != 0)
			step_attributes(in);
		else
			step_join_all(in);
		break;
	default: step_contribution(in, kind); break;
	}
	/* Packets come together, or one after the other; turned to the end, or left in the middle. */
	if ((kind & 0x10) == 0) {
		rig_turn(&rig);
		drain();
	}
	if ((kind & 0x20) == 0) {
		rig_rest(&rig);
		drain();
	}
}

static struct ppe_job
leaf_job(void)
{
	static const uint8_t ids[] = {1, 2};
	struct ppe_job job = rig_job_of(5, ids, 2, 2, ELEMENTS);

	job.fixed_generation = GENERATION;
	job.policy = PPE_POLICY_PARTIAL;
	job.first_rank = (uint16_t)leaf_ranks.first;
	job.tree_ranks = RANKS;
	job.nb_parents = PARENTS;
	for (unsigned int p = 0; p < PARENTS; p++)
		job.parent[p] = (struct ppe_parent){.name = {'s', (char)('0' + p)},
			.address = 0x0a4e00fe + (p << 8),
			.mac = {0x02, 0x50, 0, 0, 0, (uint8_t)p},
			.port = (uint16_t)p,
			.udp = WEIR_PORT_EXT,
			.job = (uint8_t)(9 + p)};
	return job;
}

static struct ppe_job
parent_job(void)
{
	static const uint8_t ids[] = {0, 1, 3};
	struct ppe_job job = rig_job_of(6, ids, CHILDREN, 2, ELEMENTS);

	job.fixed_generation = GENERATION;
	job.policy = PPE_POLICY_PARTIAL;
	job.children = true;
	for (unsigned int c = 0; c < CHILDREN; c++)
		job.ranks[children[c].first] = (uint16_t)children[c].count;
	return job;
}

static void
make_jobs(void)
{
	struct ppe_job job[JOBS] = {rig_job(1, 3, 4, ELEMENTS), rig_job(2, 2, 2, ELEMENTS),
		rig_job(3, 2, 2, ELEMENTS), rig_job(4, 2, 4, ELEMENTS), leaf_job(), parent_job()};

	for (unsigned int j = 0; j < JOBS; j++) {
		job[j].timeout_ms = 100;
		job[j].first_generation = 65535;
		job[j].instance = rig.job[j].instance;
	}
	job[FIXED].fixed_generation = GENERATION;
	job[FIXED].block_shift = 24;
	job[FIXED].policy = PPE_POLICY_PARTIAL;
	job[AUTHENTICATED].proved = job[AUTHENTICATED].authenticated = true;
	job[AUTHENTICATED].policy = PPE_POLICY_PARTIAL;
	memcpy(job[AUTHENTICATED].key, job_key, sizeof(job_key));
	job[GROUP].group = 0xef010101;
	job[GROUP].policy = PPE_POLICY_ERROR;
	memcpy(rig.job, job, sizeof(job));
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags);

/* The keys of challenges: the same in every run. */
ssize_t
__wrap_getrandom(void *to, size_t size, unsigned int flags)
{
	(void)flags;
	memset(to, 0x33, size);
	return (ssize_t)size;
}

static void
at_the_end(void)
{
	const char *error = rig_stop(&rig);

	if (error != NULL) {
		fprintf(stderr, "fuzz: %s\n", error);
		_exit(1);
	}
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	make_jobs();
	memcpy(config.job, rig.job, sizeof(rig.job));
	config.workers = 2;
	config.threads = 4;
	config.ports = PORTS;
	config.jobs = JOBS;
	rig_start(&rig, &config);
	atexit(at_the_end);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};

	memset(heard, 0, sizeof(heard));
	heard[FIXED].generation = heard[LEAF].generation = heard[PARENT].generation = GENERATION;
	heard[FIXED].sources = rig.job[FIXED].nb_sources;
	heard[LEAF].sources = heard[PARENT].sources = RANKS;
	varied = false;
	changed = false;
	cuts = 0;
	make_jobs();
	rig_renew_jobs(&rig);
	for (unsigned int i = 0; i < STEPS_MAX && in.left > 0; i++)
		step(&in);
	rig_rest(&rig);
	drain();
	/* Blocks that are still open meet their end, and the table of stations its timers. */
	rig_pass_us(200000);
	rig_rest(&rig);
	drain();
	rig_renew_jobs(&rig);
	rig_rest(&rig);
	drain();
	rig_check(&rig);
	return 0;
}
