/*
 * gate.pml - the gate that fork() shuts over the headers of all CPUs
 *
 * A header; two threads that each try to own it twice and change it in two
 * steps, between which it is not whole; a thread that drains it, which waits for
 * its owner; and one that forks.  The model goes on with the parent; at the
 * moment of the copy it looks at what the child gets.
 *
 * Not in the model: sections, which own nothing (header.pml).  fork() has the
 * lock that a drain of everything holds.
 *
 * Checked:
 *	safety	one thread owns the header; the child gets a whole header, and
 *		after its repair one without an owner; no
 *		thread changes it until the copy is over
 *	end	all threads end, and the header is whole and has no owner
 *
 * models: magazine/cpu_fork.c await_no_owner end_of_no_thread
 * models: magazine/cpu_fork.c cpu_lock_for_fork cpu_unlock_for_fork
 * models: magazine/cpu_inner.h owned_try owned_end
 * catches: magazine/cpu_fork.c cpu_lock_for_fork BUG_LOOKS_FIRST
 *	`__atomic_store_n(&cpu_fork_gate, 1, __ATOMIC_SEQ_CST);` =>
 *	`__atomic_store_n(&cpu_fork_gate, 1, __ATOMIC_RELAXED);`
 * sum: 9a6f8efe85f3a405
 */
bit gate, owned, regions_lock;
bit half;            /* the owner has made one of two changes */
byte nowners, nchanges;
byte child_owned, child_changes;
bit copied;

inline own_and_change()
{
	assert(nowners == 0);
	nowners++;
	half = 1;
	atomic { half = 0; nchanges++ };
	atomic { nowners--; assert(nowners == 0) };
	owned = 0
}

proctype owner()
{
	byte left = 2;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		/* owned_try() */
		if
		:: gate -> goto bypass
		:: else
		fi;
		atomic {
			if
			:: owned -> goto bypass
			:: else -> owned = 1
			fi
		};
#ifndef BUG_NO_SECOND_LOOK
		if
#ifdef BUG_KEEPS_IT
		:: gate -> goto bypass
#else
		:: gate -> owned = 0; goto bypass
#endif
		:: else
		fi;
#endif
		own_and_change();
bypass:		skip
	od
}

/* cpu_drain_all(): waits for the owner, past the gate */
proctype drainer()
{
	atomic { !regions_lock -> regions_lock = 1 };
	atomic { !owned -> owned = 1 };
	own_and_change();
	regions_lock = 0
}

proctype forker()
{
#ifndef BUG_NO_LOCK
	atomic { !regions_lock -> regions_lock = 1 };
#endif
#ifdef BUG_LOOKS_FIRST
	!owned;
	gate = 1;
#else
	gate = 1;
#ifndef BUG_NO_WAIT
	!owned;
#endif
#endif
	/* The copy takes time; it is one moment for this header. */
	atomic {
		assert(!half);
		copied = 1;
		child_owned = owned;
		child_changes = nchanges
	};
	/* The child: the owner does not exist there. */
#ifndef BUG_CHILD_KEEPS_OWNED
	child_owned = 0;
#endif
	assert(!child_owned);
	assert(child_changes == nchanges);
	gate = 0;
	regions_lock = 0
}

init {
	atomic {
		run owner();
		run owner();
		run drainer();
		run forker()
	}
	timeout;
	assert(_nr_pr == 1 && !owned && !half && copied)
}
