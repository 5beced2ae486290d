/*
 * doze.pml - the thread of an RCU domain: awake, asleep, absent
 *
 * One header of one layer.  Two threads each defer the free of two objects, in
 * locked mode: one that finds the header owned submits its object alone, and one
 * that pushes into a magazine which lies there already does not look at the
 * thread.  Upkeep asks for the release of empty slabs, and starts the thread
 * afterwards.  The domain's thread may end whenever it is asleep.  Memory is
 * sequentially consistent, as the fences of the two sides make it.
 *
 * Not in the model: grace periods and the turn (turn.pml); ticks and hurry,
 * which only change when a cycle runs; threads that cannot be created; fork().
 *
 * Checked at the end: no object waits, and no slabs.
 *
 * models: umem/rcu/grace.c domain_thread_cycle domain_thread_sleep_if_idle
 * models: umem/rcu/grace.c domain_thread_main domain_thread_wake domain_loaded
 * models: umem/rcu/grace.c domain_retire defer_rouse domain_is_used
 * models: umem/rcu/grace.c domain_run_cycle
 * models: magazine/deferred.c deferred_put deferred_submit deferred_is_used
 * models: magazine/cpu_drain.c cpu_is_open
 * catches: umem/rcu/grace.c domain_thread_sleep_if_idle BUG_LOOKS_FIRST
 *	`__atomic_thread_fence(__ATOMIC_SEQ_CST);` => `;`
 * catches: umem/rcu/grace.c domain_thread_wake BUG_WAKES_FIRST
 *	`__atomic_thread_fence(__ATOMIC_SEQ_CST);` => `;`
 * sum: 0c8ddea521ad2c50
 */
#define ABSENT 0
#define AWAKE  1
#define ASLEEP 2

byte thread_state;
bit owned, open, pending, has_empty;
bit wanted; /* slabs of a store are to be retired; changes under its lock */
byte nthreads;

/* domain_thread_wake() with the state that it has seen */
inline thread_wake()
{
	if
	:: seen == ASLEEP ->
		atomic {
			if
			:: thread_state == ASLEEP -> thread_state = AWAKE
			:: else -> seen = thread_state
			fi
		}
	:: else
	fi
}

inline loaded()
{
	thread_wake();
	if
	:: atomic { seen == ABSENT && thread_state == ABSENT ->
			thread_state = AWAKE;
			run domain_thread()
		}
	:: seen != ABSENT || thread_state != ABSENT
	fi;
	seen = 0
}

proctype updater()
{
	byte seen, left = 2;
	bit is_first;

	do
	:: left == 0 -> break
	:: else ->
		left--;
#ifdef BUG_WAKES_FIRST /* without the fence, its load overtakes the stores */
		seen = thread_state;
#endif
		if
		:: atomic { !owned -> owned = 1 };
			atomic { is_first = !open; open = 1 };
			owned = 0;
			if
			:: is_first ->
#ifndef BUG_WAKES_FIRST
				seen = thread_state;
#endif
				loaded()
			:: else -> seen = 0
			fi
		:: atomic { owned -> pending = 1 };
#ifndef BUG_WAKES_FIRST
			seen = thread_state;
#endif
			loaded()
		fi
	od
}

proctype upkeep()
{
	byte seen;

	wanted = 1;
	has_empty = 1;
	seen = thread_state;
	thread_wake();
	seen = 0;
#ifndef BUG_NO_ROUSE
	if
	:: has_empty -> seen = thread_state; loaded()
	:: else
	fi
#endif
}

proctype domain_thread()
{
	bit any;

	nthreads++;
	do
	:: true ->
		/* A cycle */
#ifndef BUG_CLEARS_LATE
		has_empty = 0;
#endif
		atomic { any = wanted; wanted = 0 };
#ifdef BUG_CLEARS_LATE
		has_empty = 0;
#endif
		if
		:: atomic { open && !owned -> open = 0; any = 1 }
		:: !open || owned
		fi;
		atomic { any = any || pending; pending = 0 };
		if
		:: any -> any = 0
		:: else ->
			/* domain_thread_sleep_if_idle() */
#ifndef BUG_LOOKS_FIRST
			thread_state = ASLEEP;
#endif
			if
#ifdef BUG_SKIPS_OWNED
			:: open && !owned -> any = 1
			:: !(open && !owned) ->
#else
			:: open || owned -> any = 1
			:: !open && !owned ->
#endif
				if
				:: pending -> any = 1
				:: !pending ->
#ifdef BUG_FORGETS_SLABS
					skip
#else
					any = has_empty
#endif
				fi
			fi;
#ifdef BUG_LOOKS_FIRST
			thread_state = ASLEEP;
#endif
			if
			:: any -> thread_state = AWAKE; any = 0
			:: else
			fi;
			/* Woken, or the time is over. */
#ifdef BUG_ENDS_ANYWAY
			if
			:: thread_state == ASLEEP -> thread_state = ABSENT; break
			:: thread_state != ASLEEP
			fi
#else
			if
			:: atomic { thread_state == ASLEEP ->
					thread_state = ABSENT };
				break
			:: thread_state != ASLEEP
			fi
#endif
		fi
	od;
	nthreads--
}

init {
	atomic {
		run updater();
		run updater();
		run upkeep()
	}
	timeout;
	assert(_nr_pr == 1 && nthreads == 0);
	assert(!open && !pending && !has_empty && !wanted && !owned)
}
