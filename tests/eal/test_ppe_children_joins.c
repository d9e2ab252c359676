/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switches join at a parent: what it accepts, tells them and waits for. And a switch between the two: it is both.
 * docs/tree.md, "Generations".
 */
#include "tests/eal/tree_rig.h"

#define SUITE    ppe_children_joins
#define CHILDREN 2 /* with 3 ranks each, at ports 0 and 1 */
#define RANKS    3
#define ABOVE    2 /* the port of the parent of a switch that has one */
#define PORTS    3
#define WINDOW   2
#define JOB      1
#define HOST_JOB 2
#define SETS     3

static unsigned int first; /* rank of the first child */
static uint8_t sent[RIG_FRAME_MAX];

/* above: the switch has a parent. */
static void
start(unsigned int workers, bool above)
{
	static const struct ppe_parent parent = {.name = "top",
		.address = 0x0a4f00fe,
		.mac = {0x02, 0x51, 0, 0, 0, 0},
		.port = ABOVE,
		.udp = WEIR_PORT_EXT,
		.job = 7};
	struct rig_config config = {.workers = workers, .threads = 8, .ports = PORTS, .jobs = 2};
	struct ppe_job *job = &config.job[0];
	uint8_t ids[CHILDREN];

	first = above ? 6 : 0;
	for (unsigned int i = 0; i < CHILDREN; i++)
		ids[i] = (uint8_t)(first + i * RANKS);
	*job = rig_job_of(JOB, ids, CHILDREN, WINDOW, 8);
	job->children = true;
	job->revoke = true;
	job->policy = PPE_POLICY_PARTIAL;
	job->timeout_ms = 500;
	job->dead_after_ms = 0x012345;
	for (unsigned int i = 0; i < CHILDREN; i++)
		job->ranks[ids[i]] = RANKS;
	if (above) {
		job->first_rank = (uint16_t)first;
		job->tree_ranks = 12;
		job->nb_parents = 1;
		job->parent[0] = parent;
	}
	config.job[1] = rig_job(HOST_JOB, 1, WINDOW, 8);
	rig_start(&rig, &config);
}

#define BOTH(suite, name) ONE_WORKER_AND_TWO(suite, name)

static void
offer(unsigned int child, struct weir_header h)
{
	h.job_id = h.job_id != 0 ? h.job_id : JOB;
	h.extended = true;
	h.collective = WEIR_COLLECTIVE_JOIN;
	rig_offer(&rig, child, &h, NULL, 0);
	rig_rest(&rig);
}

static void
join(unsigned int child, uint32_t nonce, uint8_t set)
{
	offer(child,
		(struct weir_header){.src_id = (uint8_t)(first + child * RANKS),
			.src_cnt = RANKS,
			.block_id = nonce,
			.flags = WEIR_FLAG_UP,
			.root = set});
}

static void
expect(unsigned int child, enum weir_status status)
{
	cr_assert(receive(child), "child %u gets nothing", child);
	cr_assert_eq(got.status, status, "child %u: %s, not %s", child,
		weir_status_text(got.status), weir_status_text(status));
}

/* These ranks have joined, and this is the set of parents that all have. */
static void
expect_waiting(unsigned int child, unsigned int ranks, uint8_t common)
{
	expect(child, WEIR_STATUS_WAITING);
	cr_assert_eq(got.root, common, "set %x, not %x", got.root, common);
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_assert_eq(weir_get16(payload), (ranks & 0xff) << 8 | ranks >> 8, "ranks %x",
		weir_get16(payload));
}

static uint16_t
expect_begun(unsigned int tree)
{
	struct weir_join_reply reply;
	uint16_t generation = 0;

	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, WEIR_STATUS_OK);
		cr_assert_eq(got.root, first + child * RANKS);
		cr_assert_eq(got.src_id, got.root);
		cr_assert_eq(got.src_cnt, tree);
		cr_assert_eq(payload_bytes, sizeof(reply));
		memcpy(&reply, payload, sizeof(reply));
		cr_assert_eq(weir_get16(reply.sources), tree);
		cr_assert_eq(weir_get32(reply.timeout_ms), 500);
		cr_assert_eq(weir_get16(reply.window), WINDOW);
		cr_assert_eq(reply.up.agreed, 1 | WEIR_JOIN_UP_REVOKE);
		cr_assert_eq(weir_get32(reply.group) & 0xffffff, 0x012345);
		generation = got.gen_id;
	}
	return generation;
}

/* ---- a parent ---- */

/* Ranks are those of the job, and only switches have them: otherwise the answer says how many there are. */
BOTH(SUITE, others_are_refused)
{
	const struct weir_header other[] = {
		{.src_id = RANKS, .flags = WEIR_FLAG_UP, .src_cnt = RANKS - 1},
		{.src_id = RANKS, .flags = WEIR_FLAG_UP, .src_cnt = RANKS + 1},
		{.src_id = RANKS, .flags = WEIR_FLAG_UP},
		{.src_id = RANKS}, /* a host */
		{.src_id = RANKS, .flags = WEIR_FLAG_UP | WEIR_FLAG_BASE_RESULTS, .src_cnt = RANKS},
	};

	start(workers, false);
	for (unsigned int i = 0; i < RTE_DIM(other); i++) {
		offer(1, other[i]);
		expect(1, WEIR_STATUS_UNSUPPORTED);
		cr_assert_eq(got.src_cnt, RANKS);
	}
	offer(0, (struct weir_header){.job_id = HOST_JOB, .flags = WEIR_FLAG_UP, .src_cnt = 1});
	expect(0, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(got.src_cnt, 1);
	join(0, 50, SETS);
	expect_waiting(0, 0x07, SETS);
	stop_unread();
}

BOTH(SUITE, ranks_and_sets)
{
	start(workers, false);
	join(1, 51, SETS);
	expect_waiting(1, 0x38, SETS);
	join(0, 50, 1);
	expect_waiting(0, 0x3f, 1); /* all have joined, but with different sets */
	join(1, 51, SETS);
	expect_waiting(1, 0x3f, 1);
	join(1, 61, 2);
	expect_waiting(1, 0x3f, 0);
	expect_silence();
	join(1, 71, 1);
	expect_begun(2 * RANKS);
	expect_silence();
	stop_unread();
}

/* A switch that joins anew ends the generation. */
BOTH(SUITE, a_switch_joins_anew)
{
	uint16_t generation;

	start(workers, false);
	join(0, 50, 1);
	expect_waiting(0, 0x07, 1);
	join(1, 51, 1);
	generation = expect_begun(2 * RANKS);
	join(1, 51, 1); /* a repetition ends nothing */
	expect(1, WEIR_STATUS_OK);
	cr_assert_eq(stats().revokes, 0);
	join(1, 61, 1);
	expect_waiting(1, 0x38, 1);
	cr_assert_eq(stats().revokes, 1);
	join(0, 60, 1);
	cr_assert_neq(expect_begun(2 * RANKS), generation);
	stop_unread();
}

/* A switch that hears nothing takes its parent for dead: a contribution that is held back is answered. */
BOTH(SUITE, what_is_held_back_is_answered)
{
	struct weir_header h;
	const uint32_t one = 1;

	start(workers, false);
	join(0, 50, 1);
	expect_waiting(0, 0x07, 1);
	join(1, 51, 1);
	h = rig_contribution(JOB, expect_begun(2 * RANKS), 0, 0, 1);
	h.flags = WEIR_FLAG_UP;
	h.src_cnt = RANKS;
	for (unsigned int child = 0; child < CHILDREN; child++) {
		h.src_id = (uint8_t)(child * RANKS);
		rig_offer(&rig, child, &h, &one, sizeof(one));
	}
	for (unsigned int child = 0; child < CHILDREN; child++)
		expect(child, WEIR_STATUS_OK);
	/* The other one is silent from now on. */
	h.src_id = 0;
	h.block_id += WINDOW;
	rig_offer(&rig, 0, &h, &one, sizeof(one));
	rig_rest(&rig);
	rig_pass_us(600000);
	expect(0, WEIR_STATUS_PARTIAL);
	expect(1, WEIR_STATUS_PARTIAL);
	h.block_id += WINDOW;
	rig_offer(&rig, 0, &h, &one, sizeof(one));
	expect(0, WEIR_STATUS_WAITING);
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[0], 0x07, "ranks %x", payload[0]);
	stop_unread();
}

/* ---- a switch between ---- */

static uint32_t
expect_join_above(void)
{
	cr_assert(receive(ABOVE), "nothing goes up");
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_JOIN);
	cr_assert_eq(got.flags, WEIR_FLAG_UP);
	cr_assert_eq(got.src_id, first);
	cr_assert_eq(got.src_cnt, CHILDREN * RANKS);
	cr_assert_eq(got.root, 1);
	cr_assert_eq(got.job_id, 7);
	return got.block_id;
}

static void
say(struct weir_header h, const void *bytes, unsigned int n)
{
	const struct ppe_parent *parent = &rig.job[0].parent[0];
	unsigned int size;

	h.job_id = parent->job;
	h.src_id = (uint8_t)first;
	h.src_cnt = CHILDREN * RANKS;
	h.collective = WEIR_COLLECTIVE_JOIN;
	h.extended = true;
	size = rig_frame(sent, 0, &h, bytes, n);
	memcpy(sent + 6, parent->mac, 6);
	weir_put32(sent + 26, parent->address);
	weir_put16(sent + L3, WEIR_PORT_EXT);
	weir_put16(sent + L3 + 2, WEIR_PORT_UP);
	rig_fix_checksums(sent);
	rig_send(&rig, ABOVE, sent, size);
	rig_rest(&rig);
}

static void
accept_above(uint32_t nonce, uint16_t generation, uint32_t timeout_ms)
{
	const struct ppe_job *j = &rig.job[0];
	struct weir_join_reply reply = {
		.dtype_op = (uint8_t)(j->dtype << 4 | j->op), .up.agreed = 1 | WEIR_JOIN_UP_REVOKE};

	weir_put16(reply.window, WINDOW);
	weir_put16(reply.elements, 8);
	weir_put16(reply.sources, 12);
	weir_put32(reply.timeout_ms, timeout_ms);
	say((struct weir_header){.block_id = nonce, .gen_id = generation}, &reply, sizeof(reply));
}

BOTH(SUITE, a_switch_between_begins_last)
{
	const uint8_t bitmap[WEIR_BITMAP_BYTES] = {0xff, 0x01};
	uint32_t nonce, next;
	uint16_t generation;

	start(workers, true);
	join(0, 50, SETS);
	expect_waiting(0, 0x1c0, SETS);
	join(1, 51, 1); /* with different sets it does not join */
	expect_waiting(1, 0xfc0, 1);
	expect_silence();
	join(0, 60, 1);
	expect_waiting(0, 0xfc0, 1);
	nonce = expect_join_above();
	say((struct weir_header){.block_id = nonce, .status = WEIR_STATUS_WAITING, .root = 1},
		bitmap, sizeof(bitmap));
	rig_turn_after_us(&rig, 1001);
	join(0, 60, 1);
	expect_waiting(0, 0xfff, 1);
	cr_assert_eq(expect_join_above(), nonce);
	/* Its own parent must wait for longer than it does. */
	accept_above(nonce, 100, 625);
	rig_turn_after_us(&rig, 1001);
	join(1, 51, 1);
	expect(1, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(got.src_cnt, RANKS, "the child's ranks are right");
	cr_assert_eq(expect_join_above(), nonce);
	accept_above(nonce, 100, 626);
	generation = expect_begun(12);
	expect_silence();
	/* A child joins anew: this ends here, and then above. */
	join(1, 61, 1);
	expect_waiting(1, 0xe00, 1);
	cr_assert_eq(stats().revokes, 1);
	expect_silence();
	join(0, 70, 1);
	expect_waiting(0, 0xfc0, 1);
	next = expect_join_above();
	cr_assert_neq(next, nonce);
	accept_above(nonce, 100, 626); /* late */
	expect_silence();
	accept_above(next, 101, 626);
	cr_assert_neq(expect_begun(12), generation);
	stop_unread();
}
