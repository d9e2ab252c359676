/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bench for tests of the engine's rules: a switch in virtual time (tests/eal/rig.h), and hosts of its first job, played
 * by the test.
 *
 *	Test(ppe_life, late_source_gets_the_partial_result, .timeout = 90)
 *	{
 *		start(.sources = 3, .policy = PPE_POLICY_PARTIAL);
 *		contribute(0, 0);
 *		contribute(1, 0);
 *		expect_all(0, WEIR_STATUS_PARTIAL, 0x3);	// while this waits, the block times out
 *		contribute(2, 0);
 *		expect(2, 0, WEIR_STATUS_PARTIAL, 0x3);
 *		expect_drop(PPE_DROP_LATE, 1);
 *		stop();
 *	}
 *
 * A host is named by its source id; it is behind port id % ports. Element e of its contribution to block b is
 * bench_value(id, b, e), and a result is compared with the sum, element by element: it is an AllReduce of int32. tests/eal/blocks.h
 * plays the other collectives. To send something else, change the header that contribution() returns and offer() it, or change
 * `frame` as in WRONG_FRAME; ppe/drops.h has the reasons of drops. Functions end the test with a message when something is not
 * as they expect. Main thread, once per process.
 */
#ifndef TESTS_EAL_BENCH_H
#define TESTS_EAL_BENCH_H

#include <criterion/criterion.h>

#include <string.h>

#include "tests/eal/rig.h"

/* The switch and the first job of a test. Zero is the value in brackets. */
struct bench_setup {
	unsigned int workers; /* [2] */
	unsigned int threads; /* [8] */
	unsigned int ports; /* [sources] */
	unsigned int sources; /* [2] */
	const uint8_t *ids; /* their ids, ascending [0, 1, ...] */
	uint16_t window, elements; /* [4, 8] */
	enum ppe_policy policy; /* [wait] */
	uint32_t timeout_ms; /* [100] */
	uint16_t generation; /* [hosts join] fixed: nobody joins */
	/* What else differs, before the switch starts. The first job is config->job[0]. */
	void (*change)(struct rig_config *config);
	bool late; /* hosts have not joined yet */
	/* Of a switch in a tree: tests/eal/bench_tree.h */
	uint8_t children[4]; /* [sources are hosts] the ranks of each */
	uint8_t parents; /* [0] */
	bool deterministic, narrow; /* [false] */
	uint8_t first_rank, tree_ranks; /* [0, what is below] */
	bool base_form; /* of contributions and results */
};

extern struct rig rig;
extern uint16_t generation; /* of the first job, in packets */

/* The packet that a host received last. */
extern uint8_t frame[RIG_FRAME_MAX];
extern struct weir_header got;
extern const uint8_t *payload;
extern unsigned int payload_bytes;

/* Build and start the switch, and have all hosts join. start(.sources = 3, ...): fields of bench_setup. */
void bench_start(const struct bench_setup *setup);
#define start(...) bench_start(&(struct bench_setup){__VA_ARGS__})

/* Every packet has one end, and everything was returned. Packets that nobody has taken are an error: stop_unread(). */
void stop(void);
void stop_unread(void);

/* A test with one worker and with two. */
#define ONE_WORKER_AND_TWO(suite, name)                                                            \
	static void name(unsigned int workers);                                                    \
	Test(suite, name, .timeout = 90)                                                           \
	{                                                                                          \
		name(1);                                                                           \
	}                                                                                          \
	Test(suite, name##_two_workers, .timeout = 90)                                             \
	{                                                                                          \
		name(2);                                                                           \
	}                                                                                          \
	static void name(unsigned int workers)

/* ---- what hosts send ---- */

uint32_t bench_value(unsigned int source, uint32_t block, unsigned int element);

/* The header of a source's contribution to a block: all elements, of the present generation. */
struct weir_header contribution(unsigned int source, uint32_t block);

/* Send the packet from the header's source, with its elements, or with n bytes of them. */
void offer(const struct weir_header *header);
void offer_bytes(const struct weir_header *header, unsigned int n);
/* The same, from another host's addresses and port. */
void offer_as(unsigned int source, const struct weir_header *header, unsigned int n);

void contribute(unsigned int source, uint32_t block);
void contribute_all(uint32_t block);
/* Packets without elements. */
struct weir_header note(unsigned int source, uint32_t block, enum weir_collective collective);
void acknowledge(unsigned int source, uint32_t block);
void probe(unsigned int source, uint32_t block);
void join(unsigned int source, uint32_t nonce);

/* ---- what hosts receive ---- */

/* Take the next packet of a host, within a second of virtual time. false: there is none. */
bool receive(unsigned int source);

/*
 * The next packet to the host is the answer to a block with this status. sources: bit: who is in it; 0: all. A result
 * (ok or partial) has the sum of these; a partial, error or waiting one has their bitmap.
 */
void expect(unsigned int source, uint32_t block, enum weir_status status, uint64_t sources);
/* The same for every host; then silence. */
void expect_all(uint32_t block, enum weir_status status, uint64_t sources);
/* Nobody gets a packet within 30 ms of virtual time. */
void expect_silence(void);

/* ---- what the switch says ---- */

/* So many packets have ended so by now. */
void expect_drop(enum ppe_drop reason, uint64_t count);
uint64_t drops(enum ppe_drop reason);
struct ppe_job_stats job_stats(uint8_t id);

/* So much time passes. */
void pass_ms(uint64_t ms);

/* ---- hosts: jobs, time, packets that are wrong ---- */

/* From now on hosts are those of this job, an index in rig.job, whose generation is `generation`. */
void use_job(unsigned int index);

/* Publish the jobs, with this one in the first one's place, whose hosts are its from now on; NULL: without it. */
void publish(const struct ppe_job *first);

/* Contributions of all, and the whole result for each. */
void reduce(uint32_t block);

/* Take a packet of a host that has come already: no time passes. false: there is none. */
bool received(unsigned int source);
/* Throw away all packets that have come. */
void discard(void);

/* The next packet to the host tells that its join is one of these (bit: a source). */
void expect_joining(unsigned int source, uint32_t nonce, uint8_t joined);
/* It joins, and is told so. */
void asks(unsigned int source, uint32_t nonce, uint8_t joined);
/* The next packet to each source tells that a generation began with its join. It is `generation` now. */
void expect_joined(const uint32_t *nonce);

/* Write the packet that offer_bytes() sends into `frame`. Returns its bytes. */
unsigned int write_frame(const struct weir_header *header, unsigned int n);

/*
 * Lines of a table of wrong packets. WRONG: the header h, which is `good` with a change, from a host with n bytes
 * of elements. WRONG_FRAME: the bytes of `frame`, which are those of `good` with its elements and a change, to a port. Each is
 * dropped for this reason, has this answer, and nobody else gets anything.
 */
#define NO_ANSWER (-1)
#define WRONG(good, change, from, n, reason, answer)                                               \
	do {                                                                                       \
		struct weir_header h = (good);                                                     \
		change;                                                                            \
		expect_wrong(#change, from, &h, write_frame_as(from, &h, n), reason, answer);      \
	} while (0)
#define WRONG_FRAME(good, change, port, reason, answer)                                            \
	do {                                                                                       \
		const struct weir_header h = (good);                                               \
		unsigned int n = write_frame(&h, 4u * h.grad_cnt);                                 \
		change;                                                                            \
		expect_wrong(#change, port, &h, n, reason, answer);                                \
	} while (0)
unsigned int write_frame_as(unsigned int source, const struct weir_header *header, unsigned int n);
void expect_wrong(const char *what, unsigned int port, const struct weir_header *header,
	unsigned int bytes, enum ppe_drop reason, int answer);

/* Virtual time. */
uint64_t now_us(void);
/* Of a source of the hosts' job. */
struct ppe_source_stats source_stats(unsigned int source);

#endif
