package main

// polyscan lowpoly --video: frame after frame, with vertices that stay where the picture does.

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/gif"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
)

// clip is the frames of a video.
type clip struct {
	count  int
	frames iter.Seq2[*frame, error]
}

// openClip reads a folder of frames in natural order, or an animated GIF.
func (c *lowpolyCmd) openClip(e *env) (*clip, error) {
	if strings.EqualFold(filepath.Ext(c.Video), ".gif") {
		if c.Raw.set() || c.Format != "" {
			return nil, usage("--raw and --format are for frames in a folder; %s says what it holds", printable(c.Video))
		}
		data, err := readInput(e, c.Video, maxFile)
		if err != nil {
			return nil, err
		}
		return gifClip(c.Video, data)
	}
	names, err := (&streamCmd{Dir: c.Video, frameFlags: c.frameFlags}).list()
	if err != nil {
		return nil, err
	}
	return &clip{len(names), func(yield func(*frame, error) bool) {
		for _, name := range names {
			if f, err := c.load(e, filepath.Join(c.Video, name)); !yield(f, err) || err != nil {
				return
			}
		}
	}}, nil
}

// maxGIFPixels bounds the canvas of a GIF before anything is allocated for it.
const maxGIFPixels = 1 << 26

// gifClip decodes an animated GIF. Frames are whole pictures, as a viewer shows them.
func gifClip(name string, data []byte) (*clip, error) {
	cfg, err := gif.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, bad(name, "is no GIF that can be read: %v", err)
	}
	if n := int64(cfg.Width) * int64(cfg.Height); n == 0 || n > maxGIFPixels {
		return nil, bad(name, "%dx%d pixels: must be 1 to %d", cfg.Width, cfg.Height, maxGIFPixels)
	}
	g, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil {
		return nil, bad(name, "is no GIF that can be read: %v", err)
	}
	raw := &clients.Raw{Width: cfg.Width, Height: cfg.Height, Format: clients.RGBA8}
	return &clip{len(g.Image), func(yield func(*frame, error) bool) {
		canvas := image.NewNRGBA(image.Rect(0, 0, cfg.Width, cfg.Height))
		for i, im := range g.Image {
			before := canvas.Pix
			if g.Disposal[i] == gif.DisposalPrevious {
				before = bytes.Clone(canvas.Pix)
			}
			draw.Draw(canvas, im.Bounds(), im, im.Bounds().Min, draw.Over)
			if !yield(&frame{name: fmt.Sprintf("%s, frame %d", name, i), data: bytes.Clone(canvas.Pix), raw: raw}, nil) {
				return
			}
			switch g.Disposal[i] {
			case gif.DisposalPrevious:
				canvas.Pix = before
			case gif.DisposalBackground:
				draw.Draw(canvas, im.Bounds(), image.Transparent, image.Point{}, draw.Src)
			}
		}
	}}, nil
}

// outputFolder makes the folder that frames go to, unless it is there.
func (c *lowpolyCmd) outputFolder() error {
	if err := os.Mkdir(c.Output, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return bad(c.Output, "%v", reason(err))
	}
	out, err := os.Stat(c.Output)
	if err != nil {
		return bad(c.Output, "%v", reason(err))
	}
	if !out.IsDir() {
		return bad(c.Output, "is no folder")
	}
	if in, err := os.Stat(c.Video); err == nil && os.SameFile(in, out) {
		return usage("--output %s: is the folder of the frames", printable(c.Output))
	}
	return nil
}

// frameBar is a progress bar for frames.
func frameBar(e *env, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(e.stderr), progressbar.OptionSetDescription("frames"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("frames"),
		progressbar.OptionThrottle(80*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth(),
		progressbar.OptionUseANSICodes(true))
}

// video converts frame after frame. The vertices of one are told to the next.
func (c *lowpolyCmd) video(e *env) (err error) {
	in, err := c.openClip(e)
	if err != nil {
		return err
	}
	if err := c.outputFolder(); err != nil {
		return err
	}
	var conn *connection
	defer func() {
		if conn != nil {
			conn.end(&err)
		}
	}()
	var bar *progressbar.ProgressBar
	if e.live && !c.Quiet {
		bar = frameBar(e, in.count)
		defer func() { _ = bar.Clear() }() // nothing depends on it
	}
	start, n, backend := time.Now(), 0, ""
	var previous []byte
	for f, err := range in.frames {
		if err != nil {
			return err
		}
		if conn == nil {
			if conn, err = c.connect(e, f); err != nil {
				return err
			}
		}
		req := c.request(f)
		req.Mesh, req.Options.Previous, req.Options.Strength = true, previous, proto.Uint32(uint32(c.Strength))
		res, err := conn.Convert(conn.ctx, req)
		if err != nil {
			return conn.fail(err, f.name, nil)
		}
		n++
		if err := writeFile(filepath.Join(c.Output, fmt.Sprintf("frame_%05d.png", n)), func(w io.Writer) error {
			_, err := w.Write(res.GetPicture().GetData())
			return err
		}); err != nil {
			return err
		}
		previous, backend = res.GetMesh().GetPoints(), res.GetBackend()
		if bar != nil {
			_ = bar.Add(1)
		}
	}
	if bar != nil {
		_ = bar.Clear()
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s, %.1f a second, by %s\n", c.Output, plural(n, "frame", "frames"), float64(n)/time.Since(start).Seconds(), backend)
	return err
}
