/* SPDX-License-Identifier: BSD-3-Clause */
/* The programs of a switch: made with it, or loaded and unloaded while it runs. */
#include "ppe/load.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_log.h>
#include <rte_malloc.h>

#include "ppe/filters/filters.h"
#include "ppe/ppe_priv.h"

#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

/* A loaded program's statistics without read(). Snapshots point to them for as long as they like,
 * so they stay until the switch is destroyed; equal ones are kept once. */
struct ppe_texts {
	struct ppe_texts *next;
	struct ppe_statistic statistics[PPE_PROGRAM_STATISTICS];
};

/* Is the text a name: a lower-case letter, then letters, digits and what `more` has? */
static bool
is_name(const char *text, const char *more)
{
	size_t n = text == NULL ? 0 : strlen(text);

	if (n == 0 || n > 31 || !islower((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
			strchr(more, text[i]) == NULL)
			return false;
	return true;
}

static const char *
check_settings(const struct ppe_program *program)
{
	for (const struct ppe_setting *s = program->settings; s != NULL && s->key != NULL; s++) {
		if (!is_name(s->key, "_"))
			return "the key of a setting is not a name";
		if (s->help == NULL)
			return "a setting has no help";
		if (s->kind > PPE_SETTING_TEXT)
			return "a setting is of an unknown kind";
		if (s->kind == PPE_SETTING_CHOICE && s->choices == NULL)
			return "a setting has no choices";
		if ((s->kind == PPE_SETTING_INTEGER || s->kind == PPE_SETTING_TEXT) &&
			s->min > s->max)
			return "the range of a setting is empty";
		if (s->kind == PPE_SETTING_TEXT && (s->min < 0 || s->max >= PPE_SETTING_BYTES))
			return "a text may be too long for a setting";
	}
	return NULL;
}

static const char *
check_numbers(const struct ppe_program *program)
{
	for (unsigned int i = 0; i < PPE_PROGRAM_STATISTICS; i++) {
		const struct ppe_statistic *s = &program->statistics[i];
		const char *total;

		if (s->key == NULL)
			break;
		if (!is_name(s->key, "_") || s->help == NULL || s->read == NULL)
			return "a statistic has no name, help or read()";
		for (unsigned int j = 0; j < i; j++)
			if (strcmp(program->statistics[j].key, s->key) == 0)
				return "two statistics have the same name";
		if (s->metric == NULL)
			continue;
		total = strstr(s->metric, "_total");
		if (!is_name(s->metric, "_") || strncmp(s->metric, "weir_", 5) != 0 ||
			(s->kind == PPE_STATISTIC_COUNTER &&
				(total == NULL || strcmp(total, "_total") != 0)))
			return "a metric is not weir_..., or a counter's not weir_..._total";
	}
	for (const struct ppe_table *t = program->tables; t != NULL && t->name != NULL; t++) {
		if (!is_name(t->name, "_") || t->help == NULL || t->read == NULL)
			return "a table has no name, help or read()";
		for (unsigned int c = 0; t->column[c].key != NULL; c++)
			if (c == PPE_TABLE_COLUMNS || !is_name(t->column[c].key, "_") ||
				t->column[c].help == NULL)
				return "a table has a column without name or help, or too many";
	}
	return NULL;
}

const char *
ppe_program_check(const struct ppe_program *program)
{
	const struct ppe_jobs_ops *jobs = program->jobs;
	const char *wrong;

	if (!is_name(program->name, "_-"))
		return "its name is not a lower-case letter and up to 30 of a-z, 0-9, _ and -";
	if (program->first == NULL)
		return "it has no first segment";
	if (program->ordered && program->batch != NULL)
		return "an ordered program can't have batches";
	if (jobs != NULL &&
		(jobs->create == NULL || jobs->take == NULL || jobs->taken == NULL ||
			jobs->idle == NULL || jobs->destroy == NULL))
		return "it lacks an operation on jobs";
	for (unsigned int i = 0; i < PPE_SEGMENT_LISTS; i++)
		for (const struct ppe_segment_name *s = program->segments[i];
			s != NULL && s->name != NULL; s++)
			if (!is_name(s->name, "_"))
				return "the name of a segment is not one";
	wrong = check_settings(program);
	return wrong != NULL ? wrong : check_numbers(program);
}

static bool
equal_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
equal_statistics(const struct ppe_statistic *a, const struct ppe_statistic *b)
{
	for (unsigned int i = 0; i < PPE_PROGRAM_STATISTICS; i++)
		if (!equal_text(a[i].key, b[i].key) || !equal_text(a[i].metric, b[i].metric) ||
			!equal_text(a[i].help, b[i].help) || a[i].kind != b[i].kind ||
			a[i].is_largest != b[i].is_largest)
			return false;
	return true;
}

static void
free_texts(struct ppe_texts *texts)
{
	for (unsigned int i = 0; i < PPE_PROGRAM_STATISTICS; i++) {
		free((void *)(uintptr_t)texts->statistics[i].key);
		free((void *)(uintptr_t)texts->statistics[i].metric);
		free((void *)(uintptr_t)texts->statistics[i].help);
	}
	free(texts);
}

/* The program's statistics in memory of the switch; NULL: there is none. */
static const struct ppe_statistic *
keep_statistics(struct ppe *ppe, const struct ppe_statistic *statistics)
{
	struct ppe_texts *texts = ppe->texts;
	bool good = true;

	while (texts != NULL && !equal_statistics(texts->statistics, statistics))
		texts = texts->next;
	if (texts != NULL)
		return texts->statistics;
	texts = calloc(1, sizeof(*texts));
	for (unsigned int i = 0; texts != NULL && i < PPE_PROGRAM_STATISTICS; i++) {
		struct ppe_statistic *to = &texts->statistics[i];
		const struct ppe_statistic *from = &statistics[i];

		if (from->key == NULL)
			break;
		to->kind = from->kind;
		to->is_largest = from->is_largest;
		to->key = strdup(from->key);
		to->metric = from->metric == NULL ? NULL : strdup(from->metric);
		to->help = strdup(from->help);
		good &= to->key != NULL && to->help != NULL &&
			(to->metric != NULL || from->metric == NULL);
	}
	if (texts != NULL && !good) {
		free_texts(texts);
		texts = NULL;
	}
	if (texts == NULL)
		return NULL;
	texts->next = ppe->texts;
	ppe->texts = texts;
	return texts->statistics;
}

/* Fill the slots' indexes by precedence: the first built-in program, loaded ones, the others. */
static unsigned int
by_precedence(const struct ppe *ppe, uint8_t *order)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = ppe->slot[p];
		unsigned int at = n;

		if (slot == NULL)
			continue;
		/* Built-in programs have the first slots, so they come in order. */
		while (at > 1 && !slot->built_in &&
			(ppe->slot[order[at - 1]]->built_in ||
				ppe->slot[order[at - 1]]->order > slot->order)) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = (uint8_t)p;
		n++;
	}
	return n;
}

void
ppe_list_programs(const struct ppe *ppe, struct ppe_published *table)
{
	uint8_t order[PPE_PROGRAMS_MAX];
	unsigned int n = by_precedence(ppe, order);

	for (unsigned int i = 0; i < n; i++) {
		struct ppe_slot *slot = ppe->slot[order[i]];

		if (slot->phase <= PPE_PROGRAM_UNLOADING)
			table->slot[slot->index] = slot;
		if (slot->phase == PPE_PROGRAM_RUNNING)
			table->active[table->nb_active++] = order[i];
	}
}

static bool
no_hopped(const void *state __rte_unused, const struct rte_mbuf *packet __rte_unused,
	uint32_t job __rte_unused)
{
	return false;
}

static unsigned int
no_batch(struct ppe_worker *worker __rte_unused, void *state __rte_unused,
	struct rte_mbuf **packets __rte_unused, unsigned int n, unsigned int *followers)
{
	*followers = 0;
	return n;
}

/* The shortcut and the batches of the first program: none may bypass an earlier program. */
static void
take_first(struct ppe_worker *worker, const struct ppe_slot *slot)
{
	const struct ppe_program *program = slot->program;
	bool shortcut = program->recognize != NULL && !program->ordered;

	worker->recognizer = (uint8_t)slot->index;
	worker->recognize = shortcut ? program->recognize : NULL;
	worker->hopped = shortcut && program->hopped != NULL ? program->hopped : no_hopped;
	worker->batched = shortcut && worker->batch > 1 ? program->batch : NULL;
}

static void
take_matches(struct ppe_worker *worker, const struct ppe_slot *slot)
{
	for (unsigned int m = 0; m < slot->nb_matches; m++) {
		worker->match[worker->nb_matches] = slot->match[m];
		worker->match[worker->nb_matches++].program = (uint8_t)slot->index;
	}
}

void
ppe_take_programs(struct ppe_worker *worker, const struct ppe_published *table)
{
	worker->nb_matches = worker->nb_early = 0;
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = table->slot[p];

		worker->state[p] = slot == NULL ? NULL : slot->state[worker->id];
		worker->first[p] = slot == NULL ? NULL : slot->program->first;
		worker->ordered[p] = slot != NULL && slot->program->ordered;
	}
	for (unsigned int i = 0; i < table->nb_active; i++) {
		const struct ppe_slot *slot = table->slot[table->active[i]];

		take_matches(worker, slot);
		if (i == 0)
			take_first(worker, slot);
		/* Only behind others with batches: an earlier program without them sees its packets
		 * first. */
		else if (slot->program->batch != NULL && worker->batch > 1 &&
			worker->nb_early == i - 1)
			worker->early[worker->nb_early++] = (uint8_t)slot->index;
	}
	if (worker->nb_early > 0 && worker->batched == NULL)
		worker->batched = no_batch;
	ppe_timers_take(worker, table);
}

int
ppe_match_add(const struct ppe_setup *setup, const struct ppe_match *match)
{
	struct ppe_slot *slot = setup->slot;

	/* All workers have the same. */
	if (setup->worker_id != 0)
		return 0;
	if (slot->nb_matches == PPE_PROGRAM_MATCHES)
		return -ENOSPC;
	slot->match[slot->nb_matches++] = *match;
	return 0;
}

static struct ppe_slot *
find(const struct ppe *ppe, const char *name)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL && strcmp(ppe->slot[p]->program->name, name) == 0)
			return ppe->slot[p];
	return NULL;
}

int
ppe_program_find(const struct ppe_setup *setup, const char *name)
{
	const struct ppe_slot *slot = find(setup->ppe, name);

	if (slot == NULL || slot->phase > PPE_PROGRAM_RUNNING)
		return -ENOENT;
	setup->slot->uses |= UINT32_C(1) << slot->index;
	return (int)slot->index;
}

const void *
ppe_program_state(const struct ppe *ppe, const struct ppe_program *program, unsigned int worker)
{
	for (unsigned int p = 0; worker < ppe->config.workers && p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL && ppe->slot[p]->program == program)
			return ppe->slot[p]->state[worker];
	return NULL;
}

static const struct ppe_value *
value_of(const struct ppe_setup *setup, const char *key)
{
	static const struct ppe_value none;
	const struct ppe_setting *settings = setup->slot->program->settings;

	for (unsigned int i = 0; settings != NULL && settings[i].key != NULL; i++)
		if (strcmp(settings[i].key, key) == 0)
			return &setup->slot->values[i];
	LOG(ERR, "program %s has no setting %s\n", setup->slot->program->name, key);
	return &none;
}

int64_t
ppe_setting(const struct ppe_setup *setup, const char *key)
{
	return value_of(setup, key)->number;
}

const char *
ppe_setting_text(const struct ppe_setup *setup, const char *key)
{
	return value_of(setup, key)->text;
}

static struct ppe_slot *
new_slot(struct ppe *ppe, const struct ppe_program *program, const struct ppe_value *values)
{
	struct ppe_slot *slot;
	unsigned int p = 0, n = 0;

	while (p < PPE_PROGRAMS_MAX && ppe->slot[p] != NULL)
		p++;
	if (p == PPE_PROGRAMS_MAX)
		return NULL;
	while (program->settings != NULL && program->settings[n].key != NULL)
		n++;
	slot = rte_zmalloc("weir_program", sizeof(*slot) + n * sizeof(slot->values[0]), 0);
	if (slot == NULL)
		return NULL;
	slot->program = program;
	slot->index = p;
	slot->order = ++ppe->loads;
	if (n > 0)
		memcpy(slot->values, values, n * sizeof(slot->values[0]));
	ppe->slot[p] = slot;
	return slot;
}

static void
destroy_slot(struct ppe *ppe, struct ppe_slot *slot, struct ppe_program_leaks *leaks)
{
	for (unsigned int w = 0; slot->program->destroy != NULL && w < ppe->config.workers; w++)
		slot->program->destroy(slot->state[w], leaks);
	ppe->slot[slot->index] = NULL;
	rte_free(slot);
}

static int
create_states(struct ppe *ppe, struct ppe_slot *slot, const struct ppe_jobs *jobs)
{
	int rc = 0;

	for (unsigned int w = 0; rc == 0 && w < ppe->config.workers; w++) {
		struct ppe_setup setup = ppe_setup_of(ppe, w);

		setup.jobs = jobs;
		setup.slot = slot;
		if (slot->program->create != NULL)
			rc = slot->program->create(&setup, &slot->state[w]);
	}
	if (rc < 0)
		LOG(ERR, "program %s can't start: %s\n", slot->program->name, rte_strerror(-rc));
	return rc;
}

int
ppe_create_programs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	const struct ppe_program *const *programs = ppe->config.programs;
	int rc = 0;

	for (unsigned int i = 0; programs[i] != NULL; i++) {
		struct ppe_slot *slot = new_slot(ppe, programs[i], NULL);

		if (slot == NULL)
			return i == PPE_PROGRAMS_MAX ? -ENOSPC : -ENOMEM;
		slot->built_in = true;
		slot->phase = PPE_PROGRAM_RUNNING;
		slot->statistics = slot->program->statistics;
	}
	for (unsigned int p = 0; rc == 0 && p < PPE_PROGRAMS_MAX && ppe->slot[p] != NULL; p++)
		rc = create_states(ppe, ppe->slot[p], jobs);
	return rc;
}

void
ppe_destroy_programs(struct ppe *ppe, struct ppe_program_leaks *leaks)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL)
			destroy_slot(ppe, ppe->slot[p], leaks);
	while (ppe->texts != NULL) {
		struct ppe_texts *texts = ppe->texts;

		ppe->texts = texts->next;
		free_texts(texts);
	}
}

/* Is there room for the matches and timers of all programs? */
static bool
has_room(const struct ppe *ppe)
{
	unsigned int matches = 0, timers = 0;

	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL) {
			matches += ppe->slot[p]->nb_matches;
			timers += ppe->slot[p]->nb_timers;
		}
	return matches <= PPE_MATCHES_MAX && timers <= PPE_TIMERS_MAX;
}

/* Has another program a statistic or a metric of this name? */
static bool
is_taken(const struct ppe *ppe, const struct ppe_statistic *statistic)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		for (unsigned int i = 0; ppe->slot[p] != NULL && i < PPE_PROGRAM_STATISTICS; i++) {
			const struct ppe_statistic *other = &ppe->slot[p]->program->statistics[i];

			if (other->key == NULL)
				break;
			if (strcmp(other->key, statistic->key) == 0 ||
				(other->metric != NULL && statistic->metric != NULL &&
					strcmp(other->metric, statistic->metric) == 0))
				return true;
		}
	return false;
}

static int
check_names(const struct ppe *ppe, const struct ppe_program *program)
{
	if (ppe_program_check(program) != NULL)
		return -EINVAL;
	if (find(ppe, program->name) != NULL)
		return -EEXIST;
	for (unsigned int i = 0; i < PPE_PROGRAM_STATISTICS && program->statistics[i].key != NULL;
		i++)
		if (is_taken(ppe, &program->statistics[i]))
			return -ENOTUNIQ;
	return 0;
}

/* Make what the program needs in a slot of its own. An error leaves some of it. */
static int
fill_slot(struct ppe *ppe, struct ppe_slot *slot)
{
	int rc = create_states(ppe, slot, &ppe->table->jobs);

	if (rc == 0 && !has_room(ppe))
		rc = -ENOSPC;
	if (rc == 0) {
		slot->statistics = keep_statistics(ppe, slot->program->statistics);
		rc = slot->statistics == NULL ? -ENOMEM : 0;
	}
	if (rc == 0)
		rc = ppe_create_shards(ppe, slot);
	return rc;
}

int
ppe_program_load(struct ppe *ppe, const struct ppe_program *program, const struct ppe_value *values)
{
	struct ppe_program_leaks none = {0};
	struct ppe_slot *slot;
	int rc = check_names(ppe, program);

	if (rc < 0)
		return rc;
	if (!ppe_all_taken(ppe))
		return -EBUSY;
	slot = new_slot(ppe, program, values);
	if (slot == NULL)
		return -ENOSPC;
	slot->phase = PPE_PROGRAM_LOADING;
	rc = fill_slot(ppe, slot);
	if (rc == 0)
		rc = ppe_publish_programs(ppe);
	if (rc < 0) {
		ppe_destroy_shards(ppe, slot->index, &none);
		destroy_slot(ppe, slot, &none);
		return rc;
	}
	ppe_programs_tick(ppe);
	return 0;
}

/* Publish a program's next phase. Returns whether the workers will take it. */
static bool
advance(struct ppe *ppe, struct ppe_slot *slot, enum ppe_program_phase phase)
{
	const enum ppe_program_phase former = slot->phase;

	slot->phase = phase;
	if (ppe_publish_programs(ppe) == 0)
		return true;
	slot->phase = former;
	return false;
}

int
ppe_program_unload(struct ppe *ppe, const char *name)
{
	struct ppe_slot *slot = find(ppe, name);

	if (slot == NULL)
		return -ENOENT;
	if (slot->built_in)
		return -EPERM;
	if (slot->phase > PPE_PROGRAM_RUNNING)
		return -EALREADY;
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL && p != slot->index &&
			(ppe->slot[p]->uses & (UINT32_C(1) << slot->index)) != 0)
			return -EADDRINUSE;
	if (ppe_filter_of_program(ppe, name) != NULL)
		return -EADDRINUSE;
	if (!ppe_all_taken(ppe) || slot->phase == PPE_PROGRAM_LOADING)
		return -EBUSY;
	if (!advance(ppe, slot, PPE_PROGRAM_UNLOADING))
		return -ENOMEM;
	ppe_programs_tick(ppe);
	return 0;
}

/* Threads that left for another worker, and those of them that arrived or were lost. */
static void
count_hops(const struct ppe *ppe, unsigned int p, uint64_t *out, uint64_t *in)
{
	*out = *in = 0;
	/* First those that arrived: a thread in between is one that is under way. */
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		*in += __atomic_load_n(&ppe->worker[w]->count.threads_in[p], __ATOMIC_ACQUIRE);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		*in += __atomic_load_n(&ppe->worker[w]->count.threads_lost[p], __ATOMIC_ACQUIRE);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		*out += __atomic_load_n(&ppe->worker[w]->count.threads_out[p], __ATOMIC_ACQUIRE);
}

/*
 * The program starts no more threads, so its last ones are live or on their way to another worker.
 * If none is on its way, then all workers end their threads by taking a table, and if none was sent
 * meanwhile, there is none.
 */
static bool
leave_workers(struct ppe *ppe, struct ppe_slot *slot)
{
	uint64_t out, in;

	count_hops(ppe, slot->index, &out, &in);
	if (out != in) {
		slot->is_quiet = false;
		return false;
	}
	if (slot->is_quiet && slot->quiet_hops == out)
		return advance(ppe, slot, PPE_PROGRAM_LEAVING);
	slot->is_quiet = advance(ppe, slot, PPE_PROGRAM_UNLOADING);
	slot->quiet_hops = out;
	return slot->is_quiet;
}

static bool
is_idle(const struct ppe *ppe, const struct ppe_slot *slot)
{
	if (!ppe_shards_idle(ppe, slot->index))
		return false;
	for (unsigned int w = 0; slot->program->idle != NULL && w < ppe->config.workers; w++)
		if (slot->state[w] != NULL && !slot->program->idle(slot->state[w]))
			return false;
	return true;
}

/* Returns whether the program is gone. */
static bool
leave_memory(struct ppe *ppe, struct ppe_slot *slot)
{
	if (!slot->is_returned) {
		/* The worker that returned the last buffer may still be in that call. */
		slot->is_returned = is_idle(ppe, slot) && advance(ppe, slot, slot->phase);
		return slot->is_returned;
	}
	/* A job that was deleted meanwhile may still have shards. */
	slot->is_returned = is_idle(ppe, slot);
	if (!slot->is_returned || ppe->nb_gone == RTE_DIM(ppe->gone))
		return false;
	ppe->gone[ppe->nb_gone++] = slot->program;
	ppe_destroy_shards(ppe, slot->index, &ppe->lost);
	destroy_slot(ppe, slot, &ppe->lost);
	return true;
}

/* Take a program's next step. Returns whether there may be another one. */
static bool
step(struct ppe *ppe, struct ppe_slot *slot)
{
	switch (slot->phase) {
	case PPE_PROGRAM_LOADING: return advance(ppe, slot, PPE_PROGRAM_RUNNING);
	case PPE_PROGRAM_UNLOADING: return leave_workers(ppe, slot);
	case PPE_PROGRAM_LEAVING: return leave_memory(ppe, slot);
	case PPE_PROGRAM_RUNNING: break;
	}
	return false;
}

void
ppe_programs_tick(struct ppe *ppe)
{
	bool more = true;

	while (more) {
		more = false;
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (ppe->slot[p] != NULL && ppe_all_taken(ppe))
				more |= step(ppe, ppe->slot[p]);
	}
}

const struct ppe_program *
ppe_program_gone(struct ppe *ppe)
{
	ppe_programs_tick(ppe);
	return ppe->nb_gone == 0 ? NULL : ppe->gone[--ppe->nb_gone];
}

unsigned int
ppe_programs_read(const struct ppe *ppe, struct ppe_program_info *infos, unsigned int max)
{
	uint8_t order[PPE_PROGRAMS_MAX];
	unsigned int n = by_precedence(ppe, order);

	for (unsigned int i = 0; i < n && i < max; i++) {
		const struct ppe_slot *slot = ppe->slot[order[i]];
		uint64_t out, in;

		count_hops(ppe, slot->index, &out, &in);
		infos[i] = (struct ppe_program_info){
			.program = slot->program,
			.phase = slot->phase,
			.built_in = slot->built_in,
			.index = slot->index,
			.nb_matches = slot->nb_matches,
			.nb_timers = slot->nb_timers,
			.match = slot->match,
			.timer = slot->timer,
			.values = slot->values,
			.in_flight = out - in,
		};
		memcpy(infos[i].state, slot->state, sizeof(slot->state));
	}
	return n;
}
