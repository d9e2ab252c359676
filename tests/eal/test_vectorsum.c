/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program of docs/write-a-program.md in a switch: ranks behind ports of their own send vectors of
 * random numbers, and each answer is compared with the sum.
 */
#include "docs/examples/vectorsum/vectorsum.h"
#include "ppe/load.h"
#include "tests/eal/bench.h"

#define RANKS   3
#define HEADERS 42
#define BYTES   (HEADERS + sizeof(struct vectorsum_header)) /* before the elements */
#define TIMEOUT 100

static const uint8_t mac[RANKS][6] = {
	{2, 0, 0, 0, 0, 0xa}, {2, 0, 0, 0, 0, 0xb}, {2, 0, 0, 0, 0, 0xc}};

static int32_t
element(unsigned int rank, uint64_t block, unsigned int e)
{
	uint64_t state = block << 20 | e << 8 | rank;

	return (int32_t)rig_random(&state);
}

static void
put_block(uint64_t block)
{
	weir_put32(frame + 42, (uint32_t)(block >> 32));
	weir_put32(frame + 46, (uint32_t)block);
}

static uint64_t
get_block(void)
{
	return (uint64_t)weir_get32(frame + 42) << 32 | weir_get32(frame + 46);
}

static unsigned int
resize(unsigned int bytes)
{
	weir_put16(frame + 16, (uint16_t)(bytes - 14));
	weir_put16(frame + 38, (uint16_t)(bytes - 34));
	return bytes;
}

/* A rank's packet in `frame`. Returns its bytes. */
static unsigned int
write_vector(unsigned int rank, uint64_t block, uint16_t count)
{
	unsigned int bytes = BYTES + 4u * count;

	memset(frame, 0, HEADERS);
	memcpy(frame, rig_switch_mac, 6);
	memcpy(frame + 6, mac[rank], 6);
	weir_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	frame[22] = 64;
	frame[23] = 17;
	weir_put32(frame + 26, 0x0a4d0001 + rank);
	weir_put32(frame + 30, RIG_SWITCH_IP);
	weir_put16(frame + 34, (uint16_t)(4000 + rank));
	weir_put16(frame + 36, VECTORSUM_PORT);
	resize(bytes);
	put_block(block);
	weir_put32(frame + 50, 0);
	weir_put16(frame + 54, count);
	frame[56] = (uint8_t)rank;
	frame[57] = VECTORSUM_VECTOR;
	for (unsigned int e = 0; e < count; e++) {
		int32_t value = element(rank, block, e);

		memcpy(frame + BYTES + 4u * e, &value, 4);
	}
	rig_fix_checksums(frame);
	return bytes;
}

static void
send_vector(unsigned int rank, uint64_t block, uint16_t count)
{
	unsigned int bytes = write_vector(rank, block, count);

	rig_send(&rig, rank, frame, bytes);
}

/* The next packet to the rank is this sum. */
static void
expect_sum(unsigned int rank, uint64_t block, uint16_t count, uint32_t heard)
{
	unsigned int bytes = rig_receive(&rig, rank, frame, 1000);

	cr_assert_eq(bytes, BYTES + 4u * count, "rank %u, block %lu: %u bytes", rank, block, bytes);
	cr_assert(rig_checksums_hold(frame));
	cr_assert_arr_eq(frame, mac[rank], 6);
	cr_assert_eq(weir_get32(frame + 30), 0x0a4d0001 + rank);
	cr_assert_eq(weir_get16(frame + 36), 4000 + rank);
	cr_assert_eq(get_block(), block);
	cr_assert_eq(weir_get32(frame + 50), heard);
	cr_assert_eq(frame[56], rank);
	cr_assert_eq(frame[57], heard == 7 ? VECTORSUM_SUM : VECTORSUM_PARTIAL);
	for (unsigned int e = 0; e < count; e++) {
		uint32_t sum = 0, found;

		for (unsigned int r = 0; r < RANKS; r++)
			if ((heard >> r & 1) != 0)
				sum += (uint32_t)element(r, block, e);
		memcpy(&found, frame + BYTES + 4u * e, 4);
		cr_assert_eq(found, sum, "rank %u, block %lu, element %u", rank, block, e);
	}
}

/* No rank gets a packet within 30 ms. */
static void
silence(void)
{
	for (unsigned int r = 0; r < RANKS; r++)
		cr_assert_eq(rig_receive(&rig, r, frame, 30), 0, "rank %u", r);
}

extern const struct ppe_program_file weir_program;

static void
without_jobs(struct rig_config *config)
{
	config->jobs = 0;
}

/* Loading or unloading takes its steps. */
static void
settle(void)
{
	for (unsigned int i = 0; i < 10; i++) {
		pass_ms(1);
		ppe_programs_tick(rig.ppe);
	}
}

static void
begin(unsigned int workers)
{
	const struct ppe_value values[] = {
		{.number = VECTORSUM_PORT}, {.number = RANKS}, {.number = TIMEOUT}};

	start(.workers = workers, .ports = RANKS, .change = without_jobs);
	rig.seed = rig_seed(); /* frames in several segments */
	cr_assert_null(ppe_program_check(weir_program.program));
	cr_assert_eq(ppe_program_load(rig.ppe, weir_program.program, values), 0);
	settle();
}

static void
end(void)
{
	cr_assert_eq(ppe_program_unload(rig.ppe, "vectorsum"), 0);
	settle();
	cr_assert_eq(ppe_program_gone(rig.ppe), weir_program.program);
	stop();
}

ONE_WORKER_AND_TWO(vectorsum, every_rank_gets_every_sum)
{
	const unsigned int blocks = 3 * VECTORSUM_SLOTS;

	begin(workers);
	for (uint64_t b = 1; b <= blocks; b++) {
		uint16_t count = (uint16_t)(1 + rig_random(&rig.seed) % VECTORSUM_ELEMENTS);

		for (unsigned int r = 0; r < RANKS; r++)
			send_vector((r + (unsigned int)b) % RANKS, b, count);
		for (unsigned int r = 0; r < RANKS; r++)
			expect_sum(r, b, count, 7);
	}
	/* A lost packet: the rank sends its vector again. */
	for (unsigned int i = 0; i < 3; i++)
		send_vector(0, blocks + 1, VECTORSUM_ELEMENTS);
	silence();
	for (unsigned int r = 1; r < RANKS; r++)
		send_vector(r, blocks + 1, VECTORSUM_ELEMENTS);
	for (unsigned int r = 0; r < RANKS; r++)
		expect_sum(r, blocks + 1, VECTORSUM_ELEMENTS, 7);
	/* A lost answer, also of a block a window ago: it is sent again, to the rank that asks. */
	for (uint64_t b = blocks + 1 - VECTORSUM_WINDOW; b > blocks + 1 - VECTORSUM_SLOTS; b -= 8)
		send_vector(1, blocks + 1, VECTORSUM_ELEMENTS);
	for (uint64_t b = blocks + 1 - VECTORSUM_WINDOW; b > blocks + 1 - VECTORSUM_SLOTS; b -= 8)
		expect_sum(1, blocks + 1, VECTORSUM_ELEMENTS, 7);
	silence();
	end();
}

ONE_WORKER_AND_TWO(vectorsum, the_timeout_says_who_is_missing)
{
	begin(workers);
	for (uint64_t b = 1; b <= 5; b++) {
		send_vector(0, b, 10);
		send_vector(2, b, 10);
	}
	for (uint64_t b = 1; b <= 5; b++)
		cr_assert_eq(rig_receive(&rig, 0, frame, 1), 0, "before the time is over");
	pass_ms(TIMEOUT + TIMEOUT / 10 + 2);
	for (uint64_t b = 1; b <= 5; b++) {
		/* In the order of the slots, of each worker. */
		cr_assert_neq(rig_receive(&rig, 0, frame, 1000), 0);
		expect_sum(2, get_block(), 10, 5);
	}
	silence();
	/* The late one gets the sum that the others have. */
	send_vector(1, 3, 10);
	expect_sum(1, 3, 10, 5);
	/* The next blocks are whole again. */
	for (unsigned int r = 0; r < RANKS; r++)
		send_vector(r, 6, 10);
	for (unsigned int r = 0; r < RANKS; r++)
		expect_sum(r, 6, 10, 7);
	silence();
	end();
}

/* Wrong packets: what differs from a good one, and the reason for which it is dropped. */
#define WRONG_VECTOR(change, reason)                                                               \
	do {                                                                                       \
		bytes = write_vector(1, 70, 8);                                                    \
		change;                                                                            \
		rig_fix_checksums(frame);                                                          \
		rig_send(&rig, 1, frame, bytes);                                                   \
		rig_rest(&rig);                                                                    \
		cr_expect_eq(drops(reason), ++seen[reason], "%s", #change);                        \
	} while (0)

Test(vectorsum, wrong_packets_are_dropped, .timeout = 90)
{
	unsigned int seen[PPE_DROP_COUNT] = {0}, bytes;

	begin(1);
	send_vector(0, 70, 8);
	WRONG_VECTOR(bytes = resize(BYTES - 1), PPE_DROP_TRUNCATED);
	WRONG_VECTOR(bytes = resize(HEADERS), PPE_DROP_TRUNCATED);
	WRONG_VECTOR(bytes = resize(BYTES + 31), PPE_DROP_LENGTH);
	WRONG_VECTOR(bytes = resize(BYTES + 33), PPE_DROP_LENGTH);
	WRONG_VECTOR(weir_put16(frame + 54, 0), PPE_DROP_LENGTH);
	WRONG_VECTOR(
		(weir_put16(frame + 54, 257), bytes = resize(BYTES + 4 * 257)), PPE_DROP_LENGTH);
	WRONG_VECTOR(frame[56] = RANKS, PPE_DROP_UNKNOWN_SOURCE);
	WRONG_VECTOR(frame[56] = 255, PPE_DROP_UNKNOWN_SOURCE);
	WRONG_VECTOR((weir_put16(frame + 54, 7), bytes = resize(BYTES + 28)), PPE_DROP_MISMATCH);
	WRONG_VECTOR(put_block(6), PPE_DROP_EXPIRED);
	bytes = write_vector(1, 70, 8);
	frame[BYTES]++;
	rig_send(&rig, 1, frame, bytes);
	rig_rest(&rig);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	silence();
	/* The block has come to no harm. */
	send_vector(1, 70, 8);
	send_vector(2, 70, 8);
	for (unsigned int r = 0; r < RANKS; r++)
		expect_sum(r, 70, 8, 7);
	end();
}
