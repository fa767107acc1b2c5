// Masks that come as images, and become runs.

package frames

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Masks makes runs of the masks of requests that are images, before anything else looks at their regions: nothing
// behind it knows such masks. A nil Masks leaves them as they are, and then they are refused.
type Masks struct {
	Reader  *Reader
	Acquire func() (device.Lease, error) // of the device, where resident frames are
	Check   func(m any) error            // a message by the rules in the schemas, which leave out regions
	Bounds  polygon.Bounds               // of sets of regions
	Sets    *wire.RegionSets             // that come again
}

// Replace puts sets whose masks are runs in place of those of a request. The sets that it finds stay as they are,
// because other calls may have them, too.
func (s *Masks) Replace(ctx context.Context, req any) (err error) {
	if m, ok := req.(proto.Message); ok && s != nil {
		s.replace(ctx, m.ProtoReflect(), "", &err)
	}
	return err
}

// replace is Replace for a message that lies at path, with a dot behind it, in the request. It ends with an error.
func (s *Masks) replace(ctx context.Context, m protoreflect.Message, path string, err *error) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() == nil || fd.IsList() || fd.IsMap() {
			return true
		}
		at := path + string(fd.Name())
		set, ok := v.Message().Interface().(*pb.RegionSet)
		if !ok {
			s.replace(ctx, v.Message(), at+".", err)
			return *err == nil
		}
		if !slices.ContainsFunc(set.GetRegions(), func(r *pb.Region) bool { return r.GetMask().GetImage() != nil }) {
			return true
		}
		if class := m.Descriptor().Fields().ByName("work_class"); class != nil {
			ctx = kernels.WithClass(ctx, wire.ClassOf(pb.WorkClass(m.Get(class).Enum())))
		}
		var out *pb.RegionSet
		if out, *err = s.ofSet(ctx, set, at); *err == nil {
			m.Set(fd, protoreflect.ValueOfMessage(out.ProtoReflect()))
		}
		return *err == nil
	})
}

// ofSet is a set, which lies at path in the request, with runs for images. An image that begins at pixel (0, 0) is as
// large as the frame that the set was drawn on, and says so where the set doesn't: runs alone would lie in a frame of
// another size without anyone seeing it.
func (s *Masks) ofSet(ctx context.Context, set *pb.RegionSet, path string) (*pb.RegionSet, error) {
	out := shallow(set)
	out.Regions = slices.Clone(set.GetRegions())
	pixels, numbers := s.Reader.MaxPixels, 0
	on, of := set.GetDrawnOn(), path+".drawn_on"
	type patch struct {
		at         string
		x, y, w, h int
	}
	var patches []patch // that begin elsewhere
	for i, r := range out.Regions {
		if r.GetMask().GetImage() == nil {
			continue
		}
		at := fmt.Sprintf("%s.regions[%d].mask", path, i)
		runs, w, h, err := s.runsOf(ctx, r.GetMask(), at, &pixels)
		if err != nil {
			return nil, err
		}
		at += ".image.frame"
		switch m := r.GetMask().GetImage(); {
		case m.GetX() != 0 || m.GetY() != 0:
			patches = append(patches, patch{at, int(m.GetX()), int(m.GetY()), w, h})
		case on == nil:
			on, of = &pb.FrameSize{Width: uint32(w), Height: uint32(h)}, at
		case int(on.GetWidth()) != w || int(on.GetHeight()) != h:
			return nil, apierr.Refuse(at, fmt.Sprintf("%dx%d", w, h), "must be %dx%d pixels, as %s is: an image without x "+
				"and y is one of the whole frame", on.GetWidth(), on.GetHeight(), of)
		}
		r = shallow(r)
		r.Mask = &pb.Mask{Runs: runs}
		out.Regions[i] = r
		numbers += len(runs)
	}
	for _, p := range patches {
		if on != nil && (p.x < 0 || p.y < 0 || p.x+p.w > int(on.GetWidth()) || p.y+p.h > int(on.GetHeight())) {
			return nil, apierr.Refuse(p.at, fmt.Sprintf("%dx%d", p.w, p.h), "at (%d, %d) must lie within the %dx%d pixels "+
				"of %s", p.x, p.y, on.GetWidth(), on.GetHeight(), of)
		}
	}
	out.DrawnOn = on
	s.Sets.Replaced(set, out, numbers)
	return out, nil
}

// shallow is a message with the fields of another.
func shallow[M any, P interface {
	*M
	proto.Message
}](from P) P {
	to := P(new(M))
	from.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.ProtoReflect().Set(fd, v)
		return true
	})
	return to
}

// runsOf are the runs of a mask that is an image, as messages have them, and the size of the image. pixels is how
// many the image may have; those that it has are taken away.
func (s *Masks) runsOf(ctx context.Context, m *pb.Mask, path string, pixels *int64) (runs []int32, w, h int, err error) {
	image := m.GetImage()
	if n := len(m.GetRuns()); n > 0 {
		return nil, 0, 0, apierr.Refuse(path+".image", nil, "beside %d numbers of runs: a mask has one of them", n)
	}
	if err = s.Check(image); err != nil {
		return nil, 0, 0, apierr.Under(path+".image", err)
	}
	at := path + ".image.frame"
	dev, err := s.Acquire()
	if err != nil {
		return nil, 0, 0, err
	}
	defer dev.End()
	f, err := s.Reader.Read(ctx, image.GetFrame(), [][]byte{image.GetFrame().GetData()}, at)
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Release()
	if err := f.Check("frame"); err != nil {
		return nil, 0, 0, wire.Paths{Frame: at}.Translate(err)
	}
	if f.Coding != (kernels.Coding{}) {
		name := wire.FormatName(wire.SentLayoutOf(f.Picture).GetPixelFormat())
		return nil, 0, 0, apierr.Refuse(at+".layout.pixel_format", name,
			"must be gray or colours that need no conversion, such as GRAY8")
	}
	n := int64(f.Width) * int64(f.Height)
	if *pixels -= n; *pixels < 0 {
		return nil, 0, 0, apierr.Refuse(at, [2]int{f.Width, f.Height},
			"makes more than %d pixels of all images of the regions, which is the limit", s.Reader.MaxPixels)
	}
	if f.Resident.Len() > 0 {
		share, err := s.Reader.Host.Take(ctx, budget.Decoding, int64(f.Resident.Len()))
		if err != nil {
			return nil, 0, 0, err
		}
		defer share.Release()
		data := make([]byte, f.Resident.Len())
		share.FillAll()
		job := kernels.Job{Label: "download", Units: int64(len(data))}
		if err := dev.Do(ctx, job, func(q *kernels.Queue) error {
			return kernels.DownloadChunks(q, data, f.Resident)
		}); err != nil {
			return nil, 0, 0, err
		}
		f.Data = [][]byte{data}
	}
	b := runBuilder{request: budget.RequestOf(ctx), most: 3 * s.Bounds.MaxRegionVertices, path: path, x: image.GetX(),
		y: image.GetY()}
	err = s.Reader.Work.Do(ctx, int(n), smallImage, func(pause func() error) error {
		return b.scan(&f.Picture, pause)
	})
	b.request.Written(b.asked)
	return b.runs, f.Width, f.Height, err
}

// runBuilder makes runs of an image, whose memory counts for a request.
type runBuilder struct {
	request *budget.Request
	asked   int64 // bytes
	most    int   // numbers of runs
	path    string
	x, y    int32
	runs    []int32
}

// scan appends the runs of pixels that aren't black.
func (b *runBuilder) scan(f *kernels.Picture, pause func() error) error {
	pix, stride, size := f.Bytes(), f.RowBytes(), f.Format.PixelBytes()
	for y := range f.Height {
		if pause != nil {
			if err := pause(); err != nil {
				return err
			}
		}
		row := pix[y*stride:][:f.Width*size]
		for x := 0; x < f.Width; {
			for x < f.Width && !lit(row[x*size:][:size]) {
				x++
			}
			from := x
			for ; x < f.Width && lit(row[x*size:][:size]); x++ {
				if size == 4 && row[x*4+int(f.Format.Order[3])] != 255 {
					return apierr.Refuse(b.path+".image.frame", fmt.Sprintf("pixel (%d, %d)", x, y),
						"is not black, and not opaque: it would be taken as if it were; send a mask without transparency")
				}
			}
			if from == x {
				continue
			}
			if err := b.add(int32(y), int32(from), int32(x)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lit says that a pixel isn't black. Alpha, the fourth byte of four, has no part in it.
func lit(pixel []byte) bool {
	switch len(pixel) {
	case 1:
		return pixel[0] != 0
	case 2:
		return pixel[0]|pixel[1] != 0
	}
	return pixel[0]|pixel[1]|pixel[2] != 0
}

func (b *runBuilder) add(y, x0, x1 int32) error {
	if len(b.runs) == b.most {
		return apierr.Refuse(b.path, fmt.Sprintf("more than %d runs", b.most/3),
			"are too many: the limit is %d vertices in a region, as one of which a run counts", b.most/3)
	}
	if len(b.runs) == cap(b.runs) {
		const first, each = 3 << 10, 2 * 4 // the message's, and those of the set that it is compiled to
		more := min(max(cap(b.runs), first), b.most-len(b.runs))
		if !b.request.More(int64(more) * each) {
			return apierr.Quota(apierr.ReasonHostMemory, "host memory", fmt.Sprintf(
				"%s: requests under way leave no room for the %d bytes that the runs of the image take", b.path,
				b.asked+int64(more)*each))
		}
		b.asked += int64(more) * each
		b.runs = append(make([]int32, 0, len(b.runs)+more), b.runs...)
	}
	b.runs = append(b.runs, b.y+y, b.x+x0, b.x+x1)
	return nil
}
