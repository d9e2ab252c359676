/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reader of a trace remembers from one event to a later one: departures whose arrival is
 * still to come, the blocks that there are, and what the jobs are called.
 *
 * Two hash tables with open addressing that never delete: the trace says how many events tell of
 * hops and blocks, so they are made twice as large and can't fill up. Memory is 24 and 8 bytes per
 * place, and untouched pages cost nothing. Only for ctrl/stats/trace_json.c.
 */
#ifndef CTRL_TRACE_STORY_H
#define CTRL_TRACE_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ppe/trace/trace.h"

enum story_state {
	STORY_NEW, /* not met before */
	STORY_COLLECTING,
	STORY_KEPT, /* done, its result kept */
	STORY_GONE, /* released */
};

struct story_hop {
	uint64_t packet; /* its address; 0: a free place */
	uint64_t tsc;
	unsigned int track; /* whence; 0: arrived */
};

struct story {
	uint32_t hop_mask, block_mask;
	struct story_hop *hop;
	uint64_t *block; /* key << 8 | 4 | enum story_state; 0: a free place */
	uint32_t hops; /* that arrived so far: the last one's number */
	uint32_t left; /* how far story_left has come */
	char job[WEIR_JOBS_MAX][PPE_JOB_NAME_MAX]; /* story_name */
};

/* A name as it may stand within a JSON string. Configured names are harmless already. */
void story_text(char *to, size_t size, const char *from);

/* From now on the job of this id is called so; "": by its id. */
void story_name(struct story *story, uint8_t id, const char *name);

/* 0 or -ENOMEM, and nothing is allocated then. */
int story_init(struct story *story, const struct ppe_trace *trace);
void story_free(struct story *story);

/* A packet leaves a track. */
void story_depart(struct story *story, uint64_t packet, unsigned int track, uint64_t tsc);

/* It arrives; whence? False: it left before the trace began. */
bool story_arrive(struct story *story, uint64_t packet, struct story_hop *departure);

/* The place of a block; a new one is STORY_NEW. NULL: none left, which can't be. */
uint64_t *story_block(struct story *story, uint64_t key);

/* The next block that is there, its state now set to STORY_GONE; 0: there is none. */
uint64_t story_left(struct story *story);

/* An id without its source. */
static inline uint64_t
story_key(uint64_t id)
{
	return id & ~(UINT64_C(0xff) << 56);
}

static inline uint64_t
story_block_key(uint64_t block)
{
	return block >> 8;
}

static inline enum story_state
story_state(uint64_t block)
{
	return (enum story_state)(block & 3);
}

/* Is it open, or kept? */
static inline bool
story_there(uint64_t block)
{
	return story_state(block) == STORY_COLLECTING || story_state(block) == STORY_KEPT;
}

static inline void
story_set(uint64_t *block, enum story_state state)
{
	*block = (*block & ~UINT64_C(3)) | state;
}

#endif
