/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport dpdk of libweir over a port of two rings, whose other end this file plays. */
#include <criterion/criterion.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <rte_arp.h>
#include <rte_eth_ring.h>

#include "apps/libweir-dpdk/device.h"
#include "tests/eal/rig.h"
#include "tests/random.h"

#define OWN    RTE_BE32(0x0a4d0001)
#define OTHER  RTE_BE32(0x0a4d0002)
#define SWITCH RTE_BE32(0x0a4d00fe)
#define GROUP  RTE_BE32(0xef010203)
#define PORT   RTE_BE16(12001)
#define SLOTS  127u

extern const struct weir_transport_ops *const weir_transport;

static const struct rte_ether_addr switch_mac = {{2, 0, 0, 0, 0, 0xfe}};
static struct rte_ring *to, *from; /* what `to` has is received; what was sent is in `from` */
static struct rte_mempool *peer; /* what the other end sends is from here */
static struct weir_transport *t;
static struct weir_transport_config config;
static char text[512];

static struct weir_transport *
open_end(rte_be32_t own)
{
	struct weir_transport *made = NULL;

	config = (struct weir_transport_config){
		.own = {.sin_family = AF_INET, .sin_addr.s_addr = own},
		.switch_address.s_addr = SWITCH};
	cr_assert_eq(weir_transport->open(&config, &made, text, sizeof(text)), 0, "%s", text);
	cr_assert_neq(config.own.sin_port, 0);
	return made;
}

static void
start(void)
{
	rig_start_eal(1);
	to = rte_ring_create("to", SLOTS + 1, 0, 0);
	from = rte_ring_create("from", SLOTS + 1, 0, 0);
	peer = pktbuf_packet_pool("peer", 511, 4096, 0, 0);
	cr_assert(to && from && peer);
	cr_assert_geq(rte_eth_from_rings("small", &to, 1, &from, 1, 0), 0);
	t = open_end(OWN);
}

/* All mbufs are back. */
static void
stop(void)
{
	struct rte_mbuf *m;

	weir_transport->close(t, false);
	while (rte_ring_dequeue(from, (void **)&m) == 0)
		rte_pktmbuf_free(m);
	cr_expect_eq(rte_mempool_avail_count(peer), peer->size);
	cr_expect_eq(rte_mempool_avail_count(device.tx), device.tx->size);
	cr_expect_eq(rte_mempool_avail_count(device.rx), device.rx->size);
	rig_stop_eal();
}

/* The next frame that the transport has sent; the caller frees it. */
static struct rte_mbuf *
next(void)
{
	struct rte_mbuf *m = NULL;

	(void)rte_ring_dequeue(from, (void **)&m);
	return m;
}

static void
offer(const void *bytes, unsigned int length)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(peer);

	cr_assert_not_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)length), bytes, length);
	cr_assert_eq(rte_ring_enqueue(to, m), 0);
}

struct arp_frame {
	struct rte_ether_hdr ether;
	struct rte_arp_hdr arp;
	uint8_t padding[18];
} __rte_packed __rte_aligned(2);

static void
offer_arp(uint16_t opcode, rte_be32_t sender, rte_be32_t target)
{
	struct arp_frame f = {.ether = {.src_addr = switch_mac, .ether_type = RTE_BE16(0x0806)},
		.arp = {.arp_hardware = RTE_BE16(1),
			.arp_protocol = RTE_BE16(0x0800),
			.arp_hlen = 6,
			.arp_plen = 4,
			.arp_opcode = rte_cpu_to_be_16(opcode),
			.arp_data = {.arp_sha = switch_mac, .arp_sip = sender, .arp_tip = target}}};

	offer(&f, sizeof(f));
}

/* Sent an ARP packet with this opcode from `own` about `target`? */
static bool
sent_arp(uint16_t opcode, rte_be32_t own, rte_be32_t target)
{
	struct rte_mbuf *m = next();
	const struct arp_frame *f;
	bool good;

	if (m == NULL)
		return false;
	f = rte_pktmbuf_mtod(m, const void *);
	good = rte_pktmbuf_data_len(m) == 60 && f->ether.ether_type == RTE_BE16(0x0806) &&
		f->arp.arp_opcode == rte_cpu_to_be_16(opcode) && f->arp.arp_data.arp_sip == own &&
		f->arp.arp_data.arp_tip == target &&
		rte_is_same_ether_addr(&f->arp.arp_data.arp_sha, &device.port.mac) &&
		(opcode == RTE_ARP_OP_REQUEST
				? rte_is_broadcast_ether_addr(&f->ether.dst_addr)
				: rte_is_same_ether_addr(&f->ether.dst_addr, &switch_mac));
	rte_pktmbuf_free(m);
	return good;
}

static unsigned int
receive(struct weir_transport *end, struct weir_rx rx[BURST])
{
	return weir_transport->receive(end, false, rx, BURST);
}

static void
know_the_switch(void)
{
	struct weir_rx rx[BURST];

	cr_assert(sent_arp(RTE_ARP_OP_REQUEST, OWN, SWITCH));
	offer_arp(RTE_ARP_OP_REPLY, SWITCH, OWN);
	cr_assert_eq(receive(t, rx), 0);
}

static struct weir_tx
datagram(struct iovec *pieces, unsigned int count, unsigned int lasting)
{
	struct weir_tx tx = {.pieces = pieces, .count = count, .lasting = lasting, .port = PORT};

	for (unsigned int i = 0; i < count; i++)
		tx.bytes += (uint32_t)pieces[i].iov_len;
	return tx;
}

/* A frame of the switch's to `port` of `own`. Returns its length. */
static unsigned int
result(uint8_t bytes[2048], rte_be32_t own, rte_be16_t port, unsigned int payload)
{
	struct frame *f = (void *)bytes;

	*f = (struct frame){.ether = {.dst_addr = device.port.mac,
				    .src_addr = switch_mac,
				    .ether_type = RTE_BE16(0x0800)},
		.ip = {.version_ihl = 0x45,
			.total_length = rte_cpu_to_be_16((uint16_t)(payload + 28)),
			.time_to_live = 64,
			.next_proto_id = IPPROTO_UDP,
			.src_addr = SWITCH,
			.dst_addr = own},
		.udp = {.src_port = PORT,
			.dst_port = port,
			.dgram_len = rte_cpu_to_be_16((uint16_t)(payload + 8))}};
	for (unsigned int i = 0; i < payload; i++)
		bytes[42 + i] = (uint8_t)(i * 7 + payload);
	f->ip.hdr_checksum = rte_ipv4_cksum(&f->ip);
	f->udp.dgram_cksum = rte_ipv4_udptcp_cksum(&f->ip, &f->udp);
	return 42 + payload;
}

TestSuite(weir_dpdk, .init = start, .fini = stop);

Test(weir_dpdk, the_switch_is_asked_for_its_address)
{
	struct iovec piece = {(void *)(uintptr_t) "hello", 5};
	struct weir_tx tx = datagram(&piece, 1, 0);
	int code;

	cr_assert(sent_arp(RTE_ARP_OP_REQUEST, OWN, SWITCH));
	cr_expect_eq(weir_transport->send(t, &tx, 1), -EAGAIN);
	/* In the end it is unreachable, and was asked again and again. */
	while ((code = weir_transport->send(t, &tx, 1)) == -EAGAIN)
		usleep(1000);
	cr_expect_eq(code, -EHOSTUNREACH);
	cr_assert(sent_arp(RTE_ARP_OP_REQUEST, OWN, SWITCH));
	cr_assert(sent_arp(RTE_ARP_OP_REQUEST, OWN, SWITCH));
	/* Answers of others, or to others, are none. */
	offer_arp(RTE_ARP_OP_REPLY, OTHER, OWN);
	offer_arp(RTE_ARP_OP_REPLY, SWITCH, OTHER);
	cr_expect_eq(receive(t, (struct weir_rx[BURST]){{0}}), 0);
	cr_expect_eq(weir_transport->send(t, &tx, 1), -EHOSTUNREACH);
	offer_arp(RTE_ARP_OP_REPLY, SWITCH, OWN);
	cr_expect_eq(receive(t, (struct weir_rx[BURST]){{0}}), 0);
	cr_expect_eq(weir_transport->send(t, &tx, 1), 1);
}

Test(weir_dpdk, others_ask_for_the_own_address)
{
	know_the_switch();
	offer_arp(RTE_ARP_OP_REQUEST, SWITCH, OTHER);
	cr_expect_eq(receive(t, (struct weir_rx[BURST]){{0}}), 0);
	cr_expect_null(next());
	offer_arp(RTE_ARP_OP_REQUEST, SWITCH, OWN);
	cr_expect_eq(receive(t, (struct weir_rx[BURST]){{0}}), 0);
	cr_expect(sent_arp(RTE_ARP_OP_REPLY, OWN, SWITCH));
}

Test(weir_dpdk, datagrams_are_frames)
{
	static uint8_t many[1400], all[1400];
	uint64_t seed = random_seed();
	struct iovec pieces[3] = {{all, 16}, {many, sizeof(many)}, {all + 16, 7}};

	know_the_switch();
	for (unsigned int i = 0; i < sizeof(many); i++)
		many[i] = all[i] = (uint8_t)random_bits(&seed);
	for (unsigned int turn = 0; turn < 4; turn++) {
		/* As if the device copied: then it gets chains. */
		unsigned int count = 1 + turn % 3, at = 42;
		struct weir_tx tx = datagram(pieces, count, count > 1);
		struct rte_mbuf *m;
		struct frame *f;

		device.refers = turn != 3;
		cr_assert_eq(weir_transport->send(t, &tx, 1), 1);
		cr_assert_not_null(m = next());
		cr_expect_eq(m->nb_segs, count == 2 && device.refers ? 2 : 1);
		cr_assert_eq(rte_pktmbuf_linearize(m), 0);
		f = rte_pktmbuf_mtod(m, void *);
		cr_expect_eq(rte_pktmbuf_data_len(m), 42 + tx.bytes);
		cr_expect(rte_is_same_ether_addr(&f->ether.dst_addr, &switch_mac));
		cr_expect(rte_is_same_ether_addr(&f->ether.src_addr, &device.port.mac));
		cr_expect_eq(f->ip.src_addr, OWN);
		cr_expect_eq(f->ip.dst_addr, SWITCH);
		cr_expect_eq(f->ip.fragment_offset, RTE_BE16(RTE_IPV4_HDR_DF_FLAG));
		cr_expect_eq(f->udp.src_port, config.own.sin_port);
		cr_expect_eq(f->udp.dst_port, PORT);
		cr_expect_eq(rte_raw_cksum(&f->ip, sizeof(f->ip)), 0xffff);
		cr_expect_eq(rte_ipv4_udptcp_cksum_verify(&f->ip, &f->udp), 0);
		for (unsigned int i = 0; i < count; at += (unsigned int)pieces[i++].iov_len)
			cr_expect_arr_eq((uint8_t *)f + at, pieces[i].iov_base, pieces[i].iov_len);
		rte_pktmbuf_free(m);
	}
}

Test(weir_dpdk, a_batch_ends_where_the_device_or_the_mtu_does)
{
	static uint8_t bytes[2000];
	struct iovec piece = {bytes, 100}, fits = {bytes, 1472}, long_piece = {bytes, 1473};
	struct weir_tx tx[BURST];

	know_the_switch();
	for (unsigned int i = 0; i < BURST; i++)
		tx[i] = datagram(&piece, 1, 0);
	tx[3] = datagram(&fits, 1, 0);
	tx[4] = datagram(&long_piece, 1, 0);
	cr_expect_eq(weir_transport->send(t, tx, BURST), 4);
	cr_expect_eq(weir_transport->send(t, tx + 4, BURST - 4), -EMSGSIZE);
	tx[4] = tx[0];
	cr_expect_eq(weir_transport->send(t, tx, BURST), BURST);
	cr_expect_eq(weir_transport->send(t, tx, BURST), (int)SLOTS - 4 - BURST);
	cr_expect_eq(weir_transport->send(t, tx, BURST), -EAGAIN);
}

Test(weir_dpdk, datagrams_find_their_handles)
{
	struct weir_transport *second;
	rte_be16_t first_port = config.own.sin_port, second_port;
	uint8_t bytes[2048];
	struct weir_rx rx[BURST];

	know_the_switch();
	second = open_end(OTHER);
	second_port = config.own.sin_port;
	offer(bytes, result(bytes, OTHER, second_port, 33));
	offer(bytes, result(bytes, OWN, first_port, 1472));
	offer(bytes, result(bytes, OWN, second_port ^ 1, 5));
	offer(bytes, result(bytes, OTHER, first_port, 5));
	offer(bytes, result(bytes, OWN, first_port, 0));
	cr_assert_eq(receive(t, rx), 2);
	cr_expect_eq(rx[0].length, 1472);
	cr_expect_arr_eq(rx[0].bytes, (result(bytes, OWN, first_port, 1472), bytes + 42), 1472);
	cr_expect_eq(rx[0].from->sin_addr.s_addr, SWITCH);
	cr_expect_eq(rx[0].from->sin_port, PORT);
	cr_expect_not(rx[0].group);
	cr_expect_eq(rx[1].length, 0);
	/* What the first handle has received for the second one. */
	cr_expect_eq(weir_transport->wait(second, -1, false, 0, 0), WEIR_READY_RX);
	cr_assert_eq(receive(second, rx), 1);
	cr_expect_eq(rx[0].length, 33);
	weir_transport->close(second, false);
	offer(bytes, result(bytes, OTHER, second_port, 33));
	cr_expect_eq(receive(t, rx), 0);
}

Test(weir_dpdk, a_port_has_one_handle)
{
	struct weir_transport *second = NULL;

	cr_expect_eq(weir_transport->open(&config, &second, text, sizeof(text)), -EADDRINUSE);
	cr_expect_null(second);
}

Test(weir_dpdk, all_in_a_group_get_its_datagrams)
{
	struct sockaddr_in group = {.sin_addr.s_addr = GROUP, .sin_port = PORT};
	struct weir_transport *second = open_end(OTHER);
	uint8_t bytes[2048];
	struct weir_rx rx[BURST];

	for (unsigned int turn = 0; turn < 2; turn++) {
		offer(bytes, result(bytes, GROUP, PORT, 12));
		cr_expect_eq(receive(t, rx), turn);
		cr_expect_eq(receive(second, rx), turn);
		cr_expect(turn == 0 || rx[0].group);
		cr_assert_eq(weir_transport->join(t, &group, text, sizeof(text)), 0);
		cr_assert_eq(weir_transport->join(second, &group, text, sizeof(text)), 0);
	}
	weir_transport->leave(second);
	offer(bytes, result(bytes, GROUP, PORT, 12));
	cr_expect_eq(receive(t, rx), 1);
	cr_expect_eq(receive(second, rx), 0);
	weir_transport->close(second, false);
}

Test(weir_dpdk, damaged_and_foreign_frames_are_thrown_away)
{
	rte_be16_t port_own = config.own.sin_port;
	uint8_t bytes[2048];
	unsigned int n;
	struct frame *f = (void *)bytes;
	struct weir_rx rx[BURST];

	know_the_switch();
	n = result(bytes, OWN, port_own, 100);
	bytes[n - 1] ^= 1; /* the UDP checksum is wrong */
	offer(bytes, n);
	n = result(bytes, OWN, port_own, 100);
	f->ip.time_to_live--; /* that of IP is */
	offer(bytes, n);
	n = result(bytes, OWN, port_own, 100);
	f->ip.fragment_offset = RTE_BE16(RTE_IPV4_HDR_MF_FLAG);
	f->ip.hdr_checksum = 0;
	f->ip.hdr_checksum = rte_ipv4_cksum(&f->ip);
	offer(bytes, n);
	n = result(bytes, OWN, port_own, 100);
	offer(bytes, n - 1); /* cut off */
	f->ether.ether_type = RTE_BE16(0x86dd);
	offer(bytes, n);
	cr_expect_eq(receive(t, rx), 0);
	/* Padding is no payload; without a UDP checksum it is good, too. */
	n = result(bytes, OWN, port_own, 3);
	f->udp.dgram_cksum = 0;
	offer(bytes, 60);
	cr_assert_eq(receive(t, rx), 1);
	cr_expect_eq(rx[0].length, 3);
}

/* Good frames in which some bytes are others, and frames of random bytes: none does harm, and what comes through is as long
 * as it says. */
Test(weir_dpdk, garbage)
{
	rte_be16_t port_own = config.own.sin_port;
	uint64_t seed = random_seed();
	unsigned int good = 0;
	struct weir_rx rx[BURST];

	device.port.rx_checksum = PKTBUF_CHECKSUM_OFF; /* so that more comes through */
	for (unsigned int i = 0; i < 20000; i++) {
		static uint8_t bytes[2048];
		unsigned int n = result(
				     bytes, OWN, port_own, (unsigned int)random_below(&seed, 200)),
			     got;

		for (unsigned int k = (unsigned int)random_below(&seed, 4); k > 0; k--)
			bytes[(unsigned int)random_below(&seed, n)] =
				(uint8_t)(unsigned int)random_below(&seed, 256);
		if (i % 4 == 0)
			n = (unsigned int)random_below(&seed, n + 1);
		if (i % 5 == 0)
			bytes[12] = 8, bytes[13] = 6;
		offer(bytes, n);
		got = receive(t, rx);
		cr_assert_leq(got, 1);
		cr_assert(got == 0 || rx[0].length + 42 <= n);
		good += got;
		for (struct rte_mbuf *m; (m = next()) != NULL;)
			rte_pktmbuf_free(m);
	}
	cr_expect_gt(good, 1000);
}

/* An inbox that no thread empties does not take all mbufs. */
Test(weir_dpdk, a_full_inbox_loses)
{
	rte_be16_t first_port = config.own.sin_port, second_port;
	struct weir_transport *second = open_end(OTHER);
	unsigned int got = 0, n;
	uint8_t bytes[2048];
	struct weir_rx rx[BURST];

	second_port = config.own.sin_port;
	rte_mempool_free(peer);
	peer = pktbuf_packet_pool("more", 2047, 2048, 0, 0);
	for (unsigned int i = 0; i < INBOX + 100; i++) {
		offer(bytes, result(bytes, OTHER, second_port, 10));
		if (i % 32 == 0)
			cr_assert_eq(receive(t, rx), 0);
	}
	offer(bytes, result(bytes, OWN, first_port, 10));
	cr_expect_eq(receive(t, rx), 1);
	while ((n = receive(second, rx)) > 0)
		got += n;
	cr_expect_eq(got, INBOX);
	weir_transport->close(second, false);
}

static bool
readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* For threads that sleep on it: it tells again and again that it is time to look, or at once that there is something. */
Test(weir_dpdk, the_descriptor_tells_when_to_look)
{
	struct weir_transport *second = open_end(OTHER);
	rte_be16_t second_port = config.own.sin_port;
	uint8_t bytes[2048];
	struct weir_rx rx[BURST];

	for (unsigned int i = 0; i < 20; i++) {
		cr_assert(readable(second->fd, 10000));
		cr_assert_eq(receive(second, rx), 0);
	}
	((struct end *)(void *)second)->pause = UINT64_C(3600000000000);
	while (((struct end *)(void *)second)->rings_at < now_ns() + UINT64_C(60000000000))
		cr_assert_eq(receive(second, rx), 0);
	cr_assert_not(readable(second->fd, 0));
	offer(bytes, result(bytes, OTHER, second_port, 1));
	cr_assert_eq(receive(t, rx), 0);
	cr_expect(readable(second->fd, 10000));
	cr_expect_eq(receive(second, rx), 1);
	weir_transport->close(second, false);
}

Test(weir_dpdk, waiting)
{
	uint8_t bytes[2048];
	struct weir_rx rx[BURST];
	int wake = eventfd(0, EFD_NONBLOCK);

	for (unsigned int i = 0; i < 3; i++) {
		device.idle = (enum idle)i;
		cr_expect_eq(weir_transport->wait(t, wake, false, 0, now_ns() + 2000000), 0);
		cr_expect_eq(weir_transport->wait(t, wake, true, 0, UINT64_MAX), WEIR_READY_TX);
		offer(bytes, result(bytes, OWN, config.own.sin_port, 1));
		cr_expect_eq(weir_transport->wait(t, wake, false, 0, UINT64_MAX), WEIR_READY_RX);
		cr_expect_eq(weir_transport->wait(t, wake, false, 0, UINT64_MAX), WEIR_READY_RX);
		cr_expect_eq(receive(t, rx), 1);
		eventfd_write(wake, 1);
		cr_expect_eq(weir_transport->wait(t, wake, false, 0, UINT64_MAX), WEIR_READY_WOKEN);
		eventfd_read(wake, &(eventfd_t){0});
	}
	close(wake);
}

Test(weir_dpdk, a_child_has_no_device)
{
	pid_t child = fork();
	int status = 0;

	cr_assert_geq(child, 0);
	if (child == 0) {
		struct weir_transport *made = NULL;
		int code;

		weir_transport->close(t, true);
		config.own.sin_port = 0;
		code = weir_transport->open(&config, &made, text, sizeof(text));
		_exit(code == -EBUSY && made == NULL && strstr(text, "exec") != NULL ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	/* The parent's is as it was. */
	know_the_switch();
}
