/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/page_packet.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/model/doc_page.h"

const struct page_name page_statuses[] = {
#define X(id, code, text, help) {code, text, help},
	WEIR_STATUS_LIST(X)
#undef X
		{0, NULL, NULL}};
const struct page_name page_collectives[] = {
#define X(id, code, text, ...) {code, text, NULL},
	WEIR_COLLECTIVE_LIST(X)
#undef X
		{0, NULL, NULL}};
const struct page_name page_dtypes[] = {
#define X(id, code, text, bytes, ...) {code, text, #bytes},
	WEIR_DTYPE_LIST(X)
#undef X
		{0, NULL, NULL}};
const struct page_name page_ops[] = {
#define X(id, code, text, ...) {code, text, NULL},
	WEIR_OP_LIST(X)
#undef X
		{0, NULL, NULL}};
const struct page_name page_fields[] = {
#define X(id, code, text) {code, text, NULL},
	WEIR_FIELD_LIST(X)
#undef X
		{0, NULL, NULL}};
const struct page_name page_reasons[] = {
#define X(id, code, text) {code, text, NULL},
	WEIR_OVER_LIST(X)
#undef X
		{0, NULL, NULL}};

static unsigned int
code_of(const struct page_name *names, const char *text)
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
value_code(const char *text, const char *name, const struct page_name *names)
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
read_header(struct page_packet *p, const char *text, bool extended)
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
		.status = (uint8_t)value_code(text, "status", page_statuses),
		.collective = (uint8_t)value_code(text, "collective", page_collectives),
		.op = (uint8_t)value_code(text, "op", page_ops),
		.dtype = (uint8_t)value_code(text, "dtype", page_dtypes),
		.flags = (uint8_t)value_number(text, "flags"),
		.root = (uint8_t)value_number(text, "root"),
	};
	if (!extended) {
		p->header.dtype = PAGE_DTYPE;
		cr_assert_null(strstr(text, "collective="), "not a field of the base form");
		cr_assert_null(strstr(text, "dtype="), "not a field of the base form");
	}
}

static void
append(struct page_packet *p, const void *bytes, size_t n)
{
	cr_assert_leq(p->payload_bytes + n, sizeof(p->payload));
	memcpy(p->payload + p->payload_bytes, bytes, n);
	p->payload_bytes += (unsigned int)n;
}

/* "fp32 1 2.5": elements, little-endian on any machine. */
static void
read_elements(struct page_packet *p, char *text)
{
	char *save, *word = strtok_r(text, " ", &save);
	unsigned int dtype = code_of(page_dtypes, word), n = 0;

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
read_bitmap(struct page_packet *p, char *text)
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
read_join(struct page_packet *p, const char *text)
{
	struct weir_join_reply reply = {
		.dtype_op = (uint8_t)(value_code(text, "dtype", page_dtypes) << 4 |
			value_code(text, "op", page_ops)),
		.flags = (uint8_t)(value_number(text, "flags") |
			value_number(text, "more_ports") << WEIR_JOIN_PORTS_SHIFT),
	};

	weir_put16(reply.window, (uint16_t)value_number(text, "window"));
	weir_put16(reply.elements, (uint16_t)value_number(text, "elements"));
	weir_put16(reply.sources, (uint16_t)value_number(text, "sources"));
	weir_put32(reply.timeout_ms, value_number(text, "timeout_ms"));
	cr_assert_eq(inet_pton(AF_INET, value(text, "group"), reply.group), 1);
	append(p, &reply, sizeof(reply));
}

static void
read_mismatch(struct page_packet *p, const char *text)
{
	struct weir_mismatch mismatch = {
		.field = (uint8_t)value_code(text, "field", page_fields),
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

static void
read_displaced(struct page_packet *p, const char *text)
{
	struct weir_displaced displaced;

	cr_assert_eq(inet_pton(AF_INET, value(text, "address"), displaced.address), 1);
	weir_put16(displaced.port, (uint16_t)value_number(text, "port"));
	read_mac(value(text, "mac"), displaced.mac);
	append(p, &displaced, sizeof(displaced));
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
read_line(struct page_packet *p, char *line)
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
	} else if (strcmp(line, "displaced") == 0) {
		read_displaced(p, text);
	} else {
		cr_assert_str_eq(line, "mismatch", "unknown key");
		read_mismatch(p, text);
	}
}

uint32_t
page_sum(const uint8_t *bytes, size_t n, uint32_t before)
{
	for (size_t i = 0; i < n; i++)
		before += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
	while (before > 0xffff)
		before = (before & 0xffff) + (before >> 16);
	return before;
}

uint32_t
page_udp_sum(const uint8_t *ip, size_t udp_bytes)
{
	return page_sum(ip + 20, udp_bytes, page_sum(ip + 12, 8, 17 + (uint32_t)udp_bytes));
}

unsigned int
page_packet_frame(
	const struct page_packet *p, const uint8_t *payload, unsigned int bytes, uint8_t *to)
{
	uint8_t *ip = to + 14, *udp = ip + 20;
	uint16_t check;

	memmove(udp + 8, payload, bytes);
	memcpy(to, p->mac_to, 6);
	memcpy(to + 6, p->mac_from, 6);
	weir_put16(to + 12, 0x0800);
	memset(ip, 0, 20 + 8);
	ip[0] = 0x45;
	weir_put16(ip + 2, (uint16_t)(20 + 8 + bytes));
	weir_put16(ip + 6, 0x4000);
	ip[8] = 64;
	ip[9] = 17;
	weir_put32(ip + 12, p->ip_from);
	weir_put32(ip + 16, p->ip_to);
	weir_put16(ip + 10, (uint16_t)~page_sum(ip, 20, 0));
	weir_put16(udp, p->udp_from);
	weir_put16(udp + 2, p->udp_to);
	weir_put16(udp + 4, (uint16_t)(8 + bytes));
	check = (uint16_t)~page_udp_sum(ip, 8 + bytes);
	weir_put16(udp + 6, check == 0 ? 0xffff : check);
	return PAGE_HEADERS + bytes;
}

/* Add the headers before the aggregation header, between the page's switch and the source that src_id says. */
static void
add_headers(struct page_packet *p)
{
	const uint8_t own = (uint8_t)(p->header.src_id + 1);
	const uint8_t host[6] = {0x02, 0x48, 0, 0, 0, own},
		      node[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};
	const uint32_t host_ip = 0x0a4d0000u + own, node_ip = 0x0a4d00feu;
	const bool answer = p->udp_from == WEIR_PORT_BASE || p->udp_from == WEIR_PORT_EXT;

	cr_assert(
		p->udp_from != 0 && p->length + PAGE_HEADERS <= PAGE_FRAME_MAX, "line %u", p->line);
	memcpy(p->mac_from, answer ? node : host, 6);
	memcpy(p->mac_to, answer ? host : node, 6);
	p->ip_from = answer ? node_ip : host_ip;
	p->ip_to = answer ? host_ip : node_ip;
	p->length = page_packet_frame(p, p->bytes, p->length, p->bytes);
}

/* "0010  00 34 ...": the offset, then at most 16 bytes. */
static void
read_dump(struct page_packet *p, const char *line)
{
	unsigned int offset, byte;
	int used, row = 0;

	cr_assert_eq(sscanf(line, "%4x%n", &offset, &used), 1, "\"%s\"", line);
	cr_assert_eq(offset, p->length, "the dump jumps to %04x", offset);
	for (line += used; sscanf(line, " %2x%n", &byte, &used) == 1; line += used) {
		cr_assert_lt(p->length, PAGE_FRAME_MAX);
		p->bytes[p->length++] = (uint8_t)byte;
		row++;
	}
	cr_assert(*line == 0 && row <= 16, "at %04x", offset);
}

bool
page_packet_next(const char *page, const char **at, struct page_packet *p)
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
	cr_assert_gt(p->length, 0, "line %u: no bytes", p->line);
	if (p->ip_from == 0)
		add_headers(p);
	return true;
}
