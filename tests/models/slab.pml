/*
 * slab.pml - states of slabs: retirement, grace periods, a second free, fork()
 *
 * A type-stable store with slabs of one chunk: two spans, and two descriptions,
 * which are reused.  An updater allocates an object, shows it to readers, hides
 * it and frees it at once, twice.  Upkeep asks for a release of the empty slabs;
 * the domain's thread retires them, waits for a grace period of two flavours,
 * and releases them.  Beside these, a reader of each flavour has a section; or
 * another thread frees an object a second time; or the domain's thread is lost
 * in a child of fork(), which starts another.  fork() waits while that thread
 * has the turn but in a grace period (turn.pml).
 *
 * What the store's lock protects is one step, with all that happens under the
 * lock.  The look of slab_give() before it takes the lock is one step, too: the
 * description is found and its address of the first chunk is read once.
 *
 * Checked:
 *	safety	a reader's object keeps its type while the reader may use it; no
 *		chunk is allocated twice; a second free changes no slab, or the
 *		chunk was allocated again; a free of an allocated object succeeds
 *	end	when nothing happens any more, no slab is retired, and no empty
 *		slab is left whose release was asked for
 *
 * models: umem/slab/slab_retire.c slab_want_retire_locked slab_retire_wanted
 * models: umem/slab/slab_retire.c slab_retire_one_locked slab_retire
 * models: umem/slab/slab_retire.c slab_chain_retired_locked slab_end_retired
 * models: umem/slab/slab.c slab_create slab_register_locked slab_destroy
 * models: umem/slab/slab.c slab_surplus_locked slab_surplus_end slab_reap
 * models: umem/slab/slab_give.c claims_make claim_holds_locked
 * models: umem/slab/slab_give.c claims_give_locked chunk_give_locked
 * models: umem/rcu/grace.c domain_retire layer_retire_slabs
 * models: umem/rcu/grace.c layer_release_slabs domain_release_slabs
 * models: umem/rcu/grace.c layer_after_fork
 * sum: 2126c85e71c3461c
 */
#define NSLAB    3 /* descriptions; 0: none */
#define NSPAN    3 /* spans, which are the chunks; 0: none */
#define NFLAVOUR 2

/* States of a description */
#define UNUSED  0
#define MADE    1 /* by one thread, or in its hand to be destroyed */
#define EMPTY   2
#define FULL    3
#define RETIRED 4

byte state[NSLAB], span[NSLAB], batch[NSLAB];
bit free[NSLAB];        /* the bit of the chunk */
byte owner[NSPAN];      /* the page map */
bit typed[NSPAN];       /* the span has an object of the type */
bit span_used[NSPAN];
byte shared;            /* the object that readers find, or 0 */
byte second;            /* an object that was freed, for the second free */
bit wanted;             /* retire_wanted: to keep no slab */
byte last_batch;
bit has_empty;          /* of the domain */
byte retired_batch;     /* of the layer */
bit reads[NFLAVOUR];    /* a reader is in a section */
byte sections[NFLAVOUR];
bit forked, misused;
bit is_busy;            /* a thread has the turn, in no grace period */

/* The slab of which a chunk can be taken, or 0. */
inline find_empty()
{
	s = 1;
	do
#ifdef BUG_TAKES_RETIRED
	:: s < NSLAB && state[s] != EMPTY && state[s] != RETIRED -> s++
#else
	:: s < NSLAB && state[s] != EMPTY -> s++
#endif
	:: else -> break
	od
}

inline take_locked()
{
	assert(free[s] && owner[span[s]] == s);
	free[s] = 0;
	state[s] = FULL;
	object = span[s]
}

inline allocate()
{
	atomic {
		find_empty();
		if
		:: s < NSLAB -> take_locked()
		:: else
		fi
	};
	if
	:: object == 0 ->
		/* slab_create() */
		atomic {
			s = 1;
			do
			:: s < NSLAB && state[s] != UNUSED -> s++
			:: else -> break
			od;
			s < NSLAB;
			state[s] = MADE
		};
		atomic {
			if
			:: !span_used[1] -> i = 1
			:: !span_used[2] -> i = 2
			fi;
			span_used[i] = 1;
			span[s] = i;
			free[s] = 1;
			i = 0
		};
		owner[span[s]] = s;
		atomic {
			state[s] = EMPTY;
			take_locked()
		};
		typed[object] = 1
	:: else
	fi;
	s = 0
}

/* slab_give(): sets is_given, or reports a fault. */
inline give(chunk)
{
	/* claims_make(), without the lock */
	s = owner[chunk];
	if
	:: s == 0 || span[s] != chunk -> is_given = 0
	:: else ->
		atomic {
			if
#ifndef BUG_NO_LOOK_AT_OWNER
			:: owner[chunk] != s || span[s] != chunk ->
				is_given = 0
#endif
#ifndef BUG_NO_LOOK_AT_BITS
			:: free[s] -> is_given = 0
#endif
			:: else ->
				assert(state[s] == FULL && span[s] == chunk);
				assert(!free[s]);
				free[s] = 1;
				state[s] = EMPTY;
				is_given = 1
			fi
		}
	fi;
	s = 0
}

proctype updater()
{
	byte object, s, i, left = 2;
	bit is_given;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		allocate();
		shared = object;
		shared = 0;
		second = object;
		give(object);
		/* A second free may have freed this one. */
		assert(is_given || misused);
		object = 0
	od
}

/* Frees an object that was freed, or is about to be, once. */
proctype misuser()
{
	byte s, chunk;
	bit is_given;

	chunk = second;
	if
	:: chunk != 0 ->
		atomic { second = 0; misused = 1 };
		give(chunk);
		misused = is_given
	:: else
	fi
}

proctype reader(byte flavour)
{
	byte object;

	do
	:: sections[flavour] == 1 -> break
	:: else ->
		atomic { reads[flavour] = 1; sections[flavour]++ };
		object = shared;
		if
		:: object != 0 ->
			/* It reads the object's type at any later time. */
			assert(typed[object])
		:: else
		fi;
		atomic { reads[flavour] = 0; object = 0 }
	od
}

/* slab_reap() of upkeep, and want_retire() */
proctype upkeep()
{
	byte s, left = 2;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		atomic {
			find_empty();
			if
			:: s < NSLAB && state[s] == EMPTY -> wanted = 1
			:: else
			fi;
			s = 0
		};
		if
		:: wanted -> has_empty = 1
		:: else
		fi
	od
}

inline destroy()
{
	typed[span[s]] = 0; /* the destructor runs */
	owner[span[s]] = 0;
	atomic { span_used[span[s]] = 0; span[s] = 0 };
	state[s] = UNUSED
}

/* Waits for the readers of a flavour that are in a section now. */
inline synchronize(flavour)
{
	seen = sections[flavour];
	!reads[flavour] || sections[flavour] != seen;
	seen = 0
}

proctype domain_thread()
{
	byte s, ends, seen;

again:
end_sleep:
	has_empty;
	{
		do
		:: !has_empty -> break
		:: has_empty ->
#ifdef BUG_CLEARS_LATE
			is_busy = 1;
#else
			atomic { is_busy = 1; has_empty = 0 };
#endif
			/* layer_retire_slabs() */
			atomic {
				assert(retired_batch == 0);
				if
				:: wanted ->
					wanted = 0;
					last_batch++;
					for (s : 1 .. NSLAB - 1) {
						if
						:: state[s] == EMPTY ->
							state[s] = RETIRED;
							batch[s] = last_batch
						:: else
						fi
					}
				:: else
				fi;
				for (s : 1 .. NSLAB - 1) {
					if
					:: state[s] == RETIRED ->
						retired_batch = last_batch
					:: else
					fi
				}
				s = 0;
				is_busy = 0
			};
#ifdef BUG_CLEARS_LATE
			has_empty = 0;
#endif
			if
			:: retired_batch == 0
			:: else ->
#ifndef BUG_NO_GRACE
				synchronize(0);
#endif
				atomic { ends = retired_batch; retired_batch = 0 };
#ifndef BUG_ONE_FLAVOUR
				synchronize(1);
#endif
				/* slab_end_retired() */
				do
				:: atomic {
					s = 1;
					do
					:: s < NSLAB && (batch[s] == 0 ||
						batch[s] > ends) -> s++
					:: else -> break
					od;
					if
					:: s < NSLAB ->
						assert(state[s] == RETIRED);
						state[s] = MADE;
						batch[s] = 0
					:: else -> s = 0; break
					fi
				   };
				destroy()
				od;
				ends = 0
			fi
		od
	} unless {
		forked == 1
	};
	if
	:: atomic { forked == 1 ->
			/* layer_after_fork(); what it had in hand is lost. */
			forked = 0;
			s = 0; ends = 0; seen = 0;
#ifndef BUG_FORK_KEEPS_BATCH
			retired_batch = 0;
#endif
#ifndef BUG_FORK_FORGETS
			if
			:: state[1] == RETIRED || state[2] == RETIRED ->
				has_empty = 1
			:: else
			fi
#endif
		}
	:: forked == 0
	fi;
	goto again
}

/* A child in which the domain's thread is another. */
proctype forker()
{
	atomic { !is_busy -> forked = 1 }
}

init {
	atomic {
		run updater();
		if
		:: run misuser()
		:: run forker()
		:: run reader(0); run reader(1)
		fi;
		run upkeep();
		run domain_thread()
	}
	timeout;
	assert(state[1] != RETIRED && state[2] != RETIRED);
	assert(!wanted || (state[1] != EMPTY && state[2] != EMPTY))
}
