/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long random sequences of packets to a switch and to the reference model: everything that leaves
 * and every counter must be the same after each batch.
 *
 * Within a batch the switch takes packets in any order. So that the order doesn't matter, a batch
 * has for each residue of a job one packet of any kind, or several of a kind that commutes:
 * contributions that agree, repeats of them in a block that stays open, questions for one finished
 * block. Packets that touch no block go into any batch.
 *
 * WEIR_SEED replays a run; WEIR_STEPS makes it longer.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/eal/play.h"

#define STEPS    4000
#define LONG_MS  3600000 /* longer than a run takes under ThreadSanitizer */
#define SHORT_MS 100 /* what the aging scan is laid out for */

/* ---- what touches a block ---- */

static bool
is_in(const struct model_block *b, unsigned int source)
{
	return (b->in[source / 8] >> (source % 8) & 1) != 0;
}

/* Contributions of sources that are not in yet; with repeats, one stays away. */
static void
fill(struct play *p, unsigned int j, uint32_t block, const struct model_block *b, bool repeats)
{
	bool fresh = !b->held || b->id != block, some = below(p, 3) == 0, left_one = !repeats;
	bool alone = fresh && below(p, 2);
	unsigned int n = job(p, j)->nb_sources, first = below(p, n);

	if (fresh)
		p->raced[j][block % job(p, j)->window] = !alone;
	for (unsigned int i = 0; i < (alone ? 1 : n); i++) {
		unsigned int s = (first + i) % n;
		struct weir_header h = contribution(p, j, s, block);

		if (!fresh && is_in(b, s)) {
			if (repeats)
				offer(p, j, &h);
			continue;
		}
		if (!left_one || (some && below(p, 2))) {
			left_one = true;
			continue;
		}
		for (unsigned int times = repeats ? 1 + below(p, 2) : 1; times > 0; times--)
			offer(p, j, &h);
	}
}

/* Questions of any sources for a finished block. */
static void
ask(struct play *p, unsigned int j, uint32_t block)
{
	for (unsigned int n = 1 + below(p, 4); n > 0; n--) {
		struct weir_header h = contribution(p, j, below(p, job(p, j)->nb_sources), block);

		offer(p, j, &h);
	}
}

/* Make it disagree with the others, perhaps. */
static void
bend(struct play *p, struct weir_header *h)
{
	switch (below(p, 8)) {
	case 0: h->grad_cnt = (uint16_t)(1 + below(p, 8)); break;
	case 1: h->dtype ^= WEIR_DTYPE_INT32 ^ WEIR_DTYPE_FP32; break;
	case 2: h->root = (uint8_t)below(p, 256); break;
	case 3: h->grad_cnt = 0; break;
	case 4: h->final = !h->final; break;
	default: break;
	}
	if (h->grad_cnt == 0)
		h->collective = below(p, 4) ? WEIR_COLLECTIVE_BARRIER : WEIR_COLLECTIVE_ALLREDUCE;
	else
		h->collective = WEIR_COLLECTIVE_ALLREDUCE;
}

/* A contribution that may disagree with others, repeat, come too early or too late. */
static void
single(struct play *p, unsigned int j, uint32_t residue, uint32_t next)
{
	uint32_t w = job(p, j)->window;
	const uint32_t blocks[] = {next - w, next - w, next - w, next, next - 2 * w, next - 3 * w,
		next + w, residue + w * (uint32_t)rig_random(&p->random)};
	uint32_t block = blocks[below(p, RTE_DIM(blocks))] & UINT32_MAX >> job(p, j)->block_shift;
	struct weir_header h = contribution(p, j, below(p, job(p, j)->nb_sources), block);
	struct model_block b[2];

	model_look(p->twin.model[j], residue, &b[0], &b[1]);
	h.extended = j == JOB_FIXED ? h.extended : true;
	/* A disagreement names the source that was first. */
	if (!(b[1].open && b[1].id == block && p->raced[j][residue]))
		bend(p, &h);
	offer(p, j, &h);
	if (model_look(p->twin.model[j], residue, &b[0], &b[1]) == next)
		return;
	p->odd[j][residue] = true;
	p->raced[j][residue] = false;
}

/* Acknowledgements of any sources, for blocks before this one; or probes, which say the same. */
static void
note(struct play *p, unsigned int j, uint32_t block)
{
	const uint8_t which = below(p, 2) ? WEIR_COLLECTIVE_ACKNOWLEDGE : WEIR_COLLECTIVE_PROBE;

	for (unsigned int n = 1 + below(p, 6); n > 0; n--) {
		struct weir_header h = contribution(p, j, below(p, job(p, j)->nb_sources), block);

		if (j == JOB_FIXED && !h.extended)
			continue; /* its results would come in another form from now on */
		h.extended = true;
		h.collective = which;
		h.grad_cnt = below(p, 16) == 0;
		offer(p, j, &h);
	}
}

static void
touch(struct play *p, unsigned int j)
{
	uint32_t residue = below(p, job(p, j)->window), next;
	struct model_block older, newer;

	if (p->used[j][residue])
		return;
	p->used[j][residue] = true;
	next = model_look(p->twin.model[j], residue, &older, &newer);
	switch (below(p, 9)) {
	case 0: single(p, j, residue, next); return;
	case 2:
	case 3:
		note(p, j,
			(next + job(p, j)->window - below(p, 5) * job(p, j)->window) &
				UINT32_MAX >> job(p, j)->block_shift);
		return;
	case 1:
		if (older.held && (newer.open || below(p, 2)))
			ask(p, j, older.id);
		else if (newer.held && !newer.open)
			ask(p, j, newer.id);
		return;
	default: break;
	}
	if (newer.held && newer.open && p->odd[j][residue]) {
		struct weir_header h =
			contribution(p, j, below(p, job(p, j)->nb_sources), newer.id);

		offer(p, j, &h);
	} else if (newer.held && newer.open) {
		fill(p, j, newer.id, &newer, below(p, 4) == 0);
	} else if (newer.held &&
		older.held) { /* the next is held back until all have acknowledged */
		struct weir_header h = contribution(p, j, below(p, job(p, j)->nb_sources), next);

		if (below(p, 4) == 0)
			offer(p, j, &h);
		else
			ask(p, j, newer.id);
	} else {
		p->odd[j][residue] = false;
		fill(p, j, next, &newer, below(p, 4) == 0);
	}
}

/* ---- joins ---- */

static unsigned int
joining(const struct play *p, unsigned int j)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < job(p, j)->nb_sources; s++)
		n += p->source[j][s].joining;
	return n;
}

static void
offer_join(struct play *p, unsigned int j, unsigned int source, uint32_t nonce,
	const struct model_peer *from)
{
	uint8_t bytes[WEIR_EXT_BYTES];
	struct weir_header h = {.job_id = job(p, j)->id,
		.block_id = nonce,
		.src_id = (uint8_t)source,
		.collective = WEIR_COLLECTIVE_JOIN,
		.op = (uint8_t)(nonce >> 5 & 1), /* it takes the list of settings */
		.flags = (uint8_t)(below(p, 2) | ((nonce >> 4 & 1) ? WEIR_FLAG_SKIPS_OWN : 0)),
		.extended = true};

	weir_header_write(&h, bytes);
	offer_bytes(p, from, true, bytes, WEIR_EXT_BYTES);
}

/* A join that says what joins do not say, or more. */
static void
wrong_join(struct play *p, unsigned int j, unsigned int source)
{
	uint8_t bytes[WEIR_EXT_BYTES + 8] = {0};
	unsigned int what = below(p, 3);
	struct weir_header h = {.job_id = job(p, j)->id,
		.block_id = 8,
		.src_id = (uint8_t)source,
		.gen_id = what == 0 ? 7 : WEIR_GEN_JOIN,
		.grad_cnt = what == 1 ? 2 : 0,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};

	weir_header_write(&h, bytes);
	offer_bytes(p, &p->source[j][source].at, true, bytes,
		WEIR_EXT_BYTES + (what == 2 ? 1 + below(p, 8) : 0));
}

/* A source joins the next generation, perhaps as another process. The last one begins it. */
static void
join(struct play *p, unsigned int j, unsigned int s)
{
	struct source *source = &p->source[j][s];
	bool last = joining(p, j) + !source->joining == job(p, j)->nb_sources;

	if (last)
		settle(p);
	source->next_at = (struct model_peer){.address = job(p, j)->address[s],
		.port = (uint16_t)(1024 + below(p, 60000)),
		.link = source->at.link,
		.mac = {0x02, 0x48, (uint8_t)j, (uint8_t)s, (uint8_t)below(p, 256), 1}};
	source->next_nonce = (uint32_t)rig_random(&p->random);
	source->joining = true;
	offer_join(p, j, s, source->next_nonce, &source->next_at);
	if (!last)
		return;
	settle(p);
	for (s = 0; s < job(p, j)->nb_sources; s++) {
		source = &p->source[j][s];
		source->at = source->next_at;
		source->nonce = source->next_nonce;
		source->joining = false;
	}
	memset(p->odd[j], 0, sizeof(p->odd[j]));
}

/* All join: a new generation. One after the other, for each is told who was before it. */
static void
join_all(struct play *p, unsigned int j)
{
	unsigned int n = job(p, j)->nb_sources, first = below(p, n);

	settle(p);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int s = (first + i) % n;

		if (p->source[j][s].joining)
			continue;
		join(p, j, s);
		settle(p);
	}
}

/* One join of some kind; at most one per job and batch. */
static void
some_join(struct play *p, unsigned int j)
{
	unsigned int s = below(p, job(p, j)->nb_sources);
	struct source *source = &p->source[j][s];
	struct model_peer elsewhere = source->at;

	switch (below(p, 6)) {
	case 0:
		if (model_generation(p->twin.model[j]) != 0)
			offer_join(p, j, s, source->nonce, &source->at);
		break;
	case 1:
		elsewhere.address += 100;
		offer_join(p, j, s, 5, &elsewhere);
		break;
	case 2:
		s = job(p, j)->nb_sources + below(p, 100);
		offer_join(p, j, s, 6, &source->at);
		break;
	case 3: wrong_join(p, j, s); break;
	case 4:
		if (source->joining) {
			offer_join(p, j, s, source->next_nonce, &source->next_at);
			break;
		}
	/* fallthrough */
	default:
		if (j == JOB_FIXED)
			offer_join(p, j, s, 7, &source->at);
		else
			join(p, j, s);
	}
}

/* ---- time ---- */

/* All open blocks of a job are overdue: what its policy says of them happens. */
static void
time_passes(struct play *p, unsigned int j)
{
	enum ppe_policy policy = (enum ppe_policy)below(p, 3);

	settle(p);
	twin_set_policy(&p->twin, j, policy, 3, true);
	settle(p);
	for (uint32_t r = 0; r < job(p, j)->window && policy == PPE_POLICY_WAIT; r++) {
		struct model_block older, newer;

		model_look(p->twin.model[j], r, &older, &newer);
		for (unsigned int s = 0; s < job(p, j)->nb_sources; s++) {
			struct weir_header h = contribution(p, j, s, newer.id);

			if (newer.held && newer.open && is_in(&newer, s) && below(p, 2))
				offer(p, j, &h); /* a repeat is told who is in */
		}
	}
	settle(p);
	twin_set_policy(&p->twin, j, policy, LONG_MS, false);
}

/* ---- the runs ---- */

static void
batch(struct play *p)
{
	bool joined[JOBS] = {false};

	for (unsigned int n = 1 + below(p, 16); n > 0 && p->twin.in.count < TWIN_BATCH_MAX; n--) {
		unsigned int j = below(p, JOBS);

		switch (below(p, 16)) {
		case 0:
		case 1:
		case 2: stateless(p, j); break;
		case 3:
			if (!joined[j])
				some_join(p, j);
			joined[j] = true;
			break;
		default: touch(p, j);
		}
	}
	settle(p);
}

static void
start(struct play *p, unsigned int workers, unsigned int threads)
{
	/* The model's joins don't wait for a busy machine, but for ever. */
	struct rig_config config = {
		.workers = workers, .threads = threads, .jobs = JOBS, .joins_s = 3600};
	static const uint8_t ids[JOBS] = {1, 77, 200, 255};

	p->ports = config.ports = 1 + below(p, RIG_PORTS_MAX);
	for (unsigned int j = 0; j < JOBS; j++) {
		unsigned int most = j == JOB_FIXED ? 5 : SOURCES_MAX;
		struct ppe_job *job = &config.job[j];

		*job = rig_job(ids[j], (uint16_t)(1 + below(p, most)),
			(uint16_t)(1u << below(p, 6)), (uint16_t)(2 + below(p, 300)));
		job->timeout_ms = SHORT_MS;
		job->alltoall = (uint8_t)below(p, 2);
		for (unsigned int s = 0; s < job->nb_sources; s++)
			job->address[s] += j << 8; /* a source's address belongs to its port */
	}
	config.job[JOB_FLOAT].dtype = WEIR_DTYPE_FP32;
	config.job[JOB_FIXED].fixed_generation = 300;
	config.job[JOB_FIXED].block_shift = below(p, 2) ? 24 : 0;
	config.job[JOB_GROUP].group = 0xefcd0102;
	twin_start(&p->twin, &config);
	for (unsigned int j = 0; j < JOBS; j++) {
		for (unsigned int s = 0; s < config.job[j].nb_sources; s++)
			p->source[j][s].at =
				(struct model_peer){.address = config.job[j].address[s],
					.port = (uint16_t)(5000 + s),
					.link = (uint8_t)(s % p->ports),
					.mac = {0x02, 0x48, (uint8_t)j, (uint8_t)s}};
		twin_set_policy(&p->twin, j, PPE_POLICY_WAIT, LONG_MS, false);
	}
}

static void
run(unsigned int workers, unsigned int threads)
{
	const char *steps = getenv("WEIR_STEPS"), *wrong;
	unsigned int end = steps != NULL ? (unsigned int)atoi(steps) : STEPS;
	struct play *p = calloc(1, sizeof(*p));

	p->seed = rig_seed();
	p->random = p->seed ^ (workers * 100 + threads); /* not the same for all */
	start(p, workers, threads);
	for (unsigned int j = 0; j < JOBS; j++) { /* nobody has joined */
		stateless(p, j);
		if (j != JOB_FIXED)
			touch(p, j);
	}
	settle(p);
	/* Each shard learns the sources of the job that needs no joins from contributions. */
	for (uint32_t b = 0; b < job(p, JOB_FIXED)->window; b++)
		for (unsigned int s = 0; s < job(p, JOB_FIXED)->nb_sources; s++) {
			struct weir_header h = contribution(p, JOB_FIXED, s, b);

			offer(p, JOB_FIXED, &h);
		}
	settle(p);
	for (unsigned int n = 0; n < 4; n++)
		batch(p);
	for (unsigned int j = 0; j < JOBS; j++)
		if (j != JOB_FIXED)
			join_all(p, j);
	while (p->steps < end) {
		unsigned int j = below(p, JOBS);

		switch (below(p, 32)) {
		case 0:
		case 1:
		case 2: time_passes(p, j); break;
		case 3:
			if (j != JOB_FIXED)
				join_all(p, j);
			break;
		default: batch(p);
		}
	}
	wrong = twin_stop(&p->twin);
	cr_expect_null(wrong, "WEIR_SEED=%" PRIu64 ": %s", p->seed, wrong);
	free(p);
}

#define RUN(workers, threads)                                                                      \
	Test(ppe_model, workers_##workers##_threads_##threads, .timeout = 120)                     \
	{                                                                                          \
		run(workers, threads);                                                             \
	}

RUN(1, 1)
RUN(1, 20)
RUN(1, 64)
RUN(2, 1)
RUN(2, 20)
RUN(2, 64)
RUN(4, 1)
RUN(4, 20)
RUN(4, 64)
RUN(16, 4)
