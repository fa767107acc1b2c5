package main

// Pixels that another program writes: standard input, or a named pipe.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// pipe is one.
type pipe struct {
	*feed
	path  string // "" is standard input
	stdin io.Reader
}

func (p *pipe) open(context.Context) (about, error) {
	p.geo = p.want
	where := p.path
	if where == "" {
		where = "standard input"
	}
	return about{name: p.name, title: fmt.Sprintf("%s: %d x %d %v", where, p.geo.Width, p.geo.Height, p.geo.Format),
		geo: p.geo}, nil
}

func (p *pipe) close() error { return nil }

// pipePause is how long a named pipe that nobody writes to is left alone. It has nothing else to wait for: its end says
// that a writer has gone, without which the next one's pixels would be taken for the rest of a block.
const pipePause = 20 * time.Millisecond

func (p *pipe) keep(ctx context.Context, to *sink) error {
	if p.path == "" {
		// Reading can't be interrupted, so another goroutine does; it ends with its next bytes.
		r, w := io.Pipe()
		go func() {
			_, err := io.Copy(w, p.stdin)
			w.CloseWithError(err)
		}()
		defer context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })()
		p.connected(true)
		defer p.connected(false)
		return p.ended(ctx, p.read(ctx, to, r, nil))
	}
	for began := false; ; began = false {
		file, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
		err = p.read(ctx, to, &counted{file, func() {
			if !began {
				began = true
				p.connected(true)
			}
		}}, nil)
		stop()
		err = p.ended(ctx, errors.Join(err, file.Close()))
		if began {
			p.connected(false)
			if ctx.Err() == nil && p.longest > 0 {
				p.notify("the writer of %s has gone: the next one is waited for", p.path)
				p.jump(to, "the writer of the pipe changed")
			}
		}
		if err != nil || ctx.Err() != nil || began && p.longest == 0 {
			return err
		}
		select {
		case <-time.After(pipePause):
		case <-ctx.Done():
			return nil
		}
	}
}

// ended is the error of a pipe that has ended, which is none, or of one that can't be read.
func (p *pipe) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// counted tells of bytes that were read.
type counted struct {
	io.Reader
	came func()
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if n > 0 {
		c.came()
	}
	return n, err
}
