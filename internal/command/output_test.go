package command

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	return len(p), nil
}

func TestOutput(t *testing.T) {
	o := NewOutput(&full{3})
	if _, err := fmt.Fprint(o, "abc"); err != nil || o.Err() != nil {
		t.Errorf("%v, %v", err, o.Err())
	}
	_, err := fmt.Fprint(o, "d")
	var lost *OutputError
	if !errors.As(err, &lost) || !errors.Is(err, syscall.ENOSPC) || !errors.Is(o.Err(), err) ||
		err.Error() != "standard output: no space left on device" {
		t.Errorf("%v", err)
	}
}
