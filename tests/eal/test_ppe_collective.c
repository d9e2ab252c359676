/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole switch against the obvious: hosts played by the test send contributions over ring
 * ports, with loss, repeats and any segmentation; every result is compared with the sum.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/eal/rig.h"

#define SOURCES  4
#define WINDOW   16
#define ELEMENTS 101
#define BLOCKS   300

struct shape {
	unsigned int workers, threads;
	bool base_form, segmented, lossy, multicast;
};

static uint32_t
value(unsigned int source, uint32_t block, unsigned int element)
{
	uint64_t s = (uint64_t)source << 48 ^ (uint64_t)block << 16 ^ element;

	return (uint32_t)rig_random(&s);
}

/* Elements of a block: the last ones of an operation are short, every seventh is a barrier. */
static unsigned int
length_of(uint32_t block)
{
	return block % 7 == 6 ? 0 : 1 + block % ELEMENTS;
}

struct host {
	uint32_t next; /* first block not sent yet */
	bool done[BLOCKS]; /* result arrived */
	uint32_t left; /* results still missing */
};

struct play {
	struct rig rig;
	struct host host[SOURCES];
	uint16_t generation;
	uint64_t random;
	const struct shape *shape;
	uint8_t frame[RIG_FRAME_MAX];
	uint64_t wrong;
};

static bool
unlucky(struct play *play)
{
	return play->shape->lossy && rig_random(&play->random) % 16 == 0;
}

static void
contribute(struct play *play, unsigned int source, uint32_t block)
{
	struct weir_header h = {.job_id = 1,
		.block_id = block,
		.src_id = (uint8_t)source,
		.gen_id = play->generation,
		.grad_cnt = (uint16_t)length_of(block),
		.final = block == BLOCKS - 1,
		.extended = !play->shape->base_form,
		.dtype = WEIR_DTYPE_INT32};
	uint32_t values[ELEMENTS];

	if (h.grad_cnt == 0)
		h.collective = WEIR_COLLECTIVE_BARRIER;
	for (unsigned int i = 0; i < h.grad_cnt; i++)
		values[i] = value(source, block, i);
	if (unlucky(play))
		return;
	rig_send(&play->rig, source, play->frame,
		rig_frame(play->frame, source, &h, values, h.grad_cnt * 4u));
}

static void
check_result(struct play *play, unsigned int source, unsigned int bytes)
{
	struct host *host = &play->host[source];
	struct weir_header h;
	const uint8_t *payload;
	unsigned int n;

	if (!rig_parse(play->frame, bytes, &h, &payload, &n) || h.status == WEIR_STATUS_WAITING)
		return;
	/* A repeat that was overtaken by the block one window later. */
	if (h.status == WEIR_STATUS_EXPIRED && h.block_id < BLOCKS && host->done[h.block_id])
		return;
	if (!rig_checksums_hold(play->frame) || h.status != WEIR_STATUS_OK ||
		h.block_id >= BLOCKS || h.src_cnt != SOURCES || n != length_of(h.block_id) * 4 ||
		h.final != (h.block_id == BLOCKS - 1) ||
		(!play->shape->multicast && h.src_id != source) ||
		h.extended == play->shape->base_form) {
		play->wrong++;
		return;
	}
	for (unsigned int i = 0; i < n / 4; i++) {
		uint32_t sum = 0, got;

		for (unsigned int s = 0; s < SOURCES; s++)
			sum += value(s, h.block_id, i);
		memcpy(&got, payload + 4 * i, 4);
		play->wrong += got != sum;
	}
	if (unlucky(play) || host->done[h.block_id])
		return;
	host->done[h.block_id] = true;
	host->left--;
}

/* One turn of a host: take results, send what the window allows, now and then repeat. */
static void
turn(struct play *play, unsigned int source)
{
	struct host *host = &play->host[source];
	unsigned int bytes;

	while ((bytes = rig_receive(&play->rig, source, play->frame, 0)) > 0)
		check_result(play, source, bytes);
	while (host->next < BLOCKS && (host->next < WINDOW || host->done[host->next - WINDOW])) {
		contribute(play, source, host->next++);
		if (rig_random(&play->random) % 4 == 0)
			return;
	}
	for (uint32_t b = host->next < WINDOW ? 0 : host->next - WINDOW; b < host->next; b++)
		if (!host->done[b] && rig_random(&play->random) % 8 == 0)
			contribute(play, source, b);
}

static void
run(const struct shape *shape)
{
	struct rig_config config = {.workers = shape->workers,
		.threads = shape->threads,
		.ports = SOURCES,
		.jobs = 1,
		.job = {rig_job(1, SOURCES, WINDOW, ELEMENTS)}};
	struct play *play = calloc(1, sizeof(*play));
	uint32_t left = SOURCES * BLOCKS;
	const char *error;

	if (shape->multicast)
		config.job[0].group = 0xef4d0001;
	play->shape = shape;
	play->random = rig_seed();
	rig_start(&play->rig, &config);
	play->generation = rig_join(&play->rig, 0, shape->base_form);
	play->rig.seed = shape->segmented ? play->random : 0;
	for (unsigned int s = 0; s < SOURCES; s++)
		play->host[s].left = BLOCKS;
	for (unsigned int t = 0; left > 0 && t < 100000; t++) {
		left = 0;
		for (unsigned int s = 0; s < SOURCES; s++) {
			turn(play, (unsigned int)(rig_random(&play->random) % SOURCES));
			left += play->host[s].left;
		}
		rig_turn(&play->rig);
	}
	error = rig_stop(&play->rig);
	cr_expect_eq(play->wrong, 0, "%" PRIu64 " wrong", play->wrong);
	cr_expect_eq(left, 0, "%u results never came", left);
	cr_expect_null(error, "%s", error);
	free(play);
}

#define SHAPE(name, ...)                                                                           \
	Test(ppe_collective, name, .timeout = 90)                                                  \
	{                                                                                          \
		run(&(struct shape){__VA_ARGS__});                                                 \
	}

SHAPE(one_worker_one_thread, .workers = 1, .threads = 1, .lossy = true)
SHAPE(one_worker, .workers = 1, .threads = 20, .lossy = true)
SHAPE(one_worker_64_threads, .workers = 1, .threads = 64, .lossy = true, .segmented = true)
SHAPE(two_workers, .workers = 2, .threads = 20, .lossy = true, .segmented = true)
SHAPE(two_workers_one_thread, .workers = 2, .threads = 1, .lossy = true)
SHAPE(four_workers, .workers = 4, .threads = 20, .lossy = true)
SHAPE(four_workers_64_threads, .workers = 4, .threads = 64, .lossy = true)
SHAPE(sixteen_workers, .workers = 16, .threads = 4, .lossy = true)
SHAPE(three_workers_base_form, .workers = 3, .threads = 7, .lossy = true, .base_form = true)
SHAPE(multicast, .workers = 2, .threads = 20, .multicast = true, .lossy = true)
SHAPE(without_loss, .workers = 1, .threads = 20)
