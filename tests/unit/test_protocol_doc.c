/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * docs/protocol.md against pktbuf/wire.h: the tables of codes are equal, and each packet of the
 * page, given as fields and as bytes, decodes to its fields and is built again from them.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "pktbuf/wire.h"
#include "tests/model/doc_page.h"

#define PAGE        "docs/protocol.md"
#define ETHER_BYTES 14
#define L2_L4_BYTES (ETHER_BYTES + 20 + 8)
#define FRAME_MAX   512
#define JOB_DTYPE   WEIR_DTYPE_FP32 /* what the base form means in the page's job */

struct name {
	unsigned int code;
	const char *name, *more; /* more: a third column, NULL for none */
};

static const struct name statuses[] = {
#define X(id, code, text, help) {code, text, help},
	WEIR_STATUS_LIST(X)
#undef X
		{0, NULL, NULL}};
static const struct name collectives[] = {
#define X(id, code, text) {code, text, NULL},
	WEIR_COLLECTIVE_LIST(X)
#undef X
		{0, NULL, NULL}};
static const struct name dtypes[] = {
#define X(id, code, text, bytes) {code, text, #bytes},
	WEIR_DTYPE_LIST(X)
#undef X
		{0, NULL, NULL}};
static const struct name ops[] = {
#define X(id, code, text) {code, text, NULL},
	WEIR_OP_LIST(X)
#undef X
		{0, NULL, NULL}};
static const struct name fields[] = {
#define X(id, code, text) {code, text, NULL},
	WEIR_FIELD_LIST(X)
#undef X
		{0, NULL, NULL}};

static void
compare_codes(const char *heading, const struct name *names)
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
	compare_codes("### Status", statuses);
	compare_codes("### Collective", collectives);
	compare_codes("### Type", dtypes);
	compare_codes("### Operation", ops);
	compare_codes("### Field", fields);
}

/* A packet of the page. */
struct packet {
	unsigned int line; /* of its first byte in the page, about */
	uint8_t mac_from[6], mac_to[6]; /* the text */
	uint32_t ip_from, ip_to;
	uint16_t udp_from, udp_to;
	struct weir_header header;
	uint8_t payload[FRAME_MAX];
	unsigned int payload_bytes;
	uint8_t bytes[FRAME_MAX]; /* the dump */
	unsigned int length;
};

static unsigned int
code_of(const struct name *names, const char *text)
{
	for (; names->name != NULL; names++)
		if (strcmp(names->name, text) == 0)
			return names->code;
	cr_assert_fail("no code for \"%s\"", text);
	return 0;
}

static unsigned int
number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	cr_assert(*text != 0 && *end == 0, "\"%s\" is not a number", text);
	return (unsigned int)n;
}

/* "name=value ...", the value of a name, or NULL. The answer is valid until the next call. */
static const char *
value(const char *text, const char *name)
{
	static char copy[64];
	size_t length = strlen(name);

	for (const char *word = text; *word != 0;) {
		size_t bytes = strcspn(word, " ");

		if (bytes > length && strncmp(word, name, length) == 0 && word[length] == '=') {
			snprintf(copy, sizeof(copy), "%.*s", (int)(bytes - length - 1),
				word + length + 1);
			return copy;
		}
		word += bytes + strspn(word + bytes, " ");
	}
	return NULL;
}

static unsigned int
value_number(const char *text, const char *name)
{
	const char *v = value(text, name);

	return v == NULL ? 0 : number(v);
}

static unsigned int
value_code(const char *text, const char *name, const struct name *names)
{
	const char *v = value(text, name);

	return v == NULL ? 0 : code_of(names, v);
}

/* Every word of a header line is a field that we know: else a slip of the pen would be a 0. */
static void
known_words(const char *text)
{
	static const char *const known[] = {"job_id", "block_id", "gen_id", "src_id", "src_cnt",
		"grad_cnt", "final", "degraded", "status", "collective", "op", "dtype", "flags",
		"root"};

	for (const char *word = text; *word != 0;) {
		size_t bytes = strcspn(word, " "), name = strcspn(word, "=");
		bool found = false;

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found |= strlen(known[i]) == name && strncmp(known[i], word, name) == 0;
		cr_assert(found, "unknown field \"%.*s\"", (int)bytes, word);
		word += bytes + strspn(word + bytes, " ");
	}
}

static void
read_header(struct packet *p, const char *text, bool extended)
{
	known_words(text);
	p->header = (struct weir_header){
		.extended = extended,
		.job_id = (uint8_t)value_number(text, "job_id"),
		.block_id = value_number(text, "block_id"),
		.gen_id = (uint16_t)value_number(text, "gen_id"),
		.src_id = (uint8_t)value_number(text, "src_id"),
		.src_cnt = (uint8_t)value_number(text, "src_cnt"),
		.grad_cnt = (uint16_t)value_number(text, "grad_cnt"),
		.final = value_number(text, "final") != 0,
		.degraded = value_number(text, "degraded") != 0,
		.status = (uint8_t)value_code(text, "status", statuses),
		.collective = (uint8_t)value_code(text, "collective", collectives),
		.op = (uint8_t)value_code(text, "op", ops),
		.dtype = (uint8_t)value_code(text, "dtype", dtypes),
		.flags = (uint8_t)value_number(text, "flags"),
		.root = (uint8_t)value_number(text, "root"),
	};
	if (!extended) {
		p->header.dtype = JOB_DTYPE;
		cr_assert_null(strstr(text, "collective="), "not a field of the base form");
		cr_assert_null(strstr(text, "dtype="), "not a field of the base form");
	}
}

static void
append(struct packet *p, const void *bytes, size_t n)
{
	cr_assert_leq(p->payload_bytes + n, sizeof(p->payload));
	memcpy(p->payload + p->payload_bytes, bytes, n);
	p->payload_bytes += (unsigned int)n;
}

/* "fp32 1 2.5": elements, little-endian on any machine. */
static void
read_elements(struct packet *p, char *text)
{
	char *save, *word = strtok_r(text, " ", &save);
	unsigned int dtype = code_of(dtypes, word), n = 0;

	cr_assert_eq(dtype, p->header.dtype, "the payload's type is not the header's");
	while ((word = strtok_r(NULL, " ", &save)) != NULL) {
		uint32_t bits = (uint32_t)strtol(word, NULL, 0);
		float f = strtof(word, NULL);

		cr_assert(dtype == WEIR_DTYPE_FP32 || dtype == WEIR_DTYPE_INT32);
		if (dtype == WEIR_DTYPE_FP32)
			memcpy(&bits, &f, sizeof(bits));
		append(p,
			(uint8_t[]){(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
				(uint8_t)(bits >> 24)},
			4);
		n++;
	}
	/* Of the others a packet has a part. */
	if (p->header.collective == WEIR_COLLECTIVE_ALLREDUCE)
		cr_assert_eq(n, p->header.grad_cnt, "grad_cnt is not the number of elements");
}

static void
read_bitmap(struct packet *p, char *text)
{
	uint8_t bitmap[WEIR_BITMAP_BYTES] = {0};
	char *save, *word = strtok_r(text, " ", &save);

	for (; word != NULL; word = strtok_r(NULL, " ", &save)) {
		unsigned int source = number(word);

		cr_assert_lt(source, WEIR_SOURCES_MAX);
		bitmap[source / 8] |= (uint8_t)(1u << source % 8);
	}
	append(p, bitmap, sizeof(bitmap));
}

static void
read_join(struct packet *p, const char *text)
{
	struct weir_join_reply reply = {
		.dtype_op = (uint8_t)(value_code(text, "dtype", dtypes) << 4 |
			value_code(text, "op", ops)),
		.flags = (uint8_t)value_number(text, "flags"),
	};

	weir_put16(reply.window, (uint16_t)value_number(text, "window"));
	weir_put16(reply.elements, (uint16_t)value_number(text, "elements"));
	weir_put16(reply.sources, (uint16_t)value_number(text, "sources"));
	weir_put32(reply.timeout_ms, value_number(text, "timeout_ms"));
	cr_assert_eq(inet_pton(AF_INET, value(text, "group"), reply.group), 1);
	append(p, &reply, sizeof(reply));
}

static void
read_mismatch(struct packet *p, const char *text)
{
	struct weir_mismatch mismatch = {
		.field = (uint8_t)value_code(text, "field", fields),
		.source = (uint8_t)value_number(text, "source"),
		.other = (uint8_t)value_number(text, "other"),
	};

	weir_put16(mismatch.block, (uint16_t)value_number(text, "block"));
	weir_put16(mismatch.offered, (uint16_t)value_number(text, "offered"));
	append(p, &mismatch, sizeof(mismatch));
}

static void
read_mac(const char *text, uint8_t mac[6])
{
	cr_assert_eq(sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2],
			     &mac[3], &mac[4], &mac[5]),
		6);
}

static uint32_t
read_ip(const char *text)
{
	struct in_addr ip;

	cr_assert_eq(inet_pton(AF_INET, text, &ip), 1, "%s", text);
	return ntohl(ip.s_addr);
}

/* "key: from > to", or any other "key: text". */
static void
read_line(struct packet *p, char *line)
{
	char *text = strstr(line, ": "), *to;

	cr_assert_not_null(text, "\"%s\" has no key", line);
	*text = 0;
	text += 2;
	to = strstr(text, " > ");
	if (to != NULL) {
		*to = 0;
		to += 3;
	}
	if (strcmp(line, "ethernet") == 0 && to != NULL) {
		read_mac(text, p->mac_from);
		read_mac(to, p->mac_to);
	} else if (strcmp(line, "ipv4") == 0 && to != NULL) {
		p->ip_from = read_ip(text);
		p->ip_to = read_ip(to);
	} else if (strcmp(line, "udp") == 0 && to != NULL) {
		p->udp_from = (uint16_t)number(text);
		p->udp_to = (uint16_t)number(to);
	} else if (strcmp(line, "base") == 0 || strcmp(line, "extended") == 0) {
		read_header(p, text, line[0] == 'e');
	} else if (strcmp(line, "payload") == 0) {
		read_elements(p, text);
	} else if (strcmp(line, "bitmap") == 0) {
		read_bitmap(p, text);
	} else if (strcmp(line, "join") == 0) {
		read_join(p, text);
	} else {
		cr_assert_str_eq(line, "mismatch", "unknown key");
		read_mismatch(p, text);
	}
}

/* "0010  00 34 ...": the offset, then at most 16 bytes. */
static void
read_dump(struct packet *p, const char *line)
{
	unsigned int offset, byte;
	int used, row = 0;

	cr_assert_eq(sscanf(line, "%4x%n", &offset, &used), 1, "\"%s\"", line);
	cr_assert_eq(offset, p->length, "the dump jumps to %04x", offset);
	for (line += used; sscanf(line, " %2x%n", &byte, &used) == 1; line += used) {
		cr_assert_lt(p->length, FRAME_MAX);
		p->bytes[p->length++] = (uint8_t)byte;
		row++;
	}
	cr_assert(*line == 0 && row <= 16, "at %04x", offset);
}

/* The next packet of the page; false: no more. */
static bool
next_packet(const char *page, const char **at, struct packet *p)
{
	char *block = doc_block(at, "frame"), *save, *line;
	bool dump = false;

	memset(p, 0, sizeof(*p));
	if (block == NULL)
		return false;
	p->line = doc_line(page, *at);
	for (line = block; line != NULL && *line != 0; line = save) {
		save = strchr(line, '\n');
		if (save != NULL)
			*save++ = 0;
		if (*line == 0)
			dump = true;
		else if (dump)
			read_dump(p, line);
		else
			read_line(p, line);
	}
	free(block);
	cr_assert_gt(p->length, L2_L4_BYTES, "line %u: no bytes", p->line);
	return true;
}

/* Ones-complement sum over 16-bit words, folded; a last odd byte counts as the upper one. */
static uint32_t
sum(const uint8_t *bytes, size_t n, uint32_t before)
{
	for (size_t i = 0; i < n; i++)
		before += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
	while (before > 0xffff)
		before = (before & 0xffff) + (before >> 16);
	return before;
}

/* Of the pseudo header and the datagram. */
static uint32_t
udp_sum(const uint8_t *ip, size_t udp_bytes)
{
	return sum(ip + 20, udp_bytes, sum(ip + 12, 8, 17 + (uint32_t)udp_bytes));
}

static size_t
build(const struct packet *p, uint8_t *to)
{
	uint8_t *ip = to + ETHER_BYTES, *udp = ip + 20, *header = udp + 8;
	unsigned int bytes = 8 + weir_header_write(&p->header, header);
	uint16_t check;

	memcpy(to, p->mac_to, 6);
	memcpy(to + 6, p->mac_from, 6);
	weir_put16(to + 12, 0x0800);
	memcpy(udp + bytes, p->payload, p->payload_bytes);
	bytes += p->payload_bytes;
	memset(ip, 0, 20 + 8);
	ip[0] = 0x45;
	weir_put16(ip + 2, (uint16_t)(20 + bytes));
	weir_put16(ip + 6, 0x4000);
	ip[8] = 64;
	ip[9] = 17;
	weir_put32(ip + 12, p->ip_from);
	weir_put32(ip + 16, p->ip_to);
	weir_put16(ip + 10, (uint16_t)~sum(ip, 20, 0));
	weir_put16(udp, p->udp_from);
	weir_put16(udp + 2, p->udp_to);
	weir_put16(udp + 4, (uint16_t)bytes);
	check = (uint16_t)~udp_sum(ip, bytes);
	weir_put16(udp + 6, check == 0 ? 0xffff : check);
	return ETHER_BYTES + 20 + bytes;
}

/* The bytes stand for themselves: lengths and checksums. */
static void
check_frame(const struct packet *p)
{
	const uint8_t *ip = p->bytes + ETHER_BYTES, *udp = ip + 20;
	unsigned int udp_bytes = p->length - ETHER_BYTES - 20;

	cr_assert_eq(weir_get16(p->bytes + 12), 0x0800, "line %u: EtherType", p->line);
	cr_assert_eq(ip[0], 0x45, "line %u: version or IPv4 header length", p->line);
	cr_assert_eq(ip[9], 17, "line %u: protocol", p->line);
	cr_assert_eq(weir_get16(ip + 2), 20 + udp_bytes, "line %u: IPv4 length", p->line);
	cr_assert_eq(sum(ip, 20, 0), 0xffff, "line %u: IPv4 checksum", p->line);
	cr_assert_eq(weir_get16(udp + 4), udp_bytes, "line %u: UDP length", p->line);
	cr_assert_eq(udp_sum(ip, udp_bytes), 0xffff, "line %u: UDP checksum", p->line);
}

static bool
to_switch(const struct packet *p)
{
	return p->udp_to == (p->header.extended ? WEIR_PORT_EXT : WEIR_PORT_BASE) &&
		p->udp_from != p->udp_to;
}

/* The lengths that the page promises. */
static void
check_lengths(const struct packet *p)
{
	const struct weir_header *h = &p->header;
	unsigned int bytes = h->grad_cnt * weir_dtype_bytes(h->dtype);

	if (h->degraded)
		bytes += WEIR_BITMAP_BYTES;
	if (h->status == WEIR_STATUS_MISMATCH)
		bytes = sizeof(struct weir_mismatch);
	if (h->collective == WEIR_COLLECTIVE_JOIN && h->status == WEIR_STATUS_OK && !to_switch(p))
		bytes = sizeof(struct weir_join_reply);
	/* Some have a part of it, as the switch is asked: tests/eal/test_protocol_frames.c. */
	if (h->collective >= WEIR_COLLECTIVE_REDUCE && h->collective <= WEIR_COLLECTIVE_ALLTOALL &&
		p->payload_bytes < bytes)
		bytes = p->payload_bytes;
	cr_assert_eq(p->payload_bytes, bytes, "line %u: payload of %u bytes, not %u", p->line,
		p->payload_bytes, bytes);
	if (to_switch(p))
		cr_assert(h->status == 0 && !h->degraded && h->src_cnt == 0, "line %u", p->line);
	else
		cr_assert_eq(p->udp_from, h->extended ? WEIR_PORT_EXT : WEIR_PORT_BASE, "line %u",
			p->line);
}

/* The header decodes to what the text says. */
static void
check_header(const struct packet *p)
{
	const uint8_t *at = p->bytes + L2_L4_BYTES;
	const struct weir_header *says = &p->header;
	struct weir_header h = {.extended = says->extended, .dtype = JOB_DTYPE};
	unsigned int bytes = weir_header_bytes(says->extended);

	cr_assert_geq(p->length, L2_L4_BYTES + bytes);
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
	cr_assert_eq(p->length - L2_L4_BYTES - bytes, p->payload_bytes, "line %u", p->line);
	cr_assert_arr_eq(at + bytes, p->payload, p->payload_bytes, "line %u: payload", p->line);
}

Test(protocol_doc, packets)
{
	char *page = doc_read(PAGE);
	const char *at = page;
	unsigned int seen[2][16] = {0}, contributions[2] = {0}, joins = 0, barriers = 0,
		     acknowledgements = 0;
	struct packet p;

	cr_assert_not_null(page);
	while (next_packet(page, &at, &p)) {
		uint8_t again[FRAME_MAX * 2];

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
	}
	/* Every kind is there. */
	for (unsigned int s = 0; statuses[s].name != NULL; s++)
		cr_assert_gt(
			seen[0][s] + seen[1][s], 0, "no packet with status %s", statuses[s].name);
	cr_assert(contributions[0] >= 2 && contributions[1] >= 3);
	cr_assert(seen[0][WEIR_STATUS_OK] >= 1 && seen[0][WEIR_STATUS_PARTIAL] >= 1);
	cr_assert(joins >= 4 && barriers >= 2 && acknowledgements >= 1);
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
