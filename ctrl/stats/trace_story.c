/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/trace_story.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

int
story_init(struct story *story, const struct ppe_trace *trace)
{
	uint32_t hops = 8, blocks = 8;

	for (unsigned int w = 0; w < trace->nb_workers; w++) {
		hops += 2 * RTE_MIN(trace->worker[w].hops, trace->worker[w].used);
		blocks += 2 * RTE_MIN(trace->worker[w].blocks, trace->worker[w].used);
	}
	hops = rte_align32pow2(hops);
	blocks = rte_align32pow2(blocks);
	*story = (struct story){
		.hop_mask = hops - 1,
		.block_mask = blocks - 1,
		.hop = calloc(hops, sizeof(struct story_hop)),
		.block = calloc(blocks, sizeof(uint64_t)),
	};
	if (story->hop != NULL && story->block != NULL)
		return 0;
	story_free(story);
	return -ENOMEM;
}

void
story_free(struct story *story)
{
	free(story->hop);
	free(story->block);
	*story = (struct story){0};
}

void
story_text(char *to, size_t size, const char *from)
{
	size_t i = 0;

	for (; from[i] != '\0' && i + 1 < size; i++) {
		unsigned char c = (unsigned char)from[i];

		to[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : from[i];
	}
	to[i] = '\0';
}

void
story_name(struct story *story, uint8_t id, const char *name)
{
	if (name[0] == '\0')
		snprintf(story->job[id], sizeof(story->job[id]), "job %u", id);
	else
		story_text(story->job[id], sizeof(story->job[id]), name);
}

/* Fibonacci hashing: the high bits are mixed, whatever the low ones are. */
static uint32_t
place(uint64_t key)
{
	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The packet's place, or a free one; NULL: neither, which can't be. */
static struct story_hop *
hop_of(const struct story *story, uint64_t packet)
{
	for (uint32_t i = 0; i <= story->hop_mask; i++) {
		struct story_hop *hop = &story->hop[(place(packet) + i) & story->hop_mask];

		if (hop->packet == packet || hop->packet == 0)
			return hop;
	}
	return NULL;
}

/* A departure that never arrived (a full ring drops it) is forgotten by the packet's next one. */
void
story_depart(struct story *story, uint64_t packet, unsigned int track, uint64_t tsc)
{
	struct story_hop *hop = hop_of(story, packet);

	if (hop != NULL)
		*hop = (struct story_hop){.packet = packet, .tsc = tsc, .track = track};
}

bool
story_arrive(struct story *story, uint64_t packet, struct story_hop *departure)
{
	struct story_hop *hop = hop_of(story, packet);

	if (hop == NULL || hop->packet != packet || hop->track == 0)
		return false;
	*departure = *hop;
	hop->track = 0;
	story->hops++;
	return true;
}

uint64_t *
story_block(struct story *story, uint64_t key)
{
	for (uint32_t i = 0; i <= story->block_mask; i++) {
		uint64_t *block = &story->block[(place(key) + i) & story->block_mask];

		if (*block == 0)
			*block = key << 8 | 4 | STORY_NEW;
		if (story_block_key(*block) == key)
			return block;
	}
	return NULL;
}

uint64_t
story_left(struct story *story)
{
	for (; story->left <= story->block_mask; story->left++) {
		uint64_t *block = &story->block[story->left], found = *block;

		if (!story_there(found))
			continue;
		story_set(block, STORY_GONE);
		return found;
	}
	return 0;
}
