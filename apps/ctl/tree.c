/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs on trees of switches: created on all of them or on none, shown, and deleted. */
#include "apps/ctl/tree.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/ctl/get.h"
#include "ctrl/api/units.h"
#include "pktbuf/wire/types.h"

#define SILENT_MS 1000 /* of a parent, from which it is told */

/* -- the switches */

const char *
place_name(const struct place *place)
{
	return get_text(place->entry, "name");
}

struct place *
tree_find(struct tree *tree, const char *name)
{
	for (unsigned int i = 0; i < tree->count; i++)
		if (strcmp(place_name(&tree->place[i]), name) == 0)
			return &tree->place[i];
	return NULL;
}

/* Returns the exit status. */
static int
add(struct tree *tree, json_t *entry)
{
	struct place *place = &tree->place[tree->count];
	const char *name = get_text(entry, "name"), *api = get_text(entry, "api");
	const char *why = tree->count == TREE_SWITCHES_MAX ? "a tree has 64 switches at most"
		: name[0] == '-'                           ? "its name is missing"
		: api[0] == '-'                            ? "its address, \"api\", is missing"
		: tree_find(tree, name) != NULL            ? "it is there twice"
							   : NULL;

	if (why != NULL) {
		ctl_say("switch %s: %s", name, why);
		return CTL_USAGE;
	}
	place->entry = json_incref(entry);
	tree->count++;
	return ctl_connect_to(&place->ctl, tree->ctl, name, api);
}

/* Of "leaf0" and "spine0=http://10.0.0.9:8080", what a plan has. */
static json_t *
entry_of(char *name)
{
	char *given = strchr(name, '='), *api;
	struct stat kind;
	json_t *entry;

	if (given != NULL)
		*given++ = '\0';
	if (asprintf(&api, "unix:" CTL_FOLDER "/%s.sock", name) < 0)
		err(CTL_REFUSED, "switch");
	if (given != NULL || (stat(&api[5], &kind) == 0 && S_ISSOCK(kind.st_mode)))
		entry = json_pack("{s:s, s:s}", "name", name, "api", given != NULL ? given : api);
	else
		entry = json_pack(
			"{s:s, s:s++}", "name", name, "api", "http://", name, ":" CTL_PORT);
	free(api);
	return entry != NULL ? entry : json_object();
}

static json_t *
listed(const char *switches)
{
	char *copy = strdup(switches), *rest = copy, *name;
	json_t *list = json_array();

	while ((name = strsep(&rest, ",")) != NULL)
		json_array_append_new(list, entry_of(name));
	free(copy);
	return list;
}

/* leaves: how many switches, the first ones, come behind the others: parents come before their children. */
static int
open_switches(struct tree *tree, struct ctl *ctl, unsigned int leaves)
{
	const struct ctl_options *o = &ctl->options;
	int status = CTL_OK;
	json_t *list;
	size_t count;

	*tree = (struct tree){.ctl = ctl, .name = o->words[0]};
	if ((o->switches == NULL) == (o->plan == NULL)) {
		ctl_say("tree: either --switches NAME,... or --plan FILE must be given");
		return CTL_USAGE;
	}
	tree->plan = o->plan != NULL
		? ctl_load(o->plan)
		: json_pack("{s:s, s:o}", "name", tree->name, "switches", listed(o->switches));
	if (tree->plan == NULL) {
		if (o->plan == NULL)
			ctl_say("the name is not UTF-8");
		return CTL_USAGE;
	}
	list = get(tree->plan, "switches");
	count = json_array_size(list);
	if (strcmp(get_text(tree->plan, "name"), tree->name) != 0 || count == 0) {
		ctl_say("%s: is no plan of job %s: its \"name\" is %s, and it has %zu \"switches\"",
			o->plan, tree->name, get_text(tree->plan, "name"), count);
		return CTL_USAGE;
	}
	for (size_t i = 0; i < count && status == CTL_OK; i++)
		status = add(tree, json_array_get(list, (i + leaves) % count));
	tree->parents = tree->count - (leaves < tree->count ? leaves : tree->count);
	return status;
}

static int
close_switches(struct tree *tree, int status)
{
	for (unsigned int i = 0; i < tree->count; i++) {
		struct place *place = &tree->place[i];

		ctl_close(&place->ctl);
		json_decref(place->entry);
		json_decref(place->status);
		json_decref(place->ports);
		json_decref(place->made);
	}
	json_decref(tree->plan);
	return status;
}

/* -- all of its jobs, or none */

static int
save_plan(const struct tree *tree)
{
	const char *name = tree->ctl->options.save;

	if (name == NULL || json_dump_file(tree->plan, name, JSON_INDENT(2)) == 0)
		return CTL_OK;
	ctl_say("%s: %s", name, strerror(errno));
	return CTL_REFUSED;
}

/* Delete the job of a switch. Returns whether it is gone, or ends with its blocks; says so otherwise. */
static bool
delete_at(const struct tree *tree, struct place *place, bool *was_there)
{
	char *path = ctl_path("/v1/jobs/", tree->name, "");
	struct ctl_answer answer;
	bool answered = ctl_request(&place->ctl, "DELETE", path, NULL, 0, CTL_BODY_MAX, &answer),
	     gone;

	free(path);
	if (!answered)
		return false;
	*was_there = answer.status != 404;
	gone = answer.status / 100 == 2 || answer.status == 404;
	if (!gone)
		ctl_refused(&place->ctl, &answer);
	free(answer.body);
	place->ctl.status = gone ? CTL_OK : CTL_REFUSED;
	return gone;
}

/* Give a job of the plan what its parents' jobs have: their ids, and its keys. A dry run has no keys, and takes any. */
static json_t *
body_of(struct tree *tree, const struct place *place)
{
	json_t *body = json_deep_copy(get(place->entry, "job")),
	       *parents = get(body, "tree.parents");

	for (size_t i = 0; i < json_array_size(parents); i++) {
		json_t *link = json_array_get(parents, i), *made, *sources;
		const struct place *parent = tree_find(tree, get_text(link, "name"));

		made = parent == NULL ? NULL : parent->made;
		sources = get(made, "sources");
		json_object_set_new(link, "job", json_integer(tree_count(made, "id")));
		if (place->ctl.options.dry_run && get_true(body, "authenticate"))
			json_object_set_new(
				link, "key", json_sprintf("%0*d", 2 * WEIR_KEY_BYTES, 0));
		for (size_t k = 0; k < json_array_size(sources); k++) {
			json_t *source = json_array_get(sources, k), *key = get(source, "key");

			if (key != NULL &&
				tree_count(source, "id") == tree_count(body, "tree.first_rank"))
				json_object_set(link, "key", key);
		}
	}
	return body;
}

/* Ask for a switch's job: place->made. False: it is refused, and ctl->status says how. */
static bool
make(struct tree *tree, struct place *place, bool dry_run)
{
	json_t *made;
	bool is_made;

	place->ctl.options.dry_run = dry_run;
	is_made = ctl_ask(&place->ctl, "POST", "/v1/jobs", body_of(tree, place), &made);
	json_decref(place->made);
	place->made = made;
	return is_made;
}

/* What each switch says of its job. Returns the exit status. */
static int
try(struct tree *tree)
{
	int status = CTL_OK;

	for (unsigned int i = 0; i < tree->count; i++)
		if (!make(tree, &tree->place[i], true))
			status = tree->place[i].ctl.status;
	if (status != CTL_OK)
		ctl_say("job %s: not created", tree->name);
	else if (!tree->ctl->options.json)
		tree_print_plan(tree, stdout, tree->ctl->width);
	return status;
}

/* Has one of the signals come that end a program? */
static bool
interrupted(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
		sigismember(&pending, SIGHUP) == 1;
}

/* Delete what was made, the last first. A switch that has not answered may have made it. */
static void
roll_back(struct tree *tree)
{
	char left[1024] = "";

	for (unsigned int i = tree->count; i-- > 0;) {
		struct place *place = &tree->place[i];
		bool there;

		if (place->asked_to_make && !delete_at(tree, place, &there))
			snprintf(left + strlen(left), sizeof(left) - strlen(left), "%s%s",
				left[0] == '\0' ? "" : ", ", place_name(place));
	}
	if (left[0] == '\0')
		ctl_say("no switch has job %s: what had been created is deleted again", tree->name);
	else
		ctl_say("job %s may be left on %s: weirctl tree delete %s deletes it", tree->name,
			left, tree->name);
}

static int
create(struct tree *tree)
{
	sigset_t ends, before;
	int status = CTL_OK;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, &before);
	for (unsigned int i = 0; i < tree->count && status == CTL_OK; i++) {
		struct place *place = &tree->place[i];

		if (!make(tree, place, false)) {
			status = place->ctl.status;
			ctl_say("job %s: not created, because of %s", tree->name,
				place_name(place));
		} else if (interrupted()) {
			status = CTL_REFUSED;
			ctl_say("job %s: not created: interrupted", tree->name);
		}
		/* A refused job is not there, or is somebody else's by now. Other errors are of the answer. */
		place->asked_to_make = place->ctl.answered / 100 != 4 && place->ctl.answered != 507;
	}
	if (status != CTL_OK)
		roll_back(tree);
	else if (!tree->ctl->options.json)
		printf("created on %u switches\n", tree->count);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

/* What is wrong with the command line; NULL: nothing. leaves: how many sizes it has. */
static const char *
mistake(const struct ctl_options *o, unsigned int leaves)
{
	if (o->plan != NULL && (o->sizes != NULL || json_object_size(o->fields) > 0))
		return "a plan has the sizes and the settings: edit it";
	if (o->plan == NULL && leaves == 0)
		return "--sizes N,N,... must be the numbers of hosts at the leaves, 256 together "
		       "at most";
	return get_true(o->fields, "temporary") ? "a tree's jobs are not temporary" : NULL;
}

int
command_tree_create(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	unsigned int sizes[TREE_SWITCHES_MAX],
		all = 0, leaves = o->sizes == NULL ? 0 : tree_sizes(o->sizes, sizes, &all);
	static struct tree tree;
	int status;

	if (mistake(o, leaves) != NULL) {
		ctl_say("tree create: %s", mistake(o, leaves));
		return CTL_USAGE;
	}
	status = open_switches(&tree, ctl, leaves);
	if (status == CTL_OK && o->plan == NULL && tree.parents == 0) {
		ctl_say("tree create: %u sizes need as many leaves and at least one parent behind "
			"them in --switches",
			leaves);
		status = CTL_USAGE;
	}
	for (struct place *p = tree.place; p < tree.place + tree.count && status == CTL_OK; p++)
		if (!ctl_ask(&p->ctl, "GET", "/v1/status", NULL, &p->status) ||
			!ctl_ask(&p->ctl, "GET", "/v1/ports", NULL, &p->ports))
			status = p->ctl.status;
	if (status == CTL_OK && o->plan == NULL)
		status = tree_plan(&tree, sizes, all);
	if (status == CTL_OK && o->json)
		view_json(tree.plan, stdout, 0);
	if (status == CTL_OK)
		status = save_plan(&tree);
	if (status == CTL_OK)
		status = try(&tree);
	if (status == CTL_OK)
		status = tree_check(&tree);
	if (status == CTL_OK && !o->dry_run)
		status = create(&tree);
	return close_switches(&tree, status);
}

int
command_tree_delete(struct ctl *ctl)
{
	static struct tree tree;
	int status = open_switches(&tree, ctl, 0);
	unsigned int deleted = 0;

	if (status != CTL_OK)
		return close_switches(&tree, status);
	/* With a plan, the children first. */
	for (unsigned int i = tree.count; i-- > 0;) {
		bool there = false;

		if (!delete_at(&tree, &tree.place[i], &there))
			status = tree.place[i].ctl.status;
		else if (!there)
			printf("%s has no job %s\n", place_name(&tree.place[i]), tree.name);
		deleted += there && tree.place[i].ctl.status == CTL_OK;
	}
	printf("deleted on %u of %u switches\n", deleted, tree.count);
	return close_switches(&tree, status);
}

/* -- a tree as it is */

static void
parents_now(json_t *row, FILE *out)
{
	json_t *list = get(row, "job.tree.parents");

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *parent = json_array_get(list, i);
		double silent = get_number(parent, "silent_ms");

		fprintf(out, "%s%s", i > 0 ? ", " : "", get_text(parent, "name"));
		if (get(parent, "refused.setting") != NULL)
			fprintf(out, " refused: %s is %.0f, there %.0f: %s",
				get_text(parent, "refused.setting"),
				get_number(parent, "refused.here"),
				get_number(parent, "refused.there"),
				get_text(parent, "refused.why"));
		else if (get_true(parent, "joining"))
			fputs(" joining", out);
		else if (get(parent, "serves") != NULL && !get_true(parent, "serves"))
			fputs(get_number(row, "job.generation") > 0 ? " not used" : " not joined",
				out);
		else if (silent >= SILENT_MS)
			fprintf(out, " silent for %s", units_age(silent / 1e3).text);
	}
	if (json_array_size(list) == 0)
		fputc('-', out);
}

static void
state(json_t *row, FILE *out)
{
	fputs(get(row, "job") != NULL ? get_text(row, "job.state") : get_text(row, "state"), out);
}

int
command_tree_show(struct ctl *ctl)
{
	static const struct view_column columns[] = {
		{"SWITCH", "name", CELL_TEXT, 1, 0, NULL},
		{"ROLE", NULL, CELL_PRINT, 0, 0, tree_print_role},
		{"RANKS", NULL, CELL_PRINT, 0, 0, tree_print_ranks},
		{"STATE", NULL, CELL_PRINT, 0, 0, state},
		{"GENERATION", "job.generation", CELL_EXACT, 0, 1, NULL},
		{"JOINED", "job.joined/job.size", CELL_OF, 0, 0, NULL},
		{"PARENTS", NULL, CELL_PRINT, 1, 0, parents_now},
	};
	static struct tree tree;
	int status = open_switches(&tree, ctl, 0);
	json_t *rows = json_array();
	char *path = ctl_path("/v1/jobs/", ctl->options.words[0], "");

	for (unsigned int i = 0; i < tree.count && status != CTL_USAGE; i++) {
		struct place *place = &tree.place[i];
		json_t *job, *row = json_pack("{s:s}", "name", place_name(place));

		if (!ctl_get(&place->ctl, path, &job)) {
			status = place->ctl.status;
			json_object_set_new(row, "state", json_string("no answer"));
		} else if (job == NULL) {
			status = status == CTL_OK ? CTL_REFUSED : status;
			json_object_set_new(row, "state", json_string("no job"));
		} else {
			json_object_set_new(row, "job", job);
		}
		json_array_append_new(rows, row);
	}
	free(path);
	if (status != CTL_USAGE && ctl->options.json)
		view_json(rows, stdout, 0);
	else if (status != CTL_USAGE)
		VIEW_TABLE(columns, rows, NULL, stdout, ctl->width);
	json_decref(rows);
	return close_switches(&tree, status);
}
