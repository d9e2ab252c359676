/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job of a tree of switches has beyond its settings (docs/tree.md): its parents, and sources
 * that are switches. The configuration, the control API and the state file have the same JSON, in
 * which only the parents' keys differ.
 */
#ifndef CTRL_CONFIG_TREE_H
#define CTRL_CONFIG_TREE_H

#include "ctrl/config/config.h"
#include "ctrl/config/schema.h"

#define CTRL_URL_BYTES 256

/* A key as 64 hexadecimal digits. Erase it after use. */
struct ctrl_key_text {
	char text[2 * WEIR_KEY_BYTES + 1];
};
struct ctrl_key_text ctrl_key_text(const uint8_t key[WEIR_KEY_BYTES]);

/* Keys of a job's object. at: its path, such as "jobs[]."; must: NULL: required; "": optional. */
/* clang-format off */
#define CTRL_TREE_KEYS(at)                                                                         \
	{at "tree", CTRL_OBJECT, "", "", 0, 0, NULL, \
		.help = "The job's place in a [tree of switches](tree.md), whose jobs have some " \
		"[settings](tree.md#timeouts) in common. Absent: the switch is the root, or " \
		"alone."}, \
	{at "tree.ranks", CTRL_INTEGER, "ranks", NULL, 1, WEIR_SOURCES_MAX, NULL, \
		.help = "Number of ranks in the whole tree. Hosts are told it as the size of the " \
		"job."}, \
	{at "tree.first_rank", CTRL_INTEGER, "", NULL, 0, WEIR_SOURCES_MAX - 1, NULL, \
		.help = "The lowest rank below this switch: the id of its first source, and its " \
		"own source id at its parents."}, \
	{at "tree.parents", CTRL_ARRAY, "", NULL, 1, PPE_PARENTS_MAX, NULL,                        \
		.help = "Switches that this one contributes to. They share the blocks."},          \
	{at "tree.parents[]", CTRL_OBJECT, "", "", 0, 0, NULL, .help = "A parent."},               \
	{at "tree.parents[].name", CTRL_NAME, "", NULL, 1, PPE_JOB_NAME_MAX - 1, NULL,             \
		.help = "Name in output, such as the parent's `switch.name`; unique in the job."}, \
	{at "tree.parents[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL, \
		.help = "The parent's IPv4 address; unique in the job. It may be outside the " \
		"switch's subnet."}, \
	{at "tree.parents[].mac", CTRL_MAC, "", NULL, 0, 0, NULL,                                  \
		.help = "The parent's MAC address, or that of a router on the way to it."},        \
	{at "tree.parents[].port", CTRL_NAME, "", NULL, 1, 31, NULL,                               \
		.help = "Name of this switch's port to the parent."},                              \
	{at "tree.parents[].udp_port", CTRL_INTEGER, "", "12001", 1, 65535, NULL,                  \
		.help = "The parent's `switch.port_extended`."},                                   \
	{at "tree.parents[].job", CTRL_INTEGER, "", NULL, 0, WEIR_JOBS_MAX - 1, NULL,              \
		.help = "Id of the job at the parent."},                                           \
	{at "tree.parents[].api", CTRL_TEXT, "", "", 1, CTRL_URL_BYTES - 1, NULL, \
		.help = "URL of the parent's control API, for tools that follow a block through " \
		"the tree. The switch only shows it."},

/* Keys of an entry of a job's "sources". */
#define CTRL_CHILD_KEYS(at, must)                                                                  \
	{at "sources[].ranks", CTRL_INTEGER, "ranks", must, 1, WEIR_SOURCES_MAX, NULL, \
		.help = "The source is a switch, a leaf of a tree, and covers so many ranks, " \
		"from its id on. Absent: it is a host."}, \
	{at "sources[].name", CTRL_NAME, "", "", 1, PPE_JOB_NAME_MAX - 1, NULL,                    \
		.help = "The source's name for people. The switch only shows it."},                \
	{at "sources[].api", CTRL_TEXT, "", "", 1, CTRL_URL_BYTES - 1, NULL, \
		.help = "URL of the control API of a source that is a switch; as of " \
		"`tree.parents[]`."},

/* Both sets of keys for jobs that are made over the API. Their sources are switches, which do not
 * join over the API, and keys are values. */
#define CTRL_TREE_API_KEYS(at)                                                                     \
	CTRL_TREE_KEYS(at)                                                                         \
	{at "tree.parents[].key", CTRL_TEXT, "", "", .min = 2 * WEIR_KEY_BYTES, \
		.max = 2 * WEIR_KEY_BYTES}, \
	{at "sources", CTRL_ARRAY, "", "", .min = 1, .max = WEIR_SOURCES_MAX},                     \
	{at "sources[]", CTRL_OBJECT, "", .fallback = ""},                                         \
	{at "sources[].id", CTRL_INTEGER, "", NULL, .max = WEIR_SOURCES_MAX - 1},                  \
	{at "sources[].address", CTRL_ADDRESS, "", .fallback = NULL},                              \
	CTRL_CHILD_KEYS(at, NULL)
/* clang-format on */

/* The place of a job's object in a text that passed ctrl_schema_check. Functions that take it
 * return 0, or -EINVAL with the error's path and reason. */
struct ctrl_tree_reading {
	const struct ctrl_config *config; /* has the switch's address and ports */
	const char *at; /* path of the job's object, with a dot at the end: "jobs[3].", or "" */
	struct ctrl_error *error;
};

/* "leaf", "middle" or "root" of a tree; "": the job is in no tree. A literal. */
const char *ctrl_tree_hop(const struct ppe_job *job);

/* Read "tree", if the object has it, into the job. It reads the "key" of a parent; the caller reads
 * key files. */
int ctrl_tree_read(
	const struct ctrl_tree_reading *reading, const json_t *object, struct ppe_job *job);

/* Read the list of "sources" into the job, after its tree. */
int ctrl_sources_read(
	const struct ctrl_tree_reading *reading, const json_t *sources, struct ppe_job *job);

/* Is the job part of a tree? */
bool ctrl_job_in_tree(const struct ppe_job *job);

/* If the job is in a tree, do its settings suit it? Call it when the job is complete, with its
 * keys. */
int ctrl_tree_check(const struct ctrl_tree_reading *reading, const struct ppe_job *job);

/* Read "tree" and "sources" of an object with CTRL_TREE_API_KEYS, if it has them, and check the
 * job. */
int ctrl_tree_read_all(
	const struct ctrl_tree_reading *reading, const json_t *object, struct ppe_job *job);

/* Are both jobs at the same place of the same tree, with the same keys of the parents? Their
 * sources may have other addresses. */
bool ctrl_tree_same(const struct ppe_job *a, const struct ppe_job *b);

/* Would both jobs be the same source of a parent's job? Its packets could be for either. */
bool ctrl_tree_collides(const struct ppe_job *a, const struct ppe_job *b);

/* "tree" and "sources" of a job's object, as the API shows them: without keys, key files and
 * sources that are hosts. A new object; NULL: the job is in no tree, or there is no memory. */
json_t *ctrl_tree_shown(const struct ppe_job *job, const json_t *object);

/* The entry of a source, or of a parent, in ctrl_tree_shown; NULL: there is none. */
const json_t *ctrl_tree_child(const json_t *shown, unsigned int source);
const json_t *ctrl_tree_parent(const json_t *shown, unsigned int parent);

#endif
