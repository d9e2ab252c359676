/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/tag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <intel-ipsec-mb.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "pktbuf/cursor.h"

static_assert(sizeof(struct gcm_key_data) <= sizeof(struct pktbuf_tag_key), "an expanded key");

/* Bytes of a message between prefetches: ipsec_mb hashes this many at once. */
#define STEP 768

/* Shared by all threads, read-only. */
static IMB_MGR *gmac;

static const struct gcm_key_data *
expanded(const struct pktbuf_tag_key *key)
{
	return (const struct gcm_key_data *)(const void *)key->expanded;
}

int
pktbuf_tag_init(void)
{
	IMB_MGR *manager;
	IMB_ARCH arch;

	if (gmac != NULL)
		return 0;
	manager = alloc_mb_mgr(0);
	if (manager == NULL)
		return -ENOMEM;
	init_mb_mgr_auto(manager, &arch);
	if (imb_get_errno(manager) != 0) {
		free_mb_mgr(manager);
		return -ENOTSUP;
	}
	gmac = manager;
	return 0;
}

void
pktbuf_tag_expand(struct pktbuf_tag_key *key, const uint8_t bytes[WEIR_KEY_BYTES])
{
	IMB_AES256_GCM_PRE(gmac, bytes, (struct gcm_key_data *)(void *)key->expanded);
}

static inline void
write_iv(struct pktbuf_nonce nonce, uint8_t iv[WEIR_GMAC_IV_BYTES])
{
	const uint32_t first = rte_cpu_to_be_32(nonce.slice << 8 | nonce.status);
	const uint64_t number = rte_cpu_to_be_64(nonce.number);

	memcpy(iv, &first, sizeof(first));
	memcpy(iv + sizeof(first), &number, sizeof(number));
}

static void
begin(struct gcm_context_data *context, const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce)
{
	uint8_t iv[WEIR_GMAC_IV_BYTES];

	write_iv(nonce, iv);
	IMB_AES256_GMAC_INIT(gmac, expanded(key), context, iv, sizeof(iv));
}

void
pktbuf_tag_make(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const uint8_t header[WEIR_EXT_BYTES], const void *payload, uint32_t bytes,
	uint8_t tag[WEIR_TAG_BYTES])
{
	pktbuf_tag_make_pieces(key, nonce, header, &(struct pktbuf_piece){payload, bytes}, 1, tag);
}

void
pktbuf_tag_make_pieces(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const uint8_t header[WEIR_EXT_BYTES], const struct pktbuf_piece *pieces, unsigned int n,
	uint8_t tag[WEIR_TAG_BYTES])
{
	struct gcm_context_data context;

	begin(&context, key, nonce);
	IMB_AES256_GMAC_UPDATE(gmac, expanded(key), &context, header, WEIR_EXT_BYTES);
	for (unsigned int i = 0; i < n; i++)
		if (pieces[i].bytes > 0)
			IMB_AES256_GMAC_UPDATE(
				gmac, expanded(key), &context, pieces[i].data, pieces[i].bytes);
	IMB_AES256_GMAC_FINALIZE(gmac, expanded(key), &context, tag, WEIR_TAG_BYTES);
}

bool
pktbuf_tag_equal(const uint8_t a[WEIR_TAG_BYTES], const uint8_t b[WEIR_TAG_BYTES])
{
	uint64_t x[2], y[2];

	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

static inline void
prefetch(const uint8_t *from, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes; at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(from + at);
}

/* The tag of a message in one piece. */
static inline void
make_whole(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce, const uint8_t *from,
	uint32_t length, const uint8_t *next, uint8_t tag[WEIR_TAG_BYTES])
{
	struct gcm_context_data context;
	uint8_t iv[WEIR_GMAC_IV_BYTES];

	if (length <= 2 * STEP) {
		if (next != NULL)
			prefetch(next, length);
		/* Nothing is encrypted: one call takes less time than three. */
		write_iv(nonce, iv);
		IMB_AES256_GCM_ENC(gmac, expanded(key), &context, tag, from, 0, iv, from, length,
			tag, WEIR_TAG_BYTES);
		return;
	}
	begin(&context, key, nonce);
	for (uint32_t at = 0; at < length; at += STEP) {
		uint32_t here = RTE_MIN(length - at, (uint32_t)STEP);

		if (next != NULL)
			prefetch(next + at, here);
		IMB_AES256_GMAC_UPDATE(gmac, expanded(key), &context, from + at, here);
	}
	IMB_AES256_GMAC_FINALIZE(gmac, expanded(key), &context, tag, WEIR_TAG_BYTES);
}

static __rte_noinline bool
pieces_hold(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const struct rte_mbuf *packet, uint32_t offset, uint32_t length)
{
	uint8_t tag[WEIR_TAG_BYTES], offered[WEIR_TAG_BYTES];
	struct gcm_context_data context;
	struct pktbuf_cursor cursor;
	const uint8_t *from;
	uint32_t here;

	begin(&context, key, nonce);
	pktbuf_cursor_init(&cursor, packet, offset, length);
	while ((from = pktbuf_cursor_span(&cursor, &here)) != NULL) {
		IMB_AES256_GMAC_UPDATE(gmac, expanded(key), &context, from, here);
		pktbuf_cursor_advance(&cursor, here);
	}
	IMB_AES256_GMAC_FINALIZE(gmac, expanded(key), &context, tag, WEIR_TAG_BYTES);
	pktbuf_cursor_init(&cursor, packet, offset + length, WEIR_TAG_BYTES);
	return pktbuf_cursor_copy(&cursor, offered, sizeof(offered)) == sizeof(offered) &&
		pktbuf_tag_equal(tag, offered);
}

bool
pktbuf_tag_holds(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const struct rte_mbuf *packet, uint32_t offset, uint32_t length, const uint8_t *next)
{
	const uint8_t *from = rte_pktmbuf_mtod_offset(packet, const uint8_t *, offset);
	uint8_t tag[WEIR_TAG_BYTES];

	if (unlikely(packet->data_len < offset + length + WEIR_TAG_BYTES))
		return pieces_hold(key, nonce, packet, offset, length);
	make_whole(key, nonce, from, length, next, tag);
	return pktbuf_tag_equal(tag, from + length);
}

struct pktbuf_hmac {
	EVP_MAC_CTX *context;
};

struct pktbuf_hmac *
pktbuf_hmac_create(void)
{
	char digest[] = "SHA256";
	const OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	struct pktbuf_hmac *hmac = calloc(1, sizeof(*hmac));
	EVP_MAC *mac = hmac == NULL ? NULL : EVP_MAC_fetch(NULL, "HMAC", NULL);

	if (mac != NULL)
		hmac->context = EVP_MAC_CTX_new(mac);
	EVP_MAC_free(mac);
	if (mac != NULL && hmac->context != NULL &&
		EVP_MAC_CTX_set_params(hmac->context, parameters) == 1)
		return hmac;
	pktbuf_hmac_destroy(hmac);
	return NULL;
}

void
pktbuf_hmac_destroy(struct pktbuf_hmac *hmac)
{
	if (hmac != NULL)
		EVP_MAC_CTX_free(hmac->context);
	free(hmac);
}

bool
pktbuf_hmac(struct pktbuf_hmac *hmac, const uint8_t key[WEIR_KEY_BYTES], const void *message,
	size_t bytes, uint8_t out[WEIR_KEY_BYTES])
{
	size_t length = 0;

	if (EVP_MAC_init(hmac->context, key, WEIR_KEY_BYTES, NULL) == 1 &&
		EVP_MAC_update(hmac->context, message, bytes) == 1 &&
		EVP_MAC_final(hmac->context, out, &length, WEIR_KEY_BYTES) == 1 &&
		length == WEIR_KEY_BYTES)
		return true;
	memset(out, 0, WEIR_KEY_BYTES);
	return false;
}

void
pktbuf_source_message(uint8_t source, uint64_t epoch, uint8_t message[PKTBUF_SOURCE_MESSAGE_BYTES])
{
	const size_t label = sizeof(WEIR_LABEL_SOURCE) - 1;

	memcpy(message, WEIR_LABEL_SOURCE, label);
	message[label] = source;
	weir_put32(message + label + 1, (uint32_t)(epoch >> 32));
	weir_put32(message + label + 5, (uint32_t)epoch);
}

bool
pktbuf_member_key(const uint8_t job[WEIR_KEY_BYTES], uint8_t source, uint64_t epoch,
	uint8_t key[WEIR_KEY_BYTES])
{
	uint8_t message[PKTBUF_SOURCE_MESSAGE_BYTES];
	struct pktbuf_hmac *hmac = pktbuf_hmac_create();
	bool made;

	pktbuf_source_message(source, epoch, message);
	made = hmac != NULL && pktbuf_hmac(hmac, job, message, sizeof(message), key);
	pktbuf_hmac_destroy(hmac);
	return made;
}
