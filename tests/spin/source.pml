/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources: included by block.pml and tree.pml. They define:
 *   EVERYBODY           what a complete result says
 *   OPERATION(s, e, b)  the index in `told` of what source s calls block b of epoch e
 *   PLACE(e, s)         the index in `began_with` of source s in epoch e
 *   LIVES_NOW           how often an application opens a handle
 *   IS_AWAY(s, b)       the source acknowledges the block instead of contributing to it
 *   DOES_BOTH(s, b)     it may do either
 */

/* ---- apps/libweir/ ---- */

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
	join_up[s] = join_up[s] | (1 << (2 * (life[s] + 1) + at[s]))
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
	:: life[s] + 1 < LIVES_NOW ->
		life[s] = life[s] + 1;
		phase[s] = joining;
		send_join(s)
	:: else ->
		phase[s] = failed;
		deaf(s)
	fi;
	vain = 0
}

#ifdef AWAY
/* All before this block of its residue is here. */
inline weir_unexpected_flush(s, b)
{
	acks = acks | (1 << (s * PAIRS + PAIR(epoch[s], b)));
#ifdef BUG_ACKNOWLEDGED_EARLY
	if
	:: b + WINDOW < BLOCKS -> acks = acks | (1 << (s * PAIRS + PAIR(epoch[s], b + WINDOW)))
	:: else -> skip
	fi
#endif
}
#endif

/* The block of this slot goes out, if there is one left. */
inline flush(s, r)
{
	if
	:: flying[s * WINDOW + r] >= BLOCKS -> skip
#ifdef AWAY
	:: flying[s * WINDOW + r] < BLOCKS && DOES_BOTH(s, flying[s * WINDOW + r]) ->
		weir_unexpected_flush(s, flying[s * WINDOW + r]);
		up = up | (1 << (s * PAIRS + PAIR(epoch[s], flying[s * WINDOW + r])))
	:: flying[s * WINDOW + r] < BLOCKS && !DOES_BOTH(s, flying[s * WINDOW + r]) &&
		IS_AWAY(s, flying[s * WINDOW + r]) ->
		weir_unexpected_flush(s, flying[s * WINDOW + r])
#endif
	:: else -> up = up | (1 << (s * PAIRS + PAIR(epoch[s], flying[s * WINDOW + r])))
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

inline block_answered(s, r)
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
	assert(says == EVERYBODY || POLICY != WAIT_FOR_ALL); /* a partial sum, for whom nobody asked */
	assert(told[OPERATION(s, e, b)] == 0 || told[OPERATION(s, e, b)] == says + 1); /* replicas part */
	told[OPERATION(s, e, b)] = says + 1
}

inline take(s, e, b, says)
{
	r = b % WINDOW;
	if
	:: phase[s] != running || flying[s * WINDOW + r] != b || !OURS(s, e) -> skip
	:: else ->
		if
		:: says <= EVERYBODY ->
			check_result(s, e, b, says);
			block_answered(s, r)
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
		assert(began_with[PLACE(e, s)] == nonce); /* or it is another's place */
		epoch[s] = e;
		phase[s] = running;
		vain = 0;
		weir_window_begin(s)
	:: else -> skip
	fi
}

#ifndef PARENT
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
#ifdef MOVES
	:: d_step { phase[s] == joining && at[s] == 0 ->
			at[s] = 1;
			join_down[s * LIVES + life[s]] = 0 /* what is on its way is lost */
		}
#endif
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
#endif
