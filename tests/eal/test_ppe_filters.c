/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filters on the bench: each result, several filters, batches and threads, and changes while packets flow. The filters are
 * eBPF by hand, so no compiler for it is needed.
 */
#include <errno.h>
#include <stddef.h>

#include "pktbuf/wire/wire.h"
#include "ppe/faults/faults.h"
#include "ppe/filters/filters.h"
#include "ppe/load.h"
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"
#include "tests/eal/bench.h"

#define NUMBER_AT    17 /* of a frame, in this byte: what the filter `by_number` looks at */

#define AT(member)   ((int16_t)offsetof(struct weir_filter, member))
#define FRAME_AT(at) ((int16_t)(offsetof(struct weir_filter, eth_dst) + (at)))
#define BYTE(to, from, at)                                                                         \
	{                                                                                          \
		.code = BPF_LDX | BPF_MEM | BPF_B, .dst_reg = to, .src_reg = from, .off = at       \
	}
#define WORD(to, from, at)                                                                         \
	{                                                                                          \
		.code = BPF_LDX | BPF_MEM | EBPF_DW, .dst_reg = to, .src_reg = from, .off = at     \
	}
#define STORE(to, at, from)                                                                        \
	{                                                                                          \
		.code = BPF_STX | BPF_MEM | EBPF_DW, .dst_reg = to, .src_reg = from, .off = at     \
	}
#define DO(operation, to, number)                                                                  \
	{                                                                                          \
		.code = EBPF_ALU64 | operation | BPF_K, .dst_reg = to, .imm = number               \
	}
#define ADD(to, from)                                                                              \
	{                                                                                          \
		.code = EBPF_ALU64 | BPF_ADD | BPF_X, .dst_reg = to, .src_reg = from               \
	}
#define UNLESS(reg, number, skip)                                                                  \
	{                                                                                          \
		.code = BPF_JMP | EBPF_JNE | BPF_K, .dst_reg = reg, .imm = number, .off = skip     \
	}
#define END                                                                                        \
	{                                                                                          \
		.code = BPF_JMP | EBPF_EXIT                                                        \
	}

/* The frame's number modulo 8 is the index of the result in `value`, and of the counter that grows. */
static const struct ebpf_insn by_number[] = {
	BYTE(2, 1, FRAME_AT(NUMBER_AT)),
	DO(BPF_AND, 2, 7),
	DO(BPF_LSH, 2, 3),
	ADD(1, 2),
	WORD(3, 1, AT(counter)),
	DO(BPF_ADD, 3, 1),
	STORE(1, AT(counter), 3),
	WORD(0, 1, AT(value)),
	END,
};

/* Drop frames with something in byte 100. */
static const struct ebpf_insn by_far_byte[] = {
	BYTE(2, 1, FRAME_AT(100)),
	DO(EBPF_MOV, 0, WEIR_DROP),
	UNLESS(2, 0, 1),
	DO(EBPF_MOV, 0, WEIR_PASS),
	END,
};

static const struct ebpf_insn beyond[] = {
	WORD(0, 1, (int16_t)(sizeof(struct weir_filter) - 4)), END};
static const struct ebpf_insn loop[] = {
	DO(EBPF_MOV, 0, 0), {.code = BPF_JMP | BPF_JA, .off = -2}, END};
static const struct ebpf_insn call[] = {{.code = BPF_JMP | EBPF_CALL, .imm = 1}, END};

/* A program that takes two segments for a packet. `rest` takes every packet, but comes last; `kind` wants another type. */
static struct ppe_next
sink_end(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return ppe_consume(worker, thread);
}

static struct ppe_next
sink_first(struct ppe_worker *worker, struct ppe_thread *thread)
{
	(void)worker;
	(void)thread;
	return PPE_RUN(sink_end);
}

static int
match_all(const struct ppe_setup *setup, void **state)
{
	*state = NULL;
	return ppe_match_add(setup, &(struct ppe_match){0});
}

static int
match_kind(const struct ppe_setup *setup, void **state)
{
	*state = NULL;
	return ppe_match_add(setup,
		&(struct ppe_match){.conditions = PPE_MATCH_ETHER_TYPE | PPE_MATCH_TO_SWITCH_MAC,
			.ether_type = 0x88b6});
}

static const struct ppe_program rest = {.name = "rest", .first = sink_first, .create = match_all};
static const struct ppe_program kind = {
	.name = "kind", .first = sink_first, .ordered = true, .create = match_kind};
static const struct ppe_program loaded = {
	.name = "loaded", .first = sink_first, .create = match_kind};
static const struct ppe_program *const programs[] = {
	&collective_program, &kind, &exception_program, &forward_program, &rest, NULL};

static void
with_programs(struct rig_config *config)
{
	config->programs = programs;
	config->frames = 8191;
}

static struct ppe_filter filter;

static int
load(const char *name, const struct ebpf_insn *code, unsigned int count)
{
	int rc;

	snprintf(filter.name, sizeof(filter.name), "%s", name);
	rc = ppe_filter_load(rig.ppe, &filter, code, count, false);
	filter = (struct ppe_filter){.ports = UINT64_MAX};
	return rc;
}
#define LOAD(name, code) load(name, code, RTE_DIM(code))

static void
begin(unsigned int workers)
{
	start(.workers = workers, .change = with_programs);
	filter = (struct ppe_filter){.ports = UINT64_MAX};
}

static struct ppe_filter_info
info_of(unsigned int i)
{
	struct ppe_filter_info infos[PPE_FILTERS_MAX];

	cr_assert_lt(i, ppe_filters_read(rig.ppe, infos));
	return infos[i];
}

static void
send_typed(uint16_t type, uint32_t number, unsigned int bytes, uint8_t fill)
{
	memset(frame, fill, bytes);
	memset(frame, 0xff, 6);
	frame[6] = 2;
	weir_put16(frame + 12, type);
	weir_put32(frame + 14, number);
	rig_send(&rig, 0, frame, bytes);
}

/* Frames with numbers, to all; they leave by port 1. Returns how many do. */
static unsigned int
play(unsigned int count)
{
	unsigned int n = 0;

	for (uint32_t number = 0; number < count; number++)
		send_typed(0x88b5, number, 64, 0);
	while (rig_receive(&rig, 1, frame, 20) > 0)
		n++;
	return n;
}

static uint64_t
consumed(void)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	return stats.consumed;
}

ONE_WORKER_AND_TWO(ppe_filters, drops_and_counts)
{
	begin(workers);
	rig.seed = 3; /* frames in segments */
	filter.value[3] = WEIR_DROP;
	filter.value[5] = 77; /* unknown: a pass */
	cr_assert_eq(LOAD("a", by_number), 0);
	cr_expect_eq(play(80), 70);
	expect_drop(PPE_DROP_FILTER, 10);
	cr_expect_eq(info_of(0).passed, 70);
	cr_expect_eq(info_of(0).dropped, 10);
	for (unsigned int i = 0; i < WEIR_FILTER_COUNTERS; i++)
		cr_expect_eq(info_of(0).counter[i], 10);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "a", false), 0);
	cr_expect_eq(play(16), 16);
	expect_drop(PPE_DROP_FILTER, 10);
	stop();
}

Test(ppe_filters, see_only_their_ports, .timeout = 90)
{
	begin(1);
	filter.ports = 1 << 1;
	filter.value[0] = WEIR_DROP;
	cr_assert_eq(LOAD("a", by_number), 0);
	cr_expect_eq(play(8), 8);
	cr_expect_eq(info_of(0).passed + info_of(0).dropped, 0);
	stop();
}

Test(ppe_filters, run_in_order_until_one_does_not_pass, .timeout = 90)
{
	begin(1);
	filter.value[1] = WEIR_DROP;
	cr_assert_eq(LOAD("a", by_number), 0);
	filter.value[1] = filter.value[2] = WEIR_DROP;
	cr_assert_eq(LOAD("b", by_number), 0);
	cr_expect_eq(play(8), 6);
	cr_expect_eq(info_of(0).passed, 7);
	cr_expect_eq(info_of(1).counter[1], 0);
	cr_expect_eq(info_of(1).dropped, 1);
	stop();
}

Test(ppe_filters, bytes_beyond_the_frame_are_0, .timeout = 90)
{
	begin(1);
	cr_assert_eq(LOAD("a", by_far_byte), 0);
	for (unsigned int i = 0; i < 4; i++) {
		rig.seed = i / 2; /* whole, and in segments */
		send_typed(0x88b5, i, i % 2 == 0 ? 200 : 64, 0xee);
		cr_expect_eq(rig_receive(&rig, 1, frame, 20), i % 2 == 0 ? 0 : 64);
	}
	expect_drop(PPE_DROP_FILTER, 2);
	stop();
}

ONE_WORKER_AND_TWO(ppe_filters, a_program_gets_packets_that_it_does_not_match)
{
	uint64_t before;

	begin(workers);
	play(1); /* forward learns the station, and tells the other worker */
	snprintf(filter.program[0], sizeof(filter.program[0]), "forward");
	snprintf(filter.program[1], sizeof(filter.program[1]), "rest");
	filter.nb_programs = 2;
	filter.value[1] = filter.value[2] = WEIR_PROGRAM(1);
	filter.value[3] = WEIR_PROGRAM(0);
	filter.value[4] = WEIR_PROGRAM(2); /* there is none: a pass */
	cr_assert_eq(LOAD("a", by_number), 0);
	before = consumed();
	/* More than there are contexts at once. */
	cr_expect_eq(play(400), 300);
	cr_expect_eq(consumed() - before, 100);
	cr_expect_eq(info_of(0).to_program, 150);
	cr_expect_eq(info_of(0).passed, 250);
	cr_expect_str_eq(ppe_filter_of_program(rig.ppe, "rest"), "a");
	cr_expect_null(ppe_filter_of_program(rig.ppe, "kind"));
	stop();
}

Test(ppe_filters, a_program_gets_its_kind_only_but_any_address, .timeout = 90)
{
	uint64_t before;

	begin(1);
	snprintf(filter.program[0], sizeof(filter.program[0]), "kind");
	snprintf(filter.program[1], sizeof(filter.program[1]), "collective");
	filter.nb_programs = 2;
	filter.value[0] = WEIR_PROGRAM(0);
	filter.value[1] = WEIR_PROGRAM(1);
	cr_assert_eq(LOAD("a", by_number), 0);
	before = consumed();
	cr_expect_eq(play(2), 2);
	cr_expect_eq(info_of(0).passed, 2);
	send_typed(0x88b6, 0, 64, 0);
	cr_expect_eq(rig_receive(&rig, 1, frame, 20), 0);
	cr_expect_eq(consumed() - before, 1);
	cr_expect_eq(info_of(0).to_program, 1);
	stop();
}

Test(ppe_filters, a_program_stays_while_a_filter_may_choose_it, .timeout = 90)
{
	begin(2);
	cr_assert_eq(ppe_program_load(rig.ppe, &loaded, NULL), 0);
	rig_pass_us(10000);
	ppe_programs_tick(rig.ppe);
	snprintf(filter.program[0], sizeof(filter.program[0]), "loaded");
	filter.nb_programs = 1;
	for (unsigned int i = 0; i < 8; i++)
		filter.value[i] = WEIR_PROGRAM(0);
	cr_assert_eq(LOAD("a", by_number), 0);
	send_typed(0x88b6, 0, 64, 0);
	cr_expect_eq(rig_receive(&rig, 1, frame, 20), 0);
	cr_expect_eq(info_of(0).to_program, 1);
	cr_expect_eq(ppe_program_unload(rig.ppe, "loaded"), -EADDRINUSE);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "a", false), 0);
	cr_expect_eq(ppe_program_unload(rig.ppe, "loaded"), 0);
	stop();
}

Test(ppe_filters, a_worker_gets_packets_of_another, .timeout = 90)
{
	struct ppe_stats before, stats;

	begin(2);
	play(1); /* as above */
	for (unsigned int i = 0; i < 8; i++)
		filter.value[i] = WEIR_QUEUE(i % 2);
	filter.value[7] = WEIR_QUEUE(2); /* there is none: a pass */
	cr_assert_eq(LOAD("a", by_number), 0);
	ppe_stats_read(rig.ppe, &before);
	cr_expect_eq(play(800), 800);
	rig_settle(&rig, &stats);
	cr_expect_eq(info_of(0).to_worker, 700);
	/* Port 0 belongs to worker 0; what comes over the crossbar is not filtered again. */
	cr_expect_eq(stats.worker[0].hops_out - before.worker[0].hops_out, 300);
	cr_expect_eq(stats.worker[1].hops_in - before.worker[1].hops_in, 300);
	cr_expect_eq(info_of(0).passed, 100);
	stop();
}

/* Batches of contributions, which the filter passes, drops, and gives to a program that eats them. */
ONE_WORKER_AND_TWO(ppe_filters, batches_lack_what_filters_take)
{
	begin(workers);
	cr_assert_eq(LOAD("pass", by_number), 0);
	reduce(0);
	cr_expect_geq(info_of(0).passed, 2);
	for (unsigned int i = 0; i < 8; i++)
		filter.value[i] = WEIR_DROP;
	cr_assert_eq(LOAD("drop", by_number), 0);
	contribute_all(1);
	expect_silence();
	expect_drop(PPE_DROP_FILTER, 2);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "drop", false), 0);
	reduce(1);
	snprintf(filter.program[0], sizeof(filter.program[0]), "rest");
	filter.nb_programs = 1;
	for (unsigned int i = 0; i < 8; i++)
		filter.value[i] = WEIR_PROGRAM(0);
	cr_assert_eq(LOAD("eat", by_number), 0);
	contribute_all(2);
	expect_silence();
	cr_expect_eq(info_of(1).to_program, 2);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "eat", false), 0);
	reduce(2);
	stop();
}

Test(ppe_filters, look_once_at_packets_that_faults_delay, .timeout = 90)
{
	struct ppe_faults faults = {.seed = 1, .held = 1024, .nb_rules = 1};

	faults.rule[0] = (struct ppe_fault_rule){.port = -1,
		.job = -1,
		.source = -1,
		.last = UINT32_MAX,
		.probability = 1,
		.action = PPE_FAULT_DELAY,
		.us = 5000,
		.most_us = 5000};
	begin(1);
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
	filter.value[3] = WEIR_DROP;
	cr_assert_eq(LOAD("a", by_number), 0);
	cr_expect_eq(play(80), 70);
	cr_expect_eq(info_of(0).passed, 70);
	cr_expect_eq(info_of(0).dropped, 10);
	stop();
}

ONE_WORKER_AND_TWO(ppe_filters, come_and_go_while_packets_flow)
{
	uint64_t looked = 0;

	begin(workers);
	cr_assert_eq(LOAD("stays", by_number), 0);
	for (unsigned int round = 0; round < 100; round++) {
		for (unsigned int i = 0; i < 16; i++)
			send_typed(0x88b5, i, 64, 0);
		rig_turn(&rig);
		if (round % 2 == 0) {
			filter.value[round / 2 % 8] = WEIR_DROP;
			cr_assert_eq(LOAD("a", by_number), 0);
		} else {
			struct ppe_filter_info info = info_of(1);

			looked += info.passed + info.dropped;
			cr_assert_eq(ppe_filter_unload(rig.ppe, "a", false), 0);
		}
	}
	while (rig_receive(&rig, 1, frame, 20) > 0)
		;
	cr_expect_eq(info_of(0).passed, 1600, "the other filter goes on counting");
	cr_expect_eq(drops(PPE_DROP_FILTER) * 8, looked);
	cr_expect_gt(looked, 0);
	stop();
}

Test(ppe_filters, are_refused_and_nothing_changes, .timeout = 90)
{
	char name[8];
	unsigned int at;

	begin(1);
	cr_assert_eq(LOAD("a", by_number), 0);
	cr_expect_eq(LOAD("a", by_number), -EEXIST);
	cr_expect_eq(LOAD("b", beyond), -EINVAL);
	cr_expect_eq(LOAD("b", call), -EINVAL);
	cr_expect_eq(LOAD("b", loop), -EINVAL);
	cr_expect_not_null(ppe_filter_check(loop, RTE_DIM(loop), &at));
	cr_expect_eq(at, 1);
	snprintf(filter.program[0], sizeof(filter.program[0]), "nothing");
	filter.nb_programs = 1;
	cr_expect_eq(LOAD("b", by_number), -ENOENT);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "b", false), -ENOENT);
	cr_expect_eq(ppe_filter_unload(rig.ppe, "a", true), 0);
	cr_expect_eq(ppe_filter_load(rig.ppe, &(struct ppe_filter){.name = "b"}, by_number,
			     RTE_DIM(by_number), true),
		0);
	for (unsigned int i = 1; i < PPE_FILTERS_MAX; i++) {
		snprintf(name, sizeof(name), "%u", i);
		cr_assert_eq(LOAD(name, by_number), 0);
	}
	cr_expect_eq(LOAD("b", by_number), -ENOSPC);
	cr_expect_eq(play(8), 8);
	for (unsigned int i = 0; i < PPE_FILTERS_MAX; i++)
		cr_expect_eq(info_of(i).passed, 8);
	stop();
}
