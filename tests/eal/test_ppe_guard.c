/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that claim foreign addresses, turned by hand: which frames pass, and under which reason the others end. */
#include "ppe/guard.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

#define SECOND_US 1010000 /* with a margin, because turns round it down */
#define EXCEPTION 3
#define OF_NOBODY 9 /* a source's number whose addresses nobody has */
#define PORTS     4

static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t nowhere[6] = {2, 0, 0, 0, 0, 1};
static const struct rig_config *more; /* what differs in a test */

/* Job 1 of two sources at ports 0 and 1, and job 2 of the same hosts; port 3 is the exception port. */
static void
guarded(struct rig_config *config)
{
	config->exception = true;
	config->jobs = 2;
	config->job[0].revoke = more->job[0].revoke;
	config->job[1] = rig_job(2, 2, 4, 8);
	config->fdb_timeout_s = more->fdb_timeout_s;
	config->policers = more->policers;
	config->nb_hosts = more->nb_hosts;
	memcpy(config->host, more->host, sizeof(config->host));
}

#define start_guarded(n, ...)                                                                      \
	do {                                                                                       \
		more = &(const struct rig_config){__VA_ARGS__};                                    \
		start(.workers = (n), .ports = PORTS, .timeout_ms = 1000, .late = true,            \
			.change = guarded);                                                        \
	} while (0)

static struct ppe_port_stats
port_stats(unsigned int port)
{
	struct ppe_stats now;

	rig_settle(&rig, &now);
	return now.port[port];
}

/* How many frames leave by all ports. */
static unsigned int
left(void)
{
	unsigned int n = 0;

	rig_rest(&rig);
	for (unsigned int p = 0; p < rig.ports; p++)
		while (rig_receive(&rig, p, frame, 0) > 0)
			n++;
	return n;
}

/* So many of the port's frames have ended as spoofed ones. */
static void
expect_spoofed(unsigned int port, uint64_t n)
{
	cr_expect_eq(port_stats(port).spoofed, n, "port %u: %lu spoofed, not %lu", port,
		port_stats(port).spoofed, n);
}

/* A frame's bytes up to its EtherType, with so many VLAN tags; returns where the rest begins. */
static unsigned int
begin(const uint8_t to[6], const uint8_t from[6], unsigned int tags, uint16_t type)
{
	unsigned int at = 12;

	memset(frame, 0, 128);
	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	for (unsigned int i = 0; i < tags; i++, at += 4)
		weir_put16(frame + at, i + 1 == tags ? 0x8100 : 0x88a8);
	weir_put16(frame + at, type);
	return at + 2;
}

static void
send_ip(unsigned int port, const uint8_t to[6], const uint8_t from[6], unsigned int tags,
	uint32_t ip)
{
	unsigned int at = begin(to, from, tags, 0x0800);

	frame[at] = 0x45;
	weir_put16(frame + at + 2, 40);
	frame[at + 9] = 17;
	weir_put32(frame + at + 12, ip);
	weir_put32(frame + at + 16, rig_source_ip(OF_NOBODY));
	weir_put16(frame + at + 24, 20);
	rig_send(&rig, port, frame, 128);
}

static void
send_arp(unsigned int port, const uint8_t to[6], unsigned int tags, const uint8_t mac[6],
	uint32_t ip)
{
	uint8_t from[6];
	unsigned int at;

	rig_source_mac(OF_NOBODY, from);
	at = begin(to, from, tags, 0x0806);
	memcpy(frame + at, "\0\1\x08\0\6\4\0\2", 8);
	memcpy(frame + at + 8, mac, 6);
	weir_put32(frame + at + 14, ip);
	rig_send(&rig, port, frame, 128);
}

/* Nothing has left, and port's frames have ended so. */
static void
expect_ends(unsigned int port, enum ppe_drop reason, uint64_t drops, uint64_t spoofed)
{
	cr_expect_eq(left(), 0);
	expect_drop(reason, drops);
	expect_spoofed(port, spoofed);
}

static void
join_at(unsigned int port, uint8_t job, unsigned int source, uint32_t nonce)
{
	struct weir_header h = note(source, nonce, WEIR_COLLECTIVE_JOIN);

	h.job_id = job;
	rig_offer(&rig, port, &h, NULL, 0);
	rig_rest(&rig);
}

/* Sets the generation. */
static void
join_all(uint8_t job)
{
	join_at(0, job, 0, 100);
	join_at(1, job, 1, 101);
	cr_assert_eq(job_stats(job).generations, 1);
	generation = job_stats(job).generation;
	left();
}

/* Job 1 or 2 is gone. */
static void
remove_job(uint8_t job)
{
	rig.jobs.by_id[job] = NULL;
	rig_change_jobs(&rig);
}

/* All frames that carry a source's address, at a port. Returns how many there are. */
static unsigned int
send_as(unsigned int port, unsigned int source, unsigned int tags)
{
	uint8_t mac[6], other[6], to[6];

	rig_source_mac(source, mac);
	rig_source_mac(OF_NOBODY, other);
	rig_source_mac(OF_NOBODY + 1, to);
	send_ip(port, to, other, tags, rig_source_ip(source));
	send_ip(port, all, other, tags, rig_source_ip(source));
	send_ip(port, to, mac, tags, rig_source_ip(OF_NOBODY));
	send_arp(port, all, tags, other, rig_source_ip(source));
	send_arp(port, to, tags, mac, 0);
	return 5;
}

static void
pretends_to_be_the_switch(unsigned int workers)
{
	uint8_t other[6], to[6];
	unsigned int n = 0;

	start_guarded(workers);
	rig_source_mac(OF_NOBODY, other);
	rig_source_mac(0, to);
	for (unsigned int tags = 0; tags <= 4; tags++) {
		send_ip(2, to, other, tags, RIG_SWITCH_IP);
		send_ip(2, all, other, tags, RIG_SWITCH_IP);
		send_ip(2, rig_switch_mac, other, tags, RIG_SWITCH_IP);
		send_arp(2, all, tags, other, RIG_SWITCH_IP);
		send_arp(2, to, tags, other, RIG_SWITCH_IP);
		send_arp(2, rig_switch_mac, tags, other, RIG_SWITCH_IP);
		n += 6;
	}
	expect_ends(2, PPE_DROP_SPOOFED_SWITCH, n, n);
	send_ip(2, to, rig_switch_mac, 0, rig_source_ip(0));
	send_ip(2, rig_switch_mac, rig_switch_mac, 0, rig_source_ip(0));
	send_arp(2, all, 1, rig_switch_mac, 0);
	expect_ends(2, PPE_DROP_BAD_SOURCE_MAC, 3, n + 3);
	send_ip(2, to, other, 9, RIG_SWITCH_IP);
	expect_ends(2, PPE_DROP_VLAN_TAG, 1, n + 3);
	/* The kernel is the switch. */
	send_ip(EXCEPTION, to, rig_switch_mac, 0, RIG_SWITCH_IP);
	send_arp(EXCEPTION, all, 0, rig_switch_mac, RIG_SWITCH_IP);
	cr_expect_eq(left(), 2 * (PORTS - 1));
	stop_unread();
}

CASE(ppe_guard, the_switch, pretends_to_be_the_switch(1))
CASE(ppe_guard, the_switch_of_two_workers, pretends_to_be_the_switch(2))

static void
pretends_to_be_a_source(unsigned int workers)
{
	uint8_t other[6];
	unsigned int n = 0;

	start_guarded(workers);
	rig_source_mac(OF_NOBODY, other);
	for (unsigned int tags = 0; tags <= 2; tags++)
		send_ip(2, all, other, tags, rig_source_ip(0));
	cr_expect_gt(left(), 0, "who has not joined has no port");
	join_all(1);
	for (unsigned int tags = 0; tags <= 2; tags++)
		for (unsigned int source = 0; source < 2; source++)
			n += send_as(2, source, tags);
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, n, n);
	/* To the kernel, and as an aggregation packet. */
	send_ip(2, rig_switch_mac, nowhere, 0, rig_source_ip(0));
	for (uint8_t job = 1; job <= 3; job++) {
		struct weir_header h = rig_contribution(job, 65535, 0, 0, 0);

		rig_offer(&rig, 2, &h, NULL, 0);
		join_at(2, job, 0, 55);
	}
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, n + 7, n + 7);
	/* Who is where it joined, and others, may send. */
	cr_expect_eq(send_as(0, 0, 0), 5);
	cr_expect_geq(left(), 5);
	send_as(2, OF_NOBODY + 2, 0);
	cr_expect_geq(left(), 5);
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, n + 7, n + 7);
	/* A job that is gone has no sources. */
	remove_job(1);
	send_as(2, 0, 0);
	cr_expect_geq(left(), 5);
	cr_expect_eq(rig.ppe->worker[0]->guard->active, 0);
	stop_unread();
}

CASE(ppe_guard, a_source, pretends_to_be_a_source(1))
CASE(ppe_guard, a_source_of_three_workers, pretends_to_be_a_source(3))

/* A join of a source of job 1 with another MAC address, that of `host`. */
static void
join_with_mac_of(unsigned int port, unsigned int source, unsigned int host, uint32_t nonce)
{
	const struct weir_header h = note(source, nonce, WEIR_COLLECTIVE_JOIN);
	unsigned int bytes = write_frame(&h, 0);

	rig_source_mac(host, frame + 6);
	rig_send(&rig, port, frame, bytes);
	rig_rest(&rig);
}

/* A host's broadcasts pass. */
static void
expect_broadcasts(unsigned int port, unsigned int host)
{
	uint64_t before = port_stats(port).spoofed;
	uint8_t mac[6];

	rig_source_mac(host, mac);
	send_ip(port, all, mac, 0, rig_source_ip(host));
	send_arp(port, all, 0, mac, rig_source_ip(host));
	cr_expect_eq(left(), 2 * (PORTS - 1));
	expect_spoofed(port, before);
}

/* Source 0 joins with the MAC address of a host at port 2. It may have sent frames with that address before. */
static void
joins_as_a_host_in_no_job(bool lies_first, bool again, unsigned int workers)
{
	const unsigned int host = OF_NOBODY + 1;
	uint8_t mac[6];

	start_guarded(workers);
	rig_source_mac(host, mac);
	if (again)
		join_all(1);
	expect_broadcasts(2, host);
	if (lies_first)
		send_ip(0, all, mac, 0, rig_source_ip(0));
	join_with_mac_of(0, 0, host, 100);
	left();
	if (!again)
		join_at(1, 1, 1, 101);
	left();
	for (unsigned int i = 0; i < 5; i++) {
		expect_broadcasts(2, host);
		send_ip(0, all, mac, 0, rig_source_ip(0));
		cr_expect_eq(left(), PORTS - 1, "the member's own");
		rig_pass_us(SECOND_US);
	}
	/* Its IPv4 address is its own. */
	send_ip(2, all, mac, 0, rig_source_ip(0));
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 1, 1);
	remove_job(1);
	for (unsigned int w = 0; w < workers; w++)
		cr_expect_eq(rig.ppe->worker[w]->guard->active, 0);
	stop_unread();
}

CASE(ppe_guard, joins_as_a_host, joins_as_a_host_in_no_job(false, false, 1))
CASE(ppe_guard, joins_as_a_host_after_lies, joins_as_a_host_in_no_job(true, false, 1))
CASE(ppe_guard, joins_again_as_a_host, joins_as_a_host_in_no_job(false, true, 1))
CASE(ppe_guard, joins_as_a_host_of_three_workers, joins_as_a_host_in_no_job(false, false, 3))
CASE(ppe_guard, joins_again_as_a_host_after_lies_of_three_workers,
	joins_as_a_host_in_no_job(true, true, 3))

/* Nobody else has shown a source's MAC address for long, so it is the source's alone. */
static void
is_bound_later(unsigned int workers)
{
	uint8_t mac[6];

	start_guarded(workers, .fdb_timeout_s = 1);
	rig_source_mac(0, mac);
	expect_broadcasts(2, 0);
	for (unsigned int i = 0; i < 3; i++) {
		send_ip(0, all, mac, 0, rig_source_ip(0));
		rig_pass_us(i < 2 ? SECOND_US : 0); /* it is still known */
	}
	join_all(1);
	send_ip(2, all, mac, 0, rig_source_ip(OF_NOBODY));
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 1, 1);
	stop_unread();
}

CASE(ppe_guard, a_mac_address_is_bound_later, is_bound_later(1))
CASE(ppe_guard, a_mac_address_is_bound_later_by_three_workers, is_bound_later(3))

/* A join at another port moves what is bound, although the station was seen at the former one. */
Test(ppe_guard, a_bound_mac_address_stays_bound_when_it_moves, .timeout = 90)
{
	start_guarded(2);
	join_all(1);
	expect_broadcasts(0, 0);
	join_at(2, 1, 0, 100);
	left();
	send_as(0, 0, 0);
	left();
	expect_spoofed(0, 5);
	stop_unread();
}

/* Sources 0 and 1 share a MAC address, seen at both ports. While 0 is silent, 1 joins again; 0 comes back. */
Test(ppe_guard, a_shared_mac_address_stays_shared, .timeout = 90)
{
	const unsigned int shared = OF_NOBODY + 1;
	uint8_t mac[6];

	start_guarded(1, .fdb_timeout_s = 1);
	rig_source_mac(shared, mac);
	for (unsigned int port = 0; port < 2; port++)
		send_ip(port, all, mac, 0, rig_source_ip(port));
	left();
	for (unsigned int source = 0; source < 2; source++)
		join_with_mac_of(source, source, shared, 100 + source);
	for (unsigned int i = 0; i < 3; i++) {
		rig_pass_us(SECOND_US);
		send_ip(1, all, mac, 0, rig_source_ip(1));
	}
	left();
	join_with_mac_of(1, 1, shared, 101);
	left();
	send_ip(0, all, mac, 0, rig_source_ip(0));
	cr_expect_eq(left(), PORTS - 1);
	expect_spoofed(0, 0);
	stop_unread();
}

/* Both are behind one port, until the first one, whose binding it is, joins again at another port. */
Test(ppe_guard, a_shared_mac_address_moves_with_its_first_source, .timeout = 90)
{
	const unsigned int shared = OF_NOBODY + 1;
	uint8_t mac[6];

	start_guarded(1);
	rig_source_mac(shared, mac);
	for (unsigned int source = 0; source < 2; source++)
		join_with_mac_of(0, source, shared, 100 + source);
	join_with_mac_of(2, 0, shared, 100);
	left();
	send_ip(2, all, mac, 0, rig_source_ip(0));
	cr_expect_eq(left(), PORTS - 1);
	expect_spoofed(2, 0);
	stop_unread();
}

/* However often a source joins again with other addresses, it has bound one of each. */
Test(ppe_guard, a_source_binds_one_address_of_each_kind, .timeout = 90)
{
	start_guarded(2);
	join_all(1);
	for (unsigned int i = 0; i < 20; i++) {
		join_with_mac_of(i % 2 * 2, 0, 20 + i, 100);
		left();
		for (unsigned int w = 0; w < 2; w++)
			cr_expect_eq(rig.ppe->worker[w]->guard->active, 4);
	}
	send_as(1, 20 + 19, 0);
	left();
	expect_spoofed(1, 2);
	send_as(1, 20 + 18, 0);
	left();
	expect_spoofed(1, 2);
	stop_unread();
}

Test(ppe_guard, sources_beyond_its_room_are_counted, .timeout = 90)
{
	struct pktbuf_endpoint at = {.port = 2, .valid = 1};

	start_guarded(2);
	for (unsigned int w = 0; w < 2; w++) {
		at.ip = 0;
		do {
			at.ip++;
			memcpy(at.mac + 2, &at.ip, 4);
		} while (guard_bind(rig.ppe->worker[w], NULL, &at, 2));
	}
	cr_expect_geq(rig.ppe->worker[0]->guard->active, GUARD_ADDRESSES - 1);
	join_all(1);
	cr_expect_eq(job_stats(1).unguarded, 2, "%lu", job_stats(1).unguarded);
	cr_expect(ppe_guard_is_full(rig.ppe));
	cr_expect_eq(send_as(0, 0, 0), 5);
	cr_expect_geq(left(), 5);
	stop_unread();
}

Test(ppe_guard, a_host_in_two_jobs_stays_bound, .timeout = 90)
{
	start_guarded(2);
	join_all(1);
	join_all(2);
	join_at(2, 1, 0, 100); /* one job alone can't move it */
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 1, 1);
	remove_job(1);
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 1 + send_as(2, 0, 0), 6);
	/* Source 0 leaves the other job. */
	rig.job[1].members[0] = 2;
	rig_change_jobs(&rig);
	send_as(2, 0, 0);
	cr_expect_geq(left(), 5);
	send_as(2, 1, 0);
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 11, 11);
	stop_unread();
}

enum first { ARP, IP, JOIN };

/* The first frame of source 0 at its port, or where it has moved to. */
static void
send_first(unsigned int port, enum first first, uint8_t job)
{
	uint8_t mac[6];

	rig_source_mac(0, mac);
	if (first == ARP)
		send_arp(port, rig_switch_mac, 0, mac, rig_source_ip(0));
	else if (first == IP)
		send_ip(port, rig_switch_mac, mac, 0, rig_source_ip(0));
	else
		join_at(port, job, 0, 100);
	left();
}

static void
join_jobs(unsigned int jobs)
{
	for (uint8_t job = 1; job <= jobs; job++)
		join_all(job);
	rig_pass_us(SECOND_US); /* a join is a sign of life, too */
}

/* Source 0 of so many jobs is at port 2 from now on. Port 0 is silent, and the switch asks there. */
static void
moves(unsigned int jobs, enum first first, unsigned int workers)
{
	uint64_t spoofed;

	start_guarded(workers);
	join_jobs(jobs);
	for (unsigned int i = 0; i <= GUARD_ASKS; i++) {
		/* For the MAC address and for the IPv4 address. */
		cr_expect_eq(rig.asked[0], 2 * i, "asked %u times, not %u", rig.asked[0], 2 * i);
		send_first(2, first, 1);
		rig_pass_us(SECOND_US);
	}
	cr_expect_eq(rig.asked[1] + rig.asked[2], 0);
	spoofed = port_stats(2).spoofed;
	cr_expect_eq(spoofed, GUARD_ASKS, "%lu frames", spoofed);
	for (uint8_t job = 1; job <= jobs; job++)
		join_at(2, job, 0, 100);
	left();
	for (unsigned int i = 0; i < 3; i++)
		send_first(2, (enum first)i, 1);
	expect_spoofed(2, spoofed); /* it is back */
	expect_spoofed(0, 0);
	send_first(0, IP, 1);
	expect_spoofed(0, 1); /* its addresses are where it is */
	stop_unread();
}

CASE(ppe_guard, moves_in_one_job_with_arp, moves(1, ARP, 1))
CASE(ppe_guard, moves_in_one_job_with_ip, moves(1, IP, 2))
CASE(ppe_guard, moves_in_two_jobs_with_arp, moves(2, ARP, 1))
CASE(ppe_guard, moves_in_two_jobs_with_ip, moves(2, IP, 1))
CASE(ppe_guard, moves_in_two_jobs_with_a_join, moves(2, JOIN, 1))
CASE(ppe_guard, moves_in_two_jobs_of_three_workers_with_arp, moves(2, ARP, 3))
CASE(ppe_guard, moves_in_two_jobs_of_three_workers_with_a_join, moves(2, JOIN, 3))

/* The process that has joined may come from elsewhere at once, in one job: also a host that was in another one. */
static void
moves_at_once(bool left_another)
{
	const uint32_t nonce = left_another ? 200 : 100;

	start_guarded(3);
	join_all(1);
	if (left_another) {
		join_all(2);
		remove_job(2);
		for (unsigned int source = 0; source < 2; source++)
			join_at(source, 1, source, nonce + source);
	}
	join_at(2, 1, 0, nonce);
	left();
	send_first(2, IP, 1);
	expect_spoofed(2, 0);
	send_first(0, IP, 1);
	expect_spoofed(0, 1);
	cr_expect_eq(rig.asked[0] + rig.asked[1], 0);
	stop_unread();
}

CASE(ppe_guard, moves_in_one_job_with_a_join, moves_at_once(false))
CASE(ppe_guard, moves_after_it_left_the_other_job, moves_at_once(true))

/* Source 0 is silent, but its host answers before or after the spoofer's frame. */
static void
is_spoofed(unsigned int jobs, enum first first, bool answers_first, unsigned int workers)
{
	unsigned int n = 0;

	start_guarded(workers);
	join_jobs(jobs);
	while (n < 5 * GUARD_ASKS) {
		if (answers_first)
			send_first(0, ARP, 1);
		send_first(2, first, 1);
		expect_ends(2, PPE_DROP_SPOOFED_MEMBER, n + 1, n + 1);
		n++;
		/* An answer to one question of three is enough. */
		if (!answers_first && n % GUARD_ASKS == 0)
			send_first(0, ARP, 1);
		rig_pass_us(SECOND_US);
	}
	cr_expect_eq(rig.asked[0], 2 * n, "asked %u times", rig.asked[0]);
	expect_spoofed(0, 0);
	send_first(0, ARP, 1);
	rig_pass_us(SECOND_US);
	/* It falls silent, and its addresses are free, until it comes back. */
	for (unsigned int i = 0; i <= GUARD_ASKS; i++, rig_pass_us(SECOND_US))
		send_first(2, IP, 1);
	expect_spoofed(2, n + GUARD_ASKS);
	send_first(0, IP, 1);
	send_first(2, IP, 1);
	expect_spoofed(2, n + GUARD_ASKS + 1);
	stop_unread();
}

CASE(ppe_guard, is_spoofed_in_one_job_with_arp, is_spoofed(1, ARP, false, 1))
CASE(ppe_guard, is_spoofed_in_one_job_with_ip, is_spoofed(1, IP, true, 3))
CASE(ppe_guard, is_spoofed_in_two_jobs_with_arp, is_spoofed(2, ARP, true, 1))
CASE(ppe_guard, is_spoofed_in_two_jobs_with_ip, is_spoofed(2, IP, false, 2))
CASE(ppe_guard, is_spoofed_in_two_jobs_with_a_join, is_spoofed(2, JOIN, false, 1))
CASE(ppe_guard, is_spoofed_in_two_jobs_of_three_workers_with_arp, is_spoofed(2, ARP, false, 3))
CASE(ppe_guard, is_spoofed_in_two_jobs_of_three_workers_with_a_join, is_spoofed(2, JOIN, true, 3))

/* However fast a spoofer sends and the host answers, the switch asks once a second for each address. */
Test(ppe_guard, a_flood_of_spoofed_frames_causes_few_questions, .timeout = 90)
{
	start_guarded(3);
	join_jobs(2);
	for (unsigned int second = 0; second < 2; second++) {
		for (unsigned int i = 0; i < 20; i++) {
			send_first(2, IP, 1);
			send_first(0, ARP, 1);
		}
		cr_expect_eq(rig.asked[0], 2 * (second + 1), "asked %u times", rig.asked[0]);
		rig_pass_us(SECOND_US);
	}
	expect_spoofed(2, 40);
	expect_spoofed(0, 0);
	stop_unread();
}

/* A contribution of source 0 of this generation, with a MAC address and a UDP port of zeros. */
static void
offer_from_zeros(uint16_t of)
{
	struct weir_header h = contribution(0, 0);
	unsigned int bytes;

	h.gen_id = of;
	bytes = write_frame(&h, 4u * h.grad_cnt);
	memset(frame + 6, 0, 6);
	weir_put16(frame + 34, 0);
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
}

static void
change_first_source(uint64_t members, uint32_t address)
{
	rig.job[0].members[0] = members;
	rig.job[0].address[0] = address;
	rig_change_jobs(&rig);
}

Test(ppe_guard, unjoined_source_has_no_endpoint, .timeout = 90)
{
	start_guarded(2);
	offer_from_zeros(0);
	left();
	expect_drop(PPE_DROP_NOT_JOINED, 1);
	join_all(1);
	/* Source 0 leaves, and returns without a join. */
	change_first_source(2, 0);
	change_first_source(3, rig_source_ip(0));
	offer_from_zeros(generation);
	offer_from_zeros((uint16_t)(generation + 1));
	cr_expect_eq(left(), 0, "an answer reveals the generation");
	expect_drop(PPE_DROP_ADDRESS, 2);
	cr_expect_eq(job_stats(1).contributions, 0);
	stop_unread();
}

/* Either job's contributions keep a host's addresses, whether its host answers or not: also those of the job that it joined
 * first, while the other one is idle or gone. */
static void
contributes_to_one_of_two_jobs(bool deleted)
{
	start_guarded(2);
	join_all(2);
	join_all(1);
	if (deleted)
		remove_job(2);
	for (uint32_t block = 0; block < 4 * GUARD_ASKS; block++) {
		contribute(0, block % 2);
		left();
		send_ip(2, all, nowhere, 0, rig_source_ip(0));
		expect_ends(2, PPE_DROP_SPOOFED_MEMBER, block + 1, block + 1);
		rig_pass_us(SECOND_US);
	}
	stop_unread();
}

CASE(ppe_guard, contributions_beside_an_idle_job, contributes_to_one_of_two_jobs(false))
CASE(ppe_guard, contributions_beside_a_job_that_is_gone, contributes_to_one_of_two_jobs(true))

Test(ppe_guard, revoked_source_stays_bound, .timeout = 90)
{
	start_guarded(2, .job[0].revoke = true);
	join_all(1);
	join_at(1, 1, 1, 102);
	cr_assert_eq(job_stats(1).revokes, 1);
	left();
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, send_as(2, 0, 0), 5);
	stop_unread();
}

Test(ppe_guard, ports_with_lists, .timeout = 90)
{
	start_guarded(2, .nb_hosts = 2,
		.host = {{rig_source_ip(0), UINT32_MAX, 1 | 4}, {0x0a4d0100, 0xffffff00, 1}});
	for (unsigned int port = 0; port <= 2; port += 2) {
		send_ip(port, all, nowhere, 0, rig_source_ip(0));
		send_arp(port, all, 0, nowhere, 0); /* no address yet */
	}
	send_ip(0, all, nowhere, 0, 0x0a4d01fe);
	send_ip(1, all, nowhere, 0, rig_source_ip(1));
	cr_expect_eq(left(), 6 * (PORTS - 1));
	send_ip(1, all, nowhere, 0, rig_source_ip(0));
	send_ip(1, all, nowhere, 0, 0x0a4d0101);
	expect_ends(1, PPE_DROP_SPOOFED_MEMBER, 2, 2);
	send_ip(0, all, nowhere, 0, rig_source_ip(1));
	join_at(0, 1, 1, 5); /* not listed there */
	expect_ends(0, PPE_DROP_SPOOFED_MEMBER, 4, 2);
	/* A listed source may use all its ports, and its MAC address with it. */
	join_all(1);
	send_as(2, 0, 0);
	cr_expect_eq(left(), 4 * (PORTS - 1)); /* one has the address of nobody */
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 5, 1);
	stop_unread();
}

/* A join is known by its nonce of 32 bits, so a port must not try many. */
Test(ppe_guard, guesses_of_nonces_are_few, .timeout = 90)
{
	start_guarded(1, .policers = {.joins = 100});
	join_all(1);
	for (uint32_t i = 0; i < 100; i++)
		join_at(2, 1, 0, 1000 + i);
	expect_ends(2, PPE_DROP_SPOOFED_MEMBER, 64, 64);
	expect_ends(2, PPE_DROP_POLICED_PORT, 36, 64);
	join_at(0, 1, 0, 100); /* its own port's joins are not affected */
	cr_expect_eq(left(), 1);
	stop_unread();
}

Test(ppe_guard, policers, .timeout = 90)
{
	uint8_t from[6];

	start_guarded(1, .policers = {.broadcast = 100, .exception = 200, .refusals = 300});
	rig_source_mac(0, from);
	for (unsigned int i = 0; i < 100; i++) {
		struct weir_header h = rig_contribution(77, 1, 0, i, 0);

		send_ip(0, all, from, 0, rig_source_ip(0));
		send_ip(0, rig_switch_mac, from, 0, rig_source_ip(0));
		rig_offer(&rig, 0, &h, NULL, 0);
	}
	/* A bucket of at least 64, and a quarter of a second's. */
	cr_expect_eq(left(), 64 * (PORTS - 1) + 64 + 75);
	expect_drop(PPE_DROP_POLICED_PORT, 36 + 36);
	cr_expect_eq(port_stats(0).policed, 36 + 36 + 25);
	send_ip(1, all, from, 0, rig_source_ip(1)); /* another port has its own */
	cr_expect_eq(left(), PORTS - 1);
	rig_pass_us(105000);
	for (unsigned int i = 0; i < 20; i++)
		send_ip(0, all, from, 0, rig_source_ip(0));
	cr_expect_eq(left(), 10 * (PORTS - 1));
	for (unsigned int i = 0; i < 300; i++)
		send_ip(EXCEPTION, all, rig_switch_mac, 0, RIG_SWITCH_IP);
	cr_expect_eq(left(), 300 * (PORTS - 1));
	stop_unread();
}
