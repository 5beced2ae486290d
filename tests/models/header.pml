/*
 * header.pml - the loaded magazine of a CPU: sections, claim, publish, drain
 *
 * Two CPUs, each with a header of one cache; two threads that allocate and
 * free, and one that drains.  Any thread takes the next step, on either CPU, so
 * each step can be the last before a preemption.  A thread that is preempted or
 * migrated inside a section continues at the abort label.  Memory is
 * sequentially consistent here.  Not in the model: the previous magazine, marks,
 * the push counter, sections that move several rounds, fork() (gate.pml),
 * threads that end: they end outside of sections and own no header then.
 *
 * An address of a round is 4 * magazine + index.  Checked:
 *	safety	no object is allocated twice, no magazine is in two places, a
 *		thread takes only rounds that were pushed
 *	end	when all threads have ended, each object is in one place
 *
 * Each macro BUG_ leaves out a step that the argument in cpu.c relies on; run.py
 * expects that Spin finds each of them.
 *
 * models: magazine/rseq_x86_64.h rseq_pop rseq_push RSEQ_PUSH rseq_claim
 * models: magazine/cpu.c cpu_acquire cpu_release
 * models: magazine/cpu_drain.c drain_close drain_take drain_end cpu_drain
 * models: magazine/cpu_inner.h open_header close_header owned_try owned_end
 * sum: d2af632748fc0854
 */
#define NCPU      2
#define NTHREAD   3 /* two workers and the drainer */
#define NMAG      4 /* magazine 0: none */
#define NOBJECT   4 /* object 0: none */
#define CAPACITY  2
#define NOBODY    9
#define CLAIMED   200
#define NO_BOTTOM 100

#define OPERATIONS 2 /* of each worker */

/* The headers. */
byte top[NCPU], bottom[NCPU], limit[NCPU], loaded[NCPU];
bit owned[NCPU];

/* Magazines: their rounds, and where they are. */
byte round[NMAG * 4];
byte nrounds[NMAG]; /* while in the depot */
bit in_depot[NMAG];

/* Objects: the thread that holds one, or NOBODY; in the slabs. */
byte holder[NOBJECT];
bit in_slab[NOBJECT];

/* The CPU of each thread, and the thread that ran last on each CPU. */
byte cpu[NTHREAD], ran[NCPU];
bit inside[NTHREAD], aborted[NTHREAD], ended[NTHREAD];

/* The kernel stops a thread inside a section. */
#ifdef BUG_NO_RESTART /* a task that shares the area of another one */
#define ABORT(t) skip
#else
#define ABORT(t)                                                               \
	if                                                                     \
	:: inside[t] -> aborted[t] = 1                                         \
	:: else                                                                \
	fi
#endif

/*
 * A thread is preempted by another one on its CPU.  Linux 6.19 to 7.0.13 on
 * aarch64 lets it go on in its section if it continues on this CPU; locked mode
 * is used there (rseq_obstacle()).
 */
#ifdef BUG_ABORTS_MIGRATION_ONLY
#define PREEMPT(t) skip
#else
#define PREEMPT(t) ABORT(t)
#endif

/*
 * Before each step, the kernel may move the thread to the other CPU, and then it
 * preempts the thread that ran there last.
 */
#define RUN                                                                    \
	if                                                                     \
	:: true                                                                \
	:: cpu[me] = 1 - cpu[me]; ABORT(me)                                    \
	fi;                                                                    \
	if                                                                     \
	:: ran[cpu[me]] != me ->                                               \
		if                                                             \
		:: cpu[ran[cpu[me]]] == cpu[me] -> PREEMPT(ran[cpu[me]])       \
		:: else                                                        \
		fi;                                                            \
		ran[cpu[me]] = me                                              \
	:: else                                                                \
	fi

/* Find a magazine of the depot: m, or NMAG. */
#define FIND(condition)                                                        \
	m = 1;                                                                 \
	do                                                                     \
	:: m < NMAG && !(in_depot[m] && (condition)) -> m++                    \
	:: else -> break                                                       \
	od

/* A step outside a section. */
#define STEP(action) atomic { RUN; action }
/* A step inside one; the kernel continues a preempted thread at the label. */
#define SECTION(label, action)                                                 \
	atomic {                                                               \
		RUN;                                                           \
		if                                                             \
		:: aborted[me] -> aborted[me] = 0; inside[me] = 0; goto label  \
		:: else -> action                                              \
		fi                                                             \
	}

/* The thread has the object from now on. */
#define TAKE(o)                                                                \
	assert(o != 0 && holder[o] == NOBODY && !in_slab[o]);                  \
	holder[o] = me

/* In hand of a thread, or in magazines and the depot. */
#define GIVE(o)                                                                \
	assert(holder[o] == me);                                               \
	holder[o] = NOBODY

/*
 * A thread that allocates and frees.  A section that misses or is aborted is
 * followed by the slow path on the header of the CPU at that moment.
 */
proctype worker(byte me)
{
	byte have = 0;   /* the object that the thread holds */
	byte h, t, o, n, m, left = OPERATIONS;
	bit pops;

next:	if
	:: left == 0 -> goto last
	:: else -> left--
	fi;
	STEP(pops = (have == 0); inside[me] = 1; h = cpu[me]; t = top[h]);
	if
	:: pops ->
		SECTION(slow,
			if
			:: t == CLAIMED || t <= bottom[h] ->
				inside[me] = 0; goto slow
			:: else
			fi);
		SECTION(slow, o = round[t - 1]);
		/* The commit; the rest of the step is of the model. */
		SECTION(slow, top[h] = t - 1; inside[me] = 0;
			TAKE(o); have = o)
	:: else ->
		SECTION(slow,
			if
			:: t == CLAIMED || t >= limit[h] ->
				inside[me] = 0; goto slow
			:: else
			fi);
		SECTION(slow, round[t] = have);
		SECTION(slow, top[h] = t + 1; inside[me] = 0;
			GIVE(have); have = 0)
	fi;
	goto next;

slow:	STEP(h = cpu[me]; t = 0; o = 0;
#ifndef BUG_NO_OWNER
		if
		:: owned[h] -> goto bypass
		:: else -> owned[h] = 1
		fi
#endif
	);
#ifdef BUG_NO_CLAIM
	STEP(t = top[h]);
#else
	STEP(
#ifndef BUG_CLAIM_ANYWHERE
		if
		:: cpu[me] != h -> goto refused
		:: else
		fi;
#endif
		inside[me] = 1;
		t = top[h]);
	SECTION(refused, top[h] = CLAIMED; inside[me] = 0);
#endif
	/*
	 * The owner may move to another CPU from here on.  Nobody else reads
	 * what this step writes: the depot has a lock.
	 */
	STEP(
		n = (loaded[h] == 0 -> 0 : t - 4 * loaded[h]);
		assert(n <= CAPACITY);
		m = 0;
		if
		:: pops && n == 0 -> FIND(nrounds[m] != 0)
		:: !pops && (loaded[h] == 0 || n == CAPACITY) ->
			FIND(nrounds[m] == 0)
		:: else
		fi;
		if
		:: m != 0 && m < NMAG ->
			in_depot[m] = 0;
			if
			:: loaded[h] != 0 ->
				nrounds[loaded[h]] = n;
				in_depot[loaded[h]] = 1
			:: else
			fi;
			loaded[h] = m;
			n = nrounds[m]
		:: else
		fi;
		m = 0;
		if
		:: pops && n != 0 ->
			n--;
			o = round[4 * loaded[h] + n];
			TAKE(o);
			have = o
		:: !pops && loaded[h] != 0 && n < CAPACITY ->
			round[4 * loaded[h] + n] = have;
			n++;
			GIVE(have);
			have = 0
		:: else
		fi;
		t = 0; o = 0);
	/* cpu_release() */
#ifdef BUG_TOP_FIRST
	STEP(top[h] = (loaded[h] == 0 -> 0 : 4 * loaded[h] + n));
#endif
	STEP(bottom[h] = (loaded[h] == 0 -> NO_BOTTOM : 4 * loaded[h]));
	STEP(limit[h] = (loaded[h] == 0 -> 0 : 4 * loaded[h] + CAPACITY));
#ifndef BUG_TOP_FIRST
	STEP(top[h] = (loaded[h] == 0 -> 0 : 4 * loaded[h] + n));
#endif
	STEP(owned[h] = 0);
	goto bypass;
refused:
	STEP(owned[h] = 0);
bypass:	/* What the slow path has not done, the slabs do, under their lock. */
	STEP(
		if
		:: pops && have == 0 ->
			o = 1;
			do
			:: o < NOBJECT && !in_slab[o] -> o++
			:: else -> break
			od;
			if
			:: o < NOBJECT ->
				in_slab[o] = 0;
				TAKE(o);
				have = o
			:: else
			fi
		:: !pops && have != 0 ->
			GIVE(have);
			in_slab[have] = 1;
			have = 0
		:: else
		fi;
		t = 0; o = 0; n = 0; h = 0);
	goto next;

last:	STEP(ended[me] = 1);
}

/*
 * A thread that drains the header of CPU 0.  It runs on a third CPU: the other
 * two preempt one another already.  A drain of an unused cache has nobody beside
 * it, so it is not here.
 */
proctype drainer()
{
	byte n;
	bit stopped;

	atomic {
		if
		:: owned[0] -> goto skipped
		:: else -> owned[0] = 1
		fi;
		if
		:: loaded[0] == 0 -> owned[0] = 0; goto skipped
		:: else
		fi
	}
	bottom[0] = NO_BOTTOM;
#ifndef BUG_CLOSES_HALF
	limit[0] = 0;
#endif
	/* membarrier(): the kernel restarts every section, or refuses. */
	atomic {
		if
		:: stopped = 0
		:: stopped = 1;
#ifndef BUG_NO_MEMBARRIER
			ABORT(0);
			ABORT(1);
#endif
		fi
	}
#ifdef BUG_TAKES_ANYWAY
	stopped = 1;
#endif
	if
	:: stopped ->
		atomic {
			n = top[0];
			assert(n != CLAIMED);
			n = n - 4 * loaded[0];
			assert(n <= CAPACITY);
			/* The magazine goes to the depot. */
			nrounds[loaded[0]] = n;
			in_depot[loaded[0]] = 1;
			loaded[0] = 0
		}
#ifdef BUG_OPENS
		/* With an empty magazine for the CPU: no claim. */
		atomic {
			n = 1;
			do
			:: n < NMAG && !(in_depot[n] && nrounds[n] == 0) -> n++
			:: else -> break
			od;
			if
			:: n < NMAG -> in_depot[n] = 0; loaded[0] = n
			:: else -> goto over
			fi
		}
		top[0] = 4 * n;
		bottom[0] = 4 * n;
		limit[0] = 4 * n + CAPACITY;
over:		n = 0
#endif
	:: else ->
		bottom[0] = 4 * loaded[0];
		limit[0] = 4 * loaded[0] + CAPACITY
	fi;
	owned[0] = 0;
skipped:
	n = 0;
	ended[2] = 1
}

/* Each object is in one place. */
inline check_end()
{
	atomic {
		o = 1;
		do
		:: o < NOBJECT ->
			n = in_slab[o] + (holder[o] != NOBODY);
			m = 1;
			do
			:: m < NMAG ->
				t = 0;
				if
				:: in_depot[m] -> t = nrounds[m]
				:: loaded[0] == m -> t = top[0] - 4 * m
				:: loaded[1] == m -> t = top[1] - 4 * m
				:: else
				fi;
				assert(t <= CAPACITY);
				do
				:: t > 0 ->
					t--;
					n = n + (round[4 * m + t] == o)
				:: else -> break
				od;
				m++
			:: else -> break
			od;
			assert(n == 1);
			o++
		:: else -> break
		od
	}
}

init {
	byte o, n, m, t;

	atomic {
		/*
		 * Magazine 1 on CPU 0 with object 1, 2 on CPU 1 without
		 * rounds, 3 in the depot with object 3; object 2 in the slabs.
		 */
		for (m : 1 .. 3) {
			holder[m] = NOBODY;
			round[4 * m] = m
		}
		for (m : 0 .. 1) {
			loaded[m] = m + 1;
			bottom[m] = 4 * loaded[m];
			limit[m] = bottom[m] + CAPACITY;
			top[m] = bottom[m] + 1 - m;
			ran[m] = m;
			cpu[m] = m
		}
		in_depot[3] = 1;
		nrounds[3] = 1;
		in_slab[2] = 1;
		run worker(0);
		run worker(1);
		run drainer()
	}
	ended[0] && ended[1] && ended[2];
	check_end()
}
