/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define LABEL     "weir token" /* unlike the labels of pktbuf/wire/wire.h */
#define SEPARATOR '~' /* neither in a name nor in need of an escape in a header */

bool
ctrl_rank_token(const struct ctrl_job *job, unsigned int rank, struct ctrl_rank_token *token)
{
	uint8_t message[] = LABEL, mac[WEIR_KEY_BYTES]; /* its final zero is the rank's place */
	char digits[2 * sizeof(mac) + 1];
	bool made;

	message[sizeof(message) - 1] = (uint8_t)rank;
	made = HMAC(EVP_sha256(), job->job->key, sizeof(job->job->key), message, sizeof(message),
		       mac, NULL) != NULL &&
		OPENSSL_buf2hexstr_ex(digits, sizeof(digits), NULL, mac, sizeof(mac), '\0') == 1;
	if (made)
		snprintf(token->text, sizeof(token->text), "%s%c%u%c%s", job->job->name, SEPARATOR,
			rank, SEPARATOR, digits);
	OPENSSL_cleanse(mac, sizeof(mac));
	OPENSSL_cleanse(digits, sizeof(digits));
	return made;
}

bool
ctrl_rank_token_job(const char *text, char name[PPE_JOB_NAME_MAX])
{
	const char *end = strchr(text, SEPARATOR);

	if (end == NULL || end - text >= PPE_JOB_NAME_MAX)
		return false;
	snprintf(name, PPE_JOB_NAME_MAX, "%.*s", (int)(end - text), text);
	return true;
}

bool
ctrl_rank_token_is(const struct ctrl_job *job, const char *text, unsigned int *rank)
{
	const char *end = strchr(text, SEPARATOR);
	unsigned long number = end == NULL ? WEIR_SOURCES_MAX : strtoul(end + 1, NULL, 10);
	struct ctrl_rank_token right;
	bool same;

	if (job == NULL || number >= WEIR_SOURCES_MAX ||
		!ctrl_job_has_member(job, (unsigned int)number) ||
		!ctrl_rank_token(job, (unsigned int)number, &right))
		return false;
	/* The whole text is compared, so that a rank has one spelling. */
	same = strlen(text) == strlen(right.text) &&
		CRYPTO_memcmp(text, right.text, strlen(right.text)) == 0;
	OPENSSL_cleanse(&right, sizeof(right));
	*rank = (unsigned int)number;
	return same;
}
