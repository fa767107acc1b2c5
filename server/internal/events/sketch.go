// Sketches: small pictures of frames and parts, drawn while the pixels pass.

package events

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"slices"
	"time"

	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Sketch is every step-th pixel of every step-th row of a frame or part. Taking it reads those pixels and no others, so
// it costs as little as the picture is small, on the host, whatever the device.
type Sketch struct {
	stream        *Stream
	subs          []*Subscription // that it is for
	step          int
	width, height int // of the frame
	channels      int // 1, or 3: red, green, blue
	pix           []byte
}

// Sketch begins a picture of a frame of width x height; nil where nobody is due one.
func (s *Stream) Sketch(width, height int, f kernels.PixelFormat) *Sketch {
	if s == nil {
		return nil
	}
	all := s.bus.pictures.Load()
	if all == nil || len(*all) == 0 {
		return nil
	}
	var k *Sketch
	now := steady.Now()
	pixels := 0
	for _, sub := range *all {
		due := sub.nextPicture.Load()
		if now < due || !sub.filter.Kinds[PreviewKind] || !sub.filter.stream(s) {
			continue
		}
		// Those that were due for long don't come in a burst.
		next := max(due+int64(sub.filter.Preview.Every), now+int64(sub.filter.Preview.Every)/2)
		if !sub.nextPicture.CompareAndSwap(due, next) {
			continue
		}
		if k == nil {
			k = &Sketch{stream: s, width: width, height: height, channels: 1}
		}
		k.subs = append(k.subs, sub)
		pixels = max(pixels, sub.filter.Preview.Pixels)
	}
	if k == nil {
		return nil
	}
	if f.Channels >= 3 {
		k.channels = 3
	}
	k.step = stepFor(width, height, pixels)
	w, h := k.size()
	k.pix = make([]byte, w*h*k.channels)
	return k
}

// stepFor is the distance of pixels that are drawn, so that they are at most so many.
func stepFor(width, height, pixels int) int {
	step := max(1, int(math.Sqrt(float64(width)*float64(height)/float64(pixels))))
	for ceil(width, step)*ceil(height, step) > pixels && step < max(width, height) {
		step++
	}
	return step
}

func ceil(n, d int) int { return (n + d - 1) / d }

func (k *Sketch) size() (width, height int) { return ceil(k.width, k.step), ceil(k.height, k.step) }

// centre is the pixel in the middle of the i-th step of n pixels.
func centre(i, step, n int) int { return min(i*step+step/2, n-1) }

// Draw takes the pixels of rows of the frame: p's first row is row first, which may be negative. p has Data. Bayer has
// the colours of two by two pixels, without interpolation.
func (k *Sketch) Draw(first int, p kernels.Picture) {
	w, h := k.size()
	at := pieces{data: p.Data}
	each, shift := p.Format.PixelBytes(), p.Format.Bits-8
	coded := p.Coding != (kernels.Coding{})
	for i := max(0, (first-k.step/2)/k.step); i < h; i++ {
		row := centre(i, k.step, k.height)
		if row < first {
			continue
		}
		if row >= first+p.Height {
			break
		}
		to := k.pix[i*w*k.channels:]
		line := (row - first) * p.RowBytes()
		if coded {
			for j := range w {
				c := p.Sketch(centre(j, k.step, k.width), row-first, at.at)
				copy(to[j*k.channels:][:k.channels], c[:])
			}
			continue
		}
		if whole := at.whole(line, k.width*each); whole != nil && each == 1 {
			for j := range w - 1 { // as below, where it matters: a line camera's rows are gray and in one piece
				to[j] = whole[j*k.step+k.step/2]
			}
			to[w-1] = whole[centre(w-1, k.step, k.width)]
			continue
		}
		for j := range w {
			from := line + centre(j, k.step, k.width)*each
			if p.Format.SampleBytes == 2 {
				to[j] = byte(min((int(at.at(from))|int(at.at(from+1))<<8)>>shift, 255))
				continue
			}
			for c := range k.channels {
				to[j*k.channels+c] = at.at(from + int(p.Format.Order[c]))
			}
		}
	}
}

// pieces finds bytes in data that is cut anywhere, by and large in ascending order.
type pieces struct {
	data    [][]byte
	i, base int
}

func (p *pieces) at(offset int) byte {
	p.seek(offset)
	return p.data[p.i][offset-p.base]
}

// whole are n bytes; nil where they are not in one piece.
func (p *pieces) whole(offset, n int) []byte {
	p.seek(offset)
	if at := offset - p.base; at+n <= len(p.data[p.i]) {
		return p.data[p.i][at:][:n]
	}
	return nil
}

// seek finds the piece of a byte.
func (p *pieces) seek(offset int) {
	for offset < p.base {
		p.i--
		p.base -= len(p.data[p.i])
	}
	for offset-p.base >= len(p.data[p.i]) {
		p.base += len(p.data[p.i])
		p.i++
	}
}

// drawn is a sketch that is whole, and what its part came to.
type drawn struct {
	*Sketch
	number  uint64
	partID  string
	verdict pb.Verdict
	result  *polygon.Result
	at      time.Time
}

// drawings is how many sketches may wait to be encoded.
const drawings = 4

// Done says that all rows have been drawn. It doesn't wait: where too many pictures are being encoded, this one is
// lost.
func (k *Sketch) Done(number uint64, partID string, v pb.Verdict, r *polygon.Result) {
	if k == nil {
		return
	}
	d := &drawn{k, number, partID, v, r.AsRows(), time.Now()}
	select {
	case k.stream.bus.drawer <- d:
	default:
		d.miss()
	}
}

func (d *drawn) miss() {
	for _, s := range d.subs {
		s.missPicture()
	}
}

// draw encodes sketches, one at a time, beside other computing on the host.
func (b *Bus) draw() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ended.Go(func() {
		<-b.stop
		cancel()
	})
	for {
		select {
		case <-b.stop:
			return
		case d := <-b.drawer:
			turn, err := b.work.Enter(ctx)
			if err != nil {
				return
			}
			b.turn <- struct{}{}
			encoded := d.encode(b.behind(turn))
			<-b.turn
			turn.Leave()
			d.deliver(encoded)
		}
	}
}

// A picture lets strips go first, each time for one of them, and in all for so long: a line that always has a strip in
// work gets pictures late, and some are lost, but there are some.
const (
	oneStrip  = 5 * time.Millisecond
	allStrips = 100 * time.Millisecond
)

// behind lets others go first, for encoders to call each 50 µs or so.
func (b *Bus) behind(turn *hostwork.Turn) func() {
	end := time.Now().Add(allStrips)
	return func() {
		<-b.turn
		_ = turn.Yield() // where the bus ends, this picture is the last one
		b.work.Quiet(min(oneStrip, time.Until(end)))
		b.turn <- struct{}{}
	}
}

// pacedBuffer is a buffer for encoders that write byte by byte, or in pieces, and lets others go first now and then.
type pacedBuffer struct {
	bytes.Buffer
	pause func()
	since int
}

// paceBytes is what a JPEG encoder writes in some 30 µs.
const paceBytes = 256

func (b *pacedBuffer) WriteByte(c byte) error {
	b.pace(1)
	return b.Buffer.WriteByte(c)
}

func (b *pacedBuffer) Write(p []byte) (int, error) {
	b.pace(len(p))
	return b.Buffer.Write(p)
}

// Flush makes it what package jpeg writes to without a buffer of its own.
func (b *pacedBuffer) Flush() error { return nil }

func (b *pacedBuffer) pace(n int) {
	if b.since += n; b.since >= paceBytes {
		b.since = 0
		b.pause()
	}
}

// encode makes what each of a sketch's subscriptions wants, those that want the same alike; nil where it can't.
func (d *drawn) encode(pause func()) (encoded []*Event) {
	made := map[Preview]*Event{}
	for _, s := range d.subs {
		want := *s.filter.Preview
		want.Every = 0
		e := made[want]
		if e == nil {
			p, size, err := d.as(want, pause)
			if err != nil {
				encoded = append(encoded, nil)
				continue
			}
			// It takes no place among the others, nor in the ring: a picture is for those who look on now.
			e = &Event{Kind: PreviewKind, At: d.at, Stream: d.stream, Preview: p, size: eventBytes + size}
			d.stream.bus.metrics.Published(int(PreviewKind))
			made[want] = e
		}
		encoded = append(encoded, e)
	}
	return encoded
}

// deliver hands each subscription its picture, one after the other as events are.
func (d *drawn) deliver(encoded []*Event) {
	b := d.stream.bus
	rest := pauseFor(len(d.subs)) / time.Duration(len(d.subs))
	end := time.Now().Add(allStrips)
	for i, s := range d.subs {
		if encoded[i] == nil {
			s.missPicture()
			continue
		}
		time.Sleep(rest)
		b.work.Quiet(min(oneStrip, time.Until(end)))
		b.turn <- struct{}{}
		if s.picture(encoded[i]) {
			s.await(mostSending)
		}
		<-b.turn
	}
}

// as is the sketch as one kind of subscription wants it, and about what it takes in memory.
func (d *drawn) as(want Preview, pause func()) (p *pb.Preview, bytes int64, err error) {
	defer hostwork.Recovered(&err, d.stream.bus.metrics.Panics)
	w, h := d.size()
	n := stepFor(w, h, want.Pixels) // where it is to be smaller
	rect := image.Rect(0, 0, ceil(w, n), ceil(h, n))
	var im image.Image
	switch {
	case d.channels == 1 && n == 1: // as most are
		im = &image.Gray{Pix: d.pix, Stride: w, Rect: rect}
	case d.channels == 1:
		gray := image.NewGray(rect)
		for y := range rect.Max.Y {
			pause()
			for x := range rect.Max.X {
				gray.Pix[y*gray.Stride+x] = d.pix[centre(y, n, h)*w+centre(x, n, w)]
			}
		}
		im = gray
	default:
		colour := image.NewRGBA(rect)
		for y := range rect.Max.Y {
			pause()
			for x := range rect.Max.X {
				to := colour.Pix[y*colour.Stride+4*x:]
				copy(to, d.pix[3*(centre(y, n, h)*w+centre(x, n, w)):][:3])
				to[3] = 255
			}
		}
		im = colour
	}
	p = &pb.Preview{
		StreamId: d.stream.ID, Name: d.stream.Name, PartId: d.partID, ResultNumber: d.number, Verdict: d.verdict,
		Width: uint32(rect.Max.X), Height: uint32(rect.Max.Y), Scale: float64(d.step * n),
		Encoding: pb.Encoding_ENCODING_JPEG,
	}
	pause()
	buf := pacedBuffer{pause: pause}
	if want.PNG {
		p.Encoding = pb.Encoding_ENCODING_PNG
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&buf, im)
	} else {
		err = jpeg.Encode(&buf, im, &jpeg.Options{Quality: 80})
	}
	p.Data = buf.Bytes()
	size := int64(cap(p.Data))
	if !want.NoPlaces {
		p.Places = d.places(1/p.Scale, &size)
	}
	return p, size, err
}

// placeVertices is how many vertices the regions may have that are drawn as they are.
const placeVertices = 1 << 14

// shapes are regions as far as previews show where they are: nil where they have too many vertices.
func shapes(regions []*pb.Region) []*pb.Region {
	n := 0
	for _, r := range regions {
		for _, ring := range r.GetRings() {
			n += len(ring.GetXy()) / 2
		}
		n += 4 * (len(r.GetMask().GetRuns()) / 3) // around each run
	}
	if n > placeVertices {
		return nil
	}
	return regions
}

// Outline are the rings that show where a region of the stream was measured: those that it was drawn with, moved with
// the pose of its part, or the box around its pixels where the stream doesn't have them.
func (s *Stream) Outline(r *polygon.RegionResult, pose *polygon.Pose) []*pb.Ring {
	if r.Index >= len(s.Regions) || s.Regions[r.Index].GetShape() != "" {
		b := r.Bounds
		if b.Empty() {
			return nil
		}
		x0, y0, x1, y1 := float64(b.X0), float64(b.Y0), float64(b.X1), float64(b.Y1)
		return []*pb.Ring{{Xy: []float64{x0, y0, x1, y0, x1, y1, x0, y1}}}
	}
	rings := ringsOf(s.Regions[r.Index])
	if pose == nil {
		return rings
	}
	moved := make([]*pb.Ring, len(rings))
	for i, ring := range rings {
		xy := slices.Clone(ring.GetXy())
		for k := 0; k+1 < len(xy); k += 2 {
			at := pose.To(polygon.Point{X: xy[k], Y: xy[k+1]})
			xy[k], xy[k+1] = at.X, at.Y
		}
		moved[i] = &pb.Ring{Xy: xy}
	}
	return moved
}

// ringsOf are the rings of a region, or around the pixels of its mask.
func ringsOf(r *pb.Region) []*pb.Ring {
	if r.GetMask() == nil {
		return r.GetRings()
	}
	rings := polygon.Outline(wire.RunsOf(r.GetMask().GetRuns()))
	out := make([]*pb.Ring, len(rings))
	for i, ring := range rings {
		out[i] = &pb.Ring{Xy: make([]float64, 0, 2*len(ring))}
		for _, p := range ring {
			out[i].Xy = append(out[i].Xy, p.X, p.Y)
		}
	}
	return out
}

// mostPlaces is how many regions a picture shows.
const mostPlaces = 1 << 12

// places are where the regions lie in a picture of a scale. Their memory is added to size.
func (d *drawn) places(scale float64, size *int64) []*pb.RegionPlace {
	if d.result == nil {
		return nil
	}
	regions := d.result.Regions
	regions = regions[:min(len(regions), mostPlaces)]
	out := make([]*pb.RegionPlace, 0, len(regions))
	for i := range regions {
		r := &regions[i]
		p := &pb.RegionPlace{Index: uint32(r.Index), Name: r.Name, Verdict: pb.Verdict(r.Verdict)}
		*size += 256
		for _, ring := range d.stream.Outline(r, d.result.Pose) {
			xy := make([]float32, len(ring.GetXy()))
			for k, v := range ring.GetXy() {
				xy[k] = float32(v * scale)
			}
			p.Rings = append(p.Rings, &pb.PlaceRing{Xy: xy})
			*size += 128 + 4*int64(len(xy))
		}
		out = append(out, p)
	}
	return out
}
