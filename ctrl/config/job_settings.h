/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of a job, one line each. From this list come the keys of `jobs[]` in a
 * configuration, the keys of the control API's requests and answers and of the state file, their
 * checks and defaults, what `job set` and a reload change, weirctl's options,
 * docs/configuration.md, docs/openapi.json, docs/tree.md and apps/ctl/weirctl.1. To add a setting:
 * add its line, its field of struct ppe_job (or ctrl_job_spec), its use in the data plane and its
 * test, then run `make keys`, which rewrites the four documents.
 *
 *	X(key, where, change, needs, tree, kind, field, unit, default, min, max, words, help)
 *
 * where   BOTH; FILE: the configuration alone; API: the control API and the state file alone
 * change  YES: of a running job; NO: another value makes another job
 * needs   HOST: hosts, too: the control API's answer to a join has it; SWITCH: the switch alone
 * tree    what a leaf compares with its parent's job: CTRL_TREE_<tree> below; OWN: nothing
 * kind    CTRL_<kind> of ctrl/config/schema.h: INTEGER, POWER, BOOLEAN, WORD, RESULTS
 * field   of struct ctrl_job_spec. BOOLEAN and WORD: 0 and up, in the order of the words
 * default as text; min, max: inclusive; words: "one|two"
 *
 * A job's name, id and size are not settings: ctrl/config/job_keys.h.
 */
#ifndef CTRL_JOB_SETTINGS_H
#define CTRL_JOB_SETTINGS_H

#include "pktbuf/wire/wire.h"
#include "ppe/jobs.h"

/* The words of types and operations, in the order of their codes on the wire ("int8|uint8|...",
 * "sum|prod|..."), and of policies. */
#define CTRL_WORD_OF_TYPE(name, code, text, ...) "|" text
#define CTRL_WORD_OF_OP(name, code, text, ...)   "|" text
#define CTRL_WORD_OF_POLICY(name, text, ...)     "|" text
#define CTRL_POLICIES                            (&(PPE_POLICY_LIST(CTRL_WORD_OF_POLICY))[1])
#define CTRL_INTEGRITY                           (&(PPE_INTEGRITY_LIST(CTRL_WORD_OF_POLICY))[1])
#define CTRL_TYPES                               (&(WEIR_DTYPE_LIST(CTRL_WORD_OF_TYPE))[1])
#define CTRL_OPS                                 (&(WEIR_OP_LIST(CTRL_WORD_OF_OP))[1])

/* clang-format off */
#define CTRL_JOB_SETTINGS(X) \
	X(window, BOTH, NO, HOST, EQUAL(WINDOW), POWER, shape.window, "blocks", "64", 1, \
		PPE_WINDOW_MAX, NULL, \
		"Maximum number of blocks that a source has in flight. Twice as many buffers are " \
		"reserved.") \
	X(elements, BOTH, NO, HOST, EQUAL(ELEMENTS), INTEGER, shape.elements, "elements", "256", \
		0, WEIR_ELEMENTS_MAX, NULL, \
		"Maximum number of elements of a block. They must fit into one frame. 0, over " \
		"the control API alone and the default of a temporary job: the largest multiple " \
		"of 64, at most 2048, that fits the frames of all ports.") \
	X(timeout_ms, BOTH, YES, HOST, COMPARED(TIMEOUT, \
		"unless the policy is wait, the parent's must be 1.25 times as long, and 1 ms " \
		"more"), \
		INTEGER, shape.timeout_ms, "ms", "1000", 1, 60000, NULL, \
		"A block that gets no new contribution for this time has a straggler.") \
	X(rate_mbit, BOTH, YES, SWITCH, OWN, INTEGER, shape.rate_mbit, "Mbit/s", "0", 0, 1000000, \
		NULL, \
		"Rate limit of the job's frames, in each direction (docs/operations.md). " \
		"Contributions beyond it are dropped as `policed`. 0: no limit.") \
	X(policy, BOTH, YES, SWITCH, EQUAL(POLICY), WORD, shape.policy, "", "wait", 0, 0, \
		CTRL_POLICIES, \
		"What happens to a straggler's block: it waits, is sent without the missing " \
		"contributions, or fails.") \
	X(dead_after_ms, BOTH, YES, SWITCH, COMPARED(DEAD_AFTER, \
		"if the policy is partial, the parent's must be longer by this switch's " \
		"timeout_ms, or 0"), \
		INTEGER, shape.dead_after_ms, "ms", "10000", 0, 3600000, NULL, \
		"Policy `partial`: a source is expelled when the others wait this long for its " \
		"acknowledgement and it sends nothing. It returns when all join again. 0: never.") \
	X(rejoin, BOTH, YES, SWITCH, REVOKE, WORD, shape.revoke, "", "wait", 0, 0, "wait|revoke", \
		"When a source joins again, after a restart, an expulsion or a failure, the " \
		"running generation continues until all its sources have joined again (`wait`), " \
		"or ends at once, and its sources are told so (`revoke`).") \
	X(results, BOTH, NO, HOST, OWN, RESULTS, shape.group, "", "unicast", 0, 0, NULL, \
		"Send a copy of each result to every source, or one copy to this multicast " \
		"group.") \
	X(type, BOTH, NO, HOST, EQUAL(TYPE), WORD, shape.dtype, "", "fp32", 0, 0, CTRL_TYPES, \
		"Type of the elements in the base form.") \
	X(op, BOTH, NO, HOST, EQUAL(OP), WORD, shape.op, "", "sum", 0, 0, CTRL_OPS, \
		"Operation of the base form. Bitwise and logical operations are for integers.") \
	X(deterministic, BOTH, NO, SWITCH, EQUAL(DETERMINISTIC), BOOLEAN, shape.deterministic, "", \
		"false", 0, 0, NULL, \
		"Add floating-point contributions in the order of their source ids, whatever the " \
		"order of arrival. Takes more memory (docs/collectives.md).") \
	X(narrow, BOTH, NO, SWITCH, EQUAL(NARROW), BOOLEAN, shape.narrow, "", "false", 0, 0, NULL, \
		"In a tree of switches, elements narrower than 4 bytes stay so between switches, " \
		"and are rounded on each. Otherwise they take 4 bytes, and are rounded once.") \
	X(integrity, BOTH, NO, HOST, EQUAL(INTEGRITY), WORD, shape.integrity, "", "none", 0, 0, \
		CTRL_INTEGRITY, \
		"`crc32c`: packets end with a CRC, which finds what UDP's checksum misses. A " \
		"wrong packet is repaired like a loss. Not in an authenticated job, whose tags " \
		"do the same.") \
	X(alltoall, BOTH, NO, HOST, OWN, WORD, shape.alltoall, "", "short", 0, 0, \
		"short|full|fit", \
		"Packets of AlltoAll carry `elements` / n, or with `full` all `elements`, for " \
		"which the job reserves more memory (docs/collectives.md). Not in a tree. " \
		"`fit`, over the control API alone: full, if there is enough memory.") \
	X(generation, FILE, NO, SWITCH, OWN, INTEGER, shape.fixed_generation, "", "0", 0, 65535, \
		NULL, \
		"0: sources join, and a generation begins when all have joined. Otherwise the " \
		"number of the only generation, which needs no joins: for packet generators.") \
	X(expire_s, API, YES, HOST, OWN, INTEGER, expire_s, "s", "0", 0, 1000000, NULL, \
		"A member that is silent for this time expires. 0: never. The default of a " \
		"temporary job is 30, and 0 is refused.") \
	X(temporary, API, NO, SWITCH, OWN, BOOLEAN, temporary, "", "false", 0, 0, NULL, \
		"The switch deletes the job when its last member leaves or expires, and when no " \
		"member has joined for `expire_s` after its creation. The job does not survive a " \
		"restart of the switch.") \
	X(authenticate, API, NO, HOST, EQUAL(AUTHENTICATE), BOOLEAN, shape.authenticated, "", \
		"false", 0, 0, NULL, \
		"Every packet carries a keyed tag. The switch makes the key.")

/* What a leaf compares with its parent's job. */
struct ctrl_tree_rule {
	const char *text; /* for people; NULL: nothing */
	uint8_t compared; /* enum weir_setting */
	bool must_be_equal; /* the value at the parent */
};
#define CTRL_TREE_OWN               {NULL, PPE_PARENT_AGREES, false}
#define CTRL_TREE_EQUAL(name)       {"must be equal", WEIR_SETTING_##name, true}
#define CTRL_TREE_REVOKE            {"must be revoke on both", WEIR_SETTING_REJOIN, true}
#define CTRL_TREE_COMPARED(name, t) {t, WEIR_SETTING_##name, false}

#define CTRL_ALLTOALL_FIT (PPE_ALLTOALL_FULL + 1) /* `fit`: ctrl_jobs_create() chooses */

#define CTRL_TEMPORARY_EXPIRE_S 30 /* a temporary job's default of expire_s */
#define CTRL_FIT_STEP           64u /* `elements` 0 becomes a multiple of this, ... */
#define CTRL_FIT_MAX            2048u /* ... and at most this */

/* A row of the list, if its `where` includes the configuration, or the API; if it can change; does
 * a host need it. */
#define CTRL_FILE_BOTH(...) __VA_ARGS__
#define CTRL_FILE_FILE(...) __VA_ARGS__
#define CTRL_FILE_API(...)
#define CTRL_API_BOTH(...)  __VA_ARGS__
#define CTRL_API_FILE(...)
#define CTRL_API_API(...)   __VA_ARGS__
#define CTRL_CHANGE_YES(...) __VA_ARGS__
#define CTRL_CHANGE_NO(...)
#define CTRL_NEEDS_HOST true
#define CTRL_NEEDS_SWITCH false
/* clang-format on */

#endif
