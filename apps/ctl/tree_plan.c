/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a job on a tree of switches: made, checked and shown. */
#include "apps/ctl/tree.h"

#include <err.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "ctrl/api/units.h"
#include "ctrl/config/job_settings.h"

#define HEADERS  58 /* bytes of Ethernet, IPv4, UDP and Weir's extended header */
#define ETHERNET 14

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

/* A setting's value in a job, or its default, as text. */
static struct units_text
setting(json_t *job, const char *key)
{
	json_t *value = get(job, key);
	char *text = json_dumps(value, JSON_ENCODE_ANY);
	struct units_text out;

	snprintf(out.text, sizeof(out.text), "%s",
		json_is_string(value)  ? json_string_value(value)
			: text != NULL ? text
				       : row_of(key)->value);
	free(text);
	return out;
}

/* Clipped to [0, INT32_MAX]: no setting is outside, and a switch would refuse it. */
static uint32_t
setting_number(json_t *job, const char *key)
{
	return (uint32_t)fmin(fmax(strtod(setting(job, key).text, NULL), 0), INT32_MAX);
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
	return HEADERS + 4 * setting_number(job, "elements") + WEIR_BITMAP_BYTES +
		(get_true(job, "authenticate") ? WEIR_TAG_BYTES : 0) +
		(strcmp(setting(job, "integrity").text, "none") != 0 ? WEIR_CRC_BYTES : 0);
}

/* -- the plan that --switches and --sizes make */

/* The settings of the leaves; of the parents: those that must be equal, with twice the time. */
static json_t *
new_job(const struct tree *tree, bool parent)
{
	json_t *fields = tree->ctl->options.fields, *value;
	json_t *job = json_pack("{s:s}", "name", tree->name);
	uint32_t timeout = setting_number(fields, "timeout_ms"),
		 dead = setting_number(fields, "dead_after_ms");
	const char *key;

	json_object_foreach (fields, key, value)
		if (!parent || row_of(key) == NULL || row_of(key)->tree.must_be_equal)
			json_object_set(job, key, value);
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

	tree->plan = json_pack("{s:s, s:o}", "name", tree->name, "switches", list);
	for (unsigned int i = 0, first = 0; i < tree->count; i++) {
		struct place *place = &tree->place[i];
		unsigned int size = i < tree->parents ? 0 : sizes[i - tree->parents];
		json_t *job = i < tree->parents ? new_parent(tree, sizes)
						: new_leaf(tree, place, first, size, ranks);

		if (job == NULL)
			return CTL_REFUSED;
		first += size;
		json_object_set(place->entry, "address", get(place->status, "address"));
		json_object_set_new(place->entry, "job", job);
		json_array_append(list, place->entry);
	}
	return CTL_OK;
}

/* -- checks of a plan, which may be edited */

static bool __attribute__((format(printf, 4, 5))) wrong(const struct tree *tree,
	const struct place *child, const struct place *parent, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		err(CTL_REFUSED, "plan");
	va_end(arguments);
	ctl_say("job %s, %s below %s: %s", tree->name, place_name(child), place_name(parent), text);
	free(text);
	return false;
}

/* Of docs/tree.md, "Timeouts": what a leaf checks when its join is accepted. */
static bool
check_settings(const struct tree *tree, const struct place *child, const struct place *parent)
{
	json_t *below = place_job(child), *above = place_job(parent);
	uint32_t timeout = setting_number(below, "timeout_ms"),
		 dead = setting_number(below, "dead_after_ms"),
		 least = ppe_parent_timeout_least(timeout),
		 timeout_above = setting_number(above, "timeout_ms"),
		 dead_above = setting_number(above, "dead_after_ms");

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *key = settings[i].key;
		struct units_text a = setting(below, key), b = setting(above, key);

		if (settings[i].tree.must_be_equal && strcmp(a.text, b.text) != 0)
			return wrong(tree, child, parent, "%s is %s and %s: it must be equal", key,
				a.text, b.text);
	}
	if (strcmp(setting(below, "elements").text, "0") == 0)
		return wrong(tree, child, parent,
			"elements is 0, and each switch would choose a number of its own: give "
			"one");
	if (strcmp(setting(below, "rejoin").text, "revoke") != 0)
		return wrong(tree, child, parent, "rejoin must be revoke");
	if (strcmp(setting(below, "policy").text, "wait") != 0 && timeout_above < least)
		return wrong(tree, child, parent,
			"timeout_ms is %u and %u: the parent's must be at least %u (1.25 times, "
			"and 1 ms)",
			timeout, timeout_above, least);
	if (strcmp(setting(below, "policy").text, "partial") == 0 && dead_above != 0 &&
		dead_above < dead + timeout) /* 0: never */
		return wrong(tree, child, parent,
			"dead_after_ms is %u and %u: the parent's must be at least %u (and "
			"timeout_ms), or 0",
			dead, dead_above, dead + timeout);
	return true;
}

/* NaN: there is no such port. */
static double
mtu_of(const struct place *place, const char *port)
{
	json_t *ports = get_by_text(get(place->ports, "ports"), "name");
	double mtu = get_number(json_object_get(ports, port), "mtu");

	json_decref(ports);
	return mtu;
}

/* The parent knows the child by its first rank, its ranks and its address, and the child knows the parent's. */
static bool
check_link(struct tree *tree, const struct place *child, json_t *link, const struct place *parent)
{
	json_t *sources = get(place_job(parent), "sources"), *job = place_job(child),
	       *source = NULL;
	unsigned int first = tree_count(job, "tree.first_rank"), ranks = ranks_of(job);
	double mtu;

	for (size_t i = 0; i < json_array_size(sources) && source == NULL; i++)
		if (tree_count(json_array_get(sources, i), "id") == first)
			source = json_array_get(sources, i);
	if (source == NULL || tree_count(source, "ranks") != ranks)
		return wrong(tree, child, parent, "the parent has no source %u of %u ranks", first,
			ranks);
	if (strcmp(get_text(source, "address"), get_text(child->status, "address")) != 0)
		return wrong(tree, child, parent,
			"the parent's source %u has the address %s, and %s is at %s", first,
			get_text(source, "address"), place_name(child),
			get_text(child->status, "address"));
	if (strcmp(get_text(link, "address"), get_text(parent->status, "address")) != 0)
		return wrong(tree, child, parent, "its parent has the address %s, and %s is at %s",
			get_text(link, "address"), place_name(parent),
			get_text(parent->status, "address"));
	if (tree_ranks(job) != tree_ranks(place_job(parent)))
		return wrong(tree, child, parent, "they are of trees of %u and %u ranks",
			tree_ranks(job), tree_ranks(place_job(parent)));
	mtu = mtu_of(child, get_text(link, "port"));
	if (!(mtu > 0))
		return wrong(tree, child, parent, "%s has no port %s", place_name(child),
			get_text(link, "port"));
	if (mtu < bytes_up(job) - ETHERNET)
		return wrong(tree, child, parent,
			"a packet upward has up to %.0f bytes, and port %s an MTU of %.0f: use "
			"fewer "
			"elements",
			bytes_up(job) - ETHERNET, get_text(link, "port"), mtu);
	return check_settings(tree, child, parent);
}

/* A block's parent is the one at its place in the list, so children of one parent list the same ones. */
static bool
check_order(const struct tree *tree, const struct place *place)
{
	json_t *links = get(place_job(place), "tree.parents");

	for (const struct place *other = tree->place; other < place; other++) {
		json_t *others = get(place_job(other), "tree.parents");
		size_t alike = 0;
		bool shared = false;

		for (size_t i = 0; i < json_array_size(links); i++)
			for (size_t k = 0; k < json_array_size(others); k++)
				if (strcmp(get_text(json_array_get(links, i), "name"),
					    get_text(json_array_get(others, k), "name")) == 0) {
					shared = true;
					alike += i == k;
				}
		if (shared &&
			(alike != json_array_size(links) || alike != json_array_size(others))) {
			ctl_say("%s and %s share a parent: both must list the same parents, in the "
				"same order",
				place_name(other), place_name(place));
			return false;
		}
	}
	return true;
}

/* Keys must not cross the network in clear text. A switch would refuse them, but only once it has them. */
static bool
check_private(const struct place *place)
{
	if (!get_true(place_job(place), "authenticate") ||
		strncmp(place->ctl.address, "http://", 7) != 0)
		return true;
	ctl_say("%s: the keys of an authenticated job go over https or a Unix socket alone: %s is "
		"neither",
		place_name(place), place->ctl.address);
	return false;
}

/* Is a switch of the plan this source of a parent? */
static bool
has_child(const struct tree *tree, const struct place *parent, json_t *source)
{
	for (unsigned int i = 0; i < tree->count; i++) {
		json_t *links = get(place_job(&tree->place[i]), "tree.parents");

		if (tree_count(place_job(&tree->place[i]), "tree.first_rank") !=
			tree_count(source, "id"))
			continue;
		for (size_t k = 0; k < json_array_size(links); k++)
			if (strcmp(get_text(json_array_get(links, k), "name"),
				    place_name(parent)) == 0)
				return true;
	}
	return false;
}

static bool
check_parents(struct tree *tree, const struct place *place)
{
	json_t *job = place_job(place), *links = get(job, "tree.parents");

	if (strcmp(get_text(job, "name"), tree->name) != 0 ||
		json_array_size(links) + json_array_size(get(job, "sources")) == 0) {
		ctl_say("%s: its \"job\" must have the name %s, and \"tree\" with parents, or "
			"\"sources\", or both",
			place_name(place), tree->name);
		return false;
	}
	for (size_t i = 0; i < json_array_size(links); i++) {
		json_t *link = json_array_get(links, i);
		const struct place *parent = tree_find(tree, get_text(link, "name"));

		if (parent == NULL || parent >= place) {
			ctl_say("%s: its parent %s must be in the plan, and before it",
				place_name(place), get_text(link, "name"));
			return false;
		}
		if (!check_link(tree, place, link, parent))
			return false;
	}
	return check_order(tree, place) && check_private(place);
}

static bool
check_children(const struct tree *tree, const struct place *place)
{
	json_t *sources = get(place_job(place), "sources");

	for (size_t i = 0; i < json_array_size(sources); i++)
		if (!has_child(tree, place, json_array_get(sources, i))) {
			ctl_say("%s: no switch below it in the plan has the first rank %u",
				place_name(place), tree_count(json_array_get(sources, i), "id"));
			return false;
		}
	return true;
}

int
tree_check(struct tree *tree)
{
	for (unsigned int i = 0; i < tree->count; i++)
		if (!check_parents(tree, &tree->place[i]))
			return CTL_REFUSED;
	for (unsigned int i = 0; i < tree->count; i++)
		if (!check_children(tree, &tree->place[i]))
			return CTL_REFUSED;
	return CTL_OK;
}

/* -- a plan as people read it */

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
id(json_t *entry, FILE *out)
{
	if (get(entry, "job.id") != NULL)
		fputs(units_exact(get_number(entry, "job.id")).text, out);
	else
		fputs("free", out);
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
timeout(json_t *entry, FILE *out)
{
	fputs(units_age(setting_number(get(entry, "job"), "timeout_ms") / 1e3).text, out);
}

static void
dead_after(json_t *entry, FILE *out)
{
	double dead = setting_number(get(entry, "job"), "dead_after_ms");

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
		{"JOB ID", NULL, CELL_PRINT_RIGHT, 0, 3, id},
		{"RANKS", NULL, CELL_PRINT, 0, 0, tree_print_ranks},
		{"PARENTS", NULL, CELL_PRINT, 1, 0, links},
		{"TIMEOUT", NULL, CELL_PRINT_RIGHT, 0, 1, timeout},
		{"DEAD AFTER", NULL, CELL_PRINT_RIGHT, 0, 3, dead_after},
		{"BYTES UP", NULL, CELL_PRINT_RIGHT, 0, 2, packet},
	};

	json_t *job = place_job(&tree->place[0]);

	VIEW_TABLE(columns, get(tree->plan, "switches"), NULL, out, width);
	text_printf(out, 2, width,
		"job %s: %u ranks, %s of %s, %s elements a block, window %s, policy %s%s",
		tree->name, tree_ranks(job), setting(job, "op").text, setting(job, "type").text,
		setting(job, "elements").text, setting(job, "window").text,
		setting(job, "policy").text,
		get_true(job, "authenticate") ? ", authenticated" : "");
}
