/*
 * The protocol of xlock: who takes, keeps and gives back a lock. See README.md.
 *
 * A step is one d_step: a guard, and what one system call (or two that nobody
 * can come between) does. The world may kill a process between any two steps.
 * Names such as lock.taker.takeFile are the Go functions that a step stands for;
 * a test holds them against the source.
 *
 * Switches: what is disturbed (KILLS, IMAGES, DELETES, FORCES: how often;
 * FOREIGN: the last taker is in a PID namespace of its own), mutations (MUT_...),
 * and variants of reclaim --force that README.md explains.
 */

#ifndef N
#define N 3
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef IMAGES
#define IMAGES 0
#endif
#ifndef DELETES
#define DELETES 0
#endif
#ifndef FORCES
#define FORCES 0
#endif

#define FILES	(1 + DELETES + FORCES)
#define NONE	15

/* What a taker is. */
#ifndef MODES
#define MODES	5
#endif
#define FORK	0	/* xlock run: a wrapper, and a command with the descriptor */
#define FORK_O	1	/* xlock run -o: the command lacks it */
#define SELF	2	/* a program that holds the lock itself, close-on-exec */
#define EXEC_O	3	/* xlock run -F -o: the process becomes the command, without the descriptor */
#define RECLAIM	4	/* xlock reclaim */
#define forks(t)	(mode[t] <= FORK_O)
#define inherits(t)	(mode[t] == FORK || mode[t] == SELF)

/* Where a taker is: what its next step does. */
mtype = { OPEN, LOOK, LOCK, WON, JUDGE, AWAIT, START, WRITE, RECHECK, CANCEL, PASS, RUN, WAIT,
	REWRITE, CLEAR, RELEASE, DONE };
/* A record's state, and what a judgement finds. */
mtype = { EMPTY, FREE, HELD };
mtype = { FOUND_FREE, FOUND_OWNER, FOUND_COMMAND, FOUND_ABANDONED, FOUND_UNKNOWN };
/* A command: not there, at the gate, running, ended. */
mtype = { NO_COMMAND, AT_GATE, RUNNING, OVER };
/* Where a person's force is. */
mtype = { F_OPEN, F_TRY, F_CHECK, F_CLEAR, F_READ, F_NEW, F_EXCHANGE, F_VERIFY, F_BACK, F_UNLOCK, F_DONE };

typedef record { mtype state = EMPTY; byte owner = NONE; byte generation }

/* The file system: what the path names, and each inode's record and kernel lock. */
byte path = NONE, files;
record rec[FILES];
byte holder[FILES] = NONE;	/* whose open file description has it */

/* Each taker, with its command. One open file description at a time. */
byte mode[N];
mtype at[N] = OPEN;
byte file[N] = NONE;	/* the inode of its description */
bool open[N];		/* it has a descriptor */
bool dead[N];		/* its process has ended */
bool killed[N];		/* not by itself */
record seen[N];		/* the record that it judged */
mtype found[N] = FOUND_FREE;		/* what it found */
byte mine[N];		/* its generation */
mtype command[N] = NO_COMMAND;
bool inherited[N];	/* the command has a descriptor of the same description */
bool passed[N];		/* the byte is in the gate's pipe */
bool daemon[N];		/* something that the command left behind keeps that for ever */

/* What is asked. */
bool runs[N];		/* its command, or the program itself, runs under the lock */
bool robbed[N];		/* its file was taken from the path while it held */
bool cleared[N];	/* a person declared its hold void, in its own file */
bool reset;		/* generations began again */
byte top;		/* the highest generation that has run */
bool overlap, staleToken, refusedForItself, lostForNothing, stuck;	/* what must not be */

#define same(a, b)	(a.state == b.state && a.owner == b.owner && a.generation == b.generation)
#define copy(to, from)	to.state = from.state; to.owner = from.owner; to.generation = from.generation
#define forget(r)	r.state = EMPTY; r.owner = NONE; r.generation = 0

/* close(2), exit and SIGKILL: a description goes with its last descriptor. */
#define closed(t) \
	if :: !open[t] && !inherited[t] && file[t] != NONE && holder[file[t]] == t -> holder[file[t]] = NONE \
	   :: else fi

/*
 * lock.scene.judgeContent. An owner in another PID namespace is not seen. One
 * that is this very process (after a change of its image) has no descriptor, or
 * it would not be taking the lock: lock.scene.judgeSelf.
 */
#ifdef FOREIGN
#define unseen(me, u)	(((me) == N-1) != ((u) == N-1))
#else
#define unseen(me, u)	false
#endif
#ifdef MUT_SELF_HELD
#define gone(me, u)	dead[u]
#else
#define gone(me, u)	(dead[u] || (u) == (me))
#endif
#ifdef MUT_OWNER_ONLY
#define commandLives(u)	false
#else
#define commandLives(u)	(command[u] == AT_GATE || command[u] == RUNNING)	/* lock.scene.judgeCommand */
#endif
#define judgement(me, r) \
	(r.state != HELD -> FOUND_FREE : \
	(unseen(me, r.owner) -> FOUND_UNKNOWN : \
	(!gone(me, r.owner) -> FOUND_OWNER : \
	(commandLives(r.owner) -> FOUND_COMMAND : FOUND_ABANDONED))))

/* lock.scene.judgeLocked: the kernel's grant is a witness about an owner that is not seen. */
#ifdef MUT_WITNESS
#define settles(u)	true
#else
#define settles(u)	inherits(u)
#endif
#define judgementLocked(me, r) \
	((judgement(me, r) == FOUND_UNKNOWN && settles(r.owner)) -> FOUND_ABANDONED : judgement(me, r))

/* (a) Nobody runs beside another, but for what a person did to one of the two. */
#define apart(t, u) \
	((t) == (u) || !runs[u] || cleared[t] || cleared[u] || \
	((robbed[t] || robbed[u]) && file[t] != file[u]))
inline begin(t) {
	overlap = !(apart(t, 0) && apart(t, 1) && apart(t, N-1));
	assert(!overlap);
	staleToken = !robbed[t] && !reset && mine[t] <= top;
	assert(!staleToken);
	if :: mine[t] > top -> top = mine[t] :: else fi;
	runs[t] = true
}

/* t has passed its check of the path, or its command has not ended. */
#define holds(t) (runs[t] || command[t] == AT_GATE || \
	!(at[t] == OPEN || at[t] == LOOK || at[t] == LOCK || at[t] == WON || at[t] == AWAIT || at[t] == DONE))
#define each(what, i)	what(0, i); what(1, i); what(N-1, i)
inline rob(t, i) {
	if :: file[t] == i && holds(t) -> robbed[t] = true :: else fi
}
inline unrob(t, i) {
	if :: file[t] == i -> robbed[t] = false :: else fi
}
inline clear(t, i) {
	if :: file[t] == i && holds(t) -> cleared[t] = true :: else fi
}

/* What nobody looks at any more is forgotten, for fewer states. */
inline forgetAll(t) {
	forget(seen[t]); found[t] = FOUND_FREE;
	if :: !runs[t] && command[t] != AT_GATE && !inherited[t] ->
		mine[t] = 0; file[t] = NONE; robbed[t] = false; cleared[t] = false
	:: else fi
}

/* lock.openToLock: open, or create empty. */
inline openToLock(t) {
	if :: path == NONE -> path = files; files++ :: else fi;
	file[t] = path; open[t] = true; robbed[t] = false; cleared[t] = false
}

/* The end of the process, also by SIGKILL: the kernel closes its descriptors. */
inline exits(t) {
	open[t] = false; closed(t);
	dead[t] = true; at[t] = DONE;
	forgetAll(t)
}

/* lock.taker.changed, and lock.awaitEnd for what its end changes. */
#ifdef MUT_DEAF
#define changed(t) (path != file[t] || !same(rec[file[t]], seen[t]))
#else
#define changed(t) (path != file[t] || !same(rec[file[t]], seen[t]) || judgement(t, rec[file[t]]) != found[t])
#endif

#ifdef MUT_UNGUARDED
#define FIRST	LOOK
#else
#define FIRST	LOCK
#endif
#define IS(x)	(at[me] == x)
#define record_	rec[file[me]]
#define isMine(r)	(r.state == HELD && r.owner == me && r.generation == mine[me])
#define kernel	holder[file[me]]

proctype taker(byte me) {
end:	do
	:: d_step { IS(OPEN) ->			/* lock.taker.take, lock.reclaimOnce */
		openToLock(me); at[me] = FIRST }

#ifdef MUT_UNGUARDED
	:: d_step { IS(LOOK) ->
		found[me] = judgement(me, record_); copy(seen[me], record_);
		at[me] = LOCK }
#endif
	:: d_step { IS(LOCK) && kernel == NONE ->	/* lock.taker.lockKernel: flock.TryLock, flock.Lock */
		kernel = me; at[me] = WON }
	:: d_step { IS(LOCK) && kernel != NONE && mode[me] == RECLAIM -> exits(me) }

	:: d_step { IS(WON) ->			/* lock.judgeWon: pathNames, readOurs */
		if
#ifndef MUT_NO_RECHECK
		:: path != file[me] -> open[me] = false; closed(me); forgetAll(me); at[me] = OPEN
		:: path == file[me] ->
#else
		:: true ->
#endif
#ifndef MUT_UNGUARDED
			copy(seen[me], record_);
#endif
			at[me] = JUDGE
		fi }

	:: d_step { IS(JUDGE) ->			/* lock.judgeWon, lock.scene.judgeLocked */
#ifndef MUT_UNGUARDED
		found[me] = judgementLocked(me, seen[me]);
#endif
		refusedForItself = (found[me] == FOUND_OWNER && seen[me].owner == me);
		assert(!refusedForItself);		/* lock.DeadlockError */
		if
		:: mode[me] == RECLAIM ->		/* lock.reclaimFile */
			if :: found[me] == FOUND_ABANDONED -> record_.state = FREE :: else fi;
			exits(me)
		:: mode[me] != RECLAIM && (found[me] == FOUND_FREE || found[me] == FOUND_ABANDONED) ->
			mine[me] = seen[me].generation + 1;	/* lock.taker.record, lock.hold */
			forget(seen[me]); found[me] = FOUND_FREE;
			at[me] = (forks(me) -> START : WRITE)
		:: else ->				/* lock.taker.takeFile: flock.Unlock */
#ifndef MUT_KEEP_KERNEL_LOCK
			kernel = NONE;
#endif
			at[me] = AWAIT
		fi }

	:: d_step { IS(AWAIT) && changed(me) ->	/* lock.taker.awaitRecord */
		forget(seen[me]); found[me] = FOUND_FREE;
#ifdef MUT_KEEP_KERNEL_LOCK
		at[me] = WON }
#else
		at[me] = FIRST }
#endif

	:: d_step { IS(START) ->			/* supervise.forkAtGate: all descriptors are inherited */
		command[me] = AT_GATE; inherited[me] = true;
#ifdef MUT_LATE_RECORD
		at[me] = PASS }
#else
		at[me] = WRITE }
#endif

	:: d_step { IS(WRITE) ->			/* lock.Lock.Started, lock.hold: lock.Lock.write */
		record_.state = HELD; record_.owner = me; record_.generation = mine[me];
#ifdef LOOK_AGAIN
		at[me] = RECHECK }
	:: d_step { IS(RECHECK) ->			/* proposed: is it still the path's file? */
		if :: path != file[me] -> at[me] = CANCEL :: else ->
			at[me] = (forks(me) -> PASS : RUN) fi }
	:: d_step { IS(CANCEL) && command[me] != AT_GATE ->	/* supervise.Process.Cancel */
		command[me] = NO_COMMAND;
		open[me] = false; closed(me); forgetAll(me); at[me] = OPEN }
#elif defined(MUT_LATE_RECORD)
		at[me] = (forks(me) -> WAIT : RUN) }
#else
		at[me] = (forks(me) -> PASS : RUN) }
#endif

	:: d_step { IS(PASS) ->			/* supervise.gate.open */
		passed[me] = true;
#ifdef MUT_LATE_RECORD
		at[me] = WRITE }
#else
		at[me] = WAIT }
#endif

	:: d_step { IS(RUN) ->			/* a program by itself; supervise.Command.Exec */
		begin(me);
		if :: mode[me] == EXEC_O -> open[me] = false; closed(me) :: else fi;
		at[me] = WAIT }

	:: d_step { IS(WAIT) && (!forks(me) || command[me] == OVER) ->	/* supervise.Process.Run */
		if
		:: forks(me) -> at[me] = REWRITE
		:: mode[me] == SELF -> runs[me] = false; at[me] = REWRITE
		:: mode[me] == EXEC_O -> runs[me] = false; exits(me)
		fi }

	:: d_step { IS(REWRITE) ->		/* lock.Lock.rewrite: pathNames, sameHold */
#ifdef RELOCK	/* proposed: flock.TryLock on our own description first */
		if :: kernel == NONE -> kernel = me :: else fi;
#define unlocked(t)	(holder[file[t]] != t)
#else
#define unlocked(t)	false
#endif
		if
#ifdef MUT_BLIND_RELEASE
		:: true -> at[me] = CLEAR
#else
		:: path != file[me] || unlocked(me) -> at[me] = RELEASE
		:: path == file[me] && !unlocked(me) && isMine(record_) -> at[me] = CLEAR
		:: path == file[me] && !unlocked(me) && !isMine(record_) ->
			lostForNothing = !robbed[me] && !cleared[me];
			assert(!lostForNothing);	/* lock.ErrLost */
			at[me] = RELEASE
#endif
		fi;
#ifdef MUT_CLEAR_UNLOCKED
		if :: kernel == me -> kernel = NONE :: else fi;
#endif
		}

	:: d_step { IS(CLEAR) ->			/* lock.Record.writeTo */
		record_.state = FREE; at[me] = RELEASE }

	:: d_step { IS(RELEASE) ->			/* lock.Lock.Release: flock.Unlock, of the whole description */
#ifndef MUT_NO_UNLOCK
		if :: kernel == me -> kernel = NONE :: else fi;
#endif
		exits(me) }

	/* (c) A wait that is left here has a living reason, which inspect names: what a
	   killed wrapper's command left behind keeps the descriptor; or the owner cannot be seen. */
	:: d_step { IS(LOCK) && kernel < N && killed[kernel] && daemon[kernel] -> exits(me) }
	:: d_step { IS(AWAIT) && found[me] == FOUND_UNKNOWN -> exits(me) }

	od
}

inline over(t) {
	command[t] = OVER; runs[t] = false; passed[t] = false;
	if :: !daemon[t] -> inherited[t] = false; closed(t) :: else fi;
	if :: at[t] == DONE -> forgetAll(t) :: else fi
}

/* The command of a wrapper: supervise.forkAtGate. */
proctype child(byte me) {
end:	do
	:: d_step { command[me] == AT_GATE && passed[me] ->
		command[me] = RUNNING; passed[me] = false;
		begin(me);
		if :: mode[me] == FORK_O -> inherited[me] = false; closed(me) :: else fi }
	:: d_step { command[me] == AT_GATE && !passed[me] && (!open[me] || at[me] == CANCEL) ->
		over(me) }
	:: d_step { command[me] == RUNNING -> over(me) }
#ifndef FOREIGN		/* a limit that docs/design.md names */
	:: d_step { command[me] == RUNNING && inherited[me] ->		/* sudo and daemons close it */
		inherited[me] = false; closed(me) }
#endif
#ifdef UNLOCKS
	:: d_step { command[me] == RUNNING && inherited[me] && kernel == me -> kernel = NONE }	/* flock -u */
#endif
#ifdef DAEMONS
	:: d_step { command[me] == RUNNING && inherited[me] -> daemon[me] = true; over(me) }
#endif
	od
}
#if FORCES > 0
/*
 * reclaim --force, as it is planned. A kernel lock that is held is left behind
 * with its file: another one takes its place.
 */
mtype force[FORCES] = F_OPEN;
byte old[FORCES] = NONE;	/* the file that is judged */
byte new[FORCES] = NONE;	/* the one that is to take its place */
byte out[FORCES] = NONE;	/* what the exchange took from the path */
record judged[FORCES];

byte victim[FORCES] = NONE;	/* whom the person has seen; nobody may mean anybody */
#ifdef STRICT
inline robJudged(t, i) {
	if :: file[t] == i && holds(t) && (victim[who] == t || victim[who] == NONE) ->
		robbed[t] = true
	:: else fi
}
#else
#define robJudged(t, i)	rob(t, i)
#endif
inline forceEnds(w) {
	if :: old[w] != NONE && holder[old[w]] == N + w -> holder[old[w]] = NONE :: else fi;
	if :: new[w] != NONE && holder[new[w]] == N + w -> holder[new[w]] = NONE :: else fi;
	old[w] = NONE; new[w] = NONE; out[w] = NONE; forget(judged[w]); victim[w] = NONE;
	force[w] = F_DONE
}

proctype forcer(byte who) {
	byte back;
end:	do
	:: d_step { force[who] == F_OPEN ->
		old[who] = path;
		force[who] = F_TRY;
		if :: path == NONE -> forceEnds(who) :: else fi }
	:: d_step { force[who] == F_TRY ->
		if :: holder[old[who]] == NONE -> holder[old[who]] = N + who; force[who] = F_CHECK
		   :: else -> force[who] = F_READ
		fi }
	:: d_step { force[who] == F_CHECK ->
		if :: path != old[who] -> holder[old[who]] = NONE; force[who] = F_OPEN
		   :: else -> force[who] = F_CLEAR
		fi }
	:: d_step { force[who] == F_CLEAR ->		/* in place, whoever is named */
		if :: rec[old[who]].state == HELD -> rec[old[who]].state = FREE; each(clear, old[who]) :: else fi;
		force[who] = F_UNLOCK }

	:: d_step { force[who] == F_READ ->
		copy(judged[who], rec[old[who]]);
		if :: judged[who].state == HELD && (!dead[judged[who].owner] || commandLives(judged[who].owner)) ->
			victim[who] = judged[who].owner :: else fi;
		force[who] = F_NEW }
	:: d_step { force[who] == F_NEW ->
		new[who] = files; files++;
		rec[new[who]].state = FREE;
#ifdef MUT_SAME_GENERATION
		rec[new[who]].generation = judged[who].generation;
#else
		rec[new[who]].generation = judged[who].generation + 1;	/* the holder's may not stand in its file yet */
#endif
#ifndef MUT_NEW_UNLOCKED
		holder[new[who]] = N + who;
#endif
		force[who] = F_EXCHANGE }
	:: d_step { force[who] == F_EXCHANGE ->		/* renameat2(2), RENAME_EXCHANGE */
		if
		:: path == NONE -> forceEnds(who)
		:: else ->
			out[who] = path; path = new[who];
			each(robJudged, out[who]);
			force[who] = F_VERIFY
		fi }
	:: d_step { force[who] == F_VERIFY ->
		if
#ifndef MUT_NO_VERIFY
		:: out[who] != old[who] || !same(rec[out[who]], judged[who]) -> force[who] = F_BACK
		:: out[who] == old[who] && same(rec[out[who]], judged[who]) -> force[who] = F_UNLOCK
#else
		:: true -> force[who] = F_UNLOCK
#endif
		fi }
	:: d_step { force[who] == F_BACK ->
		back = path;
		if
		:: back == NONE -> skip
		:: else ->
			path = out[who];
			if :: back == new[who] -> each(unrob, out[who]) :: else -> each(robJudged, back) fi
		fi;
		back = 0;
		force[who] = F_UNLOCK }
	:: d_step { force[who] == F_UNLOCK -> forceEnds(who) }
	od
}
#endif

/* What a world does that does not care for locks. It stops some day. */
inline kill(t) {
	exits(t); killed[t] = true;
	if :: !forks(t) -> runs[t] = false; forgetAll(t) :: else fi
}
inline image(t) {	/* execve(2) of a program that takes locks again, in the same process */
	open[t] = false; closed(t); runs[t] = false;
	forgetAll(t); at[t] = OPEN
}
#define MAY(t) \
	:: d_step { kills < KILLS && at[t] != DONE -> kills++; kill(t) } \
	:: d_step { kills < KILLS && command[t] == AT_GATE -> kills++; over(t) } \
	:: d_step { images < IMAGES && mode[t] == SELF && at[t] != DONE -> images++; image(t) }

proctype world() {
	byte kills, images, deletes;
	do
	MAY(0)
	MAY(1)
	MAY(N-1)
	:: d_step { deletes < DELETES && path != NONE ->
		deletes++; reset = true; each(rob, path); path = NONE }
#if FORCES > 0
	:: d_step { kills < KILLS && force[0] != F_DONE ->
		kills++;
		if :: out[0] != NONE -> each(rob, out[0]); reset = true :: else fi;
		forceEnds(0) }
#endif
	:: break
	od;
	timeout ->		/* (b), (c): nobody can take a step */
	stuck = !(at[0] == DONE && at[1] == DONE && at[N-1] == DONE);
	assert(!stuck)
}

/* All choices of modes, but for the order, which makes no difference. */
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
			do :: mode[t] < MODES-1 -> mode[t]++ :: break od
		}
		for (t : 0 .. N-1) {
			run taker(t);
			run child(t)
		}
#if FORCES > 0
		for (t : 0 .. FORCES-1) { run forcer(t) }
#endif
		run world()
	}
}
