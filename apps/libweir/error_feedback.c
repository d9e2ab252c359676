/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error feedback (F. Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014, where what was
 * quantized away is added to the next gradient): here, what came too late for its block.
 *
 * Only blocks that were missed take memory, so a run without stragglers costs nothing. Of such a block
 * there is `owed`, of former calls; `sent`, owed + the buffer's own, which goes out in place of the
 * buffer's; and `missed`, what was sent for the block once that has been done without us. When the
 * operation has ended well, `missed` is what is owed; when it has failed, `owed` is, as before. A buffer
 * that nothing is owed of has no record: applications whose buffers are new ones in each call don't grow.
 */
#include "apps/libweir/weir_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct piece {
	uint8_t *owed, *sent, *missed;
};

/* The blocks of one buffer. */
struct weir_error_feedback {
	struct weir_error_feedback *next;
	const uint8_t *buffer;
	size_t count;
	unsigned int per_block, element_bytes;
	uint8_t dtype;
	uint32_t blocks;
	bool busy; /* an operation under way has it; another with the same buffer has a record of its own */
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
drop(struct weir *weir, const struct weir_error_feedback *c, uint32_t nth, uint8_t **what)
{
	if (*what == NULL)
		return;
	weir->error_feedback_bytes -= bytes_of(c, nth);
	free(*what);
	*what = NULL;
}

static uint8_t *
take(struct weir *weir, const struct weir_error_feedback *c, uint32_t nth)
{
	size_t bytes = bytes_of(c, nth);
	uint8_t *made = weir->error_feedback_bytes + bytes > weir->error_feedback_limit
		? NULL
		: malloc(bytes);

	if (made != NULL)
		weir->error_feedback_bytes += bytes;
	return made;
}

static struct weir_error_feedback *
find(struct weir *weir, const struct weir_request *o)
{
	struct weir_error_feedback *c;

	for (c = weir->feedback; c != NULL; c = c->next)
		if (!c->busy && c->buffer == o->send && c->count == o->geometry.count &&
			c->dtype == o->dtype && c->per_block == o->geometry.per_block)
			return c;
	return NULL;
}

static struct weir_error_feedback *
create(struct weir *weir, const struct weir_request *o)
{
	struct weir_error_feedback *c =
		calloc(1, sizeof(*c) + (size_t)o->blocks * sizeof(struct piece));

	if (c == NULL)
		return NULL;
	c->buffer = o->send;
	c->busy = true;
	c->count = o->geometry.count;
	c->per_block = o->geometry.per_block;
	c->element_bytes = (unsigned int)o->geometry.element_bytes;
	c->dtype = o->dtype;
	c->blocks = o->blocks;
	c->next = weir->feedback;
	weir->feedback = c;
	return c;
}

static void
discard(struct weir *weir, const struct weir_error_feedback *c)
{
	struct weir_error_feedback **at = &weir->feedback;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free((void *)(uintptr_t)c);
}

#define ADD(type)                                                                                  \
	for (size_t i = 0; i < count; i++)                                                         \
		((type *)to)[i] = (type)(((const type *)a)[i] + ((const type *)b)[i]);             \
	break

/* As the switch adds: integers wrap. */
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
weir_error_feedback_begin(struct weir *weir, struct weir_request *o)
{
	struct weir_error_feedback *c = find(weir, o);

	o->feeds_back = true;
	o->feedback = c;
	if (c != NULL)
		c->busy = true;
	for (uint32_t nth = 0; c != NULL && nth < c->blocks; nth++) {
		struct piece *p = &c->piece[nth];

		if (p->owed == NULL)
			continue;
		p->sent = take(weir, c, nth);
		if (p->sent == NULL)
			return weir_explain(weir, -ENOMEM,
				"no memory for error feedback: error_feedback_bytes is %llu",
				(unsigned long long)weir->error_feedback_limit);
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
weir_error_feedback_keep(struct weir *weir, struct weir_request *o, uint32_t nth,
	const uint8_t *payload, uint32_t bytes)
{
	struct piece *p;

	if (o->feedback == NULL)
		o->feedback = create(weir, o);
	if (o->feedback == NULL)
		return false;
	p = &o->feedback->piece[nth];
	if (p->sent != NULL) { /* nobody sends it any more */
		p->missed = p->sent;
		p->sent = NULL;
	} else {
		p->missed = take(weir, o->feedback, nth);
		if (p->missed == NULL)
			return false;
		memcpy(p->missed, payload, bytes);
	}
	WEIR_COUNT(weir, fed_back, 1);
	return true;
}

void
weir_error_feedback_end(struct weir *weir, struct weir_request *o)
{
	struct weir_error_feedback *c = o->feedback;
	bool owes = false;

	if (c == NULL)
		return;
	for (uint32_t nth = 0; nth < c->blocks; nth++) {
		struct piece *p = &c->piece[nth];

		drop(weir, c, nth, &p->sent);
		if (o->code < 0) {
			drop(weir, c, nth, &p->missed);
		} else {
			drop(weir, c, nth, &p->owed);
			p->owed = p->missed;
			p->missed = NULL;
		}
		owes = owes || p->owed != NULL;
	}
	o->feedback = NULL;
	c->busy = false;
	if (!owes)
		discard(weir, c);
}

uint64_t
weir_error_feedback_forget(struct weir *weir, const void *buffer)
{
	struct weir_error_feedback **at = &weir->feedback, *c;
	uint64_t before, forgotten;

	if (weir_inherited(weir))
		return 0;
	pthread_mutex_lock(&weir->lock);
	before = weir->error_feedback_bytes;
	while ((c = *at) != NULL) {
		if (c->busy || (buffer != NULL && c->buffer != buffer)) {
			at = &c->next;
			continue;
		}
		for (uint32_t nth = 0; nth < c->blocks; nth++)
			drop(weir, c, nth, &c->piece[nth].owed);
		*at = c->next;
		free(c);
	}
	forgotten = before - weir->error_feedback_bytes;
	pthread_mutex_unlock(&weir->lock);
	return forgotten;
}
