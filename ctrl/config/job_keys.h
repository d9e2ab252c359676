/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a job's object beyond its settings: its identity, and its place in a tree of switches,
 * for the configuration, the control API, the state file and weirctl. */
#ifndef CTRL_CONFIG_JOB_KEYS_H
#define CTRL_CONFIG_JOB_KEYS_H

#include "ctrl/config/job_settings.h"
#include "ctrl/config/schema.h"

#define CTRL_URL_BYTES 256

/* Keys of a job other than its settings. must, must_size, must_id: NULL: required, "": not. */
#define CTRL_JOB_IDENTITY(at, must, must_size, must_id)                                            \
	{at "name", CTRL_NAME, "", must, 1, PPE_JOB_NAME_MAX - 1, NULL,                            \
		.help = "Name of the job; unique."},                                               \
		{at "size", CTRL_INTEGER, "", must_size, 1, WEIR_SOURCES_MAX, NULL,                \
			.help = "Number of sources; of a tree those of this switch."},             \
		{at "id", CTRL_INTEGER, "", must_id, 0, WEIR_JOBS_MAX - 1, NULL,                   \
			.help = "Id of the job on the wire; by default, the lowest free one."},

#define CTRL_JOB_FIELD(field)    CTRL_FIELD(struct ppe_job, field)
#define CTRL_PARENT_FIELD(field) CTRL_FIELD(struct ppe_parent, field)

/* Keys of a job's object. at: its path, such as "jobs[]."; must: NULL: required; "": optional. */
/* clang-format off */
#define CTRL_TREE_KEYS(at)                                                                         \
	{at "tree", CTRL_OBJECT, "", "", 0, 0, NULL, \
		.help = "The job's place in a [tree of switches](tree.md), whose jobs have some " \
		"[settings](tree.md#timeouts) in common. Absent: the switch is the root, or " \
		"alone."}, \
	{at "tree.ranks", CTRL_INTEGER, "ranks", NULL, 1, WEIR_SOURCES_MAX, NULL, \
		.help = "Number of ranks in the whole tree. Hosts are told it as the size of the " \
		"job.", CTRL_JOB_FIELD(tree_ranks)}, \
	{at "tree.first_rank", CTRL_INTEGER, "", NULL, 0, WEIR_SOURCES_MAX - 1, NULL, \
		.help = "The lowest rank below this switch: the id of its first source, and its " \
		"own source id at its parents.", CTRL_JOB_FIELD(first_rank)}, \
	{at "tree.parents", CTRL_ARRAY, "", NULL, 1, PPE_PARENTS_MAX, NULL,                        \
		.help = "Switches that this one contributes to. They share the blocks.",           \
		CTRL_JOB_FIELD(nb_parents)},                                                       \
	{at "tree.parents[]", CTRL_OBJECT, "", "", 0, 0, NULL, .help = "A parent.",                \
		CTRL_JOB_FIELD(parent[0])},                                                        \
	{at "tree.parents[].name", CTRL_NAME, "", NULL, 1, PPE_JOB_NAME_MAX - 1, NULL,             \
		.help = "Name in output, such as the parent's `switch.name`; unique in the job.", \
		CTRL_PARENT_FIELD(name), .unique = true}, \
	{at "tree.parents[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL, \
		.help = "The parent's IPv4 address; unique in the job. It may be outside the " \
		"switch's subnet.", CTRL_PARENT_FIELD(address), .unique = true}, \
	{at "tree.parents[].mac", CTRL_MAC, "", NULL, 0, 0, NULL,                                  \
		.help = "The parent's MAC address, or that of a router on the way to it.",         \
		CTRL_PARENT_FIELD(mac)},                                                           \
	{at "tree.parents[].port", CTRL_NAME, "", NULL, 1, 31, NULL,                               \
		.help = "Name of this switch's port to the parent."},                              \
	{at "tree.parents[].udp_port", CTRL_INTEGER, "", "12001", 1, 65535, NULL,                  \
		.help = "The parent's `switch.port_extended`.", CTRL_PARENT_FIELD(udp)},           \
	{at "tree.parents[].job", CTRL_INTEGER, "", NULL, 0, WEIR_JOBS_MAX - 1, NULL,              \
		.help = "Id of the job at the parent.", CTRL_PARENT_FIELD(job)},                   \
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
	{at "tree.parents[].key", CTRL_HEX, "", "", 2 * WEIR_KEY_BYTES, 2 * WEIR_KEY_BYTES, NULL, \
		.help = "The key of this switch at its job there, hexadecimal; only over TLS or " \
		"the Unix socket."}, \
	{at "sources", CTRL_ARRAY, "", "", 1, WEIR_SOURCES_MAX, NULL, \
		.help = "Switches. Their ids begin with the tree's `first_rank`, or 0, and leave " \
		"no rank out. No host can join the job."}, \
	{at "sources[]", CTRL_OBJECT, "", "", 0, 0, NULL, .help = "A source."}, \
	{at "sources[].id", CTRL_INTEGER, "", NULL, 0, WEIR_SOURCES_MAX - 1, NULL, \
		.help = "Its first rank.", .unique = true}, \
	{at "sources[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL, .help = "IPv4 address."}, \
	CTRL_CHILD_KEYS(at, NULL)
/* clang-format on */

#endif
