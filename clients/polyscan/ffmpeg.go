package main

// Video files, through an ffmpeg process.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// ffmpeg is a process, and the end of what it says.
type ffmpeg struct {
	*exec.Cmd
	name   string // of the file that it reads or writes
	stderr tail
}

// newFFmpeg prepares a process, that ends with ctx.
func newFFmpeg(ctx context.Context, name string, args ...string) (*ffmpeg, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, usage("%s: video files need ffmpeg, which is not installed, or not in PATH; folders of frames "+
			"and .gif files do without", cli.Printable(name))
	}
	p := &ffmpeg{Cmd: exec.CommandContext(ctx, path, args...), name: name}
	p.Stderr = &p.stderr
	return p, nil
}

// failed is what became of the process, in one line.
func (p *ffmpeg) failed(err error) error {
	says := p.stderr.last()
	if says == "" {
		says = "it says nothing"
	}
	return bad(p.name, "ffmpeg: %v: %s", err, cli.OneLine(says))
}

// tail keeps the last bytes of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.b = append(t.b, p...)
	t.b = t.b[max(len(t.b)-most, 0):]
	return len(p), nil
}

// last is the last line that isn't empty.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// readVideo reads the pictures of a file. They come as PPM images one behind the other: raw pixels, and in front of
// them their size, which is that after turning where the file says so.
func readVideo(ctx context.Context, name string) (*clip, error) {
	in, err := filepath.Abs(name) // so that it is no option, and no address
	if err != nil {
		return nil, bad(name, "%v", reason(err))
	}
	if err := cli.CutAVI(name); err != nil {
		return nil, &inputError{err.Error()}
	}
	probe, err := newFFmpeg(ctx, name, "-hide_banner", "-nostdin", "-i", "file:"+in)
	if err != nil {
		return nil, err
	}
	err = probe.Run() // an error in any case: there is no output
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	rate, frames, ok := describe(string(probe.stderr.b))
	switch {
	case !ok && strings.Contains(string(probe.stderr.b), "Stream #"):
		return nil, bad(name, "has no pictures")
	case !ok:
		return nil, probe.failed(err)
	}
	c := &clip{count: frames, rate: rate}
	c.frames = func(yield func(*frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// What it says at this level is that pictures are damaged, and it would go on with what it makes of them.
		p, err := newFFmpeg(ctx, name, "-v", "error", "-xerror", "-nostdin", "-i", "file:"+in, "-map", "0:v:0", "-r",
			rate.String(), "-pix_fmt", "rgb24",
			"-c:v", "ppm", "-f", "image2pipe", "-")
		if err != nil {
			yield(nil, err)
			return
		}
		out, err := p.StdoutPipe()
		if err == nil {
			err = p.Start()
		}
		if err != nil {
			yield(nil, p.failed(err))
			return
		}
		n := 0
		more := true
		r := bufio.NewReaderSize(out, 1<<16)
		for more && err == nil {
			var f *frame
			if f, err = readPPM(r); err == nil {
				f.name = fmt.Sprintf("%s, frame %d", name, n)
				more = yield(f, nil)
				n++
			}
		}
		if !more || !errors.Is(err, io.EOF) {
			cancel() // it may have more to say, to nobody
		}
		ended := p.Wait()
		switch {
		case !more:
		case ctx.Err() != nil && errors.Is(err, io.EOF):
			yield(nil, context.Cause(ctx))
		case !errors.Is(err, io.EOF):
			if ended != nil && p.stderr.last() != "" {
				err = p.failed(ended)
			} else {
				err = bad(name, "frame %d from ffmpeg: %v", n, err)
			}
			yield(nil, err)
		case ended != nil:
			yield(nil, p.failed(ended))
		case p.stderr.last() != "":
			yield(nil, p.failed(errors.New("the video is damaged")))
		case n == 0:
			yield(nil, bad(name, "has no pictures"))
		}
	}
	return c, nil
}

// What ffmpeg writes about a file: its length, and a line for each stream.
var (
	durationLine = regexp.MustCompile(`Duration: (\d+):(\d\d):(\d\d\.\d+)`)
	videoLine    = regexp.MustCompile(`Stream #\S*.*: Video: .*`)
	rateOfVideo  = regexp.MustCompile(`, ([0-9.]+)(k?) (?:fps|tbr)`)
)

// describe reads the rate of a video, and about how many frames it has; -1 where that isn't said.
func describe(says string) (rate fraction, frames int, ok bool) {
	line := videoLine.FindString(says)
	if line == "" {
		return fraction{}, 0, false
	}
	rate, frames = defaultRate, -1
	if m := rateOfVideo.FindStringSubmatch(line); m != nil {
		v, err := strconv.ParseFloat(m[1], 64)
		if m[2] == "k" {
			v *= 1000
		}
		if err == nil && v > 0 && v <= 1000 {
			rate = rateOf(v)
		}
	}
	if m := durationLine.FindStringSubmatch(says); m != nil {
		h, _ := strconv.Atoi(m[1])
		min, _ := strconv.Atoi(m[2])
		s, _ := strconv.ParseFloat(m[3], 64)
		if n := (float64(h*3600+min*60) + s) * float64(rate.num) / float64(rate.den); n >= 1 && n < 1<<31 {
			frames = int(n + 0.5)
		}
	}
	return rate, frames, true
}

// rateOf is a rate as it was before ffmpeg rounded it: 29.97 is 30000/1001.
func rateOf(v float64) fraction {
	whole := int(v + 0.99)
	if d := v - float64(whole)*1000/1001; d > -0.006 && d < 0.006 && v != float64(int(v)) {
		return fraction{whole * 1000, 1001}
	}
	return fraction{int(v*1000 + 0.5), 1000}
}

// readPPM reads an image of 8 bits a sample. io.EOF means that there is none.
func readPPM(r *bufio.Reader) (*frame, error) {
	var numbers [3]int
	magic := make([]byte, 2)
	if _, err := io.ReadFull(r, magic); err != nil {
		return nil, err
	}
	if string(magic) != "P6" {
		return nil, fmt.Errorf("starts with %q, not with P6", magic)
	}
	for i := range numbers {
		var word []byte
		for len(word) < 10 {
			b, err := r.ReadByte()
			if err != nil {
				return nil, io.ErrUnexpectedEOF
			}
			if b == ' ' || b == '\n' || b == '\t' || b == '\r' {
				if len(word) > 0 {
					break
				}
				continue
			}
			word = append(word, b)
		}
		n, err := strconv.Atoi(string(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("has %q for a number", word)
		}
		numbers[i] = n
	}
	w, h := numbers[0], numbers[1]
	if numbers[2] != 255 || int64(w)*int64(h) > maxFile/3 {
		return nil, fmt.Errorf("is of %dx%d pixels up to %d", w, h, numbers[2])
	}
	data := make([]byte, 3*w*h)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return &frame{data: data, raw: &clients.Raw{Width: w, Height: h, Format: clients.RGB8}}, nil
}

// videoSink has ffmpeg write a file, which takes the name's place when it is complete.
type videoSink struct {
	ctx    context.Context
	name   string
	repeat func(frame int) int // how often a frame is shown
	rate   fraction

	process *ffmpeg
	in      io.WriteCloser
	temp    string
	size    image.Point
	n       int
}

func newVideoSink(ctx context.Context, name string, delays []int, rate fraction) (*videoSink, error) {
	if _, err := newFFmpeg(ctx, name); err != nil {
		return nil, err
	}
	s := &videoSink{ctx: ctx, name: name, rate: rate, repeat: func(int) int { return 1 }}
	if len(delays) > 0 {
		// Frames of a GIF have lengths of their own: so many of the longest that all are multiples of.
		at := func(i int) int {
			if d := delays[min(i, len(delays)-1)]; d > 0 {
				return d
			}
			return 10 // as viewers take it
		}
		unit := 0
		for i := range delays {
			for d := at(i); d != 0; {
				unit, d = d, unit%d
			}
		}
		s.rate, s.repeat = fraction{100, unit}, func(i int) int { return at(i) / unit }
	}
	return s, nil
}

func (*videoSink) encoding() polyscanv1.Encoding { return polyscanv1.Encoding_ENCODING_RAW }

// start starts the process, when the size is known.
func (s *videoSink) start() (err error) {
	f, err := os.CreateTemp(filepath.Dir(s.name), ".polyscan-*"+filepath.Ext(s.name))
	if err != nil {
		return bad(s.name, "%v", reason(err))
	}
	f.Close()
	if s.temp, err = filepath.Abs(f.Name()); err != nil {
		return bad(s.name, "%v", reason(err))
	}
	// Most players want sides that are even, and chroma at half the resolution.
	s.process, err = newFFmpeg(s.ctx, s.name, "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s",
		fmt.Sprintf("%dx%d", s.size.X, s.size.Y),
		"-r", s.rate.String(), "-i", "-", "-an", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "file:"+
			s.temp)
	if err != nil {
		return err
	}
	if s.in, err = s.process.StdinPipe(); err == nil {
		err = s.process.Start()
	}
	if err != nil {
		s.in = nil
		return s.process.failed(err)
	}
	return nil
}

func (s *videoSink) add(f *polyscanv1.Frame) error {
	im, err := picture(f)
	if err != nil {
		return err
	}
	if s.n == 0 {
		s.size = im.Bounds().Size()
		if err := s.start(); err != nil {
			return err
		}
	} else if size := im.Bounds().Size(); size != s.size {
		return errSize(s.name, s.size, size)
	}
	rgb := make([]byte, 0, 3*s.size.X*s.size.Y)
	for i := 0; i < len(im.Pix); i += 4 { // on black, where something is transparent
		a := int(im.Pix[i+3])
		for _, v := range im.Pix[i : i+3] {
			rgb = append(rgb, byte((int(v)*a+127)/255))
		}
	}
	for range s.repeat(s.n) {
		if _, err := s.in.Write(rgb); err != nil { // it has ended
			s.in.Close()
			s.in = nil
			if ended := s.process.Wait(); ended != nil {
				err = ended
			}
			return s.failed(err)
		}
	}
	s.n++
	return nil
}

func (s *videoSink) failed(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.process.failed(err)
}

func (s *videoSink) close(well bool) error {
	if s.temp == "" {
		return nil
	}
	defer os.Remove(s.temp) // nothing, when it has its name
	if s.in == nil {
		return nil
	}
	if !well && s.process.Process != nil {
		_ = s.process.Process.Kill()
	}
	s.in.Close()
	if err := s.process.Wait(); err != nil && well {
		return s.failed(err)
	}
	if !well {
		return nil
	}
	if st, err := os.Stat(s.temp); err != nil || st.Size() == 0 {
		return s.process.failed(errors.New("it wrote nothing"))
	}
	err := os.Chmod(s.temp, 0o644)
	if err == nil {
		err = os.Rename(s.temp, s.name)
	}
	if err != nil {
		return bad(s.name, "%v", reason(err))
	}
	return nil
}
