/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch: included by block.pml and tree.pml. They define:
 *   SHARD(b)    the index of a block's residue in `current`, `previous`, `next` and `generation`
 *   TO(r, s)    who is told what concerns source s of that residue's switch
 *   VALUE(s)    the values that the contribution at hand carries: a set
 *   LIES        it carries others
 *   ADDED(r, s) what the checker notes when it is added
 *   CLAIM(rec)  the values that a result of the record claims to have
 *   BUSY(rec)   the record's block is not done
 *   BUFFERS(r)  counts the buffers of the switch
 */

/* ---- block: block.c ---- */

inline release(r)
{
	previous[r].state = nothing;
	previous[r].block = 0;
	previous[r].heard = 0;
	previous[r].received = 0;
	previous[r].sum = 0;
	previous[r].spoilt = false;
	previous[r].says = 0;
	BUFFERS(r)--
}

/* Who is known to have the result of `previous`. */
#define RECEIVED(r) (current[r].heard | current[r].received | previous[r].received)

/* After a contribution to this block's record, which is `current` when `newest`. */
inline block_release_previous(r, newest)
{
	if
#ifdef BUG_RELEASED_EARLY
	:: newest && previous[r].state != nothing -> release(r)
#else
	:: newest && (RECEIVED(r) | EXPELLED(r)) == ALL && previous[r].state != nothing -> release(r)
#endif
	:: else -> skip
	fi
}

inline block_emit(r, rec, only)
{
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		if
		:: ((only) == NONE || (only) == i) && REACHES(r, i) ->
			tell(TO(r, i), PAIR(generation[r], rec.block), rec.says)
		:: else -> skip
		fi;
		i++
	od
}

/* status: what the result claims: ALL for ok, the bitmap for partial, or SAYS_ERROR. */
inline block_finish(r, rec, newest, status)
{
	rec.state = done;
	if
	:: (status) != SAYS_ERROR && (rec.spoilt || rec.sum != (status)) -> rec.says = SAYS_WRONG
	:: else -> rec.says = status
	fi;
	rec.sum = 0;
	rec.spoilt = false;
	block_release_previous(r, newest)
}

inline fill(r, rec, b)
{
	rec.state = open;
	rec.block = b;
	rec.heard = 0;
	rec.received = 0;
	rec.sum = 0;
	rec.spoilt = false;
	rec.says = 0;
	BUFFERS(r)++;
	assert(BUFFERS(r) <= 2 * WINDOW)
}

inline open_next(r, b)
{
	if
	:: current[r].state == done ->
		previous[r].state = done;
		previous[r].block = current[r].block;
		previous[r].heard = current[r].heard;
		previous[r].received = current[r].received;
		previous[r].says = current[r].says
	:: else -> skip
	fi;
	next[r] = next[r] + WINDOW;
	fill(r, current[r], b)
}

/* The source has the result of this block. */
inline block_acknowledge(r, rec, s)
{
#ifdef BUG_NOT_ACKNOWLEDGED
	skip
#else
	rec.received = rec.received | (1 << s);
	if
	:: current[r].state == done -> block_release_previous(r, true)
	:: else -> skip /* while the next one is open, its end will do it */
	fi
#endif
}

inline block_begin(r, s, e, b)
{
	if
#ifdef BUG_FRESH_RECORD
	:: b < next[r] ->
		fill(r, fresh, b);
		block_aggregate(r, fresh, false, s, e)
#else
	:: b < next[r] ->
#ifdef ORDERED
		assert(b >= next[r]); /* something has overtaken it */
#endif
		tell(TO(r, s), PAIR(e, b), SAYS_EXPIRED)
#endif
	:: b > next[r] || (b == next[r] && BUSY(current[r])) ->
		tell(TO(r, s), PAIR(e, b), SAYS_WINDOW)
	:: b == next[r] && !BUSY(current[r]) ->
		if
		/* Who sends it has the result of the one before, whatever has become of what it sent. */
		:: previous[r].state != nothing -> block_acknowledge(r, current[r], s)
		:: else -> skip
		fi;
		if
#ifndef BUG_NOT_HELD_BACK
		:: previous[r].state != nothing -> skip /* held back: a third buffer */
#endif
		:: else ->
			open_next(r, b);
			block_aggregate(r, current[r], true, s, e)
		fi
	fi
}

/* ---- block: block.c, contribution.c, reduce.c ---- */

/* A contribution to a finished block: its sender has lost the result, or never was in it. */
inline answer_late(r, rec, newest, s)
{
#ifdef BUG_LATE_ADDED
	if
	:: !HAS(rec.heard, s) && (rec.heard | (1 << s)) == ALL -> rec.says = ALL
	:: else -> skip
	fi;
#endif
#ifdef BUG_LATE_INCLUDED
	if
	:: PARENT(r) -> rec.says = rec.says | (1 << TO(r, s))
	:: else -> skip
	fi;
#endif
	rec.heard = rec.heard | (1 << s);
	block_release_previous(r, newest);
#ifndef BUG_NOT_ANSWERED
	block_emit(r, rec, s)
#endif
}

inline block_add_payload(r, rec, s, e)
{
	if
	:: (rec.sum & VALUE(s)) || e != generation[r] || LIES -> rec.spoilt = true
	:: else -> skip
	fi;
	rec.sum = rec.sum | VALUE(s);
	ADDED(r, s)
}

inline complete(r, rec, newest)
{
#ifdef PARENT
	if
	:: PARENT(r) -> parent_contribute(r, rec)
	:: else -> block_finish(r, rec, newest, CLAIM(rec)); block_emit(r, rec, NONE)
	fi
#elif defined(BUG_EXPELLED_IN_RESULT)
	block_finish(r, rec, newest, ALL);
	block_emit(r, rec, NONE)
#else
	block_finish(r, rec, newest, CLAIM(rec));
	block_emit(r, rec, NONE)
#endif
}

inline block_aggregate(r, rec, newest, s, e)
{
	if
	:: rec.state == done -> answer_late(r, rec, newest, s)
#ifdef PARENT
	:: rec.state == above -> parent_block_pending(r, rec, s)
#endif
#ifdef BUG_DUPLICATE_ADDED
	:: rec.state == open && HAS(rec.heard, s) -> block_add_payload(r, rec, s, e)
#else
	:: rec.state == open && HAS(rec.heard, s) -> skip /* duplicate() */
#endif
	:: rec.state == open && !HAS(rec.heard, s) ->
		block_add_payload(r, rec, s, e);
		rec.heard = rec.heard | (1 << s);
#ifdef BUG_RELEASED_EARLY
		block_release_previous(r, newest);
#endif
		if
		:: (rec.heard | EXPELLED(r)) == ALL -> complete(r, rec, newest)
		:: else -> skip
		fi
	fi
}

#ifdef AWAY
/* ---- block: admit.c, control.c ---- */

inline block_acknowledged(r, s, e, b)
{
	if
	:: b == next[r] && current[r].state == done -> block_acknowledge(r, current[r], s)
	:: current[r].state != nothing && current[r].block == b ->
		if
		:: previous[r].state != nothing -> block_acknowledge(r, previous[r], s)
		:: else -> skip
		fi;
#ifdef BUG_ACKNOWLEDGEMENT_COUNTED
		if
		:: current[r].state == open -> current[r].heard = current[r].heard | (1 << s)
		:: else -> skip
		fi;
		if
		:: current[r].state == open && current[r].heard == ALL ->
			block_finish(r, current[r], true, ALL);
			block_emit(r, current[r], NONE)
		:: else -> skip
		fi;
#endif
#ifndef BUG_ACKNOWLEDGEMENT_NOT_ANSWERED
		if
		:: current[r].state == done && !HAS(current[r].received, s) ->
			block_emit(r, current[r], s)
		:: else -> skip
		fi
#else
		skip
#endif
	:: previous[r].state != nothing && previous[r].block == b && !HAS(RECEIVED(r), s) ->
		block_emit(r, previous[r], s)
	:: else -> skip
	fi
}
#endif

inline block_admit(s, e, b, acknowledges)
{
	r = SHARD(b);
	if
#ifdef BUG_ANY_GENERATION
	:: generation[r] == 0 -> tell(TO(r, s), PAIR(e, b), SAYS_STALE)
#else
	:: generation[r] == 0 || NUMBER(e) != NUMBER(generation[r]) || REVOKED(r) ->
		tell(TO(r, s), PAIR(e, b), SAYS_STALE)
#endif
#ifdef DEAD_AFTER
	:: generation[r] != 0 && NUMBER(e) == NUMBER(generation[r]) && HAS(expelled[r], s) ->
		tell(TO(r, s), PAIR(e, b), SAYS_EXPIRED)
#endif
#ifdef AWAY
	:: generation[r] != 0 && NUMBER(e) == NUMBER(generation[r]) && !HAS(EXPELLED(r), s) &&
		acknowledges -> block_acknowledged(r, s, e, b)
#endif
	:: else ->
		if
		:: current[r].state != nothing && current[r].block == b ->
			block_aggregate(r, current[r], true, s, e)
		:: previous[r].state != nothing && previous[r].block == b ->
			block_aggregate(r, previous[r], false, s, e)
		:: else -> block_begin(r, s, e, b)
		fi
	fi
}

#ifndef PARENT
/* ---- block: timeout.c ---- */

#define STRAGGLES(r) (POLICY != WAIT_FOR_ALL && current[r].state == open)

inline straggler(r)
{
#if POLICY == PARTIAL
#ifdef BUG_NO_BITMAP
	block_finish(r, current[r], true, ALL);
#else
	block_finish(r, current[r], true, current[r].heard);
#endif
#else
	block_finish(r, current[r], true, SAYS_ERROR);
#endif
	block_emit(r, current[r], NONE)
}

#ifdef DEAD_AFTER
/* The next block of the residue is held back, and who is not heard is silent for long enough. */
#define HOLDS_UP(r) (current[r].state == done && previous[r].state != nothing && \
	current[r].heard != 0 && (RECEIVED(r) | expelled[r]) != ALL)

inline block_expel_silent(r)
{
	expelled[r] = ALL & ~RECEIVED(r);
	excused = true;
	block_release_previous(r, true)
}
#endif

#include "join.pml"

/* A contribution has come, and may come again. */
inline receive(p)
{
	if
	:: !KEEPS -> up = up & ~(1 << p)
	:: !KEEPS && duplicates > 0 -> duplicates--
	:: KEEPS -> skip
	fi
}

#ifdef BATCH
/* ---- block: batch.c ---- */

#define LANES 4
#define FITS(r, s, e, b) (generation[r] != 0 && NUMBER(e) == NUMBER(generation[r]) && !REVOKED(r) && \
	!HAS(EXPELLED(r), s) && (current[r].state != nothing && current[r].block == b -> \
		current[r].state == open && !HAS(current[r].heard, s) : \
		b == next[r] && previous[r].state == nothing && current[r].state != open))

inline assign(r, s, b)
{
	if
	:: current[r].state == nothing || current[r].block != b -> open_next(r, b)
	:: else -> skip
	fi;
#ifndef BUG_HEARD_WHEN_ADDED
	current[r].heard = current[r].heard | (1 << s);
#endif
	if
	:: HAS(group[r], s) -> current[r].spoilt = true
	:: else -> group[r] = group[r] | (1 << s)
	fi
}

/* The group is added; then what sum() and finish() make of it. */
inline finish(r)
{
	s = 0;
	do
	:: s == SOURCES -> break
	:: else ->
		if
		:: HAS(group[r], s) ->
			block_add_payload(r, current[r], s, generation[r]);
			current[r].heard = current[r].heard | (1 << s)
		:: else -> skip
		fi;
		s++
	od;
	if
	:: group[r] != 0 && (current[r].heard | EXPELLED(r)) == ALL ->
		block_finish(r, current[r], true, current[r].heard);
		block_emit(r, current[r], NONE)
	:: else -> skip
	fi;
	group[r] = 0
}

/* Any packets that fit, in any order, and none that a packet of its source must come before; all are
 * assigned, then each group is added. No thread runs meanwhile. The others stay, for threads. */
inline batch()
{
	lanes = 0;
	do
	:: lanes < LANES && up != 0 ->
		pick(up, p);
#if defined(ORDERED) && !defined(BUG_OVERTAKES)
		oldest(up, p);
#endif
		s = p / PAIRS;
		e = (p % PAIRS) / BLOCKS + 1;
		b = p % BLOCKS;
		r = b % WINDOW;
		if
		:: !FITS(r, s, e, b) -> break
		:: else -> receive(p); assign(r, s, b); lanes++
		fi
	:: lanes > 0 -> break
	od;
	r = 0;
	do
	:: r == WINDOW -> break
	:: else -> finish(r); r++
	od
}
#endif

proctype Switch()
{
	byte p, s, e, b, r, i;
#ifdef BATCH
	byte lanes, group[WINDOW]; /* sources whose contributions are to be added to `current` */
#endif

end:
	do
#ifdef BATCH
	:: atomic { up != 0 -> batch(); lanes = 0; p = 0; s = 0; e = 0; b = 0; r = 0; i = 0 }
#endif
	:: atomic { up != 0 ->
			pick(up, p);
#ifdef ORDERED
			oldest(up, p);
#endif
			receive(p);
			d_step {
				s = p / PAIRS;
				e = (p % PAIRS) / BLOCKS + 1;
				b = p % BLOCKS;
				block_admit(s, e, b, false);
				p = 0; s = 0; e = 0; b = 0; r = 0; i = 0
			}
		}
#ifdef AWAY
	:: atomic { acks != 0 ->
			pick(acks, p);
			if
			:: !KEEPS -> acks = acks & ~(1 << p)
			:: !KEEPS && duplicates > 0 -> duplicates--
			:: KEEPS -> skip
			fi;
			d_step {
				s = p / PAIRS;
				e = (p % PAIRS) / BLOCKS + 1;
				b = p % BLOCKS;
				block_admit(s, e, b, true);
				p = 0; s = 0; e = 0; b = 0; r = 0; i = 0
			}
		}
#endif
	:: atomic { join_up[0] != 0 -> take_join(0) }
	:: atomic { join_up[1] != 0 -> take_join(1) }
#if SOURCES == 3
	:: atomic { join_up[2] != 0 -> take_join(2) }
#endif
	:: d_step { STRAGGLES(0) -> straggler(0); i = 0 }
#if WINDOW == 2
	:: d_step { STRAGGLES(1) -> straggler(1); i = 0 }
#endif
#ifdef DEAD_AFTER
	:: d_step { HOLDS_UP(0) -> block_expel_silent(0); r = 0 }
#if WINDOW == 2
	:: d_step { HOLDS_UP(1) -> block_expel_silent(1); r = 0 }
#endif
#endif
	:: d_step { walking != 0 -> adopt(); r = 0; i = 0 }
#ifdef REVOKE
	:: d_step { revoking != 0 -> revoke(); r = 0 }
#endif
	:: d_step { following != 0 -> endpoint_update() }
	:: d_step { restarts > 0 -> restarts--; restart(); r = 0; i = 0 }
	od;
}
#endif
