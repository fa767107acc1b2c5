package main

// polyscan lowpoly --video: frame after frame, with vertices and colours that stay where the picture does.

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// frameBar is a progress bar for frames; total is -1 where nobody knows.
func frameBar(e *env, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(e.stderr),
		progressbar.OptionSetDescription("frames"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("frames"),
		progressbar.OptionThrottle(80*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
		progressbar.OptionUseANSICodes(true))
}

// video converts a clip.
func (c *lowpolyCmd) video(e *env) (err error) {
	in, err := c.openClip(e)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(in.frames)
	defer stop()
	first, err, ok := next()
	if err != nil {
		return err
	}
	if !ok {
		return bad(c.Video, "no frames")
	}
	out, err := c.openSink(e, in)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, out.close(false))
		}
	}()
	conn, err := c.connect(e, first)
	if err != nil {
		return err
	}
	n, start, backend := 0, time.Now(), ""
	vertices := c.Points // the fewest of a frame
	err = c.exchange(e, conn, in.count, first, next, out, func(res *polyscanv1.ConvertResponse) {
		n, backend = n+1, res.GetBackend()
		vertices = min(vertices, int(res.GetVertices()))
	})
	if conn.end(&err); err != nil {
		return err
	}
	closed = true
	if err := out.close(true); err != nil {
		return err
	}
	took := time.Since(start)
	c.warnOfFewer(e, c.Video, vertices)
	what := plural(n, "frame", "frames")
	if kind := kindOfOutput(c.Output); kind == toGIF || kind == toVideo {
		what += fmt.Sprintf(" at %.4g a second", in.playsAt())
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s, made in %s (%s frames a second) by %s\n", c.Output, what, pretty(took),
		shortly(float64(n)/took.Seconds()), backend)
	return err
}

// exchange sends the frames, and hands the pictures on.
func (c *lowpolyCmd) exchange(
	e *env, conn *connection, count int, first *frame, next func() (*frame, error, bool), out sink,
	done func(*polyscanv1.ConvertResponse),
) error {
	var bar *progressbar.ProgressBar
	if e.live && !c.Quiet {
		bar = frameBar(e, count)
		defer func() { _ = bar.Clear() }() // nothing depends on it
	}
	req := c.request(first)
	open := &polyscanv1.ConvertFramesOpen{WorkClass: req.WorkClass, Options: req.Options, Encoding: out.encoding()}
	open.Options.Strength, open.Options.Hold = proto.Uint32(uint32(c.Strength)), proto.Uint32(uint32(c.Hold))
	var names sync.Map // of frames
	frames := func(yield func(*polyscanv1.Frame, error) bool) {
		for f, err, ok := first, error(nil), true; ok; f, err, ok = next() {
			if err != nil {
				yield(nil, err)
				return
			}
			m := f.message()
			names.Store(m, f.name)
			if !yield(m, nil) {
				return
			}
		}
	}
	for a, err := range conn.ConvertFrames(conn.ctx, open, frames, clients.StreamOptions{}) {
		if err != nil {
			return conn.fail(err, c.Video, nil)
		}
		name, _ := names.LoadAndDelete(a.Frame)
		if a.Err != nil {
			return conn.fail(a.Err, name.(string), nil)
		}
		if err := out.add(a.Result.GetPicture()); err != nil {
			return err
		}
		done(a.Result)
		if bar != nil {
			_ = bar.Add(1)
		}
	}
	return nil
}
