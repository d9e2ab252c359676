/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reasons for dropping a packet. One list makes the enum, the JSON keys and the texts; a test
 * compares docs/counters.md with it.
 */
#ifndef PPE_DROPS_H
#define PPE_DROPS_H

#define PPE_DROP_LIST(X)                                                                           \
	X(NO_PROGRAM, "no_program", "no program matches the packet")                               \
	X(MALFORMED, "malformed", "lengths of Ethernet, IPv4 or UDP contradict each other")        \
	X(IP_OPTIONS, "ip_options", "aggregation packet with IPv4 options")                        \
	X(IP_FRAGMENT, "ip_fragment", "aggregation packet in IPv4 fragments")                      \
	X(IP_CHECKSUM, "ip_checksum", "wrong IPv4 header checksum")                                \
	X(UDP_CHECKSUM, "udp_checksum", "wrong UDP checksum")                                      \
	X(CRC, "crc", "wrong CRC, of a job with integrity crc32c")                                 \
	X(VLAN_TAG, "vlan_tag", "aggregation packet with a VLAN tag, or frame with more than 8")   \
	X(TRUNCATED, "truncated", "shorter than the aggregation header")                           \
	X(LENGTH, "length", "payload is not grad_cnt elements, or larger than the job's block")    \
	X(UNKNOWN_JOB, "unknown_job", "no job has this id")                                        \
	X(UNKNOWN_SOURCE, "unknown_source", "the job has no source with this id")                  \
	X(ADDRESS, "address", "source address, UDP port or switch port differs from the source's") \
	X(FORGED, "forged", "packet without the right tag, of a job with a key")                   \
	X(STALE, "stale", "packet of another generation of the job")                               \
	X(NOT_JOINED, "not_joined",                                                                \
		"the job has no generation, because its sources have not all joined")              \
	X(NOT_A_CONTRIBUTION, "not_a_contribution",                                                \
		"a result, a packet with reserved values, or one of a switch for a job of hosts, " \
		"or the other way round")                                                          \
	X(NOT_FROM_PARENT, "not_from_parent",                                                      \
		"packet to the upward port that no parent of a job can have sent")                 \
	X(UNSUPPORTED, "unsupported", "unsupported collective, type or operation")                 \
	X(DUPLICATE, "duplicate", "the block already has this source's contribution")              \
	X(ACKNOWLEDGED, "acknowledged", "acknowledgement of a result, without a contribution")     \
	X(PROBED, "probed", "question of a source for a block, answered without a result")         \
	X(KNOWN, "known", "repeated acknowledgement, or a probe by a source that has the result")  \
	X(LATE, "late", "the block was completed before the contribution arrived")                 \
	X(EXPIRED, "expired", "the block is over and its result is gone")                          \
	X(WINDOW, "window", "block ahead of the job's window")                                     \
	X(POLICED, "policed", "the job exceeds its rate")                                          \
	X(HELD_BACK, "held_back", "the contribution would need a third buffer of its residue")     \
	X(MISMATCH, "mismatch", "contribution that disagrees with the block")                      \
	X(TABLE_FULL, "table_full", "no room in the block table")                                  \
	X(NO_MEMORY, "no_memory", "no free aggregation buffer of the job")                         \
	X(NO_MBUF, "no_mbuf", "no mbuf for a result, reply or copy")                               \
	X(QUEUE_FULL, "queue_full", "the output queue of the port is full")                        \
	X(PORT_STALLED, "port_stalled", "waited too long for the port, or its link is down")       \
	X(TOO_LONG, "too_long", "longer than the port can send")                                   \
	X(CROSSBAR_FULL, "crossbar_full", "the ring to the owning worker is full")                 \
	X(BAD_SOURCE_MAC, "bad_source_mac",                                                        \
		"Ethernet source is a group address or the switch's own")                          \
	X(SPOOFED_SWITCH, "spoofed_switch", "sender's IPv4 address is the switch's own")           \
	X(SPOOFED_MEMBER, "spoofed_member",                                                        \
		"sender's address belongs to another port: by a join, or by the ports' hosts")     \
	X(POLICED_PORT, "policed_port", "the port exceeds a rate of the policers")                 \
	X(RESERVED_MAC, "reserved_mac", "link-local group address (IEEE 802.1D), not forwarded")   \
	X(SAME_PORT, "same_port", "the destination is on the port that the frame came from")       \
	X(NOT_FORWARDED, "not_forwarded",                                                          \
		"frame for another station, from a port that takes no part in forwarding")         \
	X(NO_OTHER_PORT, "no_other_port", "a flood found no other port")                           \
	X(NO_EXCEPTION_PORT, "no_exception_port",                                                  \
		"packet to the switch itself, without an exception interface")                     \
	X(PROGRAM, "program", "a loaded program dropped it: its counters say why")                 \
	X(FILTER, "filter", "a filter dropped it")                                                 \
	X(FAULT_DROP, "fault_drop", "dropped deliberately by a fault rule")                        \
	X(FAULT_BLACKOUT, "fault_blackout", "dropped deliberately by a blackout rule")

enum ppe_drop {
#define X(name, key, help) PPE_DROP_##name,
	PPE_DROP_LIST(X)
#undef X
		PPE_DROP_COUNT
};

/* The JSON key of a reason; reason: [0, PPE_DROP_COUNT). */
const char *ppe_drop_key(enum ppe_drop reason);

/* The meaning of a reason, in words. */
const char *ppe_drop_help(enum ppe_drop reason);

#endif
