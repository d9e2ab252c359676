/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery: when a packet that has no answer yet is sent again. It has two users: the window
 * (window.c), whose slots contribute blocks, and unexpected results (unexpected.c), whose residues
 * acknowledge them. It sends nothing itself: it says which flights are lost, and keeps them in
 * lists. Under the lock; times in ns.
 *
 * A flight goes through the states idle -> ready -> flying -> (ready -> flying ->)* idle. `flying`
 * is in the order of transmission: its head is the next to time out (one timeout for all, RFC 6298
 * with a common back-off), and the first of a gap. Of the window's flights
 * (tests/spin/test_names.py compares this list with the code):
 *
 *   WEIR_FLIGHT_IDLE -> WEIR_FLIGHT_READY  load: the operation begins, or the block one window
 *                                          earlier has its result
 *   WEIR_FLIGHT_READY -> WEIR_FLIGHT_FLYING  sent: the socket accepted it
 *   WEIR_FLIGHT_FLYING -> WEIR_FLIGHT_READY  weir_recovery_lost: the timer expired, or a gap
 *   WEIR_FLIGHT_FLYING -> WEIR_FLIGHT_READY  weir_recovery_probed: the answer to a probe lacks the
 *                                            contribution
 *   WEIR_FLIGHT_FLYING -> WEIR_FLIGHT_IDLE  block_answered: the result arrived
 *   WEIR_FLIGHT_READY -> WEIR_FLIGHT_IDLE  block_answered
 *   WEIR_FLIGHT_FLYING -> WEIR_FLIGHT_IDLE  weir_recovery_clear: the operations failed or timed out
 *   WEIR_FLIGHT_READY -> WEIR_FLIGHT_IDLE  weir_recovery_clear
 *
 * Gaps: a flight counts as lost when one that was sent `gap` or more transmissions later has its
 * answer (only answers to what was sent once, and not probed, prove that), and nothing has come for
 * `scatter`. The switch spreads blocks over lcores, so results may be reordered: a probe or
 * repetition that is answered far too soon was not needed, and doubles `gap`.
 *
 * Probes: a block may lack a result because it waits for another source, or because its
 * contribution or its result was lost. A probe asks the switch (docs/protocol.md): the contribution
 * is repeated only if the switch answers that it lacks it. The probe follows the contribution
 * through the same queues, so this is right even if the switch gets no CPU for a long time. If the
 * switch has the contribution, the block is probed again later, as if it had been sent now, because
 * its result may be lost. As the last resort, the contribution is repeated: after two probes of the
 * block and its retransmission timeout without an answer, or if the switch does not know probes.
 *
 * Against floods: when nothing comes for a whole timeout, the likely cause is a slow source. So
 * silence is answered with WEIR_PROBE packets, each for another flight (a single one is probed once
 * per timeout), then with as many after twice the timeout, up to the retransmission timeout, which
 * itself backs off while no result comes. An answer allows one more probe until the switch is known
 * to have all blocks, and two if the contribution was lost for the first time. So a lost window is
 * repaired as fast as in a slow start, and a straggler costs each host WEIR_PROBE packets per
 * timeout.
 */
#ifndef APPS_LIBWEIR_RECOVERY_H
#define APPS_LIBWEIR_RECOVERY_H

#include <stddef.h>
#include <sys/queue.h>

#include "apps/libweir/timing.h"

#define WEIR_PROBE     4
#define WEIR_GAP_FIRST 3

enum weir_flight_state {
	WEIR_FLIGHT_IDLE, /* in no list */
	WEIR_FLIGHT_READY, /* in `ready`: to be sent, again or for the first time, or probed */
	WEIR_FLIGHT_FLYING, /* in `flying`: sent, no answer yet */
};

struct weir_flight {
	TAILQ_ENTRY(weir_flight) link;
	uint64_t sent_at; /* of the last transmission that was no probe */
	uint64_t asked_at; /* of the last transmission, or of the answer to a probe */
	uint64_t number; /* of its last transmission, counted by `transmissions` */
	uint32_t tries; /* transmissions that were no probes */
	uint32_t probes; /* since the last of these and the last answer */
	enum weir_flight_state state;
	bool is_probe; /* the next packet to send is a probe */
	bool found_by_gap; /* gap detection caused the last probe or repetition */
	bool is_at_switch; /* the switch has said that it has the contribution */
};
TAILQ_HEAD(weir_flights, weir_flight);

struct weir_recovery {
	struct weir_flights ready, flying;
	struct weir_rtt rtt;
	struct weir_path path;
	uint32_t window; /* flights at most */
	bool adapts; /* false: the timeout without back-off and `gap` are fixed */
	bool may_probe; /* false: the switch does not know probes, or there is nothing to probe */
	unsigned int silence; /* doublings of the probe timeout */
	uint64_t transmissions; /* number of the last one */
	uint64_t answered; /* the highest one with an answer, of flights that were sent once */
	uint64_t answered_at; /* the last answer */
	uint64_t gap; /* [WEIR_GAP_FIRST, window] */
	uint64_t scatter; /* answers may come in any order for this time */
	uint64_t allowance; /* probes, or else repetitions, that timeouts may still make */
	uint64_t probe_at; /* the next probes during silence */
	uint64_t retry_at; /* when to retry a refused send; 0: not refused */
};

/* A recovery that adapts and may probe; the user changes that. */
void weir_recovery_init(struct weir_recovery *recovery, uint32_t window);
/* Make all flights idle. */
void weir_recovery_clear(struct weir_recovery *recovery);
/*
 * Make the next lost flight ready, to be probed or sent again, and return it; NULL: none. gives_up:
 * after the longest timeout without an answer, flights become idle instead.
 */
struct weir_flight *weir_recovery_lost(struct weir_recovery *recovery, uint64_t now, bool gives_up);
/* The flight, which is in no list or about to leave it, has its answer. */
void weir_recovery_answered(
	struct weir_recovery *recovery, const struct weir_flight *flight, uint64_t now);
/* A probe of the flight was answered: does the switch have the contribution? True: it does not, and
 * the flight is ready to be sent again. */
bool weir_recovery_probed(
	struct weir_recovery *recovery, struct weir_flight *flight, bool is_there, uint64_t now);
/* When to look again; UINT64_MAX. */
uint64_t weir_recovery_due(const struct weir_recovery *recovery);

static inline bool
weir_recovery_is_idle(const struct weir_recovery *recovery)
{
	return TAILQ_EMPTY(&recovery->ready) && TAILQ_EMPTY(&recovery->flying);
}

static inline void
weir_flight_idle(struct weir_recovery *recovery, struct weir_flight *flight)
{
	if (flight->state == WEIR_FLIGHT_READY)
		TAILQ_REMOVE(&recovery->ready, flight, link);
	else if (flight->state == WEIR_FLIGHT_FLYING)
		TAILQ_REMOVE(&recovery->flying, flight, link);
	flight->state = WEIR_FLIGHT_IDLE;
}

static inline void
weir_flight_ready(struct weir_recovery *recovery, struct weir_flight *flight)
{
	if (flight->state == WEIR_FLIGHT_READY)
		return;
	if (flight->state == WEIR_FLIGHT_FLYING)
		TAILQ_REMOVE(&recovery->flying, flight, link);
	flight->state = WEIR_FLIGHT_READY;
	TAILQ_INSERT_TAIL(&recovery->ready, flight, link);
}

/* Not of a flight that is flying. */
static inline void
weir_flight_sent(struct weir_recovery *recovery, struct weir_flight *flight, uint64_t now)
{
	if (flight->state == WEIR_FLIGHT_READY)
		TAILQ_REMOVE(&recovery->ready, flight, link);
	flight->state = WEIR_FLIGHT_FLYING;
	flight->asked_at = now;
	flight->number = ++recovery->transmissions;
	TAILQ_INSERT_TAIL(&recovery->flying, flight, link);
	if (flight->is_probe) {
		flight->is_probe = false;
		flight->probes++;
	} else {
		flight->sent_at = now;
		flight->probes = 0;
		flight->tries++;
	}
}

#endif
