/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "ctrl/config/schema.h"
#include "ctrl/jobs/jobs_priv.h"

/* A parent answers a join at once: after this silence, it is lost. */
#define LOST_US UINT64_C(3000000)

/* The setting of a job; NULL: it is none. */
static const struct ctrl_setting *
setting_of(unsigned int setting)
{
	for (size_t i = 0; i < ctrl_settings_count; i++)
		if (ctrl_settings[i].tree.compared == setting)
			return &ctrl_settings[i];
	return NULL;
}

struct ctrl_parent_words
ctrl_parent_words(unsigned int setting)
{
	static const struct ctrl_parent_words others[] = {
		[PPE_PARENT_RANKS] = {"tree.ranks", "must be the ranks of the parent's tree"},
		[PPE_PARENT_SOURCE_RANKS] = {"sources.ranks",
			"the parent must have as many for this switch"},
		[PPE_PARENT_ABOVE] = {"above",
			"the parent does not take part in a job of its own parents"},
		[PPE_PARENT_GONE] = {"job",
			"the parent does not have the job, or not this switch as a source"},
		[PPE_PARENT_UNKNOWN] = {"setting",
			"the parent's job has a setting of this number, which this switch does not "
			"know: it needs a newer Weir"},
	};
	const struct ctrl_setting *of = setting_of(setting);

	return of == NULL ? others[setting]
			  : (struct ctrl_parent_words){of->key.path, of->tree.text};
}

/* A value, as the configuration has it. */
static void
value_text(unsigned int setting, uint32_t value, char *text, size_t size)
{
	const struct ctrl_setting *of = setting_of(setting);
	const char *word = of == NULL          ? NULL
		: of->key.kind == CTRL_BOOLEAN ? "false|true"
					       : of->key.words;

	for (uint32_t i = 0; word != NULL && i < value; i++) {
		word = strchr(word, '|');
		word += word != NULL;
	}
	if (word != NULL)
		snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
	else
		snprintf(text, size, "%u", value);
}

struct ctrl_refusal_text
ctrl_parent_refusal(const struct ppe_parent_stats *stats)
{
	unsigned int setting = stats->refused;
	const struct ctrl_parent_words words = ctrl_parent_words(setting);
	struct ctrl_refusal_text out;
	char ours[32], theirs[32];

	value_text(setting, stats->ours, ours, sizeof(ours));
	value_text(setting, stats->theirs, theirs, sizeof(theirs));
	if (setting == PPE_PARENT_GONE || setting == PPE_PARENT_ABOVE)
		snprintf(out.text, sizeof(out.text), "%s", words.rule);
	else
		snprintf(out.text, sizeof(out.text), "%s %s here, %s there: %s", words.setting,
			ours, theirs, words.rule);
	return out;
}

static void
tell(const struct ctrl_job *job, unsigned int parent, uint32_t level, const char *what,
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
	/* The others serve without this parent, or it does not answer. */
	bool is_lost = !stats->serves &&
		(others_serve ||
			(stats->joining && stats->joining_us > LOST_US &&
				(!stats->heard || stats->silent_us > LOST_US)));
	char more[256] = "";

	if (stats->heard && !logged->heard)
		tell(job, parent, RTE_LOG_NOTICE, "parent heard", "");
	logged->heard |= stats->heard;
	if (stats->given_up > logged->given_up)
		tell(job, parent, RTE_LOG_WARNING,
			"a parent left questions about blocks unanswered, and was taken for dead",
			"");
	logged->given_up = stats->given_up;
	if (stats->serves && !logged->serves) {
		snprintf(more, sizeof(more), " generation=%u", stats->generation);
		tell(job, parent, RTE_LOG_NOTICE,
			logged->lost ? "parent serves again" : "parent serves", more);
	}
	if (stats->serves)
		*logged = (struct ctrl_parent_logged){
			.heard = true, .serves = true, .given_up = logged->given_up};
	if (is_lost && !logged->lost) {
		logged->lost = true;
		logged->serves = false;
		if (stats->heard)
			snprintf(
				more, sizeof(more), " silent_ms=%" PRIu64, stats->silent_us / 1000);
		tell(job, parent, RTE_LOG_WARNING, "parent lost", more);
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
		ctrl_parent_words(stats->refused).setting, stats->ours, stats->theirs,
		ctrl_log_quote(ctrl_parent_words(stats->refused).rule).text);
	tell(job, parent, RTE_LOG_WARNING, "the job does not take part in a parent's", more);
}

void
ctrl_parents_tick(struct ctrl_running *running)
{
	CTRL_FOREACH_JOB (job, running) {
		struct ppe_parent_stats stats[PPE_PARENTS_MAX];
		bool any = false;

		for (unsigned int p = 0; p < job->job->nb_parents; p++) {
			running->engine->parent(running->ppe, job->job->id, p, &stats[p]);
			any |= stats[p].serves;
		}
		for (unsigned int p = 0; p < job->job->nb_parents; p++)
			look(job, p, &stats[p], any);
	}
}
