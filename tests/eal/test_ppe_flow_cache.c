/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shortcuts are only shortcuts: a contribution that looks like its source's last one must end as it
 * would have ended without the flow cache.
 */
#include <inttypes.h>

#include "tests/eal/bench.h"

static uint32_t next; /* block */

/* How a packet ended. */
struct outcome {
	uint64_t drops[PPE_DROP_COUNT];
	uint64_t consumed, contributions, results;
};

static struct outcome
look(void)
{
	const struct ppe_job_stats job = job_stats(1);
	struct outcome now = {.contributions = job.contributions, .results = job.results};
	struct ppe_stats stats;

	discard();
	ppe_stats_read(rig.ppe, &stats);
	memcpy(now.drops, stats.drops, sizeof(now.drops));
	now.consumed = stats.consumed;
	return now;
}

/* Send what is in the frame, and see how it ends. */
static struct outcome
end_of(unsigned int port, unsigned int bytes)
{
	uint8_t sent[256];
	struct outcome before, after;

	memcpy(sent, frame, bytes);
	before = look();
	rig_send(&rig, port, sent, bytes);
	after = look();
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		after.drops[i] -= before.drops[i];
	after.consumed -= before.consumed;
	after.contributions -= before.contributions;
	after.results -= before.results;
	return after;
}

static void
start_form(unsigned int sources, bool extended)
{
	start(.workers = 1, .threads = 4, .sources = sources, .ports = 2, .window = 16,
		.elements = 16, .timeout_ms = 1000, .base_form = !extended);
}

/* Write a source's contribution to the next block; returns its bytes. */
static unsigned int
write_next(unsigned int source, unsigned int elements)
{
	struct weir_header h = contribution(source, next);

	h.grad_cnt = (uint16_t)elements;
	return write_frame(&h, 4 * elements);
}

/* A block of a job of one source: complete at once. */
static void
complete_block(unsigned int elements)
{
	unsigned int bytes = write_next(0, elements);
	struct outcome end = end_of(0, bytes);

	cr_assert(end.contributions == 1 && end.results == 1, "block %u", next);
	next++;
}

static struct outcome
offer_flipped(unsigned int byte, unsigned int bit)
{
	unsigned int bytes = write_next(0, 8);
	struct outcome end;

	frame[byte] ^= (uint8_t)(1u << bit);
	/* Lengths that lie would make the repair of the checksum read wild. */
	if (byte != 16 && byte != 17 && byte != 38 && byte != 39)
		rig_fix_checksums(frame);
	end = end_of(0, bytes);
	next += (uint32_t)end.contributions;
	return end;
}

/* Each bit of all headers, once after a contribution that looks the same else, and once after one
 * that does not: the ends are the same. */
static void
flip_every_bit(bool extended)
{
	const unsigned int headers = 42 + weir_header_bytes(extended);
	unsigned int taken = 0;

	start_form(1, extended);
	for (unsigned int byte = 0; byte < headers; byte++) {
		for (unsigned int bit = 0; bit < 8; bit += 1 + (byte + bit) % 3) {
			struct outcome cold, warm;

			if (byte == 46 && bit < 4)
				continue; /* another block of the window: rightly taken */
			complete_block(5);
			cold = offer_flipped(byte, bit);
			complete_block(8);
			complete_block(8);
			warm = offer_flipped(byte, bit);
			cr_assert_eq(memcmp(&cold, &warm, sizeof(cold)), 0,
				"byte %u bit %u: contributions %" PRIu64 " and %" PRIu64, byte, bit,
				cold.contributions, warm.contributions);
			taken += (unsigned int)warm.contributions;
		}
	}
	/* Type of service, identification, hops, the final flag and the like do not matter. */
	cr_assert(taken > 5 && taken < 100, "%u", taken);
	stop();
}

CASE(ppe_flow_cache, every_bit_in_the_base_form, flip_every_bit(false))
CASE(ppe_flow_cache, every_bit_in_the_extended_form, flip_every_bit(true))

/* Both sources' contributions to the next block. */
static void
complete_pair(void)
{
	for (unsigned int source = 0; source < 2; source++) {
		unsigned int bytes = write_next(source, 8);
		struct outcome end = end_of(source, bytes);

		cr_assert_eq(end.contributions, 1, "source %u block %u", source, next);
	}
	next++;
}

/* The same bytes as before, but for the block: one that the other source has opened anew. */
Test(ppe_flow_cache, an_old_generation_is_stale, .timeout = 90)
{
	struct outcome end;
	uint16_t old;

	start_form(2, false);
	complete_pair();
	complete_pair();
	old = generation;
	generation = rig_join(&rig, 0, true);
	cr_assert_neq(generation, old);
	next = 0;
	end = end_of(1, write_next(1, 8));
	cr_assert_eq(end.contributions, 1);
	generation = old;
	end = end_of(0, write_next(0, 8));
	cr_assert_eq(end.contributions, 0, "counted in the new generation");
	cr_assert_eq(end.drops[PPE_DROP_STALE], 1);
	stop();
}

Test(ppe_flow_cache, cached_flow_from_another_port_is_spoofed, .timeout = 90)
{
	struct outcome end;

	start_form(2, false);
	complete_pair();
	complete_pair();
	end = end_of(1, write_next(0, 8));
	cr_assert_eq(end.contributions, 0);
	cr_assert_eq(end.drops[PPE_DROP_SPOOFED_MEMBER], 1);
	stop();
}

Test(ppe_flow_cache, a_new_job_table_is_asked, .timeout = 90)
{
	struct outcome end;
	struct ppe_job moved, another;

	start_form(1, false);
	complete_block(8);
	complete_block(8);
	moved = rig.job[0];
	moved.address[0]++;
	publish(&moved);
	end = end_of(0, write_next(0, 8));
	cr_assert_eq(end.contributions, 0);
	cr_assert_eq(end.drops[PPE_DROP_ADDRESS], 1);
	moved.address[0]--;
	another = moved;
	another.instance++;
	publish(&rig.job[0]);
	end = end_of(0, write_next(0, 8));
	cr_assert_eq(end.drops[PPE_DROP_ADDRESS], 1, "who came back has not joined again");
	publish(&another); /* another job of this id */
	end = end_of(0, write_next(0, 8));
	cr_assert_eq(end.drops[PPE_DROP_NOT_JOINED], 1);
	publish(&rig.job[0]);
	stop();
}
