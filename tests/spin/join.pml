/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations, in the switch: how they begin and end. Included by switch.pml. */

/*
 * Not modelled: the join that a source without answers repeats in its generation, with gen_id the generation. It
 * differs from the others: accept() answers it in that generation alone, and otherwise it is dropped, so it never
 * sets a bit of pending. So a source changes its address only while it waits to be accepted.
 */

/* ---- membership: join.c, announce.c, source.c ---- */

inline accept(s)
{
	if
	:: ENDED(s) || !REACHES(0, s) -> skip
	:: else ->
		join_down[s * LIVES + accepted_nonce[s] - 1] =
			join_down[s * LIVES + accepted_nonce[s] - 1] | (1 << generation[0])
	fi
}

/* from: the address that the join came from. */
inline join(s, nonce, from)
{
	if
#ifdef BUG_TOLD_WHILE_WALKING
	:: generation[0] != 0 && accepted_nonce[s] == nonce ->
#else
	:: generation[0] != 0 && !REVOKED(0) && generation[0] == accepted_generation &&
		accepted_nonce[s] == nonce ->
#endif
#ifdef BUG_JOIN_NOT_ANSWERED
		skip
#elif defined(BUG_NOT_FOLLOWED)
		accept(s)
#else
		if
		:: known_at[s * WINDOW] == from -> accept(s)
#ifndef BUG_FOLLOWED_MEANWHILE
		:: known_at[s * WINDOW] != from && ANNOUNCEMENTS != 0 -> skip /* held back */
#endif
		:: else -> following = 1; moved = s; moved_to = from /* has_moved() */
		fi
#endif
	:: else ->
		if
		:: ANNOUNCEMENTS != 0 -> skip /* held back */
#if defined(REVOKE) && !defined(BUG_LATE_JOIN_REVOKES)
		:: former_nonce[s] == nonce || (accepted_nonce[s] == nonce && pending & (1 << s) &&
			pending_nonce[s] != nonce) -> skip /* is_late_copy() */
#endif
		:: else ->
			pending = pending | (1 << s);
			pending_nonce[s] = nonce;
			pending_at[s] = from;
			if
			:: pending == ALL && epochs < EPOCHS ->
				epochs++;
				i = 0;
				do
				:: i == SOURCES -> break
				:: else ->
					began_with[PLACE(epochs, i)] = pending_nonce[i];
					i++
				od;
#ifdef BUG_NUMBER_REUSED
				last_number++;
				number[epochs] = last_number;
#endif
				walking = 1
#ifdef REVOKE
			:: pending != ALL && generation[0] != 0 && !revoked[0] ->
				/* Not by a copy of what brought it into the generation before. */
				assert(generation[0] < 2 ||
					began_with[(generation[0] - 2) * SOURCES + s] != nonce);
				excused = true;
				revoking = 1
#endif
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
#ifdef REVOKE
		former_nonce[i] = (accepted_nonce[i] == pending_nonce[i] -> 0 : accepted_nonce[i]);
#endif
		accepted_nonce[i] = pending_nonce[i];
		pending_nonce[i] = 0;
		accept(i);
		i++
	od;
	pending = 0
}

inline block_forget_all(r, count_on)
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
		buffers--
	:: else -> skip
	fi;
	if
	:: count_on -> skip
	:: else -> next[r] = r
	fi;
#ifdef REVOKE
	revoked[r] = count_on;
#endif
#ifdef DEAD_AFTER
	expelled[r] = 0;
#endif
	skip
}

/* The walk over the shards: one a step, contributions come in between. */
inline adopt()
{
	r = walking - 1;
	assert(ANNOUNCEMENTS == 1);
	block_forget_all(r, false);
	generation[r] = epochs;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else -> known_at[i * WINDOW + r] = pending_at[i]; i++
	od;
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

#ifdef REVOKE
inline generation_end(r)
{
	block_forget_all(r, true)
}

/* The other walk, when a source joins anew: the generation is over. */
inline revoke()
{
	r = revoking - 1;
	assert(ANNOUNCEMENTS == 1);
	generation_end(r);
	if
	:: revoking == WINDOW -> revoking = 0
	:: else -> revoking++
	fi
}
#endif

/* The third walk, when an accepted source repeats its join from elsewhere. */
inline endpoint_update()
{
	assert(ANNOUNCEMENTS == 1);
	known_at[moved * WINDOW + following - 1] = moved_to;
	if
	:: following == WINDOW -> following = 0; accept(moved) /* followed() */
	:: else -> following++
	fi
}

/* kill -9, and a fresh start: nothing is left, not even the number of its last generation, which
 * is why the first one is drawn at random, or kept in the state file. */
inline restart()
{
	r = 0;
	do
	:: r == WINDOW -> break
	:: else -> block_forget_all(r, false); generation[r] = 0; r++
	od;
	i = 0;
	do
	:: i == SOURCES -> break
	:: else ->
		accepted_nonce[i] = 0;
		pending_nonce[i] = 0;
#ifdef REVOKE
		former_nonce[i] = 0;
#endif
		i++
	od;
#ifdef REVOKE
	revoking = 0;
#endif
	following = 0;
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
		join(s, p / 2, p % 2);
		p = 0; i = 0
	}
}
