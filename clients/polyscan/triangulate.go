package main

// polyscan triangulate: points to triangles.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sbinet/npyio/npy"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type triangulateCmd struct {
	// NumPy file of points: int32, N rows of x and y; - is standard input.
	Points string `arg:"" predictor:"file"`

	// NumPy file to write: uint32, M rows of three indices of points. - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// How to find the triangles: direct, or voronoi, by way of a discrete Voronoi diagram and flips. The triangles
	// are the same.
	Route string `enum:"direct,voronoi" default:"direct"`
	// Run as batch work, after everything more urgent on the server.
	Batch bool `group:"server" needs:"addr"`
	deviceFlags
	serverFlags
}

func (c *triangulateCmd) Help() string {
	return `
Computes the Delaunay triangulation of points: exact, covering their convex hull, and unique, so that every device
gives the same triangles. Where more than three points lie on a circle, the polygon that they span becomes a fan
around its point of least x, then least y. Of equal points the first is used. Points that are all on one line have no
triangles.

Each triangle starts with its least index and turns from the x axis towards the y axis, which looks clockwise on a
screen, whose y points down. Coordinates go from -268435456 to 268435456.

Examples:

    polyscan triangulate points.npy -o triangles.npy
`
}

// What a point takes of the device's memory, and a pixel of a Voronoi diagram between points and triangles, and a
// little more.
const (
	pointMemory   = 160
	diagramMemory = 9
)

func (c *triangulateCmd) Run(e *env) (err error) {
	if err := checkOutputs(inputs{c.Points}, output{"--output", c.Output, ".npy"}); err != nil {
		return err
	}
	points, err := readPoints(e, c.Points)
	if err != nil {
		return err
	}
	// A million points and more don't fit in what a server inside the process reserves unless it is told.
	need := int64(len(points)) * pointMemory
	if routeOf(c.Route) == polyscanv1.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI {
		need += diagramMemory * pixelsAround(points)
	}
	if need > 1<<30 {
		c.memory = need
	}
	c.points = len(points)
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	opt := clients.TriangulateOptions{Class: polyscanv1.WorkClass_WORK_CLASS_INTERACTIVE, Route: routeOf(c.Route)}
	if c.Batch {
		opt.Class = polyscanv1.WorkClass_WORK_CLASS_BATCH
	}
	res, err := conn.Triangulate(conn.ctx, points, opt)
	if err != nil {
		return conn.fail(err, inputName(c.Points), nil)
	}
	write := func(w io.Writer) error { return writeTriangles(w, res.Triangles) }
	if c.Output == "-" {
		return write(e.stdout)
	}
	if err := writeFile(c.Output, write); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s of %s, in %s by %s\n", c.Output,
		plural(len(res.Triangles), "triangle", "triangles"), plural(len(points), "point", "points"),
		pretty(res.Compute), res.Backend)
	if s := res.Steps; s != nil && err == nil {
		_, err = fmt.Fprintf(e.stdout,
			"By way of a Voronoi diagram: %s in islands, %d edges around the triangles between cells and %d around all, "+
				"%s in %s\n",
			plural(int(s.GetIslands()), "pixel", "pixels"), s.GetBorderEdges(), s.GetHullEdges(),
			plural(int(s.GetFlips()), "flip", "flips"),
			plural(int(s.GetRounds()), "round", "rounds"))
	}
	return err
}

// routeOf is the route of a name.
func routeOf(name string) polyscanv1.TriangulateRoute {
	return polyscanv1.TriangulateRoute(polyscanv1.TriangulateRoute_value["TRIANGULATE_ROUTE_"+strings.ToUpper(name)])
}

// pixelsAround is how many pixels the rectangle around points has; no more than a server takes.
func pixelsAround(points []clients.Point) int64 {
	if len(points) == 0 {
		return 0
	}
	low, high := points[0], points[0]
	for _, p := range points {
		low.X, low.Y = min(low.X, p.X), min(low.Y, p.Y)
		high.X, high.Y = max(high.X, p.X), max(high.Y, p.Y)
	}
	return min((int64(high.X)-int64(low.X)+1)*(int64(high.Y)-int64(low.Y)+1), 1<<29)
}

// readPoints reads a NumPy file of int32 pairs, or standard input for "-".
func readPoints(e *env, name string) ([]clients.Point, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, bad(name, "%v", reason(err))
		}
		defer f.Close()
		switch info, err := f.Stat(); {
		case err != nil:
			return nil, bad(name, "%v", reason(err))
		case info.IsDir():
			return nil, bad(name, "is a folder, and no NumPy file")
		case info.Mode().IsRegular():
			return decodePoints(name, f, info.Size())
		}
	}
	data, err := readInput(e, name, maxFile)
	if err != nil {
		return nil, err
	}
	return decodePoints(inputName(name), bytes.NewReader(data), int64(len(data)))
}

// decodePoints reads a NumPy file of so many bytes. What the header promises is held against them before it is
// believed.
func decodePoints(name string, file io.Reader, size int64) ([]clients.Point, error) {
	in := bufio.NewReaderSize(file, 1<<20)
	r, err := npyHeader(in)
	if err != nil {
		return nil, bad(name, "is no NumPy file that can be read: %v", err)
	}
	d := r.Header.Descr
	switch {
	case d.Type != "<i4" && d.Type != ">i4":
		return nil, bad(name, "has values of type %q; points are int32", d.Type)
	case len(d.Shape) != 2 || d.Shape[1] != 2 || d.Shape[0] < 0:
		return nil, bad(name, "has the shape %v; points are N rows of x and y", d.Shape)
	case int64(d.Shape[0]) > size/8:
		return nil, bad(name, "promises %d points and has %d bytes", d.Shape[0], size)
	}
	n := d.Shape[0]
	v := make([]int32, 0, 2*n)
	if n > 0 {
		if err := r.Read(&v); err != nil {
			return nil, bad(name, "ends before its %d points do", n)
		}
	}
	if _, err := in.ReadByte(); err == nil {
		return nil, bad(name, "goes on behind the %d points that it promises", n)
	}
	points := make([]clients.Point, n)
	for i := range points {
		if d.Fortran { // all x, then all y
			points[i] = clients.Point{X: v[i], Y: v[n+i]}
		} else {
			points[i] = clients.Point{X: v[2*i], Y: v[2*i+1]}
		}
	}
	return points, nil
}

// maxNpyHeader is far more than arrays of numbers have: headers of version 2 are for those of records.
const maxNpyHeader = 1 << 16

// npyHeader reads what is in front of the values. The library allocates what a header says that it takes, and panics on
// some that nobody writes.
func npyHeader(r *bufio.Reader) (n *npy.Reader, err error) {
	const major, length = 6, 8 // where they are; the magic is before
	if head, err := r.Peek(length + 4); err == nil && head[major] > 1 && string(head[:major]) == "\x93NUMPY" {
		if n := binary.LittleEndian.Uint32(head[length:]); n > maxNpyHeader {
			return nil, fmt.Errorf("its header is said to take %d bytes: the limit is %d", n, maxNpyHeader)
		}
	}
	defer func() {
		if recover() != nil {
			err = errors.New("its header is not what NumPy writes")
		}
	}()
	if n, err = npy.NewReader(r); err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "npy: "))
	}
	return n, err
}

// writeTriangles writes a NumPy file. The library that reads them would write an array without rows as one without
// columns, too.
func writeTriangles(w io.Writer, triangles []clients.Triangle) error {
	head := fmt.Sprintf("{'descr': '<u4', 'fortran_order': False, 'shape': (%d, 3), }", len(triangles))
	const before = 10 // magic, version and length; with them the header is a multiple of 64 bytes, and ends a line
	head += strings.Repeat(" ", 63-(before+len(head))%64) + "\n"
	b := bufio.NewWriterSize(w, 1<<20)
	b.WriteString("\x93NUMPY\x01\x00")
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(head))))
	b.WriteString(head)
	var row [12]byte
	for _, t := range triangles {
		for i, v := range t {
			binary.LittleEndian.PutUint32(row[4*i:], v)
		}
		b.Write(row[:])
	}
	return b.Flush() // with the first error
}
