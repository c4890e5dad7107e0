package lock

import (
	"os"
	"os/user"
)

// hostName is for people: it is shown, never compared.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// userName is for people too; the uid beside it is what counts.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
