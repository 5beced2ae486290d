/*
 * limit.pml - requests that wait for objects of a cache with a limit
 *
 * Two objects; three threads that ask for one or two, wait in the queue if there
 * is no room, perhaps give up when their time is over, and give back what they
 * got, or never do.  A fourth thread changes the limit.  A futex is a word: a thread
 * that sleeps on it goes on when it is woken, or finds the word changed.  Memory
 * is sequentially consistent, as the four operations on nheld and nwaiting are.
 *
 * Checked:
 *	safety	a request is granted only within the limit
 *	end	when nothing happens any more, the first in the queue does not
 *		fit, nobody sleeps who has a result or asks for more than the
 *		limit, and nwaiting is the length of the queue
 *
 * models: umem/cache/limit.c limit_try_count waiter_end_locked
 * models: umem/cache/limit.c limit_grant_locked limit_refuse_large_locked
 * models: umem/cache/limit.c waiter_queue_up waiter_give_up waiter_wait
 * models: umem/cache/limit.c limit_take_slow limit_give_slow umem_cache_set_limit
 * sum: c3d24a03c1579f27
 */
#define NTHREAD 3
#define WAITS   0
#define GRANTED 1
#define REFUSED 2
#define NOBODY  9

byte nheld, most = 2, nwaiting;
byte state[NTHREAD], wants[NTHREAD];
bit asleep[NTHREAD], lock;
byte queue[NTHREAD], nqueue; /* the queue, its first at 0 */

#define TAKE_LOCK atomic { !lock -> lock = 1 }

#ifdef BUG_NO_RECHECK /* of the word, by the kernel, before it sleeps */
#define SLEEP(t) asleep[t] = 1
#else
#define SLEEP(t)                                                               \
	atomic {                                                               \
		if                                                             \
		:: state[t] == WAITS -> asleep[t] = 1                          \
		:: else                                                        \
		fi                                                             \
	}
#endif

/* waiter_end_locked(): the entry at place i leaves the queue. */
inline end_wait(i, result)
{
	w = queue[i];
	j = i;
	do
	:: j + 1 < nqueue -> queue[j] = queue[j + 1]; j++
	:: else -> break
	od;
	nqueue--;
	nwaiting--;
	state[w] = result;
#ifndef BUG_NO_WAKE
	asleep[w] = 0;
#endif
	w = 0; j = 0
}

/* limit_grant_locked(): serves from the head as many as fit. */
inline grant()
{
	do
	:: atomic {
		nqueue != 0 && nheld + wants[queue[0]] <= most ->
		nheld = nheld + wants[queue[0]];
		assert(nheld <= most);
		end_wait(0, GRANTED)
	   }
#ifdef BUG_ONE_GRANT
		;
		break
#endif
	:: else -> break
	od
}

proctype thread(byte me; byte n)
{
	byte w, j, i;

	/* limit_take_slow() */
	if
	:: nwaiting == 0 ->
		atomic {
			if
			:: nheld + n <= most -> nheld = nheld + n; goto holds
			:: else
			fi
		}
	:: else
	fi;
	if
	:: n > most -> goto over
	:: else
	fi;
	/* waiter_queue_up() */
#ifdef BUG_LOOKS_FIRST /* for room, before it is in the queue */
	atomic {
		if
		:: nqueue == 0 && nheld + n <= most -> nheld = nheld + n; goto holds
		:: else
		fi
	}
#endif
	TAKE_LOCK;
	atomic { wants[me] = n; state[me] = WAITS; queue[nqueue] = me; nqueue++ }
	nwaiting++;
#ifndef BUG_NO_CHECK_OF_MOST
	atomic {
		if
		:: n > most -> end_wait(nqueue - 1, REFUSED)
		:: else
		fi
	}
#endif
#ifndef BUG_LOOKS_FIRST
	grant();
#endif
	lock = 0;
	do
	:: state[me] != WAITS -> break
	:: else ->
		if
		:: SLEEP(me);
end_sleep:		!asleep[me]
		:: /* waiter_give_up(): the time is over */
			TAKE_LOCK;
			if
			:: state[me] == WAITS ->
				atomic {
					i = 0;
					do
					:: queue[i] != me -> i++
					:: else -> break
					od;
					end_wait(i, REFUSED);
					i = 0
				}
#ifndef BUG_GIVES_UP_SILENTLY
				grant()
#endif
			:: else
			fi;
			lock = 0
		fi
	od;
	if
	:: state[me] == GRANTED
	:: else -> goto over
	fi;
holds:	if
	:: goto over /* holds its objects for ever */
	:: true
	fi;
	/* limit_give_slow() */
#ifdef BUG_READS_FIRST
	i = nwaiting;
	atomic { assert(nheld >= n); nheld = nheld - n };
#else
	atomic { assert(nheld >= n); nheld = nheld - n };
	i = nwaiting;
#endif
	if
	:: i != 0 ->
		TAKE_LOCK;
		grant();
		lock = 0
	:: else
	fi;
over:	skip
}

/* umem_cache_set_limit(), once or twice */
proctype setter()
{
	byte w, j, i, round = 0;

	do
	:: round < 2 ->
		most = (round == 0 -> 1 : 2);
		TAKE_LOCK;
#ifndef BUG_KEEPS_LARGE
		atomic {
			i = 0;
			do
			:: i < nqueue && wants[queue[i]] > most ->
				end_wait(i, REFUSED)
			:: i < nqueue && wants[queue[i]] <= most -> i++
			:: else -> break
			od;
			i = 0
		}
#endif
#ifndef BUG_SETS_SILENTLY
		grant();
#endif
		lock = 0;
		round++
	:: round != 0 -> break
	od
}

init {
	byte t;

	atomic {
		run thread(0, 1);
		run thread(1, 2);
		run thread(2, 1);
		run setter()
	}
	/* Nothing happens any more. */
	timeout;
	assert(!lock && nwaiting == nqueue);
	assert(nqueue == 0 || nheld + wants[queue[0]] > most);
	for (t : 0 .. NTHREAD - 1) {
		assert(!asleep[t] || (state[t] == WAITS && wants[t] <= most))
	}
}
