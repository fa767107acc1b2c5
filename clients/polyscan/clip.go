package main

// Clips: the frames of a video on their way in, and pictures on their way out, by what the names say: folders, GIFs,
// and files that ffmpeg reads and writes.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// clip is the frames of a video.
type clip struct {
	count  int // -1: nobody knows
	frames iter.Seq2[*frame, error]
	// delays of the frames in hundredths of a second and loops, of a GIF; or else rate, frames a second as a fraction,
	// where it is known.
	delays []int
	loops  int
	rate   fraction
}

// playsAt is how many frames a second it shows, over all of it.
func (c *clip) playsAt() float64 {
	if c.delays == nil {
		return float64(c.rate.num) / float64(c.rate.den)
	}
	total := 0
	for _, d := range c.delays {
		total += d
	}
	return 100 * float64(len(c.delays)) / float64(max(total, 1)) // some files say 0 of all
}

// fraction is num/den, unset where that is 0/0.
type fraction struct{ num, den int }

func (f fraction) String() string { return fmt.Sprintf("%d/%d", f.num, f.den) }

func (f fraction) set() bool { return f.num > 0 && f.den > 0 }

// defaultRate is that of folders.
var defaultRate = fraction{25, 1}

// delay is how long a GIF shows a frame, in hundredths of a second: so that the frames up to each are as long as they
// should be.
func (f fraction) delay(frame int) int {
	at := func(i int) int { return (200*i*f.den + f.num) / (2 * f.num) }
	return at(frame+1) - at(frame)
}

// Kinds of files that pictures go to.
const (
	toFolder = iota
	toGIF
	toVideo
)

// videoKinds are the endings of files that ffmpeg is asked to write.
var videoKinds = []string{".mp4", ".m4v", ".mkv", ".webm", ".mov", ".avi"}

func kindOfOutput(name string) int {
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case ext == ".gif":
		return toGIF
	case slices.Contains(videoKinds, ext):
		return toVideo
	}
	return toFolder
}

// sink takes pictures in order.
type sink interface {
	// encoding is what the server is to send.
	encoding() polyscanv1.Encoding
	add(*polyscanv1.Frame) error
	// close ends the output, well where all pictures came; else nothing is left of a file.
	close(well bool) error
}

// openClip opens a folder of frames, in natural order, an animated GIF, or another file that ffmpeg can read.
func (c *lowpolyCmd) openClip(e *env) (*clip, error) {
	st, err := os.Stat(c.Video)
	if err != nil {
		return nil, bad(c.Video, "%v", reason(err))
	}
	if !st.IsDir() {
		if c.Raw.set() || c.Format != "" {
			return nil, usage("--raw and --format are for frames in a folder; %s says what it holds",
				cli.Printable(c.Video))
		}
		if !strings.EqualFold(filepath.Ext(c.Video), ".gif") {
			return readVideo(e.ctx, c.Video)
		}
		data, err := readInput(e, c.Video, maxFile)
		if err != nil {
			return nil, err
		}
		return gifClip(c.Video, data)
	}
	names, err := listFrames(e, c.Video, c.Raw.set())
	if err != nil {
		return nil, err
	}
	return &clip{count: len(names), frames: func(yield func(*frame, error) bool) {
		for _, name := range names {
			if f, err := c.load(e, filepath.Join(c.Video, name)); !yield(f, err) || err != nil {
				return
			}
		}
	}}, nil
}

// openSink makes what pictures of a clip go to.
func (c *lowpolyCmd) openSink(e *env, in *clip) (sink, error) {
	rate := in.rate
	if c.Rate > 0 {
		rate, in.delays = fraction{int(c.Rate*1000 + 0.5), 1000}, nil
	} else if !rate.set() {
		rate = defaultRate
	}
	in.rate = rate
	switch kindOfOutput(c.Output) {
	case toGIF:
		return &gifSink{name: c.Output, delays: in.delays, loops: in.loops, rate: rate}, nil
	case toVideo:
		return newVideoSink(e.ctx, c.Output, in.delays, rate)
	}
	made, err := c.outputFolder()
	return &folderSink{e: e, dir: c.Output, made: made}, err
}

// outputFolder makes the folder that frames go to, unless it is there.
func (c *lowpolyCmd) outputFolder() (made bool, err error) {
	err = os.Mkdir(c.Output, 0o777)
	if made = err == nil; !made && !errors.Is(err, os.ErrExist) {
		return false, bad(c.Output, "%v", reason(err))
	}
	switch out, err := os.Stat(c.Output); {
	case err != nil:
		return made, bad(c.Output, "%v", reason(err))
	case !out.IsDir():
		return made, bad(c.Output, "is no folder")
	}
	return made, nil
}

// folderSink writes PNG files.
type folderSink struct {
	e   *env
	dir string

	made bool // the folder wasn't there
	n    int
}

func (*folderSink) encoding() polyscanv1.Encoding { return polyscanv1.Encoding_ENCODING_PNG }

func (s *folderSink) add(f *polyscanv1.Frame) error {
	err := writeFile(s.file(s.n+1), func(w io.Writer) error {
		_, err := w.Write(f.GetData())
		return err
	})
	if err == nil {
		s.n++
	}
	return err
}

func (s *folderSink) file(n int) string {
	return filepath.Join(s.dir, fmt.Sprintf("frame_%05d.png", n))
}

// close removes the frames of a video that ended early, which would be taken for a whole one, and warns of frames of a
// longer video, which would be taken for the end of this one.
func (s *folderSink) close(well bool) (err error) {
	old := 0
	for ; ; old++ {
		if _, err := os.Lstat(s.file(s.n + old + 1)); err != nil {
			break
		}
	}
	behind := "behind those of this one"
	if !well {
		for ; s.n > 0; s.n-- {
			err = errors.Join(err, os.Remove(s.file(s.n)))
		}
		if behind = "left, and none of this one, which ended early"; s.made {
			_ = os.Remove(s.dir) // unless somebody else has put something there
		}
	}
	if old > 0 {
		s.e.warn("%s: %s of another run %s", cli.Printable(s.dir), plural(old, "frame", "frames"), behind)
	}
	return err
}

// picture is the raw pixels of an answer with 8 bits a channel.
func picture(f *polyscanv1.Frame) (*image.NRGBA, error) {
	l, data := f.GetLayout(), f.GetData()
	w, h := int(l.GetWidth()), int(l.GetHeight())
	var size int
	var pixel func(p []byte) [4]byte
	switch l.GetPixelFormat() {
	case polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY8:
		size, pixel = 1, func(p []byte) [4]byte { return [4]byte{p[0], p[0], p[0], 255} }
	case polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY16LE:
		shift := 8
		if b := l.GetSignificantBits(); b != 0 {
			shift = int(b) - 8
		}
		size, pixel = 2, func(p []byte) [4]byte {
			v := byte(min(int(binary.LittleEndian.Uint16(p))>>shift, 255))
			return [4]byte{v, v, v, 255}
		}
	case polyscanv1.PixelFormat_PIXEL_FORMAT_RGB8:
		size, pixel = 3, func(p []byte) [4]byte { return [4]byte{p[0], p[1], p[2], 255} }
	case polyscanv1.PixelFormat_PIXEL_FORMAT_BGR8:
		size, pixel = 3, func(p []byte) [4]byte { return [4]byte{p[2], p[1], p[0], 255} }
	case polyscanv1.PixelFormat_PIXEL_FORMAT_RGBA8:
		size, pixel = 4, func(p []byte) [4]byte { return [4]byte(p) }
	}
	if size == 0 || len(data) != w*h*size {
		return nil, fmt.Errorf("the server's picture has %d bytes for %dx%d pixels in %s", len(data), w, h,
			cli.FormatName(l.GetPixelFormat()))
	}
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		p := pixel(data[i*size : (i+1)*size])
		copy(out.Pix[4*i:], p[:])
	}
	return out, nil
}

// errSize is of a frame that a GIF or a video can't take.
func errSize(name string, want, got image.Point) error {
	return bad(name, "a frame of %dx%d follows others of %dx%d: only a folder can hold both", got.X, got.Y, want.X,
		want.Y)
}
