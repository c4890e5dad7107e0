package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func defaultActions() {
	if unix.Getpid() == 1 {
		exitWhenTold()
		return
	}
	for _, sig := range relayed() {
		if !ignored(sig) {
			resetToDefault(sig)
		}
	}
}

// exitWhenTold ends this process until the signals are caught by others.
func exitWhenTold() {
	told := make(chan os.Signal, 1)
	notify(told, terminationSignals())
	go func() {
		sig := (<-told).(syscall.Signal)
		os.Exit(128 + int(sig))
	}()
}
