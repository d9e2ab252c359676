/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

static void
hmac(const uint8_t key[32], const uint8_t *message, size_t bytes, uint8_t out[32])
{
	size_t n = 0;

	if (EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, 32, message, bytes, out, 32, &n) ==
			NULL ||
		n != 32)
		abort();
}

void
tags_source_key(const uint8_t job[32], uint8_t source, uint64_t epoch, uint8_t key[32])
{
	uint8_t message[20];

	memcpy(message, "weir source", 11);
	message[11] = source;
	for (int i = 0; i < 8; i++)
		message[12 + i] = (uint8_t)(epoch >> (56 - 8 * i));
	hmac(job, message, 20, key);
}

/* H(key, label, nonce (NULL: none), challenge, gen_id:16). */
static void
of_generation(const uint8_t key[32], const char *label, const uint8_t *nonce,
	const uint8_t challenge[16], uint16_t generation, uint8_t out[32])
{
	uint8_t message[64];
	size_t n = strlen(label);

	memcpy(message, label, n);
	if (nonce != NULL) {
		memcpy(message + n, nonce, 16);
		n += 16;
	}
	memcpy(message + n, challenge, 16);
	message[n + 16] = (uint8_t)(generation >> 8);
	message[n + 17] = (uint8_t)generation;
	hmac(key, message, n + 18, out);
}

void
tags_contributions_key(
	const uint8_t source[32], const uint8_t challenge[16], uint16_t generation, uint8_t key[32])
{
	of_generation(source, "weir generation", NULL, challenge, generation, key);
}

void
tags_results_key(
	const uint8_t job[32], const uint8_t challenge[16], uint16_t generation, uint8_t key[32])
{
	of_generation(job, "weir results", NULL, challenge, generation, key);
}

void
tags_wrap(const uint8_t source[32], const uint8_t nonce[16], const uint8_t challenge[16],
	uint16_t generation, uint8_t key[32])
{
	uint8_t mask[32];

	of_generation(source, "weir wrap", nonce, challenge, generation, mask);
	for (int i = 0; i < 32; i++)
		key[i] ^= mask[i];
}

void
tags_gmac(const uint8_t key[32], uint8_t status, uint64_t number, const uint8_t header[16],
	const void *payload, size_t bytes, uint8_t tag[16])
{
	tags_gmac_slice(key, 0, status, number, header, payload, bytes, tag);
}

void
tags_gmac_slice(const uint8_t key[32], uint32_t slice, uint8_t status, uint64_t number,
	const uint8_t header[16], const void *payload, size_t bytes, uint8_t tag[16])
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint8_t iv[12] = {(uint8_t)(slice >> 16), (uint8_t)(slice >> 8), (uint8_t)slice, status};
	int n;

	for (int i = 0; i < 8; i++)
		iv[4 + i] = (uint8_t)(number >> (56 - 8 * i));
	if (EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, iv) != 1 ||
		EVP_EncryptUpdate(context, NULL, &n, header, 16) != 1 ||
		(bytes > 0 && EVP_EncryptUpdate(context, NULL, &n, payload, (int)bytes) != 1) ||
		EVP_EncryptFinal_ex(context, tag, &n) != 1 ||
		EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, tag) != 1)
		abort();
	EVP_CIPHER_CTX_free(context);
}

void
tags_hmac(const uint8_t key[32], const char *label, const void *a, size_t a_bytes, const void *b,
	size_t b_bytes, uint8_t tag[16])
{
	uint8_t message[512], out[32];
	size_t n = strlen(label);

	if (n + a_bytes + b_bytes > sizeof(message))
		abort();
	memcpy(message, label, n);
	memcpy(message + n, a, a_bytes);
	if (b_bytes > 0)
		memcpy(message + n + a_bytes, b, b_bytes);
	hmac(key, message, n + a_bytes + b_bytes, out);
	memcpy(tag, out, 16);
}

void
tags_join(const uint8_t source[32], uint32_t address, uint16_t port,
	const uint8_t join[WEIR_EXT_BYTES + sizeof(struct weir_join_proof)], uint8_t tag[16])
{
	uint8_t sender[6];

	weir_put32(sender, address);
	weir_put16(sender + 4, port);
	tags_hmac(source, "weir join", sender, sizeof(sender), join,
		WEIR_EXT_BYTES + sizeof(struct weir_join_proof), tag);
}

uint32_t
tags_crc32c(uint32_t crc, const uint8_t *bytes, size_t n)
{
	crc = ~crc;
	for (size_t i = 0; i < 8 * n; i++) {
		crc ^= (uint32_t)bytes[i / 8] >> i % 8 & 1;
		crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
	}
	return ~crc;
}
