// That everything here can fail: drivers that are wrong in one way each, and what has to notice.

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// broken is a driver whose device or streams are replaced.
type broken struct {
	driver.Driver
	open   func(int) (driver.Device, error)
	device func(*brokenDevice)
	stream func(*brokenStream)
}

func (b broken) Open(n int) (driver.Device, error) {
	if b.open != nil {
		return b.open(n)
	}
	d, err := b.Driver.Open(n)
	if err != nil {
		return nil, err
	}
	x := &brokenDevice{Device: d, b: b}
	if b.device != nil {
		b.device(x)
	}
	return x, nil
}

type brokenDevice struct {
	driver.Device
	b         broken
	info      func(driver.Info) driver.Info
	alloc     func(int64) (driver.Mem, error)
	newStream func(priority int) (driver.Stream, error)
}

func (d *brokenDevice) Info() driver.Info {
	if d.info != nil {
		return d.info(d.Device.Info())
	}
	return d.Device.Info()
}

func (d *brokenDevice) Alloc(n int64) (driver.Mem, error) {
	if d.alloc != nil {
		return d.alloc(n)
	}
	return d.Device.Alloc(n)
}

func (d *brokenDevice) NewStream(p int) (driver.Stream, error) {
	if d.newStream != nil {
		return d.newStream(p)
	}
	s, err := d.Device.NewStream(p)
	if err != nil {
		return nil, err
	}
	x := &brokenStream{Stream: s}
	if d.b.stream != nil {
		d.b.stream(x)
	}
	return x, nil
}

type brokenStream struct {
	driver.Stream
	upload   func(driver.Slice, [][]byte) error
	download func([]byte, driver.Slice) error
	ops      map[string]func(driver.Op) error
	wait     func(context.Context) error
	closed   func() error
}

// replace has f run instead of an op, of which it gets a copy.
func replace[T any, P interface {
	*T
	driver.Op
}](s *brokenStream, f func(P) error) {
	if s.ops == nil {
		s.ops = map[string]func(driver.Op) error{}
	}
	s.ops[driver.Name(P(new(T)))] = func(op driver.Op) error { return f(copyOf(op).(P)) }
}

func (s *brokenStream) Run(op driver.Op) error {
	if f := s.ops[driver.Name(op)]; f != nil {
		return f(op)
	}
	return s.Stream.Run(op)
}

func (s *brokenStream) Upload(dst driver.Slice, src [][]byte) error {
	if s.upload != nil {
		return s.upload(dst, src)
	}
	return s.Stream.Upload(dst, src)
}

func (s *brokenStream) Download(dst []byte, src driver.Slice) error {
	if s.download != nil {
		return s.download(dst, src)
	}
	return s.Stream.Download(dst, src)
}

func (s *brokenStream) Wait(ctx context.Context) error {
	if s.wait != nil {
		return s.wait(ctx)
	}
	return s.Stream.Wait(ctx)
}

func (s *brokenStream) Close() error {
	if s.closed != nil {
		return s.closed()
	}
	return s.Stream.Close()
}

// A mistake and the part of the suite that has to find it.
type mistake struct {
	part  string
	name  string
	drv   driver.Driver
	says  string // part of a message
	cases []string
}

func onStream(f func(*brokenStream)) driver.Driver { return broken{Driver: Oracle(), stream: f} }
func onDevice(f func(*brokenDevice)) driver.Driver { return broken{Driver: Oracle(), device: f} }

var threeRegions = []string{"shape winding numbers"}

func mistakes() []mistake {
	ms := []mistake{
		{part: "open", name: "any ordinal is fine", says: "Open(-1): no error",
			drv: broken{Driver: Oracle(), open: func(int) (driver.Device, error) { return Oracle().Open(0) }}},
		{part: "open", name: "untyped error", says: "ErrNoDevice",
			drv: broken{Driver: Oracle(), open: func(n int) (driver.Device, error) { return nil, errors.New("no") }}},
		{part: "info", name: "another backend's name", says: "Backend", drv: onDevice(func(d *brokenDevice) {
			d.info = func(i driver.Info) driver.Info { i.Backend = "x"; return i }
		})},
		{part: "info", name: "no compute units", says: "ComputeUnits:0", drv: onDevice(func(d *brokenDevice) {
			d.info = func(i driver.Info) driver.Info { i.ComputeUnits = 0; return i }
		})},
		{part: "info", name: "the default method is the default", says: "MaskMethod is DEFAULT",
			drv: onDevice(func(d *brokenDevice) {
				d.info = func(i driver.Info) driver.Info { i.MaskMethod = driver.MethodDefault; return i }
			})},
		{part: "info", name: "free memory as it is now", says: "the second", drv: onDevice(func(d *brokenDevice) {
			n := int64(1 << 30)
			d.info = func(i driver.Info) driver.Info { n--; i.MemoryBytes = n; return i }
		})},
		{part: "memory", name: "untyped out of memory", says: "ErrOutOfMemory", drv: onDevice(func(d *brokenDevice) {
			d.alloc = func(n int64) (driver.Mem, error) {
				if n > 1<<40 {
					return nil, errors.New("no")
				}
				return d.Device.Alloc(n)
			}
		})},
		{part: "memory", name: "a block is handed out twice", says: "what another block got",
			drv: onDevice(func(d *brokenDevice) {
				var shared *hostMem
				d.alloc = func(n int64) (driver.Mem, error) {
					if n > 1<<40 {
						return nil, driver.ErrOutOfMemory
					}
					if shared == nil {
						m, err := d.Device.Alloc(8 << 20)
						if err != nil {
							return nil, err
						}
						shared = m.(*hostMem)
					}
					return &hostMem{dev: shared.dev, data: shared.data[:n]}, nil
				}
			})},
		{part: "memory", name: "memory leaks", says: "Close: oracle: closed", drv: onDevice(func(d *brokenDevice) {
			d.alloc = func(n int64) (driver.Mem, error) {
				m, err := d.Device.Alloc(n)
				if err != nil {
					return nil, err
				}
				return keptMem{m}, nil
			}
		})},
		{part: "sizes", name: "an upload stops short of the last odd byte", says: "came back changed",
			drv: onStream(func(s *brokenStream) {
				s.upload = func(dst driver.Slice, src [][]byte) error {
					if n := len(src[0]); n%2 == 1 {
						dst.Len--
						src = [][]byte{src[0][:n-1]}
					}
					return s.Stream.Upload(dst, src)
				}
			})},
		{part: "sizes", name: "a fill goes on to a multiple of 4", says: "outside of what the ops were given",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fill) error {
					if op.Value == 0x3b {
						op.Dst.Len = (op.Dst.Len + 3) &^ 3
					}
					return s.Stream.Run(op)
				})
			})},
		{part: "sizes", name: "a download ignores the offset", says: "came back changed",
			drv: onStream(func(s *brokenStream) {
				s.download = func(dst []byte, src driver.Slice) error {
					src.Off &^= 15
					return s.Stream.Download(dst,
						src)
				}
			})},
		{part: "pieces", name: "an empty piece ends an upload", says: "came back changed",
			drv: onStream(func(s *brokenStream) {
				s.upload = func(dst driver.Slice, src [][]byte) error {
					if i := slices.IndexFunc(src, func(p []byte) bool { return len(p) == 0 }); i >= 0 {
						src = src[:i]
						dst.Len = 0
						for _, p := range src {
							dst.Len += int64(len(p))
						}
					}
					return s.Stream.Upload(dst, src)
				}
			})},
		{part: "pieces", name: "an upload uses its source as scratch", says: "was changed",
			drv: onStream(func(s *brokenStream) {
				s.upload = func(dst driver.Slice, src [][]byte) error {
					err := s.Stream.Upload(dst, slices.Clone(src))
					clear(src)
					return err
				}
			})},
		{part: "order", name: "downloads overtake", says: "did not see what was enqueued before it",
			drv: onStream(func(s *brokenStream) {
				var held []func() error
				s.upload = func(dst driver.Slice, src [][]byte) error {
					held = append(held, func() error { return s.Stream.Upload(dst, src) })
					return nil
				}
				s.wait = func(ctx context.Context) error {
					for _, f := range held {
						if err := f(); err != nil {
							return err
						}
					}
					held = nil
					return s.Stream.Wait(ctx)
				}
			})},
		{part: "streams", name: "priorities are refused", says: "stream 1", drv: onDevice(func(d *brokenDevice) {
			d.newStream = func(p int) (driver.Stream, error) {
				if p != 0 {
					return nil, errors.New("no")
				}
				return d.Device.NewStream(p)
			}
		})},
		{part: "streams", name: "streams after the first lose uploads", says: "memory changed under the stream",
			drv: onDevice(func(d *brokenDevice) {
				var made atomic.Int64
				d.newStream = func(p int) (driver.Stream, error) {
					s, err := d.Device.NewStream(p)
					x := &brokenStream{Stream: s}
					if made.Add(1) > 1 {
						x.upload = func(driver.Slice, [][]byte) error { return nil }
					}
					return x, err
				}
			})},
		{part: "errors", name: "errors are lost", says: "no error", drv: onStream(func(s *brokenStream) {
			s.wait = func(ctx context.Context) error { _ = s.Stream.Wait(ctx); return nil }
		})},
		{part: "errors", name: "an error stays", says: "Wait:", drv: onStream(func(s *brokenStream) {
			var stuck error
			s.wait = func(ctx context.Context) error {
				if err := s.Stream.Wait(ctx); stuck == nil {
					stuck = err
				}
				return stuck
			}
		})},
		{part: "sticky", name: "ops behind one that failed run", says: "an op behind it ran",
			drv: onStream(func(s *brokenStream) {
				var failed error
				step := func(err error) error {
					if err == nil {
						err = s.Stream.Wait(context.Background())
					}
					if failed == nil {
						failed = err
					}
					return nil
				}
				replace(s, func(op *driver.Fill) error { return step(s.Stream.Run(op)) })
				replace(s, func(op *driver.MaskReduce) error { return step(s.Stream.Run(op)) })
				replace(s, func(op *driver.MaskRaster) error { return step(s.Stream.Run(op)) })
				s.wait = func(ctx context.Context) error {
					err := failed
					failed = nil
					return errors.Join(err, s.Stream.Wait(ctx))
				}
			})},
		{part: "sticky", name: "an error at once comes again", says: "again from Wait",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error {
					if err := s.Stream.Run(op); err != nil || op.First == 0 {
						return err
					}
					return errors.New("First")
				})
			})},
		{part: "sticky", name: "an error at once stops the stream", says: "enqueued after it did not run",
			drv: onStream(func(s *brokenStream) {
				stopped := false
				replace(s, func(op *driver.MaskReduce) error {
					if op.First > 0 {
						stopped = true
						return errors.New("First")
					}
					return s.Stream.Run(op)
				})
				replace(s, func(op *driver.Fill) error {
					if stopped {
						return nil
					}
					return s.Stream.Run(op)
				})
				s.wait = func(ctx context.Context) error { stopped = false; return s.Stream.Wait(ctx) }
			})},
		{part: "cancel", name: "ctx's error and not its cause", says: "want ctx's cause",
			drv: onStream(func(s *brokenStream) {
				s.wait = func(ctx context.Context) error {
					err := s.Stream.Wait(ctx)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					return err
				}
			})},
		{part: "cancel", name: "dropped work is no error", says: "bytes of the last download are missing",
			drv: onStream(func(s *brokenStream) {
				s.wait = func(ctx context.Context) error {
					if err := s.Stream.Wait(ctx); ctx.Err() == nil {
						return err
					}
					return nil
				}
			})},
		{part: "cancel", name: "the stream is dead after", says: "after a Wait that was cancelled",
			drv: onStream(func(s *brokenStream) {
				dead := false
				replace(s, func(op *driver.MaskReduce) error {
					if dead {
						op.Count, op.Stats.Len, op.Hist.Len = 1, op.Stats.Len/int64(op.Count),
							op.Hist.Len/int64(op.Count)
					}
					return s.Stream.Run(op)
				})
				s.wait = func(ctx context.Context) error {
					dead = dead || ctx.Err() != nil
					return s.Stream.Wait(ctx)
				}
			})},
		{part: "cancel", name: "Wait returns before the stream has drained",
			says: "was written after Wait had returned", drv: onStream(func(s *brokenStream) {
				var late func()
				s.download = func(dst []byte, src driver.Slice) error {
					late = func() { time.Sleep(time.Millisecond); dst[0] = 1 }
					return s.Stream.Download(dst, src)
				}
				s.wait = func(ctx context.Context) error {
					err := s.Stream.Wait(ctx)
					if ctx.Done() != nil && late != nil { // only where it can be cancelled
						go late()
					}
					return err
				}
			})},
		{part: "close", name: "not twice", says: "Close of a closed stream", drv: onStream(func(s *brokenStream) {
			n := 0
			s.closed = func() error {
				if n++; n > 1 {
					return errors.New("twice")
				}
				return s.Stream.Close()
			}
		})},
		{part: "close", name: "closed streams take work", says: "Fill on a closed stream: no error",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fill) error { _ = s.Stream.Run(op); return nil })
			})},
		{part: "triangulate", name: "a triangle is lost", says: "have",
			drv: spoilTriangles(func(v []driver.Triangle) []driver.Triangle {
				return v[:max(0, len(v)-1)]
			})},
		{part: "triangulate", name: "a triangle turns the wrong way", says: "turns the wrong way",
			drv: spoilTriangles(func(v []driver.Triangle) []driver.Triangle {
				if len(v) > 1 {
					v[1].B, v[1].C = v[1].C, v[1].B
				}
				return v
			})},
		{part: "triangulate", name: "a triangle is there twice", says: "two on the same side",
			drv: spoilTriangles(func(v []driver.Triangle) []driver.Triangle {
				if len(v) > 1 {
					v[1] = v[0]
				}
				return v
			})},
		{part: "triangulate", name: "ties are broken another way", says: "is not Delaunay",
			drv: spoilTriangles(otherDiagonal)},
		{part: "voronoi", name: "a label is another", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Voronoi) error {
				one := op.Labels
				one.Len = 1
				return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: one, Value: 0xee}))
			})
		})},
		{part: "meshes", name: "an island stays", says: "Islands: ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Islands) error { return s.Stream.Run(&driver.Fill{Dst: op.Count, Value: 0}) })
		})},
		{part: "meshes", name: "a pixel of an island goes to another", says: "Islands: pixel (0, 0)",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Islands) error {
					one := op.Labels
					one.Len = 1
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: one, Value: 0xee}))
				})
			})},
		{part: "meshes", name: "a triangle of the dual is another", says: "DualTriangles: ",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DualTriangles) error {
					return errors.Join(s.Stream.Run(op),
						spoilMesh(s.Stream, op.Triangles, op.Counts, func(v []driver.Triangle) { v[0].B++ }))
				})
			})},
		{part: "meshes", name: "a site is not counted", says: "Counts.Sites", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.DualTriangles) error {
				return errors.Join(s.Stream.Run(op),
					rewrite(s.Stream, op.Counts, func(v []driver.MeshCounts) { v[0].Sites-- }))
			})
		})},
		{part: "meshes", name: "the hull is left open", says: "HullCompletion: ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.HullCompletion) error { return nil })
		})},
		{part: "meshes", name: "a triangle of the hull is another", says: "HullCompletion: ",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.HullCompletion) error {
					return errors.Join(s.Stream.Run(op),
						spoilMesh(s.Stream, op.Triangles, op.Counts, func(v []driver.Triangle) { v[len(v)-1].C++ }))
				})
			})},
		{part: "meshes", name: "nothing is flipped", says: "is not Delaunay", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Flips) error {
				return rewrite(s.Stream, op.Status, func(v []driver.FlipStatus) { v[0] = driver.FlipStatus{Rings: 1} })
			})
		})},
		{part: "meshes", name: "a flaw is passed over", says: "Status.", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Flips) error {
				return errors.Join(s.Stream.Run(op),
					rewrite(s.Stream, op.Status, func(v []driver.FlipStatus) { v[0].Missing = 0 }))
			})
		})},
		{part: "meshes", name: "a triangle is turned at the end", says: "turns the wrong way",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Flips) error {
					return errors.Join(s.Stream.Run(op),
						spoilMesh(s.Stream, op.Triangles, op.Counts,
							func(v []driver.Triangle) { v[0].B, v[0].C = v[0].C, v[0].B }))
				})
			})},
		{part: "voronoi", name: "ties go to the greatest index", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Voronoi) error {
				sites, labels := make([]driver.Point, op.N), make([]uint32, op.Width*op.Height)
				err := errors.Join(s.Stream.Run(op), s.Stream.Download(bytesOf(sites), op.Sites),
					s.Stream.Download(bytesOf(labels), op.Labels), s.Stream.Wait(context.Background()))
				if err != nil {
					return err
				}
				for i, l := range labels {
					for j, p := range sites {
						if squared(p, i%op.Width, i/op.Width) == squared(sites[l], i%op.Width, i/op.Width) {
							labels[i] = uint32(j)
						}
					}
				}
				return errors.Join(s.Stream.Upload(op.Labels, [][]byte{bytesOf(labels)}),
					s.Stream.Wait(context.Background()))
			})
		})},
		{part: "edges", name: "pixels beyond the image are those on its other side", says: "pixel",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Edges) error {
					p := Picture{Width: op.Src.Width, Height: op.Src.Height, Stride: op.Src.Stride,
						Format: op.Src.Format,
						Pixels: make([]byte, op.Src.Data.Len)}
					if err := errors.Join(s.Stream.Download(p.Pixels, op.Src.Data),
						s.Stream.Wait(context.Background())); err != nil {
						return err
					}
					out := p.Edges()
					for i := range out {
						if x := i % p.Width; x == 0 {
							left, right := p.luminance(p.Width-1, i/p.Width), p.luminance(1, i/p.Width)
							out[i] = uint16(2 * max(right-left, left-right))
						}
					}
					return errors.Join(s.Stream.Upload(op.Dst, [][]byte{bytesOf(out)}),
						s.Stream.Wait(context.Background()))
				})
			})},
		{part: "edges", name: "the last pixel is left out", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Edges) error {
				last := op.Dst
				last.Off, last.Len = last.Off+last.Len-2, 2
				return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: last, Value: 0xee}))
			})
		})},
		{part: "edges", name: "what is behind the output is written", says: "outside of what the ops were given",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Edges) error {
					behind := op.Dst
					behind.Off, behind.Len = behind.Off+behind.Len, 2
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: behind, Value: 0}))
				})
			})},
		{part: "derivatives", name: "red and green are exchanged", says: "Derivatives",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Derivatives) error {
					op.Src.Format.Order[0], op.Src.Format.Order[1] = op.Src.Format.Order[1], op.Src.Format.Order[0]
					return s.Stream.Run(op)
				})
			})},
		{part: "derivatives", name: "there is no Laplacian", says: "Laplacian", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Derivatives) error {
				return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: op.Laplacian}))
			})
		})},
		{part: "develop", name: "red and blue are exchanged", says: "Develop", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Develop) error {
				if op.Src.Coding.Kind == driver.Bayer {
					op.Src.Coding.Phase ^= 3
				}
				return s.Stream.Run(op)
			})
		})},
		{part: "develop", name: "the better interpolation is the plain one", says: "Develop",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Develop) error {
					op.Src.Coding.Demosaic = driver.Bilinear
					return s.Stream.Run(op)
				})
			})},
		{part: "develop", name: "both orders of YUV are one", says: "Develop", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Develop) error {
				if op.Src.Coding.Kind == driver.YUYV {
					op.Src.Coding.Kind = driver.UYVY
				}
				return s.Stream.Run(op)
			})
		})},
		{part: "develop", name: "samples beyond their bits are not counted", says: "samples are beyond",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Develop) error {
					err := s.Stream.Run(op)
					if op.Beyond.Len > 0 {
						err = errors.Join(err, s.Stream.Run(&driver.Fill{Dst: op.Beyond}))
					}
					return err
				})
			})},
		{part: "develop", name: "a strip is taken for a frame", says: "Develop", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Develop) error {
				if op.Row0 > 1 && op.Src.Coding.Kind == driver.Bayer { // mirrored at the strip's end
					op.Src.Height = op.Src.First + op.Src.Rows
				}
				if end := op.Row0 + op.Dst.Height; op.Src.Height > end && op.Src.Coding.Kind == driver.Bayer &&
					end > 2 {
					op.Src.Height, op.Src.Rows = end, end-op.Src.First
				}
				return s.Stream.Run(op)
			})
		})},
		{part: "correct", name: "what is saturated is corrected", says: "Correct", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Correct) error {
				if op.Src.Format.SampleBytes == 2 && op.Src.Format.Bits < 16 {
					op.Src.Format.Bits, op.Dst.Format.Bits = 16, 16
				}
				return s.Stream.Run(op)
			})
		})},
		{part: "correct", name: "the first row of a field is all of it", says: "Correct",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Correct) error {
					pitch := int64(driver.FieldPitch(op.Src.Width, op.Src.Format))
					op.Dark.Len, op.Gain.Len, op.FieldRows = pitch*int64(op.Src.Format.SampleBytes), 2*pitch, 1
					return s.Stream.Run(op)
				})
			})},
		{part: "correct", name: "the fraction is one bit off", says: "Correct", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Correct) error {
				op.Fraction = max(op.Fraction-1, driver.MinFraction)
				return s.Stream.Run(op)
			})
		})},
		{part: "pack", name: "a number is one bit off", says: "bits of channel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Unpack) error {
				return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
					rewrite(s.Stream, op.Planes, func(v []uint32) { v[len(v)-1] ^= 1 }))
			})
		})},
		{part: "pack", name: "the mask is not looked at", says: "Flags of pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Unpack) error {
				op.Mask = driver.Slice{}
				return s.Stream.Run(op)
			})
		})},
		{part: "pack", name: "pixels that are given are rounded as well", says: "Pack",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Pack) error {
					op.Flags = driver.Slice{}
					return s.Stream.Run(op)
				})
			})},
		{part: "pack", name: "no residual", says: "residual", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Pack) error {
				op.Residual = driver.Image{}
				return s.Stream.Run(op)
			})
		})},
		{part: "fingerprint", name: "a hash is one bit off", says: "hash under key 1",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fingerprint) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
						rewrite(s.Stream, op.Dst, func(v []uint64) { v[1] ^= 1 }))
				})
			})},
		{part: "fingerprint", name: "the modulus instead of zero", says: "hash under key 0",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fingerprint) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
						rewrite(s.Stream, op.Dst, func(v []uint64) {
							if v[0] == 0 {
								v[0] = driver.FingerprintPrime
							}
						}))
				})
			})},
		{part: "fingerprint", name: "both hashes under one key", says: "hash under key 1",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fingerprint) error {
					op.Keys[1] = op.Keys[0]
					return s.Stream.Run(op)
				})
			})},
		{part: "fingerprint", name: "the last byte is not looked at", says: "is another or not",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fingerprint) error {
					op.Src.Len = max(op.Src.Len-1, 0)
					return s.Stream.Run(op)
				})
			})},
		{part: "fingerprint", name: "writes behind the hashes", says: "outside of what the ops were given",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Fingerprint) error {
					behind := driver.Slice{Mem: op.Dst.Mem, Off: op.Dst.Off + op.Dst.Len, Len: 1}
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: behind, Value: 0}))
				})
			})},
		{part: "vertices", name: "one fewer than wanted", says: "Count", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.SelectVertices) error {
				return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
					rewrite(s.Stream, op.Count, func(n []uint32) { n[0]-- }))
			})
		})},
		{part: "vertices", name: "two in another order", says: "of vertex 0", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.SelectVertices) error {
				return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
					rewrite(s.Stream, op.Points, func(p []driver.Point) { p[0], p[1] = p[1], p[0] }))
			})
		})},
		{part: "vertices", name: "the room that is left keeps what was there", says: "behind the vertices",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.SelectVertices) error {
					var count [1]uint32
					return errors.Join(s.Stream.Run(op), s.Stream.Download(bytesOf(count[:]), op.Count),
						s.Stream.Wait(context.Background()),
						rewrite(s.Stream, op.Points, func(p []driver.Point) {
							if n := int(count[0]); n < len(p) {
								p[n].X = -1
							}
						}))
				})
			})},
		{part: "vertices", name: "the seed is ignored", says: "of vertex", drv: spoilRule(func(r *driver.VertexRule) {
			r.Seed = 0
		})},
		{part: "vertices", name: "the floor is ignored", says: "of vertex", drv: spoilRule(func(r *driver.VertexRule) {
			r.Floor = 1
		})},
		{part: "vertices", name: "the spacing is less by one", says: "of vertex",
			drv: spoilRule(func(r *driver.VertexRule) { r.Spacing = max(0, r.Spacing-1) })},
		{part: "vertices", name: "there are no cells", says: "of vertex", drv: spoilRule(func(r *driver.VertexRule) {
			r.Cell = 0
		})},
		{part: "vertices", name: "those before don't matter", says: "of vertex",
			drv: spoilRule(func(r *driver.VertexRule) { r.Strength = 0 })},
		{part: "vertices", name: "the border is cut elsewhere", says: "vertex",
			drv: spoilRule(func(r *driver.VertexRule) { r.Border++ })},
		{part: "shade", name: "a triangle is left out", says: "pixel",
			drv: spoilShade(func(op *driver.Shade, v []driver.Triangle) {
				v[0].C = v[0].A
			})},
		{part: "shade", name: "the centroid's colour in place of the mean", says: "pixel",
			drv: spoilShade(func(op *driver.Shade, v []driver.Triangle) {
				op.Color = driver.CentroidColor
			})},
		{part: "shade", name: "the mean in place of the centroid's colour", says: "pixel",
			drv: spoilShade(func(op *driver.Shade, v []driver.Triangle) {
				op.Color = driver.MeanColor
			})},
		{part: "shade", name: "triangles that turn the other way cover nothing", says: "pixel",
			drv: spoilShade(func(op *driver.Shade, v []driver.Triangle) {
				for i := range v {
					if v[i].A > v[i].C {
						v[i].C = v[i].A
					}
				}
			})},
		{part: "shade", name: "what no triangle covers is black", says: "is 0 (0x0) on one side and 205",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Shade) error {
					return errors.Join(s.Stream.Run(&driver.Fill{Dst: op.Dst.Data, Value: 0}), s.Stream.Run(op))
				})
			})},
		{part: "shade", name: "a colour is another", says: "the colours of the triangles are",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Shade) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
						rewrite(s.Stream, op.Colors, func(b []byte) { b[0]++ }))
				})
			})},
		{part: "shade", name: "errors are lost", says: "no error", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Shade) error {
				return errors.Join(s.Stream.Run(op),
					func() error { s.Stream.Wait(context.Background()); return nil }())
			})
		})},
		{part: "hold", name: "the limit is less by one", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Hold) error {
				op.Limit = max(0, op.Limit-1)
				return s.Stream.Run(op)
			})
		})},
		{part: "hold", name: "colours stay without a limit", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Hold) error {
				op.Limit, op.Jump = 65535, 65535
				return s.Stream.Run(op)
			})
		})},
		{part: "hold", name: "nothing is held", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(*driver.Hold) error { return nil })
		})},
		{part: "hold", name: "a colour is another", says: "the colours of the triangles are",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Hold) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
						rewrite(s.Stream, op.Colors, func(b []byte) { b[0]++ }))
				})
			})},
		{part: "hold", name: "colours jump at the limit", says: "pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Hold) error {
				op.Jump = op.Limit
				return s.Stream.Run(op)
			})
		})},
		{part: "hold", name: "changes aren't counted", says: "pixels have changed",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.Hold) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: op.Changed, Value: 0}))
				})
			})},
		{part: "hold", name: "errors are lost", says: "no error", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Hold) error {
				return errors.Join(s.Stream.Run(op),
					func() error { s.Stream.Wait(context.Background()); return nil }())
			})
		})},
		{part: "cases", name: "a method is missing", says: "TILED: not supported", cases: threeRegions,
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskPrepare) error {
					if op.Method == driver.Tiled {
						return driver.ErrNotSupported
					}
					return s.Stream.Run(op)
				})
			})},
		{part: "cases", name: "strips overwrite", says: "MaskReduce", cases: []string{"strips of [7]"},
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error { op.Accumulate = false; return s.Stream.Run(op) })
			})},
		{part: "cases", name: "whole frames accumulate", says: "MaskReduce", cases: threeRegions,
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error { op.Accumulate = true; return s.Stream.Run(op) })
			})},
		{part: "cases", name: "parts that are not asked for are computed", says: "MaskReduce",
			cases: []string{"what 0x1 1x8 [0]"}, drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error { op.What |= driver.MaskMoments; return s.Stream.Run(op) })
			})},
		{part: "cases", name: "channels as they lie in memory", says: "MaskReduce",
			cases: []string{"format 3x8 [2 1 0] pad 0"}, drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error {
					op.Frame.Format.Order = [4]uint8{0, 1, 2, 3}
					return s.Stream.Run(op)
				})
			})},
		{part: "cooccurrence", name: "the partner lies on the other side", says: "MaskCooccurrence: region",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCooccurrence) error {
					op.Offsets = slices.Clone(op.Offsets)
					for i := range op.Offsets {
						op.Offsets[i].DX = -op.Offsets[i].DX
					}
					return s.Stream.Run(op)
				})
			})},
		{part: "cooccurrence", name: "bands overwrite each other", says: "in bands of rows",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCooccurrence) error {
					op.Accumulate = false
					return s.Stream.Run(op)
				})
			})},
		{part: "weigh", name: "pixels of the row below are weighed", says: "the whole frame",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskWeigh) error {
					op.Row0++
					return s.Stream.Run(op)
				})
			})},
		{part: "weigh", name: "strips overwrite each other", says: "in strips",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskWeigh) error {
					op.Accumulate = false
					return s.Stream.Run(op)
				})
			})},
		{part: "blobs", name: "corners do not connect", says: "MaskBlobs: ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.MaskBlobs) error { op.Eight = false; return s.Stream.Run(op) })
		})},
		{part: "blobs", name: "no step is taken", says: "MaskBlobs: ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.MaskBlobs) error { op.Steps = nil; return s.Stream.Run(op) })
		})},
		{part: "blobs", name: "small ones are kept", says: "MaskBlobs: ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.MaskBlobs) error { op.MinCount = 0; return s.Stream.Run(op) })
		})},
		{part: "correlate", name: "the partner lies on the other side", says: "MaskCorrelate: region",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCorrelate) error {
					op.Lags = slices.Clone(op.Lags)
					for i := range op.Lags {
						op.Lags[i].DX = -op.Lags[i].DX
					}
					return s.Stream.Run(op)
				})
			})},
		{part: "correlate", name: "a frame with itself instead of two", says: "two frames true: MaskCorrelate: region",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCorrelate) error {
					op.Other = op.Frame
					return s.Stream.Run(op)
				})
			})},
		{part: "correlate", name: "all lags in one slot", says: "MaskCorrelate: region",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCorrelate) error {
					op.Lags = slices.Clone(op.Lags)
					for i := range op.Lags {
						op.Lags[i].Slot = 0
					}
					return s.Stream.Run(op)
				})
			})},
		{part: "correlate", name: "bands overwrite each other", says: "in bands of rows",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskCorrelate) error {
					op.Accumulate = false
					return s.Stream.Run(op)
				})
			})},
		{part: "cases", name: "labels from 1 whatever the first", says: "MaskRaster",
			cases: []string{"part of the regions 0", "part of the regions 1", "part of the regions 2"},
			drv: Perturb(Oracle(), Perturbation{
				Raster: func(op *driver.MaskRaster, pix []byte) {
					if op.Mode == driver.RasterLabels {
						eachPixel(op, pix, func(v uint16) uint16 { return v - uint16(min(int(v), op.First)) })
					}
				}})},
		{part: "cases", name: "gaps between rows are cleared", says: "behind row", cases: threeRegions,
			drv: Perturb(Oracle(), Perturbation{
				Raster: func(op *driver.MaskRaster, pix []byte) {
					for y := range op.Dst.Height - 1 {
						pix[(y+1)*op.Dst.Stride-1] = 0
					}
				}})},
		{part: "cases", name: "a write behind the results", says: "outside of what the ops were given",
			cases: threeRegions, drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.MaskReduce) error {
					behind := op.Stats
					behind.Off, behind.Len = behind.Off+behind.Len, 4
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: behind, Value: 0}))
				})
			})},
		{part: "again", name: "results depend on the run", says: "differs from the first", drv: func() driver.Driver {
			var n atomic.Int64
			return Perturb(Oracle(), Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
				if n.Add(1)%3 == 0 {
					s[0].SumVX++
				}
			}})
		}()},
		{part: "moved", name: "prepared regions hold their place", says: "moved", drv: onStream(func(s *brokenStream) {
			var home driver.Slice
			replace(s, func(op *driver.MaskPrepare) error { home = op.Dst; return s.Stream.Run(op) })
			replace(s, func(op *driver.MaskReduce) error {
				if op.Prepared.Mem != home.Mem {
					op.What = 0
				}
				return s.Stream.Run(op)
			})
		})},
		{part: "concurrent", name: "the second stream is wrong", says: "stream 0 of 4",
			drv: onDevice(func(d *brokenDevice) {
				var made atomic.Int64
				d.newStream = func(p int) (driver.Stream, error) {
					s, err := d.Device.NewStream(p)
					x := &brokenStream{Stream: s}
					if made.Add(1) > 1 {
						replace(x, func(op *driver.MaskReduce) error { op.What = 0; return s.Run(op) })
					}
					return x, err
				}
			})},
	}
	// Every value that ops write, off by one bit.
	for name, p := range perturbations() {
		ms = append(ms, mistake{part: "cases", name: name, drv: Perturb(Oracle(), p), says: "differ",
			cases: threeRegions})
	}
	if _, ok := SharedDir(); ok {
		ms = append(ms, mistake{part: "shared", name: "one more", says: "Count", cases: []string{"sample hole"},
			drv: Perturb(Oracle(), Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
				s[0].Count++
			}})})
	}
	return append(append(ms, diffusionMistakes()...), curveMistakes()...)
}

// keptMem is memory that Free does not free.
type keptMem struct{ driver.Mem }

func (keptMem) Free() error { return nil }

// perturbations change one value each of what ops write.
func perturbations() map[string]Perturbation {
	ps := map[string]Perturbation{
		"a bin of the histogram": {Hist: func(_ *driver.MaskReduce, h []uint32) { h[len(h)/2+17]++ }},
		"the last bin":           {Hist: func(_ *driver.MaskReduce, h []uint32) { h[len(h)-1] ^= 1 << 31 }},
		"the order of regions": {Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
			s[0], s[1] = s[1], s[0]
		}},
		"a pixel of the mask": {Raster: func(op *driver.MaskRaster, pix []byte) {
			if op.Mode == driver.RasterMask {
				pix[3*op.Dst.Stride+7] ^= 255
			}
		}},
		"the last pixel of the mask": {Raster: func(op *driver.MaskRaster, pix []byte) {
			if op.Mode == driver.RasterMask {
				pix[(op.Dst.Height-1)*op.Dst.Stride+op.Dst.Width-1] ^= 1
			}
		}},
		"a label": {Raster: func(op *driver.MaskRaster, pix []byte) {
			if op.Mode == driver.RasterLabels {
				pix[20*op.Dst.Stride+2*30+1] ^= 1
			}
		}},
	}
	for i, f := range statsFields {
		ps["the field "+f.name] = Perturbation{Stats: func(_ *driver.MaskReduce, s []driver.MaskStats) {
			*f.of(&s[(i*3)%len(s)]) ^= 1 << (7 * i)
		}}
	}
	return ps
}

func eachPixel(op *driver.MaskRaster, pix []byte, f func(uint16) uint16) {
	for y := range op.Dst.Height {
		for x := range op.Dst.Width {
			p := pix[y*op.Dst.Stride+2*x:]
			v := f(uint16(p[0]) | uint16(p[1])<<8)
			p[0], p[1] = byte(v), byte(v>>8)
		}
	}
}

// Each mistake turns the part of the suite red that is there for it, and the same part over the driver without the
// mistake is green. The latter is run once for all mistakes that ask for the same part, cases and methods.
func TestSuiteFindsMistakes(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	byPart := map[string]int{}
	green := map[string]bool{}
	for _, m := range mistakes() {
		byPart[m.part]++
		t.Run(m.part+"/"+m.name, func(t *testing.T) {
			s := Suite{Driver: m.drv, Short: true, Random: 1, part: m.part, small: true}
			if m.cases != nil {
				s.only = func(c Case) bool { return slices.Contains(m.cases, c.Name) }
			}
			if m.name != "a method is missing" {
				s.Methods = []driver.Method{driver.MethodDefault}
			}
			r := Watch(s.Run)
			if !r.FailedUnder(m.part) {
				t.Fatalf("the suite passed; it ran %v", r.Ran)
			}
			if !strings.Contains(strings.Join(r.Messages, "\n"), m.says) {
				t.Errorf("no message has %q:\n%s", m.says, strings.Join(r.Messages, "\n"))
			}
			same := fmt.Sprint(m.part, m.cases, s.Methods)
			if green[same] {
				return
			}
			s.Driver = Oracle()
			r = Watch(s.Run)
			if len(r.Failed) > 0 {
				t.Errorf("it fails without the mistake too:\n%s", strings.Join(r.Messages, "\n"))
			}
			green[same] = len(r.Failed) == 0
		})
	}
	for _, p := range parts {
		if _, ok := SharedDir(); byPart[p.name] == 0 && (p.name != "shared" || ok) {
			t.Errorf("no mistake is tried on the part %q", p.name)
		}
	}
}

// A backend has all methods.
func TestSuiteWantsAllMethods(t *testing.T) {
	for _, missing := range AllMethods {
		lacks := onStream(func(s *brokenStream) {
			replace(s, func(op *driver.MaskPrepare) error {
				if op.Method == missing {
					return driver.ErrNotSupported
				}
				return s.Stream.Run(op)
			})
		})
		r := Watch(Suite{Driver: lacks, Short: true, Random: 1, part: "cases", only: func(c Case) bool {
			return c.Name == "size 1x1"
		}}.Run)
		if !r.FailedUnder("cases") {
			t.Errorf("without %v the suite passes", missing)
		}
	}
}

func TestWatch(t *testing.T) {
	r := Watch(func(t T) {
		t.Logf("a log")
		t.Run("fine", func(t T) {
			if t.Run("inner", func(T) {}) == false {
				t.Errorf("Run says false")
			}
		})
		t.Run("bad", func(t T) {
			t.Run("worse", func(t T) { t.Fatalf("no %d", 1); t.Errorf("unreached") })
			t.Run("panics", func(t T) { panic("oh") })
			t.Errorf("and %s", "no")
			t.Errorf("again")
		})
	})
	if want := []string{"fine", "fine/inner", "bad", "bad/worse", "bad/panics"}; !slices.Equal(r.Ran, want) {
		t.Errorf("ran %v", r.Ran)
	}
	if want := []string{"bad/worse", "bad/panics", "bad"}; !slices.Equal(r.Failed, want) {
		t.Errorf("failed %v", r.Failed)
	}
	if len(r.Messages) != 4 || r.Messages[0] != "bad/worse: no 1" ||
		!strings.HasPrefix(r.Messages[1], "bad/panics: panic: oh") || len(r.Logs) != 1 {
		t.Errorf("%q %q", r.Messages, r.Logs)
	}
	if !r.FailedUnder("bad") || r.FailedUnder("fine") || r.FailedUnder("ba") {
		t.Errorf("FailedUnder")
	}
}

// spoilTriangles is the oracle with its triangles changed by f.
func spoilTriangles(f func([]driver.Triangle) []driver.Triangle) driver.Driver {
	return onStream(func(s *brokenStream) {
		replace(s, func(op *driver.Triangulate) error {
			v := make([]driver.Triangle, 2*op.N)
			var n [1]uint32
			if err := errors.Join(
				s.Stream.Run(op),
				s.Stream.Download(bytesOf(v), op.Triangles),
				s.Stream.Download(bytesOf(n[:]), op.Count),
				s.Stream.Wait(context.Background()),
			); err != nil {
				return err
			}
			w := f(v[:n[0]])
			n[0] = uint32(len(w))
			return errors.Join(
				s.Stream.Upload(op.Triangles, [][]byte{bytesOf(v)}),
				s.Stream.Upload(op.Count, [][]byte{bytesOf(n[:])}),
				s.Stream.Wait(context.Background()),
			)
		})
	})
}

// spoilMesh changes the triangles that counts says there are.
func spoilMesh(s driver.Stream, triangles, counts driver.Slice, f func([]driver.Triangle)) error {
	var n [1]driver.MeshCounts
	if err := errors.Join(s.Download(bytesOf(n[:]), counts), s.Wait(context.Background())); err != nil ||
		n[0].Triangles == 0 {
		return err
	}
	return rewrite(s, triangles, func(v []driver.Triangle) { f(v[:n[0].Triangles]) })
}

// spoilRule is the oracle that chooses vertices by another rule.
func spoilRule(f func(*driver.VertexRule)) driver.Driver {
	return onStream(func(s *brokenStream) {
		replace(s, func(op *driver.SelectVertices) error {
			f(&op.VertexRule)
			return s.Stream.Run(op)
		})
	})
}

// spoilShade is the oracle that shades other triangles, or in another way.
func spoilShade(f func(*driver.Shade, []driver.Triangle)) driver.Driver {
	return onStream(func(s *brokenStream) {
		replace(s, func(op *driver.Shade) error {
			if op.Triangles.Len > 0 {
				if err := rewrite(s.Stream, op.Triangles, func(v []driver.Triangle) { f(op, v) }); err != nil {
					return err
				}
			}
			return s.Stream.Run(op)
		})
	})
}

// otherDiagonal flips the edge between the two triangles of a square.
func otherDiagonal(v []driver.Triangle) []driver.Triangle {
	if len(v) != 2 {
		return v
	}
	in := func(t driver.Triangle, p uint32) bool { return t.A == p || t.B == p || t.C == p }
	a := v[0]
	for in(v[1], a.A) {
		a.A, a.B, a.C = a.B, a.C, a.A
	}
	d := v[1].A
	for in(v[0], d) {
		v[1].A, v[1].B, v[1].C = v[1].B, v[1].C, v[1].A
		d = v[1].A
	}
	v[0], v[1] = driver.Triangle{A: a.A, B: a.B, C: d}, driver.Triangle{A: d, B: a.C, C: a.A}
	for i := range v {
		for v[i].A > v[i].B || v[i].A > v[i].C {
			v[i].A, v[i].B, v[i].C = v[i].B, v[i].C, v[i].A
		}
	}
	return v
}
