//go:build unix

package recipes

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the file for this process until it is closed, or fails at once.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
