/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/parents.h"

#include <stdio.h>
#include <string.h>

#include "ctrl/config/job.h"
#include "ctrl/config/schema.h"
#include "ctrl/jobs/jobs.h"
#include "ctrl/log.h"

/* A parent answers a join at once: after this silence, it is lost. */
#define LOST_US UINT64_C(3000000)

/* A value of a setting, as the configuration has it. */
static void
value_text(uint8_t setting, uint32_t value, char *text, size_t size)
{
	if (setting == PPE_PARENT_TYPE && value < WEIR_DTYPES)
		snprintf(text, size, "%s", weir_dtype_text(value));
	else if (setting == PPE_PARENT_OP && value < WEIR_OPS)
		snprintf(text, size, "%s", weir_op_text(value));
	else if (setting == PPE_PARENT_POLICY && value <= PPE_POLICY_ERROR)
		snprintf(text, size, "%s", ctrl_policy_text((uint8_t)value));
	else
		snprintf(text, size, "%u", value);
}

struct ctrl_refusal_text
ctrl_parent_refusal(const struct ppe_parent_stats *stats)
{
	enum ppe_parent_setting setting = stats->refused;
	const char *word = ppe_parent_setting_word(setting);
	const char *rule = ppe_parent_setting_rule(setting);
	struct ctrl_refusal_text out;
	char ours[32], theirs[32];

	value_text(stats->refused, stats->ours, ours, sizeof(ours));
	value_text(stats->refused, stats->theirs, theirs, sizeof(theirs));
	if (setting == PPE_PARENT_GONE || setting == PPE_PARENT_ABOVE)
		snprintf(out.text, sizeof(out.text), "%s", rule);
	else
		snprintf(out.text, sizeof(out.text), "%s %s here, %s there: %s", word, ours, theirs,
			rule);
	return out;
}

/* Do the others serve without this parent, or does it not answer? */
static bool
is_lost(const struct ppe_parent_stats *stats, bool others_serve)
{
	if (stats->serves)
		return false;
	return others_serve ||
		(stats->joining && stats->joining_us > LOST_US &&
			(!stats->heard || stats->silent_us > LOST_US));
}

static void
tell(const struct ctrl_job *job, unsigned int parent, enum ctrl_log_level level, const char *what,
	const char *more)
{
	const struct ppe_parent *of = &job->job->parent[parent];

	ctrl_log(CTRL_LOG_CTRL, level, what, "job=%s parent=%s parent_address=%s%s",
		ctrl_log_quote(job->job->name).text, of->name, ctrl_address_text(of->address).text,
		more);
}

static void
look(struct ctrl_job *job, unsigned int parent, const struct ppe_parent_stats *stats,
	bool others_serve)
{
	struct ctrl_parent_logged *logged = &job->parent[parent];
	char more[256] = "";

	if (stats->heard && !logged->heard)
		tell(job, parent, CTRL_LOG_NOTICE, "parent heard", "");
	logged->heard |= stats->heard;
	if (stats->given_up > logged->given_up)
		tell(job, parent, CTRL_LOG_WARNING,
			"a parent left questions about blocks unanswered, and was taken for dead",
			"");
	logged->given_up = stats->given_up;
	if (stats->serves && !logged->serves) {
		snprintf(more, sizeof(more), " generation=%u", stats->generation);
		tell(job, parent, CTRL_LOG_NOTICE,
			logged->lost ? "parent serves again" : "parent serves", more);
	}
	if (stats->serves)
		*logged = (struct ctrl_parent_logged){
			.heard = true, .serves = true, .given_up = logged->given_up};
	if (is_lost(stats, others_serve) && !logged->lost) {
		logged->lost = true;
		logged->serves = false;
		if (stats->heard)
			snprintf(
				more, sizeof(more), " silent_ms=%" PRIu64, stats->silent_us / 1000);
		tell(job, parent, CTRL_LOG_WARNING, "parent lost", more);
	}
	/* The parent's answer is forgotten between two attempts to join. */
	if (stats->refused == PPE_PARENT_AGREES ||
		(stats->refused == logged->refused && stats->ours == logged->ours &&
			stats->theirs == logged->theirs))
		return;
	logged->refused = stats->refused;
	logged->ours = stats->ours;
	logged->theirs = stats->theirs;
	snprintf(more, sizeof(more), " setting=%s here=%u there=%u why=%s",
		ppe_parent_setting_word(stats->refused), stats->ours, stats->theirs,
		ctrl_log_quote(ppe_parent_setting_rule(stats->refused)).text);
	tell(job, parent, CTRL_LOG_WARNING, "the job does not take part in a parent's", more);
}

void
ctrl_parents_tick(struct ctrl_running *running)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		struct ctrl_job *job = running->by_id[i];
		struct ppe_parent_stats stats[PPE_PARENTS_MAX];
		bool any = false;

		for (unsigned int p = 0; job != NULL && p < job->job->nb_parents; p++) {
			running->engine->parent(running->ppe, (uint8_t)i, p, &stats[p]);
			any |= stats[p].serves;
		}
		for (unsigned int p = 0; job != NULL && p < job->job->nb_parents; p++)
			look(job, p, &stats[p], any);
	}
}
