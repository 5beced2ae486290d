/*
 * heap.pml - the states of the heap's units: allocate, free, purge, fork()
 *
 * A group of four units, whose states are in two words.  Two threads allocate
 * blocks of one, three or four units, write to them and free them; a third
 * purges, and the kernel may refuse.  A wait for a purge may last too long, and
 * then the block is freed again.  The group is dirty as a whole at first.  There
 * is one epoch, which is old enough for a purge.
 *
 * The arena has a lock, so to take or return a block there is one step.  Not in
 * the model: STATE_AWAY and decommitted windows, nmarked, several units in one
 * call of os_purge(), units that the program's madvise() asks for.
 *
 * Checked:
 *	safety	a purge writes to no unit that the program uses; a block that is
 *		said to be zeroed is; whenever heap_lock is free, as when
 *		fork() copies memory, a free unit that has data is dirty in the
 *		child, and a group that is dirty as a whole has no other states
 *	end	all threads end; ndirty is the number of dirty units
 *
 * models: vmem/heap_purge.c word_clear purge_await group_split groups_clear
 * models: vmem/heap_purge.c units_clear heap_states_clear heap_states_mark
 * models: vmem/heap_purge.c purge_mark purge_marked heap_states_after_fork
 * sum: de092f3d8beea462
 */
#define NUNIT 4

/* States of a unit */
#define CLEAN   0
#define DIRTY   1 /* an epoch */
#define PURGING 2
#define WHOLE   3 /* of the first unit: the group is dirty */

byte st[NUNIT] = 0;
bit taken[NUNIT];  /* by a block, in the arena */
bit in_use[NUNIT]; /* the program has it */
bit data[NUNIT];   /* it does not read as zeros */
byte ndirty;
bit heap_lock;
byte nrunning = 3;

#define LAST(i, n) ((i) + (n) - 1)

inline lock_take()
{
	atomic { !heap_lock -> heap_lock = 1 }
}

/* group_split(): the first state last */
inline group_split()
{
	lock_take();
	if
	:: st[0] == WHOLE ->
#ifdef BUG_FIRST_STATE_FIRST
		atomic { st[0] = DIRTY; st[1] = DIRTY };
		atomic { st[2] = DIRTY; st[3] = DIRTY }
#else
		atomic { st[2] = DIRTY; st[3] = DIRTY };
		atomic { st[0] = DIRTY; st[1] = DIRTY }
#endif
	:: else
	fi;
	heap_lock = 0
}

/* word_clear(): the units from i up to to, which are in one word */
inline word_clear()
{
	w = i - i % 2;
	atomic { was0 = st[w]; was1 = st[w + 1] };
	do
	:: (i == w && was0 >= PURGING) ||
	   (i + 1 == to && i != w && was1 >= PURGING) ||
	   (to == w + 2 && was1 >= PURGING) -> break /* at i as before */
	:: else ->
		atomic {
			if
#ifdef BUG_WRITES_WHAT_IT_READ
			:: true ->
#else
			:: st[w] == was0 && st[w + 1] == was1 ->
#endif
				st[w] = was0;
				st[w + 1] = was1;
				if
				:: i == w ->
					nwere = nwere + (was0 == DIRTY);
					st[w] = CLEAN
				:: else
				fi;
				if
				:: to == w + 2 ->
					nwere = nwere + (was1 == DIRTY);
					st[w + 1] = CLEAN
				:: else
				fi;
				i = to;
				break
#ifndef BUG_WRITES_WHAT_IT_READ
			:: else -> was0 = st[w]; was1 = st[w + 1]
#endif
			fi
		}
	od;
	atomic { w = 0; was0 = 0; was1 = 0 }
}

/* heap_states_clear() up to end; ok if all are clear */
inline states_clear()
{
	do
	:: i == end -> break
	:: else ->
		if
#ifndef BUG_SEES_NO_GROUP
		:: st[0] == WHOLE ->
			if
			:: i == 0 && end == NUNIT ->
				lock_take();
				if
				:: atomic { st[0] == WHOLE ->
						st[0] = CLEAN;
						nwere = NUNIT;
						i = end
					}
				:: else
				fi;
				heap_lock = 0
			:: else
			fi;
			if
			:: i != end -> group_split()
			:: else -> break
			fi
#endif
		:: else
		fi;
		do
		:: i == end -> break
		:: else ->
			atomic {
				at = i;
				to = (end < i - i % 2 + 2 -> end : i - i % 2 + 2)
			};
			word_clear();
			if
			:: i == at -> to = i + 1; word_clear()
			:: else
			fi;
			if
			:: i == at ->
				/* purge_await() */
				if
				:: st[i] != PURGING
#ifdef BUG_NO_WAIT
				:: st[i] == PURGING -> i++
#else
				:: true -> goto too_long
#endif
				fi
			:: else
			fi
		od
	od;
	ok = 1;
too_long:
	at = 0
}

/* heap_states_mark() of the units from first up to end */
inline states_mark(from, up_to)
{
	ndirty = ndirty + (up_to - from);
	if
	:: from == 0 && up_to == NUNIT -> st[0] = WHOLE
	:: from == 0 && up_to == 1 -> st[0] = DIRTY
	:: from == 1 ->
		at = 1;
		do
		:: at == up_to -> break
		:: at == 2 && up_to == NUNIT ->
			atomic { st[2] = DIRTY; st[3] = DIRTY; at = up_to }
		:: else -> st[at] = DIRTY; at++
		od;
		at = 0
	:: from == 0 && (up_to == 2 || up_to == 3) ->
		atomic { st[0] = DIRTY; st[1] = DIRTY };
		if
		:: up_to == 3 -> st[2] = DIRTY
		:: else
		fi
	:: from == up_to
	fi
}

inline arena_free()
{
	atomic {
		for (j : first .. end - 1) {
			in_use[j] = 0;
			taken[j] = 0
		}
		j = 0
	}
}

proctype user(byte left)
{
	byte first, end, i, j, at, to, w, was0, was1, nwere;
	bit ok;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		atomic {
			if
			:: !taken[0] && !taken[1] && !taken[2] && !taken[3] ->
				first = 0; end = NUNIT
			:: !taken[1] && !taken[2] && !taken[3] ->
				first = 1; end = NUNIT
			:: !taken[0] -> first = 0; end = 1
			:: else -> break
			fi;
			for (j : first .. end - 1) {
				taken[j] = 1
			}
			j = 0;
			i = first
		};
		states_clear();
		ndirty = ndirty - nwere;
		if
		:: ok ->
			atomic {
				/* The block is the program's. */
				for (j : first .. end - 1) {
					assert(nwere != 0 || !data[j]);
					in_use[j] = 1;
					data[j] = 1
				}
				j = 0
			};
#ifdef BUG_FREES_FIRST
			arena_free();
			states_mark(first, end)
#else
			atomic {
				/* The program gives it back. */
				for (j : first .. end - 1) {
					in_use[j] = 0
				}
				j = 0
			};
			states_mark(first, end);
			arena_free()
#endif
		:: else ->
			states_mark(first, i);
			arena_free()
		fi;
		atomic { ok = 0; nwere = 0; i = 0; first = 0; end = 0; to = 0 }
	od;
	nrunning--
}

/* heap_purge() */
proctype purger()
{
	byte i;

	do
	:: i == NUNIT -> break
	:: else ->
		if
		:: st[0] == WHOLE -> group_split()
		:: else
		fi;
		if
#ifdef BUG_PURGES_UNMARKED
		:: st[i] == DIRTY ->
			st[i] = PURGING;
#else
		:: atomic { st[i] == DIRTY -> st[i] = PURGING };
#endif
			if
			:: atomic { assert(!in_use[i]); data[i] = 0 };
				st[i] = CLEAN;
				ndirty--
			:: st[i] = DIRTY /* The kernel refuses. */
			fi
		:: st[i] != DIRTY
		fi;
		i++
	od;
	nrunning--
}

#define IS_SAFE(u) \
	(taken[u] || !data[u] || st[u] == DIRTY || st[u] == PURGING || \
	    st[0] == WHOLE)

/* fork() holds heap_lock and the locks of the arenas. */
proctype forker()
{
	atomic {
		!heap_lock;
		assert(IS_SAFE(0) && IS_SAFE(1) && IS_SAFE(2) && IS_SAFE(3));
		assert(st[0] != WHOLE ||
		    (st[1] == CLEAN && st[2] == CLEAN && st[3] == CLEAN))
	}
}

init {
	byte n, u;

	atomic {
		st[0] = WHOLE;
		ndirty = NUNIT;
		for (u : 0 .. NUNIT - 1) {
			data[u] = 1
		}
		u = 0;
		run user(2);
		run user(1);
		run purger();
		run forker()
	}
	nrunning == 0;
	atomic {
		for (u : 0 .. NUNIT - 1) {
			n = n + (st[u] == DIRTY);
			assert(st[u] != PURGING && !taken[u])
		}
		assert(ndirty == (st[0] == WHOLE -> NUNIT : n))
	}
}
