/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * docs/protocol.md against pktbuf/wire/wire.h: the tables of codes are equal, and each packet of the
 * page, given as fields and as bytes, decodes to its fields and is built again from them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/model/doc_page.h"
#include "tests/model/page_packet.h"

#define PAGE        "docs/protocol.md"
#define ETHER_BYTES 14

static void
compare_codes(const char *heading, const struct page_name *names)
{
	char *page = doc_read(PAGE);
	struct doc_table table;
	unsigned int n = 0;

	cr_assert_not_null(page);
	cr_assert_eq(doc_table(page, heading, &table), 0);
	for (; names[n].name != NULL; n++) {
		char code[16];

		snprintf(code, sizeof(code), "%u", names[n].code);
		cr_assert_lt(
			n, table.rows, "%s: \"%s\" is not in the page", heading, names[n].name);
		cr_assert_str_eq(table.cell[n][0], code, "%s: row %u", heading, n);
		cr_assert_str_eq(table.cell[n][1], names[n].name, "%s: row %u", heading, n);
		if (names[n].more != NULL)
			cr_assert_str_eq(table.cell[n][2], names[n].more, "%s: row %u", heading, n);
	}
	cr_assert_eq(table.rows, n, "%s: \"%s\" is not in wire.h", heading, table.cell[n][1]);
	doc_table_free(&table);
	free(page);
}

Test(protocol_doc, codes)
{
	compare_codes("### Status", page_statuses);
	compare_codes("### Collective", page_collectives);
	compare_codes("### Type", page_dtypes);
	compare_codes("### Operation", page_ops);
	compare_codes("### Field", page_fields);
	compare_codes("### End of a generation", page_reasons);
}

static unsigned int
build(const struct page_packet *p, uint8_t *to)
{
	uint8_t payload[WEIR_EXT_BYTES + PAGE_FRAME_MAX];
	unsigned int bytes = weir_header_write(&p->header, payload);

	memcpy(payload + bytes, p->payload, p->payload_bytes);
	return page_packet_frame(p, payload, bytes + p->payload_bytes, to);
}

/* The bytes stand for themselves: lengths and checksums. */
static void
check_frame(const struct page_packet *p)
{
	const uint8_t *ip = p->bytes + ETHER_BYTES, *udp = ip + 20;
	unsigned int udp_bytes = p->length - ETHER_BYTES - 20;

	cr_assert_eq(weir_get16(p->bytes + 12), 0x0800, "line %u: EtherType", p->line);
	cr_assert_eq(ip[0], 0x45, "line %u: version or IPv4 header length", p->line);
	cr_assert_eq(ip[9], 17, "line %u: protocol", p->line);
	cr_assert_eq(weir_get16(ip + 2), 20 + udp_bytes, "line %u: IPv4 length", p->line);
	cr_assert_eq(page_sum(ip, 20, 0), 0xffff, "line %u: IPv4 checksum", p->line);
	cr_assert_eq(weir_get16(udp + 4), udp_bytes, "line %u: UDP length", p->line);
	cr_assert_eq(page_udp_sum(ip, udp_bytes), 0xffff, "line %u: UDP checksum", p->line);
}

static uint16_t
own_port(const struct page_packet *p)
{
	return p->header.extended ? WEIR_PORT_EXT : WEIR_PORT_BASE;
}

/* To the form's own port, or to that of the block in the job of the page, of four. */
static bool
to_switch(const struct page_packet *p)
{
	return p->udp_from != own_port(p) &&
		(p->udp_to == own_port(p) ||
			p->udp_to == weir_block_port(own_port(p), 4, 1, 64, p->header.block_id));
}

/* The lengths that the page promises. */
static void
check_lengths(const struct page_packet *p)
{
	const struct weir_header *h = &p->header;
	unsigned int bytes = h->grad_cnt * weir_dtype_bytes(h->dtype);

	if (h->degraded)
		bytes += WEIR_BITMAP_BYTES;
	if (h->status == WEIR_STATUS_MISMATCH)
		bytes = sizeof(struct weir_mismatch);
	if (h->status == WEIR_STATUS_DISPLACED)
		bytes = sizeof(struct weir_displaced);
	if (h->collective == WEIR_COLLECTIVE_JOIN && h->status == WEIR_STATUS_OK && !to_switch(p))
		bytes = sizeof(struct weir_join_reply);
	/* Some have a part of it, as the switch is asked: tests/eal/test_protocol_frames.c. */
	if (h->collective >= WEIR_COLLECTIVE_REDUCE && h->collective <= WEIR_COLLECTIVE_ALLTOALL &&
		p->payload_bytes < bytes)
		bytes = p->payload_bytes;
	cr_assert_eq(p->payload_bytes, bytes, "line %u: payload of %u bytes, not %u", p->line,
		p->payload_bytes, bytes);
	if (to_switch(p) && (h->flags & WEIR_FLAG_UP) != 0)
		cr_assert_eq(p->udp_from, WEIR_PORT_UP, "line %u", p->line);
	else if (to_switch(p))
		cr_assert(h->status == 0 && !h->degraded && h->src_cnt == 0, "line %u", p->line);
	else
		cr_assert_eq(p->udp_from, own_port(p), "line %u", p->line);
}

/* The header decodes to what the text says. */
static void
check_header(const struct page_packet *p)
{
	const uint8_t *at = p->bytes + PAGE_HEADERS;
	const struct weir_header *says = &p->header;
	struct weir_header h = {.extended = says->extended, .dtype = PAGE_DTYPE};
	unsigned int bytes = weir_header_bytes(says->extended);

	cr_assert_geq(p->length, PAGE_HEADERS + bytes);
	weir_header_read(&h, at);
#define SAME(field)                                                                                \
	cr_assert_eq(h.field, says->field, "line %u: " #field " is %u, the text says %u", p->line, \
		(unsigned int)h.field, (unsigned int)says->field)
	SAME(job_id);
	SAME(block_id);
	SAME(gen_id);
	SAME(src_id);
	SAME(src_cnt);
	SAME(grad_cnt);
	SAME(final);
	SAME(degraded);
	SAME(status);
	SAME(collective);
	SAME(op);
	SAME(dtype);
	SAME(flags);
	SAME(root);
#undef SAME
	cr_assert_eq(at[5] >> WEIR_AGE_SHIFT, says->status, "line %u: age_op", p->line);
	cr_assert_eq(p->length - PAGE_HEADERS - bytes, p->payload_bytes, "line %u", p->line);
	cr_assert_arr_eq(at + bytes, p->payload, p->payload_bytes, "line %u: payload", p->line);
}

Test(protocol_doc, packets)
{
	char *page = doc_read(PAGE);
	const char *at = page;
	unsigned int seen[2][16] = {0}, contributions[2] = {0}, joins = 0, barriers = 0,
		     acknowledgements = 0, probes = 0;
	struct page_packet p;

	cr_assert_not_null(page);
	while (page_packet_next(page, &at, &p)) {
		uint8_t again[PAGE_FRAME_MAX * 2];

		check_frame(&p);
		check_header(&p);
		check_lengths(&p);
		cr_assert_eq(build(&p, again), p.length, "line %u: length", p.line);
		cr_assert_arr_eq(again, p.bytes, p.length, "line %u: built again", p.line);
		if (to_switch(&p))
			contributions[p.header.extended]++;
		else
			seen[p.header.extended][p.header.status]++;
		joins += p.header.collective == WEIR_COLLECTIVE_JOIN;
		barriers += p.header.collective == WEIR_COLLECTIVE_BARRIER;
		acknowledgements += p.header.collective == WEIR_COLLECTIVE_ACKNOWLEDGE;
		probes += p.header.collective == WEIR_COLLECTIVE_PROBE;
	}
	/* Every kind is there. */
	for (unsigned int s = 0; page_statuses[s].name != NULL; s++)
		cr_assert_gt(seen[0][s] + seen[1][s], 0, "no packet with status %s",
			page_statuses[s].name);
	cr_assert(contributions[0] >= 2 && contributions[1] >= 3);
	cr_assert(seen[0][WEIR_STATUS_OK] >= 1 && seen[0][WEIR_STATUS_PARTIAL] >= 1);
	cr_assert(joins >= 4 && barriers >= 2 && acknowledgements >= 1 && probes >= 2);
	free(page);
}

/* The UDP ports of the page are the defaults of wire.h. */
Test(protocol_doc, ports)
{
	char *page = doc_read(PAGE), text[64];

	cr_assert_not_null(page);
	snprintf(text, sizeof(text), "Base form, %u bytes, to UDP port %u", WEIR_BASE_BYTES,
		WEIR_PORT_BASE);
	cr_assert_not_null(strstr(page, text));
	snprintf(text, sizeof(text), "then %u bytes, to UDP port %u",
		WEIR_EXT_BYTES - WEIR_BASE_BYTES, WEIR_PORT_EXT);
	cr_assert_not_null(strstr(page, text));
	free(page);
}
