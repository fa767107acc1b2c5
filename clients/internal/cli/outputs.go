package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// Replaces reports whether writing an output changes an input or what its name stands for: the input itself, a link to
// it, which is written through or goes, or the folder that is read.
func Replaces(out, in string) bool {
	x, errX := os.Stat(out)
	y, errY := os.Stat(in)
	return errX == nil && errY == nil && os.SameFile(x, y) || OneFile(out, in)
}

// OneFile reports whether two names are of the same file, which need not be there: in one folder, however that is
// called. Links to files are files of their own.
func OneFile(a, b string) bool {
	a, b = filepath.Clean(a), filepath.Clean(b)
	if a == b {
		return true
	}
	same := func(a, b string, stat func(string) (os.FileInfo, error)) bool {
		x, err := stat(a)
		if err != nil {
			return false
		}
		y, err := stat(b)
		return err == nil && os.SameFile(x, y)
	}
	if !same(filepath.Dir(a), filepath.Dir(b), os.Stat) {
		return false
	}
	// Where capitals make no difference to the system the file tells, if it is there.
	x, y := filepath.Base(a), filepath.Base(b)
	return x == y || strings.EqualFold(x, y) && same(a, b, os.Lstat)
}
