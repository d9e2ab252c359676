/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a block, for the model checker spin: what docs/protocol.md promises, whatever the
 * network, slow sources, crashes and restarts do. tests/spin/check.py runs it.
 *
 * Inlines have the names of the code's functions that they stand for, in ppe/collective/ (switch) and
 * apps/libweir/ (sources). One atomic step is one packet handled: in the code a segment is atomic, and
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
/* AWAY: source 0 contributes to no block before this one, and acknowledges instead. With ADVERSARY it does
 * both, and so do all. */
/* MOVES: a source that joins may move, once, to another address (MAC, port). Not with ADVERSARY. */
/* REVOKE: a source that joins anew ends the generation that runs. */
/* BATCH: a worker takes contributions in batches, too. */
/* ORDERED: the network keeps the order in which a source sends. Not with losses, ADVERSARY or AWAY. */
/* DEAD_AFTER: at any time, a source that the others wait for may be dead for all the switch knows. */
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
#ifdef AWAY
int acks; /* acknowledgements: the same */
#endif
short down[SOURCES * PAIRS]; /* to a source about (epoch, block): bits SAYS_... */
int mail[SOURCES]; /* bit PAIR: something is in `down` */
byte join_up[SOURCES]; /* bit: nonce, which is the source's life + 1, times 2, + address */
short join_down[SOURCES * LIVES]; /* accepted, by life; bit: epoch */
byte losses = LOSSES, duplicates = DUPLICATES;

/* ---- The switch ---- */
mtype = {nothing, open, done};
typedef record {
	mtype state = nothing;
	byte block;
	byte heard;
	byte received;
	byte sum; /* whose values are in the buffer */
	bool spoilt; /* a value twice, or of another epoch */
	byte says; /* once done */
};
record current[WINDOW], previous[WINDOW]; /* by residue, as struct slot */
#ifdef BUG_FRESH_RECORD
record fresh;
#endif
byte next[WINDOW];
#ifdef DEAD_AFTER
byte expelled[WINDOW]; /* sources of the generation, by shard */
#define EXPELLED(r) expelled[r]
#else
#define EXPELLED(r) 0
#endif
byte generation[WINDOW]; /* epoch, by shard; each residue is a shard of its own; 0: none */
byte buffers;
byte pending, pending_nonce[SOURCES], accepted_nonce[SOURCES];
byte accepted_generation; /* epoch, that accepted_nonce is of */
byte walking; /* the shard that adopts next, + 1; 0: no walk */
byte restarts = RESTARTS;
#ifdef REVOKE
bool revoked[WINDOW]; /* by shard: the generation is over */
byte revoking; /* the shard that is told next, + 1; 0: none */
byte former_nonce[SOURCES];
#define REVOKED(r) revoked[r]
#define REVOKING (revoking != 0)
#else
#define REVOKED(r) false
#define REVOKING false
#endif

byte pending_at[SOURCES]; /* address that the join came from */
byte known_at[SOURCES * WINDOW]; /* address that results go to, by source and shard */
byte following; /* the shard that is told an address next, + 1; 0: none */
byte moved, moved_to; /* the source, and its address */
#define REACHES(r, s) (known_at[(s) * WINDOW + (r)] == at[s])
#define ANNOUNCEMENTS ((walking != 0) + REVOKING + (following != 0))

/* ---- The sources ---- */
mtype = {joining, running, finished, failed, dead};
mtype phase[SOURCES];
byte life[SOURCES];
byte epoch[SOURCES];
byte flying[SOURCES * WINDOW]; /* block of the slot; from BLOCKS on: none is left */
byte at[SOURCES]; /* address: 0, and 1 after a move */
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

/* What switch.pml and source.pml leave open. */
#define SHARD(b) ((b) % WINDOW)
#define TO(r, s) (s)
#define VALUE(s) (1 << (s))
#define LIES false
#define ADDED(r, s) skip
#define PLACE(e, s) (((e) - 1) * SOURCES + (s))
#define CLAIM(rec) rec.heard
#define BUSY(rec) (rec.state == open)
#define BUFFERS(r) buffers
#define EVERYBODY ALL
#define OPERATION(s, e, b) PAIR(e, b)
#define LIVES_NOW LIVES
#ifdef ADVERSARY
#define DOES_BOTH(s, b) true
#else
#define DOES_BOTH(s, b) false
#endif
#ifdef AWAY
#define IS_AWAY(s, b) ((s) == 0 && (b) < AWAY)
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

/* The first bit of the same source. */
inline oldest(set, i)
{
	i = (i / PAIRS) * PAIRS;
	do
	:: HAS(set, i) -> break
	:: else -> i++
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

#include "switch.pml"
#include "source.pml"

/* ---- What the network loses, and the time ---- */

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

#ifdef AWAY
inline lose_acknowledgement()
{
	pick(acks, p);
	acks = acks & ~(1 << p);
	lost()
}
#endif

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
#ifdef AWAY
	:: atomic { losses > 0 && acks != 0 -> lose_acknowledgement() }
#endif
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
#ifdef AWAY
#define TAKEN (up == 0 && acks == 0)
#else
#define TAKEN (up == 0)
#endif
#define QUIET (TAKEN && ANNOUNCEMENTS == 0 && EACH(SILENT) && EACH_RESIDUE(CALM))

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
