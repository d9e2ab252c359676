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
tags_source_key(const uint8_t job[32], uint8_t source, uint8_t key[32])
{
	uint8_t message[12];

	memcpy(message, "weir source", 11);
	message[11] = source;
	hmac(job, message, 12, key);
}

void
tags_results_key(const uint8_t job[32], uint8_t key[32])
{
	hmac(job, (const uint8_t *)"weir results", 12, key);
}

void
tags_generation_key(
	const uint8_t from[32], const uint8_t challenge[16], uint16_t generation, uint8_t key[32])
{
	uint8_t message[33];

	memcpy(message, "weir generation", 15);
	memcpy(message + 15, challenge, 16);
	message[31] = (uint8_t)(generation >> 8);
	message[32] = (uint8_t)generation;
	hmac(from, message, 33, key);
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
