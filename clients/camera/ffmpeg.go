package main

// What ffmpeg reads: video files, V4L2 devices and RTSP. It is a process of its own, whose frames come raw over a pipe.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
)

// ffmpeg is a process, again and again where the source is live.
type ffmpeg struct {
	*feed
	input string
	args  []string               // before the input
	each  []string               // options by which each frame comes once, whatever its time is
	live  bool                   // its end is a loss
	wrong atomic.Pointer[string] // an error that it met while it decoded: pictures behind it are damaged
}

// Bounds of a process: the time in which a source says what it is, and in which a live one has a frame; what is kept of
// what it says, and the lines of it that are passed on; and how long it may take to end when it is killed.
const (
	probeTime   = 15 * time.Second
	frameTime   = 10 * time.Second
	saidBytes   = 64 << 10
	saidLines   = 20
	killedIn    = 2 * time.Second
	longestLine = 500
)

// rawFormats are ffmpeg's names of the formats that are taken.
var rawFormats = map[gvsp.PixelFormat]string{
	gvsp.Mono8: "gray", gvsp.Mono10: "gray10le", gvsp.Mono12: "gray12le", gvsp.Mono14: "gray14le", gvsp.Mono16: "gray16le",
	0x01080009: "bayer_rggb8", 0x01080008: "bayer_grbg8", 0x0108000a: "bayer_gbrg8", 0x0108000b: "bayer_bggr8",
	gvsp.RGB8: "rgb24", gvsp.BGR8: "bgr24", gvsp.RGBa8: "rgba",
}

// withoutFPSMode are the versions of ffmpeg that have another option for it.
var withoutFPSMode = regexp.MustCompile(`^n?([2-4]|5\.0)\b`)

// formatOf is what a source's format is converted to where nobody says another.
func formatOf(pixFmt string) gvsp.PixelFormat {
	for f, name := range rawFormats {
		if pixFmt == name || strings.HasPrefix(name, "gray") && pixFmt == strings.TrimSuffix(name, "le")+"be" {
			return f
		}
	}
	return gvsp.RGB8
}

// kept is a writer that keeps the last of what is written.
type kept struct{ text []byte }

func (k *kept) Write(b []byte) (int, error) {
	k.text = append(k.text, b...)
	k.text = k.text[max(0, len(k.text)-saidBytes):]
	return len(b), nil
}

// lastLine is what a process said last.
func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	line := lines[len(lines)-1]
	return cli.OneLine(string(line[:min(len(line), longestLine)]))
}

// died says how a process ended.
func died(cmd *exec.Cmd, err error, said []byte) error {
	if errors.Is(err, exec.ErrNotFound) {
		return usage("%s isn't installed: video files, V4L2 and RTSP need ffmpeg", cmd.Args[0])
	}
	what := err.Error()
	if cmd.ProcessState != nil {
		what = cmd.ProcessState.String()
	}
	if line := lastLine(said); line != "" {
		what += ": " + line
	}
	return fmt.Errorf("%s: %s", cmd.Args[0], what)
}

// open asks ffprobe what the source is.
func (f *ffmpeg) open(ctx context.Context) (about, error) {
	codec, err := f.probe(ctx)
	if err != nil && !f.live {
		return about{}, usage("%v", err)
	}
	if err != nil {
		return about{}, err
	}
	return about{name: f.name, title: fmt.Sprintf("%s: %s, %d x %d %v", strings.TrimPrefix(f.input, "file:"), codec, f.geo.Width,
		f.geo.Height, f.geo.Format), geo: f.geo}, nil
}

func (f *ffmpeg) probe(ctx context.Context) (codec string, err error) {
	short, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(short, "ffprobe", append(append([]string{"-v", "error"}, f.args...), "-select_streams",
		"v:0", "-show_entries", "stream=codec_name,width,height,pix_fmt:program_version=version", "-of", "json", f.input)...)
	cmd.WaitDelay = killedIn
	var out, said kept
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if short.Err() != nil && ctx.Err() == nil {
			return "", fmt.Errorf("%s: it didn't say what it is within %v", f.input, probeTime)
		}
		return "", died(cmd, err, said.text)
	}
	var found struct {
		Program struct {
			Version string `json:"version"`
		} `json:"program_version"`
		Streams []struct {
			Codec  string `json:"codec_name"`
			Width  int    `json:"width"`
			Height int    `json:"height"`
			PixFmt string `json:"pix_fmt"`
		} `json:"streams"`
	}
	if err := json.Unmarshal(out.text, &found); err != nil {
		return "", fmt.Errorf("ffprobe: %w", err)
	}
	if len(found.Streams) == 0 {
		return "", fmt.Errorf("%s: there is no video in it", f.input)
	}
	s := found.Streams[0]
	g := gvsp.Geometry{Format: cmp.Or(f.want.Format, formatOf(s.PixFmt)), Width: s.Width, Height: s.Height,
		Unit: gvsp.MinPacket}
	if err := errors.Join(g.Check(), f.held(g)); err != nil {
		return "", usage("%s: %v", f.input, err)
	}
	if rawFormats[g.Format] == "" {
		return "", usage("%s: ffmpeg has no %v: pipe it, or see --layout", f.input, g.Format)
	}
	if f.geo.Width != 0 && f.geo != g {
		return "", usage("%s is %d x %d %v now, not %d x %d %v", f.input, g.Width, g.Height, g.Format, f.geo.Width,
			f.geo.Height, f.geo.Format)
	}
	f.geo, f.each = g, []string{"-fps_mode", "passthrough"}
	if withoutFPSMode.MatchString(found.Program.Version) {
		f.each = []string{"-vsync", "0"}
	}
	return cli.Printable(s.Codec), nil
}

func (f *ffmpeg) close() error { return nil }

func (f *ffmpeg) keep(ctx context.Context, to *sink) error {
	for {
		err := f.play(ctx, to)
		if ctx.Err() != nil || !f.live || f.longest == 0 {
			return err
		}
		if err == nil {
			err = errors.New("ffmpeg: the stream ended")
		}
		f.presence.lost(time.Now(), err)
		f.notify("%v", err)
		f.jump(to, err.Error())
		if err := f.retry(ctx, func() error {
			_, err := f.probe(ctx)
			return err
		}); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// play runs one process to its end, which is no error where it is that of a file.
func (f *ffmpeg) play(ctx context.Context, to *sink) error {
	run, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	f.wrong.Store(nil)
	cmd := exec.CommandContext(run, "ffmpeg", slices.Concat([]string{"-nostdin", "-hide_banner", "-loglevel",
		"level+warning", "-noautorotate"}, f.args, []string{"-i", f.input, "-map", "0:v:0", "-an", "-sn", "-dn"}, f.each,
		[]string{"-f", "rawvideo", "-pix_fmt", rawFormats[f.geo.Format], "pipe:1"})...)
	cmd.WaitDelay = killedIn
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return died(cmd, err, nil)
	}
	f.connected(true)
	defer f.connected(false)
	var said kept
	var reading sync.WaitGroup
	reading.Go(func() { f.listen(errs, &said) })
	silent := fmt.Errorf("ffmpeg: %s: no frame came for %v", f.input, frameTime)
	timer := time.AfterFunc(frameTime, func() { kill(silent) })
	if !f.live {
		timer.Stop()
	}
	readErr := f.read(run, to, out, func() string {
		wrong := f.wrong.Load()
		if f.live {
			timer.Reset(frameTime)
			f.wrong.CompareAndSwap(wrong, nil) // a camera's pictures come whole again, and those of a file may not
		}
		if wrong != nil {
			return *wrong
		}
		return ""
	})
	timer.Stop()
	if !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
		kill(readErr) // or it would wait for somebody who reads
	}
	reading.Wait()
	err = cmd.Wait()
	switch cause := context.Cause(run); {
	case ctx.Err() != nil:
		return nil
	case errors.Is(cause, silent):
		return silent
	case err != nil:
		return died(cmd, err, said.text)
	case f.wrong.Load() != nil: // perhaps behind the last picture
		return fmt.Errorf("%s: damaged: %s", f.input, *f.wrong.Load())
	case errors.Is(readErr, io.ErrUnexpectedEOF):
		return fmt.Errorf("ffmpeg: %s: it ended within a frame", f.input)
	}
	return nil
}

// listen passes on what a process says, as far as that is a few lines.
func (f *ffmpeg) listen(r io.Reader, said *kept) {
	lines := 0
	for in := bufio.NewReaderSize(r, 4096); ; {
		line, cut, err := in.ReadLine()
		if err != nil {
			break
		}
		if bytes.Contains(line, []byte("non monotonically increasing dts to muxer")) {
			continue // of frames at one time, which raw ones don't have
		}
		said.Write(append(bytes.Clone(line), '\n'))
		if bytes.Contains(line, []byte("[error] ")) || bytes.Contains(line, []byte("[fatal] ")) {
			text := "ffmpeg: " + lastLine(line)
			f.wrong.CompareAndSwap(nil, &text)
		}
		if lines++; lines <= saidLines {
			f.notify("ffmpeg: %s", line[:min(len(line), longestLine)])
		}
		for cut && err == nil { // the rest of a long one
			_, cut, err = in.ReadLine()
		}
	}
	if lines > saidLines {
		f.notify("ffmpeg: %d more lines", lines-saidLines)
	}
}
