/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/bench_tree.h"

#define PORTS RIG_PORTS_MAX /* hosts and children at those of their ids, parents at the last ones */
#define IP_UP 0x0a4e00fe /* 10.78.0.254, 10.78.1.254 */

struct parent parent[PPE_PARENTS_MAX];
uint8_t said[RIG_FRAME_MAX];
struct weir_join_reply settings;

static const struct ppe_job *const job = &rig.job[0];
static uint8_t serving; /* bit p: parent p is in the generation */

/* For each host or child, by its id. */
#define EACH_SOURCE(s)                                                                             \
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)                                        \
		if (ppe_job_has(job, (uint8_t)s))

/* For each parent of a set. */
#define EACH_PARENT(p, set)                                                                        \
	for (unsigned int p = 0; p < job->nb_parents; p++)                                         \
		if (((set) >> p & 1) != 0)

bool
bench_in_tree(void)
{
	return job->children || job->nb_parents != 0;
}

unsigned int
bench_ids(const struct bench_setup *setup, uint8_t ids[WEIR_SOURCES_MAX])
{
	unsigned int n = setup->sources != 0 ? setup->sources : 2, children = 0;

	for (unsigned int i = 0; i < n; i++)
		ids[i] = setup->ids != NULL ? setup->ids[i] : (uint8_t)(setup->first_rank + i);
	for (unsigned int rank = setup->first_rank;
		children < RTE_DIM(setup->children) && setup->children[children] != 0;
		rank += setup->children[children++])
		ids[children] = (uint8_t)rank;
	return children != 0 ? children : n;
}

void
bench_tree_setup(const struct bench_setup *setup, struct rig_config *config)
{
	struct ppe_job *of = &config->job[0];

	of->children = setup->children[0] != 0;
	of->deterministic = setup->deterministic;
	of->narrow = setup->narrow;
	if (!of->children && setup->parents == 0)
		return;
	config->ports = PORTS;
	for (unsigned int i = 0, rank = setup->first_rank; of->children && i < of->nb_sources;
		rank += setup->children[i++])
		of->ranks[rank] = setup->children[i];
	of->revoke = setup->generation == 0;
	of->nb_parents = setup->parents;
	of->first_rank = setup->first_rank;
	of->tree_ranks = setup->tree_ranks;
	serving = (uint8_t)((1u << setup->parents) - 1);
	for (unsigned int p = 0; p < setup->parents; p++) {
		parent[p].generation = setup->generation;
		of->parent[p] = (struct ppe_parent){.name = {'s', (char)('0' + p)},
			.address = IP_UP + (p << 8),
			.mac = {0x02, 0x50, 0, 0, 0, (uint8_t)p},
			.port = (uint16_t)(PORTS - setup->parents + p),
			.udp = WEIR_PORT_EXT,
			.job = (uint8_t)(9 + p)};
	}
}

/* ---- ranks ---- */

uint64_t
ranks_of(unsigned int source)
{
	return ((UINT64_C(1) << (job->children ? job->ranks[source] : 1)) - 1) << source % 64;
}

uint64_t
own_ranks(void)
{
	uint64_t own = 0;

	EACH_SOURCE(s)
	own |= ranks_of(s);
	return own;
}

static uint64_t
all_ranks(void)
{
	return job->tree_ranks != 0 ? (UINT64_C(1) << job->tree_ranks) - 1 : own_ranks();
}

static uint8_t
count(uint64_t ranks)
{
	return (uint8_t)__builtin_popcountll(ranks);
}

static unsigned int
put_sum(uint8_t *to, uint32_t block, uint64_t ranks, unsigned int elements)
{
	for (unsigned int e = 0; e < elements; e++) {
		uint32_t sum = bench_sum(ranks, block, e);

		memcpy(to + 4 * e, &sum, 4);
	}
	return 4 * elements;
}

unsigned int
put_bitmap(uint8_t *to, unsigned int n, uint64_t ranks)
{
	memset(to + n, 0, WEIR_BITMAP_BYTES);
	for (unsigned int i = 0; i < 8; i++)
		to[n + i] = (uint8_t)(ranks >> 8 * i);
	return n + WEIR_BITMAP_BYTES;
}

/* The bitmap ends the packet. */
static void
expect_bitmap(unsigned int n, uint64_t ranks)
{
	uint8_t bitmap[WEIR_BITMAP_BYTES];

	put_bitmap(bitmap, 0, ranks);
	cr_assert_eq(payload_bytes, n + WEIR_BITMAP_BYTES, "%u bytes", payload_bytes);
	cr_assert_arr_eq(payload + n, bitmap, WEIR_BITMAP_BYTES, "ranks %x", payload[n]);
}

void
expect_same(const void *bytes, unsigned int n)
{
	const uint8_t *right = bytes;
	const char *what = weir_collective_text(got.collective);

	cr_assert_eq(payload_bytes, n, "%s of %u, root %u, to %u: %u bytes, not %u", what,
		got.grad_cnt, got.root, got.src_id, payload_bytes, n);
	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(payload[i], right[i],
			"%s of %u, root %u, to %u: byte %u of %u is %u, not %u", what, got.grad_cnt,
			got.root, got.src_id, i, n, payload[i], right[i]);
}

static bool
has_bitmap(enum weir_status status)
{
	return status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
		status == WEIR_STATUS_WAITING;
}

void
skip_us(uint64_t us)
{
	rig_turn_after_us(&rig, us);
}

/* ---- hosts and children ---- */

void
offer_payload(const struct weir_header *header, const void *bytes, unsigned int n)
{
	rig_offer(&rig, header->src_id % rig.ports, header, bytes, n);
}

struct weir_header
partial_contribution(unsigned int child, uint32_t block, uint64_t absent)
{
	struct weir_header h = contribution(child, block);

	h.status = WEIR_STATUS_PARTIAL;
	h.degraded = true;
	h.src_cnt = count(ranks_of(child) & ~absent);
	return h;
}

void
contribute_without(unsigned int child, uint32_t block, uint64_t absent)
{
	const struct weir_header h = partial_contribution(child, block, absent);
	uint64_t ranks = ranks_of(child) & ~absent;
	uint8_t bytes[RIG_FRAME_MAX];
	unsigned int n = put_sum(bytes, block, ranks, h.grad_cnt);

	offer_payload(&h, bytes, put_bitmap(bytes, n, ranks));
}

void
contribute_failure(unsigned int child, uint32_t block, enum weir_status status, uint64_t ranks,
	const struct weir_mismatch *mismatch)
{
	struct weir_header h = partial_contribution(child, block, ~ranks);
	uint8_t bitmap[WEIR_BITMAP_BYTES];

	h.status = (uint8_t)status;
	h.degraded = status == WEIR_STATUS_ERROR;
	h.grad_cnt = 0;
	rig_rest(&rig); /* after what the others have said */
	if (h.degraded)
		offer_payload(&h, bitmap, put_bitmap(bitmap, 0, ranks));
	else
		offer_payload(&h, mismatch, sizeof(*mismatch));
}

void
join_with(unsigned int child, uint32_t nonce, uint8_t set)
{
	struct weir_header h = note(child, nonce, WEIR_COLLECTIVE_JOIN);

	h.src_cnt = count(ranks_of(child));
	h.root = set;
	offer_payload(&h, NULL, 0);
}

void
expect_addressed(unsigned int source)
{
	cr_assert_eq(weir_get16(frame + L3), WEIR_PORT_EXT);
	cr_assert_eq(got.job_id, job->id);
	cr_assert_eq(got.src_id, source);
	cr_assert_eq(got.flags, got.flags & WEIR_FLAG_AUTHENTICATED);
	if (got.collective != WEIR_COLLECTIVE_JOIN && got.status != WEIR_STATUS_STALE)
		cr_assert_eq(got.gen_id, generation, "generation %u", got.gen_id);
}

void
expect_status(unsigned int source, enum weir_status status)
{
	cr_assert(receive(source), "source %u gets nothing", source);
	cr_assert_eq(got.status, status, "source %u: %s, not %s", source,
		weir_status_text(got.status), weir_status_text(status));
	cr_assert_eq(got.degraded, has_bitmap(status));
	expect_addressed(source);
}

void
expect_waiting(unsigned int source, uint64_t ranks)
{
	expect_status(source, WEIR_STATUS_WAITING);
	cr_assert_eq(got.src_cnt, count(all_ranks()));
	expect_bitmap(0, ranks);
}

void
expect_bytes(unsigned int source, uint32_t block, enum weir_status status, const void *bytes,
	unsigned int n)
{
	expect_status(source, status);
	cr_assert_eq(got.block_id, block, "block %u, not %u", got.block_id, block);
	expect_same(bytes, n);
}

void
expect_payload(uint32_t block, enum weir_status status, const void *bytes, unsigned int n)
{
	EACH_SOURCE(s)
	expect_bytes(s, block, status, bytes, n);
}

uint16_t
expect_begun(void)
{
	unsigned int tree = count(all_ranks());

	EACH_SOURCE(s)
	{
		struct weir_join_reply reply;

		expect_status(s, WEIR_STATUS_OK);
		cr_assert_eq(got.collective, WEIR_COLLECTIVE_JOIN);
		cr_assert_eq(got.root, s);
		cr_assert_eq(got.src_cnt, tree);
		cr_assert_eq(payload_bytes, sizeof(reply));
		memcpy(&reply, payload, sizeof(reply));
		cr_assert_eq(weir_get16(reply.window), job->window);
		cr_assert_eq(weir_get16(reply.elements), job->elements);
		cr_assert_eq(weir_get16(reply.sources), tree);
		cr_assert_eq(weir_get32(reply.timeout_ms), job->timeout_ms);
		if (job->children)
			cr_assert_eq(reply.up.agreed, job->policy | WEIR_JOIN_UP_REVOKE);
		generation = got.gen_id;
	}
	return generation;
}

/* ---- parents ---- */

unsigned int
parent_of(uint32_t block)
{
	unsigned int at = block % count(serving), p = 0;

	while ((serving >> p & 1) == 0 || at-- > 0)
		p++;
	return p;
}

bool
receive_up(unsigned int p)
{
	const struct ppe_parent *at = &job->parent[p];
	unsigned int n;

	rig_rest(&rig);
	n = rig_receive(&rig, at->port, frame, 0);
	if (n == 0)
		return false;
	cr_assert(rig_checksums_hold(frame), "parent %u: checksums", p);
	cr_assert_arr_eq(frame, at->mac, 6);
	cr_assert_arr_eq(frame + 6, rig_switch_mac, 6);
	cr_assert_eq(weir_get32(frame + 26), RIG_SWITCH_IP);
	cr_assert_eq(weir_get32(frame + 30), at->address);
	cr_assert_eq(weir_get16(frame + L3), WEIR_PORT_UP);
	cr_assert_eq(weir_get16(frame + L3 + 2), at->udp);
	cr_assert_eq(n, L3 + weir_get16(frame + L3 + 4));
	got = (struct weir_header){.extended = true};
	weir_header_read(&got, frame + L4);
	payload = frame + L4 + WEIR_EXT_BYTES;
	payload_bytes = n - L4 - WEIR_EXT_BYTES;
	cr_assert_eq(got.job_id, at->job);
	cr_assert_eq(got.src_id, job->first_rank);
	cr_assert_eq(got.flags & ~WEIR_FLAG_AUTHENTICATED, WEIR_FLAG_UP);
	return true;
}

void
take_up(uint32_t block, enum weir_collective collective, enum weir_status status)
{
	unsigned int p = parent_of(block);

	cr_assert(receive_up(p), "block %u does not go up to parent %u", block, p);
	cr_assert_eq(got.gen_id, parent[p].generation, "generation %u", got.gen_id);
	cr_assert_eq(got.block_id, block, "block %u, not %u", got.block_id, block);
	cr_assert_eq(got.collective, collective, "%s", weir_collective_text(got.collective));
	cr_assert_eq(
		(got.flags & WEIR_FLAG_AUTHENTICATED) != 0, job->authenticated, "%x", got.flags);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(got.degraded, has_bitmap(status));
}

void
expect_note_up(uint32_t block, enum weir_collective collective)
{
	take_up(block, collective, WEIR_STATUS_OK);
	cr_assert_eq(got.src_cnt, 0);
	cr_assert_eq(got.grad_cnt, 0);
	cr_assert_eq(payload_bytes, 0);
}

void
expect_up(uint32_t block, enum weir_status status, uint64_t ranks)
{
	bool whole = status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL;

	ranks = ranks != 0 ? ranks : own_ranks();
	take_up(block, WEIR_COLLECTIVE_ALLREDUCE, status);
	cr_assert_eq(got.src_cnt, count(ranks), "%u ranks", got.src_cnt);
	cr_assert_eq(got.grad_cnt, whole ? job->elements : 0);
	if (whole)
		expect_sum(block, ranks);
	if (got.degraded)
		expect_bitmap(4u * got.grad_cnt, ranks);
	else if (whole)
		cr_assert_eq(payload_bytes, 4u * got.grad_cnt, "%u bytes", payload_bytes);
}

unsigned int
write_down(unsigned int p, const struct weir_header *header, const void *bytes, unsigned int n)
{
	const struct ppe_parent *at = &job->parent[p];
	unsigned int size = rig_frame(said, 0, header, bytes, n);

	memcpy(said + 6, at->mac, 6);
	weir_put32(said + 26, at->address);
	weir_put16(said + L3, at->udp);
	weir_put16(said + L3 + 2, WEIR_PORT_UP);
	rig_fix_checksums(said);
	return size;
}

unsigned int
say(unsigned int p, const struct weir_header *header, const void *bytes, unsigned int n)
{
	unsigned int size = write_down(p, header, bytes, n);

	rig_rest(&rig);
	rig_send(&rig, job->parent[p].port, said, size);
	rig_rest(&rig);
	return size;
}

struct weir_header
from_above(uint32_t block, enum weir_status status, uint64_t ranks)
{
	unsigned int p = parent_of(block);

	return (struct weir_header){.job_id = job->parent[p].job,
		.block_id = block,
		.gen_id = parent[p].generation,
		.src_id = (uint8_t)job->first_rank,
		.src_cnt = count(ranks != 0 ? ranks : all_ranks()),
		.status = (uint8_t)status,
		.degraded = has_bitmap(status),
		.grad_cnt = status <= WEIR_STATUS_PARTIAL ? job->elements : 0,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
}

void
answer(uint32_t block, enum weir_status status, uint64_t ranks)
{
	const struct weir_header h = from_above(block, status, ranks);
	uint8_t bytes[RIG_FRAME_MAX];
	unsigned int n;

	ranks = ranks != 0 ? ranks : all_ranks();
	n = put_sum(bytes, block, ranks, h.grad_cnt);
	if (h.degraded)
		n = put_bitmap(bytes, n, ranks);
	say(parent_of(block), &h, bytes, n);
}

void
answer_probe(uint32_t block, enum weir_status status, uint64_t ranks)
{
	struct weir_header h = from_above(block, status, ranks);
	uint8_t bitmap[WEIR_BITMAP_BYTES];

	h.collective = WEIR_COLLECTIVE_PROBE;
	say(parent_of(block), &h, bitmap, h.degraded ? put_bitmap(bitmap, 0, ranks) : 0);
}

void
go_up(uint32_t block)
{
	contribute_all(block);
	expect_up(block, WEIR_STATUS_OK, 0);
}

void
come_down(uint32_t block)
{
	answer(block, WEIR_STATUS_OK, 0);
	expect_all(block, WEIR_STATUS_OK, 0);
}

void
run_block(uint32_t block)
{
	contribute_all(block);
	if (job->nb_parents == 0) {
		expect_all(block, WEIR_STATUS_OK, 0);
		return;
	}
	expect_up(block, WEIR_STATUS_OK, 0);
	come_down(block);
}

/* ---- joins at parents ---- */

void
agree(void)
{
	settings = (struct weir_join_reply){.dtype_op = (uint8_t)(job->dtype << 4 | job->op),
		.flags = (uint8_t)((job->authenticated ? WEIR_JOIN_AUTHENTICATED : 0) |
			(job->narrow ? WEIR_JOIN_NARROW : 0))};
	weir_put16(settings.window, job->window);
	weir_put16(settings.elements, job->elements);
	weir_put16(settings.sources, job->tree_ranks);
	weir_put32(settings.timeout_ms, 2 * job->timeout_ms);
	settings.up.agreed = (uint8_t)(job->policy | WEIR_JOIN_UP_REVOKE |
		(job->deterministic ? WEIR_JOIN_UP_DETERMINISTIC : 0));
}

void
expect_join_up(unsigned int p, uint8_t set)
{
	const struct weir_join_proof *proof = (const void *)(frame + L4 + WEIR_EXT_BYTES);
	bool keyed = job->parent[p].keyed;

	cr_assert(receive_up(p), "parent %u: no join", p);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_JOIN);
	cr_assert_eq(got.gen_id, WEIR_GEN_JOIN);
	cr_assert_eq(got.src_cnt, count(own_ranks()));
	cr_assert_eq(got.grad_cnt, 0);
	cr_assert_eq((got.flags & WEIR_FLAG_AUTHENTICATED) != 0, keyed);
	cr_assert_eq(got.root, set, "parent %u: set %x, not %x", p, got.root, set);
	cr_assert_eq(payload_bytes, keyed ? sizeof(*proof) + WEIR_TAG_BYTES : 0);
	parent[p].nonce = got.block_id;
	parent[p].set = got.root;
	if (!keyed)
		return;
	memcpy(parent[p].proof, proof->nonce, sizeof(proof->nonce));
	cr_assert_eq(weir_get32(proof->nonce), got.block_id);
}

void
expect_joins_up(uint8_t set)
{
	EACH_PARENT(p, set)
	expect_join_up(p, set);
}

struct weir_header
answer_to_join(unsigned int p, enum weir_status status)
{
	return (struct weir_header){.job_id = job->parent[p].job,
		.block_id = parent[p].nonce,
		.src_id = (uint8_t)job->first_rank,
		.src_cnt = count(status == WEIR_STATUS_UNSUPPORTED ? own_ranks() : all_ranks()),
		.status = (uint8_t)status,
		.degraded = has_bitmap(status),
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};
}

void
refuse_join(unsigned int p, enum weir_status status)
{
	const struct weir_header h = answer_to_join(p, status);

	say(p, &h, NULL, 0);
}

void
accept_join(unsigned int p, uint16_t its_generation)
{
	struct weir_header h = answer_to_join(p, WEIR_STATUS_OK);

	parent[p].generation = h.gen_id = its_generation;
	h.root = (uint8_t)job->first_rank;
	serving = parent[p].set;
	say(p, &h, &settings, sizeof(settings));
}

void
keep_waiting(unsigned int p, uint8_t common, uint64_t ranks)
{
	struct weir_header h = answer_to_join(p, WEIR_STATUS_WAITING);
	uint8_t bitmap[WEIR_BITMAP_BYTES];

	h.root = common;
	say(p, &h, bitmap, put_bitmap(bitmap, 0, ranks));
}

void
hosts_join(uint32_t nonce)
{
	EACH_SOURCE(s)
	{
		join(s, nonce++);
		expect_status(s, WEIR_STATUS_WAITING);
	}
}

void
hosts_join_up(uint32_t nonce, uint8_t set)
{
	hosts_join(nonce);
	expect_joins_up(set);
}

struct ppe_parent_stats
parent_stats(unsigned int p)
{
	struct ppe_parent_stats stats;

	cr_assert_eq(ppe_parent_stats_read(rig.ppe, job->id, p, &stats), 0);
	return stats;
}

uint16_t
begin(uint32_t nonce, uint8_t set)
{
	hosts_join_up(nonce, set);
	EACH_PARENT(p, set)
	accept_join(p, (uint16_t)(100 + p));
	return expect_begun();
}

void
expect_over(unsigned int source)
{
	contribute(source, 0);
	expect_status(source, WEIR_STATUS_STALE);
	cr_assert_eq(got.gen_id, WEIR_GEN_JOIN);
}
