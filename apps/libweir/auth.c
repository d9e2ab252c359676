/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "apps/libweir/handle.h"

struct weir_auth {
	EVP_MAC_CTX *hmac;
	EVP_CIPHER_CTX *contributions, *results; /* GMAC, keyed for the generation */
	uint8_t source_key[WEIR_KEY_BYTES];
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* quoted by joins */
	uint8_t nonce[WEIR_CHALLENGE_BYTES]; /* of the join */
	uint32_t count; /* of its transmissions */
};

/* HMAC-SHA256 of a label and of pieces, which are only read. */
static bool
hmac(struct weir_auth *auth, const uint8_t key[WEIR_KEY_BYTES], const char *label,
	const struct iovec *pieces, unsigned int n, uint8_t out[WEIR_KEY_BYTES])
{
	size_t length = 0;
	bool good = EVP_MAC_init(auth->hmac, key, WEIR_KEY_BYTES, NULL) == 1 &&
		EVP_MAC_update(auth->hmac, (const uint8_t *)label, strlen(label)) == 1;

	for (unsigned int i = 0; good && i < n; i++)
		good = EVP_MAC_update(auth->hmac, pieces[i].iov_base, pieces[i].iov_len) == 1;
	good = good && EVP_MAC_final(auth->hmac, out, &length, WEIR_KEY_BYTES) == 1;
	if (!good)
		memset(out, 0, WEIR_KEY_BYTES);
	return good;
}

/* Look up the algorithms once: OpenSSL finds them by name. */
static bool
prepare(struct weir_auth *auth)
{
	char digest[] = "SHA256";
	const OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_CIPHER *gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
	bool good = mac != NULL && gcm != NULL;

	if (good) {
		auth->hmac = EVP_MAC_CTX_new(mac);
		auth->contributions = EVP_CIPHER_CTX_new();
		auth->results = EVP_CIPHER_CTX_new();
		good = auth->hmac != NULL && auth->contributions != NULL && auth->results != NULL &&
			EVP_MAC_CTX_set_params(auth->hmac, parameters) == 1 &&
			EVP_EncryptInit_ex(auth->contributions, gcm, NULL, NULL, NULL) == 1 &&
			EVP_EncryptInit_ex(auth->results, gcm, NULL, NULL, NULL) == 1;
	}
	EVP_MAC_free(mac);
	EVP_CIPHER_free(gcm);
	return good;
}

void
weir_auth_destroy(struct weir_auth *auth)
{
	if (auth == NULL)
		return;
	EVP_MAC_CTX_free(auth->hmac);
	EVP_CIPHER_CTX_free(auth->contributions);
	EVP_CIPHER_CTX_free(auth->results);
	OPENSSL_cleanse(auth, sizeof(*auth));
	free(auth);
}

int
weir_auth_use(struct weir_handle *h, const uint8_t key[WEIR_KEY_BYTES], bool of_job)
{
	/* The source and its epoch, which is 0 if hosts have the job's key. */
	uint8_t id[1 + sizeof(uint64_t)] = {h->source};
	struct weir_auth *auth = calloc(1, sizeof(*auth));
	bool good = auth != NULL && prepare(auth);

	if (good && of_job)
		good = hmac(auth, key, WEIR_LABEL_SOURCE, &(struct iovec){id, sizeof(id)}, 1,
			auth->source_key);
	else if (good)
		memcpy(auth->source_key, key, WEIR_KEY_BYTES);
	weir_auth_destroy(h->auth);
	h->auth = good ? auth : NULL;
	if (good)
		return 0;
	weir_auth_destroy(auth);
	return weir_error_set(h, -ENOMEM, "out of memory");
}

int
weir_auth_draw(struct weir_auth *auth, uint32_t *block_id)
{
	if (getrandom(auth->nonce, sizeof(auth->nonce), 0) != sizeof(auth->nonce))
		return -EIO;
	*block_id = weir_get32(auth->nonce);
	memset(auth->challenge, 0, sizeof(auth->challenge));
	auth->count = 0;
	return 0;
}

size_t
weir_auth_join(struct weir_auth *auth, const struct sockaddr_in *from, uint8_t *packet)
{
	const size_t bytes = WEIR_EXT_BYTES + sizeof(struct weir_join_proof);
	struct in_addr address = from->sin_addr;
	in_port_t port = from->sin_port;
	const struct iovec pieces[] = {
		{&address, sizeof(address)}, {&port, sizeof(port)}, {packet, bytes}};
	struct weir_join_proof proof;
	uint8_t out[WEIR_KEY_BYTES];

	memcpy(proof.challenge, auth->challenge, sizeof(proof.challenge));
	memcpy(proof.nonce, auth->nonce, sizeof(proof.nonce));
	weir_put32(proof.count, ++auth->count);
	memcpy(packet + WEIR_EXT_BYTES, &proof, sizeof(proof));
	if (!hmac(auth, auth->source_key, WEIR_LABEL_JOIN, pieces, 3, out))
		return 0;
	memcpy(packet + bytes, out, WEIR_TAG_BYTES);
	return bytes + WEIR_TAG_BYTES;
}

bool
weir_auth_challenge(struct weir_auth *auth, const uint8_t challenge[WEIR_CHALLENGE_BYTES])
{
	if (memcmp(auth->challenge, challenge, sizeof(auth->challenge)) == 0)
		return false;
	memcpy(auth->challenge, challenge, sizeof(auth->challenge));
	return true;
}

bool
weir_auth_begin(struct weir_auth *auth, uint16_t generation, const uint8_t wrapped[WEIR_KEY_BYTES])
{
	uint8_t id[2], key[WEIR_KEY_BYTES];
	const struct iovec pieces[] = {{auth->nonce, sizeof(auth->nonce)},
		{auth->challenge, sizeof(auth->challenge)}, {id, sizeof(id)}};
	bool good;

	weir_put16(id, generation);
	good = hmac(auth, auth->source_key, WEIR_LABEL_GENERATION, pieces + 1, 2, key) &&
		EVP_EncryptInit_ex(auth->contributions, NULL, NULL, key, NULL) == 1 &&
		hmac(auth, auth->source_key, WEIR_LABEL_WRAP, pieces, 3, key);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		key[i] ^= wrapped[i];
	good = good && EVP_EncryptInit_ex(auth->results, NULL, NULL, key, NULL) == 1;
	OPENSSL_cleanse(key, sizeof(key));
	return good;
}

/* first: the first word of the nonce, slice:24 and status:8. */
static bool
gmac(EVP_CIPHER_CTX *context, uint32_t first, uint64_t number, const struct iovec *pieces,
	unsigned int pieces_count, uint8_t tag[WEIR_TAG_BYTES])
{
	uint8_t iv[WEIR_GMAC_IV_BYTES];
	bool good;
	int n;

	weir_put32(iv, first);
	weir_put32(iv + 4, (uint32_t)(number >> 32));
	weir_put32(iv + 8, (uint32_t)number);
	good = EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv) == 1;
	for (unsigned int i = 0; good && i < pieces_count; i++)
		good = pieces[i].iov_len == 0 ||
			EVP_EncryptUpdate(
				context, NULL, &n, pieces[i].iov_base, (int)pieces[i].iov_len) == 1;
	if (good && EVP_EncryptFinal_ex(context, tag, &n) == 1 &&
		EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, WEIR_TAG_BYTES, tag) == 1)
		return true;
	memset(tag, 0, WEIR_TAG_BYTES);
	return false;
}

bool
weir_auth_tag(struct weir_auth *auth, uint32_t what, uint64_t number, const struct iovec *pieces,
	unsigned int n, uint8_t tag[WEIR_TAG_BYTES])
{
	return gmac(auth->contributions, what, number, pieces, n, tag);
}

/* Does the header say that the packet has a tag, and is there room for it? */
static bool
has_tag(const uint8_t *packet, size_t bytes)
{
	return bytes >= WEIR_EXT_BYTES + WEIR_TAG_BYTES &&
		(packet[offsetof(struct weir_extension, dtype_flags) + WEIR_BASE_BYTES] &
			WEIR_FLAG_AUTHENTICATED) != 0;
}

bool
weir_auth_result(struct weir_auth *auth, uint64_t number, uint32_t slice, const uint8_t *packet,
	size_t bytes)
{
	uint8_t header[WEIR_EXT_BYTES], tag[WEIR_TAG_BYTES];
	struct iovec pieces[2] = {
		{header, sizeof(header)}, {(void *)(uintptr_t)(packet + WEIR_EXT_BYTES), 0}};

	if (!has_tag(packet, bytes))
		return false;
	memcpy(header, packet, sizeof(header));
	header[offsetof(struct weir_base, src_id)] = 0; /* copies of one result have one tag */
	bytes -= WEIR_TAG_BYTES;
	pieces[1].iov_len = bytes - WEIR_EXT_BYTES;
	return gmac(auth->results, slice << 8 | header[WEIR_EXT_BYTES - 1], number, pieces, 2,
		       tag) &&
		CRYPTO_memcmp(tag, packet + bytes, WEIR_TAG_BYTES) == 0;
}

bool
weir_auth_reply(struct weir_auth *auth, const uint8_t answered[WEIR_TAG_BYTES],
	const uint8_t *packet, size_t bytes)
{
	const struct iovec pieces[] = {
		{(void *)(uintptr_t)(answered != NULL ? answered : auth->nonce), WEIR_TAG_BYTES},
		{(void *)(uintptr_t)packet, bytes - WEIR_TAG_BYTES}};
	uint8_t out[WEIR_KEY_BYTES];

	return has_tag(packet, bytes) &&
		hmac(auth, auth->source_key, WEIR_LABEL_REPLY, pieces, 2, out) &&
		CRYPTO_memcmp(out, packet + bytes - WEIR_TAG_BYTES, WEIR_TAG_BYTES) == 0;
}
