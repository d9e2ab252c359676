/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/json.h"

#include "ctrl/stats/stats.h"

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
		json_t *object = json_object();

		api_put(object, "id", w);
		api_put(object, "lcore", w + 1); /* as ctrl/config/eal.c gives them */
		api_put(object, "cpu", config->cpu[w % config->nb_cpus]);
		json_object_set_new(object, "busy", json_real(running->pulse[w].busy));
		api_put(object, "threads_live", gauges->threads_live[w]);
		ctrl_put_worker_counters(object, &running->stats.worker[w]);
		json_array_append_new(list, object);
	}
	return list;
}
