package command

// Standard output that can't be written to.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Output is standard output. It keeps the first error of a write, so that output that got lost never looks like
// success, whoever wrote it.
type Output struct {
	w   io.Writer
	err error
}

// NewOutput writes to w, which may be an Output already.
func NewOutput(w io.Writer) *Output {
	if o, ok := w.(*Output); ok {
		return o
	}
	return &Output{w: w}
}

// OutputError is an error of standard output.
type OutputError struct{ err error }

func (e *OutputError) Error() string { return fmt.Sprintf("standard output: %v", e.err) }
func (e *OutputError) Unwrap() error { return e.err }

// Write writes, or fails with an [*OutputError].
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err == nil {
		return n, nil
	}
	var path *fs.PathError
	if errors.As(err, &path) { // its name and verb say nothing
		err = path.Err
	}
	err = &OutputError{err}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Err is the first error of a write.
func (o *Output) Err() error { return o.err }
