/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a member of a job and the control API say to each other, as JSON: docs/openapi.yaml. Nothing
 * here sends, waits or keeps anything.
 */
#ifndef APPS_HOST_MEMBER_H
#define APPS_HOST_MEMBER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/launch.h"
#include "apps/libweir/weir.h"

/* What the switch answers to a member that joins. */
struct weir_member {
	uint8_t job, source;
	uint64_t membership; /* of this join, to leave with; 0: the switch has not said */
	uint16_t window, elements;
	struct in_addr address; /* the switch's */
	uint16_t port_base, port_ext;
	uint8_t key[2 * WEIR_KEY_BYTES]; /* of an authenticated job: the source's, the results' */
	bool authenticated; /* there is one */
};

/* The body that joins. The caller frees it; NULL: no memory, or text that is not UTF-8. */
char *weir_member_request(
	const struct weir_config *config, const struct weir_launch *who, const char *address);

/*
 * Read the answer to it. Keys that are not known are a newer switch's, and passed over. The
 * job's key is gone from the body then, and nowhere but in member: the caller's to cleanse.
 *
 * @return 0; or -EPROTO and why, in text
 */
int weir_member_read(char *body, size_t length, const struct weir_launch *who,
	struct weir_member *member, char *text, size_t size);

/* The switch's address from an answer to GET /v1/status. As weir_member_read. */
int weir_member_read_status(
	const char *body, size_t length, struct in_addr *address, char *text, size_t size);

/* What a refusal is about. */
struct weir_refused {
	const char *where; /* the control address */
	const char *job; /* its name */
	const char *token_from; /* where the token is from; NULL: none was sent */
};

/*
 * Say what an answer with another status than 200 means, and what to do.
 *
 * @return -EACCES (401, 403), -EDQUOT (403, a quota), -ENOENT (404, no such job), -EADDRINUSE (409,
 * another host has this rank), -EPROTO (409, another size; and whatever no switch says), -ENOSPC
 * (507), -EINVAL (400), -EBUSY (429, 503)
 */
int weir_member_refused(const struct weir_refused *refused, long status, const char *body,
	size_t length, char *text, size_t size);

#endif
