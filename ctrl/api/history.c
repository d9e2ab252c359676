/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/history */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/stats/history.h"

/* An answer in progress. */
struct request {
	uint32_t second; /* of the latest sample */
	unsigned int length; /* of each series */
	unsigned int port, job; /* to put next; deleted jobs, then the others */
	const char *comma;
};

/* "key":[300 values]: oldest first, null where there is no sample. A tick may have replaced the
 * oldest samples meanwhile. */
static void
put_series(struct api_text *text, const char *key, const struct request *request,
	const struct ctrl_history *history, const struct ctrl_series *series)
{
	unsigned int late = history->second - request->second;

	api_text_put(text, "\"");
	api_text_put(text, key);
	api_text_put(text, "\":[");
	for (unsigned int age = request->length; age-- > 0;) {
		float rate = age + late < CTRL_HISTORY_SAMPLES
			? ctrl_history_rate(history, series, age + late)
			: NAN;

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
is_any(const struct request *request, const struct ctrl_history *history,
	const struct ctrl_series *series)
{
	for (unsigned int age = 0; age < request->length; age++)
		if (ctrl_history_rate(history, series, age) > 0)
			return true;
	return false;
}

static void
put_port(struct api_text *text, const struct request *request, const struct ctrl_running *running,
	unsigned int p)
{
	const struct ctrl_history *history = running->history;

	api_text_put(text, p == 0 ? "{\"name\":" : ",{\"name\":");
	api_text_put_json(text, running->config->port[p].name);
	api_text_put(text, ",");
	put_series(text, "rx_bps", request, history, &history->rx[p]);
	api_text_put(text, ",");
	put_series(text, "tx_bps", request, history, &history->tx[p]);
	if (is_any(request, history, &history->spoofed[p])) {
		api_text_put(text, ",");
		put_series(text, "spoofed", request, history, &history->spoofed[p]);
	}
	api_text_put(text, "}");
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

static void
put_job(struct api_call *call, struct request *request, unsigned int i, bool alive)
{
	const struct ctrl_running *running = call->running;
	const struct ctrl_history *history = running->history;
	const struct ctrl_job_history *place = &history->job[i];
	struct api_text *text = &call->text;
	const struct ppe_job *job;

	if (!ctrl_history_has(history, place) || !owns(call, place))
		return;
	job = living(running, place);
	if ((job != NULL) != alive)
		return;
	api_text_put(text, request->comma);
	api_text_put(text, "{\"name\":");
	api_text_put_json(text, place->name);
	api_text_put(text, ",");
	put_series(text, "contributions", request, history, &place->contributions);
	api_text_put(text, ",");
	put_series(text, "blocks", request, history, &place->blocks);
	put_shares(text, running, job, place);
	api_text_put(text, "}");
	request->comma = ",";
}

static void
put_drops(struct api_text *text, const struct request *request, const struct ctrl_history *history)
{
	const char *comma = "";

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++) {
		if (!is_any(request, history, &history->drop[i]))
			continue;
		api_text_put(text, comma);
		put_series(
			text, ppe_drop_key((enum ppe_drop)i), request, history, &history->drop[i]);
		comma = ",";
	}
}

static bool
begin(struct api_call *call, void *context)
{
	const struct ctrl_history *history = call->running->history;
	struct request *request = context;
	char head[64];

	request->second = history->second;
	request->length = ctrl_history_length(history);
	request->comma = "";
	snprintf(head, sizeof(head), "{\"interval\":1,\"time\":%.3f,\"ports\":[", history->time);
	api_text_put(&call->text, head);
	return true;
}

/* Deleted jobs come first: if a name appears twice, the later entry is the existing job. */
static bool
step(struct api_call *call, void *context)
{
	const struct ctrl_running *running = call->running;
	struct request *request = context;
	struct api_text *text = &call->text;

	if (request->port < running->config->nb_ports) {
		put_port(text, request, running, request->port++);
		return true;
	}
	if (request->job == 0)
		api_text_put(text, "],\"jobs\":[");
	if (request->job < 2 * WEIR_JOBS_MAX) {
		put_job(call, request, request->job % WEIR_JOBS_MAX, request->job >= WEIR_JOBS_MAX);
		request->job++;
		return true;
	}
	api_text_put(text, "],\"drops\":{");
	put_drops(text, request, running->history);
	api_text_put(text, "}}\n");
	api_answer_text(call, "application/json");
	return false;
}

void
api_get_history(struct api_call *call)
{
	api_in_steps(call, sizeof(struct request), begin, step);
}
