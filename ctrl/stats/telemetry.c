/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/telemetry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_telemetry.h>

#include "ctrl/jobs/running.h"
#include "ctrl/stats/stats.h"

struct one_job {
	char name[PPE_JOB_NAME_MAX];
	uint8_t id;
	uint16_t size, window;
	struct ppe_job_stats stats;
	unsigned int open; /* blocks; those kept here: */
	unsigned int nb_blocks;
	struct ppe_block_info block[CTRL_TELEMETRY_BLOCKS];
};

/* All that is told, as it was at one tick. Memory of jobs that never were is not touched. */
struct snapshot {
	char name[CTRL_NAME_BYTES];
	char port[PPE_PORTS_MAX][CTRL_NAME_BYTES];
	uint64_t uptime_s;
	bool ready;
	struct ppe_stats stats;
	double busy[PPE_WORKERS_MAX];
	unsigned int nb_jobs;
	struct one_job job[WEIR_JOBS_MAX];
};

/* EAL gives callbacks no context of ours. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const struct snapshot *newest; /* under the mutex; NULL: no switch */
static struct snapshot *snapshots; /* two; control thread only */

/* A list to be put into an answer; NULL: no memory. */
static struct rte_tel_data *
start_column(enum rte_tel_value_type type)
{
	struct rte_tel_data *column = rte_tel_data_alloc();

	if (column != NULL)
		rte_tel_data_start_array(column, type);
	return column;
}

/* Takes the list. Without memory, the answer lacks it. */
static void
put_column(struct rte_tel_data *data, const char *key, struct rte_tel_data *column)
{
	if (column != NULL && rte_tel_data_add_dict_container(data, key, column, 0) < 0)
		rte_tel_data_free(column);
}

/* `count` numbers, `stride` bytes from one to the next. */
static struct rte_tel_data *
numbers(const uint64_t *first, size_t stride, unsigned int count)
{
	struct rte_tel_data *column = start_column(RTE_TEL_U64_VAL);

	for (unsigned int i = 0; column != NULL && i < count; i++)
		rte_tel_data_add_array_u64(
			column, *(const uint64_t *)((const char *)first + i * stride));
	return column;
}

static int
tell_status(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	uint64_t busy[PPE_WORKERS_MAX];

	(void)name;
	for (unsigned int w = 0; w < now->stats.nb_workers; w++)
		busy[w] = (uint64_t)(now->busy[w] * 100);
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_string(data, "name", now->name);
	rte_tel_data_add_dict_string(data, "version", WEIR_VERSION);
	rte_tel_data_add_dict_u64(data, "uptime_s", now->uptime_s);
	rte_tel_data_add_dict_int(data, "ready", now->ready);
	rte_tel_data_add_dict_u64(data, "jobs", now->nb_jobs);
	rte_tel_data_add_dict_u64(data, "received", now->stats.received);
	rte_tel_data_add_dict_u64(data, "created", now->stats.created);
	rte_tel_data_add_dict_u64(data, "sent", now->stats.sent);
	rte_tel_data_add_dict_u64(data, "consumed", now->stats.consumed);
	rte_tel_data_add_dict_u64(data, "dropped", ctrl_stats_dropped(&now->stats));
	rte_tel_data_add_dict_u64(data, "in_flight", now->stats.in_flight);
	put_column(data, "busy_percent", numbers(busy, sizeof(busy[0]), now->stats.nb_workers));
	return 0;
}

/* The ports as columns: EAL has lists of numbers and of words, and none of objects. */
static int
tell_ports(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	const struct ppe_port_stats *port = now->stats.port;
	const struct {
		const char *key;
		const uint64_t *first; /* of port 0 */
	} column[] = {
		{"rx_packets", &port->rx_packets},
		{"rx_bytes", &port->rx_bytes},
		{"tx_result_packets", &port->tx_packets[0]},
		{"tx_result_bytes", &port->tx_bytes[0]},
		{"tx_bulk_packets", &port->tx_packets[1]},
		{"tx_bulk_bytes", &port->tx_bytes[1]},
		{"queue_full_results", &port->queue_full[0]},
		{"queue_full_bulk", &port->queue_full[1]},
		{"missed", &port->missed},
	};
	struct rte_tel_data *names = start_column(RTE_TEL_STRING_VAL);

	(void)name;
	for (unsigned int p = 0; names != NULL && p < now->stats.nb_ports; p++)
		rte_tel_data_add_array_string(names, now->port[p]);
	rte_tel_data_start_dict(data);
	put_column(data, "name", names);
	for (unsigned int i = 0; i < RTE_DIM(column); i++)
		put_column(data, column[i].key,
			numbers(column[i].first, sizeof(*port), now->stats.nb_ports));
	return 0;
}

static int
tell_drops(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	(void)name;
	rte_tel_data_start_dict(data);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		rte_tel_data_add_dict_u64(
			data, ppe_drop_key((enum ppe_drop)i), now->stats.drops[i]);
	return 0;
}

static int
tell_jobs(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	(void)name;
	rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; i < now->nb_jobs; i++)
		rte_tel_data_add_array_string(data, now->job[i].name);
	return 0;
}

static const struct one_job *
find_job(const struct snapshot *now, const char *name)
{
	for (unsigned int i = 0; name != NULL && i < now->nb_jobs; i++)
		if (strcmp(now->job[i].name, name) == 0)
			return &now->job[i];
	return NULL;
}

static int
tell_job(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	const struct one_job *job = find_job(now, name);

	if (job == NULL)
		return -ENOENT;
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_string(data, "name", job->name);
	rte_tel_data_add_dict_int(data, "id", job->id);
	rte_tel_data_add_dict_int(data, "size", job->size);
	rte_tel_data_add_dict_int(data, "window", job->window);
	rte_tel_data_add_dict_int(data, "generation", job->stats.generation);
	rte_tel_data_add_dict_u64(data, "blocks_in_flight", job->stats.blocks_in_flight);
	rte_tel_data_add_dict_u64(data, "buffers_used", job->stats.buffers_used);
	rte_tel_data_add_dict_u64(data, "buffers_reserved", job->stats.buffers_reserved);
#define X(counter, help) rte_tel_data_add_dict_u64(data, #counter, job->stats.counter);
	PPE_JOB_COUNTERS(X)
#undef X
	return 0;
}

static int
tell_blocks(const struct snapshot *now, const char *name, struct rte_tel_data *data)
{
	const struct one_job *job = find_job(now, name);
	uint64_t block[CTRL_TELEMETRY_BLOCKS], heard[CTRL_TELEMETRY_BLOCKS];

	if (job == NULL)
		return -ENOENT;
	for (unsigned int i = 0; i < job->nb_blocks; i++) {
		block[i] = job->block[i].block;
		heard[i] = job->block[i].heard_count;
	}
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_string(data, "job", job->name);
	rte_tel_data_add_dict_int(data, "size", job->size);
	rte_tel_data_add_dict_u64(data, "open", job->open);
	put_column(data, "block", numbers(block, sizeof(block[0]), job->nb_blocks));
	put_column(data, "heard", numbers(heard, sizeof(heard[0]), job->nb_blocks));
	put_column(data, "age_us",
		numbers(&job->block[0].age_us, sizeof(job->block[0]), job->nb_blocks));
	put_column(data, "idle_us",
		numbers(&job->block[0].idle_us, sizeof(job->block[0]), job->nb_blocks));
	return 0;
}

/* What EAL knows of us: a callback each, and what is told of a snapshot. */
static const struct command {
	const char *path, *help;
	int (*tell)(const struct snapshot *now, const char *name, struct rte_tel_data *data);
} commands[] = {
	{"/weir/status", "The switch, its books and its workers. No parameters", tell_status},
	{"/weir/ports", "Counters of the ports. No parameters", tell_ports},
	{"/weir/drops", "Drops by reason. No parameters", tell_drops},
	{"/weir/jobs", "Names of the jobs. No parameters", tell_jobs},
	{"/weir/job", "A job with its counters. Parameters: its name", tell_job},
	{"/weir/blocks", "Open blocks of a job. Parameters: its name", tell_blocks},
};

static int
answer(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int rc = -ENOENT;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; newest != NULL && i < RTE_DIM(commands); i++)
		if (strcmp(commands[i].path, command) == 0)
			rc = commands[i].tell(newest, parameters, data);
	pthread_mutex_unlock(&mutex);
	return rc;
}

static void
copy_job(struct one_job *one, const struct ctrl_running *running, const struct ctrl_job *job)
{
	int open;

	strlcpy(one->name, job->job->name, sizeof(one->name));
	one->id = job->job->id;
	one->size = job->job->nb_sources;
	one->window = job->job->window;
	ctrl_running_job_stats(running, job, &one->stats);
	open = ppe_blocks_read(
		running->ppe, job->job->id, true, 0, one->block, CTRL_TELEMETRY_BLOCKS);
	one->open = open < 0 ? 0 : (unsigned int)open;
	one->nb_blocks = RTE_MIN(one->open, (unsigned int)CTRL_TELEMETRY_BLOCKS);
}

void
ctrl_telemetry_tick(const struct ctrl_running *running)
{
	const struct ctrl_config *config = running->config;
	struct snapshot *next;

	if (snapshots == NULL)
		return;
	/* Only this thread writes `newest`, so it may read it as it is. */
	next = newest == &snapshots[0] ? &snapshots[1] : &snapshots[0];
	strlcpy(next->name, config->name, sizeof(next->name));
	for (unsigned int p = 0; p < config->nb_ports; p++)
		strlcpy(next->port[p], config->port[p].name, sizeof(next->port[p]));
	next->uptime_s = (uint64_t)ctrl_running_uptime(running);
	next->ready = running->ready;
	next->stats = running->stats;
	for (unsigned int w = 0; w < PPE_WORKERS_MAX; w++)
		next->busy[w] = running->pulse[w].busy;
	next->nb_jobs = 0;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL)
			copy_job(&next->job[next->nb_jobs++], running, running->by_id[i]);
	if (pthread_mutex_trylock(&mutex) != 0)
		return;
	newest = next;
	pthread_mutex_unlock(&mutex);
}

int
ctrl_telemetry_start(struct ctrl_running *running)
{
	int rc = 0;

	snapshots = calloc(2, sizeof(*snapshots));
	if (snapshots == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; rc == 0 && i < RTE_DIM(commands); i++)
		rc = rte_telemetry_register_cmd(commands[i].path, answer, commands[i].help);
	ctrl_running_read(running);
	ctrl_telemetry_tick(running);
	return rc;
}

void
ctrl_telemetry_stop(void)
{
	pthread_mutex_lock(&mutex);
	newest = NULL;
	pthread_mutex_unlock(&mutex);
	free(snapshots);
	snapshots = NULL;
}
