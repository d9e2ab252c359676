/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults: deliberate damage by the switch to its own traffic, repeatable from a seed.
 *
 * A rule consists of a match, a choice among the matched packets, and an action. A hash of (seed,
 * rule, port, queue, direction, n) decides about the n-th packet, so the same seed and the same
 * arrivals give the same faults, at any timing. Matched packets are numbered from 1 per queue of a
 * port. A packet passes the rules in order until one drops it.
 *
 * Rules apply to a received packet after its port's counters, before dispatch, and to a sent packet
 * in its output queue, before the device gets it. Without faults this costs a branch per burst and
 * two per turn of the loop (ppe/barrel.c).
 *
 * The worker holds packets that are delayed or reordered, at most ppe_faults.held of them. Beyond
 * that, or if no mbuf is left for a copy, the packet passes unharmed and counts as spared by each
 * rule concerned. Held packets leave when other faults are published or the switch drains.
 *
 * Thread safety: for the one control thread.
 */
#ifndef PPE_FAULTS_H
#define PPE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ppe/ppe.h"

#define PPE_FAULT_RULES_MAX    64
#define PPE_FAULT_ORDINALS_MAX 32
#define PPE_FAULT_BEHIND_MAX   64 /* packets of a worker that wait to be overtaken */
#define PPE_FAULT_HELD_MAX     16384
#define PPE_FAULT_BITS_MAX     64
#define PPE_FAULT_DELAY_MAX_US 10000000

/* A packet that no other overtakes leaves after this time. */
#define PPE_FAULT_BEHIND_US 10000

enum ppe_fault_direction { PPE_FAULT_IN, PPE_FAULT_OUT };

/* What a rule matches. A packet that is not a whole aggregation packet is ordinary. */
enum ppe_fault_what {
	PPE_FAULT_ANY,
	PPE_FAULT_CONTRIBUTION, /* to an aggregation port; joins and acknowledgements too */
	PPE_FAULT_RESULT, /* from one; replies too */
	PPE_FAULT_ORDINARY,
};

/* The choice among matched packets. */
enum ppe_fault_choice {
	PPE_FAULT_CHANCE, /* each with `probability` */
	PPE_FAULT_EVERY, /* the nth, the 2 nth, ... */
	PPE_FAULT_LIST, /* those whose numbers are in `ordinal` */
	PPE_FAULT_BURST, /* Gilbert-Elliott model; begins in the good state */
};

enum ppe_fault_action {
	PPE_FAULT_DROP, /* dropped as fault_drop */
	PPE_FAULT_BLACKOUT, /* dropped as fault_blackout */
	PPE_FAULT_DUPLICATE, /* a copy follows, one per such rule; rules do not apply to it */
	PPE_FAULT_REORDER, /* [1, distance] later packets of its queue overtake it */
	PPE_FAULT_DELAY, /* delays of several rules add up, to PPE_FAULT_DELAY_MAX_US */
	PPE_FAULT_CORRUPT, /* `bits` bits, anywhere in the frame, are flipped */
};

enum ppe_fault_delay {
	PPE_FAULT_CONSTANT, /* us */
	PPE_FAULT_UNIFORM, /* [us, most_us] */
	PPE_FAULT_EXPONENTIAL, /* mean us, at most most_us */
	PPE_FAULT_PARETO, /* us or more, with `shape`; at most most_us */
};

struct ppe_fault_rule {
	/* match */
	int port; /* [0, nb_ports), or -1: any */
	enum ppe_fault_direction direction;
	enum ppe_fault_what what;
	int job, source; /* [0, 255], or -1: any. The source of a result is its receiver */
	uint32_t first, last; /* block ids of packets; 0, UINT32_MAX: any, also ordinary packets */
	/* choice */
	enum ppe_fault_choice choice;
	double probability; /* [0, 1] */
	uint32_t nth; /* [1, UINT32_MAX] */
	unsigned int ordinals; /* [1, PPE_FAULT_ORDINALS_MAX] */
	uint64_t ordinal[PPE_FAULT_ORDINALS_MAX]; /* from 1 */
	double enter, leave; /* from good to bad, and back, per packet; [0, 1] */
	double good, bad; /* chance of the action in the two states; [0, 1] */
	/* The rule acts within [from, to) ms after publication, again every `repeat` ms. It counts
	 * packets all the time. to 0: no end; repeat 0: once. */
	uint32_t from_ms, to_ms, repeat_ms;
	enum ppe_fault_action action;
	uint32_t distance; /* of a reordering; [1, 1000] packets */
	enum ppe_fault_delay delay;
	uint32_t us, most_us; /* [0, PPE_FAULT_DELAY_MAX_US], us <= most_us where both count */
	double shape; /* of Pareto; (0, 100] */
	unsigned int bits; /* [1, PPE_FAULT_BITS_MAX] */
};

struct ppe_faults {
	uint64_t seed;
	uint32_t held; /* packets that a worker holds at most; [1, PPE_FAULT_HELD_MAX] */
	unsigned int nb_rules; /* [0, PPE_FAULT_RULES_MAX] */
	struct ppe_fault_rule rule[PPE_FAULT_RULES_MAX];
};

/* Returns the first rule with a number out of range, or -1. nb_ports: of the switch. Only
 * ppe_publish_faults and ppe_check_faults check `held` and nb_rules. */
int ppe_faults_check(const struct ppe_faults *faults, unsigned int nb_ports);

/* Bytes that ppe_publish_faults takes at most: about half a MiB per worker, kept until the switch
 * ends, and the old and new rules. 0 without rules. */
uint64_t ppe_faults_bytes(
	const struct ppe_config *config, unsigned int nb_ports, const struct ppe_faults *faults);

/*
 * Replace the faults by a copy of these; NULL or no rules: none. Counters and ordinals restart. 0;
 * -EINVAL; -ENOMEM; -EBUSY: a worker has not taken the previous change. On error nothing changes.
 * Waits for a loop turn of the slowest worker, at most half a second.
 */
int ppe_publish_faults(struct ppe *ppe, const struct ppe_faults *faults);

/* Return what ppe_publish_faults would, and change nothing; the memory that each worker keeps for
 * held packets may be taken. */
int ppe_check_faults(struct ppe *ppe, const struct ppe_faults *faults);

/* The current faults; NULL: none. Valid until the next ppe_publish_faults. */
const struct ppe_faults *ppe_faults_of(const struct ppe *ppe);

/* Since publication, over all ports; read while they grow. */
struct ppe_fault_stats {
	uint64_t matched[PPE_FAULT_RULES_MAX]; /* by rule */
	uint64_t hit[PPE_FAULT_RULES_MAX]; /* of those, chosen for the action */
	uint64_t spared[PPE_FAULT_RULES_MAX]; /* of those, not acted on: no room, or no mbuf */
	uint64_t spared_ever; /* by all rules since the switch was created */
	uint64_t held; /* at this moment */
	uint64_t elapsed_us; /* since publication; 0: no faults */
};

void ppe_faults_read(const struct ppe *ppe, struct ppe_fault_stats *stats);

#endif
