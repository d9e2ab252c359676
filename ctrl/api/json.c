/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/json.h"

void
api_put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

void
api_put_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, text == NULL ? json_null() : json_string(text));
}

json_t *
api_workers_json(const struct ctrl_running *running, const struct ppe_gauges *gauges)
{
	const struct ctrl_config *config = running->config;
	json_t *list = json_array();

	for (unsigned int w = 0; w < config->ppe.workers; w++) {
		const struct ppe_worker_stats *worker = &running->stats.worker[w];
		json_t *object = json_object();

		api_put(object, "id", w);
		api_put(object, "lcore", w + 1); /* as ctrl/config/eal.c gives them */
		api_put(object, "cpu", config->cpu[w % config->nb_cpus]);
		json_object_set_new(object, "busy", json_real(running->pulse[w].busy));
		api_put(object, "turns", worker->turns);
		api_put(object, "busy_turns", worker->busy_turns);
		api_put(object, "threads_started", worker->threads_started);
		api_put(object, "threads_live", gauges->threads_live[w]);
		api_put(object, "segments", worker->segments);
		api_put(object, "timer_runs", worker->timer_runs);
		api_put(object, "hops_in", worker->hops_in);
		api_put(object, "hops_out", worker->hops_out);
		json_array_append_new(list, object);
	}
	return list;
}

void
api_put_job_counters(json_t *object, const struct ppe_job_stats *stats)
{
#define X(name, help) api_put(object, #name, stats->name);
	PPE_JOB_COUNTERS(X)
#undef X
}

const char *
api_policy_text(uint8_t policy)
{
	static const char *const texts[] = {"wait", "partial", "error"};

	return policy < sizeof(texts) / sizeof(texts[0]) ? texts[policy] : "wait";
}
