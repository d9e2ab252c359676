/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/health, /v1/ready, /v1/status, /v1/ports, /v1/ports/{name}, /v1/counters */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/schema.h"
#include "ctrl/stats/stats.h"

void
api_get_health(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;

	if (ctrl_snapshot_age(seen) > CTRL_SNAPSHOT_S)
		api_error(call, 503, "busy", NULL,
			"the control thread has been stuck for %.0f s: is its CPU taken by "
			"something else?",
			ctrl_snapshot_age(seen));
	else if (seen->stuck_worker >= 0)
		api_error(call, 503, "busy", NULL,
			"worker %d has been stuck for more than a second: is its CPU taken by "
			"something else?",
			seen->stuck_worker);
	else
		api_answer(
			call, 200, json_pack("{s:s,s:f}", "status", "ok", "uptime", seen->uptime));
}

void
api_get_ready(struct api_call *call)
{
	if (call->seen->is_ready)
		api_answer(call, 200, json_pack("{s:b}", "ready", 1));
	else
		api_error(call, 503, "busy", NULL, "packets do not flow yet, or no more");
}

static json_t *
workers(const struct ctrl_snapshot *seen)
{
	const struct ctrl_config *config = seen->config;
	json_t *list = ctrl_workers_json(&seen->stats);

	for (unsigned int w = 0; w < config->ppe.workers; w++) {
		json_t *object = json_array_get(list, w);

		api_put(object, "id", w);
		api_put(object, "lcore", w + 1); /* as ctrl/config/eal.c assigns them */
		api_put(object, "cpu", config->cpu[w % config->nb_cpus]);
		json_object_set_new(object, "busy", json_real(seen->pulse[w].busy));
		api_put(object, "threads_live", seen->gauges.threads_live[w]);
	}
	return list;
}

static json_t *
memory(const struct ctrl_snapshot *seen)
{
	json_t *object = json_object();
	uint64_t data = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (seen->by_id[i] != NULL)
			data += seen->by_id[i]->data_memory;
	api_put(object, "total", (uint64_t)seen->config->memory_mb << 20);
	api_put(object, "free", seen->memory_free);
	api_put(object, "data", data);
	for (unsigned int i = 0; seen->stats.statistic[i].what != NULL; i++) {
		const struct ppe_statistic *what = seen->stats.statistic[i].what;

		/* The largest number of a worker is not a total of the switch. */
		if (what->kind == PPE_STATISTIC_GAUGE && !what->is_largest)
			api_put(object, what->key, seen->stats.statistic[i].value);
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
faults(const struct ctrl_snapshot *seen)
{
	const struct ppe_fault_stats *stats = &seen->fault_stats;
	json_t *object = json_object();
	uint64_t hit = 0;

	for (unsigned int i = 0; i < PPE_FAULT_RULES_MAX; i++)
		hit += stats->hit[i];
	api_put(object, "rules", seen->faults.nb_rules);
	api_put(object, "elapsed_ms", stats->elapsed_us / 1000);
	api_put(object, "hit", hit);
	api_put(object, "held_now", stats->held);
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
	const struct ctrl_snapshot *seen = call->seen;
	json_t *object = json_object();
	unsigned int jobs = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		jobs += seen->by_id[i] != NULL;
	api_put_text(object, "name", seen->config->name);
	api_put_text(object, "version", WEIR_VERSION);
	api_put(object, "pid", (uint64_t)getpid());
	json_object_set_new(object, "uptime", json_real(seen->uptime));
	put_identity(object, seen->config);
	json_object_set_new(object, "workers", workers(seen));
	api_put(object, "ports", seen->config->nb_ports);
	api_put(object, "jobs", jobs);
	json_object_set_new(object, "memory", memory(seen));
	json_object_set_new(object, "pools",
		json_pack("{s:o,s:o,s:o}", "packets", pool(&seen->gauges.packets), "headers",
			pool(&seen->gauges.headers), "attaches", pool(&seen->gauges.attaches)));
	json_object_set_new(object, "packets", packets(&seen->stats));
	json_object_set_new(object, "faults", faults(seen));
	api_answer(call, 200, object);
}

static json_t *
port_json(const struct ctrl_snapshot *seen, unsigned int index)
{
	const struct pktbuf_port_config *config = &seen->config->port[index];
	const char *neighbor = seen->config->port_more[index].neighbor;
	const struct ctrl_port_snapshot *port = &seen->port[index];
	json_t *object = json_object(), *queues = json_object();

	api_put(object, "id", index);
	api_put_text(object, "name", config->name);
	api_put_text(object, "device", config->device);
	json_object_set_new(object, "up", json_boolean(port->is_up));
	put_mac(object, port->mac);
	api_put(object, "mtu", port->mtu);
	api_put_text(object, "neighbor", neighbor[0] == '\0' ? NULL : neighbor);
	ctrl_put_port_counters(object, &seen->stats.port[index]);
	api_put(queues, "rx", config->rx_queues);
	api_put(queues, "tx", config->tx_queues);
	json_object_set_new(queues, "steered", json_boolean(port->is_steered));
	api_put(queues, "waiting", port->queue.packets);
	api_put(queues, "oldest_ms", port->queue.oldest_ms);
	json_object_set_new(queues, "stalled", json_boolean(port->queue.is_stalled));
	json_object_set_new(queues, "copied", json_boolean(port->queue.is_copied));
	json_object_set_new(object, "queues", queues);
	return object;
}

void
api_get_ports(struct api_call *call)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < call->config->nb_ports; p++)
		json_array_append_new(list, port_json(call->seen, p));
	api_answer(call, 200, json_pack("{s:o}", "ports", list));
}

void
api_get_port(struct api_call *call)
{
	for (unsigned int p = 0; p < call->config->nb_ports; p++)
		if (strcmp(call->config->port[p].name, call->parameter[0]) == 0) {
			api_answer(call, 200, port_json(call->seen, p));
			return;
		}
	api_error(
		call, 404, "unknown_path", NULL, "no port is called \"%.64s\"", call->parameter[0]);
}

static json_t *
job_counters(const struct ctrl_config *config, const struct ctrl_job_snapshot *job)
{
	json_t *object = json_object();

	(void)config;
	api_put(object, "id", job->shape.id);
	api_put_text(object, "name", job->shape.name);
	ctrl_put_job_counters(object, &job->stats);
	return object;
}

void
api_get_counters(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	json_t *packets = json_object(), *workers = ctrl_workers_json(&seen->stats), *worker;
	size_t id;

	json_array_foreach (workers, id, worker)
		api_put(worker, "id", id);
	ctrl_put_packet_counters(packets, &seen->stats);
	json_object_del(packets, "in_flight"); /* a gauge */
	api_answer(call, 200,
		json_pack("{s:f,s:o,s:o,s:o,s:o,s:o}", "time", ctrl_unix_time(), "packets", packets,
			"drops", ctrl_drops_json(&seen->stats), "workers", workers, "ports",
			ctrl_ports_json(seen->config, &seen->stats), "jobs",
			api_jobs(call, job_counters)));
}
