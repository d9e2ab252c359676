/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- partial results ---- */

static bool
computable(unsigned int dtype)
{
	return dtype == WEIR_DTYPE_INT32 || dtype == WEIR_DTYPE_UINT32 ||
		dtype == WEIR_DTYPE_INT64 || dtype == WEIR_DTYPE_UINT64 ||
		dtype == WEIR_DTYPE_FP32 || dtype == WEIR_DTYPE_FP64;
}

static bool
is_sum(const struct weir_request *o)
{
	return weir_collective_row(o->geometry.collective)->contribution == CONTRIBUTION_REDUCE &&
		o->op == WEIR_OP_SUM;
}

bool
weir_partial_can(const struct weir_handle *h, const struct weir_request *o)
{
	return h->partial != WEIR_PARTIAL_RESCALE || !is_sum(o) || computable(o->dtype);
}

bool
weir_error_feedback_wanted(const struct weir_handle *h, const struct weir_request *o)
{
	return h->error_feedback && o->geometry.collective == WEIR_COLLECTIVE_ALLREDUCE &&
		is_sum(o) && computable(o->dtype);
}

static unsigned int
sources_in(const uint8_t *present)
{
	unsigned int in = 0;

	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		in += (unsigned int)__builtin_popcount(present[i]);
	return in;
}

bool
weir_partial_missing(const struct weir_handle *h, struct weir_request *o)
{
	uint8_t *missing = o->result.missing;
	bool dense = true;
	unsigned int known = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		known += weir_bitmap_has(h->known, s);
		dense = dense && (s < h->sources || !weir_bitmap_has(h->known, s));
	}
	memset(missing, 0, WEIR_BITMAP_BYTES);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if ((dense ? s < h->sources : weir_bitmap_has(h->known, s)) &&
			!weir_bitmap_has(o->punctual, s))
			missing[s / 8] |= (uint8_t)(1u << s % 8);
	return dense || known == h->sources;
}

bool
weir_partial_note(struct weir_handle *h, struct weir_request *o, const struct weir_shape *shape,
	const uint8_t *present)
{
	unsigned int in = sources_in(present);

	weir_note_known(h, present);
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		o->punctual[i] = o->result.degraded == 0 ? present[i] : o->punctual[i] & present[i];
	weir_partial_missing(h, o);
	if (in < o->result.sources_least)
		o->result.sources_least = in;
	o->result.degraded++;
	o->result.without_own += !weir_bitmap_has(present, h->source);
	if (o->degraded_count == o->degraded_room) {
		size_t room = o->degraded_room ? o->degraded_room * 2 : 64;
		struct weir_degraded *more = realloc(o->degraded, room * sizeof(*more));

		if (more == NULL)
			return h->partial != WEIR_PARTIAL_RESCALE; /* the counts are still right */
		o->degraded = more;
		o->degraded_room = room;
	}
	o->degraded[o->degraded_count].first = shape->first;
	o->degraded[o->degraded_count].count = shape->count;
	memcpy(o->degraded[o->degraded_count++].present, present, WEIR_BITMAP_BYTES);
	return true;
}

/* x * n / in, to nearest, halves away from 0. */
static __int128
scaled(__int128 x, unsigned int n, unsigned int in)
{
	__int128 twice = 2 * x * n;

	return (twice + (x < 0 ? -(__int128)in : (__int128)in)) / (2 * (__int128)in);
}

#define INTEGERS(type, least, most)                                                                \
	for (size_t i = 0; i < count; i++) {                                                       \
		__int128 x = scaled(((type *)data)[i], n, in);                                     \
                                                                                                   \
		((type *)data)[i] = x < (least) ? (least) : x > (most) ? (most) : (type)x;         \
	}                                                                                          \
	break

static void
rescale(unsigned int dtype, void *data, size_t count, unsigned int n, unsigned int in)
{
	float *floats = data;
	double *doubles = data;

	switch (dtype) {
	case WEIR_DTYPE_INT32: INTEGERS(int32_t, INT32_MIN, INT32_MAX);
	case WEIR_DTYPE_UINT32: INTEGERS(uint32_t, 0, UINT32_MAX);
	case WEIR_DTYPE_INT64: INTEGERS(int64_t, INT64_MIN, INT64_MAX);
	case WEIR_DTYPE_UINT64: INTEGERS(uint64_t, 0, UINT64_MAX);
	case WEIR_DTYPE_FP32:
		for (size_t i = 0; i < count; i++)
			floats[i] = (float)((double)floats[i] * n / in);
		break;
	default:
		for (size_t i = 0; i < count; i++)
			doubles[i] = doubles[i] * n / in;
	}
}

int
weir_partial_conclude(const struct weir_handle *h, struct weir_request *o)
{
	if (o->code != WEIR_PARTIAL || h->partial == WEIR_PARTIAL_AS_IS)
		return o->code;
	if (h->partial == WEIR_PARTIAL_FAIL)
		return -EIO; /* the text is set already */
	if (!is_sum(o) || weir_geometry_received(&o->geometry) == 0)
		return o->code;
	for (size_t i = 0; i < o->degraded_count; i++) {
		const struct weir_degraded *d = &o->degraded[i];
		unsigned int in = sources_in(d->present);

		if (in != 0)
			rescale(o->dtype, o->recv + d->first * o->geometry.element_bytes, d->count,
				h->sources, in);
	}
	return WEIR_PARTIAL;
}

/*
 * ---- error feedback ----
 *
 * F. Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014, add the quantization
 * error of one gradient to the next. Here, a contribution that came too late for its block is added
 * to the next one.
 *
 * Only missed blocks take memory, so a run without stragglers costs nothing. A missed block has
 * `owed`, from former calls; `sent`, the sum of owed and the buffer, which is sent instead of the
 * buffer; and `missed`, what was sent for a block that has completed without this source. When the
 * operation completes, `missed` becomes `owed`; when it fails, `owed` stays. A buffer without owed
 * blocks has no record, so an application that uses a new buffer for each call uses no more memory
 * with time.
 */

struct piece {
	uint8_t *owed, *sent, *missed;
};

/* The blocks of one buffer. */
struct weir_error_feedback {
	LIST_ENTRY(weir_error_feedback) link;
	const uint8_t *buffer;
	size_t count;
	unsigned int per_block, element_bytes;
	uint8_t dtype;
	uint32_t blocks;
	/* An operation under way uses it. A second operation with the same buffer has its own
	 * record. */
	bool is_busy;
	struct piece piece[]; /* [blocks] */
};

static size_t
elements_of(const struct weir_error_feedback *c, uint32_t nth)
{
	size_t left = c->count - (size_t)nth * c->per_block;

	return left < c->per_block ? left : c->per_block;
}

static size_t
bytes_of(const struct weir_error_feedback *c, uint32_t nth)
{
	return elements_of(c, nth) * c->element_bytes;
}

static void
drop(struct weir_handle *h, const struct weir_error_feedback *c, uint32_t nth, uint8_t **what)
{
	if (*what == NULL)
		return;
	h->error_feedback_bytes -= bytes_of(c, nth);
	free(*what);
	*what = NULL;
}

static uint8_t *
take(struct weir_handle *h, const struct weir_error_feedback *c, uint32_t nth)
{
	size_t bytes = bytes_of(c, nth);
	uint8_t *made =
		h->error_feedback_bytes + bytes > h->error_feedback_limit ? NULL : malloc(bytes);

	if (made != NULL)
		h->error_feedback_bytes += bytes;
	return made;
}

static struct weir_error_feedback *
create(struct weir_handle *h, const struct weir_request *o)
{
	struct weir_error_feedback *c =
		calloc(1, sizeof(*c) + (size_t)o->blocks * sizeof(struct piece));

	if (c == NULL)
		return NULL;
	c->buffer = o->send;
	c->is_busy = true;
	c->count = o->geometry.count;
	c->per_block = o->geometry.per_block;
	c->element_bytes = (unsigned int)o->geometry.element_bytes;
	c->dtype = o->dtype;
	c->blocks = o->blocks;
	LIST_INSERT_HEAD(&h->feedback, c, link);
	return c;
}

static void
discard(struct weir_handle *h, struct weir_error_feedback *c)
{
	LIST_REMOVE(c, link);
	for (uint32_t nth = 0; nth < c->blocks; nth++)
		drop(h, c, nth, &c->piece[nth].owed);
	free(c);
}

#define ADD(type)                                                                                  \
	for (size_t i = 0; i < count; i++)                                                         \
		((type *)to)[i] = (type)(((const type *)a)[i] + ((const type *)b)[i]);             \
	break

/* Add as the switch does: integers wrap around. */
static void
add(unsigned int dtype, void *to, const void *a, const void *b, size_t count)
{
	switch (dtype) {
	case WEIR_DTYPE_INT32:
	case WEIR_DTYPE_UINT32: ADD(uint32_t);
	case WEIR_DTYPE_INT64:
	case WEIR_DTYPE_UINT64: ADD(uint64_t);
	case WEIR_DTYPE_FP32: ADD(float);
	default: ADD(double);
	}
}

int
weir_error_feedback_begin(struct weir_handle *h, struct weir_request *o)
{
	struct weir_error_feedback *c;

	LIST_FOREACH (c, &h->feedback, link)
		if (!c->is_busy && c->buffer == o->send && c->count == o->geometry.count &&
			c->dtype == o->dtype && c->per_block == o->geometry.per_block)
			break;
	o->feeds_back = true;
	o->feedback = c;
	if (c != NULL)
		c->is_busy = true;
	for (uint32_t nth = 0; c != NULL && nth < c->blocks; nth++) {
		struct piece *p = &c->piece[nth];

		if (p->owed == NULL)
			continue;
		p->sent = take(h, c, nth);
		if (p->sent == NULL)
			return weir_error_set(h, -ENOMEM,
				"no memory for error feedback: error_feedback_bytes is %llu",
				(unsigned long long)h->error_feedback_limit);
		add(c->dtype, p->sent, p->owed,
			o->send + (size_t)nth * c->per_block * c->element_bytes,
			elements_of(c, nth));
	}
	return 0;
}

const uint8_t *
weir_error_feedback_payload(const struct weir_request *o, uint32_t nth)
{
	return o->feedback == NULL ? NULL : o->feedback->piece[nth].sent;
}

bool
weir_error_feedback_keep(struct weir_handle *h, struct weir_request *o, uint32_t nth,
	const uint8_t *payload, uint32_t bytes)
{
	struct piece *p;

	if (o->feedback == NULL)
		o->feedback = create(h, o);
	if (o->feedback == NULL)
		return false;
	p = &o->feedback->piece[nth];
	if (p->sent != NULL) { /* it is not sent any more */
		p->missed = p->sent;
		p->sent = NULL;
	} else {
		p->missed = take(h, o->feedback, nth);
		if (p->missed == NULL)
			return false;
		memcpy(p->missed, payload, bytes);
	}
	WEIR_COUNT(h, fed_back, 1);
	return true;
}

void
weir_error_feedback_end(struct weir_handle *h, struct weir_request *o)
{
	struct weir_error_feedback *c = o->feedback;
	bool owes = false;

	if (c == NULL)
		return;
	for (uint32_t nth = 0; nth < c->blocks; nth++) {
		struct piece *p = &c->piece[nth];

		drop(h, c, nth, &p->sent);
		if (o->code < 0) {
			drop(h, c, nth, &p->missed);
		} else {
			drop(h, c, nth, &p->owed);
			p->owed = p->missed;
			p->missed = NULL;
		}
		owes = owes || p->owed != NULL;
	}
	o->feedback = NULL;
	c->is_busy = false;
	if (!owes)
		discard(h, c);
}

uint64_t
weir_error_feedback_drop(struct weir_handle *h, const void *buffer)
{
	uint64_t before = h->error_feedback_bytes;

	for (struct weir_error_feedback *c = LIST_FIRST(&h->feedback), *next; c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (!c->is_busy && (buffer == NULL || c->buffer == buffer))
			discard(h, c);
	}
	return before - h->error_feedback_bytes;
}
