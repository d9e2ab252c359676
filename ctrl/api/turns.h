/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which request is served next.
 *
 * One thread serves all callers, the watchdog and the timers. So requests queue, administrators'
 * first, and the others by caller: the tenant or job of a token; without one, a network or a user
 * of the Unix socket. Callers take turns. A handler whose answer takes longer than a turn continues
 * in its caller's next turn.
 *
 * Each caller but administrators has a budget of the thread's CPU time: API_SHARE_OF_TIME, of which
 * API_BURST_S can be saved. A caller in debt waits until the debt is paid. The budget is stored as
 * the time when it is full again, as in ATM's generic cell rate algorithm. An account without
 * requests and with a full budget is freed, so accounts are few, however many callers come and go.
 *
 * An answer may have megabytes, and a client may be slow to read it: a caller has at most API_OPEN
 * answers that have begun and are not yet sent.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_API_TURNS_H
#define CTRL_API_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ctrl/config/config.h"

#define API_SHARE_OF_TIME 0.2
#define API_BURST_S       0.5
#define API_OPEN          8

/* A caller that is no administrator. Clear it before setting fields: padding is compared, too. */
struct api_owner {
	char tenant[CTRL_NAME_BYTES]; /* "": none */
	uint32_t job; /* of a rank's token of a job without a tenant: the job's instance; 0: none */
	uint64_t network; /* of a client over TCP without a token */
	uint32_t uid; /* of a client over the Unix socket */
	bool is_local;
};

struct api_account;

/* A request's place; part of the request. */
struct api_turn {
	TAILQ_ENTRY(api_turn) next;
	struct api_account *account; /* NULL: an administrator's */
	double queued_at; /* CLOCK_MONOTONIC, s */
	bool queued;
	bool has_begun; /* its handler has run */
};

TAILQ_HEAD(api_turn_queue, api_turn);

struct api_turns {
	struct api_turn_queue administrators;
	TAILQ_HEAD(, api_account) accounts; /* in order of their next turns */
};

void api_turns_init(struct api_turns *turns);

/* Free the accounts, after the end of all requests. */
void api_turns_free(struct api_turns *turns);

/* Queue a new request. owner: NULL: an administrator. 0, or -ENOMEM; after 0, api_turns_end is due.
 * Cost: linear in the accounts. */
int api_turns_begin(
	struct api_turns *turns, struct api_turn *turn, const struct api_owner *owner, double now);

/* Queue a request that has been served in part: before its caller's others. */
void api_turns_again(struct api_turns *turns, struct api_turn *turn, double now);

/* Remove the next request from the queue. NULL: none may be served now. */
struct api_turn *api_turns_next(struct api_turns *turns, double now);

/* Charge `seconds` of CPU time to a request's caller. */
void api_turns_charge(struct api_turn *turn, double seconds, double now);

/* The answer is sent, or never will be: forget the request, even if it is queued. */
void api_turns_end(struct api_turns *turns, struct api_turn *turn);

/* Seconds until api_turns_next may have a request: 0: now; INFINITY: not before another one is
 * queued or ends. */
double api_turns_wait(const struct api_turns *turns, double now);

/* Remove a request from the queue that has waited for `patience` seconds and has not begun, because
 * its caller is in debt or does not read its answers. NULL: there is none. */
struct api_turn *api_turns_late(struct api_turns *turns, double patience, double now);

/* Seconds until the caller of a request has paid its debt; 0: it has none. */
double api_turns_debt(const struct api_turn *turn, double now);

#endif
