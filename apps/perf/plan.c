/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/perf.h"

static int
collective_of(const char *word)
{
	int code = weir_collective_parse(word);

	return code < WEIR_COLLECTIVES ? code : -EINVAL;
}

static int
type_of(const char *word)
{
	/* What nccl-tests calls some types. */
	static const struct {
		const char *name;
		enum weir_dtype dtype;
	} aliases[] = {{"float", WEIR_DTYPE_FP32}, {"double", WEIR_DTYPE_FP64},
		{"half", WEIR_DTYPE_FP16}, {"bfloat16", WEIR_DTYPE_BF16},
		{"f8e4m3", WEIR_DTYPE_FP8_E4M3}, {"f8e5m2", WEIR_DTYPE_FP8_E5M2}};

	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(word, aliases[i].name) == 0)
			return (int)aliases[i].dtype;
	return weir_dtype_parse(word);
}

static bool
parse(const char *text, int (*code_of)(const char *), uint32_t all, struct perf_list *list)
{
	char words[256], *rest = words, *word;

	*list = (struct perf_list){0};
	if ((size_t)snprintf(words, sizeof(words), "%s", text) >= sizeof(words))
		return false;
	while ((word = strsep(&rest, ",")) != NULL) {
		int code = code_of(word);

		if (strcmp(word, "all") == 0) {
			list->all = true;
			list->codes |= all;
		} else if (code >= 0) {
			list->codes |= 1u << code;
		} else {
			return false;
		}
	}
	return true;
}

bool
perf_list_types(const char *text, struct perf_list *list)
{
	return parse(text, type_of, (1u << WEIR_DTYPES) - 1, list);
}

bool
perf_list_ops(const char *text, struct perf_list *list)
{
	return parse(text, weir_op_parse, (1u << WEIR_OPS) - 1, list);
}

bool
perf_list_collectives(const char *text, struct perf_list *list)
{
	return parse(text, collective_of, (1u << WEIR_COLLECTIVES) - 1, list);
}

double
perf_bus_factor(enum weir_collective collective, unsigned int ranks)
{
	double others = (double)(ranks - 1) / ranks;

	if (collective == WEIR_COLLECTIVE_ALLREDUCE)
		return 2 * others;
	return verify_has_slices(collective) ? others : 1;
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

	for (unsigned int c = 0; c < WEIR_COLLECTIVES; c++)
		reduces |= has(&o->collectives, c) && verify_reduces(c);
	for (unsigned int t = 0; t < WEIR_DTYPES; t++)
		for (unsigned int op = 0; op < WEIR_OPS; op++) {
			if (!has(&o->types, t) || !has(&o->ops, op) || o->types.all || o->ops.all ||
				weir_dtype_has_op(t, op) || !reduces)
				continue;
			snprintf(text, size, "%s is for integers, not for %s", weir_op_text(op),
				weir_dtype_text(t));
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

/* Is this collective measured with this type and operation? A barrier has neither, others may have no operation. */
static bool
is_measured(const struct perf_options *o, unsigned int collective, unsigned int t, unsigned int op)
{
	if (!has(&o->collectives, collective))
		return false;
	if (collective == WEIR_COLLECTIVE_BARRIER)
		return t == 0 && op == 0;
	if (!has(&o->types, t))
		return false;
	return verify_reduces(collective) ? has(&o->ops, op) && weir_dtype_has_op(t, op)
					  : op == WEIR_OP_SUM;
}

/* Add a series for each root that is asked for. */
static int
add_series(const struct perf_options *o, unsigned int ranks, struct weir_call one,
	struct weir_call **all, unsigned int *count)
{
	bool rooted = collective_table[one.collective].rooted;
	bool every = rooted && o->root == PERF_ROOT_ALL;
	unsigned int end = every ? ranks : rooted ? o->root + 1 : 1;

	for (one.root = every ? 0 : end - 1; one.root < end; one.root++) {
		struct weir_call *more = reallocarray(*all, *count + 1, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		*all = more;
		more[(*count)++] = one;
	}
	return 0;
}

int
perf_plan(const struct perf_options *o, unsigned int ranks, struct weir_call **series,
	unsigned int *count)
{
	int code = 0;

	*series = NULL;
	*count = 0;
	if (o->root != PERF_ROOT_ALL && o->root >= ranks)
		return -EINVAL;
	/* The barrier is the last. */
	for (unsigned int i = 1; i <= WEIR_COLLECTIVES; i++) {
		unsigned int c = (WEIR_COLLECTIVE_BARRIER + i) % WEIR_COLLECTIVES;

		for (unsigned int t = 0; t < WEIR_DTYPES; t++)
			for (unsigned int op = 0; op < WEIR_OPS && code == 0; op++)
				if (is_measured(o, c, t, op))
					code = add_series(o, ranks,
						(struct weir_call){
							.collective = c, .dtype = t, .op = op},
						series, count);
	}
	return code;
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
perf_plan_count(const struct perf_options *o, const struct weir_call *series, unsigned int ranks,
	unsigned int row, size_t *bytes)
{
	size_t unit = weir_dtype_bytes(series->dtype), asked = 0, count;

	if (verify_has_slices(series->collective))
		unit *= ranks;
	if (series->collective != WEIR_COLLECTIVE_BARRIER)
		(void)size_of(o, row, &asked);
	count = asked / unit;
	if (count == 0 && asked != 0)
		count = 1;
	*bytes = count * unit;
	return count;
}
