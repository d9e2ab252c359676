/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * docs/protocol.md against pktbuf/wire: the tables of codes are equal, and each test vector decodes to its header.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/eal/rig.h"
#include "tests/model/doc_page.h"
#include "tests/model/vectors.h"

#define PAGE "docs/protocol.md"

/* A code and its name, and a third column of its table; lists end with a name of NULL. */
struct page_name {
	unsigned int code;
	const char *name, *more;
};

#define X2(id, code, text, ...) {code, text, NULL},
static const struct page_name page_statuses[] = {WEIR_STATUS_LIST(X2){0, NULL, NULL}};
static const struct page_name page_collectives[] = {WEIR_COLLECTIVE_LIST(X2){0, NULL, NULL}};
static const struct page_name page_ops[] = {WEIR_OP_LIST(X2){0, NULL, NULL}};
#undef X2
#define X2(id, code, text) {code, text, NULL},
static const struct page_name page_fields[] = {WEIR_FIELD_LIST(X2){0, NULL, NULL}};
static const struct page_name page_reasons[] = {WEIR_OVER_LIST(X2){0, NULL, NULL}};
#undef X2
#define X3(id, code, text, bytes, ...) {code, text, #bytes},
static const struct page_name page_dtypes[] = {WEIR_DTYPE_LIST(X3){0, NULL, NULL}};
#undef X3

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
		bytes += sizeof(struct weir_join_reply);
	bytes += v->end == VECTOR_JOIN ? sizeof(struct weir_join_proof)
		: v->challenge != 0    ? WEIR_CHALLENGE_BYTES
				       : 0;
	bytes += v->has_key ? WEIR_KEY_BYTES : 0;
	return bytes + (v->end == VECTOR_CRC ? 4 : v->end != VECTOR_PLAIN ? WEIR_TAG_BYTES : 0);
}

Test(protocol_doc, vectors)
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
	for (unsigned int s = 0; page_statuses[s].name != NULL; s++)
		cr_assert_gt(seen[s], 0, "no answer with status %s", page_statuses[s].name);
}

/* The page shows the first vector. */
Test(protocol_doc, dump)
{
	char *page = doc_read(PAGE), line[80];
	uint8_t frame[VECTOR_FRAME_MAX];
	unsigned int n = vector_frame(&vectors[0], frame);

	cr_assert_not_null(page);
	for (unsigned int at = 0; at < n; at += 16) {
		int used = snprintf(line, sizeof(line), "\n%04x ", at);

		for (unsigned int i = at; i < n && i < at + 16; i++)
			used += snprintf(line + used, sizeof(line) - (size_t)used, "%s%02x",
				i == at + 8 ? "  " : " ", frame[i]);
		snprintf(line + used, sizeof(line) - (size_t)used, "\n");
		cr_assert_not_null(strstr(page, line), "not in the page: %s", line);
	}
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
