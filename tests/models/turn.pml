/*
 * turn.pml - the turn of an RCU domain: cycles, fork(), destruction of a cache
 *
 * The domain's thread runs two cycles, in which it retires and releases slabs of
 * the one layer, and may call the program for it.  Beside it another thread
 * flushes the layer and unlinks it, as umem_cache_destroy() does, or is a
 * barrier; or one runs a cycle because of the budget, and a third forks.  The thread that forks may keep
 * grace periods from ending until it has forked, because it is in a read-side
 * section, or because it holds the locks of the flavour bp.  fork() may give up
 * at any time.  The child is not in the model, only the moment of the copy.
 *
 * A futex is a word: a thread that sleeps on the turn goes on when it is woken,
 * or finds the word changed; wake(1) wakes any one of them.  The other words are
 * changed before all that wait for them are woken, so a wait is for the change.
 * Not in the model: collection from CPUs, several domains (a thread waits for
 * one turn at a time but in fork(), which waits for a limited time).
 *
 * Checked:
 *	safety	one thread has the turn; nobody uses a layer that is unlinked;
 *		unless fork() has given up, no thread has a magazine in hand
 *		while memory is copied
 *	end	all threads end, and the turn is free
 *
 * models: umem/rcu/grace.c turn_try turn_try_await turn_await turn_release
 * models: umem/rcu/grace.c turn_take turn_begin turn_end
 * models: umem/rcu/grace.c domain_synchronize_in_turn domain_call_program
 * models: umem/rcu/grace.c domain_run_cycle domain_release_slabs
 * models: umem/rcu/grace.c domain_tell_release domain_thread_cycle
 * models: umem/rcu/grace.c domain_await_releases domain_flush
 * models: umem/rcu/grace.c domain_flush_layer domain_unlink
 * models: umem/rcu/grace.c domain_hold_in_grace domain_is_calling
 * models: umem/rcu/grace.c domain_end_hold
 * models: umem/rcu/grace.c domain_keep_turn domain_try_hold
 * models: umem/rcu/grace.c domain_hold_for_fork defer_after_fork
 * sum: 21546b8bbf409683
 */
#define NTHREAD 3
#define NOBODY  9

/* The turn */
#define FREE    0
#define TAKEN   1
#define AWAITED 2
#define HANDED  3

/* The turn in a grace period */
#define NONE           0
#define LISTS_COMPLETE 1
#define HELD           2

byte turn, holder = NOBODY, grace_state, releaser = NOBODY;
byte nawaiting;
bit fork_waits, releasing, retired, unlinked;
bit is_told; /* nreleases has changed since the destroyer read it */

bit asleep[NTHREAD];
bit blocks_grace;          /* the forking thread reads, or has bp's locks */
byte in_hand;              /* threads with a magazine in hand */
bit using;                 /* slabs of the layer are being released */
bit copies, gave_up;       /* fork() copies memory; it had to give up */

inline sleep(value)
{
	atomic {
		if
		:: turn == value -> asleep[me] = 1
		:: else
		fi
	}
}

inline got_turn()
{
	assert(holder == NOBODY);
	holder = me
}

inline left_turn()
{
	assert(holder == me);
	holder = NOBODY
}

inline turn_try(value)
{
	atomic {
		if
		:: turn == value ->
			turn = (value == FREE -> TAKEN : AWAITED);
			got_turn();
			got = 1
		:: else -> got = 0
		fi
	}
}

inline turn_try_await(is_timed)
{
	atomic {
		was = turn;
#ifdef BUG_TAKES_AS_TAKEN /* although others may sleep */
		turn = (was == FREE || was == HANDED -> TAKEN : AWAITED);
#else
		turn = AWAITED;
#endif
		if
		:: was == FREE || was == HANDED -> got_turn(); got = 1
		:: else -> got = 0
		fi;
		was = 0
	};
	if
	:: got
	:: else ->
		sleep(AWAITED);
		if
		:: !asleep[me]
		:: is_timed -> asleep[me] = 0
		fi
	fi
}

inline turn_take()
{
	got = 0;
	if
	:: fork_waits == 0 -> turn_try(FREE)
	:: else
	fi;
	if
	:: got
	:: else ->
		sleep(HANDED);
		!asleep[me];
		do
		:: got -> break
		:: else ->
			fork_waits == 0;
			turn_try_await(0)
		od
	fi;
	got = 0
}

inline turn_release()
{
	if
	:: atomic { turn == TAKEN -> left_turn(); turn = FREE }
	:: atomic { turn != TAKEN ->
			assert(turn == AWAITED);
			left_turn();
			turn = HANDED
		};
		atomic { /* futex_wake(1) */
			if
			:: asleep[0] -> asleep[0] = 0
			:: asleep[1] -> asleep[1] = 0
			:: asleep[2] -> asleep[2] = 0
			:: else -> was = 1
			fi
		};
		if
		:: atomic { was == 1 && turn == HANDED -> was = 0; turn = FREE };
#ifndef BUG_NO_SECOND_WAKE
			atomic { asleep[0] = 0; asleep[1] = 0; asleep[2] = 0 }
#endif
		:: was == 0 || turn != HANDED -> was = 0
		fi
	fi
}

inline tell_release()
{
	is_told = 1
}

inline handle_magazine()
{
	atomic { in_hand++; assert(!copies || gave_up) };
	in_hand--
}

inline synchronize_in_turn()
{
	atomic { assert(grace_state == NONE); grace_state = LISTS_COMPLETE };
	!blocks_grace;
	do
	:: atomic { grace_state == LISTS_COMPLETE -> grace_state = NONE }; break
#ifdef BUG_LEAVES_HELD
	:: atomic { grace_state == HELD -> grace_state = NONE }; break
#endif
	od
}

inline run_cycle(may_retire, calls)
{
	assert(holder == me);
	if
	:: atomic { !unlinked ->
		if
		:: may_retire -> assert(!retired); retired = 1
		:: true
		fi
		};
		synchronize_in_turn();
		if
		:: calls ->
			/* domain_call_program() */
#ifdef BUG_RELEASER_LATE
			turn_release();
			releaser = me;
#else
			releaser = me;
			turn_release();
#endif
			assert(!unlinked);
			handle_magazine();
			releaser = NOBODY;
			tell_release();
			turn_take()
		:: else -> handle_magazine()
		fi
	:: else
	fi
}

proctype domain_thread(byte me)
{
	byte was, i;
	bit got, calls;

	do
	:: i == 2 -> break
	:: else ->
		i++;
		turn_take();
		atomic {
			if
			:: releaser == NOBODY && nawaiting == 0 -> calls = 1
			:: calls = 0
			fi
		};
		run_cycle(1, calls);
		calls = 0;
		/* domain_release_slabs() */
		if
		:: atomic { retired && !unlinked -> retired = 0; releasing = 1 };
			turn_release();
			atomic { assert(!unlinked); using = 1 };
			using = 0;
			turn_take();
			atomic { releasing = 0; tell_release() }
		:: else
		fi;
		turn_release()
	od
}

inline await_releases(of_layer)
{
	nawaiting++;
	do
	::
#ifdef BUG_LOOKS_LATE
		if
		:: releaser == NOBODY && (!of_layer || !releasing) -> break
		:: else -> is_told = 0
		fi;
#else
		is_told = 0;
		if
		:: releaser == NOBODY && (!of_layer || !releasing) -> break
		:: else
		fi;
#endif
		turn_release();
		is_told;
		turn_take()
	od;
	nawaiting--
}

proctype destroyer(byte me)
{
	byte was;
	bit got;

	turn_take();
	await_releases(0);
	run_cycle(0, 1);
	if
	:: true ->
#ifndef BUG_UNLINKS_EARLY
		await_releases(1);
#endif
		atomic {
			unlinked = 1;
			retired = 0;
			assert(!using && releaser == NOBODY)
		}
	:: true /* a barrier */
	fi;
	turn_release()
}

/* A thread beyond the budget */
proctype reducer(byte me)
{
	byte was;
	bit got;

	turn_take();
	run_cycle(0, 0);
	turn_release()
}

#define IS_CALLING (releaser != NOBODY)

inline hold_in_grace()
{
	atomic {
		if
		:: grace_state == LISTS_COMPLETE -> grace_state = HELD; held = 1
		:: else -> held = 0
		fi
	}
}

inline end_hold()
{
	grace_state = LISTS_COMPLETE
}

inline keep_turn()
{
	if
#ifndef BUG_TAKES_BESIDE_CALLS
	:: got && IS_CALLING -> turn_release(); got = 0
#endif
	:: else
	fi
}

proctype forker(byte me)
{
	byte was;
	bit got, held;

	{
		if
		:: blocks_grace = 1
		:: true
		fi;
		/* domain_hold_for_fork() */
		turn_try(FREE);
		keep_turn();
		if
		:: got
		:: else ->
			do
			:: true ->
				fork_waits = 1;
				if
				:: IS_CALLING /* waits for a time */
				:: else ->
					if
					:: blocks_grace -> hold_in_grace()
					:: else
					fi;
#ifndef BUG_HOLDS_BESIDE_CALLS
					if
					:: held && IS_CALLING ->
						held = 0;
						end_hold()
					:: else
					fi;
#endif
					if
					:: held
					:: else ->
						turn_try_await(1);
						keep_turn()
					fi
				fi;
				if
				:: got || held -> break
				:: else
				fi
			:: true -> /* The time is over. */
#ifndef BUG_LEAVES_HANDED
				turn_try(HANDED);
#endif
				if
				:: !got -> turn_try(FREE)
				:: else
				fi;
				gave_up = 1;
				break
			od;
#ifndef BUG_MAKES_WAIT
			fork_waits = 0;
#endif
			if
			:: !got && !held -> hold_in_grace()
			:: else
			fi
		fi;
		/* The copy */
		atomic {
			copies = 1;
			assert(gave_up || (in_hand == 0 && (got || held)));
			assert(gave_up || releaser == NOBODY)
		};
		copies = 0;
		/* defer_after_fork() in the parent */
		if
		:: held -> end_hold()
		:: got -> turn_release()
		:: else
		fi;
		atomic {
			got = 0;
			held = 0;
			gave_up = 0;
			blocks_grace = 0
		}
	}
}

init {
	atomic {
		run domain_thread(0);
		if
		:: run destroyer(1)
		:: run reducer(1); run forker(2)
		fi
	}
	timeout;
	assert(_nr_pr == 1);
	assert(turn == FREE && holder == NOBODY && grace_state == NONE);
	assert(fork_waits == 0 && nawaiting == 0)
}
