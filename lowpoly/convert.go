package lowpoly

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Result is what [Convert] made of a picture.
type Result struct {
	// Picture has the size and the format of the one converted, unless the stage says another format. Its pixels are in
	// one piece, without gaps between rows.
	kernels.Picture
	Mesh Mesh
	kernels.Timing
}

// Convert makes a low-poly picture of an image, in one job on dev. Bad input is an [*kernels.InvalidError]; where
// the device has no room the error is a [*kernels.CapacityError]. Time grows with the pixels, and hardly with the
// vertices.
//
// Vertices are corners of pixels, those of the image among them, so the triangles cover all of it, and each pixel has
// the colour of one. Samples of all channels are treated alike, alpha too. An image without edges has vertices all
// over. The same image and options give the same picture and the same set of triangles on every backend, and with any
// number of threads.
//
// It takes device memory for the image twice (once, where it is there already), or for the image and 6 bytes a pixel,
// and some 200 bytes a vertex. Between steps, jobs of more urgent classes go first. The image is only read, and only
// during the call; the picture is the caller's.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter; Yang, Low poly in CUDA, 2018; the doc comments
// of [driver.SelectVertices], [driver.Triangulate] and [driver.Shade] say what is different.
func Convert(ctx context.Context, dev *kernels.Device, im kernels.Picture, opt Options) (*Result, error) {
	if err := im.Check("image"); err != nil {
		return nil, err
	}
	rule, n, err := opt.rule(im.Width, im.Height)
	if err != nil {
		return nil, err
	}
	c := &conversion{Picture: im, opt: opt, rule: rule, n: n, out: &Result{}}
	if err := c.do(ctx, dev); err != nil {
		return nil, err
	}
	return c.out, nil
}

// conversion is a Convert in progress.
type conversion struct {
	kernels.Picture
	opt   Options
	rule  driver.VertexRule
	n     int // vertices wanted
	out   *Result
	video *film // nil for an image
	alone bool  // it doesn't follow the frame before

	mesher mesher

	// Scratch bytes of the other ops, and of the Voronoi stage.
	choosing, shading, labelling int64

	intake kernels.Intake
	image  driver.Image                 // of what it brings
	points kernels.Buffer[driver.Point] // n; behind those that were chosen are copies of the first
	edges  []uint16                     // of stages that show them
	colors []byte                       // of triangles
	found  struct {
		points    [1]uint32
		triangles [1]driver.MeshCounts
	}
}

// do computes out, whose memory is used where there is enough.
func (c *conversion) do(ctx context.Context, dev *kernels.Device) error {
	c.intake.Take(&c.Picture, 0, c.Height)
	defer c.intake.Forget()
	if err := c.plan(dev); err != nil {
		return err
	}
	job := kernels.Job{
		Label: "lowpoly", Footprint: c.footprint(), Held: kernels.Held(c.Resident) + c.video.held(),
		Units: int64(c.Width) * int64(c.Height), Timing: &c.out.Timing,
	}
	return dev.Do(ctx, job, c.run)
}

// resize is s with n elements of any content.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

func (c *conversion) plan(dev *kernels.Device) (err error) {
	if c.choosing, err = dev.Scratch(&driver.SelectVertices{N: c.n, Width: c.Width, Height: c.Height,
		VertexRule: c.rule}); err != nil {
		return err
	}
	if c.mesher, err = newMesher(dev, c.opt.Route, c.n, c.Width+1, c.Height+1); err != nil {
		return err
	}
	frame := driver.Image{Width: c.Width, Height: c.Height, Stride: c.intake.Stride(), Format: c.Format}
	if c.shading, err = dev.Scratch(&driver.Shade{Src: frame, Dst: frame, Max: 2 * c.n,
		Method: c.opt.Method}); err != nil {
		return err
	}
	if c.opt.Stage == StageVoronoi {
		c.labelling, err = dev.Scratch(&driver.Voronoi{N: c.n, Width: c.Width, Height: c.Height, Method: c.opt.Voronoi})
	}
	return err
}

// footprint is what run allocates at most. It frees in the reverse order of its allocs, so steps count one by one.
func (c *conversion) footprint() int64 {
	pixels, scratch := c.Width*c.Height, func(n int64) int64 { return kernels.Bytes[byte](int(n)) }
	choose := kernels.Bytes[uint16](pixels) + kernels.Bytes[driver.Point](len(c.opt.Previous)) +
		kernels.Bytes[uint32](1) + scratch(c.choosing)
	mesh := kernels.Bytes[driver.Triangle](2*c.n) + kernels.Bytes[driver.MeshCounts](1)
	shade := scratch(2*int64(c.n)*int64(c.Format.PixelBytes())) + scratch(c.shading)
	if c.video == nil {
		shade += scratch(int64(pixels) * int64(c.Format.PixelBytes()))
	} else {
		shade += kernels.Bytes[uint32](1)
	}
	steps := max(choose, mesh+max(c.mesher.footprint(), shade))
	if c.opt.Stage == StageVoronoi {
		steps = max(steps, kernels.Bytes[driver.Point](c.n)+kernels.Bytes[uint32](pixels)+scratch(c.labelling))
	}
	return c.intake.Footprint() + kernels.Bytes[driver.Point](c.n) + steps
}

func (c *conversion) run(q *kernels.Queue) (err error) {
	if c.image, err = c.intake.Run(q); err != nil {
		return err
	}
	s := &stack{q: q}
	c.points = take[driver.Point](s, c.n, "points")
	if s.err != nil {
		return s.err
	}
	if err := c.triangles(q); err != nil {
		return err
	}
	if err := c.intake.Err("image"); err != nil {
		return err
	}
	if c.video.cut() {
		c.alone, c.opt.Previous = true, nil
		if err := c.triangles(q); err != nil {
			return err
		}
	}
	switch c.opt.Stage {
	case StageEdges, StagePoints:
		c.showEdges()
	case StageVoronoi:
		return c.showVoronoi(q)
	case StageWireframe:
		c.showWireframe()
	}
	return nil
}

// triangles is the steps from the image to the picture of triangles, one behind the other: what one finds the next
// reads on the device.
func (c *conversion) triangles(q *kernels.Queue) error {
	p := newPace(q, int64(c.Width)*int64(c.Height), steps)
	if err := c.choose(p); err != nil {
		return err
	}
	if err := c.shade(p); err != nil {
		return err
	}
	if err := q.Wait(); err != nil {
		return err
	}
	m := &c.out.Mesh
	points, triangles := int(c.found.points[0]), int(c.found.triangles[0].Triangles)
	if points > c.n || triangles > len(m.Triangles) {
		return fmt.Errorf("lowpoly: the device chose %d vertices of %d, and returned %d triangles", points, c.n,
			triangles)
	}
	m.Width, m.Height, m.Points, m.Triangles = c.Width, c.Height, m.Points[:points], m.Triangles[:triangles]
	m.Colors = resize(m.Colors, triangles)
	size := c.Format.PixelBytes()
	for i := range m.Colors {
		m.Colors[i] = colorOf(c.colors[i*size:][:size], c.Format)
	}
	return nil
}

// canvas makes out a picture of a format, and returns its pixels, of any content.
func (c *conversion) canvas(f driver.PixelFormat) []byte {
	pixels := resize(c.out.Bytes(), c.Width*c.Height*f.PixelBytes())
	c.out.Picture = kernels.Picture{Width: c.Width, Height: c.Height, Format: f, Data: append(c.out.Data[:0], pixels)}
	return pixels
}

// steps is how many of triangles take time: edges, vertices, triangulation and shading.
const steps = 4

// pace cuts the steps into chunks of about a millisecond: small pictures are one, and of large ones each step is.
type pace struct {
	*kernels.Queue
	step, left  int64 // units: of a step, and of those that are left
	quota, done int64 // of the chunk
}

func newPace(q *kernels.Queue, pixels int64, steps int) *pace {
	p := &pace{Queue: q, step: pixels, left: pixels * int64(steps)}
	p.quota = q.Chunk("lowpoly", p.left)
	return p
}

// next is called behind each step.
func (p *pace) next() error {
	p.done += p.step
	if p.left -= p.step; p.left == 0 || p.done+p.step <= p.quota {
		return nil
	}
	p.SetChunkUnits(p.done)
	if err := p.Yield(); err != nil {
		return err
	}
	p.quota, p.done = p.Chunk("lowpoly", p.left), 0
	return nil
}

// stack is the memory of a step, to be given back in the reverse order.
type stack struct {
	q     *kernels.Queue
	err   error // the first one of take
	frees []func() error
}

// take is kernels.Alloc.
func take[T kernels.Elem](s *stack, n int, label string) (b kernels.Buffer[T]) {
	if s.err == nil && n > 0 {
		b, s.err = kernels.Alloc[T](s.q, n, label)
		s.frees = append(s.frees, func() error { return kernels.Free(s.q, b) })
	}
	return b
}

func (s *stack) free() error {
	for _, f := range slices.Backward(s.frees) {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// choose is the steps from the image to the vertices.
func (c *conversion) choose(p *pace) error {
	q := p.Queue
	s := &stack{q: q}
	edges := take[uint16](s, c.Width*c.Height, "edges")
	previous := take[driver.Point](s, len(c.opt.Previous), "previous")
	count := take[uint32](s, 1, "count")
	scratch := take[byte](s, int(c.choosing), "scratch")
	if s.err != nil {
		return s.err
	}
	if len(c.opt.Previous) > 0 {
		if err := kernels.Upload(q, previous, c.opt.Previous); err != nil {
			return err
		}
	}
	if err := q.Run(&driver.Edges{Src: c.image, Dst: edges.Slice()}); err != nil {
		return err
	}
	if err := p.next(); err != nil {
		return err
	}
	if err := q.Run(&driver.SelectVertices{
		Edges: edges.Slice(), Width: c.Width, Height: c.Height, VertexRule: c.rule, N: c.n,
		Previous: previous.Slice(), NPrevious: previous.Len(),
		Points: c.points.Slice(), Count: count.Slice(), Scratch: scratch.Slice(),
	}); err != nil {
		return err
	}
	m := &c.out.Mesh
	m.Points = resize(m.Points, c.n)
	if err := kernels.Download(q, m.Points, c.points); err != nil {
		return err
	}
	if err := kernels.Download(q, c.found.points[:], count); err != nil {
		return err
	}
	if c.opt.Stage == StageEdges || c.opt.Stage == StagePoints {
		c.edges = resize(c.edges, edges.Len())
		if err := kernels.Download(q, c.edges, edges); err != nil {
			return err
		}
	}
	if err := p.next(); err != nil {
		return err
	}
	return s.free()
}

// shade is the steps from the vertices to the picture.
func (c *conversion) shade(p *pace) error {
	q := p.Queue
	s := &stack{q: q}
	n := c.n
	triangles := take[driver.Triangle](s, 2*n, "triangles")
	counts := take[driver.MeshCounts](s, 1, "count")
	if s.err != nil {
		return s.err
	}
	if err := c.mesher.run(q, c.points, triangles, counts); err != nil {
		return err
	}
	if err := p.next(); err != nil {
		return err
	}
	size := c.Format.PixelBytes()
	dst := c.video.after()
	if c.video == nil {
		dst = take[byte](s, c.Width*c.Height*size, "picture")
	}
	colors := take[byte](s, 2*n*size, "colours")
	scratch := take[byte](s, int(c.shading), "scratch")
	if s.err != nil {
		return s.err
	}
	picture := func(b kernels.Buffer[byte]) driver.Image {
		return driver.Image{Data: b.Slice(), Width: c.Width, Height: c.Height, Stride: c.Width * size, Format: c.Format}
	}
	if err := q.Run(&driver.Shade{
		Src: c.image, Points: c.points.Slice(), N: n, Triangles: triangles.Slice(), Count: countOf(counts), Max: 2 * n,
		Color: c.opt.Color, Method: c.opt.Method, Dst: picture(dst), Colors: colors.Slice(), Scratch: scratch.Slice(),
	}); err != nil {
		return err
	}
	if before, ok := c.video.before(); ok && !c.alone {
		changed := take[uint32](s, 1, "count")
		if s.err != nil {
			return s.err
		}
		limit, jump := c.limits()
		if err := q.Run(&driver.Hold{
			Before: picture(before), Limit: limit, Jump: jump, Points: c.points.Slice(), N: n,
			Triangles: triangles.Slice(), Count: countOf(counts), Max: 2 * n, Dst: picture(dst), Colors: colors.Slice(),
			Changed: changed.Slice(),
		}); err != nil {
			return err
		}
		if err := kernels.Download(q, c.video.changed[:], changed); err != nil {
			return err
		}
	}
	m := &c.out.Mesh
	m.Triangles, c.colors = resize(m.Triangles, triangles.Len()), resize(c.colors, colors.Len())
	if err := cmp.Or(
		kernels.Download(q, m.Triangles, triangles),
		kernels.Download(q, c.found.triangles[:], counts),
		kernels.Download(q, c.colors, colors),
	); err != nil {
		return err
	}
	if err := p.next(); err != nil {
		return err
	}
	if err := kernels.DownloadChunks(q, c.canvas(c.Format), dst); err != nil {
		return err
	}
	return s.free()
}
