/*
 * The protocol of xlock: who takes, keeps and gives back a lock. README.md tells
 * what is asked of it, and how to run it.
 *
 * One d_step is one step: what a process does by itself until its next call that
 * others can see. The world may kill it between any two. A comment that begins
 * with a package, as in lock.taker.takeFile, names the Go functions that a step
 * stands for; a test looks whether they exist.
 *
 *
 * MODES are the bits of the modes below that take part. What is disturbed: KILLS, IMAGES
 * and DELETES (at most that many), FORCES (that many), and the switches CLOSES,
 * DAEMONS, UNLOCKS (what a command may do to the descriptor that it has) and
 * FOREIGN (the last taker is in a PID namespace of its own).
 * MUT is a mutation. With MODES all default to none.
 */

#define N 3
#ifndef MODES
#define MODES	31
#endif
#ifndef KILLS
#define KILLS	0
#endif
#ifndef IMAGES
#define IMAGES	0
#endif
#ifndef DELETES
#define DELETES	0
#endif
#ifndef FORCES
#define FORCES	0
#endif
#define FILES	(1 + DELETES + 2 * FORCES)
#define NOBODY	15	/* no process, no file */

#ifndef MUT
#define MUT	NOTHING
#endif
mtype = { NOTHING, NO_RECHECK, NO_LAST_LOOK, UNGUARDED, OWNER_ONLY, LATE_RECORD, SELF_HELD, KEEPS, DEAF,
	STAYS, WITNESS, UNLOCKS_FIRST, BLIND, NO_UNLOCK, NO_VERIFY, NEW_UNLOCKED, ANY_HOLD, CROSSWISE,
	LOOKS_FIRST, NUMBER_ALONE, NEW_BREAKABLE, NO_RELOCK };
#define is(m)	(MUT == m)

/* What a taker is. */
#define FORK	0	/* xlock run: a wrapper, and a command that has the descriptor */
#define FORK_O	1	/* xlock run -o: the command has it not */
#define SELF	2	/* a program that takes locks itself; its descriptor is close-on-exec */
#define EXEC	3	/* xlock run -F: the process becomes the command, which has the descriptor */
#define RECLAIM	4	/* xlock reclaim */
#define forks(t)	(mode[t] <= FORK_O)
#define inherits(t)	(mode[t] == FORK || mode[t] == EXEC)	/* the record's field */

/* What a taker, and a breaker, does next. */
mtype = { OPEN, LOCK, WON, AWAIT, START, WRITE, LOOK, CANCEL, RUN, WAIT, REWRITE, CLEAR, RELEASE, DONE };
mtype = { TRY, JUDGE, EXCLUDE, EXCHANGE, VERIFY, BACK };
/* What a record says, and what a judgement finds. */
mtype = { EMPTY, FREE, HELD };
mtype = { FOUND_FREE, FOUND_OWNER, FOUND_COMMAND, FOUND_UNKNOWN };	/* abandoned is free */
/* A command. */
mtype = { NONE, AT_GATE, RUNNING, OVER };

typedef record { mtype state = EMPTY; byte owner = NOBODY; byte generation }
#define sameHold(a, b)	(a.state == b.state && a.generation == b.generation && a.owner == b.owner)
#define sameRecord(a, b)	(a.state == b.state && a.generation == b.generation && \
	(a.owner == b.owner || is(NUMBER_ALONE)))
#define copy(to, from)	to.state = from.state; to.owner = from.owner; to.generation = from.generation
#define forget(r)	r.state = EMPTY; r.owner = NOBODY; r.generation = 0

/* The file system: which file the path names; and of each its record, and whose open
   file description has the kernel lock (N and up: a breaker's). */
byte path = NOBODY;
record rec[FILES];
byte holder[FILES] = NOBODY;

/* The takers, each with its one open file description and its command. */
byte mode[N];
mtype at[N] = OPEN;
byte file[N] = NOBODY;	/* of the description */
bool open[N];		/* it has a descriptor */
bool inherited[N];	/* its command, or what that left behind, has one */
bool dead[N];
record seen[N];		/* the record that it waits for, and what it found */
mtype found[N] = FOUND_FREE;
byte mine[N];		/* its generation */
mtype command[N] = NONE;
bool passed[N];		/* the byte is in the gate */

/* The breakers: xlock reclaim --force. */
#if FORCES > 0
mtype force[FORCES] = OPEN;
byte old[FORCES] = NOBODY;	/* the file that it judges */
byte new[FORCES] = NOBODY;	/* the one that is to take its place */
byte out[FORCES] = NOBODY;	/* what the exchange took from the path */
record first[FORCES];		/* what it found first */
byte victim[FORCES] = NOBODY;	/* and whom: a hold that lives; or nobody, and anybody is meant */
bool looked[FORCES];
bool excludes[FORCES];		/* it has the byte-range lock on old */
#endif

/* What is asked. */
bool runs[N];		/* its command, or the program itself, runs under the lock */
bool robbed[N];		/* its file was taken from the path, after its last look at that */
bool cleared[N];	/* a person declared its hold void, in its own file */
bool reset;		/* generations began again */
byte top;		/* the highest generation that has run */
bool overlap, staleToken, refusedForItself, lostForNothing, untold, wrongVictim, stuck;	/* must not be */

byte kills = KILLS, images = IMAGES, deletes = DELETES;	/* that may still come */
hidden byte i;

/* close(2), exit and SIGKILL: a description goes with its last descriptor. */
#define closed(t) \
	if :: !open[t] && !inherited[t] && file[t] != NOBODY && holder[file[t]] == t -> \
		holder[file[t]] = NOBODY \
	:: else fi

/* lock.scene.judgeHeld, lock.scene.judgeProcess, lock.scene.judgeCommand. An owner in
   another PID namespace is not seen. One that is this very process has changed its
   image, and has no descriptor: lock.scene.judgeSelf. */
#ifdef FOREIGN
#define unseen(me, u)	(((me) == N-1) != ((u) == N-1))
#else
#define unseen(me, u)	false
#endif
#define gone(me, u)	(dead[u] || ((u) == (me) && !is(SELF_HELD)))
#define commandLives(u)	(command[u] == AT_GATE || command[u] == RUNNING)
#define judgement(me, r) \
	(r.state != HELD -> FOUND_FREE : \
	(unseen(me, r.owner) -> FOUND_UNKNOWN : \
	(!gone(me, r.owner) -> FOUND_OWNER : \
	(commandLives(r.owner) && !is(OWNER_ONLY) -> FOUND_COMMAND : FOUND_FREE))))

/* lock.scene.judgeLocked: the kernel's grant is a witness about an owner that is not seen. */
#define judgementLocked(me, r) \
	((judgement(me, r) == FOUND_UNKNOWN && (inherits(r.owner) || is(WITNESS))) -> FOUND_FREE : judgement(me, r))

/* A command begins to run. Nobody runs beside it, but for what a person did to one of the two. */
inline begin(t) {
	for (i : 0 .. N-1) {
		overlap = overlap || (i != t && runs[i] && !cleared[t] && !cleared[i] &&
			!((robbed[t] || robbed[i]) && file[t] != file[i]))
	}
	assert(!overlap);
	staleToken = !robbed[t] && !reset && mine[t] <= top;
	assert(!staleToken);
	if :: mine[t] > top && !reset -> top = mine[t] :: else fi;
	runs[t] = true
}

/* t has looked at the path for the last time, and its hold is not over; or it will look. */
#define holds(t) (runs[t] || passed[t] || at[t] == RUN || at[t] == WAIT || at[t] == REWRITE || \
	at[t] == CLEAR || (at[t] == WRITE && is(LOOKS_FIRST)))
#define willLook(t)	(at[t] == START || at[t] == WRITE || at[t] == LOOK)
inline rob(f) {
	for (i : 0 .. N-1) {
		if :: file[i] == f && (holds(i) || willLook(i)) -> robbed[i] = true :: else fi
	}
}

#if FORCES > 0
#define exchanged	(out[0] != NOBODY || out[FORCES-1] != NOBODY)
#else
#define exchanged	false
#endif

/* A file that nobody has open and no name names is as good as none. */
#if FORCES > 0
#define inBreaker(f)	(old[0] == f || new[0] == f || out[0] == f || \
	old[FORCES-1] == f || new[FORCES-1] == f || out[FORCES-1] == f)
#else
#define inBreaker(f)	false
#endif
#define used(f)	(path == f || file[0] == f || file[1] == f || file[N-1] == f || inBreaker(f))
inline tidy() {
	for (i : 0 .. FILES-1) {
		if :: !used(i) -> forget(rec[i]); holder[i] = NOBODY :: else fi
	}
	i = 0
}

/* What nobody looks at any more is forgotten, for fewer states. */
inline forgetAll(t) {
	forget(seen[t]); found[t] = FOUND_FREE;
	if :: !runs[t] && command[t] != AT_GATE && !inherited[t] ->
		mine[t] = 0; file[t] = NOBODY; robbed[t] = false; cleared[t] = false; tidy()
	:: else fi
}
inline exits(t) {
	open[t] = false; closed(t);
	dead[t] = true; at[t] = DONE;
	forgetAll(t)
}

inline reopen(t) {
	open[t] = false; closed(t); forgetAll(t); at[t] = OPEN
}

inline create(f) {
	i = 0;
	do :: i < FILES && used(i) -> i++ :: else -> break od;
	assert(i < FILES);	/* or FILES is too small */
	f = i
}

#define FIRST	(is(UNGUARDED) -> OPEN : LOCK)
/* The record is written, then the path is looked at, then the command runs. */
#define AFTER_WON	(forks(me) -> START : (is(LOOKS_FIRST) -> WRITE : AFTER_START))
#define AFTER_START	((is(LATE_RECORD) && forks(me)) || is(LOOKS_FIRST) -> LOOK : WRITE)
#define AFTER_WRITE	(is(LATE_RECORD) && forks(me) -> WAIT : (is(LOOKS_FIRST) || is(NO_LAST_LOOK) -> RUN : LOOK))
#define AFTER_LOOK	(is(LOOKS_FIRST) -> WRITE : RUN)
#define AFTER_RUN	(is(LATE_RECORD) -> WRITE : WAIT)
#define AFTER_CANCEL	(is(LOOKS_FIRST) -> RELEASE : REWRITE)
/* The command may have given back the kernel lock: it is taken again, and who only looks is awaited. */
#define GRANTED	(kernel == me || kernel == NOBODY || path != file[me] || !mineIn(record_) || is(NO_RELOCK))
#define mineIn(r)	(r.state == HELD && r.owner == me && r.generation == mine[me])
#define IS(x)	(at[me] == x)
#define record_	rec[file[me]]
#define kernel	holder[file[me]]

proctype taker(byte me) {
end:	do
	:: d_step { IS(OPEN) && mode[me] == RECLAIM && path == NOBODY -> exits(me) }
	:: d_step { IS(OPEN) && (mode[me] != RECLAIM || path != NOBODY) ->
				/* lock.taker.take, lock.openToLock, lock.reclaimOnce */
		if :: path == NOBODY -> create(path) :: else fi;
		file[me] = path; open[me] = true;
		if :: is(UNGUARDED) -> found[me] = judgement(me, record_); copy(seen[me], record_) :: else fi;
		at[me] = LOCK }

	:: d_step { IS(LOCK) && kernel == NOBODY ->	/* lock.taker.lockKernel, flock.TryLock, flock.Lock */
		kernel = me; at[me] = WON }
	:: d_step { IS(LOCK) && kernel != NOBODY && mode[me] == RECLAIM -> exits(me) }
	:: d_step { IS(LOCK) && path != file[me] && path != NOBODY && mode[me] != RECLAIM && !is(STAYS) ->
		reopen(me) }		/* lock.taker.lockUnlessReplaced */

	:: d_step { IS(WON) ->		/* lock.taker.judgeWon, lock.pathNames, lock.readOurs */
		if :: !is(UNGUARDED) -> found[me] = judgementLocked(me, record_); copy(seen[me], record_) :: else fi;
		refusedForItself = found[me] == FOUND_OWNER && seen[me].owner == me;
		assert(!refusedForItself);		/* lock.DeadlockError */
		if
		:: path != file[me] && !is(NO_RECHECK) -> reopen(me)
		:: else ->
			if
			:: mode[me] == RECLAIM ->	/* lock.reclaimFile, lock.clearRecord */
				if :: found[me] == FOUND_FREE && record_.state == HELD -> record_.state = FREE :: else fi;
				exits(me)
			:: mode[me] != RECLAIM && found[me] == FOUND_FREE ->	/* lock.taker.hold, lock.taker.record */
				mine[me] = seen[me].generation + 1;
				at[me] = AFTER_WON;
				forget(seen[me])
			:: else ->			/* lock.taker.takeFile, flock.Unlock */
				if :: !is(KEEPS) -> kernel = NOBODY :: else fi;
				at[me] = AWAIT
			fi
		fi }

	:: d_step { IS(AWAIT) && (path != file[me] || !sameHold(record_, seen[me]) ||
			(judgement(me, record_) != found[me] && !is(DEAF))) ->
				/* lock.taker.awaitRecord, lock.taker.changed, lock.awaitEnd */
		forget(seen[me]); found[me] = FOUND_FREE;
		at[me] = (kernel == me -> WON : FIRST) }

	:: d_step { IS(START) ->		/* supervise.Command.Start, supervise.child.start */
		command[me] = AT_GATE; inherited[me] = true;	/* until its execve(2) also with -o */
		at[me] = AFTER_START }
	:: d_step { IS(WRITE) ->		/* lock.Lock.Started, lock.taker.hold: lock.Lock.write */
		record_.state = HELD; record_.owner = me; record_.generation = mine[me];
		if :: is(NO_LAST_LOOK) -> robbed[me] = false :: else fi;
		at[me] = AFTER_WRITE }
	:: d_step { IS(LOOK) ->			/* lock.pathNames; lock.ErrLost */
		if
		:: path != file[me] ->
			lostForNothing = !robbed[me] && !exchanged;
			assert(!lostForNothing);
			at[me] = CANCEL
		:: else -> robbed[me] = false; at[me] = AFTER_LOOK
		fi }
	:: d_step { IS(CANCEL) && (!forks(me) || command[me] == OVER) -> at[me] = AFTER_CANCEL }
						/* supervise.Process.Cancel; lock.ErrLost */
	:: d_step { IS(RUN) && !forks(me) ->	/* a program by itself; supervise.Command.Exec */
		begin(me); at[me] = WAIT }
	:: d_step { IS(RUN) && forks(me) ->	/* supervise.Process.Run, supervise.gate.open */
		passed[me] = true; at[me] = AFTER_RUN }

#ifdef CLOSES
	:: d_step { IS(WAIT) && mode[me] == EXEC && open[me] -> open[me] = false; closed(me) }
#endif
	:: d_step { IS(WAIT) && mode[me] == EXEC -> runs[me] = false; exits(me) }
#ifdef DAEMONS
	:: d_step { IS(WAIT) && mode[me] == EXEC && open[me] ->
		runs[me] = false; inherited[me] = true; exits(me) }
#endif
	:: d_step { IS(WAIT) && (mode[me] == SELF || command[me] == OVER) ->	/* supervise.Process.Run */
		runs[me] = false;
		at[me] = REWRITE }

	:: d_step { IS(REWRITE) && GRANTED ->	/* lock.Lock.Release, lock.Lock.rewrite, lock.Record.sameHold */
		if :: kernel == NOBODY && path == file[me] && !is(NO_RELOCK) -> kernel = me :: else fi;
		if
		:: is(BLIND) -> at[me] = CLEAR
		:: !is(BLIND) && path == file[me] && mineIn(record_) ->
			untold = robbed[me] || cleared[me];
			assert(!untold);
			at[me] = CLEAR
		:: else ->			/* lock.ErrLost */
			lostForNothing = path == file[me] && !robbed[me] && !cleared[me];
			assert(!lostForNothing);
			at[me] = RELEASE
		fi;
		if :: is(UNLOCKS_FIRST) && kernel == me -> kernel = NOBODY :: else fi }
	:: d_step { IS(CLEAR) -> record_.state = FREE; at[me] = RELEASE }	/* lock.Record.writeTo */
	:: d_step { IS(RELEASE) ->	/* flock.Unlock, for all who have the description */
		if :: !is(NO_UNLOCK) -> kernel = (kernel == me -> NOBODY : kernel); inherited[me] = false :: else fi;
		command[me] = NONE;
		exits(me) }
	od
}

inline over(t) {
	command[t] = OVER; runs[t] = false; passed[t] = false; inherited[t] = false; closed(t);
	if :: at[t] == DONE -> forgetAll(t) :: else fi
}

/* The command of a wrapper: supervise.childMain. */
proctype child(byte me) {
end:	do
	:: d_step { command[me] == AT_GATE && passed[me] ->
		command[me] = RUNNING; passed[me] = false;
		begin(me);
		if :: mode[me] == FORK_O -> inherited[me] = false; closed(me) :: else fi }
	:: d_step { command[me] == AT_GATE && !passed[me] && (!open[me] || at[me] == CANCEL) -> over(me) }
	:: d_step { command[me] == RUNNING -> over(me) }
#ifdef CLOSES	/* sudo and daemons do */
	:: d_step { command[me] == RUNNING && inherited[me] -> inherited[me] = false; closed(me) }
#endif
#ifdef UNLOCKS	/* flock -u */
	:: d_step { command[me] == RUNNING && inherited[me] && kernel == me -> kernel = NOBODY }
#endif
#ifdef DAEMONS	/* what it leaves behind keeps the descriptor for ever */
	:: d_step { command[me] == RUNNING && inherited[me] ->
		command[me] = OVER; runs[me] = false;
		if :: at[me] == DONE -> forgetAll(me) :: else fi }
#endif
	od
}

#if FORCES > 0
#define STATE(x)	(force[w] == x)
#define living(r)	(r.state == HELD && (!dead[r.owner] || commandLives(r.owner)))
/* Whom force may hit: the hold that was found first; where that is none that lives, whoever
   keeps the kernel lock. */
inline judgeVictims(f, any) {
	for (i : 0 .. N-1) {
		wrongVictim = wrongVictim ||
			(file[i] == f && holds(i) && victim[w] != i && !(any && victim[w] == NOBODY))
	}
	assert(!wrongVictim)
}
inline lookFirst() {
	copy(first[w], rec[path]); looked[w] = true;
	if :: living(first[w]) -> victim[w] = first[w].owner :: else fi
}
inline letGo(w) {
	if :: old[w] != NOBODY && holder[old[w]] == N + w -> holder[old[w]] = NOBODY :: else fi;
	if :: new[w] != NOBODY && holder[new[w]] == N + w -> holder[new[w]] = NOBODY :: else fi;
	old[w] = NOBODY; new[w] = NOBODY; out[w] = NOBODY; excludes[w] = false; tidy()
}
inline forceEnds(w) { letGo(w); forget(first[w]); looked[w] = false; victim[w] = NOBODY; force[w] = DONE }
inline forceAgain(w) { letGo(w); force[w] = OPEN }	/* lock.ErrReplaced */
#define excludes_(w, f)	(excludes[w] && (old[w] == f || (new[w] == f && !is(NEW_BREAKABLE))))
#define excluded(f)	(excludes_(0, f) || excludes_(FORCES-1, f))
proctype breaker(byte w) {
end:	do
	:: d_step { STATE(OPEN) ->	/* lock.reclaimOnce, lock.openExisting */
		if
		:: path == NOBODY -> forceEnds(w)
		:: else ->
			old[w] = path; force[w] = TRY;
			if :: !looked[w] -> lookFirst() :: else fi
		fi }
	:: d_step { STATE(TRY) ->	/* lock.reclaimFile, lock.taker.lockKernel, lock.breakLocked, lock.ReclaimOptions.overrules */
		if :: is(ANY_HOLD) -> copy(first[w], rec[old[w]]) :: else fi;
		if
		:: holder[old[w]] == NOBODY -> holder[old[w]] = N + w; force[w] = JUDGE
		:: holder[old[w]] != NOBODY && sameRecord(first[w], rec[old[w]]) -> force[w] = EXCLUDE
		:: else -> forceEnds(w)
		fi }
	:: d_step { STATE(JUDGE) ->	/* lock.taker.judgeWon, lock.clearRecord */
		if
		:: path != old[w] -> forceAgain(w)
		:: path == old[w] && rec[path].state == HELD && (!living(rec[path]) || sameRecord(first[w], rec[path])) ->
			judgeVictims(path, false);
			for (i : 0 .. N-1) {
				if :: file[i] == path && holds(i) -> cleared[i] = true :: else fi
			}
			rec[path].state = FREE;
			forceEnds(w)
		:: else -> forceEnds(w)
		fi }
	:: d_step { STATE(EXCLUDE) ->	/* lock.lockOutBreakers, lock.isOld; lock.freeFileLike, lock.makeFree */
		if
		:: excluded(old[w]) && !is(CROSSWISE) -> forceEnds(w)
		:: else ->
			if
			:: path != old[w] || !sameRecord(first[w], rec[old[w]]) -> forceAgain(w)
			:: else ->
				excludes[w] = true;
				create(new[w]);
				rec[new[w]].generation = rec[old[w]].generation + (rec[old[w]].state == HELD -> 0 : 1);
				rec[new[w]].state = FREE;
				holder[new[w]] = (is(NEW_UNLOCKED) -> NOBODY : N + w);
				force[w] = EXCHANGE
			fi
		fi }
	:: d_step { STATE(EXCHANGE) ->	/* lock.replace, lock.exchange */
		if
		:: path == NOBODY -> forceAgain(w)
		:: else -> out[w] = path; path = new[w]; force[w] = VERIFY
		fi }
	:: d_step { STATE(VERIFY) ->	/* lock.isOld */
		if
		:: (out[w] != old[w] || !sameRecord(first[w], rec[out[w]])) && !is(NO_VERIFY) -> force[w] = BACK
		:: else -> judgeVictims(out[w], true); rob(out[w]); forceEnds(w)
		fi }
	:: d_step { STATE(BACK) ->	/* lock.replace, lock.exchange */
		if
		:: path == NOBODY -> skip
		:: else ->
			if :: path != new[w] -> judgeVictims(path, false) :: else fi;
			path = out[w]
		fi;
		forceAgain(w) }
	od
}
#endif


/* What a world does that does not care for locks. It stops some day. */
inline image(t) {	/* execve(2) of a program that takes locks, in the same process */
	open[t] = false; closed(t); runs[t] = false;
	forgetAll(t); at[t] = OPEN
}
#define MAY(t) \
	:: d_step { kills > 0 && at[t] != DONE -> \
		kills--; if :: !forks(t) -> runs[t] = false :: else fi; exits(t) } \
	:: d_step { kills > 0 && command[t] == AT_GATE -> kills--; over(t) } \
	:: d_step { images > 0 && (mode[t] == SELF || mode[t] == EXEC) && at[t] != DONE -> images--; image(t) }
/* A wait may be left with a reason that inspect names: what a dead holder's command left
   behind keeps the descriptor, or the owner cannot be seen. */
#define keptByDaemon(u)	(u < N && dead[u] && inherited[u] && (command[u] == OVER || mode[u] == EXEC))
#define waitsRightly(t)	((at[t] == LOCK && (path == file[t] || path == NOBODY) && keptByDaemon(holder[file[t]])) || \
	(at[t] == AWAIT && found[t] == FOUND_UNKNOWN))
#define settled(t)	(at[t] == DONE || waitsRightly(t))

proctype world() {
	do
	MAY(0)
	MAY(1)
	MAY(N-1)
	:: d_step { deletes > 0 && path != NOBODY && !exchanged ->
		deletes--; reset = true; top = 0; rob(path); path = NOBODY; tidy() }
#if FORCES > 0
	:: d_step { kills > 0 && force[0] != DONE ->
		kills--;
		if :: out[0] != NOBODY -> rob(out[0]); reset = true :: else fi;
		forceEnds(0) }
#endif
	:: d_step { kills + images + deletes > 0 -> kills = 0; images = 0; deletes = 0 }
	:: timeout ->
		stuck = !(settled(0) && settled(1) && settled(N-1));
		assert(!stuck);
		break
	od
}

/* All choices of modes, but for the order where that makes no difference. */
#ifdef FOREIGN
#define least(t)	(t == 0 || t == N-1 -> 0 : mode[t-1])
#else
#define least(t)	(t == 0 -> 0 : mode[t-1])
#endif
init {
	byte t;
	atomic {
		for (t : 0 .. N-1) {
			mode[t] = least(t);
			do :: (MODES >> mode[t]) > 1 -> mode[t]++ :: (MODES >> mode[t]) & 1 -> break od
		}
		for (t : 0 .. N-1) {
			run taker(t);
			run child(t)
		}
#if FORCES > 0
		for (t : 0 .. FORCES-1) { run breaker(t) }
#endif
		run world();
		t = 0
	}
}
