/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a block, for the model checker spin: what docs/protocol.md promises, whatever the
 * network, slow sources, crashes and restarts do. tests/spin/check.py runs it.
 *
 * Inlines have the names of the code's functions that they stand for, in ppe/programs/ (switch) and
 * apps/host/ (sources). One atomic step is one packet handled: in the code a segment is atomic, and
 * each looks again at what may have changed since the one before.
 *
 * The network is a set of packets, so it reorders as it likes, and a packet may come as late as it
 * likes, into a later generation too. It loses LOSSES packets and delivers DUPLICATES twice; with
 * ADVERSARY it delivers any packet ever sent, at any time, as often as it likes, or never.
 *
 * Time: a block's timeout may pass at any time. A source's retransmission timer runs out when all is
 * quiet (tick); an early one is a duplicate of the network's. When ticks change nothing, sources
 * wait for ever: that is a hang, unless a crash or a restart excuses it; then somebody's operation
 * times out. So "nobody waits for ever" is an assertion here, and needs no fairness.
 *
 * An epoch is a generation that ever was, counted through by the checker; its *number* is what
 * packets bear. A value is known by its source, epoch and block. Not in the model: payload lengths
 * (mismatch), who may send (address, authentication), wrap of block ids and generations.
 */

#ifndef SOURCES
#define SOURCES 2 /* at most 3 */
#endif
#ifndef WINDOW
#define WINDOW 1
#endif
#ifndef BLOCKS
#define BLOCKS (WINDOW + 2)
#endif
#ifndef EPOCHS
#define EPOCHS 1 /* SOURCES * EPOCHS * BLOCKS is at most 30 */
#endif
#ifndef LIVES
#define LIVES 1 /* how often a source's application opens a handle: 1 + (again after a failure) */
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef DUPLICATES
#define DUPLICATES 0
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* of the switch */
#endif
#ifndef CRASHES
#define CRASHES 0 /* of sources */
#endif
#define WAIT_FOR_ALL 0
#define PARTIAL 1
#define ERROR 2
#ifndef POLICY
#define POLICY WAIT_FOR_ALL
#endif

#define ALL ((1 << SOURCES) - 1)
#define HAS(set, i) (((set) >> (i)) & 1)
#define NONE 255

/* What a packet to a source says, a number in [0, 12): a result with these sources in it, as its
 * bitmap (or, for ALL, its status) says; or a status. */
#define SAYS_WRONG 0 /* a result that is not the sum of what it says */
#define SAYS_ERROR 8
#define SAYS_STALE 9
#define SAYS_EXPIRED 10
#define SAYS_WINDOW 11

/* ---- The network ---- */
#define PAIR(e, b) (((e) - 1) * BLOCKS + (b))
#define PAIRS (EPOCHS * BLOCKS)
int up; /* contributions: bit source * PAIRS + PAIR */
short down[SOURCES * PAIRS]; /* to a source about (epoch, block): bits SAYS_... */
int mail[SOURCES]; /* bit PAIR: something is in `down` */
byte join_up[SOURCES]; /* bit: nonce, which is the source's life + 1 */
short join_down[SOURCES * LIVES]; /* accepted, by life; bit: epoch */
byte losses = LOSSES, duplicates = DUPLICATES;

/* ---- The switch ---- */
mtype = {nothing, open, done};
typedef record {
	mtype state = nothing;
	byte block;
	byte heard;
	byte sum; /* whose values are in the buffer */
	bool spoilt; /* a value twice, or of another epoch */
	byte says; /* once done */
};
record current[WINDOW], previous[WINDOW]; /* by residue, as struct slot */
#ifdef BUG_FRESH_RECORD
record fresh;
#endif
byte next[WINDOW];
byte generation[WINDOW]; /* epoch, by shard; each residue is a shard of its own; 0: none */
byte buffers;
byte pending, pending_nonce[SOURCES], accepted_nonce[SOURCES];
byte accepted_generation; /* epoch, that accepted_nonce is of */
byte walking; /* the shard that adopts next, + 1; 0: no walk */
byte restarts = RESTARTS;

/* ---- The sources ---- */
mtype = {joining, running, finished, failed, dead};
mtype phase[SOURCES];
byte life[SOURCES];
byte epoch[SOURCES];
byte flying[SOURCES * WINDOW]; /* block of the slot; from BLOCKS on: none is left */
byte crashes = CRASHES;

/* ---- The checker's own ---- */
byte epochs; /* that have begun */
byte told[PAIRS]; /* what the first source was told of a block, + 1: all others are told the same */
byte began_with[EPOCHS * SOURCES]; /* the nonce that brought a source into an epoch */
bool excused; /* a restart or a crash: an operation may fail */
byte vain; /* ticks since something went on */

/* The number of an epoch that packets bear: never used twice. */
#ifdef BUG_NUMBER_REUSED
byte number[EPOCHS + 1], last_number;
#define NUMBER(e) number[e]
#else
#define NUMBER(e) (e)
#endif

#define ENDED(s) (phase[s] == finished || phase[s] == failed || phase[s] == dead)
#if SOURCES == 2
#define EACH(what) (what(0) && what(1))
#else
#define EACH(what) (what(0) && what(1) && what(2))
#endif
#if WINDOW == 1
#define EACH_RESIDUE(what) what(0)
#else
#define EACH_RESIDUE(what) (what(0) && what(1))
#endif

#ifdef ADVERSARY
#define KEEPS true
#else
#define KEEPS false
#endif

inline pick(set, i)
{
	i = 0;
	do
	:: HAS(set, i) -> break
	:: ((set) >> (i + 1)) != 0 -> i++
	od
}

/* Somebody says something about a block to a source, which may have ended. */
inline tell(to, about, what)
{
	if
	:: ENDED(to) -> skip
	:: else ->
		down[(to) * PAIRS + (about)] = down[(to) * PAIRS + (about)] | (1 << (what));
		mail[to] = mail[to] | (1 << (about))
	fi
}

/* ---- collective_block.c ---- */

inline release(r)
{
	previous[r].state = nothing;
	previous[r].block = 0;
	previous[r].heard = 0;
	previous[r].sum = 0;
	previous[r].spoilt = false;
	previous[r].says = 0;
	buffers--
}

/* After a contribution to this block's record, which is `current` when `newest`. */
inline block_release_previous(r, newest)
{
	if
#ifdef BUG_RELEASED_EARLY
	:: newest && previous[r].state != nothing -> release(r)
#else
	:: newest && current[r].heard == ALL && previous[r].state != nothing -> release(r)
#endif
	:: else -> skip
	fi
}

inline emit_block(r, rec, only)
{
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		if
		:: (only) == NONE || (only) == i ->
			tell(i, PAIR(generation[r], rec.block), rec.says)
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

inline fill(rec, b)
{
	rec.state = open;
	rec.block = b;
	rec.heard = 0;
	rec.sum = 0;
	rec.spoilt = false;
	rec.says = 0;
	buffers++;
	assert(buffers <= 2 * WINDOW)
}

inline open_next(r, s, e, b)
{
	if
	:: current[r].state == done ->
		previous[r].state = done;
		previous[r].block = current[r].block;
		previous[r].heard = current[r].heard;
		previous[r].says = current[r].says
	:: else -> skip
	fi;
	next[r] = next[r] + WINDOW;
	fill(current[r], b);
	aggregate(r, current[r], true, s, e)
}

/* Who sends the next block has the result of the one before, whatever has become of what it sent. */
inline acknowledge(r, s)
{
#ifdef BUG_NOT_ACKNOWLEDGED
	skip
#else
	current[r].heard = current[r].heard | (1 << s);
	block_release_previous(r, true)
#endif
}

inline block_open(r, s, e, b)
{
	if
#ifdef BUG_FRESH_RECORD
	:: b < next[r] ->
		fill(fresh, b);
		aggregate(r, fresh, false, s, e)
#else
	:: b < next[r] -> tell(s, PAIR(e, b), SAYS_EXPIRED)
#endif
	:: b > next[r] || (b == next[r] && current[r].state == open) ->
		tell(s, PAIR(e, b), SAYS_WINDOW)
	:: b == next[r] && current[r].state != open ->
		if
		:: previous[r].state != nothing -> acknowledge(r, s)
		:: else -> skip
		fi;
		if
#ifndef BUG_NOT_HELD_BACK
		:: previous[r].state != nothing -> skip /* held back: a third buffer */
#endif
		:: else -> open_next(r, s, e, b)
		fi
	fi
}

/* ---- collective.c, collective_odd.c ---- */

/* A contribution to a finished block: its sender has lost the result, or never was in it. */
inline answer_late(r, rec, newest, s)
{
#ifdef BUG_LATE_ADDED
	if
	:: !HAS(rec.heard, s) && (rec.heard | (1 << s)) == ALL -> rec.says = ALL
	:: else -> skip
	fi;
#endif
	rec.heard = rec.heard | (1 << s);
	block_release_previous(r, newest);
#ifndef BUG_NOT_ANSWERED
	emit_block(r, rec, s)
#endif
}

inline add_payload(r, rec, s, e)
{
	if
	:: HAS(rec.sum, s) || e != generation[r] -> rec.spoilt = true
	:: else -> skip
	fi;
	rec.sum = rec.sum | (1 << s)
}

inline aggregate(r, rec, newest, s, e)
{
	if
	:: rec.state == done -> answer_late(r, rec, newest, s)
#ifdef BUG_DUPLICATE_ADDED
	:: rec.state == open && HAS(rec.heard, s) -> add_payload(r, rec, s, e)
#else
	:: rec.state == open && HAS(rec.heard, s) -> skip /* repeated() */
#endif
	:: rec.state == open && !HAS(rec.heard, s) ->
		add_payload(r, rec, s, e);
		rec.heard = rec.heard | (1 << s);
#ifdef BUG_RELEASED_EARLY
		block_release_previous(r, newest);
#endif
		if
		:: rec.heard == ALL -> /* complete() */
			block_finish(r, rec, newest, ALL);
			emit_block(r, rec, NONE)
		:: else -> skip
		fi
	fi
}

inline admit(s, e, b)
{
	r = b % WINDOW;
	if
#ifdef BUG_ANY_GENERATION
	:: generation[r] == 0 -> tell(s, PAIR(e, b), SAYS_STALE)
#else
	:: generation[r] == 0 || NUMBER(e) != NUMBER(generation[r]) ->
		tell(s, PAIR(e, b), SAYS_STALE)
#endif
	:: else ->
		if
		:: current[r].state != nothing && current[r].block == b ->
			aggregate(r, current[r], true, s, e)
		:: previous[r].state != nothing && previous[r].block == b ->
			aggregate(r, previous[r], false, s, e)
		:: else -> block_open(r, s, e, b)
		fi
	fi
}

/* ---- collective_age.c ---- */

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
	emit_block(r, current[r], NONE)
}

/* ---- collective_join.c ---- */

inline accept(s)
{
	if
	:: ENDED(s) -> skip
	:: else ->
		join_down[s * LIVES + accepted_nonce[s] - 1] =
			join_down[s * LIVES + accepted_nonce[s] - 1] | (1 << generation[0])
	fi
}

inline join(s, nonce)
{
	if
#ifdef BUG_TOLD_WHILE_WALKING
	:: generation[0] != 0 && accepted_nonce[s] == nonce ->
#else
	:: generation[0] != 0 && generation[0] == accepted_generation && accepted_nonce[s] == nonce ->
#endif
#ifndef BUG_JOIN_NOT_ANSWERED
		accept(s)
#else
		skip
#endif
	:: else ->
		if
		:: walking != 0 -> skip /* held back */
		:: else ->
			pending = pending | (1 << s);
			pending_nonce[s] = nonce;
			if
			:: pending == ALL && epochs < EPOCHS ->
				epochs++;
				i = 0;
				do
				:: i == SOURCES -> break
				:: else ->
					began_with[(epochs - 1) * SOURCES + i] = pending_nonce[i];
					i++
				od;
#ifdef BUG_NUMBER_REUSED
				last_number++;
				number[epochs] = last_number;
#endif
				walking = 1
			:: else -> skip
			fi
		fi
	fi
}

inline joined()
{
	accepted_generation = epochs;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		accepted_nonce[i] = pending_nonce[i];
		pending_nonce[i] = 0;
		accept(i);
		i++
	od;
	pending = 0
}

inline job_shard_clear(r)
{
	if
	:: previous[r].state != nothing -> release(r)
	:: else -> skip
	fi;
	if
	:: current[r].state != nothing ->
		current[r].state = nothing;
		current[r].block = 0;
		current[r].heard = 0;
		current[r].sum = 0;
		current[r].spoilt = false;
		current[r].says = 0;
		buffers--
	:: else -> skip
	fi;
	next[r] = r
}

/* The walk over the shards: one a step, contributions come in between. */
inline adopt()
{
	r = walking - 1;
	job_shard_clear(r);
	generation[r] = epochs;
#ifdef BUG_ACCEPTED_EARLY
	if
	:: r == 0 -> joined()
	:: else -> skip
	fi;
#endif
	if
	:: walking == WINDOW ->
#ifndef BUG_ACCEPTED_EARLY
		joined();
#endif
		walking = 0
	:: else -> walking++
	fi
}

/* kill -9, and a fresh start: nothing is left, not even the number of its last generation, which
 * is why the first one is drawn at random, or kept in the state file. */
inline restart()
{
	r = 0;
	do
	:: r == WINDOW -> break
	:: else -> job_shard_clear(r); generation[r] = 0; r++
	od;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else -> accepted_nonce[i] = 0; pending_nonce[i] = 0; i++
	od;
	pending = 0;
	accepted_generation = 0;
	walking = 0;
#ifdef BUG_NUMBER_REUSED
	last_number = 0;
#endif
	excused = true
}

inline take_join(s)
{
	pick(join_up[s], p);
	if
	:: !KEEPS -> join_up[s] = join_up[s] & ~(1 << p)
	:: !KEEPS && duplicates > 0 -> duplicates--
	:: KEEPS -> skip
	fi;
	d_step {
		join(s, p);
		p = 0; i = 0
	}
}

proctype Switch()
{
	byte p, s, e, b, r, i;

end:
	do
	:: atomic { up != 0 ->
			pick(up, p);
			if
			:: !KEEPS -> up = up & ~(1 << p)
			:: !KEEPS && duplicates > 0 -> duplicates--
			:: KEEPS -> skip
			fi;
			d_step {
				s = p / PAIRS;
				e = (p % PAIRS) / BLOCKS + 1;
				b = p % BLOCKS;
				admit(s, e, b);
				p = 0; s = 0; e = 0; b = 0; r = 0; i = 0
			}
		}
	:: atomic { join_up[0] != 0 -> take_join(0) }
	:: atomic { join_up[1] != 0 -> take_join(1) }
#if SOURCES == 3
	:: atomic { join_up[2] != 0 -> take_join(2) }
#endif
	:: d_step { STRAGGLES(0) -> straggler(0); i = 0 }
#if WINDOW == 2
	:: d_step { STRAGGLES(1) -> straggler(1); i = 0 }
#endif
	:: d_step { walking != 0 -> adopt(); r = 0; i = 0 }
	:: d_step { restarts > 0 -> restarts--; restart(); r = 0; i = 0 }
	od;
}

/* ---- apps/host/ ---- */

/* Nobody listens any more. */
inline deaf(s)
{
	i = 0;
	do
	:: i == PAIRS -> break
	:: else -> down[s * PAIRS + i] = 0; i++
	od;
	i = 0;
	do
	:: i == LIVES -> break
	:: else -> join_down[s * LIVES + i] = 0; i++
	od;
	i = 0;
	do
	:: i == WINDOW -> break
	:: else -> flying[s * WINDOW + i] = 0; i++
	od;
	mail[s] = 0;
	epoch[s] = 0
}

inline send_join(s)
{
	join_up[s] = join_up[s] | (1 << life[s] + 1)
}

/* The application gives up, or opens again. */
inline fail(s)
{
	epoch[s] = 0;
	i = 0;
	do
	:: i == WINDOW -> break
	:: else -> flying[s * WINDOW + i] = 0; i++
	od;
	if
	:: life[s] + 1 < LIVES ->
		life[s] = life[s] + 1;
		phase[s] = joining;
		send_join(s)
	:: else ->
		phase[s] = failed;
		deaf(s)
	fi;
	vain = 0
}

/* The block of this slot goes out, if there is one left. */
inline flush(s, r)
{
	if
	:: flying[s * WINDOW + r] < BLOCKS ->
		up = up | (1 << (s * PAIRS + PAIR(epoch[s], flying[s * WINDOW + r])))
	:: else -> skip
	fi
}

inline weir_window_begin(s)
{
	r = 0;
	do
	:: r == WINDOW -> break
	:: else -> flying[s * WINDOW + r] = r; flush(s, r); r++
	od;
#ifdef BUG_WINDOW_IGNORED
	up = up | (1 << (s * PAIRS + PAIR(epoch[s], WINDOW)))
#endif
}

#define LEFT_NONE(r) (flying[s * WINDOW + (r)] >= BLOCKS)

inline weir_window_answered(s, r)
{
	vain = 0;
	flying[s * WINDOW + r] = flying[s * WINDOW + r] + WINDOW;
	flush(s, r);
	if
	:: EACH_RESIDUE(LEFT_NONE) -> phase[s] = finished; deaf(s)
	:: else -> skip
	fi
}

#ifdef BUG_RESULT_OF_ANY_GENERATION
#define OURS(s, e) true
#else
#define OURS(s, e) (NUMBER(e) == NUMBER(epoch[s]))
#endif

/* What must hold of a result that a source takes for its block. */
inline check_result(s, e, b, says)
{
	assert(says != SAYS_WRONG); /* a wrong sum delivered as right */
	assert(e == epoch[s]); /* a result of other times */
	assert(says == ALL || POLICY != WAIT_FOR_ALL); /* a partial sum, for whom nobody asked */
	assert(told[PAIR(e, b)] == 0 || told[PAIR(e, b)] == says + 1); /* replicas part */
	told[PAIR(e, b)] = says + 1
}

inline take(s, e, b, says)
{
	r = b % WINDOW;
	if
	:: phase[s] != running || flying[s * WINDOW + r] != b || !OURS(s, e) -> skip
	:: else ->
		if
		:: says <= ALL ->
			check_result(s, e, b, says);
			weir_window_answered(s, r)
		:: says == SAYS_ERROR ->
			check_result(s, e, b, says);
			fail(s)
		:: else -> /* stale, expired, out-of-window: without a reason never */
			assert(excused || POLICY == ERROR && says == SAYS_STALE);
			fail(s)
		fi
	fi
}

inline take_reply(s, nonce, e)
{
	if
	:: phase[s] == joining && life[s] + 1 == nonce ->
		assert(began_with[(e - 1) * SOURCES + s] == nonce); /* or it is another's place */
		epoch[s] = e;
		phase[s] = running;
		vain = 0;
		weir_window_begin(s)
	:: else -> skip
	fi
}

proctype Source(byte s)
{
	byte p, c, r, i;

	do
	:: ENDED(s) -> break
	:: atomic { mail[s] != 0 ->
			pick(mail[s], p);
			pick(down[s * PAIRS + p], c);
			if
			:: !KEEPS ->
				down[s * PAIRS + p] = down[s * PAIRS + p] & ~(1 << c);
				if
				:: down[s * PAIRS + p] == 0 -> mail[s] = mail[s] & ~(1 << p)
				:: else -> skip
				fi
			:: !KEEPS && duplicates > 0 -> duplicates--
			:: KEEPS -> skip
			fi;
			d_step {
				take(s, (p / BLOCKS + 1), (p % BLOCKS), c);
				p = 0; c = 0; r = 0; i = 0
			}
		}
	:: atomic { join_down[s * LIVES + life[s]] != 0 ->
			pick(join_down[s * LIVES + life[s]], p);
			if
			:: !KEEPS -> join_down[s * LIVES + life[s]] =
				join_down[s * LIVES + life[s]] & ~(1 << p)
			:: !KEEPS && duplicates > 0 -> duplicates--
			:: KEEPS -> skip
			fi;
			d_step {
				take_reply(s, life[s] + 1, p);
				p = 0; c = 0; r = 0; i = 0
			}
		}
	:: atomic { crashes > 0 && !ENDED(s) ->
			crashes--;
			excused = true;
			if
			:: d_step { fail(s); i = 0 } /* and comes back, if it has lives left */
			:: d_step { phase[s] = dead; deaf(s); i = 0 }
			fi
		}
	od;
	assert(phase[s] == finished || excused || POLICY == ERROR)
}

#if LOSSES > 0
inline lost()
{
	losses--;
	vain = 0;
	p = 0; c = 0
}

inline lose_contribution()
{
	pick(up, p);
	up = up & ~(1 << p);
	lost()
}

inline lose_join(s)
{
	pick(join_up[s], p);
	join_up[s] = join_up[s] & ~(1 << p);
	lost()
}

inline lose_accepted(s)
{
	join_down[s * LIVES + life[s]] = 0;
	lost()
}

inline lose_result(s)
{
	pick(mail[s], p);
	pick(down[s * PAIRS + p], c);
	down[s * PAIRS + p] = down[s * PAIRS + p] & ~(1 << c);
	if
	:: down[s * PAIRS + p] == 0 -> mail[s] = mail[s] & ~(1 << p)
	:: else -> skip
	fi;
	lost()
}

#define ACCEPTED(s) (phase[s] == joining && join_down[s * LIVES + life[s]] != 0)

proctype Network()
{
	byte p, c;
end:
	do
	:: atomic { losses > 0 && up != 0 -> lose_contribution() }
	:: atomic { losses > 0 && join_up[0] != 0 -> lose_join(0) }
	:: atomic { losses > 0 && join_up[1] != 0 -> lose_join(1) }
	:: atomic { losses > 0 && ACCEPTED(0) -> lose_accepted(0) }
	:: atomic { losses > 0 && ACCEPTED(1) -> lose_accepted(1) }
	:: atomic { losses > 0 && mail[0] != 0 -> lose_result(0) }
	:: atomic { losses > 0 && mail[1] != 0 -> lose_result(1) }
#if SOURCES == 3
	:: atomic { losses > 0 && join_up[2] != 0 -> lose_join(2) }
	:: atomic { losses > 0 && ACCEPTED(2) -> lose_accepted(2) }
	:: atomic { losses > 0 && mail[2] != 0 -> lose_result(2) }
#endif
	od
}
#endif

#ifndef ADVERSARY
#define ACCEPTED_NOT(s) (phase[s] != joining || join_down[s * LIVES + life[s]] == 0)
#define SILENT(s) (join_up[s] == 0 && mail[s] == 0 && ACCEPTED_NOT(s))
#define CALM(r) (!STRAGGLES(r))
#define QUIET (up == 0 && walking == 0 && EACH(SILENT) && EACH_RESIDUE(CALM))

/* Every timer of every source runs out. */
inline weir_window_repeat()
{
	s = 0;
	do
	:: s == SOURCES -> break
	:: else ->
		if
		:: phase[s] == joining -> send_join(s)
#ifndef BUG_NOT_REPEATED
		:: phase[s] == running ->
			r = 0;
			do
			:: r == WINDOW -> break
			:: else -> flush(s, r); r++
			od
#endif
		:: else -> skip
		fi;
		s++
	od
}

proctype Clock()
{
	byte s, r, i;
end:
	do
	:: EACH(ENDED) -> break
	:: d_step { QUIET && !EACH(ENDED) && vain < 2 ->
			vain++;
			weir_window_repeat();
			s = 0; r = 0
		}
	:: atomic { QUIET && !EACH(ENDED) && vain == 2 ->
			assert(excused); /* else: somebody waits for ever */
			if
			:: !ENDED(0) -> s = 0
			:: !ENDED(1) -> s = 1
#if SOURCES == 3
			:: !ENDED(2) -> s = 2
#endif
			fi;
			d_step { fail(s); s = 0; i = 0 } /* its operation has timed out */
		}
	od
}
#endif

init
{
	byte i;

	atomic {
		do
		:: i == WINDOW -> break
		:: else -> next[i] = i; i++
		od;
		i = 0;
		run Switch();
		do
		:: i == SOURCES -> break
		:: else -> phase[i] = joining; send_join(i); run Source(i); i++
		od;
		i = 0;
#if LOSSES > 0
		run Network();
#endif
#ifndef ADVERSARY
		run Clock()
#endif
	}
}
