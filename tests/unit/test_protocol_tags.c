/* SPDX-License-Identifier: BSD-3-Clause */
/* The CRCs and tags of docs/protocol.md, "Packets with a CRC, byte by byte" and "Packets with tags, byte by byte", by the
 * definitions above them there. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/doc_page.h"
#include "tests/model/tags.h"

#define SOURCE     1
#define GENERATION 7
#define EPOCH      UINT64_C(0x0006123456789abc)
#define ADDRESS    0x0a4d0002
#define PORT       40001
#define BYTES_MAX  256

static const uint8_t *
run_of(uint8_t first, unsigned int n)
{
	static uint8_t bytes[32];

	for (unsigned int i = 0; i < n; i++)
		bytes[i] = (uint8_t)(first + i);
	return bytes;
}

/* The bytes of a dump's lines: "0000  01 02 ...". */
static unsigned int
read_dump(const char *text, uint8_t bytes[BYTES_MAX])
{
	unsigned int n = 0;

	for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line, '\n')) {
		char *end;

		line++;
		if (strspn(line, "0123456789abcdef") != 4)
			continue;
		for (const char *p = line + 4; *p != '\n' && *p != 0; p = end) {
			bytes[n++] = (uint8_t)strtoul(p, &end, 16);
			cr_assert(end != p && n < BYTES_MAX, "%s", line);
		}
	}
	return n;
}

/* The tag that the packet should have. */
static void
tag_of(const char *kind, const uint8_t *bytes, unsigned int n, uint8_t tag[16])
{
	uint8_t job[32], source[32], results[32], key[32], header[16], answered[16];
	uint64_t number = 0;
	unsigned int byte;

	memcpy(job, run_of(0, 32), 32);
	tags_source_key(job, SOURCE, EPOCH, source);
	tags_contributions_key(source, run_of(0xa0, 16), GENERATION, key);
	tags_results_key(job, run_of(0xa0, 16), GENERATION, results);
	memcpy(header, bytes, 16);
	if (sscanf(kind, "contribution number=%" SCNu64, &number) == 1) {
		cr_assert_eq((uint32_t)number, weir_get32(bytes + 1));
		tags_gmac(key, bytes[15], number, header, bytes + 16, n - 16, tag);
	} else if (sscanf(kind, "acknowledgement number=%" SCNu64, &number) == 1) {
		cr_assert_eq((uint32_t)number, weir_get32(bytes + 1));
		tags_gmac(key, 1, number, header, NULL, 0, tag);
	} else if (sscanf(kind, "probe number=%" SCNu64, &number) == 1) {
		cr_assert_eq((uint32_t)number, weir_get32(bytes + 1));
		tags_gmac(key, 2, number, header, NULL, 0, tag);
	} else if (sscanf(kind, "result number=%" SCNu64, &number) == 1) {
		cr_assert_eq((uint32_t)number, weir_get32(bytes + 1));
		cr_assert_eq(header[6], SOURCE);
		header[6] = 0;
		tags_gmac(results, bytes[15], number, header, bytes + 16, n - 16, tag);
	} else if (strncmp(kind, "join\n", 5) == 0) {
		cr_assert_eq(n, WEIR_EXT_BYTES + sizeof(struct weir_join_proof));
		tags_join(source, ADDRESS, PORT, bytes, tag);
	} else {
		cr_assert_eq(strncmp(kind, "reply answered=", 15), 0, "%s", kind);
		for (unsigned int i = 0; i < 16; i++) {
			cr_assert_eq(sscanf(kind + 15 + 2 * i, "%2x", &byte), 1);
			answered[i] = (uint8_t)byte;
		}
		tags_hmac(source, "weir reply", answered, 16, bytes, n, tag);
		if (n == 16 + sizeof(struct weir_join_reply) + 16 + 32) {
			tags_wrap(source, answered, run_of(0xa0, 16), GENERATION, results);
			cr_assert_arr_eq(bytes + n - 32, results, 32, "the wrapped key");
		}
	}
}

Test(protocol_tags, packets, .timeout = 90)
{
	char *page = doc_read("docs/protocol.md"), *block;
	const char *at = page;
	unsigned int seen = 0;

	cr_assert_not_null(page);
	while ((block = doc_block(&at, "tagged")) != NULL) {
		struct weir_header h = {.extended = true};
		uint8_t bytes[BYTES_MAX], tag[WEIR_TAG_BYTES];
		unsigned int line = doc_line(page, at), n = read_dump(block, bytes);

		cr_assert_geq(n, WEIR_EXT_BYTES + WEIR_TAG_BYTES);
		weir_header_read(&h, bytes);
		cr_assert_eq(h.flags, WEIR_FLAG_AUTHENTICATED, "above line %u", line);
		cr_assert(h.job_id == 1 && h.src_id == SOURCE, "above line %u", line);
		tag_of(block, bytes, n - WEIR_TAG_BYTES, tag);
		cr_assert_arr_eq(
			bytes + n - WEIR_TAG_BYTES, tag, WEIR_TAG_BYTES, "above line %u", line);
		free(block);
		seen++;
	}
	cr_assert_geq(seen, 11);
	free(page);
}

Test(protocol_tags, packets_with_crc, .timeout = 90)
{
	char *page = doc_read("docs/protocol.md"), *block;
	const char *at = page;
	unsigned int seen[2] = {0};

	cr_assert_not_null(page);
	while ((block = doc_block(&at, "crc")) != NULL) {
		struct weir_header h = {.dtype = WEIR_DTYPE_FP32};
		uint8_t bytes[BYTES_MAX], covered[WEIR_EXT_BYTES], crc[4];
		unsigned int line = doc_line(page, at), n = read_dump(block, bytes) - 4, payload,
			     sum;
		char *end = block;

		payload = 4u * weir_get16(bytes + 10);
		h.extended = n - payload == WEIR_EXT_BYTES;
		cr_assert(h.extended || n - payload == WEIR_BASE_BYTES, "above line %u", line);
		weir_header_read(&h, bytes);
		seen[h.extended]++;
		if (h.extended)
			cr_assert_eq(h.flags, WEIR_FLAG_CRC, "above line %u", line);
		h.extended = true;
		h.flags = WEIR_FLAG_CRC;
		if (h.src_cnt != 0)
			h.src_id = 0; /* a result of allreduce */
		weir_header_write(&h, covered);
		for (unsigned int i = 0; i < sizeof(covered); i++)
			cr_assert_eq(strtoul(end, &end, 16), covered[i], "above line %u", line);
		sum = tags_crc32c(
			tags_crc32c(0, covered, sizeof(covered)), bytes + n - payload, payload);
		for (unsigned int i = 0; i < 4; i++)
			crc[i] = (uint8_t)(sum >> 8 * i);
		cr_assert_arr_eq(bytes + n, crc, 4, "above line %u", line);
		free(block);
	}
	cr_assert(seen[0] >= 1 && seen[1] >= 2);
	free(page);
}
