/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs at once, each three times: their hosts join, reduce blocks, leave half way and join again,
 * reduce all of them, and so once more, and repair what the test loses on the way in and out, while two
 * stations talk across the switch, and other jobs come and go.
 * Every result is compared with the sum; a sum of another job or generation would not be equal.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ring.h>

#include "tests/eal/rig.h"

#define PORTS        4
#define JOBS         2
#define HOSTS        24
#define BLOCKS_MAX   512
#define ELEMENTS     64
#define LIMIT_S      9 /* without a step forward: a busy machine is slow, and does not stand */
#define TABLES       40 /* of jobs, enough: each waits for workers that share CPUs */
#define TABLES_LEAST 12
#define SUMMED_LEAST 11 /* results of those other jobs, least */
#define OTHERS       8 /* jobs of the ids above those two */
#define WAITING      32 /* packets at a port */
#define STATION      60 /* bytes of a station's frame */
#define STATION_AT   0x88b5 /* its ethertype, IEEE 802 local experimental */

static const unsigned int sources[JOBS] = {8, 16};
static const uint8_t job_id[JOBS] = {1, 2};

struct shape {
	unsigned int threads, window, blocks; /* per generation */
	unsigned int workers; /* 0: 4 */
	bool spin, segmented;
	bool others; /* jobs come and go meanwhile */
};

struct host {
	unsigned int job, source;
	uint16_t generation, former; /* 0: none */
	uint32_t nonce; /* of the join under way; 0: none is */
	unsigned int round; /* generations finished */
	uint32_t next; /* first block not sent yet */
	uint32_t left;
	bool done[BLOCKS_MAX];
};

struct play {
	struct rig rig;
	const struct shape *shape;
	uint64_t random;
	struct host host[HOSTS];
	uint32_t talked[2], heard[2]; /* by station: frames sent, and of the other one's received */
	struct ppe_job others[2][OTHERS], job[2][JOBS]; /* of the table that runs, and the next */
	unsigned int running, tables, refused; /* which; how many there were; for want of room */
	unsigned int summed; /* results of others */
	unsigned int steps; /* forward: joins, results, tables */
	unsigned int former; /* results of a generation that was over */
	unsigned int wrong;
	char what[160]; /* the first wrong thing */
	uint8_t frame[RIG_FRAME_MAX];
};

static unsigned int
below(struct play *p, unsigned int n)
{
	return (unsigned int)(rig_random(&p->random) % n);
}

static bool
lost(struct play *p)
{
	return below(p, 16) == 0;
}

static void
wrong(struct play *p, const char *what, const struct weir_header *h)
{
	if (p->wrong++ == 0)
		snprintf(p->what, sizeof(p->what), "%s: job %u source %u gen %u block %u status %s",
			what, h->job_id, h->src_id, h->gen_id, h->block_id,
			weir_status_text(h->status));
}

static uint32_t
value(unsigned int job, uint16_t generation, unsigned int source, uint32_t block, unsigned int i)
{
	uint64_t s = (uint64_t)job << 60 ^ (uint64_t)generation << 40 ^ (uint64_t)source << 32 ^
		(uint64_t)block << 8 ^ i;

	return (uint32_t)rig_random(&s);
}

static unsigned int
length_of(uint32_t block)
{
	return block % 7 == 6 ? 0 : 1 + block * 5 % ELEMENTS;
}

/* ---- what hosts send ---- */

static void
send_from(struct play *p, const struct host *host, const struct weir_header *h, const void *payload)
{
	unsigned int bytes = rig_frame(p->frame, host->source, h, payload, h->grad_cnt * 4u);

	/* Hosts of both jobs have the same address: the jobs tell them apart. */
	if (!lost(p))
		rig_send(&p->rig, host->source % PORTS, p->frame, bytes);
}

static void
contribute(struct play *p, const struct host *host, uint16_t generation, uint32_t block)
{
	struct weir_header h = {.job_id = job_id[host->job],
		.block_id = block,
		.src_id = (uint8_t)host->source,
		.gen_id = generation,
		.grad_cnt = (uint16_t)length_of(block),
		.dtype = WEIR_DTYPE_INT32,
		.extended = (host->source + block) % 3 != 0};
	uint32_t values[ELEMENTS];

	if (h.grad_cnt == 0)
		h.collective = WEIR_COLLECTIVE_BARRIER;
	for (unsigned int i = 0; i < h.grad_cnt; i++)
		values[i] = value(host->job, generation, host->source, block, i);
	send_from(p, host, &h, values);
}

static void
join(struct play *p, struct host *host)
{
	struct weir_header h = {.job_id = job_id[host->job],
		.src_id = (uint8_t)host->source,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = host->source % 2 ? WEIR_FLAG_BASE_RESULTS : 0,
		.extended = true};

	if (host->nonce == 0)
		host->nonce = 1 + below(p, 1u << 30);
	h.block_id = host->nonce;
	send_from(p, host, &h, NULL);
}

/* Is it time to repeat something? Where workers spin on the test's CPU, its turns are few. */
static bool
patience_ends(struct play *p)
{
	return below(p, p->shape->spin ? 4 : 64) == 0;
}

/* The first generation is left half way, as by a host that starts anew: what is under way when the next
 * one begins is of the former, and tells its sums. */
static bool
leaves(const struct play *p, const struct host *host)
{
	return host->generation != 0 && host->former == 0 && host->next >= p->shape->blocks / 2;
}

/* One turn of a host: send what the window allows, now and then repeat. */
static void
turn(struct play *p, struct host *host)
{
	const struct shape *shape = p->shape;
	uint32_t w = shape->window, b;

	if (host->left == 0 && host->round == 2)
		return;
	if (host->left == 0 || host->generation == 0 || leaves(p, host)) {
		if (host->nonce == 0 || patience_ends(p))
			join(p, host);
		if (host->left == 0 || host->generation == 0)
			return;
	}
	if (host->former != 0 && patience_ends(p))
		contribute(p, host, host->former, below(p, shape->blocks));
	while (!leaves(p, host) && host->next < shape->blocks &&
		(host->next < w || host->done[host->next - w])) {
		contribute(p, host, host->generation, host->next++);
		if (below(p, 8) == 0)
			return;
	}
	for (b = host->next < w ? 0 : host->next - w; b < host->next; b++)
		if (!host->done[b] && patience_ends(p))
			contribute(p, host, host->generation, b);
}

/* ---- what hosts receive ---- */

static void
joined(struct play *p, struct host *host, const struct weir_header *h)
{
	if (h->block_id != host->nonce || host->nonce == 0 || h->gen_id == host->generation)
		return; /* an answer to a repeat */
	if (h->gen_id == 0)
		wrong(p, "joined no generation", h);
	host->former = host->generation;
	host->generation = h->gen_id;
	host->nonce = 0;
	host->next = 0;
	host->left = p->shape->blocks;
	p->steps++;
	memset(host->done, 0, sizeof(host->done));
}

static void
finished(struct play *p, struct host *host, const struct weir_header *h, const uint8_t *payload,
	unsigned int bytes)
{
	uint32_t b = h->block_id;

	/* Of the former it was under way when the generation began. */
	if (h->gen_id == 0 || (h->gen_id != host->generation && h->gen_id != host->former)) {
		wrong(p, "generation", h);
		return;
	}
	if (b >= p->shape->blocks || h->src_cnt != sources[host->job] ||
		bytes != length_of(b) * 4 || h->extended != (host->source % 2 == 0)) {
		wrong(p, "header", h);
		return;
	}
	for (unsigned int i = 0; i < bytes / 4; i++) {
		uint32_t sum = 0, got;

		for (unsigned int s = 0; s < sources[host->job]; s++)
			sum += value(host->job, h->gen_id, s, b, i);
		memcpy(&got, payload + 4 * i, 4);
		if (got != sum)
			wrong(p, "sum", h);
	}
	p->former += h->gen_id != host->generation;
	if (h->gen_id != host->generation || host->done[b])
		return;
	host->done[b] = true;
	p->steps++;
	if (--host->left == 0)
		host->round++;
}

static void
station_hears(struct play *p, unsigned int port, unsigned int bytes)
{
	unsigned int me = p->frame[5];
	uint32_t number = weir_get32(p->frame + 14);
	bool whole = bytes == STATION && me < 2;

	if (port != me)
		return; /* a copy of a flood */
	for (unsigned int i = 18; i < STATION; i++)
		whole = whole && p->frame[i] == (uint8_t)(number + i);
	if (!whole || number < p->heard[me])
		wrong(p, "a station's frame", &(struct weir_header){.block_id = number});
	p->heard[me] = number + 1;
}

/* A result of a job that comes and goes is the sum of as many sources as it says, of this job and
 * block, each once. Jobs that follow one another under an id get the same values. */
static void
other_finished(
	struct play *p, const struct weir_header *h, const uint8_t *payload, unsigned int bytes)
{
	if (h->collective != WEIR_COLLECTIVE_ALLREDUCE || h->status != WEIR_STATUS_OK)
		return;
	if (h->job_id > JOBS + OTHERS || h->src_cnt == 0 || h->src_cnt > 3 || bytes == 0 ||
		bytes != h->grad_cnt * 4u || !rig_checksums_hold(p->frame)) {
		wrong(p, "header of another job", h);
		return;
	}
	for (unsigned int i = 0; i < bytes / 4; i++) {
		uint32_t sum = 0, got;

		for (unsigned int s = 0; s < h->src_cnt; s++)
			sum += value(h->job_id, 0, s, h->block_id, i);
		memcpy(&got, payload + 4 * i, 4);
		if (got != sum)
			wrong(p, "sum of another job", h);
	}
	p->summed++;
	p->steps++;
}

static void
receive(struct play *p, unsigned int port)
{
	struct weir_header h;
	const uint8_t *payload;
	struct host *host;
	unsigned int n, bytes;

	while ((n = rig_receive(&p->rig, port, p->frame, 0)) > 0) {
		if (weir_get16(p->frame + 12) == STATION_AT) {
			station_hears(p, port, n);
			continue;
		}
		if (p->shape->others && rig_parse(p->frame, n, &h, &payload, &bytes) &&
			h.job_id > JOBS) {
			other_finished(p, &h, payload, bytes);
			continue;
		}
		if (!rig_parse(p->frame, n, &h, &payload, &bytes) ||
			!rig_checksums_hold(p->frame) || (h.job_id != 1 && h.job_id != 2) ||
			h.src_id >= sources[h.job_id - 1] || h.src_id % PORTS != port) {
			wrong(p, "frame", &h);
			continue;
		}
		host = &p->host[h.job_id == 1 ? h.src_id : sources[0] + h.src_id];
		if (lost(p) || h.status == WEIR_STATUS_WAITING)
			continue;
		if (h.collective == WEIR_COLLECTIVE_JOIN && h.extended)
			joined(p, host, &h);
		else if (h.status == WEIR_STATUS_OK)
			finished(p, host, &h, payload, bytes);
		else if (h.status == WEIR_STATUS_EXPIRED ? h.gen_id == host->generation &&
					h.block_id < BLOCKS_MAX && !host->done[h.block_id]
							 : h.status != WEIR_STATUS_STALE)
			wrong(p, "status", &h);
	}
}

static void
stations_talk(struct play *p)
{
	for (unsigned int s = 0; s < 2; s++) {
		const uint8_t macs[12] = {
			2, 0xaa, 0, 0, 0, (uint8_t)(1 - s), 2, 0xaa, 0, 0, 0, (uint8_t)s};

		memcpy(p->frame, macs, sizeof(macs));
		weir_put16(p->frame + 12, STATION_AT);
		weir_put32(p->frame + 14, p->talked[s]);
		for (unsigned int i = 18; i < STATION; i++)
			p->frame[i] = (uint8_t)(p->talked[s] + i);
		p->talked[s]++;
		rig_send(&p->rig, s, p->frame, STATION);
	}
}

/* ---- other jobs ---- */

static struct ppe_job
other_job(struct play *p, uint8_t id)
{
	struct ppe_job job = rig_job(id, (uint16_t)(1 + below(p, 3)), (uint16_t)(1u << below(p, 6)),
		(uint16_t)(1 + below(p, ELEMENTS)));

	job.instance = p->tables;
	if (below(p, 2) == 0)
		job.fixed_generation = 7;
	return job;
}

/* Each of the others stays, goes, comes, or gives way to another of its id; and the two that matter
 * get other timeouts. */
static void
publish(struct play *p)
{
	unsigned int next = 1 - p->running;
	struct ppe_jobs table = {0};
	int rc;

	p->tables++;
	for (unsigned int j = 0; j < JOBS; j++) {
		p->job[next][j] = p->rig.job[j];
		p->job[next][j].timeout_ms = 1000 + below(p, 1000);
		table.by_id[job_id[j]] = &p->job[next][j];
	}
	for (unsigned int o = 0; o < OTHERS; o++) {
		p->others[next][o] = p->others[p->running][o];
		if (below(p, 2) == 0)
			p->others[next][o] = other_job(p, (uint8_t)(JOBS + 1 + o));
		else if (below(p, 3) == 0)
			p->others[next][o].window = 0; /* gone */
		if (p->others[next][o].window != 0)
			table.by_id[JOBS + 1 + o] = &p->others[next][o];
	}
	rc = ppe_publish_jobs(p->rig.ppe, &table);
	p->steps += p->tables <= TABLES;
	if (rc == 0)
		p->running = next;
	else if (rc == -ENOSPC || rc == -ENOMEM)
		p->refused++;
	else
		wrong(p, "publication", &(struct weir_header){0});
}

/* Joins and contributions to jobs that may be there: blocks open, complete, and are left open. */
static void
disturb(struct play *p)
{
	uint32_t values[ELEMENTS];

	for (unsigned int n = below(p, 8); n > 0; n--) {
		unsigned int o = below(p, OTHERS);
		struct weir_header h = {.job_id = (uint8_t)(JOBS + 1 + o),
			.src_id = (uint8_t)below(p, 3),
			.block_id = below(p, 64),
			.gen_id = 7,
			.dtype = WEIR_DTYPE_INT32,
			.extended = true};

		/* Most agree on a block's length, or few blocks would come to a sum. */
		h.grad_cnt = (uint16_t)(below(p, 8) == 0 ? below(p, ELEMENTS + 1) : h.block_id % 8);
		for (unsigned int i = 0; i < h.grad_cnt; i++)
			values[i] = value(h.job_id, 0, h.src_id, h.block_id, i);
		if (below(p, 4) == 0) {
			h.gen_id = WEIR_GEN_JOIN;
			h.collective = WEIR_COLLECTIVE_JOIN;
			h.grad_cnt = 0;
		} else if (h.grad_cnt == 0) {
			h.collective = WEIR_COLLECTIVE_BARRIER;
		}
		rig_send(&p->rig, h.src_id % PORTS, p->frame,
			rig_frame(p->frame, h.src_id, &h, values, h.grad_cnt * 4u));
	}
	if ((p->tables < TABLES || p->summed < SUMMED_LEAST) && below(p, 32) == 0)
		publish(p);
}

/* Only the two jobs are left, and nothing of the others. What they lost or did wrong with their
 * buffers the engines keep until the end, and rig_stop tells. */
static void
check_gone(struct play *p)
{
	struct ppe_jobs table = {0};
	struct ppe_stats stats;
	unsigned int left;

	for (unsigned int j = 0; j < JOBS; j++)
		table.by_id[job_id[j]] = &p->rig.job[j];
	cr_expect_eq(ppe_publish_jobs(p->rig.ppe, &table), 0);
	for (unsigned int port = 0; port < PORTS; port++)
		receive(p, port);
	rig_settle(&p->rig, &stats);
	for (unsigned int port = 0; port < PORTS; port++)
		receive(p, port);
	rig_settle(&p->rig, &stats);
	left = ppe_jobs_leaving(p->rig.ppe);
	cr_expect_eq(left, 0, "%u jobs never left", left);
	cr_expect_geq(p->tables, TABLES_LEAST, "%u tables", p->tables);
	cr_expect_geq(p->summed, SUMMED_LEAST, "%u results of others", p->summed);
	cr_expect_lt(p->refused, p->tables / 4, "%u of %u refused", p->refused, p->tables);
}

/* ---- the runs ---- */

static void
start(struct play *p, const struct shape *shape)
{
	struct rig_config config = {.lcores = true,
		.workers = shape->workers != 0 ? shape->workers : 4,
		.threads = shape->threads,
		.ports = PORTS,
		.jobs = JOBS,
		.spin = shape->spin};

	for (unsigned int j = 0, h = 0; j < JOBS; j++) {
		config.job[j] =
			rig_job(job_id[j], (uint16_t)sources[j], (uint16_t)shape->window, ELEMENTS);
		for (unsigned int s = 0; s < sources[j]; s++)
			p->host[h++] = (struct host){.job = j, .source = s};
	}
	p->shape = shape;
	p->random = rig_seed();
	rig_start(&p->rig, &config);
	p->rig.seed = shape->segmented ? p->random : 0;
}

static unsigned int
unfinished(const struct play *p)
{
	unsigned int n = 0;

	for (unsigned int h = 0; h < HOSTS; h++)
		n += p->host[h].round < 2;
	return n;
}

/* Hosts have blocks to reduce, or what comes and goes has not been enough yet to tell anything. */
static bool
busy(const struct play *p)
{
	return unfinished(p) > 0 ||
		(p->shape->others && (p->tables < TABLES_LEAST || p->summed < SUMMED_LEAST));
}

/* All is over: no block is open, no buffer held but those of finished blocks, no frame missing. */
static void
check_rest(struct play *p)
{
	struct ppe_stats stats;
	struct ppe_job_stats job;
	uint64_t full;

	for (unsigned int i = 0; i < 3; i++) {
		rig_settle(&p->rig, &stats);
		for (unsigned int port = 0; port < PORTS; port++)
			receive(p, port);
	}
	full = stats.drops[PPE_DROP_QUEUE_FULL] + stats.drops[PPE_DROP_CROSSBAR_FULL] +
		stats.drops[PPE_DROP_NO_MBUF];
	for (unsigned int s = 0; s < 2; s++)
		cr_expect(full > 0 || p->heard[s] == p->talked[1 - s],
			"station %u heard %u of %u frames", s, p->heard[s], p->talked[1 - s]);
	for (unsigned int j = 0; j < JOBS; j++) {
		cr_expect_eq(ppe_job_stats_read(p->rig.ppe, job_id[j], &job), 0);
		cr_expect_eq(job.generations, 3, "%" PRIu64 " generations", job.generations);
		cr_expect_eq(job.blocks_in_flight, 0, "%u open", job.blocks_in_flight);
		cr_expect_leq(job.buffers_used, p->shape->window * 2);
		cr_expect_geq(job.blocks_complete, 2 * p->shape->blocks);
		cr_expect_leq(job.blocks_complete, 3 * p->shape->blocks);
		cr_expect_eq(job.blocks_mismatch + job.late, 0);
	}
}

/* Do packets wait for the switch? More would only keep it from what is new. */
static bool
waits(const struct play *p)
{
	for (unsigned int port = 0; port < PORTS; port++)
		if (rte_ring_count(p->rig.to[port][0]) > WAITING)
			return true;
	return false;
}

static void
run(const struct shape *shape)
{
	struct play *p = calloc(1, sizeof(*p));
	unsigned int steps = 0;
	uint64_t end = 0;
	const char *error;

	start(p, shape);
	while (busy(p) && p->wrong == 0) {
		if (end == 0 || p->steps != steps)
			end = rte_rdtsc() + LIMIT_S * rte_get_tsc_hz();
		else if (rte_rdtsc() > end)
			break;
		steps = p->steps;
		for (unsigned int h = 0; h < HOSTS && !waits(p); h++)
			turn(p, &p->host[below(p, HOSTS)]);
		if (!waits(p))
			stations_talk(p);
		if (shape->others && !waits(p))
			disturb(p);
		for (unsigned int port = 0; port < PORTS; port++)
			receive(p, port);
		if (waits(p))
			rte_delay_us_sleep(100);
		else if (!shape->spin)
			sched_yield();
	}
	printf("%u results of a generation that was over\n", p->former);
	if (shape->others)
		printf("%u tables of jobs, %u refused; %u results of others\n", p->tables,
			p->refused, p->summed);
	cr_expect_eq(unfinished(p), 0, "%u hosts are not finished", unfinished(p));
	if (shape->others)
		check_gone(p);
	if (unfinished(p) == 0)
		check_rest(p);
	error = rig_stop(&p->rig);
	cr_expect_eq(p->wrong, 0, "%u wrong, first %s", p->wrong, p->what);
	cr_expect_null(error, "%s", error);
	free(p);
}

#define SHAPE(name, ...)                                                                           \
	Test(ppe_stress, name, .timeout = 90)                                                      \
	{                                                                                          \
		run(&(struct shape){__VA_ARGS__});                                                 \
	}

SHAPE(one_thread_window_1, .threads = 1, .window = 1, .blocks = 60)
SHAPE(one_thread_window_256, .threads = 1, .window = 256, .blocks = 512, .segmented = true)
SHAPE(seven_threads_window_8, .threads = 7, .window = 8, .blocks = 300)
SHAPE(twenty_threads_window_1, .threads = 20, .window = 1, .blocks = 60, .segmented = true)
SHAPE(twenty_threads_window_8, .threads = 20, .window = 8, .blocks = 300)
SHAPE(twenty_threads_window_256, .threads = 20, .window = 256, .blocks = 512)
SHAPE(many_threads_window_8, .threads = 64, .window = 8, .blocks = 300, .segmented = true)
SHAPE(many_threads_window_256, .threads = 64, .window = 256, .blocks = 512)
SHAPE(spinning, .workers = 2, .threads = 20, .window = 8, .blocks = 16, .spin = true)
SHAPE(jobs_come_and_go, .threads = 20, .window = 8, .blocks = 80, .others = true)
SHAPE(jobs_come_and_go_window_1, .threads = 3, .window = 1, .blocks = 20, .others = true)
SHAPE(jobs_come_and_go_large, .threads = 64, .window = 256, .blocks = 256, .segmented = true,
	.others = true)
