/* SPDX-License-Identifier: BSD-3-Clause */
/* Results by reference and replies, byte by byte, on a real EAL. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <rte_lcore.h>

#include "pktbuf/pktbuf.h"
#include "tests/eal/rig.h"
#include "tests/eal/ring_port.h"

static struct pktbuf_pools pools;
static const struct pktbuf_identity identity = {
	.mac = {2, 0, 0, 0, 0, 0xfe}, .port_base = 12000, .port_ext = 12001, .ip = 0x0a4d00fe};
static const struct pktbuf_endpoint host = {
	.mac = {2, 0, 0, 0, 0, 1}, .ip = 0x0a4d0001, .udp = 40000, .extended = 1, .valid = 1};

/* A port, and pools of so many. */
static void
start(unsigned int headers, unsigned int attaches)
{
	rig_start_eal(1);
	pools.packets = pktbuf_packet_pool("packets", 255, 2048, 0, 0);
	pools.headers = pktbuf_header_pool("headers", headers, 0, 0);
	pools.attaches = pktbuf_attach_pool("attaches", attaches, 0, 0);
	cr_assert(pools.packets && pools.headers && pools.attaches);
	open_port(pools.packets);
}

static void
stop(void)
{
	pktbuf_port_close(&port);
	cr_expect_eq(rte_mempool_avail_count(pools.packets), pools.packets->size);
	cr_expect_eq(rte_mempool_avail_count(pools.headers), pools.headers->size);
	cr_expect_eq(rte_mempool_avail_count(pools.attaches), pools.attaches->size);
	rig_stop_eal();
}

static unsigned int released;

static void
on_release(void *data, void *opaque)
{
	cr_assert_eq(data, opaque);
	released++;
}

static uint8_t block[4096];

static struct pktbuf_payload
payload_of(uint32_t bytes)
{
	return (struct pktbuf_payload){.data = block,
		.iova = rte_mem_virt2iova(block),
		.bytes = bytes,
		.sum = pktbuf_sum_bytes(block, bytes),
		.released = on_release,
		.opaque = block};
}

/* One result for the host, in the header's form; NULL when a pool is empty. */
static struct rte_mbuf *
result(const struct pktbuf_port *by, const struct weir_header *h,
	const struct pktbuf_payload *payload)
{
	struct pktbuf_endpoint there = host;
	struct pktbuf_header_template headers;
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;
	struct rte_mbuf *m;

	there.extended = h->extended;
	pktbuf_header_template_write(&headers, &identity, &there, h->src_id);
	pktbuf_shared_header_write(&shared[h->extended], h, payload);
	pktbuf_results_begin(&results, &pools, &by, 1);
	m = pktbuf_result_build(&results, shared, payload, &headers);
	pktbuf_results_end(&results);
	return m;
}

static struct rte_mbuf *
reply_to(const struct pktbuf_port *by, const struct weir_header *h, const void *payload,
	uint8_t bytes)
{
	return pktbuf_reply_build(&pools, &by, &identity, &host, h, payload, bytes);
}

static unsigned int
flatten(const struct rte_mbuf *m, uint8_t *out)
{
	unsigned int n = 0;

	for (; m != NULL; m = m->next) {
		memcpy(out + n, rte_pktmbuf_mtod(m, void *), m->data_len);
		n += m->data_len;
	}
	return n;
}

Test(pktbuf_eal, a_result_refers_to_its_payload, .timeout = 90)
{
	uint64_t random = rig_seed();
	uint8_t flat[8192];

	start(31, 31);
	for (unsigned int i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)rig_random(&random);
	for (unsigned int bytes = 1; bytes <= sizeof(block); bytes += 1 + bytes / 7) {
		for (unsigned int form = 0; form < 2; form++) {
			struct weir_header h = {.job_id = 1,
						   .block_id = bytes,
						   .grad_cnt = 1,
						   .extended = form == 1},
					   back;
			struct pktbuf_payload payload = payload_of(bytes);
			struct rte_mbuf *m;
			const uint8_t *p;
			unsigned int n;

			released = 0;
			m = result(&port, &h, &payload);
			cr_assert_not_null(m);
			cr_assert_eq(m->nb_segs, bytes > PKTBUF_COPY_BYTES ? 2 : 1);
			if (bytes > PKTBUF_COPY_BYTES)
				cr_assert_eq(rte_pktmbuf_mtod(m->next, void *), block, "copied");
			cr_assert_eq(m->pkt_len, 42 + weir_header_bytes(form == 1) + bytes);
			cr_assert_eq(flatten(m, flat), m->pkt_len);
			cr_assert(rig_checksums_hold(flat), "%u bytes", bytes);
			cr_assert(rig_parse(flat, m->pkt_len, &back, &p, &n));
			cr_assert(n == bytes && back.block_id == bytes &&
				memcmp(p, block, bytes) == 0);
			cr_assert_eq(
				memcmp(flat, host.mac, 6) | memcmp(flat + 6, identity.mac, 6), 0);
			cr_assert_eq(weir_get16(flat + 36), host.udp);
			rte_pktmbuf_free(m);
			cr_assert_eq(released, bytes > PKTBUF_COPY_BYTES ? 1 : 0);
		}
	}
	stop();
}

/* What a release told: one of these per destination. */
struct note {
	void *data;
	unsigned int calls, lcore;
};

static void
on_note(void *data, void *opaque)
{
	struct note *note = opaque;

	note->data = data;
	note->lcore = rte_lcore_id();
	note->calls++;
}

static int
free_all(void *packets)
{
	for (struct rte_mbuf **m = packets; *m != NULL; m++)
		rte_pktmbuf_free(*m);
	return 0;
}

Test(pktbuf_eal, a_release_names_its_destination_on_the_lcore_that_frees, .timeout = 90)
{
	const struct weir_header h = {.extended = true};
	struct rte_mbuf *mine[9] = {NULL}, *theirs[9] = {NULL};
	struct note notes[16] = {0};

	start(31, 31);
	for (unsigned int round = 1; round <= 3; round++) { /* mbufs come back and serve again */
		for (unsigned int i = 0; i < 16; i++) {
			struct pktbuf_payload payload = {.data = block + 64 * i,
				.bytes = 600 + i,
				.released = on_note,
				.opaque = &notes[i]};

			(i % 2 == 0 ? mine : theirs)[i / 2] = result(&port, &h, &payload);
		}
		for (unsigned int i = 0; i < 16; i++)
			cr_assert_eq(notes[i].calls, round - 1);
		cr_assert_eq(rte_eal_remote_launch(free_all, theirs, 1), 0);
		cr_assert_eq(rte_eal_wait_lcore(1), 0);
		for (unsigned int i = 0; i < 16; i++)
			cr_assert_eq(notes[i].calls, i % 2 == 0 ? round - 1 : round);
		free_all(mine);
		for (unsigned int i = 0; i < 16; i++) {
			cr_assert_eq(notes[i].calls, round);
			cr_assert_eq(notes[i].data, block + 64 * i);
			cr_assert_eq(notes[i].lcore, i % 2);
		}
	}
	stop();
}

static void
runs_out(unsigned int headers, unsigned int attaches)
{
	const struct weir_header h = {.extended = true};
	struct pktbuf_payload payload = payload_of(600);
	struct rte_mbuf *m[8] = {NULL}, *more;

	start(headers, attaches);
	for (unsigned int i = 0; i < 7; i++)
		cr_assert_not_null(m[i] = attaches == 7 ? result(&port, &h, &payload)
							: reply_to(&port, &h, NULL, 0));
	cr_assert_null(result(&port, &h, &payload));
	cr_assert_eq(released, 0);
	cr_assert_eq(rte_mempool_avail_count(pools.attaches), attaches == 7 ? 0 : attaches);
	more = reply_to(&port, &h, NULL, 0);
	cr_assert_eq(more != NULL, headers > 7);
	rte_pktmbuf_free(more);
	free_all(m);
	stop();
}

CASE(pktbuf_eal, no_attach_is_an_error_and_leaks_nothing, runs_out(15, 7))
CASE(pktbuf_eal, no_header_is_an_error_and_leaks_nothing, runs_out(7, 15))

Test(pktbuf_eal, a_result_has_these_bytes, .timeout = 90)
{
	static const uint8_t right[] = {/* Ethernet: to the host, from the switch, IPv4 */
		0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0xfe, 0x08, 0x00,
		/* IPv4: 43 bytes, don't fragment, 64 hops, UDP */
		0x45, 0x00, 0x00, 0x2b, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x25, 0x2a, 0x0a, 0x4d,
		0x00, 0xfe, 0x0a, 0x4d, 0x00, 0x01,
		/* UDP: from 12000 to 40000, 23 bytes */
		0x2e, 0xe0, 0x9c, 0x40, 0x00, 0x17, 0x7b, 0x33,
		/* The base form, and the payload */
		0x01, 0x01, 0x02, 0x03, 0x04, 0x18, 0x00, 0x07, 0xff, 0xfe, 0x00, 0x03, 0xde, 0xad,
		0xbe};
	const struct weir_header h = {.job_id = 1,
		.block_id = 0x01020304,
		.status = WEIR_STATUS_PARTIAL,
		.final = true,
		.src_cnt = 7,
		.gen_id = 0xfffe,
		.grad_cnt = 3};
	struct pktbuf_payload payload;
	struct rte_mbuf *m;
	uint8_t flat[128];

	start(7, 7);
	memcpy(block, right + 54, 3);
	payload = payload_of(3);
	m = result(&port, &h, &payload);
	cr_assert_eq(flatten(m, flat), sizeof(right));
	cr_assert_eq(memcmp(flat, right, sizeof(right)), 0);
	rte_pktmbuf_free(m);
	m = reply_to(&port, &h, block, 3);
	cr_assert_eq(flatten(m, flat), sizeof(right));
	cr_assert_eq(memcmp(flat, right, sizeof(right)), 0);
	rte_pktmbuf_free(m);
	stop();
}

Test(pktbuf_eal, the_largest_payload_fits, .timeout = 90)
{
	static uint8_t large[65000], flat[66000];
	const struct weir_header h = {.extended = true};
	struct note note = {0};
	struct pktbuf_payload payload = {
		.data = large, .bytes = sizeof(large), .released = on_note, .opaque = &note};
	struct rte_mbuf *m;

	start(7, 7);
	memset(large, 0xff, sizeof(large)); /* all ones carry most */
	payload.sum = pktbuf_sum_bytes(large, sizeof(large));
	m = result(&port, &h, &payload);
	cr_assert_eq(m->pkt_len, 42 + 16 + sizeof(large));
	cr_assert_eq(flatten(m, flat), m->pkt_len);
	cr_assert(rig_checksums_hold(flat));
	rte_pktmbuf_free(m);
	cr_assert_eq(note.calls, 1);
	stop();
}

/* A result or a reply of the first bytes of the block, flat. Returns its ol_flags. */
static uint64_t
built(const struct pktbuf_port *by, const struct weir_header *h, unsigned int bytes, bool reply,
	uint8_t *flat)
{
	struct pktbuf_payload payload = payload_of(bytes);
	struct rte_mbuf *m =
		reply ? reply_to(by, h, block, (uint8_t)bytes) : result(by, h, &payload);
	uint64_t flags = m->ol_flags;

	if ((flags & RTE_MBUF_F_TX_UDP_CKSUM) != 0)
		cr_assert(m->l2_len == 14 && m->l3_len == 20);
	flatten(m, flat);
	rte_pktmbuf_free(m);
	return flags;
}

Test(pktbuf_eal, a_sum_of_zero_is_sent_as_all_ones, .timeout = 90)
{
	const struct weir_header h = {.extended = true};
	uint8_t flat[2048];

	start(7, 7);
	for (unsigned int reply = 0; reply < 2; reply++) {
		memset(block, 0x5a, 64);
		weir_put16(block + 38, 0);
		built(&port, &h, 40, reply, flat);
		weir_put16(block + 38, weir_get16(flat + 40)); /* now the sum is all ones */
		built(&port, &h, 40, reply, flat);
		cr_assert_eq(weir_get16(flat + 40), 0xffff);
	}
	stop();
}

/* RFC 1071 over n bytes and what was summed before; big-endian words, folded. */
static uint32_t
plain_sum(uint32_t sum, const uint8_t *p, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

Test(pktbuf_eal, every_form_size_and_mode_of_checksums, .timeout = 90)
{
	const uint64_t all = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_IP_CKSUM |
		RTE_MBUF_F_TX_L4_MASK;
	const uint64_t wanted =
		RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
	uint64_t random = rig_seed();
	struct pktbuf_port software, offload, off;
	uint8_t flat[2048];

	start(7, 7);
	software = offload = off = port;
	software.tx_checksum = PKTBUF_CHECKSUM_SOFTWARE;
	offload.tx_checksum = PKTBUF_CHECKSUM_OFFLOAD;
	off.tx_checksum = PKTBUF_CHECKSUM_OFF;
	for (unsigned int turn = 0; turn < 66 * 4; turn++) {
		bool reply = turn & 1;
		/* Up to 64 that are copied; results refer to more. */
		unsigned int bytes = turn / 4 <= 64 ? turn / 4 : reply ? 64 : 600;
		struct weir_header h = {.block_id = turn, .extended = turn >> 1 & 1}, back;
		unsigned int udp = 8 + weir_header_bytes(h.extended) + bytes, n;
		const uint8_t *p;

		for (unsigned int i = 0; i < 600; i++)
			block[i] = (uint8_t)rig_random(&random);
		cr_assert_eq(built(&software, &h, bytes, reply, flat) & all, 0);
		cr_assert(rig_checksums_hold(flat));
		cr_assert(rig_parse(flat, 34 + udp, &back, &p, &n));
		cr_assert(n == bytes && back.block_id == turn && memcmp(p, block, n) == 0);

		cr_assert_eq(built(&off, &h, bytes, reply, flat) & all, 0);
		cr_assert_eq(weir_get16(flat + 40), 0, "UDP: not computed");
		cr_assert_eq(plain_sum(0, flat + 14, 20), 0xffff, "IPv4: in software");

		/* A device sums what is there, the pseudo-header's sum in UDP's field included. */
		cr_assert_eq(built(&offload, &h, bytes, reply, flat) & all, wanted);
		cr_assert_eq(weir_get16(flat + 24), 0);
		cr_assert_eq(weir_get16(flat + 40), plain_sum(17 + udp, flat + 26, 8));
		weir_put16(flat + 24, (uint16_t)~plain_sum(0, flat + 14, 20));
		weir_put16(flat + 40, (uint16_t)~plain_sum(0, flat + 34, udp));
		cr_assert(rig_checksums_hold(flat));
	}
	stop();
}
