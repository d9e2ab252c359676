/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages against the source: the tables and codes of docs/counters.md and docs/protocol.md are the
 * lists of the headers (tests/functional/test_metrics.py compares metrics), each test vector decodes
 * to its header, and docs/write-a-program.md shows the example.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ppe/ppe.h"
#include "tests/eal/rig.h"
#include "tests/model/doc_page.h"
#include "tests/model/vectors.h"

#define COUNTERS "docs/counters.md"
#define PROTOCOL "docs/protocol.md"

/* The cells of a row, as far as the source has them. */
struct row {
	const char *cell[3];
};

#define DROP(name, key, help)            {{key, help, NULL}},
#define COUNTER(name, help)              {{#name, help, NULL}},
#define CODE(id, code, text)             {{#code, text, NULL}},
#define MORE(id, code, text, ...)        {{#code, text, NULL}},
#define TYPE(id, code, text, bytes, ...) {{#code, text, #bytes}},
#define LISTED(id, code, text, ...)      #code " " text ", "
#define LISTED_SHORT(id, code, text)     #code " " text ", "
#define ROWS(...)                                                                                  \
	(const struct row[])                                                                       \
	{                                                                                          \
		__VA_ARGS__                                                                        \
		{                                                                                  \
			{                                                                          \
				NULL, NULL, NULL                                                   \
			}                                                                          \
		}                                                                                  \
	}

static const struct {
	const char *page, *heading;
	const struct row *rows; /* up to one of NULL */
} tables[] = {
	{COUNTERS, "## Drops", ROWS(PPE_DROP_LIST(DROP))},
	{COUNTERS, "## Jobs", ROWS(PPE_JOB_COUNTERS(COUNTER))},
	{COUNTERS, "## Packets", ROWS(PPE_PACKET_COUNTERS(COUNTER))},
	{COUNTERS, "## Ports", ROWS(PPE_PORT_COUNTERS(COUNTER, COUNTER))},
	{COUNTERS, "## Workers", ROWS(PPE_WORKER_COUNTERS(COUNTER))},
	{PROTOCOL, "### Status", ROWS(WEIR_STATUS_LIST(MORE))},
	{PROTOCOL, "### Setting", ROWS(WEIR_SETTING_LIST(TYPE))},
	{PROTOCOL, "### End of a generation", ROWS(WEIR_OVER_LIST(CODE))},
};

Test(pages, tables)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		char *page = doc_read(tables[t].page);
		const char *heading = tables[t].heading;
		struct doc_table table;
		unsigned int n = 0;

		cr_assert_not_null(page);
		cr_assert_eq(doc_table(page, heading, &table), 0);
		for (const struct row *r = tables[t].rows; r->cell[0] != NULL; r++, n++) {
			cr_assert_lt(n, table.rows, "%s: \"%s\" is not in the page", heading,
				r->cell[0]);
			for (unsigned int c = 0; c < 3 && r->cell[c] != NULL; c++)
				cr_assert_str_eq(
					table.cell[n][c], r->cell[c], "%s: row %u", heading, n);
			cr_assert(strcmp(tables[t].page, COUNTERS) != 0 || table.cells < 3 ||
					(table.cell[n][2] != NULL && table.cell[n][2][0] != 0),
				"%s: what to do?", r->cell[0]);
		}
		cr_assert_eq(table.rows, n, "%s: \"%s\" is not in the source", heading,
			table.cell[n][0]);
		doc_table_free(&table);
		free(page);
	}
}

/* Codes in one sentence each: "0 sum, 1 prod, ..." */
Test(pages, codes)
{
	static const struct {
		const char *heading, *codes; /* each with ", " */
	} lists[] = {
		{"\n### Collective\n", WEIR_COLLECTIVE_LIST(LISTED)},
		{"\n### Type\n", WEIR_DTYPE_LIST(LISTED)},
		{"\n### Operation\n", WEIR_OP_LIST(LISTED)},
		{"\n### Field\n", WEIR_FIELD_LIST(LISTED_SHORT)},
	};
	char *page = doc_read(PROTOCOL);

	cr_assert_not_null(page);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		char *begin = strstr(page, lists[i].heading), *last, *end;

		cr_assert_not_null(begin, "no %s", lists[i].heading);
		end = strstr(begin + 1, "\n\n#");
		cr_assert_not_null(end);
		*end = 0;
		for (last = begin; (end = strstr(last, "\n\n")) != NULL;)
			last = end + 2; /* the last paragraph of the section */
		for (end = last; (end = strchr(end, '\n')) != NULL;)
			*end = ' ';
		cr_assert(strncmp(last, lists[i].codes, strlen(last)) == 0 &&
				strcmp(lists[i].codes + strlen(last), ", ") == 0,
			"%s: %s", lists[i].heading, last);
		last[strlen(last)] = '\n';
	}
	for (unsigned int type = 0; type < 16; type++) {
		const char *name = weir_dtype_text(type);

		cr_assert_eq(strtoul(name + strcspn(name, "123456789"), NULL, 10),
			8 * weir_dtype_bytes(type), "\"the first number in a name\": %s", name);
	}
	free(page);
}

/* The elements of a whole vector of the block's, or what its kind has. */
static unsigned int
payload_bytes(const struct vector *v)
{
	const struct weir_header *h = &v->header;
	unsigned int bytes = v->elements * weir_dtype_bytes(h->dtype);

	if (h->collective == WEIR_COLLECTIVE_ALLREDUCE)
		cr_assert_eq(v->elements, h->grad_cnt, "%s: elements", v->name);
	cr_assert_eq(v->has_bitmap, h->degraded, "%s: bitmap", v->name);
	bytes += h->degraded ? WEIR_BITMAP_BYTES : 0;
	bytes += h->status == WEIR_STATUS_MISMATCH ? sizeof(struct weir_mismatch) : 0;
	bytes += h->status == WEIR_STATUS_DISPLACED ? sizeof(struct weir_displaced) : 0;
	if (h->collective == WEIR_COLLECTIVE_JOIN && h->status == WEIR_STATUS_OK && v->is_answer)
		bytes += sizeof(struct weir_join_reply) +
			(v->list_bytes != 0 ? 2u + v->list_bytes : 0);
	bytes += v->end == VECTOR_JOIN ? sizeof(struct weir_join_proof)
		: v->challenge != 0    ? WEIR_CHALLENGE_BYTES
				       : 0;
	bytes += v->has_key ? WEIR_KEY_BYTES : 0;
	return bytes + (v->end == VECTOR_CRC ? 4 : v->end != VECTOR_PLAIN ? WEIR_TAG_BYTES : 0);
}

Test(pages, vectors)
{
	unsigned int seen[16] = {0};

	for (const struct vector *v = vectors; v < vectors + nb_vectors; v++) {
		struct weir_header h = {.extended = v->header.extended, .dtype = v->header.dtype};
		uint8_t frame[VECTOR_FRAME_MAX];
		unsigned int n = vector_frame(v, frame);

		cr_assert(rig_checksums_hold(frame), "%s: checksums", v->name);
		weir_header_read(&h, frame + VECTOR_HEADERS);
		cr_assert_arr_eq(&h, &v->header, sizeof(h), "%s: header", v->name);
		cr_assert_eq(frame[VECTOR_HEADERS + 5] >> WEIR_AGE_SHIFT, h.status);
		cr_assert_eq(n, VECTOR_HEADERS + weir_header_bytes(h.extended) + payload_bytes(v),
			"%s: %u bytes", v->name, n);
		if (!v->is_answer && !v->upward)
			cr_assert(h.status == 0 && !h.degraded && h.src_cnt == 0, "%s", v->name);
		seen[h.status] += v->is_answer;
	}
	for (unsigned int s = 0; weir_status_text(s)[0] != '?'; s++)
		cr_assert_gt(seen[s], 0, "no answer with status %s", weir_status_text(s));
}

/* The UDP ports of the page are the defaults of wire.h. */
Test(pages, udp_ports)
{
	char *page = doc_read(PROTOCOL), text[64];

	cr_assert_not_null(page);
	snprintf(text, sizeof(text), "Base form, %u bytes, to UDP port %u", WEIR_BASE_BYTES,
		WEIR_PORT_BASE);
	cr_assert_not_null(strstr(page, text));
	snprintf(text, sizeof(text), "then %u bytes, to UDP port %u",
		WEIR_EXT_BYTES - WEIR_BASE_BYTES, WEIR_PORT_EXT);
	cr_assert_not_null(strstr(page, text));
	free(page);
}

/* docs/write-a-program.md teaches a program: its code blocks are parts of the file, in the
 * file's order. */
Test(pages, the_page_shows_the_program)
{
	char *page = doc_read("docs/write-a-program.md"),
	     *file = doc_read("docs/examples/vectorsum/vectorsum.c"), *block;
	const char *at = page, *rest = file;
	unsigned int blocks = 0;

	cr_assert_not_null(page);
	cr_assert_not_null(file);
	while ((block = doc_block(&at, "c")) != NULL) {
		rest = strstr(rest, block);
		cr_assert_not_null(rest,
			"the block that ends at line %u of the page is not in the program",
			doc_line(page, at) - 1);
		rest += strlen(block);
		free(block);
		blocks++;
	}
	cr_assert_geq(blocks, 4);
	cr_assert_leq(doc_line(file, file + strlen(file)), 250, "an example is short");
	free(page);
	free(file);
}
