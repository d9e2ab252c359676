/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job of a tree of switches has beyond its settings (docs/tree.md): its parents, and sources
 * that are switches. The configuration, the control API and the state file have the same JSON, in
 * which only the parents' keys differ.
 */
#ifndef CTRL_CONFIG_TREE_H
#define CTRL_CONFIG_TREE_H

#include "ctrl/config/config.h"
#include "ctrl/config/job_keys.h"
#include "ctrl/config/schema.h"

/* A key as 64 hexadecimal digits. Erase it after use. */
struct ctrl_key_text {
	char text[2 * WEIR_KEY_BYTES + 1];
};
struct ctrl_key_text ctrl_key_text(const uint8_t key[WEIR_KEY_BYTES]);

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
