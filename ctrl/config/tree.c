/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/tree.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/job.h"

/* The error of a value of the job's object. */
#define REFUSE(reading, path, ...) CTRL_REFUSE(reading, (path).text, __VA_ARGS__)

static struct ctrl_path
of_parent(unsigned int p, const char *key)
{
	return ctrl_path("tree.parents[%u].%s", p, key);
}

static struct ctrl_path
of_source(unsigned int i, const char *key)
{
	return ctrl_path("sources[%u]%s", i, key);
}

static const char *
text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static int64_t
number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

struct ctrl_key_text
ctrl_key_text(const uint8_t key[WEIR_KEY_BYTES])
{
	struct ctrl_key_text out;

	OPENSSL_buf2hexstr_ex(out.text, sizeof(out.text), NULL, key, WEIR_KEY_BYTES, '\0');
	return out;
}

bool
ctrl_job_in_tree(const struct ppe_job *job)
{
	return job->nb_parents > 0 || job->children;
}

const char *
ctrl_tree_hop(const struct ppe_job *job)
{
	if (job->nb_parents > 0)
		return job->children ? "middle" : "leaf";
	return job->children ? "root" : "";
}

/* -- parents */

static int
read_parent(const struct ctrl_tree_reading *reading, const json_t *object,
	struct ppe_parent *parent, unsigned int p)
{
	const struct pktbuf_identity *own = &reading->config->ppe.identity;
	const char *port = text_of(object, "port"), *key = text_of(object, "key");
	int index = ctrl_port_find(reading->config, port);

	if (index < 0 || index == reading->config->ppe.exception_port)
		return REFUSE(
			reading, of_parent(p, "port"), "\"%s\" is not the name of a port", port);
	parent->port = (uint16_t)index;
	parent->keyed = key != NULL && ctrl_parse_hex(key, parent->key, sizeof(parent->key));
	if (parent->address == own->ip)
		return REFUSE(reading, of_parent(p, "address"), "%s is the switch's own address",
			ctrl_address_text(own->ip).text);
	if (memcmp(parent->mac, own->mac, sizeof(parent->mac)) == 0)
		return REFUSE(reading, of_parent(p, "mac"),
			"it is the switch's own MAC address: each switch of a tree needs another "
			"switch.mac");
	return 0;
}

int
ctrl_tree_read(const struct ctrl_tree_reading *reading, const json_t *object, struct ppe_job *job)
{
	const json_t *tree = json_object_get(object, "tree");
	const json_t *parents = json_object_get(tree, "parents");
	int rc = 0;

	if (tree != NULL)
		ctrl_keys_read("jobs[].tree", tree, job);
	for (unsigned int p = 0; rc == 0 && p < json_array_size(parents); p++)
		rc = read_parent(reading, json_array_get(parents, p), &job->parent[p], p);
	return rc;
}

/* -- sources */

/* entry: indices in the list, by id. */
static int
read_source(const struct ctrl_tree_reading *reading, const json_t *object, struct ppe_job *job,
	unsigned int i, uint16_t entry[WEIR_SOURCES_MAX])
{
	uint8_t id = (uint8_t)number_of(object, "id");
	const json_t *ranks = json_object_get(object, "ranks");
	struct ctrl_reason reason;

	ctrl_parse_address(text_of(object, "address"), &job->address[id]);
	if (i > 0 && job->children != (ranks != NULL))
		return REFUSE(reading, of_source(i, ranks == NULL ? "" : ".ranks"),
			"the sources of a job are all hosts or all switches, which have \"ranks\"");
	job->children = ranks != NULL;
	job->ranks[id] = (uint16_t)json_integer_value(ranks);
	if (!(job->children ? ctrl_check_switch : ctrl_check_address)(
		    reading->config, job->address[id], &reason))
		return REFUSE(reading, of_source(i, ".address"), "%s", reason.text);
	for (unsigned int s = 0; job->children && s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(job, (uint8_t)s) && job->address[s] == job->address[id])
			return REFUSE(reading, of_source(i, ".address"),
				"%s is the address of %ssources[%u] already",
				ctrl_address_text(job->address[id]).text, reading->at, entry[s]);
	job->members[id / 64] |= UINT64_C(1) << (id % 64);
	entry[id] = (uint16_t)i;
	return 0;
}

/* "3", or "3..7". */
static struct ctrl_path
ranks_text(unsigned int first, unsigned int end)
{
	return first + 1 == end ? ctrl_path("%u", first) : ctrl_path("%u..%u", first, end - 1);
}

/* The sources of a tree must cover the ranks from the first one on, each once. */
static int
check_ranks(const struct ctrl_tree_reading *reading, const struct ppe_job *job,
	const uint16_t entry[WEIR_SOURCES_MAX])
{
	unsigned int next = job->first_rank;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		if (!ppe_job_has(job, (uint8_t)s))
			continue;
		if (s < job->first_rank)
			return REFUSE(reading, of_source(entry[s], ".id"),
				"%u is below tree.first_rank, %u", s, job->first_rank);
		if (s < next)
			return REFUSE(reading, of_source(entry[s], ".id"),
				"the source before it covers the ranks up to %u", next - 1);
		if (s > next)
			return REFUSE(reading, of_source(entry[s], ".id"),
				"no source covers rank %s", ranks_text(next, s).text);
		next = s + (job->children ? job->ranks[s] : 1);
		if (next > WEIR_SOURCES_MAX)
			return REFUSE(reading, of_source(entry[s], ".ranks"),
				"the ranks %s are not in 0..%d", ranks_text(s, next).text,
				WEIR_SOURCES_MAX - 1);
	}
	return 0;
}

int
ctrl_sources_read(
	const struct ctrl_tree_reading *reading, const json_t *sources, struct ppe_job *job)
{
	uint16_t entry[WEIR_SOURCES_MAX];
	int rc = 0;

	job->nb_sources = (uint16_t)json_array_size(sources);
	for (unsigned int i = 0; rc == 0 && i < job->nb_sources; i++)
		rc = read_source(reading, json_array_get(sources, i), job, i, entry);
	return rc == 0 && ctrl_job_in_tree(job) ? check_ranks(reading, job, entry) : rc;
}

/* -- the whole */

static int
check_keys(const struct ctrl_tree_reading *reading, const struct ppe_job *job)
{
	for (unsigned int p = 0; p < job->nb_parents; p++) {
		if (job->parent[p].keyed && job->fixed_generation != 0)
			return REFUSE(reading, ctrl_path("tree.parents[%u]", p),
				"a job with a fixed generation has no joins, which need a key");
		if (!job->parent[p].keyed && job->authenticated && job->fixed_generation == 0)
			return REFUSE(reading, ctrl_path("tree.parents[%u]", p),
				"the job is authenticated, and needs the key of this switch at "
				"its parent");
	}
	return 0;
}

int
ctrl_tree_check(const struct ctrl_tree_reading *reading, const struct ppe_job *job)
{
	unsigned int end = job->first_rank + ppe_job_ranks(job);

	if (!ctrl_job_in_tree(job))
		return 0;
	if (job->nb_parents > 0 && end > job->tree_ranks)
		return REFUSE(reading, ctrl_path("tree.ranks"),
			"%u ranks are too few: the sources of this switch cover the ranks %s",
			job->tree_ranks, ranks_text(job->first_rank, end).text);
	if (!job->revoke && job->fixed_generation == 0)
		return REFUSE(reading, ctrl_path("rejoin"),
			"it must be \"revoke\" in a tree, where the end of a generation reaches "
			"all switches");
	if (job->alltoall == PPE_ALLTOALL_FULL)
		return REFUSE(reading, ctrl_path("alltoall"),
			"it must be \"short\" in a tree, where a packet carries the rows of all "
			"hosts of a switch");
	if (job->block_shift > 0)
		return REFUSE(reading, ctrl_path("block_bits"),
			"it must be 32 in a tree, whose switches number blocks alike");
	if (job->children && job->group != 0)
		return REFUSE(reading, ctrl_path("results"),
			"it must be \"unicast\" if the sources are switches: each takes the "
			"results "
			"of its own job");
	return check_keys(reading, job);
}

int
ctrl_tree_read_all(
	const struct ctrl_tree_reading *reading, const json_t *object, struct ppe_job *job)
{
	const json_t *sources = json_object_get(object, "sources");
	int rc = ctrl_tree_read(reading, object, job);

	if (rc == 0 && sources != NULL)
		rc = ctrl_sources_read(reading, sources, job);
	return rc == 0 ? ctrl_tree_check(reading, job) : rc;
}

bool
ctrl_tree_same(const struct ppe_job *a, const struct ppe_job *b)
{
	return a->children == b->children && a->nb_parents == b->nb_parents &&
		a->first_rank == b->first_rank && a->tree_ranks == b->tree_ranks &&
		memcmp(a->ranks, b->ranks, sizeof(a->ranks)) == 0 &&
		memcmp(a->parent, b->parent, sizeof(a->parent)) == 0;
}

bool
ctrl_tree_collides(const struct ppe_job *a, const struct ppe_job *b)
{
	for (unsigned int p = 0; p < a->nb_parents; p++)
		for (unsigned int q = 0; q < b->nb_parents; q++)
			if (a->parent[p].address == b->parent[q].address &&
				a->parent[p].job == b->parent[q].job)
				return true;
	return false;
}

/* -- as it is shown */

json_t *
ctrl_tree_shown(const struct ppe_job *job, const json_t *object)
{
	json_t *shown = ctrl_job_in_tree(job) ? json_object() : NULL, *parents, *parent;
	size_t p;

	if (shown == NULL)
		return NULL;
	if (job->children)
		json_object_set_new(
			shown, "sources", json_deep_copy(json_object_get(object, "sources")));
	if (job->nb_parents > 0)
		json_object_set_new(shown, "tree", json_deep_copy(json_object_get(object, "tree")));
	parents = json_object_get(json_object_get(shown, "tree"), "parents");
	json_array_foreach (parents, p, parent) {
		json_object_del(parent, "key");
		json_object_del(parent, "key_file");
		json_object_set_new(parent, "udp_port", json_integer(job->parent[p].udp));
	}
	return shown;
}

const json_t *
ctrl_tree_child(const json_t *shown, unsigned int source)
{
	const json_t *sources = json_object_get(shown, "sources");

	for (size_t i = 0; i < json_array_size(sources); i++)
		if (number_of(json_array_get(sources, i), "id") == source)
			return json_array_get(sources, i);
	return NULL;
}

const json_t *
ctrl_tree_parent(const json_t *shown, unsigned int parent)
{
	return json_array_get(json_object_get(json_object_get(shown, "tree"), "parents"), parent);
}
