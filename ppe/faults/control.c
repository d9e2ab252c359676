/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's side of the faults: publication, counters, the end. */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "ppe/faults/faults_priv.h"
#include "ppe/ppe_priv.h"

#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

#define WAIT_US         500000
#define POLL_US         200

static bool
is_chance(double p)
{
	return p >= 0 && p <= 1;
}

static bool
match_is_sane(const struct ppe_fault_rule *rule, unsigned int nb_ports)
{
	return rule->port >= -1 && rule->port < (int)nb_ports && rule->direction <= PPE_FAULT_OUT &&
		rule->what <= PPE_FAULT_ORDINARY && rule->job >= -1 && rule->job <= 255 &&
		rule->source >= -1 && rule->source <= 255 && rule->first <= rule->last;
}

static bool
choice_is_sane(const struct ppe_fault_rule *rule)
{
	switch (rule->choice) {
	case PPE_FAULT_CHANCE: return is_chance(rule->probability);
	case PPE_FAULT_EVERY: return rule->nth >= 1;
	case PPE_FAULT_LIST: return rule->ordinals >= 1 && rule->ordinals <= PPE_FAULT_ORDINALS_MAX;
	case PPE_FAULT_BURST:
		return is_chance(rule->enter) && is_chance(rule->leave) && is_chance(rule->good) &&
			is_chance(rule->bad);
	default: return false;
	}
}

static bool
window_is_sane(const struct ppe_fault_rule *rule)
{
	if (rule->to_ms != 0 && rule->from_ms >= rule->to_ms)
		return false;
	return rule->repeat_ms == 0 || (rule->to_ms != 0 && rule->to_ms <= rule->repeat_ms);
}

static bool
delay_is_sane(const struct ppe_fault_rule *rule)
{
	if (rule->delay == PPE_FAULT_CONSTANT)
		return rule->us <= PPE_FAULT_DELAY_MAX_US;
	return rule->delay <= PPE_FAULT_PARETO && rule->us <= rule->most_us &&
		rule->most_us <= PPE_FAULT_DELAY_MAX_US &&
		(rule->delay != PPE_FAULT_PARETO || (rule->shape > 0 && rule->shape <= 100));
}

static bool
action_is_sane(const struct ppe_fault_rule *rule)
{
	switch (rule->action) {
	case PPE_FAULT_DROP:
	case PPE_FAULT_BLACKOUT:
	case PPE_FAULT_DUPLICATE: return true;
	case PPE_FAULT_REORDER: return rule->distance >= 1 && rule->distance <= 1000;
	case PPE_FAULT_DELAY: return delay_is_sane(rule);
	case PPE_FAULT_CORRUPT: return rule->bits >= 1 && rule->bits <= PPE_FAULT_BITS_MAX;
	default: return false;
	}
}

int
ppe_faults_check(const struct ppe_faults *faults, unsigned int nb_ports)
{
	for (unsigned int i = 0; i < faults->nb_rules && i < PPE_FAULT_RULES_MAX; i++) {
		const struct ppe_fault_rule *rule = &faults->rule[i];

		if (!match_is_sane(rule, nb_ports) || !choice_is_sane(rule) ||
			!window_is_sane(rule) || !action_is_sane(rule))
			return (int)i;
	}
	return -1;
}

static void
free_set(const struct ppe *ppe, struct ppe_fault_set *set)
{
	for (unsigned int w = 0; set != NULL && w < ppe->config.workers; w++)
		rte_free(set->stream[w]);
	rte_free(set);
}

static bool
asks_what(const struct ppe_fault_rule *rule)
{
	return rule->what != PPE_FAULT_ANY || rule->job >= 0 || rule->source >= 0 ||
		rule->first != 0 || rule->last != UINT32_MAX;
}

static struct ppe_fault_stream *
make_streams(const struct ppe_worker *worker, const struct ppe_faults *faults, int socket)
{
	unsigned int sites = ppe_fault_sites(worker);
	struct ppe_fault_stream *stream = rte_zmalloc_socket("weir_faults",
		sizeof(*stream) * sites * faults->nb_rules, RTE_CACHE_LINE_SIZE, socket);

	for (unsigned int i = 0; stream != NULL && i < sites * faults->nb_rules; i++) {
		unsigned int site = i % sites, out = site - worker->nb_rx;
		bool in = site < worker->nb_rx;

		stream[i].key = ppe_fault_key(faults->seed, i / sites,
			in ? worker->rx[site].port->index : worker->outq[out]->port->index,
			in ? worker->rx[site].queue : worker->outq[out]->queue,
			in ? PPE_FAULT_IN : PPE_FAULT_OUT);
	}
	return stream;
}

static struct ppe_fault_set *
make_set(struct ppe *ppe, const struct ppe_faults *faults)
{
	struct ppe_fault_set *set = rte_zmalloc("weir_faults", sizeof(*set), RTE_CACHE_LINE_SIZE);

	if (set == NULL)
		return NULL;
	set->faults = *faults;
	set->hz = rte_get_tsc_hz();
	for (unsigned int i = 0; i < faults->nb_rules; i++)
		set->classify |= asks_what(&faults->rule[i]);
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		struct ppe_worker *worker = ppe->worker[w];

		if (ppe_fault_sites(worker) == 0)
			continue;
		set->stream[w] =
			make_streams(worker, faults, (int)rte_lcore_to_socket_id(ppe->lcore[w]));
		if (set->stream[w] == NULL) {
			free_set(ppe, set);
			return NULL;
		}
	}
	return set;
}

/* With room for one FIFO or one poll. */
static size_t
store_bytes(const struct ppe_config *config)
{
	const struct ppe_fault_store *store;
	size_t burst = RTE_MAX((size_t)config->queue_depth, (size_t)config->burst);

	return sizeof(*store) + burst * sizeof(store->burst[0]);
}

uint64_t
ppe_faults_bytes(
	const struct ppe_config *config, unsigned int nb_ports, const struct ppe_faults *faults)
{
	/* A worker has at most one receive and one output queue of each port. */
	uint64_t sites = 2ul * nb_ports * config->workers;
	uint64_t set = sizeof(struct ppe_fault_set) +
		faults->nb_rules * sites * sizeof(struct ppe_fault_stream);

	return faults->nb_rules == 0 ? 0 : config->workers * store_bytes(config) + 2 * set;
}

static int
make_stores(struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		struct ppe_fault_store *store;

		if (ppe->worker[w]->store != NULL)
			continue;
		store = rte_zmalloc_socket("weir_faults", store_bytes(&ppe->config),
			RTE_CACHE_LINE_SIZE, (int)rte_lcore_to_socket_id(ppe->lcore[w]));
		if (store == NULL)
			return -ENOMEM;
		__atomic_store_n(&ppe->worker[w]->store, store, __ATOMIC_RELEASE);
	}
	return 0;
}

/* If all workers have the present set, none uses the former one: free it. Else *stuck is the first
 * that has not. */
static bool
settle(struct ppe *ppe, unsigned int *stuck)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		/* Acquire pairs with the release in ppe_take_faults. */
		if (__atomic_load_n(&ppe->worker[w]->fault_taken, __ATOMIC_ACQUIRE) !=
			ppe->faults) {
			*stuck = w;
			return false;
		}
	free_set(ppe, ppe->former_faults);
	ppe->former_faults = NULL;
	return true;
}

static void
publish(struct ppe *ppe, struct ppe_fault_set *set)
{
	const uint64_t limit = rte_get_tsc_hz() / 1000000 * WAIT_US, began = ppe_clock();
	unsigned int stuck;

	ppe->former_faults = ppe->faults;
	if (set != NULL)
		set->epoch = began;
	/* Release: the contents before the address. */
	__atomic_store_n(&ppe->faults, set, __ATOMIC_RELEASE);
	for (unsigned int w = 0; !ppe_running(ppe) && w < ppe->config.workers; w++)
		ppe_take_faults(ppe->worker[w], set);
	while (!settle(ppe, &stuck)) {
		if (ppe_clock() - began >= limit) {
			LOG(WARNING, "worker %u is stuck: it has not taken the new faults yet\n",
				stuck);
			return;
		}
		rte_delay_us_sleep(POLL_US);
	}
}

/* Make the set to publish next; NULL: no faults. */
static int
make_next(struct ppe *ppe, const struct ppe_faults *faults, struct ppe_fault_set **set)
{
	bool none = faults == NULL || faults->nb_rules == 0;
	unsigned int stuck;

	*set = NULL;
	if (!none &&
		(faults->nb_rules > PPE_FAULT_RULES_MAX || faults->held < 1 ||
			faults->held > PPE_FAULT_HELD_MAX ||
			ppe_faults_check(faults, ppe->nb_ports) >= 0))
		return -EINVAL;
	if (!settle(ppe, &stuck))
		return -EBUSY;
	if (none)
		return 0;
	if (make_stores(ppe) < 0)
		return -ENOMEM;
	*set = make_set(ppe, faults);
	return *set == NULL ? -ENOMEM : 0;
}

int
ppe_check_faults(struct ppe *ppe, const struct ppe_faults *faults)
{
	struct ppe_fault_set *set;
	int rc = make_next(ppe, faults, &set);

	if (rc == 0)
		free_set(ppe, set);
	return rc;
}

int
ppe_publish_faults(struct ppe *ppe, const struct ppe_faults *faults)
{
	struct ppe_fault_set *set;
	int rc = make_next(ppe, faults, &set);

	if (rc == 0 && (set != NULL || ppe->faults != NULL))
		publish(ppe, set);
	return rc;
}

const struct ppe_faults *
ppe_faults_of(const struct ppe *ppe)
{
	return ppe->faults == NULL ? NULL : &ppe->faults->faults;
}

void
ppe_faults_read(const struct ppe *ppe, struct ppe_fault_stats *stats)
{
	const struct ppe_fault_set *set = ppe->faults;

	memset(stats, 0, sizeof(*stats));
	if (set != NULL)
		stats->elapsed_us = (ppe_clock() - set->epoch) / (set->hz / 1000000);
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		const struct ppe_worker *worker = ppe->worker[w];
		unsigned int sites = ppe_fault_sites(worker);

		stats->held += ppe_faults_held(worker);
		if (worker->store != NULL)
			stats->spared_ever += worker->store->spared;
		if (set == NULL)
			continue;
		for (unsigned int i = 0; i < sites * set->faults.nb_rules; i++) {
			stats->matched[i / sites] += set->stream[w][i].matched;
			stats->hit[i / sites] += set->stream[w][i].hit;
			stats->spared[i / sites] += set->stream[w][i].spared;
		}
	}
}

void
ppe_destroy_faults(struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (ppe->worker[w] != NULL)
			rte_free(ppe->worker[w]->store);
	free_set(ppe, ppe->former_faults);
	free_set(ppe, ppe->faults);
}
