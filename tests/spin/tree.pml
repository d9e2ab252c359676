/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tree of switches, for the model checker spin: two leaves of two hosts each, and a spine. What docs/tree.md
 * promises, whatever the network, slow hosts and a leaf's restart do. tests/spin/check.py runs it.
 *
 * To the spine a leaf is a source like any other. So the switches are those of switch.pml, which know of no tree, and
 * the hosts those of source.pml. Here is what a leaf adds: the way up and the answer from above, and how generations
 * begin and end on two hops. Switches 0 and 1 are leaves, 2 is the spine; a switch's only residue has its number. The
 * window is 1: residues are independent of each other (block.pml has two).
 *
 * The network delivers any packet ever sent on any hop, at any time, as often as it likes, or never: loss,
 * duplication, reordering and delay without limit. In any state it may become calm: all packets under way are lost,
 * and from then on none is. Then ROUNDS rounds of the hosts' timers must finish all operations, because no switch has
 * a timer that repeats. So "no host waits for ever while packets get through" is an assertion, and the repair is
 * bounded.
 *
 * A leaf's epoch is a generation of its own hop, and so is the spine's; the checker counts both. Contributions upward
 * refer to the leaf's buffer, and the answer from above replaces what is in it: the checker asserts that no
 * contribution is added after that (ADDED).
 *
 * Joins are proved: an old one has no effect (block.pml has the others).
 */
#define SOURCES 2 /* of each switch */
#define WINDOW 1
#define HOSTS 4
#define SPINE 2
#define SWITCHES 3
#define NODES 6 /* that are told something: hosts, then leaves */
#define LEAF(l) (HOSTS + (l))
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef EPOCHS
#define EPOCHS 1 /* of each switch; HOSTS * EPOCHS * BLOCKS is at most 30 */
#endif
#ifndef SPARE
#define SPARE 0 /* of these, that begin only when it is calm */
#endif
#define EPOCHS_NOW (calm -> EPOCHS : EPOCHS - SPARE)
#ifndef LIVES
#define LIVES 1
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* of leaf 0 */
#endif
#ifndef ROUNDS
#define ROUNDS ((POLICY == WAIT_FOR_ALL -> 1 : 1 + SPINE_TIMEOUT) * BLOCKS + 3 * REJOINS)
#endif
/* In rounds, when it is calm. */
#ifdef BUG_TIMEOUTS_NOT_NESTED
#define LEAF_TIMEOUT 3
#define SPINE_TIMEOUT 1
#else
#define LEAF_TIMEOUT 1
#define SPINE_TIMEOUT 2
#endif
#define WAIT_FOR_ALL 0
#define PARTIAL 1
#define ERROR 2
#ifndef POLICY
#define POLICY WAIT_FOR_ALL
#endif
/* DEAD: when it is calm, the hosts of this mask are silent, and all blocks end without them. */
#ifndef DEAD
#define DEAD 0
#endif
#ifndef CRASHES
#define CRASHES 0 /* of host 0, which comes back */
#endif
#define REJOINS (RESTARTS + CRASHES)
/* AWAY: when it is calm, the hosts of this mask contribute to nothing, and acknowledge instead. Before, they do both. */
#ifndef AWAY
#define AWAY 0
#endif
/* Whose absence ends a block at any time, before it is calm: hosts at their leaf, and leaves at the spine. */
#ifndef SLOW
#define SLOW 1
#endif
#ifndef SLOW_LEAVES
#define SLOW_LEAVES 0
#endif

#define ALL 3 /* sources of a switch */
#define EVERYBODY 15
#define HAS(set, i) (((set) >> (i)) & 1)
#define NONE 255

/* What a packet downward says: in [0, 16) the hosts in the result. */
#define SAYS_WRONG 0
#define SAYS_ERROR 16 /* never */
#define SAYS_STALE 17
#define SAYS_EXPIRED 18
#define SAYS_WINDOW 19

/* ---- The network ---- */
#define PAIR(e, b) (((e) - 1) * BLOCKS + (b))
#define PAIRS (EPOCHS * BLOCKS)
#define LAST_NONCE 7
int up, acks; /* of hosts: bit host * PAIRS + PAIR */
int up_above[2 * PAIRS]; /* of leaves, by leaf * PAIRS + PAIR: bit 4 * (leaf's epoch - 1) + what it has; 0: a lie */
byte mail_above[2], acks_above[2]; /* bit PAIR */
int down[NODES * PAIRS]; /* bits SAYS_... */
byte mail[NODES]; /* bit PAIR: something is in `down` */
#if REJOINS > 0
byte parents_join[2]; /* bit: the leaf's nonce */
byte ok_above[2 * (LAST_NONCE + 1)]; /* by leaf and nonce; bit: the spine's epoch */
#endif
short join_up[HOSTS]; /* as in block.pml */
byte join_down[HOSTS * LIVES];

/* ---- The switches ---- */
mtype = {nothing, open, above, done};
typedef record {
	mtype state = nothing;
	byte block;
	byte heard;
	byte received;
	byte sum; /* whose values are in the buffer; of hosts at the leaf by source, at the spine by rank */
	bool spoilt;
	byte says;
	byte sent; /* above: the sources whose sum was sent */
};
record current[SWITCHES], previous[SWITCHES];
byte next[SWITCHES], buffers[SWITCHES];
byte generation[SWITCHES]; /* epoch; 0: none */
byte over[2]; /* the spine's epoch in which the leaf's generation takes part */
#if REJOINS > 0
bool revoked[SWITCHES];
byte pending[SWITCHES];
byte pending_nonce[NODES], accepted_nonce[NODES];
byte own_nonce[2]; /* with which the leaf joins */
bool used[2]; /* a generation of the leaf has begun with it */
byte restarts = RESTARTS, crashes = CRASHES;
#define REVOKED(r) revoked[r]
#else
#define REVOKED(r) false
#endif
byte age[SWITCHES]; /* rounds since the open block's last progress; when it is calm */

/* ---- The hosts ---- */
mtype = {joining, running, finished, failed, dead};
mtype phase[HOSTS];
byte life[HOSTS];
byte epoch[HOSTS];
byte flying[HOSTS];
byte at[HOSTS];

/* ---- The checker's own ---- */
byte epochs[SWITCHES];
byte told[PAIRS]; /* by the spine's epoch */
byte joins_above[2 * EPOCHS]; /* the spine's epoch of a leaf's */
byte came_from[PAIRS * 2]; /* the leaf's epoch of what it has in a sum, by the spine's PAIR and leaf */
byte began_with[EPOCHS * HOSTS];
bool excused, calm;
byte vain;

#define NUMBER(e) (e)
#define HAS_FINISHED(s) (phase[s] == finished || HAS(DEAD, s))
#define GOES_ON(s) (!ENDED(s))
#define ENDED(s) (phase[s] == finished || phase[s] == failed)
#define EACH(what) (what(0) && what(1) && what(2) && what(3))
#define EACH_RESIDUE(what) what(0)

/* What switch.pml and source.pml leave open. */
#define PARENT(r) ((r) != SPINE)
#define SHARD(b) r
#define TO(r, s) (2 * (r) + (s)) /* LEAF(s) of the spine */
#define VALUE(s) (carried << width * (s))
#define LIES (lie)
#define CLAIM(rec) rec.sum
#define BUSY(rec) (rec.state == open || rec.state == above)
#define BUFFERS(r) buffers[r]
#define EXPELLED(r) 0
#define REACHES(r, s) true
#define OVER(s, e) joins_above[((s) / 2) * EPOCHS + (e) - 1]
#define OPERATION(s, e, b) PAIR(OVER(s, e), b)
#define PLACE(e, s) (((e) - 1) * HOSTS + (s))
#define LIVES_NOW LIVES
#define DOES_BOTH(s, b) (!calm && HAS(AWAY, s))
#define IS_AWAY(s, b) HAS(AWAY, s)

inline pick(set, i)
{
	i = 0;
	do
	:: HAS(set, i) -> break
	:: ((set) >> (i + 1)) != 0 -> i++
	od
}

inline tell(to, about, what)
{
	if
	:: (to) < HOSTS && ENDED((to) % HOSTS) -> skip
	:: else ->
		down[(to) * PAIRS + (about)] = down[(to) * PAIRS + (about)] | (1 << (what));
		mail[to] = mail[to] | (1 << (about))
	fi
}

/* ---- A leaf's way up ---- */

/* The contribution is the same whenever it is sent: by reference, if the buffer still has it. */
inline contribute_to_parent(r, rec)
{
	up_above[r * PAIRS + PAIR(over[r], rec.block)] = up_above[r * PAIRS + PAIR(over[r], rec.block)] |
#ifdef BUG_NO_BITMAP_ABOVE
		(1 << (4 * (generation[r] - 1) + (rec.spoilt || rec.sum != ALL -> 0 : ALL)));
#else
		(1 << (4 * (generation[r] - 1) + (rec.spoilt || rec.sum != rec.sent -> 0 : rec.sent)));
#endif
	mail_above[r] = mail_above[r] | (1 << PAIR(over[r], rec.block))
}

inline acknowledge_to_parent(leaf, about)
{
	acks_above[leaf] = acks_above[leaf] | (1 << PAIR(over[leaf], about))
}

/* The block is complete here, or its time is over. */
inline parent_contribute(r, rec)
{
	rec.state = above;
	rec.sent = rec.heard;
	contribute_to_parent(r, rec);
#ifdef BUG_SUM_DROPPED
	rec.sum = 0;
#endif
#ifdef BUG_ACKNOWLEDGED_ABOVE_EARLY
	if
	:: rec.block + 1 < BLOCKS -> acknowledge_to_parent(r, (rec.block + 1))
	:: else -> skip
	fi;
#endif
#ifdef BUG_RELEASED_BEFORE_HOSTS
	if
	:: previous[r].state != nothing -> release(r)
	:: else -> skip
	fi;
#endif
#ifdef BUG_ANSWERED_BELOW
	rec.state = done;
	rec.says = rec.sent << 2 * r;
	block_emit(r, rec, NONE);
#endif
	skip
}

/* It has been sent without this host, and is not changed any more. */
inline parent_block_pending(r, rec, s)
{
#ifdef BUG_LATE_ADDED_ABOVE
	if
	:: !HAS(rec.sum, s) -> rec.sum = rec.sum | (1 << s)
	:: else -> skip
	fi;
#endif
	rec.heard = rec.heard | (1 << s)
}

/* A host has said something about a block whose result the leaf does not have. */
inline parent_ask(r, e, b)
{
	if
	:: e != generation[r] || REVOKED(r) -> skip
	:: else ->
		if
#ifndef BUG_NOT_REPEATED_ABOVE
		:: current[r].state == above && current[r].block == b -> contribute_to_parent(r, current[r])
#endif
#ifndef BUG_NOT_ACKNOWLEDGED_ABOVE
		:: b == next[r] && !BUSY(current[r]) -> acknowledge_to_parent(r, b)
#endif
		:: else -> skip
		fi
	fi
}

/* The result from above takes the sum's place. */
inline answered(r, what)
{
	current[r].state = done;
	current[r].says = what;
	current[r].sent = 0;
	current[r].sum = 0;
	current[r].spoilt = false;
	age[r] = 0;
	block_release_previous(r, true);
	block_emit(r, current[r], NONE)
}

inline take_from_parent(r, e, b, what)
{
	if
	:: generation[r] == 0 || REVOKED(r) -> skip
#ifndef BUG_ABOVE_OF_ANY_GENERATION
	:: generation[r] != 0 && !REVOKED(r) && over[r] != e -> skip
#endif
	:: else ->
		if
		:: (what) <= EVERYBODY ->
			if
#ifdef BUG_UNASKED_DROPPED
			:: current[r].state == above && current[r].block == b -> answered(r, what)
#else
			:: BUSY(current[r]) && current[r].block == b -> answered(r, what)
			:: b == next[r] && !BUSY(current[r]) && previous[r].state == nothing ->
				open_next(r, b);
				answered(r, what)
#endif
			:: else -> skip
			fi
#if REJOINS > 0
		:: (what) == SAYS_STALE ->
#ifndef BUG_STALE_NOT_PASSED
			generation_end(r)
#else
			skip
#endif
#endif
		:: else -> /* expired, out-of-window: never about a block that the leaf waits for */
			assert(!(BUSY(current[r]) && current[r].block == b))
		fi
	fi
}

/* What the checker asserts and notes when a switch adds a contribution. */
inline ADDED(r, s)
{
	age[r] = 0;
	if
	:: r == SPINE ->
		/* What is added is still in the leaf's buffer. */
		assert(over[s] != e || lived != generation[s] || REVOKED(s) ||
			(current[s].state == above && current[s].block == b));
		came_from[PAIR(e, b) * 2 + s] = lived
	:: else -> skip
	fi
}

#include "switch.pml"
#include "source.pml"

/* ---- Timeouts ---- */

#define STRAGGLES(r) (POLICY != WAIT_FOR_ALL && current[r].state == open)
#define MISSING(r) (ALL & ~current[r].heard)
#define MAY_STRAGGLE(l) (!calm && STRAGGLES(l) && (MISSING(l) & ~((SLOW) >> 2 * (l))) == 0)
#define MAY_STRAGGLE_ABOVE (!calm && STRAGGLES(SPINE) && (MISSING(SPINE) & ~SLOW_LEAVES) == 0)

inline straggler(r)
{
	if
#ifdef BUG_WAITS_FOR_HOSTS
	:: r != SPINE && previous[r].state != nothing && RECEIVED(r) != ALL -> skip
#endif
	:: r != SPINE -> parent_contribute(r, current[r])
	:: else ->
		block_finish(r, current[r], true, CLAIM(current[r]));
		block_emit(r, current[r], NONE)
	fi;
	age[r] = 0
}

/* Does a leaf collect what the spine would do without? */
#define IS_COLLECTING(l) (current[l].state == open && current[l].block == current[SPINE].block && \
	over[l] == generation[SPINE] && current[l].heard != 0 && !HAS(current[SPINE].heard, l))

/* ---- Generations on two hops ---- */

#if REJOINS > 0
/* Who joins at a switch: hosts, leaves. */
#define JOINS(r, s) TO(r, s)

inline block_forget_all(r)
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
		current[r].received = 0;
		current[r].sum = 0;
		current[r].spoilt = false;
		current[r].says = 0;
		current[r].sent = 0;
		buffers[r]--
	:: else -> skip
	fi;
	age[r] = 0;
	next[r] = 0
}

inline generation_end(r)
{
	block_forget_all(r);
	revoked[r] = true;
	excused = true
}

/* All hosts have joined: the leaf joins, with a nonce that has begun no generation. */
inline join_upward(l)
{
	if
	:: used[l] ->
#ifdef BUG_NONCE_USED_AGAIN
		skip;
#else
		assert(own_nonce[l] < LAST_NONCE);
		own_nonce[l]++;
#endif
		used[l] = false
	:: else -> skip
	fi;
	parents_join[l] = parents_join[l] | (1 << own_nonce[l])
}

inline accept(r, s)
{
	if
	:: r == SPINE -> ok_above[s * (LAST_NONCE + 1) + accepted_nonce[LEAF(s)]] =
		ok_above[s * (LAST_NONCE + 1) + accepted_nonce[LEAF(s)]] | (1 << generation[r])
	:: else ->
		if
		:: ENDED(2 * r + s) -> skip
		:: else -> join_down[(2 * r + s) * LIVES + accepted_nonce[2 * r + s] - 1] =
			join_down[(2 * r + s) * LIVES + accepted_nonce[2 * r + s] - 1] | (1 << generation[r])
		fi
	fi
}

/* A generation begins at this switch, with its pending joins. */
inline begin(r)
{
	epochs[r]++;
	block_forget_all(r);
	generation[r] = epochs[r];
	revoked[r] = false;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		accepted_nonce[JOINS(r, i)] = pending_nonce[JOINS(r, i)];
		pending_nonce[JOINS(r, i)] = 0;
		if
		:: r != SPINE -> began_with[PLACE(epochs[r], 2 * r + i)] = accepted_nonce[2 * r + i]
		:: else -> skip
		fi;
		accept(r, i);
		i++
	od;
	pending[r] = 0
}

inline begin_below(l, e)
{
	used[l] = true;
	over[l] = e;
	joins_above[l * EPOCHS + epochs[l]] = e;
	begin(l)
}

/* A join of source s of switch r. */
inline join(r, s, n)
{
	if
	:: generation[r] != 0 && !revoked[r] && accepted_nonce[JOINS(r, s)] == n -> accept(r, s)
	:: else ->
		if
		:: n < accepted_nonce[JOINS(r, s)] || (HAS(pending[r], s) && n < pending_nonce[JOINS(r, s)]) ->
			skip /* joins are proved: an old one has no effect */
		:: else ->
			pending[r] = pending[r] | (1 << s);
			pending_nonce[JOINS(r, s)] = n;
			if
			:: generation[r] != 0 && !revoked[r] -> generation_end(r)
			:: else -> skip
			fi;
			if
			:: pending[r] == ALL && r == SPINE && epochs[r] < EPOCHS_NOW -> begin(r)
#ifdef BUG_BEGUN_BEFORE_ABOVE
			:: pending[r] == ALL && r != SPINE && epochs[r] < EPOCHS_NOW && over[r] != 0 ->
				begin_below(r, over[r])
#else
			:: pending[r] == ALL && r != SPINE && epochs[r] < EPOCHS_NOW -> join_upward(r)
#endif
			:: else -> skip
			fi
		fi
	fi
}

/* The spine has accepted the leaf's join. */
inline take_ok(l, n, e)
{
	if
	:: n == own_nonce[l] && !used[l] && pending[l] == ALL && epochs[l] < EPOCHS_NOW -> begin_below(l, e)
	:: else -> skip
	fi
}

/* kill -9 of a leaf, and a fresh start: its nonces are random. */
inline restart(l)
{
	block_forget_all(l);
	generation[l] = 0;
	revoked[l] = false;
	pending[l] = 0;
#ifndef BUG_RESTART_KEEPS_NONCE
	assert(own_nonce[l] < LAST_NONCE);
	own_nonce[l]++;
	over[l] = 0;
#endif
	used[l] = false;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		pending_nonce[2 * l + i] = 0;
		accepted_nonce[2 * l + i] = 0;
		i++
	od;
	excused = true
}
#endif

/* ---- Packets ---- */

#define TO_SWITCH 0 /* contribution of a host; + 1: acknowledgement */
#define TO_SPINE 2 /* the same, of a leaf */
#define TO_LEAF 4 /* from above */
#define TO_HOST 5
#define JOIN 6 /* of a host */
#define OK 7
#define JOIN_ABOVE 8 /* of a leaf */
#define OK_ABOVE 9

/* A host takes a result: the values in it are of the sources' present operation. */
#define OF_ITS_TIME(h, l) (came_from[OPERATION(h, e, b) * 2 + (l)] == 0 || \
	((h) / 2 == (l) && came_from[OPERATION(h, e, b) * 2 + (l)] == e) || \
	((h) / 2 != (l) && joins_above[(l) * EPOCHS + came_from[OPERATION(h, e, b) * 2 + (l)] - 1] == OVER(h, e)))

/* kind; q: the sender, or the receiver of what comes down; p: PAIR, or nonce; c: what it says. */
inline handle()
{
	e = p / BLOCKS + 1;
	b = p % BLOCKS;
	if
	:: kind <= TO_SPINE + 1 ->
		if
		:: kind < TO_SPINE -> r = q / 2; s = q % 2
		:: else -> r = SPINE; s = q
		fi;
		if
		:: r != SPINE -> carried = 1; width = 1
		:: else ->
			lived = c / 4 + 1;
			lie = (c % 4 == 0);
			carried = (lie -> ALL : c % 4);
			width = 2
		fi;
		block_admit(s, e, b, (kind % 2 == 1));
		if
		:: r != SPINE -> parent_ask(r, e, b)
		:: else -> skip
		fi
	:: kind == TO_LEAF -> r = q; take_from_parent(r, e, b, c)
	:: kind == TO_HOST ->
		if
		:: phase[q] == running && flying[q] == b && e == epoch[q] && c <= EVERYBODY ->
			assert(OF_ITS_TIME(q, 0) && OF_ITS_TIME(q, 1))
		:: else -> skip
		fi;
		take(q, e, b, c)
#if REJOINS > 0
	:: kind == JOIN -> r = q / 2; s = q % 2; join(r, s, p / 2)
	:: kind == OK -> take_reply(q, life[q] + 1, p)
	:: kind == JOIN_ABOVE -> r = SPINE; s = q; join(r, s, p)
	:: kind == OK_ABOVE -> r = q; take_ok(r, c, p)
#endif
	fi
}

#define CLEAR kind = 0; q = 0; p = 0; c = 0; s = 0; e = 0; b = 0; r = 0; i = 0; lived = 0; lie = false; carried = 0; width = 0

#define OFFERED(h) (phase[h] == joining && join_down[(h) * LIVES + life[h]] != 0)

inline choose_mail(to)
{
	pick(mail[to], p);
	pick(down[(to) * PAIRS + p], c)
}

/* Choose a packet. In a d_step always the same. */
inline choose()
{
	if
	:: up != 0 -> kind = TO_SWITCH; pick(up, p); q = p / PAIRS; p = p % PAIRS
	:: acks != 0 -> kind = TO_SWITCH + 1; pick(acks, p); q = p / PAIRS; p = p % PAIRS
	:: acks_above[0] != 0 -> kind = TO_SPINE + 1; q = 0; pick(acks_above[0], p)
	:: acks_above[1] != 0 -> kind = TO_SPINE + 1; q = 1; pick(acks_above[1], p)
	:: mail_above[0] != 0 -> kind = TO_SPINE; q = 0; pick(mail_above[0], p); pick(up_above[p], c)
	:: mail_above[1] != 0 -> kind = TO_SPINE; q = 1; pick(mail_above[1], p); pick(up_above[PAIRS + p], c)
	:: mail[0] != 0 -> kind = TO_HOST; q = 0; choose_mail(0)
	:: mail[1] != 0 -> kind = TO_HOST; q = 1; choose_mail(1)
	:: mail[2] != 0 -> kind = TO_HOST; q = 2; choose_mail(2)
	:: mail[3] != 0 -> kind = TO_HOST; q = 3; choose_mail(3)
	:: mail[4] != 0 -> kind = TO_LEAF; q = 0; choose_mail(4)
	:: mail[5] != 0 -> kind = TO_LEAF; q = 1; choose_mail(5)
#if REJOINS > 0
	:: join_up[0] != 0 -> kind = JOIN; q = 0; pick(join_up[0], p)
	:: join_up[1] != 0 -> kind = JOIN; q = 1; pick(join_up[1], p)
	:: join_up[2] != 0 -> kind = JOIN; q = 2; pick(join_up[2], p)
	:: join_up[3] != 0 -> kind = JOIN; q = 3; pick(join_up[3], p)
	:: OFFERED(0) -> kind = OK; q = 0; pick(join_down[life[0]], p)
	:: OFFERED(1) -> kind = OK; q = 1; pick(join_down[LIVES + life[1]], p)
	:: OFFERED(2) -> kind = OK; q = 2; pick(join_down[2 * LIVES + life[2]], p)
	:: OFFERED(3) -> kind = OK; q = 3; pick(join_down[3 * LIVES + life[3]], p)
	:: parents_join[0] != 0 -> kind = JOIN_ABOVE; q = 0; pick(parents_join[0], p)
	:: parents_join[1] != 0 -> kind = JOIN_ABOVE; q = 1; pick(parents_join[1], p)
	:: ok_above[own_nonce[0]] != 0 -> kind = OK_ABOVE; q = 0; c = own_nonce[0]; pick(ok_above[c], p)
	:: ok_above[LAST_NONCE + 1 + own_nonce[1]] != 0 ->
		kind = OK_ABOVE; q = 1; c = own_nonce[1]; pick(ok_above[LAST_NONCE + 1 + c], p)
#endif
	fi
}

/* The chosen packet is delivered for the last time. */
inline remove()
{
	if
	:: kind == TO_SWITCH -> up = up & ~(1 << (q * PAIRS + p))
	:: kind == TO_SWITCH + 1 -> acks = acks & ~(1 << (q * PAIRS + p))
	:: kind == TO_SPINE ->
		up_above[q * PAIRS + p] = up_above[q * PAIRS + p] & ~(1 << c);
		if
		:: up_above[q * PAIRS + p] == 0 -> mail_above[q] = mail_above[q] & ~(1 << p)
		:: else -> skip
		fi
	:: kind == TO_SPINE + 1 -> acks_above[q] = acks_above[q] & ~(1 << p)
	:: kind == TO_LEAF || kind == TO_HOST ->
		if
		:: kind == TO_LEAF -> i = LEAF(q)
		:: else -> i = q
		fi;
		down[i * PAIRS + p] = down[i * PAIRS + p] & ~(1 << c);
		if
		:: down[i * PAIRS + p] == 0 -> mail[i] = mail[i] & ~(1 << p)
		:: else -> skip
		fi;
		i = 0
#if REJOINS > 0
	:: kind == JOIN -> join_up[q] = join_up[q] & ~(1 << p)
	:: kind == OK -> join_down[q * LIVES + life[q]] = 0
	:: kind == JOIN_ABOVE -> parents_join[q] = parents_join[q] & ~(1 << p)
	:: kind == OK_ABOVE -> ok_above[q * (LAST_NONCE + 1) + c] = 0
#endif
	fi
}

#if REJOINS > 0
#define JOINS_UNDER_WAY (join_up[0] != 0 || join_up[1] != 0 || join_up[2] != 0 || join_up[3] != 0 || \
	OFFERED(0) || OFFERED(1) || OFFERED(2) || OFFERED(3) || parents_join[0] != 0 || parents_join[1] != 0 || \
	ok_above[own_nonce[0]] != 0 || ok_above[LAST_NONCE + 1 + own_nonce[1]] != 0)
#else
#define JOINS_UNDER_WAY false
#endif
#define UNDER_WAY (up != 0 || acks != 0 || acks_above[0] != 0 || acks_above[1] != 0 || mail_above[0] != 0 || mail_above[1] != 0 || \
	mail[0] != 0 || mail[1] != 0 || mail[2] != 0 || mail[3] != 0 || mail[4] != 0 || mail[5] != 0 || \
	JOINS_UNDER_WAY)

/* All packets are lost. */
inline lose_all()
{
	up = 0;
	acks = 0;
	i = 0;
	do
	:: i == NODES * PAIRS -> break
	:: else -> down[i] = 0; i++
	od;
	i = 0;
	do
	:: i == NODES -> break
	:: else -> mail[i] = 0; i++
	od;
	i = 0;
	do
	:: i == 2 * PAIRS -> break
	:: else -> up_above[i] = 0; i++
	od;
	i = 0;
	do
	:: i == HOSTS * LIVES -> break
	:: else -> join_down[i] = 0; i++
	od;
	i = 0;
	do
	:: i == HOSTS -> break
	:: else -> join_up[i] = 0; i++
	od;
	mail_above[0] = 0;
	mail_above[1] = 0;
	acks_above[0] = 0;
	acks_above[1] = 0;
#if REJOINS > 0
	parents_join[0] = 0;
	parents_join[1] = 0;
	i = 0;
	do
	:: i == 2 * (LAST_NONCE + 1) -> break
	:: else -> ok_above[i] = 0; i++
	od;
#endif
	i = 0
}

/* Every timer of every host runs out. */
inline weir_window_repeat()
{
	s = 0;
	do
	:: s == HOSTS -> break
	:: else ->
		if
		:: phase[s] == joining -> send_join(s)
		:: phase[s] == running -> r = 0; flush(s, r)
		:: else -> skip
		fi;
		s++
	od;
	s = 0
}

/* A round has passed. */
inline pass_time()
{
	r = 0;
	do
	:: r == SWITCHES -> break
	:: else ->
		if
		:: STRAGGLES(r) -> age[r]++
		:: else -> age[r] = 0
		fi;
		if
		:: STRAGGLES(r) && age[r] >= (r == SPINE -> SPINE_TIMEOUT : LEAF_TIMEOUT) ->
			if
			:: r == SPINE -> assert(!IS_COLLECTING(0) && !IS_COLLECTING(1)) /* a rack is late */
			:: else -> skip
			fi;
			straggler(r)
		:: else -> skip
		fi;
		r++
	od;
	r = 0
}

proctype World()
{
	byte kind, q, p, c, s, e, b, r, i, lived, carried, width, rounds;
	bool lie;

	do
	:: calm || EACH(ENDED) -> break
	:: atomic { !calm && UNDER_WAY -> choose(); d_step { handle(); CLEAR } }
	:: d_step { MAY_STRAGGLE(0) -> r = 0; straggler(r); CLEAR }
	:: d_step { MAY_STRAGGLE(1) -> r = 1; straggler(r); CLEAR }
	:: d_step { MAY_STRAGGLE_ABOVE -> r = SPINE; straggler(r); CLEAR }
#if REJOINS > 0
	:: d_step { !calm && restarts > 0 -> restarts--; r = 0; restart(r); CLEAR }
	:: d_step { !calm && crashes > 0 && !ENDED(0) -> crashes--; excused = true; s = 0; fail(s); CLEAR }
#endif
	:: atomic { !calm ->
			d_step {
				lose_all();
				calm = true;
				rounds = 0;
				do
				:: s == HOSTS -> break
				:: else ->
					if
					:: HAS(DEAD, s) -> phase[s] = failed; deaf(s)
					:: else -> skip
					fi;
					s++
				od;
				s = 0;
				i = 0
			};
			do
			:: d_step { UNDER_WAY -> choose(); remove(); handle(); CLEAR }
			:: d_step { !UNDER_WAY && rounds < ROUNDS && !EACH(ENDED) ->
					pass_time();
					weir_window_repeat();
					rounds++
				}
			:: !UNDER_WAY && (rounds == ROUNDS || EACH(ENDED)) -> break
			od;
			d_step {
				/* Otherwise somebody waits for ever. Those who join anew wait for all. */
				assert(EACH(HAS_FINISHED) || (excused && !EACH(GOES_ON)));
				lose_all();
				rounds = 0
			}
		}
	od
}

init
{
	byte i, s, r;

	/* The first generation has begun everywhere. */
	d_step {
		do
		:: i == SWITCHES -> break
		:: else -> generation[i] = 1; epochs[i] = 1; i++
		od;
		over[0] = 1;
		over[1] = 1;
		joins_above[0] = 1;
		joins_above[EPOCHS] = 1;
#if REJOINS > 0
		own_nonce[0] = 1;
		own_nonce[1] = 1;
		used[0] = true;
		used[1] = true;
		i = 0;
		do
		:: i == NODES -> break
		:: else -> accepted_nonce[i] = 1; i++
		od;
#endif
		s = 0;
		do
		:: s == HOSTS -> break
		:: else ->
			began_with[PLACE(1, s)] = 1;
			epoch[s] = 1;
			phase[s] = running;
			weir_window_begin(s);
			s++
		od;
		i = 0;
		s = 0;
		r = 0
	}
	run World()
}
