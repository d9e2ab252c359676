/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/history */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/text.h"
#include "ctrl/stats/history.h"

#define SAMPLE_BYTES 8 /* about, with its comma */

/* "key":[300 values]: oldest first, null where there is none. */
static void
put_series(struct api_text *text, const char *key, const struct ctrl_history *history,
	const struct ctrl_series *series)
{
	api_text_put(text, "\"");
	api_text_put(text, key);
	api_text_put(text, "\":[");
	for (unsigned int age = ctrl_history_length(history); age-- > 0;) {
		float rate = ctrl_history_rate(history, series, age);

		if (isnan(rate))
			api_text_put(text, "null");
		else if (rate >= 1000 || rate == 0)
			api_text_put_number(text, (uint64_t)(rate + 0.5f), 0);
		else
			api_text_put_real(text, (double)rate);
		if (age > 0)
			api_text_put(text, ",");
	}
	api_text_put(text, "]");
}

static void
put_ports(struct api_text *text, const struct ctrl_running *running)
{
	const struct ctrl_history *history = running->history;

	for (unsigned int p = 0; p < running->config->nb_ports; p++) {
		api_text_put(text, p == 0 ? "{\"name\":" : ",{\"name\":");
		api_text_put_json(text, running->config->port[p].name);
		api_text_put(text, ",");
		put_series(text, "rx_bps", history, &history->rx[p]);
		api_text_put(text, ",");
		put_series(text, "tx_bps", history, &history->tx[p]);
		api_text_put(text, "}");
	}
}

/* The job of a history entry; NULL: it is gone. */
static const struct ppe_job *
living(const struct ctrl_running *running, const struct ctrl_job_history *place)
{
	const struct ctrl_job *job = running->by_id[place->id];

	return job != NULL && job->job->instance == place->instance &&
			strcmp(job->job->name, place->name) == 0
		? job->job
		: NULL;
}

/* [[rank, share]...] of all members, those without a wait included. */
static void
put_shares(struct api_text *text, const struct ctrl_running *running, const struct ppe_job *job,
	const struct ctrl_job_history *place)
{
	const uint64_t *before = ctrl_history_waited_before(place);
	double waited[WEIR_SOURCES_MAX], sum = 0;
	const char *comma = "";

	for (unsigned int s = 0; job != NULL && s < WEIR_SOURCES_MAX; s++) {
		struct ppe_source_stats source;

		waited[s] = 0;
		if (!ppe_job_has(job, (uint8_t)s))
			continue;
		ppe_source_stats_read(running->ppe, job->id, (uint8_t)s, &source);
		if (source.waited_us > before[s])
			waited[s] = (double)(source.waited_us - before[s]);
		sum += waited[s];
	}
	api_text_put(text, ",\"late_share\":[");
	for (unsigned int s = 0; job != NULL && s < WEIR_SOURCES_MAX; s++) {
		if (!ppe_job_has(job, (uint8_t)s))
			continue;
		api_text_put(text, comma);
		api_text_put(text, "[");
		api_text_put_number(text, s, 0);
		api_text_put(text, ",");
		api_text_put_real(text, sum > 0 ? waited[s] / sum : 0);
		api_text_put(text, "]");
		comma = ",";
	}
	api_text_put(text, "]");
}

/* A deleted job still belongs to its tenant, while the tenant exists. */
static bool
owns(const struct api_call *call, const struct ctrl_job_history *place)
{
	const struct ctrl_api *api = &call->running->config->api;
	const struct ctrl_tenant *owner = NULL;

	for (unsigned int i = 0; i < api->nb_tenants; i++)
		if (strcmp(api->tenant[i].name, place->tenant) == 0)
			owner = &api->tenant[i];
	return api_owns(api, call->caller, owner);
}

/* Deleted jobs come first: if a name appears twice, the later entry is the existing job. */
static void
put_jobs(struct api_text *text, const struct api_call *call, bool alive, const char **comma)
{
	const struct ctrl_running *running = call->running;
	const struct ctrl_history *history = running->history;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job_history *place = &history->job[i];
		const struct ppe_job *job;

		if (!ctrl_history_has(history, place) || !owns(call, place))
			continue;
		job = living(running, place);
		if ((job != NULL) != alive)
			continue;
		api_text_put(text, *comma);
		api_text_put(text, "{\"name\":");
		api_text_put_json(text, place->name);
		api_text_put(text, ",");
		put_series(text, "contributions", history, &place->contributions);
		api_text_put(text, ",");
		put_series(text, "blocks", history, &place->blocks);
		put_shares(text, running, job, place);
		api_text_put(text, "}");
		*comma = ",";
	}
}

/* Only reasons that have dropped packets: most never do. */
static void
put_drops(struct api_text *text, const struct ctrl_history *history)
{
	const char *comma = "";

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++) {
		bool any = false;

		for (unsigned int age = 0; age < ctrl_history_length(history); age++)
			any |= ctrl_history_rate(history, &history->drop[i], age) > 0;
		if (!any)
			continue;
		api_text_put(text, comma);
		put_series(text, ppe_drop_key((enum ppe_drop)i), history, &history->drop[i]);
		comma = ",";
	}
}

void
api_get_history(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	const struct ctrl_history *history = running->history;
	const char *comma = "";
	struct api_text text;
	char time[32];

	api_text_begin(&text,
		4096 + 2ul * running->config->nb_ports * SAMPLE_BYTES * CTRL_HISTORY_SAMPLES);
	snprintf(time, sizeof(time), "%.3f", history->time);
	api_text_put(&text, "{\"interval\":1,\"time\":");
	api_text_put(&text, time);
	api_text_put(&text, ",\"ports\":[");
	put_ports(&text, running);
	api_text_put(&text, "],\"jobs\":[");
	put_jobs(&text, call, false, &comma);
	put_jobs(&text, call, true, &comma);
	api_text_put(&text, "],\"drops\":{");
	put_drops(&text, history);
	api_text_put(&text, "}}\n");
	api_answer_bytes(call, "application/json", text.at, text.used);
}
