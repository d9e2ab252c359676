/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/recovery.h"

#define SILENCE_MOST 16 /* doublings of the probe timeout */

void
weir_recovery_init(struct weir_recovery *r, uint32_t window)
{
	*r = (struct weir_recovery){
		.window = window, .gap = WEIR_GAP_FIRST, .adapts = true, .may_probe = true};
	TAILQ_INIT(&r->ready);
	TAILQ_INIT(&r->flying);
	weir_rtt_init(&r->rtt);
}

void
weir_recovery_clear(struct weir_recovery *r)
{
	struct weir_flight *f;

	while ((f = TAILQ_FIRST(&r->ready)) != NULL || (f = TAILQ_FIRST(&r->flying)) != NULL)
		weir_flight_idle(r, f);
	r->retry_at = 0;
}

/* The time from the last packet about a flight to the next. */
static uint64_t
timeout(const struct weir_recovery *r)
{
	uint64_t pto = weir_pto(&r->path) << r->silence;

	return r->may_probe && pto < r->rtt.rto ? pto : r->rtt.rto;
}

/* When the first flight counts as lost because later ones were answered; UINT64_MAX: not now. */
static uint64_t
gap_at(const struct weir_recovery *r, const struct weir_flight *first)
{
	return first->number + r->gap <= r->answered ? r->answered_at + r->scatter : UINT64_MAX;
}

/* When the first flight is overdue. While results come, gap detection finds the missing ones. */
static uint64_t
overdue_at(const struct weir_recovery *r, const struct weir_flight *first)
{
	uint64_t quiet = first->asked_at;

	if (r->may_probe && r->answered_at > quiet)
		quiet = r->answered_at;
	return quiet + timeout(r);
}

struct weir_flight *
weir_recovery_lost(struct weir_recovery *r, uint64_t now, bool gives_up)
{
	struct weir_flight *f;
	bool by_gap;

	while ((f = TAILQ_FIRST(&r->flying)) != NULL) {
		by_gap = gap_at(r, f) <= now;
		if (!by_gap && (overdue_at(r, f) > now || (r->allowance == 0 && now < r->probe_at)))
			return NULL;
		if (!by_gap && r->allowance == 0) {
			if (gives_up && r->rtt.rto == r->rtt.most) {
				weir_flight_idle(r, f);
				continue;
			}
			if (timeout(r) >= r->rtt.rto)
				weir_rtt_back_off(&r->rtt);
			r->silence += r->silence < SILENCE_MOST;
			r->allowance = WEIR_PROBE;
			r->probe_at = now + timeout(r);
		}
		r->allowance -= !by_gap;
		f->found_by_gap = by_gap;
		/* Repeat it if asking does not help. */
		f->is_probe = r->may_probe && (f->probes < 2 || f->sent_at + r->rtt.base > now);
		weir_flight_ready(r, f);
		return f;
	}
	return NULL;
}

static uint64_t
since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 1;
}

void
weir_recovery_answered(struct weir_recovery *r, const struct weir_flight *f, uint64_t now)
{
	const uint64_t ago = since(f->sent_at, now);
	/* Karn's rule: otherwise it is unknown which transmission was answered. */
	const bool sent_once = f->tries == 1;

	r->answered_at = now;
	r->silence = 0;
	r->allowance = r->may_probe            ? 0
		: r->allowance + 2 < r->window ? r->allowance + 2
					       : r->window;
	if (sent_once && f->probes == 0 && !f->is_at_switch) {
		if (f->number > r->answered)
			r->answered = f->number;
		weir_path_sample(&r->path, ago, false);
	} else if (r->adapts && f->found_by_gap && since(f->asked_at, now) < r->path.srtt / 4) {
		r->gap = r->gap * 2 < r->window ? r->gap * 2 : r->window;
	}
	if (r->adapts && sent_once)
		weir_rtt_sample(&r->rtt, ago);
	weir_rtt_answered(&r->rtt);
	/* Silence may have moved the next probes far away: bring them closer. */
	if (r->adapts && r->probe_at > now && r->probe_at > now + 2 * timeout(r))
		r->probe_at = now + 2 * timeout(r);
}

bool
weir_recovery_probed(struct weir_recovery *r, struct weir_flight *f, bool is_there, uint64_t now)
{
	const struct weir_flight *next;

	if (f->probes == 0)
		return false; /* a late copy: it was repeated since */
	if (f->probes == 1)
		weir_path_sample(&r->path, since(f->asked_at, now), true);
	f->probes = 0;
	if (!is_there) {
		/* Only for the first loss: if a repetition was lost too, the switch holds the block
		 * back. */
		r->allowance += f->tries == 1 ? 2 : 0;
		f->is_probe = false;
		weir_flight_ready(r, f);
		return true;
	}
	f->is_at_switch = true;
	f->asked_at = now;
	f->number = r->transmissions;
	if (f->state == WEIR_FLIGHT_FLYING) {
		TAILQ_REMOVE(&r->flying, f, link);
		TAILQ_INSERT_TAIL(&r->flying, f, link);
	}
	next = TAILQ_FIRST(&r->flying);
	r->allowance += next != NULL && !next->is_at_switch;
	return false;
}

uint64_t
weir_recovery_due(const struct weir_recovery *r)
{
	const struct weir_flight *first = TAILQ_FIRST(&r->flying);
	uint64_t due = UINT64_MAX, at;

	if (first != NULL) {
		due = overdue_at(r, first);
		if (r->allowance == 0 && due < r->probe_at)
			due = r->probe_at;
		at = gap_at(r, first);
		due = at < due ? at : due;
	}
	if (r->retry_at != 0 && r->retry_at < due && !TAILQ_EMPTY(&r->ready))
		due = r->retry_at;
	return due;
}
