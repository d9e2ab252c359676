/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/history */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/stats/history.h"

#define FIRST_BYTES 65536 /* of the text, at first */

/* "key":[300 values]: oldest first, null where there is no sample. */
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

/* Most ports and reasons never have a sample other than 0. */
static bool
is_any(const struct ctrl_history *history, const struct ctrl_series *series)
{
	for (unsigned int age = 0; age < ctrl_history_length(history); age++)
		if (ctrl_history_rate(history, series, age) > 0)
			return true;
	return false;
}

static void
put_port(struct api_text *text, const struct ctrl_snapshot *seen, unsigned int p)
{
	const struct ctrl_history *history = seen->history;

	api_text_put(text, p == 0 ? "{\"name\":" : ",{\"name\":");
	api_text_put_json(text, seen->config->port[p].name);
	api_text_put(text, ",");
	put_series(text, "rx_bps", history, &history->rx[p]);
	api_text_put(text, ",");
	put_series(text, "tx_bps", history, &history->tx[p]);
	if (is_any(history, &history->spoofed[p])) {
		api_text_put(text, ",");
		put_series(text, "spoofed", history, &history->spoofed[p]);
	}
	api_text_put(text, "}");
}

/* The job of a history entry; NULL: it is gone. */
static const struct ctrl_job_snapshot *
living(const struct ctrl_snapshot *seen, const struct ctrl_job_history *place)
{
	const struct ctrl_job_snapshot *job = seen->by_id[place->id];

	return job != NULL && job->shape.instance == place->instance &&
			strcmp(job->shape.name, place->name) == 0
		? job
		: NULL;
}

/* [[rank, share]...] of all members, those without a wait included. */
static void
put_shares(struct api_text *text, const struct ctrl_job_snapshot *job,
	const struct ctrl_job_history *place)
{
	const uint64_t *before = ctrl_history_waited_before(place);
	double waited[WEIR_SOURCES_MAX], sum = 0;
	const char *comma = "";

	for (unsigned int s = 0; job != NULL && s < WEIR_SOURCES_MAX; s++) {
		waited[s] = 0;
		if (!ppe_job_has(&job->shape, (uint8_t)s))
			continue;
		if (job->source[s].waited_us > before[s])
			waited[s] = (double)(job->source[s].waited_us - before[s]);
		sum += waited[s];
	}
	api_text_put(text, ",\"late_share\":[");
	for (unsigned int s = 0; job != NULL && s < WEIR_SOURCES_MAX; s++) {
		if (!ppe_job_has(&job->shape, (uint8_t)s))
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
	const struct ctrl_api *api = &call->config->api;

	return api_owns(api, call->caller, ctrl_tenant_find(api, place->tenant));
}

/* Deleted jobs come first: if a name appears twice, the later entry is the existing job. */
static void
put_jobs(struct api_call *call, bool alive, const char **comma)
{
	const struct ctrl_history *history = call->seen->history;
	struct api_text *text = &call->text;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job_history *place = &history->job[i];
		const struct ctrl_job_snapshot *job;

		if (!ctrl_history_has(history, place) || !owns(call, place))
			continue;
		job = living(call->seen, place);
		if ((job != NULL) != alive)
			continue;
		api_text_put(text, *comma);
		api_text_put(text, "{\"name\":");
		api_text_put_json(text, place->name);
		api_text_put(text, ",");
		put_series(text, "contributions", history, &place->contributions);
		api_text_put(text, ",");
		put_series(text, "blocks", history, &place->blocks);
		put_shares(text, job, place);
		api_text_put(text, "}");
		*comma = ",";
	}
}

static void
put_drops(struct api_text *text, const struct ctrl_history *history)
{
	const char *comma = "";

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++) {
		if (!is_any(history, &history->drop[i]))
			continue;
		api_text_put(text, comma);
		put_series(text, ppe_drop_key((enum ppe_drop)i), history, &history->drop[i]);
		comma = ",";
	}
}

void
api_get_history(struct api_call *call)
{
	const struct ctrl_history *history = call->seen->history;
	struct api_text *text = &call->text;
	const char *comma = "";
	char head[64];

	if (history == NULL) {
		api_error_memory(call);
		return;
	}
	api_text_begin(text, FIRST_BYTES);
	snprintf(head, sizeof(head), "{\"interval\":1,\"time\":%.3f,\"ports\":[", history->time);
	api_text_put(text, head);
	for (unsigned int p = 0; p < call->config->nb_ports; p++)
		put_port(text, call->seen, p);
	api_text_put(text, "],\"jobs\":[");
	put_jobs(call, false, &comma);
	put_jobs(call, true, &comma);
	api_text_put(text, "],\"drops\":{");
	put_drops(text, history);
	api_text_put(text, "}}\n");
	api_answer_text(call, "application/json");
}
