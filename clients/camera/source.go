package main

// Where blocks come from: a camera, a folder, a pipe, or what ffmpeg reads.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/digits"
)

// source is where blocks come from.
type source interface {
	// open finds it, and waits until it says what its blocks are.
	open(ctx context.Context) (about, error)
	// keep hands blocks over, and finds the source again whenever it is lost. It returns nil when the context or the
	// source has ended, and closes what open has opened.
	keep(ctx context.Context, to *sink) error
	// stats are those of all connections, of which there is one now, and were so many.
	stats() (st gvsp.Stats, up bool, connections int)
	// close is for a source that isn't kept.
	close() error
}

// about is what a source is.
type about struct {
	name, title string
	geo         gvsp.Geometry // Unit is of cameras alone
	from        string        // for those who watch; the title where it is empty
}

// source is what the argument of the command means.
func (s *stream) source() (source, error) {
	c, name := s.streamCmd, s.Source
	lay, _ := parseLayout(c.Layout) // it was checked
	f := &feed{want: lay, layout: c.Layout, longest: c.Reconnect, notify: s.notify,
		presence: &s.presence}
	scheme, _, isURL := strings.Cut(name, "://")
	if name != "-" && !isURL && !strings.ContainsRune(name, '/') {
		if c.Layout != "" {
			return nil, usage("--layout: a camera says itself what its pixels are")
		}
		if _, err := os.Stat(name); err == nil {
			s.notify("%s is looked for as a camera's name; the file of that name is ./%s", name, name)
		}
		return &gige{streamCmd: c, e: s.e, notify: s.notify, presence: &s.presence}, nil
	}
	for flag, given := range map[string]bool{"--set": len(c.Set) > 0, "--packet-size": c.PacketSize > 0,
		"--no-resend": c.NoResend, "--socket-buffer": c.SocketBuffer != socketBuffer, "--silence": c.Silence != silence} {
		if given {
			return nil, usage("%s: only cameras have it, and %s is none", flag, name)
		}
	}
	f.name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	if isURL {
		if scheme != "rtsp" && scheme != "rtsps" {
			return nil, usage("%s: want rtsp:// or rtsps://", name)
		}
		return &ffmpeg{feed: f, input: name, live: true,
				args: []string{"-protocol_whitelist", "rtsp,rtsps,rtp,srtp,tcp,udp,tls,crypto", "-rtsp_transport", "tcp"}},
			nil
	}
	if name == "-" {
		f.name = "stdin"
		if c.Layout == "" {
			return nil, usage("%s: --layout has to say what its pixels are", name)
		}
		return &pipe{feed: f, stdin: s.e.stdin}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, usage("%s: %v", name, reason(err))
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return &folder{feed: f, path: name, watch: s.watch}, nil
	case mode&fs.ModeNamedPipe != 0:
		if c.Layout == "" {
			return nil, usage("%s: --layout has to say what its pixels are", name)
		}
		return &pipe{feed: f, path: name}, nil
	case mode&fs.ModeCharDevice != 0:
		args := []string{"-f", "v4l2"}
		if lay.Width > 0 {
			args = append(args, "-video_size", fmt.Sprintf("%dx%d", lay.Width, lay.Height))
		}
		return &ffmpeg{feed: f, input: name, live: true, args: args}, nil
	case mode.IsRegular():
		if isPicture(name) {
			return nil, usage("%s: a picture is no stream: name its folder, or see polyscan reduce", name)
		}
		if err := cli.CutAVI(name); err != nil {
			return nil, usage("%v", err)
		}
		return &ffmpeg{feed: f, input: "file:" + name, args: []string{"-protocol_whitelist", "file"}}, nil
	}
	return nil, usage("%s: want a folder, a pipe, a video device or a file", name)
}

// reason is an error of a file without its name and what was tried.
func reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// parseLayout reads what pixels are, such as 640x480:Mono8; of nothing, it is nothing.
func parseLayout(text string) (g gvsp.Geometry, err error) {
	if text == "" {
		return g, nil
	}
	size, format, ok := strings.Cut(text, ":")
	w, h, isSize := strings.Cut(size, "x")
	var errs [3]error
	g.Unit = gvsp.MinPacket
	g.Width, errs[0] = strconv.Atoi(w)
	g.Height, errs[1] = strconv.Atoi(h)
	g.Format, errs[2] = gvsp.ParseFormat(format)
	if !ok || !isSize || errs[0] != nil || errs[1] != nil || !digits.Whole(w) || !digits.Whole(h) {
		return g, usage("--layout %q: want WIDTHxHEIGHT:FORMAT, such as 640x480:Mono8", text)
	}
	err = errs[2]
	if err == nil {
		err = g.Check()
	}
	if err != nil {
		return g, usage("--layout %q: %v", text, err)
	}
	return g, nil
}

// feed is what sources that can wait for the server have in common. Nothing is lost for want of room: what writes to a
// pipe waits, and so does ffmpeg.
type feed struct {
	name    string
	want    gvsp.Geometry // by --layout; no width: any
	layout  string
	longest time.Duration // between attempts
	notify  func(format string, args ...any)

	presence *presence

	mu    sync.Mutex
	geo   gvsp.Geometry
	st    gvsp.Stats
	up    bool
	links int
	next  uint64 // number of the next block
}

// stats implements source.
func (f *feed) stats() (st gvsp.Stats, up bool, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st, f.up, f.links
}

func (f *feed) connected(up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up = up; up {
		f.links++
	}
}

// held is what a layout has to be by --layout, if that says anything.
func (f *feed) held(g gvsp.Geometry) error {
	if w := f.want; w.Width > 0 && (g.Width != w.Width || g.Height != w.Height || g.Format != w.Format) {
		return usage("%s has %d x %d %v: --layout wants %s", f.name, g.Width, g.Height, g.Format, f.layout)
	}
	return nil
}

// jump says that an unknown number of blocks lies between.
func (f *feed) jump(to *sink, why string) {
	f.mu.Lock()
	f.st.Jumps++
	f.mu.Unlock()
	to.Jump(why)
}

// block hands one over: what fill writes, of which lines from the end may lack. A block of which nothing came has
// the reason alone. data is kept with the part that begins in it.
func (f *feed) block(ctx context.Context, to *sink, data []gvsp.Datum, fill func(pixels []byte) (lines int,
	reason string)) error {
	pixels, err := to.room(ctx)
	if err != nil {
		return nil
	}
	g := f.geo
	b := &gvsp.Block{Number: f.next, ID: f.next + 1, Pixels: pixels, Lines: g.Height, First: time.Now(), Data: data}
	f.next++
	lines := 0
	if pixels == nil {
		b.Reason = "no room: the server, or the way to it, is slower"
	} else {
		lines, b.Reason = fill(pixels[:g.Bytes()])
	}
	b.Last = time.Now()
	f.mu.Lock()
	f.st.Bytes += uint64(lines * g.RowBytes())
	f.st.LostLines += uint64(g.Height - lines)
	switch {
	case lines == g.Height:
		f.st.Whole++
	case lines == 0:
		f.st.Lost++
	default:
		f.st.Incomplete++
	}
	f.mu.Unlock()
	if lines < g.Height {
		b.Missing = []gvsp.Span{{First: lines, End: g.Height}}
	}
	to.Block(b)
	return nil
}

// read hands over the blocks that a reader has, until it ends; io.EOF is an end between two blocks. whole, which may be
// nil, is told of each block that came whole, and may say why nothing of it is to be relied on.
func (f *feed) read(ctx context.Context, to *sink, r io.Reader, whole func() (damage string)) (err error) {
	var first [1]byte
	for ctx.Err() == nil {
		// A block begins with its first byte: what waits for a pipe that is silent holds no memory of the server.
		if _, err := io.ReadFull(r, first[:]); err != nil {
			return err
		}
		err = nil
		if werr := f.block(ctx, to, nil, func(pixels []byte) (int, string) {
			pixels[0] = first[0]
			n, rerr := io.ReadFull(r, pixels[1:])
			if rerr == nil && whole != nil {
				if damage := whole(); damage != "" {
					return 0, damage
				}
			}
			if rerr == nil {
				return f.geo.Height, ""
			}
			err = rerr
			return (n + 1) / f.geo.RowBytes(), "it ended within a block"
		}); werr != nil {
			return werr
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// retry calls again what finds a source that was lost, until it is there, the context ends, or what it says stays so.
func (f *feed) retry(ctx context.Context, again func() error) error {
	wait := min(firstRetry, f.longest)
	for {
		err := again()
		if err == nil {
			f.presence.found()
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if in := (*inputError)(nil); errors.As(err, &in) {
			return err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, f.longest)
		case <-ctx.Done():
			return nil
		}
	}
}
