/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/perf.h"
#include "pktbuf/wire/collectives.h"

#define COLLECTIVES (sizeof(collective_table) / sizeof(collective_table[0]))
#define TYPES       WEIR_DTYPES
#define OPS         WEIR_OPS

/* NULL: no collective has this code. */
static const char *const collectives[COLLECTIVES] = {
#define X(name, code, text, contribution, result, to) [code] = TO_##to != TO_NONE ? text : NULL,
	WEIR_COLLECTIVE_LIST(X)
#undef X
};

static const char *const types[] = {
#define X(name, code, text, ...) [code] = text,
	WEIR_DTYPE_LIST(X)
#undef X
};

static const char *const ops[] = {
#define X(name, code, text) [code] = text,
	WEIR_OP_LIST(X)
#undef X
};

/* What nccl-tests calls some types. */
static const struct {
	const char *name;
	enum weir_dtype dtype;
} aliases[] = {{"float", WEIR_DTYPE_FP32}, {"double", WEIR_DTYPE_FP64}, {"half", WEIR_DTYPE_FP16},
	{"bfloat16", WEIR_DTYPE_BF16}, {"f8e4m3", WEIR_DTYPE_FP8_E4M3},
	{"f8e5m2", WEIR_DTYPE_FP8_E5M2}};

static int
code_of(const char *const *names, unsigned int n, const char *word, size_t length)
{
	for (unsigned int i = 0; i < n; i++)
		if (names[i] != NULL && strlen(names[i]) == length &&
			memcmp(names[i], word, length) == 0)
			return (int)i;
	for (unsigned int i = 0; names == types && i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strlen(aliases[i].name) == length && memcmp(aliases[i].name, word, length) == 0)
			return (int)aliases[i].dtype;
	return -1;
}

static bool
parse(const char *text, const char *const *names, unsigned int n, struct perf_list *list)
{
	*list = (struct perf_list){0};
	for (;; text++) {
		size_t length = strcspn(text, ",");
		int code = code_of(names, n, text, length);

		if (length == 3 && memcmp(text, "all", 3) == 0) {
			list->all = true;
			for (unsigned int i = 0; i < n; i++)
				list->codes |= (uint32_t)(names[i] != NULL) << i;
		} else if (code >= 0) {
			list->codes |= 1u << code;
		} else {
			return false;
		}
		text += length;
		if (*text == '\0')
			return true;
	}
}

bool
perf_list_types(const char *text, struct perf_list *list)
{
	return parse(text, types, TYPES, list);
}

bool
perf_list_ops(const char *text, struct perf_list *list)
{
	return parse(text, ops, OPS, list);
}

bool
perf_list_collectives(const char *text, struct perf_list *list)
{
	return parse(text, collectives, COLLECTIVES, list);
}

const char *
perf_collective_name(enum weir_collective collective)
{
	return collectives[collective];
}

const char *
perf_type_name(enum weir_dtype dtype)
{
	return types[dtype];
}

const char *
perf_op_name(enum weir_op op)
{
	return ops[op];
}

bool
perf_reduces(enum weir_collective collective)
{
	return collective_table[collective].contribution == CONTRIBUTION_REDUCE;
}

bool
perf_has_root(enum weir_collective collective)
{
	return collective_table[collective].rooted;
}

bool
perf_has_slices(enum weir_collective collective)
{
	return perf_gathers(collective) || collective_table[collective].result == RESULT_SLICE;
}

bool
perf_gathers(enum weir_collective collective)
{
	unsigned int contribution = collective_table[collective].contribution;

	return contribution == CONTRIBUTION_SLICE || contribution == CONTRIBUTION_ROW;
}

double
perf_bus_factor(enum weir_collective collective, unsigned int ranks)
{
	double others = (double)(ranks - 1) / ranks;

	if (collective == WEIR_COLLECTIVE_ALLREDUCE)
		return 2 * others;
	return perf_has_slices(collective) ? others : 1;
}

static bool
has(const struct perf_list *list, unsigned int code)
{
	return (list->codes >> code & 1) != 0;
}

const char *
perf_plan_refuses(const struct perf_options *o, char *text, size_t size)
{
	uint32_t base = 1u << WEIR_COLLECTIVE_ALLREDUCE | 1u << WEIR_COLLECTIVE_BARRIER;
	bool one_type = __builtin_popcount(o->types.codes) == 1;
	bool one_op = __builtin_popcount(o->ops.codes) == 1,
	     sums = o->ops.codes == 1u << WEIR_OP_SUM, reduces = false;

	for (unsigned int c = 0; c < COLLECTIVES; c++)
		reduces |= has(&o->collectives, c) && perf_reduces(c);
	for (unsigned int t = 0; t < TYPES; t++)
		for (unsigned int op = 0; op < OPS; op++) {
			if (!has(&o->types, t) || !has(&o->ops, op) || o->types.all || o->ops.all ||
				perf_data_reduces(t, op) || !reduces)
				continue;
			snprintf(text, size, "%s is not combined by %s", types[t], ops[op]);
			return text;
		}
	if (o->weir.base_form && ((o->collectives.codes & ~base) != 0 || !one_type || !one_op))
		return "--base-form is for allreduce and barrier, one type and one operation";
	if (o->weir.base_form && o->rejoins != 0 && !sums)
		return "--rejoin with --base-form is for sums: the ranks agree by one";
	if (o->shapes != NULL &&
		(o->collectives.codes != 1u << WEIR_COLLECTIVE_ALLREDUCE || !one_type || !one_op ||
			o->inflight != 1))
		return "--shapes is for allreduce, one type, one operation, one at a time";
	if (o->weir.partial == WEIR_PARTIAL_RESCALE && !sums)
		return "--partial rescale is for sums";
	return NULL;
}

static bool
has_data(enum weir_collective collective)
{
	return collective_table[collective].contribution != CONTRIBUTION_NOTHING;
}

/* Write the series of one collective, or only count them, with series NULL. */
static unsigned int
expand(const struct perf_options *o, unsigned int ranks, enum weir_collective collective,
	struct perf_series *series)
{
	bool rooted = perf_has_root(collective), every = rooted && o->root == PERF_ROOT_ALL;
	unsigned int root = rooted && !every ? o->root : 0, count = 0;

	if (!has_data(collective)) {
		if (series != NULL)
			series[0] = (struct perf_series){.collective = collective};
		return 1;
	}
	for (unsigned int t = 0; t < TYPES; t++)
		for (unsigned int op = 0; op < OPS; op++) {
			bool taken = perf_reduces(collective)
				? has(&o->ops, op) && perf_data_reduces(t, op)
				: op == WEIR_OP_SUM;

			if (!taken || !has(&o->types, t))
				continue;
			for (unsigned int r = root; r < (every ? ranks : root + 1); r++, count++)
				if (series != NULL)
					series[count] = (struct perf_series){collective,
						(enum weir_dtype)t, (enum weir_op)op, r};
		}
	return count;
}

int
perf_plan(const struct perf_options *o, unsigned int ranks, struct perf_series **series,
	unsigned int *count)
{
	unsigned int n = 0;

	*series = NULL;
	if (o->root != PERF_ROOT_ALL && o->root >= ranks)
		return -EINVAL;
	for (unsigned int c = 0; c < COLLECTIVES; c++)
		if (has(&o->collectives, c))
			n += expand(o, ranks, (enum weir_collective)c, NULL);
	*series = calloc(n + 1, sizeof(**series));
	if (*series == NULL)
		return -ENOMEM;
	*count = n;
	n = 0;
	for (unsigned int c = 0; c < COLLECTIVES; c++)
		if (has(&o->collectives, c))
			n += expand(o, ranks, (enum weir_collective)c, *series + n);
	return 0;
}

/* The size of a row; false: there is no such row. */
static bool
size_of(const struct perf_options *o, unsigned int row, size_t *bytes)
{
	*bytes = o->min_bytes;
	for (unsigned int i = 0; i < row; i++) {
		size_t next = o->step_bytes ? *bytes + o->step_bytes
					    : (size_t)((double)*bytes * o->step_factor);

		if (next <= *bytes || next > o->max_bytes)
			return false;
		*bytes = next;
	}
	return true;
}

unsigned int
perf_plan_sizes(const struct perf_options *o)
{
	size_t bytes = o->min_bytes;
	unsigned int rows = 0;

	while (size_of(o, rows, &bytes))
		rows++;
	return rows;
}

size_t
perf_plan_count(const struct perf_options *o, const struct perf_series *series, unsigned int ranks,
	unsigned int row, size_t *bytes)
{
	size_t unit = weir_dtype_bytes(series->dtype), asked = 0, count;

	if (perf_has_slices(series->collective))
		unit *= ranks;
	if (has_data(series->collective))
		(void)size_of(o, row, &asked);
	count = asked / unit;
	if (count == 0 && asked != 0)
		count = 1;
	*bytes = count * unit;
	return count;
}
