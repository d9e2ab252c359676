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

const struct ctrl_job *
ctrl_rank_token_find(struct ctrl_running *running, const char *text, unsigned int *rank)
{
	const char *end = strchr(text, SEPARATOR);
	char name[PPE_JOB_NAME_MAX];
	struct ctrl_rank_token right;
	const struct ctrl_job *job;
	unsigned long number;
	bool same;

	if (end == NULL || end - text >= PPE_JOB_NAME_MAX)
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)(end - text), text);
	job = ctrl_running_find_job(running, name);
	number = strtoul(end + 1, NULL, 10);
	if (job == NULL || number >= WEIR_SOURCES_MAX ||
		!ctrl_job_has_member(job, (unsigned int)number) ||
		!ctrl_rank_token(job, (unsigned int)number, &right))
		return NULL;
	/* The whole text is compared, so that a rank has one spelling. */
	same = strlen(text) == strlen(right.text) &&
		CRYPTO_memcmp(text, right.text, strlen(right.text)) == 0;
	OPENSSL_cleanse(&right, sizeof(right));
	*rank = (unsigned int)number;
	return same ? job : NULL;
}
