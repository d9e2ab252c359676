/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees of switches (docs/tree.md): the switches that a command is about, and the plan of a job on all of them.
 *
 * A plan is {"name": NAME, "switches": [{"name", "api", "address", "job": {...}}, ...]}, parents before their children.
 * `job` is the body of POST /v1/jobs. Two values are filled in when a parent's job is there: the id of that job, unless
 * the plan has one, and the key of the child in an authenticated job, which no plan has.
 */
#ifndef APPS_CTL_TREE_H
#define APPS_CTL_TREE_H

#include "apps/ctl/ctl.h"

#define TREE_SWITCHES_MAX 64

/* A switch of a tree. */
struct place {
	struct ctl ctl;
	json_t *entry; /* in the plan; before there is one, {"name", "api"} */
	json_t *status, *ports; /* as it answers */
	json_t *made; /* the job that it would create, then the one that it has created; NULL: none */
	bool asked_to_make;
	unsigned int children; /* switches of the plan that are below it */
};

struct tree {
	struct ctl *ctl; /* the command's */
	const char *name; /* of the job */
	json_t *plan;
	struct place place[TREE_SWITCHES_MAX];
	unsigned int count, parents; /* switches; those of them that --switches makes parents */
};

/* Of a switch in the plan. */
const char *place_name(const struct place *place);

/* NULL: there is none of that name. */
struct place *tree_find(struct tree *tree, const char *name);

/* The number below a path, in [0, CTL_RANKS_MAX]; 0 where there is none. */
unsigned int tree_count(json_t *from, const char *path);

/* "4,4". Returns how many, and their sum; 0: they are none. */
unsigned int tree_sizes(const char *text, unsigned int sizes[TREE_SWITCHES_MAX], unsigned int *sum);

/* The plan of the command line. All switches have answered. Returns the exit status. */
int tree_plan(struct tree *tree, const unsigned int *sizes, unsigned int ranks);

/* What the switches can't check, each alone, and what their joins would fail for: of the jobs that they would make.
 * Returns the exit status, and says why. */
int tree_check(struct tree *tree);

/* The jobs that the switches would make. */
void tree_print_plan(const struct tree *tree, FILE *out, unsigned int width);

/* Columns of tables of switches: {"job": {...}}. */
void tree_print_role(json_t *entry, FILE *out);
void tree_print_ranks(json_t *entry, FILE *out);

#endif
