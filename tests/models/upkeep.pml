/*
 * upkeep.pml - the upkeep thread: keeper, epoch, stay, join, calls, fork()
 *
 * Up to two threads of the program at a time and three in all, which come, free
 * memory, end and fork; up to two upkeep threads.  A thread of the program or a function that
 * the upkeep thread calls may fork; the model then goes on with the child, in
 * which the other threads are gone.  The parent goes on as if there had been no
 * fork, because fork() does not touch these words in it.
 *
 * A function of the program that the upkeep thread calls does not return while
 * there is a keeper: it may wait for a lock that the keeper's thread holds.  A
 * time limit may be over at any time.  A futex is a word: a thread that sleeps
 * goes on when it is changed, since wake() alone changes it then.  Words that
 * only the keeper or only the worker uses change together with the word that
 * makes a thread the keeper or the worker.  Not in the model: the waits of
 * confined processes for the first system calls of a thread, snapshots,
 * scheduling attributes.  They change none of these words.
 *
 * Checked:
 *	safety	a thread is joined or detached once, and only one that exists;
 *		after update_thread_end_now() the caller is alone
 *	end	when nothing happens any more, an upkeep thread exists if it is
 *		wanted, it sleeps, and nothing is left to purge; all others have
 *		ended, and each of them has been joined, is detached, or will be
 *		joined by the next keeper
 *
 * models: umem/upkeep/update_thread.c update_thread_sleep update_thread_rest
 * models: umem/upkeep/update_thread.c update_thread_work linger_end_if_due
 * models: umem/upkeep/update_thread.c update_thread_main update_thread_enter
 * models: umem/upkeep/update_thread.c update_thread_leave update_thread_wake
 * models: umem/upkeep/update_thread.c update_thread_start is_upkeep_thread
 * models: umem/upkeep/update_thread.c update_thread_stop join_ended is_wanted
 * models: umem/upkeep/update_thread.c keeper_try keeper_work
 * models: umem/upkeep/update_thread.c update_thread_settle
 * models: umem/upkeep/update_thread.c update_thread_give_way
 * models: umem/upkeep/update_thread.c linger_begin_if_needed
 * models: umem/upkeep/update_thread.c update_thread_end_now update_thread_ends
 * models: umem/upkeep/update_thread.c update_thread_after_fork
 * models: umem/upkeep/update.c update_poll update_may_purge
 * models: umem/cache/worker.c worker_begin worker_end worker_after_fork
 * catches: umem/upkeep/update_thread.c update_thread_stop BUG_ENDED_LATE
 *	`__atomic_store_n(&exists, 0, __ATOMIC_SEQ_CST);` =>
 *	`__atomic_store_n(&exists, 0, __ATOMIC_RELAXED);`
 * catches: umem/upkeep/update_thread.c update_thread_stop BUG_ENDED_LATE
 *	`__atomic_store_n(&has_ended, is_self, __ATOMIC_SEQ_CST);
 *	__atomic_store_n(&exists, 0, __ATOMIC_SEQ_CST);` =>
 *	`__atomic_store_n(&exists, 0, __ATOMIC_SEQ_CST);
 *	__atomic_store_n(&has_ended, is_self, __ATOMIC_SEQ_CST);`
 * catches: umem/upkeep/update_thread.c update_thread_stop BUG_ASKS_FIRST
 *	`__atomic_store_n(&epoch, next, __ATOMIC_SEQ_CST);` =>
 *	`__atomic_store_n(&epoch, next, __ATOMIC_RELAXED);`
 * sum: b131b298c52ce53c
 */
#define NPROGRAM 3 /* threads 0 to 2 */
#define NTHREAD  5 /* threads 3 and 4 do upkeep */
#define NOBODY   9

#define AWAKE  0
#define ASLEEP 1
#define WANTED 2

byte nprogram = 1, exists, keeper, thread = NOBODY, has_ended;
byte nstarts, state, epoch = 1, running_epoch, running_self = NOBODY;
byte linger, working_epoch, calling_epoch, worker = NOBODY;
bit dirty;    /* memory is to be purged */
bit refused;  /* an upkeep thread could not be created */
bit forked;   /* there was a fork() */
byte ngone, nleave; /* threads that are gone in the child, and all of them */

/*
 * What happens in a run, so that there are fewer states: memory is freed; there
 * are forks and calls of the program, calls, or an upkeep thread that stays.
 */
mtype = { PURGES, FORKS, CALLS, STAYS };
mtype scenario;

bit begun[NTHREAD], ended[NTHREAD], gone[NTHREAD];
bit joined[NTHREAD], detached[NTHREAD];

#define IS_JOINABLE(t) (begun[t] && !joined[t] && !detached[t] && !gone[t])

/* One fork(), after which the model is that of the child. */
inline become_child(counted)
{
	atomic {
		scenario == FORKS && !forked -> forked = 1;
		for (i : 0 .. NTHREAD - 1) {
			if
			:: i != me && begun[i] ->
				gone[i] = 1;
				nleave = nleave + !ended[i]
			:: else
			fi
		}
		i = 0;
		/* It is the first thread of the child, which nobody joins. */
		detached[me] = 1;
		worker = NOBODY;
		nprogram = counted;
		exists = 0;
#ifndef BUG_FORK_KEEPS_KEEPER
		keeper = 0;
#endif
		working_epoch = 0;
		calling_epoch = 0;
		linger = 0;
		has_ended = 0;
#ifndef BUG_FORK_KEEPS_EPOCH
		epoch++
#endif
	}
	/* Fewer states: the others leave the model before the child goes on. */
	ngone == nleave
}

inline leave()
{
	atomic {
		gone[me] ->
		n = 0; old = 0; i = 0;
		is_self = 0; is_keeper = 0; wanted = 0; done = 0;
		ngone = ngone + !ended[me]
	}
}

inline wake()
{
	do
	:: atomic {
#ifdef BUG_WAKES_SLEEPERS
		state == ASLEEP ->
#else
		state != WANTED ->
#endif
		state = WANTED };
		break
	:: else -> break
	od
}

inline join(t)
{
	assert(t != me && IS_JOINABLE(t));
	ended[t];
	joined[t] = 1
}

inline start()
{
	assert(exists == 0);
	if
	:: NPROGRAM + nstarts < NTHREAD ->
		atomic {
			state = AWAKE;
			assert(!begun[NPROGRAM + nstarts]);
			thread = NPROGRAM + nstarts;
			nstarts++;
			begun[thread] = 1;
			run upkeep(thread, epoch)
		}
		exists = 1
#ifndef BUG_EXISTS_SILENTLY
		;
		if
		:: state == ASLEEP -> wake()
		:: else
		fi
#endif
	:: else -> refused = 1; done = 0
	fi
}

#ifdef BUG_ASKS_FIRST
#define IS_CALLING (n == old)
#else
#define IS_CALLING (calling_epoch == old)
#endif

inline stop()
{
	assert(exists == 1);
	atomic {
		/* A thread sets both before its first step here. */
		is_self = (running_epoch == epoch && running_self == me);
#ifdef BUG_JOINS_ITSELF
		is_self = 0;
#endif
		old = epoch
	}
#ifdef BUG_ENDED_LATE
	exists = 0;
	has_ended = is_self;
#else
	has_ended = is_self;
	exists = 0;
#endif
#ifdef BUG_ASKS_FIRST
	n = calling_epoch;
#endif
	epoch++;
	wake();
	if
	:: is_self
	:: else ->
#ifndef BUG_JOINS_A_CALLER
		if
		:: IS_CALLING ->
			/* Until the call has ended, or the time is over. */
			if
			:: calling_epoch != old
			:: detached[thread] = 1
			fi
		:: else
		fi;
#endif
		if
		:: !detached[thread] -> join(thread)
		:: else
		fi
	fi;
	old = 0; is_self = 0
}

/* Only the keeper uses thread, and writes has_ended. */
inline join_ended()
{
	if
	:: has_ended && thread != me -> join(thread); has_ended = 0
	:: atomic { has_ended && thread == me ->
			assert(IS_JOINABLE(me));
			detached[me] = 1;
			has_ended = 0
		}
	:: else
	fi
}

inline ask_wanted()
{
	n = nprogram;
	atomic {
		if
		:: n == 0 -> wanted = 0
		:: n == 1 -> wanted = (linger != 0)
		:: n > 1 -> wanted = 1
		fi;
		n = 0
	}
}

inline keeper_try()
{
	atomic {
		if
#ifdef BUG_TWO_KEEPERS
		:: true -> keeper = 1; is_keeper = 1
#else
		:: keeper == 0 -> keeper = 1; is_keeper = 1
		:: else -> is_keeper = 0
#endif
		fi
	}
}

inline keeper_work(gives_way)
{
	join_ended();
	done = 1;
	if
	:: !gives_way -> ask_wanted()
	:: else
	fi;
#ifdef BUG_ASKS_TWICE
	if
	:: wanted != exists ->
		ask_wanted();
		if
		:: wanted -> start()
		:: else -> stop()
		fi
	:: else
	fi;
#else
	if
	:: wanted && exists == 0 -> start()
	:: !wanted && exists == 1 -> stop()
	:: else
	fi;
#endif
	atomic { wanted = 0; is_keeper = 0; keeper = 0 }
}

inline settle()
{
	do
	:: ask_wanted();
		if
		:: atomic { wanted == exists -> wanted = 0; break }
		:: atomic { wanted != exists -> wanted = 0 }
		fi;
		keeper_try();
		if
		:: is_keeper
		:: else -> break
		fi;
		keeper_work(0);
#ifdef BUG_NO_CHECK_AFTER
		break;
#endif
		if
		:: !done -> break
		:: else
		fi
	od;
	done = 0
}

proctype upkeep(byte me; byte own)
{
	byte n, old, i;
	bit is_self, is_keeper, wanted, done, idle, busy;

	{
		atomic { running_self = me; running_epoch = own };
		do
		:: epoch != own -> break
		:: else ->
			/* update_thread_rest() */
			if
			:: !idle
			:: atomic { idle && state == AWAKE -> state = ASLEEP };
#ifndef BUG_NO_SECOND_LOOK
				/* Time passes before this look. */
				if
				:: dirty -> goto rested
				:: else
				fi;
#endif
end_sleep:			state != ASLEEP
			:: idle && state != AWAKE
			fi;
rested:			state = AWAKE;
			if
			:: epoch != own -> break
			:: else
			fi;
			/* update_thread_work() */
			atomic {
				if
				:: worker == NOBODY -> worker = me
				:: else -> busy = 1; goto worked
				fi;
				assert(working_epoch == 0);
				working_epoch = own;
				busy = dirty;
				dirty = 0
			}
			/* A cache whose work may call the program */
			if
			:: true
			:: scenario == CALLS || scenario == FORKS ->
#ifdef BUG_LOOKS_FIRST
				if
				:: epoch == own
				:: else -> goto left
				fi;
				calling_epoch = own;
#else
				calling_epoch = own;
#ifndef BUG_CALLS_ANYWAY
				if
				:: epoch == own
				:: else -> goto left
				fi;
#endif
#endif
				if
				:: keeper == 0
				:: become_child(0)
				fi;
left:				if
				:: working_epoch != 0 -> calling_epoch = 0
				:: else
				fi
			fi;
			atomic {
				working_epoch = 0;
				if
				:: worker == me -> worker = NOBODY
				:: else
				fi
			};
worked:			atomic {
				idle = !busy;
				busy = 0;
				/* linger_end_if_due() */
				n = linger
			};
			if
			:: n == 0
			:: n != 0 && !idle -> n = 0
			:: atomic { n != 0 && linger == n -> linger = 0; n = 0 };
				settle()
			:: atomic { n != 0 && linger != n -> n = 0 }
			fi
		od;
		ended[me] = 1
	} unless {
		leave()
	}
}

/* A free() whose slow path finds pages to purge. */
inline free_pages()
{
	dirty = 1;
	if
	:: exists == 1 ->
		if
		:: state == ASLEEP -> wake()
		:: else
		fi
	:: else
	fi
}

inline ends()
{
	/* linger_begin_if_needed() */
	if
	:: exists == 1 ->
		if
		:: nprogram == 2 ->
			if
			:: linger = 0
			:: scenario == STAYS -> linger = me + 1; wake()
			fi
		:: else
		fi
	:: else
	fi;
	nprogram--;
	settle();
	ended[me] = 1
}

proctype of_program(byte me)
{
	byte n, old, i;
	bit is_self, is_keeper, wanted, done;

	{
		if
		:: scenario == PURGES -> free_pages()
		:: scenario != PURGES
		fi;
		if
		:: ends()
		:: scenario != STAYS
		fi;
end_here:	ended[me]
	} unless {
		leave()
	}
}

inline create(t)
{
	nprogram++;
	if
	:: scenario == CALLS && t == 2 && exists == 1 -> /* no room: update_thread_give_way() */
		keeper_try();
		if
		:: is_keeper -> keeper_work(1)
		:: else
		fi
	:: true
	fi;
	if
	:: atomic { begun[t] = 1; run of_program(t) }
		settle()
	:: scenario == CALLS && t == 2 -> /* still no room */
		nprogram--;
		settle()
	fi
}

/* Each upkeep thread that exists is detached. */
#define NONE_LEFT(t) (!begun[t] || ended[t] || gone[t] || detached[t])

proctype main_thread(byte me)
{
	byte n, old, i;
	bit is_self, is_keeper, wanted, done;

	{
		create(1);
		if
		:: true
		:: become_child(1); create(2)
		:: scenario != PURGES && ended[1] -> create(2)
		fi;
		if
		:: true
		:: !begun[2] -> ends()
		:: (!begun[1] || ended[1] || gone[1]) &&
		   (!begun[2] || ended[2] || gone[2]) ->
			/* update_thread_end_now() */
			linger = 0;
			do
			::
#ifndef BUG_SEES_NO_START
				if
				:: keeper == 0
				:: else -> goto busy_now
				fi;
#endif
				if
				:: exists == 0
				:: else -> goto busy_now
				fi;
				if
				:: has_ended == 0
				:: else -> goto busy_now
				fi;
				if
				:: keeper == 0 -> break
				:: else
				fi;
busy_now:
				keeper_try();
				if
				:: is_keeper -> keeper_work(0); settle(); break
				:: else -> keeper == 0
				fi
			od;
			assert(NONE_LEFT(3) && NONE_LEFT(4))
		fi;
end_here:	ended[me]
	} unless {
		leave()
	}
}

init {
	byte t, n;
	bit wanted;

	atomic {
		if
		:: scenario = PURGES
		:: scenario = FORKS
		:: scenario = CALLS
		:: scenario = STAYS
		fi;
		begun[0] = 1;
		run main_thread(0)
	}
	timeout;
	/* Nothing happens any more. */
	ask_wanted();
	assert(keeper == 0 && worker == NOBODY);
	assert(exists == wanted || (refused && exists == 0));
	assert(exists == 0 || (!dirty && state == ASLEEP && !ended[thread]));
	for (t : NPROGRAM .. NTHREAD - 1) {
		assert(!begun[t] || gone[t] || ended[t] ||
		    (exists == 1 && t == thread));
		assert(!begun[t] || gone[t] || !ended[t] || joined[t] ||
		    detached[t] || (has_ended && t == thread))
	}
}
