/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The JSON bodies of requests to the control API and of its answers: docs/openapi.json. Nothing
 * here sends, waits or keeps anything.
 */
#ifndef APPS_LIBWEIR_CONTROL_JSON_H
#define APPS_LIBWEIR_CONTROL_JSON_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/control.h"
#include "apps/libweir/weir.h"

/* What the switch answers to a member that joins. */
struct weir_member {
	uint32_t job, source, size;
	uint64_t membership; /* of this join, to leave with; 0: unknown */
	uint32_t window, elements;
	uint32_t expire_s; /* a member silent for this time expires; 0: never, or unknown */
	struct in_addr address; /* the switch's */
	uint32_t port_base, port_ext;
	uint16_t mtu; /* of the switch's links, the least; 0: unknown */
	uint16_t datagram_bytes; /* of a full block, with IPv4 and UDP headers; 0: unknown */
	uint8_t key[WEIR_KEY_BYTES]; /* of the source, for this membership */
	bool has_key;
};

#define WEIR_EXPIRE_MAX 1000000 /* s */

/* The body that joins. The caller frees it; NULL: no memory, or text that is not UTF-8. */
char *weir_member_request(const struct weir_config *config, const struct weir_launcher *launcher,
	const char *address);

/*
 * Read the answer to the join. Unknown keys are skipped: a newer switch may send them. The source's
 * key is moved from body to member: the caller cleanses member. 0, or -EPROTO with the reason in
 * text.
 */
int weir_member_read(char *body, size_t length, const struct weir_launcher *launcher,
	struct weir_member *member, char *text, size_t size);

/*
 * How long a member may send nothing before it repeats its join (ns): 10 s, or a third of expire_s
 * if that is less, so that two repeats may be lost. Never less than a third of a second.
 */
uint64_t weir_member_keepalive(const struct weir_member *member);

/* The switch's address from an answer to GET /v1/status. As weir_member_read. */
int weir_member_read_status(
	const char *body, size_t length, struct in_addr *address, char *text, size_t size);

/* What a refusal is about. */
struct weir_refused {
	const char *where; /* the control address */
	const char *job; /* its name */
	const char *token_from; /* where the token was found; NULL: none was sent */
};

/*
 * Explain an answer with another status than 200, and what to do: -EACCES (401, 403), -EDQUOT (403,
 * a quota), -ENOENT (404, no such job), -EADDRINUSE (409, another host has this rank), -EPROTO
 * (409, another size; or not a switch), -ENOSPC (507), -EINVAL (400), -EBUSY (429, 503).
 */
int weir_member_refused(const struct weir_refused *refused, long status, const char *body,
	size_t length, char *text, size_t size);

/* A member that asks what the switch knows of its job. */
struct weir_job_query {
	char *text; /* for the reason, of `size` bytes */
	size_t size;
	const char *where; /* the control address */
	const char *name; /* of the job */
	const char *address; /* own, dotted */
	uint8_t job, source;
	uint16_t generation; /* 0: none has begun here yet */
	uint64_t membership; /* 0: unknown */
	double joined_s; /* since this member joined, while the job has not begun; else 0 */
	const uint8_t *present; /* bitmap of the present sources; NULL: the switch is silent */
	bool temporary; /* from the answer: the job is temporary, and a generation has begun here */
};

/*
 * Read the answer to GET /v1/jobs/NAME. With the reason in text: -ENOENT, the job is gone; -EACCES,
 * the source is no longer a member; -EEXIST, a newer member has this rank, and this one has not
 * begun; -ECONNABORTED, another member left after this one joined, and the job has not begun, or
 * the job is temporary, and another member that is not present has left or expired; -ESTALE, the
 * job has another generation. 0: none of these; text is then empty, or an addition to the host's
 * own message, such as "; the switch waits for rank 1 (10.77.0.2, ...)".
 */
int weir_job_query_read(struct weir_job_query *query, long status, const char *body, size_t length);

/* If the answer to GET /v1/blocks?stuck=1 says that the block waits for other sources, name them as
 * weir_job_query_read() does; else leave text as it is. 0, or -ECONNABORTED as there. */
int weir_job_query_read_block(const struct weir_job_query *query, const char *body, size_t length);

#endif
