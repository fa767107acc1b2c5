package main

// A folder that fills: each picture is a block, once it is closed, or renamed or linked into it.

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/internal/cli"
)

// pictures are the endings of files that are pictures here: PNG and JPEG.
var pictures = cli.Pictures[:3]

func isPicture(name string) bool {
	return slices.Contains(pictures, strings.ToLower(filepath.Ext(name)))
}

// folder is one.
type folder struct {
	*feed
	path    string
	watch   *watcher // before it is opened that of the stream before, if there was one
	waiting []string // files that have come and were not handed over; the last before it began says what pictures are
}

// errOverflow is of a watcher that was too slow for the kernel's queue: files that came and went may be missed.
var errOverflow = errors.New("more files came than the kernel keeps in mind")

func (f *folder) open(ctx context.Context) (_ about, err error) {
	watch, err := watchFolder(f.path, f.watch)
	if err != nil {
		return about{}, err
	}
	f.watch = watch
	f.presence.found() // though its first picture may not be
	f.connected(true)
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.geo = f.want; f.geo.Width == 0 {
		f.notify("the first picture in %s is waited for", f.path)
	}
	for f.geo.Width == 0 {
		name, err := f.file(ctx, func(string) {}) // no part has begun
		if err != nil {
			return about{}, err
		}
		f.waiting = append(f.waiting, name)
		if f.geo, err = pictureLayout(filepath.Join(f.path, name)); err != nil {
			f.geo = gvsp.Geometry{}
			f.notify("%s: %v", name, reason(err))
		}
	}
	return about{name: f.name, title: fmt.Sprintf("%s: pictures of %d x %d %v", f.path, f.geo.Width, f.geo.Height,
		f.geo.Format), geo: f.geo}, nil
}

func (f *folder) close() error {
	f.connected(false)
	return f.watch.close()
}

// file waits for the next picture, and for the folder where it has gone, or the disk below it: pictures that are in it
// then, and weren't before, are next. jump is told of either.
func (f *folder) file(ctx context.Context, jump func(why string)) (string, error) {
	for {
		name, err := f.watch.next(ctx)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case errors.Is(err, errOverflow):
			f.notify("%s: %v: some may be missed", f.path, err)
			jump(err.Error())
		case err != nil:
			if err = errors.Join(err, f.close()); f.longest == 0 {
				return "", err
			}
			f.presence.lost(time.Now(), err)
			f.notify("%v", err)
			jump(err.Error())
			if err := f.retry(ctx, func() error {
				again, err := watchFolder(f.path, f.watch)
				if err == nil {
					f.watch = again
				}
				return err
			}); err != nil {
				return "", err
			}
			if ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			f.notify("%s is there again", f.path)
			f.connected(true)
		case cli.Hidden(name):
		case !isPicture(name) && cli.PictureKind(filepath.Join(f.path, name)) == "": // a picture is a part, read or not
			f.notify("%s is no picture (.png, .jpg): it is left alone", name)
			f.mu.Lock()
			f.st.Malformed++
			f.mu.Unlock()
		default:
			return name, nil
		}
	}
}

func (f *folder) keep(ctx context.Context, to *sink) (err error) {
	defer func() { err = errors.Join(err, f.close()) }()
	for {
		if len(f.waiting) == 0 {
			name, err := f.file(ctx, func(why string) { f.jump(to, why) })
			if ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
			f.waiting = append(f.waiting, name)
		}
		name, block := f.waiting[0], f.next
		// Its name is kept with the part.
		err = f.block(ctx, to, []gvsp.Datum{{Name: "file", Value: name}}, func(pixels []byte) (int, string) {
			if err := f.decode(filepath.Join(f.path, name), pixels); err != nil {
				return 0, fmt.Sprintf("%s: %v", name, reason(err))
			}
			return f.geo.Height, ""
		})
		if err != nil || f.next == block { // as the context has ended
			return err
		}
		f.waiting = f.waiting[1:]
	}
}

// left is the watcher for a stream that begins anew, once this one is closed: what came and was not handed over comes
// again, and so does what comes until then.
func (f *folder) left() *watcher {
	for _, name := range f.waiting {
		f.watch.forget(name)
	}
	return f.watch
}

// decode writes a picture's pixels.
func (f *folder) decode(name string, pixels []byte) error {
	g, img, err := loadPicture(name, func(g gvsp.Geometry) error {
		if g.Width != f.geo.Width || g.Height != f.geo.Height {
			return fmt.Errorf("it is %d x %d: those before it are %d x %d", g.Width, g.Height, f.geo.Width,
				f.geo.Height)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if g.Format != f.geo.Format {
		return fmt.Errorf("it is %v: those before it are %v", g.Format, f.geo.Format)
	}
	appendPixels(pixels[:0], img)
	return nil
}

// pictureLayout is what a picture is.
func pictureLayout(name string) (gvsp.Geometry, error) {
	g, _, err := loadPicture(name, func(gvsp.Geometry) error { return nil })
	return g, err
}

// loadPicture reads a file that is small enough, and that fits.
func loadPicture(name string, fits func(gvsp.Geometry) error) (g gvsp.Geometry, _ image.Image, err error) {
	if st, err := os.Stat(name); err != nil {
		return g, nil, err
	} else if !st.Mode().IsRegular() { // such as a pipe, which would be waited for
		return g, nil, errors.New("no regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return g, nil, err
	}
	defer f.Close()
	cfg, _, err := image.DecodeConfig(f)
	if err != nil {
		return g, nil, err
	}
	// Before its pixels are decoded it has three bytes for each.
	g = gvsp.Geometry{Format: gvsp.RGB8, Width: cfg.Width, Height: cfg.Height, Unit: gvsp.MinPacket}
	if err := errors.Join(g.Check(), fits(g)); err != nil {
		return g, nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return g, nil, err
	}
	file, err := io.ReadAll(f)
	if err != nil {
		return g, nil, err
	}
	img, err := cli.DecodePicture(file)
	if err != nil {
		return g, nil, err
	}
	switch img.(type) {
	case *image.Gray:
		g.Format = gvsp.Mono8
	case *image.Gray16:
		g.Format = gvsp.Mono16
	}
	return g, img, nil
}
