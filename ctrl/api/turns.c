/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/turns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct api_account {
	TAILQ_ENTRY(api_account) next;
	struct api_owner owner;
	struct api_turn_queue queue; /* requests that have begun come first */
	unsigned int requests; /* queued or not */
	unsigned int open; /* of these, those that have begun */
	double full_at; /* CLOCK_MONOTONIC, s */
};

void
api_turns_init(struct api_turns *turns)
{
	TAILQ_INIT(&turns->administrators);
	TAILQ_INIT(&turns->accounts);
}

void
api_turns_free(struct api_turns *turns)
{
	struct api_account *account;

	while ((account = TAILQ_FIRST(&turns->accounts)) != NULL) {
		TAILQ_REMOVE(&turns->accounts, account, next);
		free(account);
	}
}

/* Find an owner's account, and free those that need not be kept. */
static struct api_account *
find(struct api_turns *turns, const struct api_owner *owner, double now)
{
	struct api_account *account, *next, *found = NULL;

	for (account = TAILQ_FIRST(&turns->accounts); account != NULL; account = next) {
		next = TAILQ_NEXT(account, next);
		if (memcmp(&account->owner, owner, sizeof(*owner)) == 0) {
			found = account;
		} else if (account->requests == 0 && account->full_at <= now) {
			TAILQ_REMOVE(&turns->accounts, account, next);
			free(account);
		}
	}
	return found;
}

static struct api_account *
find_or_add(struct api_turns *turns, const struct api_owner *owner, double now)
{
	struct api_account *account = find(turns, owner, now);

	if (account != NULL)
		return account;
	account = calloc(1, sizeof(*account));
	if (account == NULL)
		return NULL;
	account->owner = *owner;
	TAILQ_INIT(&account->queue);
	TAILQ_INSERT_TAIL(&turns->accounts, account, next);
	return account;
}

int
api_turns_begin(
	struct api_turns *turns, struct api_turn *turn, const struct api_owner *owner, double now)
{
	struct api_account *account = NULL;

	if (owner != NULL) {
		account = find_or_add(turns, owner, now);
		if (account == NULL)
			return -ENOMEM;
		account->requests++;
	}
	*turn = (struct api_turn){.account = account, .queued_at = now, .queued = true};
	TAILQ_INSERT_TAIL(account == NULL ? &turns->administrators : &account->queue, turn, next);
	return 0;
}

void
api_turns_again(struct api_turns *turns, struct api_turn *turn, double now)
{
	turn->queued = true;
	turn->queued_at = now;
	if (turn->account == NULL)
		TAILQ_INSERT_TAIL(&turns->administrators, turn, next);
	else
		TAILQ_INSERT_HEAD(&turn->account->queue, turn, next);
}

static double
debt(const struct api_account *account, double now)
{
	return fmax(0, account->full_at - now - API_BURST_S / API_SHARE_OF_TIME);
}

/* The account's next request; NULL: there is none, or it must not begin. */
static struct api_turn *
first(const struct api_account *account)
{
	struct api_turn *turn = TAILQ_FIRST(&account->queue);

	return turn != NULL && (turn->has_begun || account->open < API_OPEN) ? turn : NULL;
}

static void
take(struct api_turns *turns, struct api_turn *turn)
{
	struct api_account *account = turn->account;

	TAILQ_REMOVE(account == NULL ? &turns->administrators : &account->queue, turn, next);
	turn->queued = false;
}

struct api_turn *
api_turns_next(struct api_turns *turns, double now)
{
	struct api_turn *turn = TAILQ_FIRST(&turns->administrators);
	struct api_account *account;

	if (turn != NULL) {
		take(turns, turn);
		return turn;
	}
	TAILQ_FOREACH (account, &turns->accounts, next) {
		turn = first(account);
		if (turn == NULL || debt(account, now) > 0)
			continue;
		take(turns, turn);
		account->open += !turn->has_begun;
		turn->has_begun = true;
		TAILQ_REMOVE(&turns->accounts, account, next);
		TAILQ_INSERT_TAIL(&turns->accounts, account, next);
		return turn;
	}
	return NULL;
}

void
api_turns_charge(struct api_turn *turn, double seconds, double now)
{
	struct api_account *account = turn->account;

	if (account != NULL)
		account->full_at = fmax(account->full_at, now) + seconds / API_SHARE_OF_TIME;
}

void
api_turns_end(struct api_turns *turns, struct api_turn *turn)
{
	if (turn->queued)
		take(turns, turn);
	if (turn->account == NULL)
		return;
	turn->account->requests--;
	turn->account->open -= turn->has_begun;
	turn->account = NULL;
}

double
api_turns_wait(const struct api_turns *turns, double now)
{
	const struct api_account *account;
	double wait = INFINITY;

	if (!TAILQ_EMPTY(&turns->administrators))
		return 0;
	TAILQ_FOREACH (account, &turns->accounts, next)
		if (first(account) != NULL)
			wait = fmin(wait, debt(account, now));
	return wait;
}

struct api_turn *
api_turns_late(struct api_turns *turns, double patience, double now)
{
	struct api_account *account;
	struct api_turn *turn;

	TAILQ_FOREACH (account, &turns->accounts, next) {
		if (debt(account, now) <= 0 && account->open < API_OPEN)
			continue;
		TAILQ_FOREACH (turn, &account->queue, next)
			if (!turn->has_begun && turn->queued_at + patience < now) {
				take(turns, turn);
				return turn;
			}
	}
	return NULL;
}

double
api_turns_debt(const struct api_turn *turn, double now)
{
	return turn->account == NULL ? 0 : debt(turn->account, now);
}
