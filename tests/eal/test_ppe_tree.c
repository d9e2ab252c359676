/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees of switches in one process, turned by hand, joined by wires that lose, repeat and delay frames at random. Hosts
 * that the test plays run random blocks; each result must be what its bitmap says, and the same for all. When the wires
 * become perfect, everything ends within a bounded time. The seed is printed.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>
#include <rte_ring.h>

#include "tests/eal/blocks.h"
#include "tests/eal/rig.h"

#define SWITCHES  4
#define PORTS     4
#define RANKS     4
#define WINDOW    4
#define BLOCKS    96
#define ELEMENTS  300
#define GEN       7
#define L3        34
#define L4        42
#define STEP_US   250
#define REPEAT_US 20000 /* of hosts */
#define TIMEOUT   30 /* ms, of a leaf; doubled per level */
#define FLYING    16384

/* ---- several switches in one process: EAL's names get the switch's number ---- */

static unsigned int building;

struct rte_ring *__real_rte_ring_create(
	const char *name, unsigned int count, int socket, unsigned int flags);
struct rte_ring *__wrap_rte_ring_create(
	const char *name, unsigned int count, int socket, unsigned int flags);
struct rte_mempool *__real_rte_mempool_create_empty(const char *name, unsigned int n,
	unsigned int size, unsigned int cache, unsigned int priv, int socket, unsigned int flags);
struct rte_mempool *__wrap_rte_mempool_create_empty(const char *name, unsigned int n,
	unsigned int size, unsigned int cache, unsigned int priv, int socket, unsigned int flags);

struct rte_ring *
__wrap_rte_ring_create(const char *name, unsigned int count, int socket, unsigned int flags)
{
	char own[64];

	snprintf(own, sizeof(own), "%u%s", building, name);
	return __real_rte_ring_create(own, count, socket, flags);
}

struct rte_mempool *
__wrap_rte_mempool_create_empty(const char *name, unsigned int n, unsigned int size,
	unsigned int cache, unsigned int priv, int socket, unsigned int flags)
{
	char own[64];

	snprintf(own, sizeof(own), "%u%s", building, name);
	return __real_rte_mempool_create_empty(own, n, size, cache, priv, socket, flags);
}

/* ---- trees ---- */

/* A leaf's hosts are at ports 0, 1, ..., in the order of their ranks. A parent's child is at the port of its place. */
struct place {
	unsigned int first, ranks;
	bool leaf;
	unsigned int level; /* above the leaves */
	unsigned int nb_parents;
	unsigned int parent[2]; /* switches */
	unsigned int up_port[2], down_port; /* this switch's, and the parent's */
};

struct tree {
	unsigned int n;
	struct place place[SWITCHES];
};

static const struct tree two_leaves = {3,
	{{.ranks = 4, .level = 1}, {0, 2, true, 0, 1, {0}, {2}, 0},
		{2, 2, true, 0, 1, {0}, {2}, 1}}};

/* A leaf and a switch in the middle, which has a leaf. */
static const struct tree three_levels = {4,
	{{.ranks = 4, .level = 2}, {0, 2, false, 1, 1, {0}, {2}, 0},
		{0, 2, true, 0, 1, {1}, {2}, 0}, {2, 2, true, 0, 1, {0}, {2}, 1}}};

static const struct tree two_spines = {4,
	{{.ranks = 4, .level = 1}, {.ranks = 4, .level = 1}, {0, 2, true, 0, 2, {0, 1}, {2, 3}, 0},
		{2, 2, true, 0, 2, {0, 1}, {2, 3}, 1}}};

static const struct tree *tree;
static struct rig rig[SWITCHES];

static uint32_t
switch_ip(unsigned int s)
{
	return RIG_SWITCH_IP + (s << 8);
}

static void
switch_mac(unsigned int s, uint8_t mac[6])
{
	memcpy(mac, rig_switch_mac, 6);
	mac[4] += (uint8_t)s;
}

static uint8_t
job_of(unsigned int s)
{
	return (uint8_t)(10 + s);
}

static bool
is_child(unsigned int s, unsigned int parent)
{
	const struct place *p = &tree->place[s];

	return (p->nb_parents > 0 && p->parent[0] == parent) ||
		(p->nb_parents > 1 && p->parent[1] == parent);
}

static struct ppe_job
make_job(unsigned int s, enum ppe_policy policy)
{
	const struct place *at = &tree->place[s];
	struct ppe_job job = rig_job_of(job_of(s), NULL, 0, WINDOW, ELEMENTS);

	job.fixed_generation = GEN;
	job.policy = (uint8_t)policy;
	job.timeout_ms = TIMEOUT << at->level;
	job.first_rank = (uint16_t)at->first;
	job.children = !at->leaf;
	for (unsigned int rank = at->first; at->leaf && rank < at->first + at->ranks; rank++) {
		job.members[0] |= UINT64_C(1) << rank;
		job.address[rank] = rig_source_ip(rank);
		job.nb_sources++;
	}
	for (unsigned int c = 0; c < tree->n; c++) {
		unsigned int first = tree->place[c].first;

		if (!is_child(c, s))
			continue;
		job.members[0] |= UINT64_C(1) << first;
		job.address[first] = switch_ip(c);
		job.ranks[first] = (uint16_t)tree->place[c].ranks;
		job.nb_sources++;
	}
	job.nb_parents = (uint8_t)at->nb_parents;
	job.tree_ranks = at->nb_parents != 0 ? RANKS : 0;
	for (unsigned int p = 0; p < at->nb_parents; p++) {
		job.parent[p] = (struct ppe_parent){.address = switch_ip(at->parent[p]),
			.port = (uint16_t)at->up_port[p],
			.udp = WEIR_PORT_EXT,
			.job = job_of(at->parent[p])};
		switch_mac(at->parent[p], job.parent[p].mac);
	}
	return job;
}

static void
start(const struct tree *of, enum ppe_policy policy, unsigned int workers)
{
	tree = of;
	for (unsigned int s = 0; s < tree->n; s++) {
		struct rig_config config = {.workers = workers,
			.threads = 8,
			.ports = PORTS,
			.packets = 512,
			.jobs = 1,
			.job[0] = make_job(s, policy),
			.number = s};

		building = s;
		rig_start(&rig[s], &config);
	}
}

/* ---- wires ---- */

struct flying {
	uint8_t *bytes;
	unsigned int size, steps; /* until it arrives */
	unsigned int to, port; /* a switch; SWITCHES: the host of rank `port` */
};

static struct flying wire[FLYING];
static unsigned int nb_flying;
static uint64_t seed;
static unsigned int lost, repeated, delayed; /* per cent */

static unsigned int
chance(unsigned int n)
{
	return (unsigned int)(rig_random(&seed) % n);
}

static void
fly(const uint8_t *bytes, unsigned int size, unsigned int to, unsigned int port)
{
	for (unsigned int copies = 1 + (chance(100) < repeated); copies > 0; copies--) {
		struct flying *f = &wire[nb_flying];

		if (chance(100) < lost)
			continue;
		cr_assert_lt(nb_flying, FLYING);
		*f = (struct flying){.bytes = malloc(size), .size = size, .to = to, .port = port};
		memcpy(f->bytes, bytes, size);
		f->steps = chance(100) < delayed ? chance(30) : 0;
		nb_flying++;
	}
}

/* Where the wire at this port ends. */
static void
from_switch(unsigned int s, unsigned int port, const uint8_t *bytes, unsigned int size)
{
	const struct place *at = &tree->place[s];

	for (unsigned int p = 0; p < at->nb_parents; p++)
		if (at->up_port[p] == port) {
			fly(bytes, size, at->parent[p], at->down_port);
			return;
		}
	if (at->leaf) {
		cr_assert_lt(port, at->ranks);
		fly(bytes, size, SWITCHES, at->first + port);
		return;
	}
	for (unsigned int c = 0; c < tree->n; c++)
		for (unsigned int p = 0; p < tree->place[c].nb_parents; p++)
			if (tree->place[c].parent[p] == s && tree->place[c].down_port == port) {
				fly(bytes, size, c, tree->place[c].up_port[p]);
				return;
			}
	cr_assert_fail("switch %u sends by port %u", s, port);
}

/* ---- blocks, and what is known of them ---- */

static const uint8_t ids[RANKS] = {0, 1, 2, 3};

static struct {
	struct block_plan plan;
	bool known; /* some host has its result */
	uint8_t status, bitmap[WEIR_BITMAP_BYTES];
} block[BLOCKS];

static void
make_blocks(void)
{
	memset(block, 0, sizeof(block));
	for (unsigned int b = 0; b < BLOCKS; b++) {
		unsigned int which = chance(3) == 0 ? 0 : chance(WEIR_COLLECTIVES);
		bool rows = which == WEIR_COLLECTIVE_ALLTOALL;

		block[b].plan = (struct block_plan){.generation = GEN,
			.n = RANKS,
			.ids = ids,
			.collective = (enum weir_collective)which,
			.dtype = WEIR_DTYPE_INT32,
			.op = WEIR_OP_SUM,
			.root = collective_table[which].rooted ? chance(RANKS) : 0,
			.elements = chance(8) == 0 ? chance(4)
						   : 1 + chance(rows ? ELEMENTS / RANKS : ELEMENTS),
			.block = b,
			.seed = rig_random(&seed)};
		if (which == WEIR_COLLECTIVE_BARRIER)
			block[b].plan.elements = 0;
		if (block[b].plan.elements == 0)
			block[b].plan.dtype = 0;
	}
}

/* ---- hosts ---- */

static struct host {
	unsigned int next[WINDOW]; /* block of each residue that has no result yet */
	uint64_t send_at[WINDOW]; /* us */
} host[RANKS];

static uint64_t now_us;
static unsigned int slow; /* 1 of so many contributions comes after the root's timeout; 0: none */
static unsigned int counts[16]; /* results by status */

static unsigned int
leaf_of(unsigned int rank)
{
	unsigned int s = 0;

	while (!tree->place[s].leaf || rank - tree->place[s].first >= tree->place[s].ranks)
		s++;
	return s;
}

static void
contribute(unsigned int rank, unsigned int b)
{
	static uint8_t frame[RIG_FRAME_MAX], payload[BLOCK_BYTES_MAX];
	unsigned int leaf = leaf_of(rank), bytes;
	struct weir_header h;

	block[b].plan.job = job_of(leaf);
	h = block_header(&block[b].plan, rank);
	bytes = block_contribution(&block[b].plan, rank, payload);
	bytes = rig_frame(frame, rank, &h, payload, bytes);
	switch_mac(leaf, frame);
	weir_put32(frame + 30, switch_ip(leaf));
	rig_fix_checksums(frame);
	fly(frame, bytes, leaf, rank - tree->place[leaf].first);
}

static uint64_t
when_to_send(void)
{
	return now_us + (slow != 0 && chance(slow) == 0 ? 1000 * (TIMEOUT << 3) : 0);
}

static void
begin_hosts(void)
{
	for (unsigned int rank = 0; rank < RANKS; rank++)
		for (unsigned int r = 0; r < WINDOW; r++) {
			host[rank].next[r] = r;
			host[rank].send_at[r] = when_to_send();
		}
}

static void
check_result(unsigned int rank, unsigned int b, const struct weir_header *h, const uint8_t *payload,
	unsigned int bytes)
{
	static uint8_t expected[BLOCK_BYTES_MAX];
	struct block_plan *plan = &block[b].plan;
	const uint8_t *bitmap = payload + bytes - WEIR_BITMAP_BYTES;
	static const uint8_t all[WEIR_BITMAP_BYTES] = {(1 << RANKS) - 1};
	unsigned int n;

	cr_assert_lt(h->status, WEIR_STATUS_WAITING, "rank %u, block %u: %s", rank, b,
		weir_status_text(h->status));
	cr_assert(h->status == WEIR_STATUS_OK || bytes >= WEIR_BITMAP_BYTES);
	if (h->status == WEIR_STATUS_OK)
		bitmap = all;
	if (!block[b].known) {
		block[b].known = true;
		block[b].status = h->status;
		memcpy(block[b].bitmap, bitmap, WEIR_BITMAP_BYTES);
	}
	cr_assert_eq(h->status, block[b].status, "block %u: rank %u gets %s, others %s", b, rank,
		weir_status_text(h->status), weir_status_text(block[b].status));
	cr_assert_arr_eq(bitmap, block[b].bitmap, WEIR_BITMAP_BYTES);
	counts[h->status]++;
	if (h->status == WEIR_STATUS_ERROR)
		return;
	cr_assert_eq(h->src_cnt, __builtin_popcount(bitmap[0]));
	cr_assert_eq(h->collective, plan->collective);
	plan->absent = ~(uint64_t)bitmap[0];
	n = block_result(plan, rank, expected);
	cr_assert_eq(bytes, n + (h->degraded ? WEIR_BITMAP_BYTES : 0),
		"rank %u, block %u, %s: %u bytes, not %u", rank, b,
		weir_collective_text(plan->collective), bytes, n);
	cr_assert(memcmp(payload, expected, n) == 0, "rank %u, block %u, %s of %u, root %u: %s",
		rank, b, weir_collective_text(plan->collective), plan->elements, plan->root,
		weir_status_text(h->status));
	plan->absent = 0;
}

static void
to_host(unsigned int rank, const uint8_t *frame)
{
	struct weir_header h = {.extended = true};
	struct host *to = &host[rank];
	unsigned int r, udp = weir_get16(frame + L3 + 4);

	cr_assert(rig_checksums_hold(frame));
	weir_header_read(&h, frame + L4);
	cr_assert_eq(h.job_id, job_of(leaf_of(rank)));
	cr_assert_eq(h.src_id, rank);
	r = h.block_id % WINDOW;
	if (h.status == WEIR_STATUS_WAITING || h.status == WEIR_STATUS_EXPIRED)
		return;
	if (h.block_id != to->next[r] || h.block_id >= BLOCKS)
		return;
	check_result(rank, h.block_id, &h, frame + L4 + WEIR_EXT_BYTES, udp - 8 - WEIR_EXT_BYTES);
	to->next[r] += WINDOW;
	to->send_at[r] = when_to_send();
}

/* ---- time ---- */

static void
turn(void)
{
	static uint8_t frame[RIG_FRAME_MAX];
	unsigned int n = nb_flying, kept = 0, bytes;

	/* What arrives, in any order. */
	for (unsigned int i = 0; i < n; i++) {
		struct flying f = wire[i];

		if (f.steps > 0) {
			f.steps--;
			wire[kept++] = f;
			continue;
		}
		if (f.to == SWITCHES)
			to_host(f.port, f.bytes);
		else
			rig_send(&rig[f.to], f.port, f.bytes, f.size);
		free(f.bytes);
	}
	nb_flying = kept;
	now_us += STEP_US;
	rig_turn_after_us(&rig[0], STEP_US);
	for (unsigned int s = 1; s < tree->n; s++)
		rig_turn(&rig[s]);
	for (unsigned int s = 0; s < tree->n; s++)
		for (unsigned int port = 0; port < PORTS; port++)
			while ((bytes = rig_receive(&rig[s], port, frame, 0)) > 0)
				from_switch(s, port, frame, bytes);
	for (unsigned int rank = 0; rank < RANKS; rank++)
		for (unsigned int r = 0; r < WINDOW; r++)
			if (host[rank].next[r] < BLOCKS && now_us >= host[rank].send_at[r]) {
				contribute(rank, host[rank].next[r]);
				host[rank].send_at[r] = now_us + REPEAT_US;
			}
}

static bool
finished(void)
{
	for (unsigned int rank = 0; rank < RANKS; rank++)
		for (unsigned int r = 0; r < WINDOW; r++)
			if (host[rank].next[r] < BLOCKS)
				return false;
	return true;
}

static void
stop(void)
{
	for (unsigned int steps = 0; steps < 100; steps++)
		turn();
	cr_assert_eq(nb_flying, 0);
	for (unsigned int s = 0; s < tree->n; s++)
		rig_rest(&rig[s]);
	for (unsigned int s = 0; s < tree->n; s++)
		rig_check(&rig[s]);
	for (unsigned int s = tree->n; s-- > 0;)
		cr_assert_null(rig_stop(&rig[s]));
}

/* Bad wires for a while, then perfect ones. */
static void
play(const struct tree *of, enum ppe_policy policy, unsigned int workers, unsigned int bad)
{
	/* Each block of a residue takes a repetition by each host at most; if one is late, as much time as that. */
	const uint64_t rounds = BLOCKS / WINDOW * (policy == PPE_POLICY_WAIT ? 1 : 16) + 1;
	uint64_t calm;

	seed = rig_seed();
	start(of, policy, workers);
	make_blocks();
	slow = policy == PPE_POLICY_WAIT ? 0 : 40;
	begin_hosts();
	lost = bad;
	repeated = bad;
	delayed = 3 * bad;
	while (!finished() && now_us < 200000)
		turn();
	lost = repeated = delayed = 0;
	printf("calm after %" PRIu64 " us\n", now_us);
	for (calm = now_us; !finished() && now_us < calm + rounds * REPEAT_US;)
		turn();
	for (unsigned int rank = 0; rank < RANKS; rank++)
		for (unsigned int r = 0; r < WINDOW; r++)
			cr_assert_geq(host[rank].next[r], BLOCKS, "rank %u waits for block %u, %s",
				rank, host[rank].next[r],
				weir_collective_text(block[host[rank].next[r]].plan.collective));
	printf("%u ok, %u partial, %u error after %" PRIu64 " us more\n", counts[WEIR_STATUS_OK],
		counts[WEIR_STATUS_PARTIAL], counts[WEIR_STATUS_ERROR], now_us - calm);
	if (policy == PPE_POLICY_WAIT)
		cr_assert_eq(counts[WEIR_STATUS_OK], RANKS * BLOCKS);
	else
		cr_assert_gt(counts[policy == PPE_POLICY_PARTIAL ? WEIR_STATUS_PARTIAL
								 : WEIR_STATUS_ERROR],
			0);
	stop();
}

CASE(ppe_tree, two_leaves, play(&two_leaves, PPE_POLICY_WAIT, 1, 0))
CASE(ppe_tree, two_leaves_loss, play(&two_leaves, PPE_POLICY_WAIT, 1, 10))
CASE(ppe_tree, two_leaves_loss_two_workers, play(&two_leaves, PPE_POLICY_WAIT, 2, 10))
CASE(ppe_tree, two_leaves_partial, play(&two_leaves, PPE_POLICY_PARTIAL, 1, 5))
CASE(ppe_tree, two_leaves_error, play(&two_leaves, PPE_POLICY_ERROR, 1, 5))
CASE(ppe_tree, three_levels_loss, play(&three_levels, PPE_POLICY_WAIT, 1, 10))
CASE(ppe_tree, three_levels_partial, play(&three_levels, PPE_POLICY_PARTIAL, 2, 5))
CASE(ppe_tree, two_spines_loss, play(&two_spines, PPE_POLICY_WAIT, 2, 10))
CASE(ppe_tree, two_spines_partial, play(&two_spines, PPE_POLICY_PARTIAL, 1, 5))
