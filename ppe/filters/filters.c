/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/filters/filters.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "ppe/filters/filters_priv.h"
#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"

#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

#define WAIT_US         500000
#define POLL_US         200

static_assert(offsetof(struct weir_filter, ip_src) % 4 == 0, "the verifier wants alignment");
static_assert(offsetof(struct weir_filter, reserved) - offsetof(struct weir_filter, eth_dst) ==
		WEIR_FILTER_BYTES,
	"the copied bytes");
static_assert(offsetof(struct weir_filter, now_us) % 8 == 0, "no hidden padding");

/* A filter on a worker, which alone writes it; the control thread reads counters. */
struct filter_state {
	uint64_t passed, dropped, to_program, to_worker;
	struct weir_filter memory __rte_cache_aligned; /* all that the filter can read and write */
};

/* Immutable but for the states. It outlives the sets that have it. */
struct ppe_loaded_filter {
	struct rte_bpf *bpf;
	uint64_t (*compiled)(void *); /* NULL: interpreted */
	struct ppe_filter filter;
	uint8_t program[PPE_FILTER_PROGRAMS]; /* their indices */
	struct filter_state *state[PPE_WORKERS_MAX];
};

/* What the workers use. Immutable. */
struct ppe_filter_set {
	unsigned int count;
	uint64_t cycles_per_us;
	struct ppe_loaded_filter *of[PPE_FILTERS_MAX];
};

/* -- workers */

static void
copy_head(struct weir_filter *memory, const struct rte_mbuf *packet)
{
	uint32_t n = RTE_MIN(packet->pkt_len, (uint32_t)WEIR_FILTER_BYTES);
	uint8_t *to = (uint8_t *)memory + offsetof(struct weir_filter, eth_dst);
	const uint8_t *from;

	memory->length = packet->pkt_len;
	memory->port = packet->port;
	if (likely(packet->data_len >= WEIR_FILTER_BYTES)) {
		memcpy(to, rte_pktmbuf_mtod(packet, const uint8_t *), WEIR_FILTER_BYTES);
		return;
	}
	from = rte_pktmbuf_read(packet, 0, n, to);
	if (from != to)
		memcpy(to, from, n);
	memset(to + n, 0, WEIR_FILTER_BYTES - n);
}

/* Run the filters on a packet. False: it has left the backlog. */
static bool
passes(struct ppe_worker *worker, const struct ppe_filter_set *set, struct rte_mbuf *packet)
{
	for (unsigned int i = 0; i < set->count; i++) {
		const struct ppe_loaded_filter *loaded = set->of[i];
		struct filter_state *state = loaded->state[worker->id];
		uint64_t result, number;

		if ((loaded->filter.ports >> packet->port & 1) == 0)
			continue;
		copy_head(&state->memory, packet);
		result = loaded->compiled != NULL ? loaded->compiled(&state->memory)
						  : rte_bpf_exec(loaded->bpf, &state->memory);
		number = result >> 8;
		switch (result & 0xff) {
		case WEIR_DROP:
			state->dropped++;
			worker->count.drops[PPE_DROP_FILTER]++;
			rte_pktmbuf_free(packet);
			return false;
		case WEIR_PROGRAM(0):
			if (number >= loaded->filter.nb_programs ||
				!ppe_start_chosen(worker, packet, loaded->program[number]))
				break;
			state->to_program++;
			return false;
		case WEIR_QUEUE(0):
			if (number >= worker->workers)
				break;
			state->to_worker++;
			if (number == worker->id)
				return true;
			ppe_hop_received(worker, (uint16_t)number, packet);
			return false;
		default: break;
		}
		state->passed++;
	}
	return true;
}

unsigned int
ppe_filters_run(struct ppe_worker *worker, unsigned int from)
{
	const struct ppe_filter_set *set = worker->filters;
	const uint64_t now_us = worker->now / set->cycles_per_us;
	unsigned int to = from, end = worker->backlog_tail;

	for (unsigned int i = 0; i < set->count; i++)
		set->of[i]->state[worker->id]->memory.now_us = now_us;
	for (unsigned int i = from; i < end; i++) {
		struct rte_mbuf *packet = worker->backlog[i];

		if (passes(worker, set, packet))
			worker->backlog[to++] = packet;
	}
	worker->backlog_tail = (uint16_t)to;
	return end - to;
}

/* -- control thread */

static void
destroy(struct ppe *ppe, struct ppe_loaded_filter *loaded)
{
	if (loaded == NULL)
		return;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		rte_free(loaded->state[w]);
	rte_bpf_destroy(loaded->bpf);
	rte_free(loaded);
}

static bool
make_states(struct ppe *ppe, struct ppe_loaded_filter *loaded)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		struct filter_state *state = rte_zmalloc_socket("weir_filters", sizeof(*state),
			RTE_CACHE_LINE_SIZE, (int)rte_lcore_to_socket_id(ppe->lcore[w]));

		if (state == NULL)
			return false;
		loaded->state[w] = state;
		state->memory.worker = w;
		state->memory.workers = ppe->config.workers;
		memcpy(state->memory.value, loaded->filter.value, sizeof(state->memory.value));
	}
	return true;
}

static int
find_programs(const struct ppe *ppe, struct ppe_loaded_filter *loaded)
{
	for (unsigned int i = 0; i < loaded->filter.nb_programs; i++) {
		unsigned int p = 0;

		while (p < PPE_PROGRAMS_MAX &&
			(ppe->slot[p] == NULL || ppe->slot[p]->phase != PPE_PROGRAM_RUNNING ||
				strcmp(ppe->slot[p]->program->name, loaded->filter.program[i]) !=
					0))
			p++;
		if (p == PPE_PROGRAMS_MAX)
			return -ENOENT;
		loaded->program[i] = (uint8_t)p;
	}
	return 0;
}

static int
make(struct ppe *ppe, const struct ppe_filter *filter, const struct ebpf_insn *code,
	unsigned int nb_code, struct ppe_loaded_filter **made)
{
	const struct rte_bpf_prm parameters = {.ins = code,
		.nb_ins = nb_code,
		.prog_arg = {.type = RTE_BPF_ARG_PTR, .size = sizeof(struct weir_filter)}};
	struct ppe_loaded_filter *loaded =
		rte_zmalloc("weir_filters", sizeof(*loaded), RTE_CACHE_LINE_SIZE);
	struct rte_bpf_jit jit = {0};
	int rc;

	if (loaded == NULL)
		return -ENOMEM;
	loaded->filter = *filter;
	rc = find_programs(ppe, loaded);
	if (rc == 0 && !make_states(ppe, loaded))
		rc = -ENOMEM;
	if (rc == 0) {
		rte_errno = 0;
		loaded->bpf = rte_bpf_load(&parameters);
		rc = loaded->bpf != NULL ? 0 : rte_errno == ENOMEM ? -ENOMEM : -EINVAL;
	}
	if (rc < 0) {
		destroy(ppe, loaded);
		return rc;
	}
	rte_bpf_get_jit(loaded->bpf, &jit);
	loaded->compiled = jit.func;
	*made = loaded;
	return 0;
}

/* Do all workers use the present set? Then none uses the former one: free it, and the filter that
 * only it had. */
static bool
settle(struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		/* Acquire pairs with the release in ppe_worker_turn. */
		if (__atomic_load_n(&ppe->worker[w]->filters, __ATOMIC_ACQUIRE) != ppe->filters)
			return false;
	rte_free(ppe->former_filters);
	destroy(ppe, ppe->former_filter);
	ppe->former_filters = NULL;
	ppe->former_filter = NULL;
	return true;
}

/* The workers use `set` from their next turns on. former: the filter that it lacks, or NULL. */
static void
publish(struct ppe *ppe, struct ppe_filter_set *set, struct ppe_loaded_filter *former)
{
	const uint64_t limit = rte_get_tsc_hz() / 1000000 * WAIT_US, began = ppe_clock();

	if (set != NULL && set->count == 0) {
		rte_free(set);
		set = NULL;
	}
	ppe->former_filters = ppe->filters;
	ppe->former_filter = former;
	/* Release: the contents before the address. */
	__atomic_store_n(&ppe->filters, set, __ATOMIC_RELEASE);
	for (unsigned int w = 0; !ppe_running(ppe) && w < ppe->config.workers; w++)
		ppe->worker[w]->filters = set;
	while (!settle(ppe)) {
		if (ppe_clock() - began >= limit) {
			LOG(WARNING, "a worker is stuck: it has not taken the new filters yet\n");
			return;
		}
		rte_delay_us_sleep(POLL_US);
	}
}

/* A copy of the present set, to change. */
static int
next_set(struct ppe *ppe, struct ppe_filter_set **set)
{
	if (!settle(ppe))
		return -EBUSY;
	*set = rte_zmalloc("weir_filters", sizeof(**set), RTE_CACHE_LINE_SIZE);
	if (*set == NULL)
		return -ENOMEM;
	if (ppe->filters != NULL)
		**set = *ppe->filters;
	(*set)->cycles_per_us = RTE_MAX(rte_get_tsc_hz() / 1000000, UINT64_C(1));
	return 0;
}

static unsigned int
find(const struct ppe_filter_set *set, const char *name)
{
	unsigned int i = 0;

	while (i < set->count && strcmp(set->of[i]->filter.name, name) != 0)
		i++;
	return i;
}

int
ppe_filter_load(struct ppe *ppe, const struct ppe_filter *filter, const struct ebpf_insn *code,
	unsigned int nb_code, bool is_dry_run)
{
	struct ppe_filter_set *set;
	struct ppe_loaded_filter *loaded;
	int rc = next_set(ppe, &set);

	if (rc < 0)
		return rc;
	if (find(set, filter->name) < set->count)
		rc = -EEXIST;
	else if (set->count == PPE_FILTERS_MAX)
		rc = -ENOSPC;
	else
		rc = make(ppe, filter, code, nb_code, &loaded);
	if (rc < 0) {
		rte_free(set);
	} else if (is_dry_run) {
		rte_free(set);
		destroy(ppe, loaded);
	} else {
		set->of[set->count++] = loaded;
		publish(ppe, set, NULL);
	}
	return rc;
}

int
ppe_filter_unload(struct ppe *ppe, const char *name, bool is_dry_run)
{
	struct ppe_filter_set *set;
	struct ppe_loaded_filter *loaded;
	unsigned int i;
	int rc = next_set(ppe, &set);

	if (rc < 0)
		return rc;
	i = find(set, name);
	if (i == set->count || is_dry_run) {
		rc = i == set->count ? -ENOENT : 0;
		rte_free(set);
		return rc;
	}
	loaded = set->of[i];
	set->count--;
	memmove(&set->of[i], &set->of[i + 1], (set->count - i) * sizeof(set->of[0]));
	publish(ppe, set, loaded);
	return 0;
}

const char *
ppe_filter_of_program(const struct ppe *ppe, const char *program)
{
	for (unsigned int i = 0; ppe->filters != NULL && i < ppe->filters->count; i++)
		for (unsigned int p = 0; p < ppe->filters->of[i]->filter.nb_programs; p++)
			if (strcmp(ppe->filters->of[i]->filter.program[p], program) == 0)
				return ppe->filters->of[i]->filter.name;
	return NULL;
}

unsigned int
ppe_filters_read(const struct ppe *ppe, struct ppe_filter_info *infos)
{
	const struct ppe_filter_set *set = ppe->filters;

	for (unsigned int i = 0; set != NULL && i < set->count; i++) {
		const struct ppe_loaded_filter *loaded = set->of[i];
		struct ppe_filter_info *info = &infos[i];

		*info = (struct ppe_filter_info){
			.filter = loaded->filter, .is_compiled = loaded->compiled != NULL};
		for (unsigned int w = 0; w < ppe->config.workers; w++) {
			const struct filter_state *state = loaded->state[w];

			info->passed += state->passed;
			info->dropped += state->dropped;
			info->to_program += state->to_program;
			info->to_worker += state->to_worker;
			for (unsigned int c = 0; c < WEIR_FILTER_COUNTERS; c++)
				info->counter[c] += state->memory.counter[c];
		}
	}
	return set == NULL ? 0 : set->count;
}

void
ppe_destroy_filters(struct ppe *ppe)
{
	for (unsigned int i = 0; ppe->filters != NULL && i < ppe->filters->count; i++)
		destroy(ppe, ppe->filters->of[i]);
	destroy(ppe, ppe->former_filter);
	rte_free(ppe->former_filters);
	rte_free(ppe->filters);
}
