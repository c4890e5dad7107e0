package lock_test

import (
	"os"
	"testing"

	"xlock/internal/lock"
)

// roles are what a second process of this test binary can be: the environment
// variable XLOCK_TEST_ROLE names one, and its result is the exit status.
var roles = map[string]func() int{
	"acquire":    roleAcquire,
	"image":      lock.RoleImage,
	"reclaim":    roleReclaim,
	"take-turns": roleTakeTurns,
	"wrapper":    roleWrapper,
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv("XLOCK_TEST_ROLE")]; ok {
		os.Exit(role())
	}
	os.Exit(m.Run())
}
