/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard of the ports: which source addresses a frame may carry, and how many frames of a kind a
 * port may send.
 *
 * An address is a frame's Ethernet source, its IPv4 source, or the sender of its ARP packet, also
 * behind VLAN and priority tags, which hosts accept. The rules, in this order:
 *
 *  1. The switch's own addresses come from the exception port only.
 *  2. An IPv4 address that ports list (ppe_config.host) comes from these ports only, and a port
 *     with a list carries no other IPv4 address. 0.0.0.0 is no address.
 *  3. Of the others, the MAC and IPv4 address of a source that has joined are bound to its port
 *     until the next generation begins without them or the source leaves. The MAC address of a
 *     source with a listed IPv4 address is bound to the ports of that list. A MAC address that
 *     another port has carried in the last tables.fdb_timeout_s also belongs to another host: it
 *     may come from any port, so that a member that takes it does not block the other host.
 *
 * A host may move to another port (a virtual machine migrates, a bond fails over, a cable is
 * moved), where it needs ARP before it can join. In one job, the process that has joined moves its
 * addresses with its join. Any other frame from elsewhere makes the switch ask for the host by ARP,
 * at the ports of the binding, once a second. After GUARD_ASKS questions in a row without an
 * answer, and without a contribution for as many seconds, the binding does not hold until its
 * address is seen at its ports again, and the next join with it moves it. A host that is still
 * there answers, and no other port can prevent that; silence alone proves nothing. The workers tell
 * each other of questions and answers.
 *
 * Contributions need no check: admission compares port, MAC and IPv4 address with the source's.
 *
 * Each worker has a guard of its own with the bindings of all jobs, because each has all endpoints.
 * A key of its table is a MAC address, or an IPv4 address with the highest bit set. A host may be
 * in several jobs and be several sources, so a binding counts its users.
 */
#ifndef PPE_GUARD_H
#define PPE_GUARD_H

#include "hashengine/hash.h"
#include "pktbuf/pktbuf.h"
#include "ppe/ppe.h"
#include "rmw/policer.h"

#define GUARD_ADDRESSES 4096 /* that can be bound: two for each host with sources */
#define GUARD_ASKS      3

struct ppe_worker;
struct ppe_next;
struct ppe_thread;

/* For guard_passes: the bindings of all jobs count. */
#define GUARD_NO_JOB (-1)

enum guard_policer {
#define X(name, ...) GUARD_##name,
	PPE_POLICERS(X)
#undef X
		GUARD_POLICERS
};

struct guard {
	/* read-mostly */
	uint32_t active; /* bound addresses, and entries in the ports' lists */
	uint64_t with_list; /* bit p: port p has a list */
	const struct ppe_config *config;
	struct hash_table *bound;
	void *records;

	/* written for frames that break a rule; control thread: ro */
	uint64_t claimed[PPE_PORTS_MAX]; /* the last address of such a frame, as a key; 0: none */
	uint64_t full; /* sources that could not be bound */

	struct rmw_policer policer[][GUARD_POLICERS]; /* by port; all zero: no limit */
};

/* Control thread. create: NULL if there is no memory. destroy: NULL is fine. */
struct guard *guard_create(const struct ppe_config *config, unsigned int nb_ports, int socket);
void guard_destroy(struct guard *guard);

/* Bytes of a worker's guard. Any thread. */
size_t guard_bytes(unsigned int nb_ports);

/*
 * Bind the addresses of a source that has joined, or release them. former: the endpoint that it has
 * bound so far, which is released; NULL: none. bind returns false if there is no room; then nothing
 * is bound. Unbind only what was bound, with the same endpoint. Worker.
 */
bool guard_bind(struct ppe_worker *worker, const struct pktbuf_endpoint *former,
	const struct pktbuf_endpoint *endpoint, uint8_t job);
void guard_unbind(struct ppe_worker *worker, const struct pktbuf_endpoint *endpoint);

/* Where guard_examine() may lead, of a packet without VLAN tags: of struct ppe_segment_name. */
#define GUARD_LEADS_TO " drop:bad_source_mac drop:spoofed_switch drop:spoofed_member"

/* The segment of a message of another worker's guard, in a thread of any program. */
struct ppe_next guard_receive_news(struct ppe_worker *worker, struct ppe_thread *thread);

/* Apply all rules to a frame that guard_passes() did not pass. false: dropped and counted. */
bool guard_examine(struct ppe_worker *worker, struct ppe_thread *thread, int job);

/* The reason why guard_passes() would drop the frame now; PPE_DROP_COUNT: it would pass it. Only
 * reads. Control thread, too: it may see a change of a binding halfway. */
enum ppe_drop guard_verdict(
	const struct ppe_worker *worker, const struct ppe_thread *thread, int job);

#endif
