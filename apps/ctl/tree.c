/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs on trees of switches (docs/tree.md): planned, created on all switches or on none, shown, and deleted.
 *
 * A plan is {"name": NAME, "switches": [{"name", "api", "address", "job": {...}}, ...]}, parents before their children.
 * `job` is the body of POST /v1/jobs. The job's name, the ids of its parents' jobs and, in an authenticated job, its keys
 * there are filled in when the job is created.
 */
#include <err.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"
#include "ctrl/config/job_settings.h"
#include "pktbuf/wire/types.h"

#define SWITCHES_MAX 64
#define SILENT_MS    1000 /* of a parent, from which it is told */

/* A switch of a tree. */
struct place {
	struct ctl ctl;
	json_t *entry; /* the plan's */
	json_t *status, *ports; /* as it answers */
	json_t *job; /* that it would create, has created, or has; NULL: none */
	bool may_have_created;
	const struct place *child; /* the first of them */
	unsigned int children;
};

struct tree {
	struct ctl *ctl; /* the command's */
	const char *name; /* of the job */
	json_t *plan;
	struct place place[SWITCHES_MAX];
	unsigned int count, parents; /* switches; those of them that --switches makes parents */
};

/* -- the switches */

static const char *
name_of(const struct place *place)
{
	return get_text(place->entry, "name");
}

/* NULL: there is none of that name. */
static struct place *
find(struct tree *tree, const char *name)
{
	for (unsigned int i = 0; i < tree->count; i++)
		if (strcmp(name_of(&tree->place[i]), name) == 0)
			return &tree->place[i];
	return NULL;
}

/* Returns the exit status. */
static int
add(struct tree *tree, json_t *entry)
{
	struct place *place = &tree->place[tree->count];
	const char *name = get_text(entry, "name"), *api = get_text(entry, "api");
	const char *why = tree->count == SWITCHES_MAX ? "a tree has 64 switches at most"
		: name[0] == '-'                      ? "its name is missing"
		: api[0] == '-'                       ? "its address, \"api\", is missing"
		: find(tree, name) != NULL            ? "it is there twice"
						      : NULL;

	if (why != NULL) {
		ctl_say("switch %s: %s", name, why);
		return CTL_USAGE;
	}
	place->entry = entry;
	tree->count++;
	return ctl_connect_to(&place->ctl, tree->ctl, name, api);
}

/* The plan's list, without jobs, of "leaf0,spine0=http://10.0.0.9:8080". */
static json_t *
listed(const char *switches)
{
	char *copy = strdup(switches), *rest = copy, *name;
	json_t *list = json_array();

	while ((name = strsep(&rest, ",")) != NULL) {
		char *api = name, *socket;
		json_t *entry;

		strsep(&api, "=");
		if (asprintf(&socket, "unix:" CTL_FOLDER "/%s.sock", name) < 0)
			err(CTL_REFUSED, "switch");
		if (api == NULL && access(&socket[strlen("unix:")], F_OK) == 0)
			api = socket;
		entry = api != NULL ? json_pack("{s:s, s:s}", "name", name, "api", api)
				    : json_pack("{s:s, s:s++}", "name", name, "api", "http://",
					      name, ":" CTL_PORT);
		json_array_append_new(list, entry != NULL ? entry : json_object());
		free(socket);
	}
	free(copy);
	return list;
}

/* The leaves come behind the others: parents come before their children. */
static int
open_switches(struct tree *tree, struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	unsigned int leaves = o->sizes.count;
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
		json_decref(place->status);
		json_decref(place->ports);
		json_decref(place->job);
	}
	json_decref(tree->plan);
	return status;
}

static int
look(struct tree *tree)
{
	for (struct place *p = tree->place; p < tree->place + tree->count; p++)
		if (!ctl_ask(&p->ctl, "GET", "/v1/status", NULL, &p->status) ||
			!ctl_ask(&p->ctl, "GET", "/v1/ports", NULL, &p->ports))
			return p->ctl.status;
	return CTL_OK;
}

/* -- the plan that --switches and --sizes make */

static const struct setting {
	const char *key, *value;
	struct ctrl_tree_rule tree;
} settings[] = {
#define X(key, where, change, needs, tree, kind, field, unit, value, ...)                          \
	{#key, value, CTRL_TREE_##tree},
	CTRL_JOB_SETTINGS(X)
#undef X
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* The settings of the leaves; of the parents: those that must be equal, with twice the time. */
static json_t *
new_job(json_t *fields, bool parent)
{
	json_t *job = json_object();
	json_int_t timeout = 0, dead = 0;

	json_object_set(job, "id", json_object_get(fields, "id"));
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		json_t *value = json_object_get(fields, s->key);
		json_int_t ms = value != NULL ? json_integer_value(value) : atoll(s->value);

		if (s->tree.compared == WEIR_SETTING_TIMEOUT)
			timeout = ms;
		else if (s->tree.compared == WEIR_SETTING_DEAD_AFTER)
			dead = ms;
		else if (!parent || s->tree.must_be_equal)
			json_object_set(job, s->key, value);
	}
	if (json_object_get(job, "rejoin") == NULL)
		json_object_set_new(job, "rejoin", json_string("revoke"));
	json_object_set_new(job, "timeout_ms", json_integer(parent ? 2 * timeout : timeout));
	json_object_set_new(job, "dead_after_ms",
		json_integer(parent && dead > 0 ? dead + (dead > timeout ? dead : timeout) : dead));
	return job;
}

/* The port of a switch that leads to another; NULL: none says so. */
static json_t *
port_to(const struct place *place, const struct place *other)
{
	json_t *port;
	size_t i;

	json_array_foreach (get(place->ports, "ports"), i, port) {
		const char *neighbor = get_text(port, "neighbor");

		if (strcmp(neighbor, name_of(other)) == 0 ||
			strcmp(neighbor, get_text(other->status, "name")) == 0)
			return port;
	}
	return NULL;
}

/* Put a leaf and a parent into each other's jobs. */
static bool
link_to(const struct place *leaf, const struct place *parent)
{
	json_t *port = port_to(leaf, parent), *s = parent->status;

	if (port == NULL) {
		ctl_say("%s has no port to %s: set \"neighbor\" of the port to \"%s\" in its "
			"configuration, or write a plan",
			name_of(leaf), name_of(parent), name_of(parent));
		return false;
	}
	json_array_append_new(get(leaf->entry, "job.tree.parents"),
		json_pack("{s:s, s:s, s:s, s:s, s:O*, s:s}", "name", name_of(parent), "address",
			get_text(s, "address"), "mac", get_text(s, "mac"), "port",
			get_text(port, "name"), "udp_port", get(s, "udp_port_ext"), "api",
			get_text(parent->entry, "api")));
	json_array_append_new(get(parent->entry, "job.sources"),
		json_pack("{s:O, s:s, s:O, s:s, s:s}", "id",
			get(leaf->entry, "job.tree.first_rank"), "address",
			get_text(leaf->status, "address"), "ranks", get(leaf->entry, "job.size"),
			"name", name_of(leaf), "api", get_text(leaf->entry, "api")));
	return true;
}

static int
make_plan(struct tree *tree, unsigned int ranks)
{
	const struct ctl_options *o = &tree->ctl->options;
	json_t *list = json_array();
	unsigned int first = 0;

	for (unsigned int i = 0; i < tree->count; i++) {
		const struct place *place = &tree->place[i];
		bool parent = i < tree->parents;
		unsigned int size =
			parent ? o->sizes.count : (unsigned int)o->sizes.value[i - tree->parents];
		json_t *job = new_job(o->fields, parent);

		json_object_set_new(job, "size", json_integer(size));
		json_object_set_new(job, parent ? "sources" : "tree",
			parent ? json_array()
			       : json_pack("{s:i, s:i, s:[]}", "ranks", (int)ranks, "first_rank",
					 (int)first, "parents"));
		first += parent ? 0 : size;
		json_object_set(place->entry, "address", get(place->status, "address"));
		json_object_set_new(place->entry, "job", job);
		json_array_append(list, place->entry);
	}
	json_object_set_new(tree->plan, "switches", list);
	for (unsigned int i = tree->parents; i < tree->count; i++)
		for (unsigned int k = 0; k < tree->parents; k++)
			if (!link_to(&tree->place[i], &tree->place[k]))
				return CTL_REFUSED;
	return CTL_OK;
}

static int
show_plan(struct tree *tree)
{
	const struct ctl_options *o = &tree->ctl->options;

	if (o->json)
		view_json(tree->plan, stdout, 0);
	if (o->save == NULL || json_dump_file(tree->plan, o->save, JSON_INDENT(2)) == 0)
		return CTL_OK;
	ctl_say("%s: %s", o->save, strerror(errno));
	return CTL_REFUSED;
}

/* -- a tree as it is planned, or as it is */

/* How many ranks a job's sources have. */
static json_int_t
ranks_of(json_t *job)
{
	json_t *sources = get(job, "sources"), *source;
	json_int_t ranks = 0;
	size_t i;

	if (sources == NULL)
		return json_integer_value(get(job, "size"));
	json_array_foreach (sources, i, source)
		ranks += json_integer_value(get(source, "ranks"));
	return ranks;
}

static json_int_t
ranks_of_tree(json_t *job)
{
	json_t *tree = get(job, "tree");

	return tree != NULL ? json_integer_value(get(tree, "ranks")) : ranks_of(job);
}

static void
role(json_t *row, FILE *out)
{
	bool below = get(row, "job.tree") != NULL, above = get(row, "job.sources") != NULL;

	fputs(below && above ? "middle" : below ? "leaf" : above ? "root" : "-", out);
}

static void
ranks(json_t *row, FILE *out)
{
	json_int_t first = json_integer_value(get(row, "job.tree.first_rank")),
		   count = ranks_of(get(row, "job"));

	if (count > 0)
		fprintf(out, "%lld..%lld", first, first + count - 1);
	else
		fputc('-', out);
}

/* What keeps a parent from a part in the job. */
static void
print_parent_state(json_t *parent, bool has_begun, FILE *out)
{
	double silent = get_number(parent, "silent_ms");

	if (get(parent, "refused.setting") != NULL)
		fprintf(out, " refused: %s is %.0f, there %.0f: %s",
			get_text(parent, "refused.setting"), get_number(parent, "refused.here"),
			get_number(parent, "refused.there"), get_text(parent, "refused.why"));
	else if (get_true(parent, "joining"))
		fputs(" joining", out);
	else if (get(parent, "serves") != NULL && !get_true(parent, "serves"))
		fputs(has_begun ? " not used" : " not joined", out);
	else if (silent >= SILENT_MS)
		fprintf(out, " silent for %s", units_age(silent / 1e3).text);
}

static void
parents(json_t *row, FILE *out)
{
	json_t *list = get(row, "job.tree.parents"), *parent;
	size_t i;

	json_array_foreach (list, i, parent) {
		fprintf(out, "%s%s by %s", i > 0 ? ", " : "", get_text(parent, "name"),
			get_text(parent, "port"));
		if (!get_true(row, "job.dry_run"))
			print_parent_state(parent, get_number(row, "job.generation") > 0, out);
	}
	if (json_array_size(list) == 0)
		fputc('-', out);
}

static void
dead_after(json_t *row, FILE *out)
{
	double dead = get_number(row, "job.dead_after_ms");

	fputs(fpclassify(dead) == FP_ZERO ? "never" : units_age(dead / 1e3).text, out);
}

static void
view_tree(const struct tree *tree)
{
	static const struct view_column columns[] = {
		{"SWITCH", "name", CELL_TEXT, 1, 0, NULL},
		{"ROLE", NULL, CELL_PRINT, 0, 0, role},
		{"ADDRESS", "address", CELL_TEXT, 0, 4, NULL},
		{"API", "api", CELL_TEXT, 1, 6, NULL},
		{"JOB ID", "job.id", CELL_EXACT, 0, 5, NULL},
		{"RANKS", NULL, CELL_PRINT, 0, 0, ranks},
		{"STATE", "state", CELL_TEXT, 0, 0, NULL},
		{"GENERATION", "job.generation", CELL_EXACT, 0, 2, NULL},
		{"JOINED", "job.joined/job.size", CELL_OF, 0, 1, NULL},
		{"PARENTS", NULL, CELL_PRINT, 1, 0, parents},
		{"TIMEOUT", "job.timeout_ms", CELL_MS, 0, 3, NULL},
		{"DEAD AFTER", NULL, CELL_PRINT_RIGHT, 0, 5, dead_after},
	};
	json_t *rows = json_array(), *job = NULL;

	for (const struct place *p = tree->place; p < tree->place + tree->count; p++) {
		const char *state = p->job == NULL ? p->ctl.answered == 404 ? "no job" : "no answer"
			: get_true(p->job, "dry_run") ? "planned"
						      : get_text(p->job, "state");

		job = job == NULL ? p->job : job;
		json_array_append_new(rows,
			json_pack("{s:s, s:s, s:s, s:s, s:O*}", "name", name_of(p), "address",
				get_text(p->status, "address"), "api", get_text(p->entry, "api"),
				"state", state, "job", p->job));
	}
	if (tree->ctl->options.json) {
		view_json(rows, stdout, 0);
	} else {
		VIEW_TABLE(columns, NULL, rows, NULL, stdout, tree->ctl->width);
		if (job != NULL)
			text_printf(stdout, 2, tree->ctl->width,
				"job %s: %lld ranks, %s of %s, %.0f elements a block, window %.0f, "
				"policy %s%s",
				tree->name, ranks_of_tree(job), get_text(job, "op"),
				get_text(job, "type"), get_number(job, "elements"),
				get_number(job, "window"), get_text(job, "policy"),
				get_true(job, "authenticate") ? ", authenticated" : "");
	}
	json_decref(rows);
}

int
command_tree_show(struct ctl *ctl)
{
	static struct tree tree;
	int status = open_switches(&tree, ctl);
	char *path = ctl_path("/v1/jobs/", ctl->options.words[0], "");

	for (struct place *p = tree.place; p < tree.place + tree.count && status != CTL_USAGE; p++)
		if (!ctl_get(&p->ctl, "/v1/status", &p->status) ||
			!ctl_get(&p->ctl, path, &p->job) || p->job == NULL)
			status = p->ctl.status > status ? p->ctl.status : status;
	free(path);
	if (status != CTL_USAGE)
		view_tree(&tree);
	return close_switches(&tree, status);
}

/* -- checks between switches, of the jobs that they would make: of all that no switch can see alone */

static bool
agree(const struct place *child, const struct place *parent, const char *what, json_t *here,
	json_t *there, bool good, const char *rule)
{
	char *a, *b;

	if (good)
		return true;
	a = json_dumps(here, JSON_ENCODE_ANY);
	b = json_dumps(there, JSON_ENCODE_ANY);
	ctl_say("%s below %s: %s is %s, there %s: %s", name_of(child), name_of(parent), what,
		a != NULL ? a : "-", b != NULL ? b : "-", rule);
	free(a);
	free(b);
	return false;
}

/* What a leaf compares when its join is accepted. */
static bool
settings_agree(const struct place *child, const struct place *parent)
{
	const char *policy = get_text(child->job, "policy");
	json_int_t timeout = json_integer_value(get(child->job, "timeout_ms"));

	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		json_t *here = get(child->job, s->key), *there = get(parent->job, s->key);
		json_int_t above = json_integer_value(there);
		bool good = s->tree.text == NULL || json_equal(here, there);

		if (s->tree.compared == WEIR_SETTING_TIMEOUT)
			good = strcmp(policy, "wait") == 0 ||
				above >= ppe_parent_timeout_least((uint32_t)timeout);
		else if (s->tree.compared == WEIR_SETTING_DEAD_AFTER)
			good = strcmp(policy, "partial") != 0 || above == 0 ||
				above >= json_integer_value(here) + timeout;
		if (!agree(child, parent, s->key, here, there, good, s->tree.text))
			return false;
	}
	return true;
}

/* Has a parent's job this source? */
static bool
has_source(const struct place *parent, json_t *wanted)
{
	json_t *source;
	bool found = false;
	size_t i;

	json_array_foreach (get(parent->job, "sources"), i, source) {
		json_t *copy = json_copy(source);

		json_object_update(copy, wanted);
		found |= json_equal(copy, source);
		json_decref(copy);
	}
	return found;
}

/* A block's parent is the one at its place in the list, so children of one parent list the same ones. */
static bool
list_alike(const struct place *a, const struct place *b)
{
	json_t *links = get(a->job, "tree.parents"), *others = get(b->job, "tree.parents");
	bool alike = json_array_size(links) == json_array_size(others);

	for (size_t i = 0; alike && i < json_array_size(links); i++)
		alike = strcmp(get_text(json_array_get(links, i), "name"),
				get_text(json_array_get(others, i), "name")) == 0;
	if (!alike)
		ctl_say("%s and %s share a parent: both must list the same parents, in the same "
			"order",
			name_of(a), name_of(b));
	return alike;
}

static bool
check_link(struct tree *tree, const struct place *child, json_t *link)
{
	struct place *parent = find(tree, get_text(link, "name"));
	json_int_t ranks, above;
	json_t *source;
	bool good;

	if (parent == NULL || parent >= child) {
		ctl_say("%s: its parent %s must be in the plan, and before it", name_of(child),
			get_text(link, "name"));
		return false;
	}
	if (parent->children++ == 0)
		parent->child = child;
	source = json_pack("{s:O*, s:I, s:O*}", "id", get(child->job, "tree.first_rank"), "ranks",
		ranks_of(child->job), "address", get(child->status, "address"));
	good = agree(child, parent, "its source", source, get(parent->job, "sources"),
		       has_source(parent, source), "it must be one of the parent's") &&
		agree(child, parent, "the parent's address", get(link, "address"),
			get(parent->status, "address"),
			json_equal(get(link, "address"), get(parent->status, "address")),
			"must be equal") &&
		settings_agree(child, parent) && list_alike(parent->child, child);
	json_decref(source);
	ranks = ranks_of_tree(child->job);
	above = ranks_of_tree(parent->job);
	if (good && ranks != above)
		ctl_say("%s below %s: they are of trees of %lld and %lld ranks", name_of(child),
			name_of(parent), ranks, above);
	return good && ranks == above;
}

static int
check(struct tree *tree)
{
	json_t *link;
	size_t k;

	for (unsigned int i = 0; i < tree->count; i++)
		json_array_foreach (get(tree->place[i].job, "tree.parents"), k, link)
			if (!check_link(tree, &tree->place[i], link))
				return CTL_REFUSED;
	for (const struct place *p = tree->place; p < tree->place + tree->count; p++) {
		size_t sources = json_array_size(get(p->job, "sources"));

		if (p->children == sources)
			continue;
		ctl_say("%s: it has %zu sources, and %u switches of the plan are below it",
			name_of(p), sources, p->children);
		return CTL_REFUSED;
	}
	return CTL_OK;
}

/* -- all of its jobs, or none */

/* A job of the plan, with what its parents' jobs have: their ids, and its keys. A dry run has no keys, and takes any. */
static json_t *
body_of(struct tree *tree, const struct place *place)
{
	json_t *body = json_deep_copy(get(place->entry, "job")), *link, *source;
	size_t i, k;

	json_object_set_new(body, "name", json_string(tree->name));
	json_array_foreach (get(body, "tree.parents"), i, link) {
		const struct place *parent = find(tree, get_text(link, "name"));
		json_t *job = parent == NULL ? NULL : parent->job;

		json_object_set_new(link, "job", json_integer(json_integer_value(get(job, "id"))));
		if (place->ctl.options.dry_run && get_true(body, "authenticate"))
			json_object_set_new(
				link, "key", json_sprintf("%0*d", 2 * WEIR_KEY_BYTES, 0));
		json_array_foreach (get(job, "sources"), k, source)
			if (json_equal(get(source, "id"), get(body, "tree.first_rank")))
				json_object_set(link, "key", get(source, "key"));
	}
	return body;
}

/* Ask for a switch's job. False: it is refused, and ctl->status says how. */
static bool
make(struct tree *tree, struct place *place, bool dry_run)
{
	json_t *job;
	bool is_made;

	place->ctl.options.dry_run = dry_run;
	is_made = ctl_ask(&place->ctl, "POST", "/v1/jobs", body_of(tree, place), &job);
	json_decref(place->job);
	place->job = job;
	return is_made;
}

/* What each switch says of its job. */
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
		view_tree(tree);
	return status;
}

/* Delete the jobs, the children first: all, or those that this command may have created. */
static int
delete_jobs(struct tree *tree, bool created)
{
	char *path = ctl_path("/v1/jobs/", tree->name, ""), left[1024] = "";
	unsigned int deleted = 0;
	int status = CTL_OK;

	for (struct place *p = tree->place + tree->count; p-- > tree->place;) {
		struct ctl_answer answer;

		if (created && !p->may_have_created)
			continue;
		if (ctl_request(&p->ctl, "DELETE", path, NULL, 0, CTL_BODY_MAX, &answer)) {
			bool done = answer.status / 100 == 2;

			deleted += done;
			p->ctl.status = done || answer.status == 404 ? CTL_OK : CTL_REFUSED;
			if (p->ctl.status != CTL_OK)
				ctl_refused(&p->ctl, &answer);
			else if (!done && !created)
				printf("%s has no job %s\n", name_of(p), tree->name);
			free(answer.body);
		}
		if (p->ctl.status == CTL_OK)
			continue;
		status = p->ctl.status;
		snprintf(left + strlen(left), sizeof(left) - strlen(left), "%s%s",
			left[0] == '\0' ? "" : ", ", name_of(p));
	}
	free(path);
	if (left[0] != '\0')
		ctl_say("job %s may be left on %s: weirctl tree delete %s deletes it", tree->name,
			left, tree->name);
	else if (created)
		ctl_say("no switch has job %s: what had been created is deleted again", tree->name);
	if (!created)
		printf("deleted on %u of %u switches\n", deleted, tree->count);
	return status;
}

static int
create(struct tree *tree)
{
	sigset_t ends, before, pending;
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
			ctl_say("job %s: not created, because of %s", tree->name, name_of(place));
		} else if (sigpending(&pending) == 0 && sigandset(&pending, &pending, &ends) == 0 &&
			!sigisemptyset(&pending)) {
			status = CTL_REFUSED;
			ctl_say("job %s: not created: interrupted", tree->name);
		}
		/* A refused job is not there, or is somebody else's by now. Other errors are of the answer. */
		place->may_have_created =
			place->ctl.answered / 100 != 4 && place->ctl.answered != 507;
	}
	if (status != CTL_OK)
		delete_jobs(tree, true);
	else if (!tree->ctl->options.json)
		printf("created on %u switches\n", tree->count);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

int
command_tree_create(struct ctl *ctl)
{
	static int (*const steps[])(struct tree *) = {show_plan, try, check, create};
	const struct ctl_options *o = &ctl->options;
	size_t count = sizeof(steps) / sizeof(steps[0]) - o->dry_run;
	static struct tree tree;
	uint64_t ranks = 0;
	const char *wrong = NULL;
	int status;

	for (unsigned int i = 0; i < o->sizes.count; i++)
		ranks += o->sizes.value[i];
	if (o->plan != NULL && (o->sizes.count > 0 || json_object_size(o->fields) > 0))
		wrong = "a plan has the sizes and the settings: edit it";
	else if (o->plan == NULL && (ranks == 0 || ranks > CTL_RANKS_MAX))
		wrong = "--sizes N,N,... must be the numbers of hosts at the leaves, 256 together "
			"at most";
	else if (get_true(o->fields, "temporary"))
		wrong = "a tree's jobs are not temporary";
	if (wrong != NULL) {
		ctl_say("tree create: %s", wrong);
		return CTL_USAGE;
	}
	status = open_switches(&tree, ctl);
	if (status == CTL_OK && o->plan == NULL && tree.parents == 0) {
		ctl_say("tree create: %u sizes need as many leaves and at least one parent behind "
			"them in --switches",
			o->sizes.count);
		status = CTL_USAGE;
	}
	if (status == CTL_OK)
		status = look(&tree);
	if (status == CTL_OK && o->plan == NULL)
		status = make_plan(&tree, (unsigned int)ranks);
	for (size_t i = 0; i < count && status == CTL_OK; i++)
		status = steps[i](&tree);
	return close_switches(&tree, status);
}

int
command_tree_delete(struct ctl *ctl)
{
	static struct tree tree;
	int status = open_switches(&tree, ctl);

	return close_switches(&tree, status == CTL_OK ? delete_jobs(&tree, false) : status);
}
