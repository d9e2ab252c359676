/* SPDX-License-Identifier: BSD-3-Clause */
/* Tags against OpenSSL's, over every length and segmentation. */
#include "pktbuf/tag.h"
#include "tests/model/tags.h"
#include "tests/unit/packet.h"

#define BYTES 1500

static void
fill(uint64_t *state, uint8_t *p, size_t n)
{
	while (n-- > 0)
		*p++ = (uint8_t)random_bits(state);
}

Test(pktbuf_tag, gmac, .timeout = 90)
{
	static uint8_t message[WEIR_EXT_BYTES + BYTES + WEIR_TAG_BYTES];
	uint64_t random = random_seed();
	struct pktbuf_tag_key key;
	uint8_t bytes[WEIR_KEY_BYTES], ours[WEIR_TAG_BYTES], theirs[WEIR_TAG_BYTES];

	cr_assert_eq(pktbuf_tag_init(), 0);
	cr_assert_eq(pktbuf_tag_init(), 0);
	for (uint32_t n = 0; n < BYTES; n++) {
		struct pktbuf_nonce nonce = {
			.number = random_bits(&random) << 32 | random_bits(&random),
			.status = (uint8_t)(random_bits(&random) % 10)};

		fill(&random, bytes, sizeof(bytes));
		fill(&random, message, WEIR_EXT_BYTES + n);
		pktbuf_tag_expand(&key, bytes);
		pktbuf_tag_make(&key, nonce, message, message + WEIR_EXT_BYTES, n, ours);
		tags_gmac(bytes, nonce.status, nonce.number, message, message + WEIR_EXT_BYTES, n,
			theirs);
		cr_assert_arr_eq(ours, theirs, WEIR_TAG_BYTES, "%u bytes", n);
	}
}

Test(pktbuf_tag, segments, .timeout = 90)
{
	static uint8_t message[128 + BYTES];
	uint64_t random = random_seed();
	uint8_t bytes[WEIR_KEY_BYTES];
	struct pktbuf_nonce nonce = {.number = 7};
	struct pktbuf_tag_key key;

	cr_assert_eq(pktbuf_tag_init(), 0);
	fill(&random, bytes, sizeof(bytes));
	fill(&random, message, sizeof(message));
	pktbuf_tag_expand(&key, bytes);
	for (uint32_t n = 0; n < BYTES; n += n < 600 ? 1 : 97) {
		uint32_t length = WEIR_EXT_BYTES + n, all = 42 + length + WEIR_TAG_BYTES;

		tags_gmac(bytes, 0, 7, message + 42, message + 42 + WEIR_EXT_BYTES, n,
			message + 42 + length);
		for (unsigned int try = 0; try < 20; try++) {
			uint32_t bit = (uint32_t)(random_bits(&random) % (8 * (all - 42)));
			uint64_t *split = try == 0 ? NULL : &random;

			cr_assert(pktbuf_tag_holds(&key, nonce, packet_make(message, all, split),
				42, length, try % 3 == 0 ? message : NULL));
			cr_assert_not(pktbuf_tag_holds(&key, (struct pktbuf_nonce){.number = 8},
				packet_make(message, all, split), 42, length, NULL));
			message[42 + bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert_not(pktbuf_tag_holds(&key, nonce,
					      packet_make(message, all, split), 42, length, NULL),
				"bit %u of %u bytes", bit, length);
			message[42 + bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	/* A packet that ends before its tag does. */
	cr_assert_not(
		pktbuf_tag_holds(&key, nonce, packet_make(message, 42 + 24, NULL), 42, 16, NULL));
}

Test(pktbuf_tag, hmac, .timeout = 90)
{
	struct pktbuf_hmac *hmac = pktbuf_hmac_create();
	uint8_t message[255], key[WEIR_KEY_BYTES], ours[WEIR_KEY_BYTES], theirs[WEIR_TAG_BYTES];
	uint64_t random = random_seed();

	cr_assert_not_null(hmac);
	for (unsigned int n = 0; n <= sizeof(message); n++) {
		fill(&random, key, sizeof(key));
		fill(&random, message, n);
		cr_assert(pktbuf_hmac(hmac, key, message, n, ours));
		tags_hmac(key, "", message, n, NULL, 0, theirs);
		cr_assert_arr_eq(ours, theirs, sizeof(theirs));
	}
	pktbuf_hmac_destroy(hmac);
	pktbuf_hmac_destroy(NULL);
}
