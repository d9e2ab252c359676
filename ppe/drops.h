/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a packet was dropped: one list makes the enum, the JSON keys and the documentation
 * (docs/counters.md is compared with it by a test).
 */
#ifndef PPE_DROPS_H
#define PPE_DROPS_H

#define PPE_DROP_LIST(X)                                                                           \
	X(NO_PROGRAM, "no_program", "no program's match takes the packet")                         \
	X(MALFORMED, "malformed", "lengths of Ethernet, IPv4 or UDP contradict each other")        \
	X(IP_OPTIONS, "ip_options", "aggregation packet with IPv4 options")                        \
	X(IP_FRAGMENT, "ip_fragment", "aggregation packet in IPv4 fragments")                      \
	X(IP_CHECKSUM, "ip_checksum", "wrong IPv4 header checksum")                                \
	X(UDP_CHECKSUM, "udp_checksum", "wrong UDP checksum")                                      \
	X(VLAN_TAG, "vlan_tag", "an aggregation packet with a VLAN tag")                           \
	X(TRUNCATED, "truncated", "shorter than the aggregation header")                           \
	X(LENGTH, "length", "payload is not grad_cnt elements, or more than the job's block")      \
	X(UNKNOWN_JOB, "unknown_job", "no job has this id")                                        \
	X(UNKNOWN_SOURCE, "unknown_source", "source id is not in the job")                         \
	X(ADDRESS, "address", "source address, UDP port or switch port is not the source's")       \
	X(FORGED, "forged", "no tag, or a wrong one, in a packet of an authenticated job")         \
	X(STALE, "stale", "another generation than the job's")                                     \
	X(NOT_JOINED, "not_joined", "the job has no generation yet: its sources have not joined")  \
	X(NOT_A_CONTRIBUTION, "not_a_contribution",                                                \
		"a result, or reserved values, sent to the switch")                                \
	X(UNSUPPORTED, "unsupported", "collective, type or operation that is not served")          \
	X(DUPLICATE, "duplicate", "the source is in the block already")                            \
	X(ACKNOWLEDGED, "acknowledged",                                                            \
		"tells that a source has a result, and contributes nothing")                       \
	X(KNOWN, "known", "acknowledgement of what is known already")                              \
	X(LATE, "late", "the block was completed without or before it; answered with the result")  \
	X(EXPIRED, "expired", "the block is over and its result gone; answered")                   \
	X(WINDOW, "window", "ahead of the job's window; answered")                                 \
	X(POLICED, "policed", "the job sends more than its rate")                                  \
	X(HELD_BACK, "held_back", "would need a third buffer of its residue")                      \
	X(MISMATCH, "mismatch", "disagrees with the block; every source is told")                  \
	X(TABLE_FULL, "table_full", "no room in the block table")                                  \
	X(NO_MEMORY, "no_memory", "the job's DataMemory is used up")                               \
	X(NO_MBUF, "no_mbuf", "no mbuf for a result, reply or copy")                               \
	X(QUEUE_FULL, "queue_full", "the output queue of the port is full")                        \
	X(CROSSBAR_FULL, "crossbar_full", "the ring to the owning worker is full")                 \
	X(BAD_SOURCE_MAC, "bad_source_mac",                                                        \
		"Ethernet source is a group address, or the switch's own")                         \
	X(RESERVED_MAC, "reserved_mac", "link-local group address (IEEE 802.1D) is not forwarded") \
	X(SAME_PORT, "same_port", "the destination is on the port that the frame came from")       \
	X(NO_OTHER_PORT, "no_other_port", "a flood found no other port")                           \
	X(NO_EXCEPTION_PORT, "no_exception_port",                                                  \
		"for the switch itself, and no exception interface")                               \
	X(FAULT_DROP, "fault_drop", "dropped on purpose: a fault that was set")                    \
	X(FAULT_BLACKOUT, "fault_blackout", "dropped in a black-out: a fault that was set")

enum ppe_drop {
#define X(name, key, help) PPE_DROP_##name,
	PPE_DROP_LIST(X)
#undef X
		PPE_DROP_COUNT
};

/* The JSON key of a reason; reason: [0, PPE_DROP_COUNT). */
const char *ppe_drop_key(enum ppe_drop reason);

/* A sentence for people. */
const char *ppe_drop_help(enum ppe_drop reason);

#endif
