/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/snapshot.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "ctrl/stats/stats.h"

#define PLACES      (CTRL_READERS_MAX + 2) /* one is current, and one is free */
#define SHARE       10 /* the control thread makes snapshots in at most 1/SHARE of its CPU time */
#define GAP_MAX     4.0 /* s between two; below CTRL_SNAPSHOT_S */
#define LOOK_NS     50000000 /* between two looks of a waiting reader */
#define WANTED_BASE 0x80000000u

struct ctrl_snapshots {
	struct ctrl_snapshot place[PLACES];
	unsigned int current; /* index of the last one; PLACES: none yet */
	unsigned int wanted; /* parts, and WANTED_BASE: a reader waits */
	uint32_t made; /* snapshots; readers wait for this word (futex(2)) */
	bool is_over; /* no more are made */
	int event;
	double due; /* CLOCK_MONOTONIC, s: when the next one may be made */
};

struct ctrl_snapshots *
ctrl_snapshots_create(void)
{
	struct ctrl_snapshots *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return NULL;
	all->current = PLACES;
	all->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (all->event >= 0)
		return all;
	free(all);
	return NULL;
}

/* -- a job */

void
ctrl_job_snapshot_clear(struct ctrl_job_snapshot *job)
{
	json_decref(job->job.shown);
	job->job.shown = NULL;
	OPENSSL_cleanse(&job->shape, sizeof(job->shape));
	free(job->block);
	job->block = NULL;
	job->room = 0;
}

static void
take_blocks(struct ctrl_job_snapshot *to, const struct ctrl_running *running)
{
	unsigned int most = 2u * to->shape.window;
	int n;

	if (to->room < most) {
		struct ppe_block_info *more = realloc(to->block, most * sizeof(*more));

		to->has_all_blocks = more != NULL;
		if (more == NULL)
			return;
		to->block = more;
		to->room = most;
	}
	n = ppe_blocks_read(running->ppe, to->shape.id, false, 0, to->block, to->room);
	to->nb_blocks = RTE_MIN((unsigned int)RTE_MAX(n, 0), to->room);
}

/* Waits for several blocks overlap: a source's wait is the longest one. */
static void
take_waits(struct ctrl_job_snapshot *to)
{
	memset(to->waiting_us, 0, sizeof(to->waiting_us));
	for (unsigned int i = 0; i < to->nb_blocks && !to->membership.is_abandoned; i++) {
		const struct ppe_block_info *block = &to->block[i];

		for (unsigned int w = 0; block->open && w < WEIR_SOURCES_MAX / 64; w++)
			for (uint64_t left = ~block->heard[w] & to->sources[w]; left != 0;
				left &= left - 1) {
				unsigned int s = w * 64 + (unsigned int)__builtin_ctzll(left);

				to->waiting_us[s] = RTE_MAX(to->waiting_us[s], block->idle_us);
			}
	}
}

static void
take_detail(struct ctrl_job_snapshot *to, const struct ctrl_running *running, bool is_leaving)
{
	memset(to->source, 0, sizeof(to->source));
	memset(to->sources, 0, sizeof(to->sources));
	to->nb_blocks = 0;
	to->has_all_blocks = true;
	if (is_leaving)
		return;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		if (!ppe_job_has(&to->shape, (uint8_t)s) && !ctrl_job_has_member(&to->job, s))
			continue;
		to->sources[s / 64] |= UINT64_C(1) << (s % 64);
		ppe_source_stats_read(running->ppe, to->shape.id, (uint8_t)s, &to->source[s]);
	}
	take_blocks(to, running);
	take_waits(to);
}

void
ctrl_job_snapshot_take(struct ctrl_job_snapshot *to, const struct ctrl_running *running,
	const struct ctrl_job *job, bool detail)
{
	bool is_leaving = ctrl_job_is_leaving(running, job);
	struct ppe_memory memory;

	json_decref(to->job.shown);
	to->taken = ctrl_monotonic();
	to->job = *job;
	to->shape = *job->job;
	to->job.job = &to->shape;
	to->job.copy = to->job.next = NULL;
	to->job.leaving_next = NULL;
	json_incref(to->job.shown);
	if (job->member != NULL) {
		memcpy(&to->member[job->job->first_rank], &job->member[job->job->first_rank],
			job->job->nb_sources * sizeof(to->member[0]));
		to->job.member = to->member;
	}
	ctrl_running_job_stats(running, job, &to->stats);
	ctrl_membership_of(running, job, &to->stats, &to->membership);
	ppe_job_memory(&running->config->ppe, &to->shape, &memory);
	to->data_memory = memory.data_memory;
	memset(to->parent, 0, sizeof(to->parent));
	for (unsigned int p = 0; p < to->shape.nb_parents && !is_leaving; p++)
		ppe_parent_stats_read(running->ppe, to->shape.id, p, &to->parent[p]);
	if (detail)
		take_detail(to, running, is_leaving);
}

static void
free_job(struct ctrl_job_snapshot **job)
{
	if (*job != NULL)
		ctrl_job_snapshot_clear(*job);
	free(*job);
	*job = NULL;
}

/* -- all */

void
ctrl_snapshots_destroy(struct ctrl_snapshots *all)
{
	if (all == NULL)
		return;
	for (unsigned int p = 0; p < PLACES; p++) {
		struct ctrl_snapshot *s = &all->place[p];

		for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
			free_job(&s->place[i]);
		for (unsigned int i = 0; i < s->leaving_room; i++)
			free_job(&s->leaving[i]);
		free(s->leaving);
		ctrl_history_destroy(s->history);
	}
	close(all->event);
	free(all);
}

int
ctrl_snapshots_fd(const struct ctrl_snapshots *all)
{
	return all->event;
}

static void
take_port(struct ctrl_port_snapshot *port, const struct ctrl_running *running, unsigned int p)
{
	struct rte_ether_addr mac = {0};
	uint16_t id;

	*port = (struct ctrl_port_snapshot){.is_up = ctrl_port_is_up(running, p),
		.is_steered = ppe_port_steers(running->ppe, p)};
	if (rte_eth_dev_get_port_by_name(running->config->port[p].device, &id) == 0) {
		rte_eth_macaddr_get(id, &mac);
		rte_eth_dev_get_mtu(id, &port->mtu);
	}
	memcpy(port->mac, mac.addr_bytes, sizeof(port->mac));
	ppe_port_queue_read(running->ppe, p, &port->queue);
}

/*
 * Set how many of each new job's first ranks have series of their own: CTRL_SERIES_OF_JOB, as long
 * as some of CTRL_SERIES_MAX are free. A job keeps them for its life. Otherwise a join or leave
 * would move a source into or out of the others' sum, which is a counter.
 */
static void
give_series(struct ctrl_running *running)
{
	unsigned int given = 0;

	CTRL_FOREACH_JOB (job, running)
		given += job->has_series ? job->series : 0;
	CTRL_FOREACH_JOB (job, running) {
		unsigned int ranks = ppe_job_source_end(job->job) - job->job->first_rank;

		if (job->has_series)
			continue;
		job->has_series = true;
		job->series = (uint16_t)RTE_MIN(
			CTRL_SERIES_MAX - given, RTE_MIN(CTRL_SERIES_OF_JOB, ranks));
		given += job->series;
	}
}

/* False: no memory for a job. */
static bool
take_jobs(struct ctrl_snapshot *s, struct ctrl_running *running, bool detail)
{
	give_series(running);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		s->by_id[i] = NULL;
		if (running->by_id[i] == NULL) {
			free_job(&s->place[i]);
			continue;
		}
		if (s->place[i] == NULL)
			s->place[i] = calloc(1, sizeof(*s->place[i]));
		if (s->place[i] == NULL)
			return false;
		ctrl_job_snapshot_take(s->place[i], running, running->by_id[i], detail);
		s->by_id[i] = s->place[i];
	}
	s->nb_leaving = 0;
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next) {
		if (s->nb_leaving == s->leaving_room) {
			struct ctrl_job_snapshot **more =
				realloc(s->leaving, (s->leaving_room + 1) * sizeof(*more));

			if (more == NULL)
				return false;
			s->leaving = more;
			more[s->leaving_room] = calloc(1, sizeof(**more));
			if (more[s->leaving_room] == NULL)
				return false;
			s->leaving_room++;
		}
		ctrl_job_snapshot_take(s->leaving[s->nb_leaving++], running, job, detail);
	}
	while (s->leaving_room > s->nb_leaving)
		free_job(&s->leaving[--s->leaving_room]);
	return true;
}

/* Free DPDK memory, in bytes. */
static uint64_t
memory_free(void)
{
	struct rte_malloc_socket_stats heap;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &heap) == 0)
			sum += heap.heap_freesz_bytes;
	return sum;
}

/* False: no memory. */
static bool
take(struct ctrl_snapshot *s, struct ctrl_running *running, unsigned int parts)
{
	const struct ctrl_config *config = running->config;
	const struct ppe_faults *faults;

	s->parts = parts;
	s->taken = ctrl_monotonic();
	s->unix_time = ctrl_unix_time();
	s->started_at = running->started_at;
	s->config = config;
	s->reloads = running->reloads;
	s->uptime = s->taken - running->started;
	s->is_ready = running->is_ready;
	if (running->ppe == NULL)
		return true; /* in tests of the server alone */
	ctrl_running_read(running);
	s->stuck_worker = ctrl_running_stuck_worker(running);
	s->stats = running->stats;
	ppe_gauges_read(running->ppe, &s->gauges);
	memcpy(s->pulse, running->pulse, sizeof(s->pulse));
	for (unsigned int p = 0; p < config->nb_ports; p++)
		take_port(&s->port[p], running, p);
	s->memory_free = memory_free();
	for (unsigned int i = 0; i < config->api.nb_tenants; i++)
		ctrl_tenant_use(running, &config->api.tenant[i], &s->use[i]);
	faults = ppe_faults_of(running->ppe);
	s->faults = faults == NULL ? (struct ppe_faults){0} : *faults;
	ppe_faults_read(running->ppe, &s->fault_stats);
	s->nb_filters = ppe_filters_read(running->ppe, s->filter);
	if ((parts & CTRL_SNAPSHOT_HISTORY) != 0 && s->history == NULL)
		s->history = ctrl_history_create(0);
	if ((parts & CTRL_SNAPSHOT_HISTORY) != 0 && s->history != NULL && running->history != NULL)
		ctrl_history_copy(s->history, running->history);
	return take_jobs(s, running, (parts & CTRL_SNAPSHOT_DETAIL) != 0);
}

/* A place that no reader has, and that none can take. */
static unsigned int
free_place(struct ctrl_snapshots *all)
{
	for (unsigned int p = 0; p < PLACES; p++)
		if (p != all->current &&
			__atomic_load_n(&all->place[p].readers, __ATOMIC_SEQ_CST) == 0)
			return p;
	return PLACES;
}

static bool
is_due(const struct ctrl_snapshots *all, double now)
{
	return __atomic_load_n(&all->wanted, __ATOMIC_RELAXED) != 0 && now >= all->due;
}

int
ctrl_snapshots_timeout(const struct ctrl_snapshots *all)
{
	double now = ctrl_monotonic();

	if (__atomic_load_n(&all->wanted, __ATOMIC_RELAXED) == 0)
		return -1;
	return is_due(all, now) ? 0 : (int)((all->due - now) * 1e3) + 1;
}

/* CPU time of this thread, s. */
static double
used_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Make a snapshot the current one, unless there is no memory for it, or no place: then there are
 * more readers than there may be. */
static void
make(struct ctrl_snapshots *all, struct ctrl_running *running, unsigned int parts)
{
	unsigned int place = free_place(all);
	double before = used_s(), due;

	if (place != PLACES && take(&all->place[place], running, parts)) {
		__atomic_store_n(&all->current, place, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&all->made, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &all->made, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
	due = ctrl_monotonic() + RTE_MIN((used_s() - before) * (SHARE - 1), GAP_MAX);
	all->due = RTE_MAX(all->due, due);
}

void
ctrl_snapshots_renew(struct ctrl_snapshots *all, struct ctrl_running *running)
{
	make(all, running, 0);
}

void
ctrl_snapshots_serve(struct ctrl_snapshots *all, struct ctrl_running *running)
{
	uint64_t asked;

	if (read(all->event, &asked, sizeof(asked)) < 0)
		asked = 0;
	if (is_due(all, ctrl_monotonic()))
		make(all, running,
			__atomic_exchange_n(&all->wanted, 0, __ATOMIC_SEQ_CST) & ~WANTED_BASE);
}

void
ctrl_snapshots_end(struct ctrl_snapshots *all)
{
	__atomic_store_n(&all->is_over, true, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&all->made, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &all->made, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void
ctrl_snapshots_tick(struct ctrl_snapshots *all, struct ctrl_running *running)
{
	if (all->current == PLACES || ctrl_snapshot_age(&all->place[all->current]) > 0.5)
		make(all, running, 0);
}

bool
ctrl_snapshots_have(const struct ctrl_snapshots *all, const struct ctrl_config *config)
{
	for (unsigned int p = 0; p < PLACES; p++)
		if (all->place[p].config == config &&
			(p == all->current ||
				__atomic_load_n(&all->place[p].readers, __ATOMIC_SEQ_CST) > 0))
			return true;
	return false;
}

/* -- readers */

const struct ctrl_snapshot *
ctrl_snapshot_last(struct ctrl_snapshots *all)
{
	for (;;) {
		unsigned int p = __atomic_load_n(&all->current, __ATOMIC_SEQ_CST);

		if (p == PLACES)
			return NULL;
		__atomic_fetch_add(&all->place[p].readers, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&all->current, __ATOMIC_SEQ_CST) == p)
			return &all->place[p];
		ctrl_snapshot_put(&all->place[p]);
	}
}

static void
ask(struct ctrl_snapshots *all, unsigned int parts)
{
	static const uint64_t one = 1;

	if (__atomic_fetch_or(&all->wanted, parts | WANTED_BASE, __ATOMIC_SEQ_CST) == 0 &&
		write(all->event, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

const struct ctrl_snapshot *
ctrl_snapshot_get(struct ctrl_snapshots *all, unsigned int parts)
{
	static const struct timespec look = {.tv_nsec = LOOK_NS};
	double began = ctrl_monotonic();

	for (;;) {
		uint32_t made = __atomic_load_n(&all->made, __ATOMIC_SEQ_CST);
		const struct ctrl_snapshot *s = ctrl_snapshot_last(all);
		bool is_late = ctrl_monotonic() - began > CTRL_SNAPSHOT_S ||
			__atomic_load_n(&all->is_over, __ATOMIC_SEQ_CST);

		if (s != NULL && (s->parts & parts) == parts && (s->taken > began || is_late))
			return s;
		if (s != NULL)
			ctrl_snapshot_put(s);
		if (is_late)
			return NULL;
		ask(all, parts);
		syscall(SYS_futex, &all->made, FUTEX_WAIT_PRIVATE, made, &look, NULL, 0);
	}
}

void
ctrl_snapshot_put(const struct ctrl_snapshot *snapshot)
{
	__atomic_fetch_sub(
		&((struct ctrl_snapshot *)(uintptr_t)snapshot)->readers, 1, __ATOMIC_SEQ_CST);
}

double
ctrl_snapshot_age(const struct ctrl_snapshot *snapshot)
{
	return ctrl_monotonic() - snapshot->taken;
}

const struct ctrl_job_snapshot *
ctrl_snapshot_find_job(const struct ctrl_snapshot *snapshot, const char *name)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (snapshot->by_id[i] != NULL && strcmp(snapshot->by_id[i]->shape.name, name) == 0)
			return snapshot->by_id[i];
	return NULL;
}
