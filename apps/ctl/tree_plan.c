/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a job on a tree of switches: made, checked and shown. Each switch checks its own job. */
#include "apps/ctl/tree.h"

#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "ctrl/api/units.h"
#include "ctrl/config/job_settings.h"

#define HEADERS 58 /* bytes of Ethernet, IPv4, UDP and Weir's extended header */

/* -- settings */

static const struct row {
	const char *key, *value;
	struct ctrl_tree_rule tree;
} settings[] = {
#define X(key, where, change, needs, tree, kind, field, unit, value, ...)                          \
	{#key, value, CTRL_TREE_##tree},
	CTRL_JOB_SETTINGS(X)
#undef X
};

/* NULL: it is no setting. */
static const struct row *
row_of(const char *key)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strcmp(settings[i].key, key) == 0)
			return &settings[i];
	return NULL;
}

/* Of the command line, or the default. */
static json_int_t
given_ms(const struct tree *tree, const char *key)
{
	json_t *value = json_object_get(tree->ctl->options.fields, key);

	return value == NULL ? atoll(row_of(key)->value) : json_integer_value(value);
}

/* Ranks of a source in a parent's job. */
unsigned int
tree_count(json_t *from, const char *key)
{
	double count = get_number(from, key);

	return count >= 0 && count <= CTL_RANKS_MAX ? (unsigned int)count : 0;
}

/* How many ranks a job's sources have. */
static unsigned int
ranks_of(json_t *job)
{
	json_t *sources = get(job, "sources");
	unsigned int ranks = 0;

	if (sources == NULL)
		return tree_count(job, "size");
	for (size_t i = 0; i < json_array_size(sources); i++)
		ranks += tree_count(json_array_get(sources, i), "ranks");
	return ranks;
}

static unsigned int
tree_ranks(json_t *job)
{
	return get(job, "tree") != NULL ? tree_count(job, "tree.ranks") : ranks_of(job);
}

/* The largest packet to a parent: elements of 4 bytes (of 8: half as many), bitmap, and tag or CRC. */
static double
bytes_up(json_t *job)
{
	return HEADERS + 4 * get_number(job, "elements") + WEIR_BITMAP_BYTES +
		(get_true(job, "authenticate") ? WEIR_TAG_BYTES : 0) +
		(strcmp(get_text(job, "integrity"), "none") != 0 ? WEIR_CRC_BYTES : 0);
}

/* -- the plan that --switches and --sizes make */

/* The settings of the leaves; of the parents: those that must be equal, with twice the time. */
static json_t *
new_job(const struct tree *tree, bool parent)
{
	json_t *fields = tree->ctl->options.fields, *value;
	json_t *job = json_pack("{s:s}", "name", tree->name);
	json_int_t timeout = given_ms(tree, "timeout_ms"), dead = given_ms(tree, "dead_after_ms");
	const char *key;

	json_object_foreach (fields, key, value)
		if (!parent || row_of(key) == NULL || row_of(key)->tree.must_be_equal)
			json_object_set(job, key, value);
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
	json_t *list = get(place->ports, "ports");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *neighbor = get_text(json_array_get(list, i), "neighbor");

		if (strcmp(neighbor, place_name(other)) == 0 ||
			strcmp(neighbor, get_text(other->status, "name")) == 0)
			return json_array_get(list, i);
	}
	return NULL;
}

static json_t *
new_parent(struct tree *tree, const unsigned int *sizes)
{
	json_t *job = new_job(tree, true), *sources = json_array();
	unsigned int leaves = tree->count - tree->parents, first = 0;

	for (unsigned int i = 0; i < leaves; first += sizes[i++]) {
		const struct place *leaf = &tree->place[tree->parents + i];

		json_array_append_new(sources,
			json_pack("{s:i, s:s, s:i, s:s, s:s}", "id", (int)first, "address",
				get_text(leaf->status, "address"), "ranks", (int)sizes[i], "name",
				place_name(leaf), "api", get_text(leaf->entry, "api")));
	}
	json_object_set_new(job, "size", json_integer(leaves));
	json_object_set_new(job, "sources", sources);
	return job;
}

/* first: its first rank; ranks: of the tree. NULL: it has no port to a parent. */
static json_t *
new_leaf(struct tree *tree, const struct place *place, unsigned int first, unsigned int size,
	unsigned int ranks)
{
	json_t *job = new_job(tree, false), *parents = json_array();

	for (unsigned int i = 0; i < tree->parents; i++) {
		const struct place *parent = &tree->place[i];
		json_t *port = port_to(place, parent), *s = parent->status;

		if (port == NULL) {
			ctl_say("%s has no port to %s: set \"neighbor\" of the port to \"%s\" in "
				"its configuration, or write a plan",
				place_name(place), place_name(parent), place_name(parent));
			json_decref(parents);
			json_decref(job);
			return NULL;
		}
		json_array_append_new(parents,
			json_pack("{s:s, s:s, s:s, s:s, s:O*, s:s}", "name", place_name(parent),
				"address", get_text(s, "address"), "mac", get_text(s, "mac"),
				"port", get_text(port, "name"), "udp_port", get(s, "udp_port_ext"),
				"api", get_text(parent->entry, "api")));
	}
	json_object_set_new(job, "size", json_integer(size));
	json_object_set_new(job, "tree",
		json_pack("{s:i, s:i, s:o}", "ranks", (int)ranks, "first_rank", (int)first,
			"parents", parents));
	return job;
}

/* "4,4". Returns how many, and their sum; 0: they are none. */
unsigned int
tree_sizes(const char *text, unsigned int sizes[TREE_SWITCHES_MAX], unsigned int *sum)
{
	unsigned int count = 0;
	char *end;

	for (*sum = 0; count < TREE_SWITCHES_MAX; text = end + 1) {
		unsigned long size = strtoul(text, &end, 10);

		if (end == text || size < 1 || size > CTL_RANKS_MAX || *sum + size > CTL_RANKS_MAX)
			return 0;
		sizes[count++] = (unsigned int)size;
		*sum += (unsigned int)size;
		if (*end != ',')
			return *end == '\0' ? count : 0;
	}
	return 0;
}

int
tree_plan(struct tree *tree, const unsigned int *sizes, unsigned int ranks)
{
	json_t *list = json_array();

	for (unsigned int i = 0, first = 0; i < tree->count; i++) {
		struct place *place = &tree->place[i];
		unsigned int size = i < tree->parents ? 0 : sizes[i - tree->parents];
		json_t *job = i < tree->parents ? new_parent(tree, sizes)
						: new_leaf(tree, place, first, size, ranks);

		first += size;
		json_object_set(place->entry, "address", get(place->status, "address"));
		json_object_set_new(place->entry, "job", job);
		json_array_append(list, place->entry);
		if (job == NULL) {
			json_decref(list);
			return CTL_REFUSED;
		}
	}
	json_object_set_new(tree->plan, "switches", list);
	return CTL_OK;
}

/* -- checks between switches, of the jobs that they would make */

#define WRONG(child, parent, format, ...)                                                          \
	(ctl_say("%s below %s: " format, place_name(child), place_name(parent), __VA_ARGS__), false)

static struct units_text
as_text(json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY);
	struct units_text out;

	snprintf(out.text, sizeof(out.text), "%s",
		json_is_string(value)  ? json_string_value(value)
			: text != NULL ? text
				       : "-");
	free(text);
	return out;
}

/* Of docs/tree.md, "Timeouts": what a leaf checks when its join is accepted. */
static bool
check_settings(const struct place *child, const struct place *parent)
{
	double timeout = get_number(child->made, "timeout_ms"),
	       dead = get_number(child->made, "dead_after_ms"),
	       timeout_above = get_number(parent->made, "timeout_ms"),
	       dead_above = get_number(parent->made, "dead_after_ms"),
	       least = ppe_parent_timeout_least((uint32_t)timeout);
	const char *policy = get_text(child->made, "policy");

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *key = settings[i].key;
		json_t *a = get(child->made, key), *b = get(parent->made, key);

		if (settings[i].tree.must_be_equal && !json_equal(a, b))
			return WRONG(child, parent, "%s is %s and %s: it must be equal", key,
				as_text(a).text, as_text(b).text);
	}
	if (strcmp(policy, "wait") != 0 && timeout_above < least)
		return WRONG(child, parent,
			"timeout_ms is %.0f and %.0f: the parent's must be at least %.0f (1.25 "
			"times, and 1 ms)",
			timeout, timeout_above, least);
	if (strcmp(policy, "partial") == 0 && dead_above > 0 && dead_above < dead + timeout)
		return WRONG(child, parent,
			"dead_after_ms is %.0f and %.0f: the parent's must be at least %.0f (and "
			"timeout_ms), or 0",
			dead, dead_above, dead + timeout);
	return true;
}

/* The parent knows the child by its first rank, its ranks and its address, and the child knows the parent's. */
static bool
check_link(const struct place *child, json_t *link, const struct place *parent)
{
	json_t *sources = get(parent->made, "sources"), *source = NULL;
	unsigned int first = tree_count(child->made, "tree.first_rank"),
		     ranks = ranks_of(child->made);
	const char *at = get_text(child->status, "address"),
		   *above = get_text(parent->status, "address");

	for (size_t i = 0; i < json_array_size(sources) && source == NULL; i++)
		if (tree_count(json_array_get(sources, i), "id") == first)
			source = json_array_get(sources, i);
	if (source == NULL || tree_count(source, "ranks") != ranks)
		return WRONG(
			child, parent, "the parent has no source %u of %u ranks", first, ranks);
	if (strcmp(get_text(source, "address"), at) != 0)
		return WRONG(child, parent,
			"the parent's source %u has the address %s, and %s is at %s", first,
			get_text(source, "address"), place_name(child), at);
	if (strcmp(get_text(link, "address"), above) != 0)
		return WRONG(child, parent, "its parent has the address %s, and %s is at %s",
			get_text(link, "address"), place_name(parent), above);
	if (tree_ranks(child->made) != tree_ranks(parent->made))
		return WRONG(child, parent, "they are of trees of %u and %u ranks",
			tree_ranks(child->made), tree_ranks(parent->made));
	return check_settings(child, parent);
}

/* A block's parent is the one at its place in the list, so children of one parent list the same ones. */
static bool
check_order(const struct place *a, const struct place *b)
{
	json_t *links = get(a->made, "tree.parents"), *others = get(b->made, "tree.parents");
	size_t alike = 0, shared = 0;

	for (size_t i = 0; i < json_array_size(links); i++)
		for (size_t k = 0; k < json_array_size(others); k++)
			if (strcmp(get_text(json_array_get(links, i), "name"),
				    get_text(json_array_get(others, k), "name")) == 0) {
				shared++;
				alike += i == k;
			}
	if (shared == 0 || (alike == json_array_size(links) && alike == json_array_size(others)))
		return true;
	ctl_say("%s and %s share a parent: both must list the same parents, in the same order",
		place_name(a), place_name(b));
	return false;
}

static bool
check_place(struct tree *tree, const struct place *place)
{
	json_t *links = get(place->made, "tree.parents");

	if (strcmp(get_text(place->made, "name"), tree->name) != 0 ||
		json_array_size(links) + json_array_size(get(place->made, "sources")) == 0) {
		ctl_say("%s: its \"job\" must have the name %s, and \"tree\" with parents, or "
			"\"sources\", or both",
			place_name(place), tree->name);
		return false;
	}
	for (size_t i = 0; i < json_array_size(links); i++) {
		json_t *link = json_array_get(links, i);
		struct place *parent = tree_find(tree, get_text(link, "name"));

		if (parent == NULL || parent >= place) {
			ctl_say("%s: its parent %s must be in the plan, and before it",
				place_name(place), get_text(link, "name"));
			return false;
		}
		parent->children++;
		if (!check_link(place, link, parent))
			return false;
	}
	for (const struct place *other = tree->place; other < place; other++)
		if (!check_order(other, place))
			return false;
	return true;
}

int
tree_check(struct tree *tree)
{
	for (unsigned int i = 0; i < tree->count; i++)
		if (!check_place(tree, &tree->place[i]))
			return CTL_REFUSED;
	for (unsigned int i = 0; i < tree->count; i++) {
		const struct place *place = &tree->place[i];
		size_t sources = json_array_size(get(place->made, "sources"));

		if (place->children == sources)
			continue;
		ctl_say("%s: it has %zu sources, and %u switches of the plan are below it",
			place_name(place), sources, place->children);
		return CTL_REFUSED;
	}
	return CTL_OK;
}

/* -- the jobs as people read them */

void
tree_print_role(json_t *entry, FILE *out)
{
	bool below = get(entry, "job.tree") != NULL, above = get(entry, "job.sources") != NULL;

	fputs(below && above ? "middle" : below ? "leaf" : above ? "root" : "-", out);
}

void
tree_print_ranks(json_t *entry, FILE *out)
{
	unsigned int first = tree_count(get(entry, "job"), "tree.first_rank"),
		     count = ranks_of(get(entry, "job"));

	if (count > 0)
		fprintf(out, "%u..%u", first, first + count - 1);
	else
		fputc('-', out);
}

static void
links(json_t *entry, FILE *out)
{
	json_t *list = get(entry, "job.tree.parents");

	for (size_t i = 0; i < json_array_size(list); i++)
		fprintf(out, "%s%s by %s", i > 0 ? ", " : "",
			get_text(json_array_get(list, i), "name"),
			get_text(json_array_get(list, i), "port"));
	if (json_array_size(list) == 0)
		fputc('-', out);
}

static void
dead_after(json_t *entry, FILE *out)
{
	double dead = get_number(entry, "job.dead_after_ms");

	fputs(dead > 0 ? units_age(dead / 1e3).text : "never", out);
}

static void
packet(json_t *entry, FILE *out)
{
	if (get(entry, "job.tree") != NULL)
		fprintf(out, "%.0f", bytes_up(get(entry, "job")));
	else
		fputc('-', out);
}

void
tree_print_plan(const struct tree *tree, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"SWITCH", "name", CELL_TEXT, 1, 0, NULL},
		{"ROLE", NULL, CELL_PRINT, 0, 0, tree_print_role},
		{"ADDRESS", "address", CELL_TEXT, 0, 2, NULL},
		{"API", "api", CELL_TEXT, 1, 4, NULL},
		{"JOB ID", "job.id", CELL_EXACT, 0, 3, NULL},
		{"RANKS", NULL, CELL_PRINT, 0, 0, tree_print_ranks},
		{"PARENTS", NULL, CELL_PRINT, 1, 0, links},
		{"TIMEOUT", "job.timeout_ms", CELL_MS, 0, 1, NULL},
		{"DEAD AFTER", NULL, CELL_PRINT_RIGHT, 0, 3, dead_after},
		{"BYTES UP", NULL, CELL_PRINT_RIGHT, 0, 2, packet},
	};
	json_t *job = tree->place[0].made, *rows = json_array();

	for (const struct place *p = tree->place; p < tree->place + tree->count; p++)
		json_array_append_new(rows,
			json_pack("{s:s, s:s, s:s, s:O}", "name", place_name(p), "address",
				get_text(p->status, "address"), "api", get_text(p->entry, "api"),
				"job", p->made));
	VIEW_TABLE(columns, rows, NULL, out, width);
	json_decref(rows);
	text_printf(out, 2, width,
		"job %s: %u ranks, %s of %s, %.0f elements a block, window %.0f, policy %s%s",
		tree->name, tree_ranks(job), get_text(job, "op"), get_text(job, "type"),
		get_number(job, "elements"), get_number(job, "window"), get_text(job, "policy"),
		get_true(job, "authenticate") ? ", authenticated" : "");
}
