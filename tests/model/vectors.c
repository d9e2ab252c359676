/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/eal/rig.h"
#include "tests/model/tags.h"

#define GENERATION 7
#define GROUP      0xef4d0001 /* 239.77.0.1 */

#define EXTENDED   .job_id = 1, .extended = true
#define BASE       .job_id = 1, .dtype = WEIR_DTYPE_FP32
#define TAGGED     EXTENDED, .src_id = 1, .flags = WEIR_FLAG_AUTHENTICATED

/* clang-format off */
const struct vector vectors[] = {
	{.name = "Contribution, base form",
		.about = "Three elements of the last block of an operation.",
		.header = {BASE, .block_id = 41, .gen_id = 7, .grad_cnt = 3, .final = true},
		.fp32 = {1, -2.5F, 0.125F}, .elements = 3},
	{.name = "Contribution, extended form",
		.about = "The contribution of source 1 to the same block. The header has collective, type and operation.",
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {2, 2, 2}, .elements = 3},
	{.name = "Result, base form",
		.about = "Source 0 joined with the flag \"send my results in the base form\".",
		.is_answer = true,
		.header = {BASE, .block_id = 41, .gen_id = 7, .src_cnt = 3, .grad_cnt = 3, .final = true},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Result, extended form",
		.about = "The same block to source 1.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .src_cnt = 3, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Result, multicast",
		.about = "The same block, in a job whose results go to the group 239.77.0.1.",
		.is_answer = true, .multicast = true,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_cnt = 3, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Barrier, base form",
		.about = "A contribution without elements.",
		.header = {BASE, .block_id = 43, .gen_id = 7}},
	{.name = "Barrier, extended form",
		.about = "The contribution of source 1. Type and operation of a barrier have no meaning.",
		.header = {EXTENDED, .block_id = 43, .gen_id = 7, .src_id = 1, .collective = WEIR_COLLECTIVE_BARRIER}},
	{.name = "Result of a barrier",
		.about = "All sources have arrived.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 43, .gen_id = 7, .src_id = 1, .src_cnt = 3, .collective = WEIR_COLLECTIVE_BARRIER}},
	{.name = "Result of a reduce, to the root",
		.about = "Rank 1 is the root. The sources sent 1 2, 2 2 and 4 4.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 48, .gen_id = 7, .src_id = 1, .src_cnt = 3, .grad_cnt = 2, .collective = WEIR_COLLECTIVE_REDUCE, .dtype = WEIR_DTYPE_FP32, .root = 1},
		.fp32 = {7, 8}, .elements = 2},
	{.name = "Result of a reduce, to another",
		.about = "The result of the same block to source 2: a header, with the same `grad_cnt`.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 48, .gen_id = 7, .src_id = 2, .src_cnt = 3, .grad_cnt = 2, .collective = WEIR_COLLECTIVE_REDUCE, .dtype = WEIR_DTYPE_FP32, .root = 1}},
	{.name = "Result of a reducescatter",
		.about = "All sources sent 1 2 3 4. Of 4 elements rank 1 of 3 has the slice of element 2.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 49, .gen_id = 7, .src_id = 1, .src_cnt = 3, .grad_cnt = 4, .collective = WEIR_COLLECTIVE_REDUCESCATTER, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {9}, .elements = 1},
	{.name = "Broadcast, contribution of the root",
		.about = "Rank 1 sends 3 elements.",
		.header = {EXTENDED, .block_id = 50, .gen_id = 7, .src_id = 1, .grad_cnt = 3, .collective = WEIR_COLLECTIVE_BROADCAST, .dtype = WEIR_DTYPE_FP32, .root = 1},
		.fp32 = {1, 0.5F, -2}, .elements = 3},
	{.name = "Broadcast, contribution of another",
		.about = "Source 2 has no data, but its contribution counts. Its `grad_cnt` is the block's.",
		.header = {EXTENDED, .block_id = 50, .gen_id = 7, .src_id = 2, .grad_cnt = 3, .collective = WEIR_COLLECTIVE_BROADCAST, .dtype = WEIR_DTYPE_FP32, .root = 1}},
	{.name = "Result of a broadcast",
		.about = "To source 2.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 50, .gen_id = 7, .src_id = 2, .src_cnt = 3, .grad_cnt = 3, .collective = WEIR_COLLECTIVE_BROADCAST, .dtype = WEIR_DTYPE_FP32, .root = 1},
		.fp32 = {1, 0.5F, -2}, .elements = 3},
	{.name = "Contribution of an alltoall",
		.about = "Source 1 sends a row: element i is for rank i.",
		.header = {EXTENDED, .block_id = 51, .gen_id = 7, .src_id = 1, .grad_cnt = 3, .collective = WEIR_COLLECTIVE_ALLTOALL, .dtype = WEIR_DTYPE_INT32},
		.int32 = {10, 11, 12}, .elements = 3},
	{.name = "Result of an alltoall",
		.about = "The column of rank 2: of each row its slice, in the order of the ranks.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 51, .gen_id = 7, .src_id = 2, .src_cnt = 3, .grad_cnt = 3, .collective = WEIR_COLLECTIVE_ALLTOALL, .dtype = WEIR_DTYPE_INT32},
		.int32 = {2, 12, 22}, .elements = 3},
	{.name = "Join",
		.about = "The block id is the nonce. Source 0 wants its results in the base form.",
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .collective = WEIR_COLLECTIVE_JOIN, .flags = WEIR_FLAG_BASE_RESULTS}},
	{.name = "Join, not complete yet",
		.about = "Sources 0 and 2 have joined, source 1 has not. No generation has begun.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .src_cnt = 3, .degraded = true, .collective = WEIR_COLLECTIVE_JOIN, .status = WEIR_STATUS_WAITING},
		.has_bitmap = true, .bitmap = 0x5},
	{.name = "Join, accepted",
		.about = "Generation 7 begins.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {1, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .timeout_ms = {0, 0, 3, 0xe8}}},
	{.name = "Join, accepted, with three more ports",
		.about = "The reply of a switch with four workers and a network card with several queues.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {1, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .flags = 3 << WEIR_JOIN_PORTS_SHIFT, .timeout_ms = {0, 0, 3, 0xe8}}},
	{.name = "Join, asks for the list of settings",
		.about = "A source that does not ask gets the reply of the vectors above.",
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .collective = WEIR_COLLECTIVE_JOIN, .op = WEIR_JOIN_ASKS_LIST, .flags = WEIR_FLAG_BASE_RESULTS}},
	{.name = "Join, accepted, with the list of settings",
		.about = "window, elements, timeout_ms and type; the other settings are 0.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {0x21, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .timeout_ms = {0, 0, 3, 0xe8}},
		.list = {0x81, 2, 0, 64, 0x82, 2, 1, 0, 3, 4, 0, 0, 3, 0xe8, 0x84, 1, WEIR_DTYPE_FP32}, .list_bytes = 17},
	{.name = "Contribution to another port",
		.about = "The contribution of source 1 to block 41 goes to port 12001 + 2 · ((1 + 41) mod 4).",
		.port = 12005,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {2, 2, 2}, .elements = 3},
	{.name = "Join, repeated in generation 7",
		.about = "Source 0 has no answers and repeats its join. The switch sends the same reply again.",
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .gen_id = 7, .collective = WEIR_COLLECTIVE_JOIN, .flags = WEIR_FLAG_BASE_RESULTS}},
	{.name = "Join, refused",
		.about = "Source 9 is not in the job. Its host is 10.77.0.10.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 0xc0ffee09, .src_id = 9, .collective = WEIR_COLLECTIVE_JOIN, .status = WEIR_STATUS_REFUSED}},
	{.name = "Displaced",
		.about = "The host of source 0 has another process with that rank, at UDP port 40100. The switch tells the first process.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .collective = WEIR_COLLECTIVE_JOIN, .status = WEIR_STATUS_DISPLACED},
		.displaced = {{10, 77, 0, 1}, {40100 >> 8, 40100 & 0xff}, {2, 0x48, 0, 0, 0, 1}}},
	{.name = "Waiting",
		.about = "Source 1 has repeated its contribution to a block that is open for longer than the timeout; source 2 is missing.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 1, .degraded = true, .status = WEIR_STATUS_WAITING, .dtype = WEIR_DTYPE_FP32},
		.has_bitmap = true, .bitmap = 0x3},
	{.name = "Waiting, base form",
		.about = "The answer to source 0, which sends in the base form.",
		.is_answer = true,
		.header = {BASE, .block_id = 44, .gen_id = 7, .degraded = true, .status = WEIR_STATUS_WAITING},
		.has_bitmap = true, .bitmap = 0x3},
	{.name = "Partial result, base form",
		.about = "Policy *partial*: the sum of sources 0 and 1, to source 0.",
		.is_answer = true,
		.header = {BASE, .block_id = 44, .gen_id = 7, .src_cnt = 2, .grad_cnt = 2, .degraded = true, .status = WEIR_STATUS_PARTIAL},
		.fp32 = {3, -1}, .elements = 2,
		.has_bitmap = true, .bitmap = 0x3},
	{.name = "Partial result, extended form",
		.about = "The result of the same block to source 2, whose contribution is missing.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 2, .src_cnt = 2, .grad_cnt = 2, .degraded = true, .status = WEIR_STATUS_PARTIAL, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {3, -1}, .elements = 2,
		.has_bitmap = true, .bitmap = 0x3},
	{.name = "Acknowledgement",
		.about = "Source 2 has the result of block 44 and all results before it. The next block of the residue is 108, because the window is 64.",
		.header = {EXTENDED, .block_id = 108, .gen_id = 7, .src_id = 2, .collective = WEIR_COLLECTIVE_ACKNOWLEDGE}},
	{.name = "Probe",
		.about = "Source 1 misses the result of block 44. The contribution of source 1 was lost, the contribution of source 0 arrived.",
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 1, .collective = WEIR_COLLECTIVE_PROBE}},
	{.name = "Probe, answered",
		.about = "Source 1 repeats its contribution.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 1, .degraded = true, .status = WEIR_STATUS_WAITING, .collective = WEIR_COLLECTIVE_PROBE},
		.has_bitmap = true, .bitmap = 0x1},
	{.name = "Error",
		.about = "Policy *error*: no source gets a sum; sources 0 and 1 have contributed.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 2, .src_cnt = 2, .degraded = true, .status = WEIR_STATUS_ERROR, .dtype = WEIR_DTYPE_FP32},
		.has_bitmap = true, .bitmap = 0x3},
	{.name = "Mismatch",
		.about = "Source 0 opened the block with 2 elements, source 1 offered 3. Every source gets this reply.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 45, .gen_id = 7, .src_id = 2, .src_cnt = 2, .status = WEIR_STATUS_MISMATCH, .dtype = WEIR_DTYPE_FP32},
		.mismatch = {WEIR_FIELD_LENGTH, 0, {0, 2}, 1, 0, {0, 3}}},
	{.name = "Expired",
		.about = "Source 1 sent for block 3, which all sources have acknowledged.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 3, .gen_id = 7, .src_id = 1, .status = WEIR_STATUS_EXPIRED, .dtype = WEIR_DTYPE_FP32}},
	{.name = "Stale",
		.about = "Source 1 sent with a former generation; the reply has the present one.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .status = WEIR_STATUS_STALE, .dtype = WEIR_DTYPE_FP32}},
	{.name = "Out of window",
		.about = "Source 1 sent for block 1000.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 1000, .gen_id = 7, .src_id = 1, .status = WEIR_STATUS_WINDOW, .dtype = WEIR_DTYPE_FP32}},
	{.name = "Unsupported",
		.about = "Source 1 asked for the bitwise or of fp32.",
		.is_answer = true,
		.header = {EXTENDED, .block_id = 46, .gen_id = 7, .src_id = 1, .status = WEIR_STATUS_UNSUPPORTED, .op = WEIR_OP_BOR, .dtype = WEIR_DTYPE_FP32}},
	{.name = "Contribution of a switch",
		.about = "In the packets between switches, job 1 has two sources that are switches, with the upward port 12033: source 0 covers the ranks 0 to 3, source 4 the ranks 4 to 7. All ranks of source 0 are in this contribution.",
		.upward = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_cnt = 4, .grad_cnt = 2, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_UP},
		.fp32 = {10, -4}, .elements = 2},
	{.name = "Contribution of a switch, partial",
		.about = "Rank 6 is missing.",
		.upward = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_id = 4, .src_cnt = 3, .grad_cnt = 2, .degraded = true, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_UP, .status = WEIR_STATUS_PARTIAL},
		.fp32 = {3, 1}, .elements = 2,
		.has_bitmap = true, .bitmap = 0xb0},
	{.name = "Partial result, to a switch",
		.about = "It has all ranks but 6.",
		.is_answer = true, .upward = true,
		.header = {EXTENDED, .block_id = 44, .gen_id = 7, .src_cnt = 7, .grad_cnt = 2, .degraded = true, .dtype = WEIR_DTYPE_FP32, .status = WEIR_STATUS_PARTIAL},
		.fp32 = {13, -3}, .elements = 2,
		.has_bitmap = true, .bitmap = 0xbf},
	{.name = "Contribution of a switch, error",
		.about = "The policy is *error*, and of the ranks of source 4 only 5 has contributed.",
		.upward = true,
		.header = {EXTENDED, .block_id = 45, .gen_id = 7, .src_id = 4, .src_cnt = 1, .degraded = true, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_UP, .status = WEIR_STATUS_ERROR},
		.has_bitmap = true, .bitmap = 0x20},
	{.name = "Contribution of a switch, mismatch",
		.about = "Rank 4 contributed 3 elements, rank 7 contributed 2.",
		.upward = true,
		.header = {EXTENDED, .block_id = 46, .gen_id = 7, .src_id = 4, .src_cnt = 2, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_UP, .status = WEIR_STATUS_MISMATCH},
		.mismatch = {WEIR_FIELD_LENGTH, 4, {0, 3}, 7, 0, {0, 2}}},
	{.name = "Join of a switch",
		.about = "It covers 4 ranks, and takes part at its first two parents (root: the set 3).",
		.upward = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .src_cnt = 4, .collective = WEIR_COLLECTIVE_JOIN, .flags = WEIR_FLAG_UP, .root = 3}},
	{.name = "Join of a switch, not complete yet",
		.about = "Source 4 has not joined.",
		.is_answer = true, .upward = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .src_cnt = 8, .degraded = true, .collective = WEIR_COLLECTIVE_JOIN, .root = 3, .status = WEIR_STATUS_WAITING},
		.has_bitmap = true, .bitmap = 0xf},
	{.name = "Join of a switch, accepted, with the list of settings",
		.about = "The switch asked for the list. The parent's policy is partial, its `rejoin` is revoke.",
		.is_answer = true, .upward = true,
		.header = {EXTENDED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 8, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {0x21, 0}, .sources = {0, 8}, .dtype_op = WEIR_DTYPE_FP32 << 4, .timeout_ms = {0, 0, 3, 0xe8}, .up = {.agreed = 1 | WEIR_JOIN_UP_REVOKE}},
		.list = {0x81, 2, 0, 64, 0x82, 2, 1, 0, 3, 4, 0, 0, 3, 0xe8, 0x84, 1, WEIR_DTYPE_FP32, 0x8a, 1, 1, 0x8d, 1, 1}, .list_bytes = 23},
	{.name = "Contribution with a CRC",
		.about = "The second contribution, in a job with `integrity: crc32c`. The CRC covers header and payload.",
		.end = VECTOR_CRC,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_CRC},
		.fp32 = {2, 2, 2}, .elements = 3},
	{.name = "Result with a CRC",
		.about = "To source 1. src_id counts as 0.",
		.is_answer = true, .end = VECTOR_CRC,
		.header = {EXTENDED, .block_id = 41, .gen_id = 7, .src_id = 1, .src_cnt = 3, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32, .flags = WEIR_FLAG_CRC},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Result with a CRC, base form",
		.about = "The same result with the same CRC, which covers the header of the extended form.",
		.is_answer = true, .end = VECTOR_CRC,
		.header = {BASE, .block_id = 41, .gen_id = 7, .src_id = 1, .src_cnt = 3, .grad_cnt = 3, .final = true},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Contribution with a tag",
		.about = "The second contribution, in an authenticated job.",
		.end = VECTOR_CONTRIBUTION,
		.header = {TAGGED, .block_id = 41, .gen_id = 7, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {2, 2, 2}, .elements = 3},
	{.name = "Acknowledgement with a tag",
		.about = "Source 1 waits for block 108.",
		.end = VECTOR_CONTRIBUTION, .iv = 1,
		.header = {TAGGED, .block_id = 108, .gen_id = 7, .collective = WEIR_COLLECTIVE_ACKNOWLEDGE}},
	{.name = "Probe with a tag",
		.about = "Source 1 misses the result of block 41.",
		.end = VECTOR_CONTRIBUTION, .iv = 2,
		.header = {TAGGED, .block_id = 41, .gen_id = 7, .collective = WEIR_COLLECTIVE_PROBE}},
	{.name = "Probe with a tag, answered",
		.about = "The contribution of source 1 was lost.",
		.is_answer = true, .end = VECTOR_REPLY, .answers = "Probe with a tag",
		.header = {TAGGED, .block_id = 41, .gen_id = 7, .degraded = true, .status = WEIR_STATUS_WAITING, .collective = WEIR_COLLECTIVE_PROBE},
		.has_bitmap = true, .bitmap = 0x5},
	{.name = "Result with a tag",
		.about = "To source 1. The tag is made with src_id 0.",
		.is_answer = true, .end = VECTOR_RESULT,
		.header = {TAGGED, .block_id = 41, .gen_id = 7, .src_cnt = 3, .grad_cnt = 3, .final = true, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Result with a tag, after the block ids have wrapped",
		.about = "Block 2^31 for the second time: the number is 2^32 + 2^31.",
		.is_answer = true, .end = VECTOR_RESULT, .wraps = 1,
		.header = {TAGGED, .block_id = UINT32_C(1) << 31, .gen_id = 7, .src_cnt = 3, .grad_cnt = 3, .dtype = WEIR_DTYPE_FP32},
		.fp32 = {7, 3.5F, 6.125F}, .elements = 3},
	{.name = "Join with a proof, the first",
		.about = "Source 1 does not know its challenge yet.",
		.end = VECTOR_JOIN, .transmission = 1,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .collective = WEIR_COLLECTIVE_JOIN}},
	{.name = "Join with a proof, not collected",
		.about = "Source 0 has joined. The answer tells source 1 its challenge.",
		.is_answer = true, .end = VECTOR_REPLY,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .src_cnt = 3, .degraded = true, .status = WEIR_STATUS_WAITING, .collective = WEIR_COLLECTIVE_JOIN},
		.has_bitmap = true, .bitmap = 0x1, .challenge = 0xb0},
	{.name = "Join with a proof, with the challenge",
		.about = "The same join, with what the answer told.",
		.end = VECTOR_JOIN, .transmission = 2, .challenge = 0xb0,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .collective = WEIR_COLLECTIVE_JOIN}},
	{.name = "Join with a proof, accepted",
		.about = "In a job in which only joins and their replies have tags. The generation's challenge follows the settings.",
		.is_answer = true, .end = VECTOR_REPLY,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .root = 1, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {1, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .timeout_ms = {0, 0, 3, 0xe8}}, .challenge = 0xa0},
	{.name = "Join with a proof, accepted in an authenticated job",
		.about = "With the wrapped key.",
		.is_answer = true, .end = VECTOR_REPLY, .has_key = true,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .root = 1, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {1, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .flags = WEIR_JOIN_AUTHENTICATED, .timeout_ms = {0, 0, 3, 0xe8}}, .challenge = 0xa0},
	{.name = "Join with a proof, accepted in an authenticated job, with the list of settings",
		.about = "The list lies between the 16 bytes and the challenge.",
		.is_answer = true, .end = VECTOR_REPLY, .has_key = true,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .gen_id = 7, .src_cnt = 3, .root = 1, .collective = WEIR_COLLECTIVE_JOIN},
		.reply = {.window = {0, 64}, .elements = {0x21, 0}, .sources = {0, 3}, .dtype_op = WEIR_DTYPE_FP32 << 4, .timeout_ms = {0, 0, 3, 0xe8}, .flags = WEIR_JOIN_AUTHENTICATED},
		.list = {0x81, 2, 0, 64, 0x82, 2, 1, 0, 3, 4, 0, 0, 3, 0xe8, 0x84, 1, WEIR_DTYPE_FP32, 0x87, 1, 1}, .list_bytes = 20, .challenge = 0xa0},
	{.name = "Displaced, with a tag",
		.about = "Another process of the host, at UDP port 40100, has joined as source 1.",
		.is_answer = true, .end = VECTOR_REPLY,
		.header = {TAGGED, .block_id = VECTOR_NONCE, .status = WEIR_STATUS_DISPLACED, .collective = WEIR_COLLECTIVE_JOIN},
		.displaced = {{10, 77, 0, 2}, {40100 >> 8, 40100 & 0xff}, {2, 0x48, 0, 0, 0, 2}}},
	{.name = "Expired, with a tag",
		.about = "The contribution above is repeated after its block is gone.",
		.is_answer = true, .end = VECTOR_REPLY, .answers = "Contribution with a tag",
		.header = {TAGGED, .block_id = 41, .gen_id = 7, .status = WEIR_STATUS_EXPIRED, .dtype = WEIR_DTYPE_FP32}},
};
/* clang-format on */
const unsigned int nb_vectors = sizeof(vectors) / sizeof(vectors[0]);

const struct vector *
vector_named(const char *name)
{
	for (unsigned int i = 0; i < nb_vectors; i++)
		if (strcmp(vectors[i].name, name) == 0)
			return &vectors[i];
	fprintf(stderr, "no vector \"%s\"\n", name);
	abort();
}

/* n bytes that count up. */
static uint8_t *
put_run(uint8_t *to, uint8_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		to[i] = (uint8_t)(first + i);
	return to + n;
}

static uint8_t *
put(uint8_t *to, const void *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

static uint8_t *
put_nonce(uint8_t *to)
{
	weir_put32(to, VECTOR_NONCE);
	return put_run(to + 4, 0xc4, 12);
}

static struct vector_keys keys;

const struct vector_keys *
vector_keys(void)
{
	put_run(keys.job, 0, 32);
	put_nonce(keys.nonce);
	put_run(keys.source_challenge, 0xb0, WEIR_CHALLENGE_BYTES);
	put_run(keys.challenge, 0xa0, WEIR_CHALLENGE_BYTES);
	tags_source_key(keys.job, 1, VECTOR_EPOCH, keys.source);
	tags_contributions_key(keys.source, keys.challenge, GENERATION, keys.contributions);
	tags_results_key(keys.job, keys.challenge, GENERATION, keys.results);
	return &keys;
}

static uint8_t *
put_payload(const struct vector *v, uint8_t *to)
{
	uint8_t bitmap[WEIR_BITMAP_BYTES] = {0}, nonce[16], challenge[16];

	to = put(to, v->header.dtype == WEIR_DTYPE_INT32 ? (const void *)v->int32 : v->fp32,
		4 * v->elements);
	memcpy(bitmap, &v->bitmap, sizeof(v->bitmap));
	if (v->has_bitmap)
		to = put(to, bitmap, sizeof(bitmap));
	if (v->mismatch.field != 0)
		to = put(to, &v->mismatch, sizeof(v->mismatch));
	if (weir_get16(v->displaced.port) != 0)
		to = put(to, &v->displaced, sizeof(v->displaced));
	if (weir_get16(v->reply.sources) != 0)
		to = put(to, &v->reply, sizeof(v->reply));
	if (v->list_bytes != 0) {
		to = put(to, (const uint8_t[]){0, v->list_bytes}, 2);
		to = put(to, v->list, v->list_bytes);
	}
	put_run(challenge, v->challenge, sizeof(challenge));
	if (v->end == VECTOR_JOIN && v->challenge == 0)
		memset(challenge, 0, sizeof(challenge));
	if (v->challenge != 0 || v->end == VECTOR_JOIN)
		to = put(to, challenge, sizeof(challenge));
	if (v->has_key) {
		memcpy(to, keys.results, 32);
		put_nonce(nonce);
		tags_wrap(keys.source, nonce, challenge, GENERATION, to);
		to += 32;
	}
	if (v->end == VECTOR_JOIN) {
		to = put_nonce(to);
		weir_put32(to, v->transmission);
		to += 4;
	}
	return to;
}

/* What is covered as the header: of a result all copies have one tag or CRC. */
static void
covered_header(const struct vector *v, uint8_t covered[WEIR_EXT_BYTES])
{
	struct weir_header h = v->header;

	h.extended = true;
	if (v->end == VECTOR_CRC)
		h.flags = WEIR_FLAG_CRC;
	if (v->is_answer && v->end != VECTOR_REPLY)
		h.src_id = 0;
	weir_header_write(&h, covered);
}

/* The nonce or tag of what is answered. */
static void
put_answered(const struct vector *v, uint8_t answered[16])
{
	uint8_t frame[VECTOR_FRAME_MAX];

	if (v->answers == NULL)
		put_nonce(answered);
	else
		memcpy(answered,
			frame + vector_frame(vector_named(v->answers), frame) - WEIR_TAG_BYTES, 16);
}

/* start: the aggregation header; payload: behind it; to: behind that. */
static uint8_t *
put_end(const struct vector *v, const uint8_t *start, const uint8_t *payload, uint8_t *to)
{
	uint64_t number = (uint64_t)v->wraps << 32 | v->header.block_id;
	size_t bytes = (size_t)(to - payload);
	uint8_t covered[WEIR_EXT_BYTES], answered[16];
	uint32_t crc;

	covered_header(v, covered);
	switch (v->end) {
	case VECTOR_PLAIN: return to;
	case VECTOR_CRC:
		crc = tags_crc32c(tags_crc32c(0, covered, sizeof(covered)), payload, bytes);
		return put(to, &crc, sizeof(crc));
	case VECTOR_CONTRIBUTION:
		tags_gmac(keys.contributions, v->iv, number, covered, payload, bytes, to);
		break;
	case VECTOR_RESULT:
		tags_gmac(keys.results, v->header.status, number, covered, payload, bytes, to);
		break;
	case VECTOR_JOIN: tags_join(keys.source, rig_source_ip(1), 40001, start, to); break;
	case VECTOR_REPLY:
		put_answered(v, answered);
		tags_hmac(keys.source, "weir reply", answered, 16, start, (size_t)(to - start), to);
		break;
	}
	return to + WEIR_TAG_BYTES;
}

unsigned int
vector_frame(const struct vector *v, uint8_t frame[VECTOR_FRAME_MAX])
{
	const unsigned int source = v->header.src_id;
	const uint16_t own = v->header.extended ? WEIR_PORT_EXT : WEIR_PORT_BASE,
		       here = v->port != 0 ? v->port : own,
		       there = v->upward ? WEIR_PORT_UP : (uint16_t)(40000 + source);
	uint8_t *start = frame + VECTOR_HEADERS, *payload, *end;
	uint8_t mac[6];

	vector_keys();
	payload = start + weir_header_write(&v->header, start);
	end = put_end(v, start, payload, put_payload(v, payload));
	rig_source_mac(source, mac);
	rig_headers(frame, mac, rig_source_ip(source), there, here, (unsigned int)(end - start));
	if (v->is_answer) {
		memcpy(frame, mac, 6);
		memcpy(frame + 6, rig_switch_mac, 6);
		weir_put32(frame + 26, RIG_SWITCH_IP);
		weir_put32(frame + 30, rig_source_ip(source));
		weir_put16(frame + 34, here);
		weir_put16(frame + 36, there);
	}
	if (v->multicast) {
		memcpy(frame, (const uint8_t[6]){0x01, 0x00, 0x5e, 0x4d, 0x00, 0x01}, 6);
		weir_put32(frame + 30, GROUP);
		weir_put16(frame + 36, own);
	}
	rig_fix_checksums(frame);
	return (unsigned int)(end - frame);
}
