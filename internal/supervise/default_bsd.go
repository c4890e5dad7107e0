//go:build darwin || freebsd

package supervise

func defaultActions() {}
