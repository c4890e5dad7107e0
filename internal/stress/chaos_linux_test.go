package stress_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// chaos takes the lock file away from its path, in all ways, and puts some of them
// back. Two are inside then, one under each file; who has lost his must say so.
type chaos struct {
	*arena
	random *rand.Rand
	number int
	busy   bool // a file is to be put back
	linked bool // a symbolic link is at the path
	kept   []int
}

// await lets the next change come some events later.
func (c *chaos) await() {
	if c.goesOn(int64(c.begun)) {
		c.after(5+c.random.IntN(60), func() {
			c.change()
			c.await()
		})
	}
}

// disturb changes the file under some of those who have just come in.
func (c *chaos) disturb() {
	if c.random.IntN(10) == 0 && c.goesOn(int64(c.begun)) {
		c.change()
	}
}

// change leaves out what cannot be done just now.
func (c *chaos) change() {
	lock := c.path("lock")
	awaited := slices.ContainsFunc(c.members, func(m *contender) bool { return m.awaiting })
	if c.busy || awaited || !c.keep(lock) {
		return
	}
	c.number++
	aside := c.path(fmt.Sprint("aside.", c.number))
	switch c.random.IntN(5) {
	case 0:
		c.check(os.Remove(lock))
	case 1:
		c.check(os.Rename(lock, aside))
	case 2: // a new one over it
		c.check(os.WriteFile(aside, nil, 0o666))
		c.check(os.Rename(aside, lock))
	case 3:
		c.check(os.Rename(lock, aside))
		c.putBackLater(aside)
	case 4:
		c.check(os.Rename(lock, aside))
		err := os.Symlink(filepath.Base(aside), lock)
		if !errors.Is(err, os.ErrExist) { // somebody has made a new one by now
			c.check(err)
			c.linked = true
		}
		c.putBackLater(aside)
	}
	c.shake()
}

func (c *chaos) putBackLater(aside string) {
	c.busy = true
	c.after(1+c.random.IntN(40), func() {
		c.keep(c.path("lock"))
		c.check(os.Rename(aside, c.path("lock")))
		c.busy, c.linked = false, false
		c.shake()
	})
}

// shake lets those who are about to give back the lock find one file or another at
// the path.
func (c *chaos) shake() {
	c.counts.changes++
	for _, member := range c.members {
		member.shaken = true
		if member.told {
			member.lost = unclear
		}
	}
}

// movable reports whether somebody waits who should leave the holder's file for
// another that is at the path. Who does as flock(1) does waits for the old one.
func (c *chaos) movable(holder *contender) bool {
	now := c.inode()
	if c.busy || now == 0 || now == holder.inode || holder.inode == 0 {
		return false
	}
	return slices.ContainsFunc(c.members, func(m *contender) bool {
		return m.shaken && !m.inside && !m.hit && m.busy == runBusy
	})
}

func (c *chaos) path(name string) string { return filepath.Join(c.dir, name) }

// keep makes sure that the file's inode is not used again soon, by which contenders
// tell what they have locked. It reports whether there is a file.
func (c *chaos) keep(path string) bool {
	const most = 500
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	c.kept = append(c.kept, fd)
	if len(c.kept) > most {
		unix.Close(c.kept[0])
		c.kept = c.kept[1:]
	}
	return true
}
