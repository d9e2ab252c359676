/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shortcuts are only shortcuts: a contribution that looks like its source's last one must end as it
 * would have ended without the flow cache.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

#include "tests/eal/rig.h"

#define ELEMENTS  16
#define MIN(a, b) ((a) < (b) ? (a) : (b))

struct bench {
	struct rig rig;
	uint16_t generation;
	uint32_t next; /* block */
	bool extended;
	uint8_t frame[RIG_FRAME_MAX];
};

/* How a packet ended. */
struct outcome {
	uint64_t drops[PPE_DROP_COUNT];
	uint64_t consumed, contributions, results;
};

static void
start(struct bench *bench, unsigned int sources, bool extended)
{
	struct rig_config config = {.workers = 1, .threads = 4, .ports = 2, .jobs = 1};

	memset(bench, 0, sizeof(*bench));
	config.job[0] = rig_job(1, (uint16_t)sources, 16, ELEMENTS);
	rig_start(&bench->rig, &config);
	bench->extended = extended;
	bench->generation = rig_join(&bench->rig, 0, !extended);
}

static void
stop(struct bench *bench)
{
	const char *wrong = rig_stop(&bench->rig);

	cr_assert_null(wrong, "%s", wrong);
}

static unsigned int
write_contribution(struct bench *bench, unsigned int source, unsigned int elements)
{
	const struct weir_header h = {.job_id = 1,
		.block_id = bench->next,
		.src_id = (uint8_t)source,
		.gen_id = bench->generation,
		.grad_cnt = (uint16_t)elements,
		.extended = bench->extended,
		.dtype = WEIR_DTYPE_INT32};
	uint32_t values[ELEMENTS] = {0};

	return rig_frame(bench->frame, source, &h, values, elements * 4);
}

static void
look(struct bench *bench, struct outcome *now)
{
	struct ppe_stats stats;
	struct ppe_job_stats job;

	rig_settle(&bench->rig, &stats);
	for (unsigned int port = 0; port < 2; port++)
		while (rig_receive(&bench->rig, port, bench->frame, 0) > 0)
			;
	cr_assert_eq(ppe_job_stats_read(bench->rig.ppe, 1, &job), 0);
	memcpy(now->drops, stats.drops, sizeof(now->drops));
	now->consumed = stats.consumed;
	now->contributions = job.contributions;
	now->results = job.results;
}

/* Send what is in the frame, and see how it ends. */
static struct outcome
offer_at(struct bench *bench, unsigned int port, unsigned int bytes)
{
	struct outcome before, after;
	uint8_t frame[256];

	memcpy(frame, bench->frame, MIN(bytes, sizeof(frame)));
	look(bench, &before);
	rig_send(&bench->rig, port, frame, bytes);
	look(bench, &after);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		after.drops[i] -= before.drops[i];
	after.consumed -= before.consumed;
	after.contributions -= before.contributions;
	after.results -= before.results;
	return after;
}

static struct outcome
offer(struct bench *bench, unsigned int bytes)
{
	return offer_at(bench, 0, bytes);
}

/* A block of a job of one source: complete at once. */
static void
complete_block(struct bench *bench, unsigned int elements)
{
	unsigned int bytes = write_contribution(bench, 0, elements);
	struct outcome end = offer(bench, bytes);

	cr_assert(end.contributions == 1 && end.results == 1, "block %u", bench->next);
	bench->next++;
}

static struct outcome
offer_flipped(struct bench *bench, unsigned int byte, unsigned int bit)
{
	unsigned int bytes = write_contribution(bench, 0, 8);
	struct outcome end;

	bench->frame[byte] ^= (uint8_t)(1u << bit);
	/* Lengths that lie would make the repair of the checksum read wild. */
	if (byte != 16 && byte != 17 && byte != 38 && byte != 39)
		rig_fix_checksums(bench->frame);
	end = offer(bench, bytes);
	bench->next += (uint32_t)end.contributions;
	return end;
}

/* Each bit of all headers, once after a contribution that looks the same else, and once after one
 * that does not: the ends are the same. */
static void
flip_every_bit(bool extended)
{
	const unsigned int headers = 42 + weir_header_bytes(extended);
	struct bench bench;
	unsigned int taken = 0;

	start(&bench, 1, extended);
	for (unsigned int byte = 0; byte < headers; byte++) {
		for (unsigned int bit = 0; bit < 8; bit += 1 + (byte + bit) % 3) {
			struct outcome cold, warm;

			if (byte == 46 && bit < 4)
				continue; /* another block of the window: rightly taken */
			complete_block(&bench, 5);
			cold = offer_flipped(&bench, byte, bit);
			complete_block(&bench, 8);
			complete_block(&bench, 8);
			warm = offer_flipped(&bench, byte, bit);
			cr_assert_eq(memcmp(&cold, &warm, sizeof(cold)), 0,
				"byte %u bit %u: contributions %" PRIu64 " and %" PRIu64, byte, bit,
				cold.contributions, warm.contributions);
			taken += (unsigned int)warm.contributions;
		}
	}
	/* Type of service, identification, hops, the final flag and the like do not matter. */
	cr_assert(taken > 5 && taken < 100, "%u", taken);
	stop(&bench);
}

CASE(ppe_flow_cache, every_bit_in_the_base_form, flip_every_bit(false))
CASE(ppe_flow_cache, every_bit_in_the_extended_form, flip_every_bit(true))

/* Both sources' contributions to the next block. */
static void
complete_pair(struct bench *bench)
{
	for (unsigned int source = 0; source < 2; source++) {
		unsigned int bytes = write_contribution(bench, source, 8);
		struct outcome end = offer_at(bench, source, bytes);

		cr_assert_eq(end.contributions, 1, "source %u block %u", source, bench->next);
	}
	bench->next++;
}

/* The same bytes as before, but for the block: one that the other source has opened anew. */
Test(ppe_flow_cache, an_old_generation_is_stale, .timeout = 90)
{
	struct bench bench;
	struct outcome end;
	uint16_t old;

	start(&bench, 2, false);
	complete_pair(&bench);
	complete_pair(&bench);
	old = bench.generation;
	bench.generation = rig_join(&bench.rig, 0, true);
	cr_assert_neq(bench.generation, old);
	bench.next = 0;
	end = offer_at(&bench, 1, write_contribution(&bench, 1, 8));
	cr_assert_eq(end.contributions, 1);
	bench.generation = old;
	end = offer(&bench, write_contribution(&bench, 0, 8));
	cr_assert_eq(end.contributions, 0, "counted in the new generation");
	cr_assert_eq(end.drops[PPE_DROP_STALE], 1);
	stop(&bench);
}

Test(ppe_flow_cache, cached_flow_from_another_port_is_spoofed, .timeout = 90)
{
	struct bench bench;
	struct outcome end;

	start(&bench, 2, false);
	complete_pair(&bench);
	complete_pair(&bench);
	end = offer_at(&bench, 1, write_contribution(&bench, 0, 8));
	cr_assert_eq(end.contributions, 0);
	cr_assert_eq(end.drops[PPE_DROP_SPOOFED_MEMBER], 1);
	stop(&bench);
}

Test(ppe_flow_cache, a_new_job_table_is_asked, .timeout = 90)
{
	struct bench bench;
	struct outcome end;
	struct ppe_job moved, another;
	struct ppe_jobs table = {0};

	start(&bench, 1, false);
	complete_block(&bench, 8);
	complete_block(&bench, 8);
	moved = bench.rig.job[0];
	moved.address[0]++;
	table.by_id[1] = &moved;
	cr_assert_eq(ppe_publish_jobs(bench.rig.ppe, &table), 0);
	end = offer(&bench, write_contribution(&bench, 0, 8));
	cr_assert_eq(end.contributions, 0);
	cr_assert_eq(end.drops[PPE_DROP_ADDRESS], 1);
	moved.address[0]--;
	another = moved;
	another.instance++;
	cr_assert_eq(ppe_publish_jobs(bench.rig.ppe, &bench.rig.jobs), 0);
	end = offer(&bench, write_contribution(&bench, 0, 8));
	cr_assert_eq(end.drops[PPE_DROP_ADDRESS], 1, "who came back has not joined again");
	table.by_id[1] = &another;
	cr_assert_eq(ppe_publish_jobs(bench.rig.ppe, &table), 0); /* another job of this id */
	end = offer(&bench, write_contribution(&bench, 0, 8));
	cr_assert_eq(end.drops[PPE_DROP_NOT_JOINED], 1);
	cr_assert_eq(ppe_publish_jobs(bench.rig.ppe, &bench.rig.jobs), 0);
	stop(&bench);
}
