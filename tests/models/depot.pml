/*
 * depot.pml - the shards of a depot: trades, surplus, drains, racy estimates
 *
 * Two shards and three magazines, each full or empty.  A thread on each of two
 * CPUs owns its header, trades its magazine with the shards if that is full or
 * empty, and gives the header up; a thread that got an empty one moves or
 * flushes a full magazine if a shard is above its limit.  A third thread takes
 * the surplus of the shards, as an update does, or drains all headers and
 * shards.  All words of a shard but the lock change under its lock, so they
 * change in one step between that lock's two; other threads read the heads, the
 * lengths and the lock without it.
 *
 * Not in the model: rounds and sections (header.pml), the previous magazine,
 * sizes, the gate of fork().  No estimate is relied on for safety: estimates of
 * lengths are anything here, also what the length never was.  The head of a list
 * is read as it is, for the claim about a trade that fails.
 *
 * Checked:
 *	safety	each magazine is in one place; each list has magazines of its
 *		kind; low is at most the length
 *	trade	if it fails, each shard lacked a magazine at some moment of it
 *	drain	a full magazine that lay in a header or in a shard when all headers
 *		were owned is in the chain
 *
 * models: magazine/depot.c depot_lock push_locked pop_locked depot_trade
 * models: magazine/depot.c depot_put cut_tail_locked depot_take_surplus
 * models: magazine/depot.c depot_take_all
 * models: magazine/shards.c is_worth_a_try shards_trade shard_find
 * models: magazine/shards.c shards_surplus shards_take
 * models: magazine/cpu_drain.c cpu_drain_all
 * models: magazine/magazine_drain.c magazine_drain_all take_depots
 * sum: ff822df4b28a4522
 */
#define NSHARD 2
#define NMAG   4 /* magazine 0: none */

/* Places of a magazine */
#define GONE    0 /* flushed to the slabs, or in a chain to be */
#define IN_HAND 1
#define LOADED  2
#define LISTED  3

byte place[NMAG];
bit is_full[NMAG];

/* List 2 * shard + 1 has the full magazines of a shard; the newest is last. */
byte list[NSHARD * 2 * NMAG], n[NSHARD * 2], low[NSHARD * 2];
bit locked[NSHARD];

byte loaded[NSHARD];  /* of each CPU */
bit owned[NSHARD];
bit chain[NMAG];      /* of the drain */
bit moved[NMAG];      /* a thread without a header had it in hand meanwhile */
bit lacks[NSHARD * 2 * NSHARD]; /* thread t saw list l lack: t * 4 + l */

#define LIST(shard, kind) (2 * (shard) + (kind))

inline lock_take(shard)
{
	atomic { !locked[shard] -> locked[shard] = 1 }
}

/* After each change of a list */
inline changed(which)
{
	assert(low[which] <= n[which]);
	if
	:: n[which] == 0 -> lacks[which] = 1; lacks[4 + which] = 1
	:: else
	fi
}

inline push_locked(shard, mag)
{
	l = LIST(shard, is_full[mag]);
	assert(mag != 0 && place[mag] != LISTED && n[l] < NMAG);
	list[l * NMAG + n[l]] = mag;
	n[l]++;
	place[mag] = LISTED;
	changed(l);
	l = 0
}

/* Sets out to the newest magazine of a list, or to 0. */
inline pop_locked(shard, kind)
{
	l = LIST(shard, kind);
	out = 0;
	if
#ifdef BUG_TRUSTS_THE_LOOK
	:: true ->
		assert(n[l] != 0);
#else
	:: n[l] != 0 ->
#endif
		n[l]--;
		out = list[l * NMAG + n[l]];
		list[l * NMAG + n[l]] = 0;
		assert(place[out] == LISTED && is_full[out] == kind);
		place[out] = IN_HAND;
#ifndef BUG_LOW_STAYS
		if
		:: low[l] > n[l] -> low[l] = n[l]
		:: else
		fi;
#endif
		changed(l)
#ifndef BUG_TRUSTS_THE_LOOK
	:: else
#endif
	fi;
	l = 0
}

/* depot_trade() after its look: m goes in if a magazine comes out. */
inline trade(shard, kind, mag)
{
	lock_take(shard);
	atomic {
		pop_locked(shard, kind);
		if
#ifdef BUG_PUTS_ANYWAY
		:: mag != 0 -> push_locked(shard, mag)
#else
		:: out != 0 && mag != 0 -> push_locked(shard, mag)
#endif
		:: else
		fi
	};
	locked[shard] = 0
}

/* shards_trade(): two passes, the own shard first */
inline shards_trade(kind)
{
	atomic {
		for (i : 0 .. 1) {
			lacks[4 * me + LIST(i, kind)] = (n[LIST(i, kind)] == 0)
		}
		i = 0;
		out = 0
	};
	do
	:: i == 4 || out != 0 -> break
	:: else ->
		s = (i % 2 == 0 -> me : 1 - me);
		if
		:: n[LIST(s, kind)] == 0 -> skip
		:: n[LIST(s, kind)] != 0 ->
			if
			/* The first pass does not wait for another's lock. */
#ifdef BUG_NEVER_WAITS
			:: i % 2 == 1 && locked[s] -> skip
			:: !(i % 2 == 1 && locked[s]) ->
#else
			:: i == 1 && locked[s] -> skip
			:: !(i == 1 && locked[s]) ->
#endif
				trade(s, kind, in)
			fi
		fi;
		i++
	od;
	atomic {
		assert(out != 0 || (lacks[4 * me + LIST(0, kind)] &&
		    lacks[4 * me + LIST(1, kind)]));
		i = 0;
		s = 0
	}
}

/* shards_surplus(): from a shard that seems over to one that seems below */
inline surplus()
{
	s = 0;
	do
	:: s = 1; break
	:: break
	od;
	trade(s, 1, 0);
	if
	:: out == 0
	:: atomic { out != 0 -> moved[out] = 1 };
		if
		:: lock_take(1 - s);
			atomic { in = out; push_locked(1 - s, in) };
			locked[1 - s] = 0
		:: atomic { place[out] = GONE } /* to the slabs */
		fi
	fi;
	atomic { in = 0; out = 0; s = 0 }
}

proctype on_cpu(byte me)
{
	byte in, out, i, s, l, left = 2;
	bit wants_full, is_freeing;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		/* cpu_acquire() */
		atomic {
			if
			:: owned[me] -> goto bypass
			:: else -> owned[me] = 1
			fi
		};
		atomic {
			in = loaded[me];
			wants_full = (in == 0 || !is_full[in]);
			is_freeing = !wants_full
		};
		shards_trade(wants_full);
		atomic {
			if
			:: out != 0 ->
				assert(place[out] == IN_HAND);
				place[out] = LOADED;
				loaded[me] = out;
				/* The program uses it up or fills it. */
				if
				:: is_full[out] = 1 - is_full[out]
				:: true
				fi
			:: else
			fi;
			in = 0;
			out = 0
		};
		owned[me] = 0;
		if
		:: is_freeing -> surplus()
		:: else
		fi;
bypass:		is_freeing = 0
	od
}

inline cut(shard, kind)
{
	l = LIST(shard, kind);
	m = (is_drain -> n[l] : low[l]);
	assert(m <= n[l]);
	n[l] = n[l] - m;
	i = 0;
	do
	:: i < m ->
		assert(place[list[l * NMAG + i]] == LISTED);
		place[list[l * NMAG + i]] = GONE;
		chain[list[l * NMAG + i]] = 1;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < n[l] ->
		list[l * NMAG + i] = list[l * NMAG + i + m];
		i++
	:: else -> break
	od;
#ifdef BUG_CUT_KEEPS_LOW
	;
#else
	low[l] = (is_drain -> 0 : n[l]);
#endif
	changed(l);
	i = 0;
	m = 0;
	l = 0
}

/* shards_take(): of each shard, its surplus, or all */
inline take_shards()
{
	s = 0;
	do
	:: s == NSHARD -> break
	:: else ->
		lock_take(s);
		atomic {
			cut(s, 1);
			cut(s, 0)
		};
		locked[s] = 0;
		s++
	od
}

proctype updater()
{
	byte i, m, s, l;
	bit is_drain;

	take_shards();
	take_shards()
}

/* cpu_drain_all() */
proctype drainer()
{
	byte i, m, s, l;
	bit is_drain = 1;
	bit had[NMAG];

	do
	:: i == NSHARD -> break
	:: else ->
#ifdef BUG_WAITS_FOR_NOBODY
		owned[i] = 1;
#else
		atomic { !owned[i] -> owned[i] = 1 };
#endif
		i++
	od;
	atomic {
		for (i : 1 .. NMAG - 1) {
			had[i] = is_full[i] &&
			    (place[i] == LOADED || place[i] == LISTED)
		}
		i = 0
	};
#ifdef BUG_HEADERS_FIRST
	owned[0] = 0;
	owned[1] = 0;
#endif
	take_shards();
	s = 0;
	do
	:: s == NSHARD -> break
	:: else ->
		atomic {
			if
			:: loaded[s] != 0 ->
				assert(place[loaded[s]] == LOADED);
				place[loaded[s]] = GONE;
				chain[loaded[s]] = 1;
				loaded[s] = 0
			:: else
			fi
		};
		owned[s] = 0;
		s++
	od;
	/* A thread may have had one in hand, to move or flush it. */
	for (i : 1 .. NMAG - 1) {
		assert(!had[i] || chain[i] || moved[i] || place[i] == IN_HAND)
	}
}

init {
	atomic {
		/* One magazine on each CPU, the third in the first shard. */
		loaded[0] = 1;
		loaded[1] = 2;
		place[1] = LOADED;
		place[2] = LOADED;
		is_full[1] = 1;
		place[3] = LISTED;
		if
		:: is_full[3] = 1; list[LIST(0, 1) * NMAG] = 3; n[1] = 1; low[1] = 1
		:: list[LIST(0, 0) * NMAG] = 3; n[0] = 1; low[0] = 1
		fi;
		run on_cpu(0);
		run on_cpu(1);
		if
		:: run updater()
		:: run drainer()
		fi
	}
}
