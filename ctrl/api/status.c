/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/health, /v1/ready, /v1/status, /v1/ports, /v1/ports/{name}, /v1/counters */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/schema.h"
#include "ctrl/stats/stats.h"
#include "ppe/faults/faults.h"

void
api_get_health(struct api_call *call)
{
	int stuck;

	ctrl_running_read(call->running);
	stuck = ctrl_running_stuck_worker(call->running);
	if (stuck >= 0) {
		api_error(call, 503, "busy", NULL,
			"worker %d has been stuck for more than a second: is its CPU taken by "
			"something else?",
			stuck);
		return;
	}
	api_answer(call, 200,
		json_pack(
			"{s:s,s:f}", "status", "ok", "uptime", ctrl_running_uptime(call->running)));
}

void
api_get_ready(struct api_call *call)
{
	if (call->running->is_ready)
		api_answer(call, 200, json_pack("{s:b}", "ready", 1));
	else
		api_error(call, 503, "busy", NULL, "packets do not flow yet, or no more");
}

static json_t *
workers(const struct ctrl_running *running, const struct ppe_gauges *gauges)
{
	const struct ctrl_config *config = running->config;
	json_t *list = ctrl_workers_json(&running->stats);

	for (unsigned int w = 0; w < config->ppe.workers; w++) {
		json_t *object = json_array_get(list, w);

		api_put(object, "id", w);
		api_put(object, "lcore", w + 1); /* as ctrl/config/eal.c assigns them */
		api_put(object, "cpu", config->cpu[w % config->nb_cpus]);
		json_object_set_new(object, "busy", json_real(running->pulse[w].busy));
		api_put(object, "threads_live", gauges->threads_live[w]);
	}
	return list;
}

/* Bytes of a job's aggregation buffers. */
static uint64_t
data_memory(const struct ctrl_config *config, const struct ppe_job *job)
{
	struct ppe_memory memory;

	ppe_job_memory(&config->ppe, job, &memory);
	return memory.data_memory;
}

static json_t *
memory(const struct ctrl_running *running)
{
	const struct ctrl_config *config = running->config;
	json_t *object = json_object();
	uint64_t data = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL)
			data += data_memory(config, running->by_id[i]->job);
	api_put(object, "total", (uint64_t)config->memory_mb << 20);
	api_put(object, "free", ctrl_memory_free());
	api_put(object, "data", data);
	for (unsigned int i = 0; running->stats.statistic[i].what != NULL; i++) {
		const struct ppe_statistic *what = running->stats.statistic[i].what;

		/* The largest number of a worker is not a total of the switch. */
		if (what->kind == PPE_STATISTIC_GAUGE && !what->is_largest)
			api_put(object, what->key, running->stats.statistic[i].value);
	}
	return object;
}

static json_t *
pool(const struct ppe_pool_gauge *gauge)
{
	json_t *object = json_object();

	api_put(object, "size", gauge->size);
	api_put(object, "free", gauge->free);
	return object;
}

static json_t *
packets(const struct ppe_stats *stats)
{
	json_t *object = json_object();

	ctrl_put_packet_counters(object, stats);
	json_object_set_new(object, "off_by", json_integer(ctrl_stats_off_by(stats)));
	return object;
}

/* A summary; /v1/faults has the details. */
static json_t *
faults(const struct ctrl_running *running)
{
	const struct ppe_faults *set = ppe_faults_of(running->ppe);
	json_t *object = json_object();
	struct ppe_fault_stats stats;
	uint64_t hit = 0;

	ppe_faults_read(running->ppe, &stats);
	for (unsigned int i = 0; i < PPE_FAULT_RULES_MAX; i++)
		hit += stats.hit[i];
	api_put(object, "rules", set == NULL ? 0 : set->nb_rules);
	api_put(object, "elapsed_ms", stats.elapsed_us / 1000);
	api_put(object, "hit", hit);
	api_put(object, "held_now", stats.held);
	return object;
}

static void
put_mac(json_t *object, const uint8_t *m)
{
	char text[18];

	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4],
		m[5]);
	api_put_text(object, "mac", text);
}

static void
put_identity(json_t *object, const struct ctrl_config *config)
{
	const struct pktbuf_identity *identity = &config->ppe.identity;

	api_put_text(object, "address", ctrl_address_text(identity->ip).text);
	put_mac(object, identity->mac);
	api_put(object, "udp_port", identity->port_base);
	api_put(object, "udp_port_ext", identity->port_ext);
}

void
api_get_status(struct api_call *call)
{
	struct ctrl_running *running = call->running;
	json_t *object = json_object();
	unsigned int jobs = 0;
	struct ppe_gauges gauges;

	ctrl_running_read(running);
	ppe_gauges_read(running->ppe, &gauges);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		jobs += running->by_id[i] != NULL;
	api_put_text(object, "name", running->config->name);
	api_put_text(object, "version", WEIR_VERSION);
	api_put(object, "pid", (uint64_t)getpid());
	json_object_set_new(object, "uptime", json_real(ctrl_running_uptime(running)));
	put_identity(object, running->config);
	json_object_set_new(object, "workers", workers(running, &gauges));
	api_put(object, "ports", running->config->nb_ports);
	api_put(object, "jobs", jobs);
	json_object_set_new(object, "memory", memory(running));
	json_object_set_new(object, "pools",
		json_pack("{s:o,s:o,s:o}", "packets", pool(&gauges.packets), "headers",
			pool(&gauges.headers), "attaches", pool(&gauges.attaches)));
	json_object_set_new(object, "packets", packets(&running->stats));
	json_object_set_new(object, "faults", faults(running));
	api_answer(call, 200, object);
}

static void
put_device(json_t *object, const char *device)
{
	struct rte_ether_addr mac = {0};
	uint16_t id, mtu = 0;

	if (rte_eth_dev_get_port_by_name(device, &id) == 0) {
		rte_eth_macaddr_get(id, &mac);
		rte_eth_dev_get_mtu(id, &mtu);
	}
	put_mac(object, mac.addr_bytes);
	api_put(object, "mtu", mtu);
}

static json_t *
port_json(const struct ctrl_running *running, unsigned int index)
{
	const struct pktbuf_port_config *config = &running->config->port[index];
	const char *neighbor = running->config->port_more[index].neighbor;
	json_t *object = json_object(), *queues = json_object();
	struct ppe_port_queue queue;

	api_put(object, "id", index);
	api_put_text(object, "name", config->name);
	api_put_text(object, "device", config->device);
	json_object_set_new(object, "up", json_boolean(ctrl_port_is_up(running, index)));
	put_device(object, config->device);
	api_put_text(object, "neighbor", neighbor[0] == '\0' ? NULL : neighbor);
	ctrl_put_port_counters(object, &running->stats.port[index]);
	api_put(queues, "rx", config->rx_queues);
	api_put(queues, "tx", config->tx_queues);
	json_object_set_new(queues, "steered", json_boolean(ppe_port_steers(running->ppe, index)));
	ppe_port_queue_read(running->ppe, index, &queue);
	api_put(queues, "waiting", queue.packets);
	api_put(queues, "oldest_ms", queue.oldest_ms);
	json_object_set_new(queues, "stalled", json_boolean(queue.is_stalled));
	json_object_set_new(queues, "copied", json_boolean(queue.is_copied));
	json_object_set_new(object, "queues", queues);
	return object;
}

void
api_get_ports(struct api_call *call)
{
	json_t *list = json_array();

	ctrl_running_read(call->running);
	for (unsigned int p = 0; p < call->running->config->nb_ports; p++)
		json_array_append_new(list, port_json(call->running, p));
	api_answer(call, 200, json_pack("{s:o}", "ports", list));
}

void
api_get_port(struct api_call *call)
{
	const struct ctrl_config *config = call->running->config;

	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (strcmp(config->port[p].name, call->parameter[0]) == 0) {
			ctrl_running_read(call->running);
			api_answer(call, 200, port_json(call->running, p));
			return;
		}
	api_error(
		call, 404, "unknown_path", NULL, "no port is called \"%.64s\"", call->parameter[0]);
}

static json_t *
job_counters(const struct ctrl_running *running, const struct ctrl_job *job)
{
	json_t *object = json_object();
	struct ppe_job_stats stats;

	ctrl_running_job_stats(running, job, &stats);
	api_put(object, "id", job->job->id);
	api_put_text(object, "name", job->job->name);
	ctrl_put_job_counters(object, &stats);
	return object;
}

static bool
begin_counters(struct api_call *call, void *list)
{
	struct ctrl_running *running = call->running;
	json_t *packets = json_object(), *workers, *worker;
	size_t id;

	ctrl_running_read(running);
	workers = ctrl_workers_json(&running->stats);
	json_array_foreach (workers, id, worker)
		api_put(worker, "id", id);
	ctrl_put_packet_counters(packets, &running->stats);
	json_object_del(packets, "in_flight"); /* a gauge */
	api_text_put(&call->text, "{");
	api_text_put_object(&call->text,
		json_pack("{s:f,s:o,s:o,s:o,s:o}", "time", ctrl_unix_time(), "packets", packets,
			"drops", ctrl_drops_json(&running->stats), "workers", workers, "ports",
			ctrl_ports_json(running->config, &running->stats)),
		JSON_EMBED);
	api_text_put(&call->text, ",\"jobs\":[");
	return api_list_begin(call, list, job_counters, false);
}

void
api_get_counters(struct api_call *call)
{
	api_in_steps(call, sizeof(struct api_list), begin_counters, api_list_step);
}
