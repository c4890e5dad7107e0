//go:build !linux || !(amd64 || arm64 || arm)

package supervise

func defaultActions() {}
