package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// npyFile is a NumPy file, written by the description of its format.
func npyFile(descr string, fortran bool, shape string, values []byte) string {
	order := "False"
	if fortran {
		order = "True"
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
	for (10+len(head)+1)%64 != 0 {
		head += " "
	}
	head += "\n"
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(head)))) + head +
		string(values)
}

func int32s(order binary.AppendByteOrder, v ...int32) (b []byte) {
	for _, x := range v {
		b = order.AppendUint32(b, uint32(x))
	}
	return b
}

// readTriangles reads what triangulate has written, by the description of the format.
func readTriangles(t *testing.T, b []byte) (out []driver.Triangle) {
	t.Helper()
	if !bytes.HasPrefix(b, []byte("\x93NUMPY\x01\x00")) || len(b) < 10 {
		t.Fatalf("%q... is no NumPy file of version 1", b[:min(len(b), 20)])
	}
	n := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if n%64 != 0 || b[n-1] != '\n' {
		t.Fatalf("the header has %d bytes and ends in %q", n, b[n-1])
	}
	head, data := string(b[10:n]), b[n:]
	want := fmt.Sprintf("{'descr': '<u4', 'fortran_order': False, 'shape': (%d, 3), }", len(data)/12)
	if strings.TrimSpace(head) != want {
		t.Fatalf("the header is %q, want %q", head, want)
	}
	for ; len(data) > 0; data = data[12:] {
		out = append(out, driver.Triangle{
			A: binary.LittleEndian.Uint32(data), B: binary.LittleEndian.Uint32(data[4:]),
			C: binary.LittleEndian.Uint32(data[8:]),
		})
	}
	return out
}

func TestTriangulate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "triangles.npy")
	most := 2000
	switch {
	case race.Enabled:
		most = 60
	case testing.Short():
		most = 300
	}
	for n, set := range devicetest.PointSets(9, 5, most) {
		var rows, columns []int32
		for _, p := range set.Points {
			rows = append(rows, p.X, p.Y)
		}
		for i := range 2 {
			for j := i; j < len(rows); j += 2 {
				columns = append(columns, rows[j])
			}
		}
		shape := fmt.Sprintf("(%d, 2)", len(set.Points))
		for layout, file := range []string{
			npyFile("<i4", false, shape, int32s(binary.LittleEndian, rows...)),
			npyFile(">i4", false, shape, int32s(binary.BigEndian, rows...)),
			npyFile("<i4", true, shape, int32s(binary.LittleEndian, columns...)),
		} {
			if testing.Short() && n%3 != layout {
				continue
			}
			stdout := succeed(t, "triangulate", write(t, "points.npy", file), "-o", out)
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			got := readTriangles(t, b)
			if err := devicetest.CheckTriangles(set.Points, got); err != nil {
				t.Errorf("%s: %v", set.Name, err)
			}
			want := fmt.Sprintf("%s: %s of %s, in TIME by cpu\n", out, plural(len(got), "triangle", "triangles"),
				plural(len(set.Points), "point", "points"))
			if timeless(stdout) != want {
				t.Errorf("%s: it says %q, want %q", set.Name, stdout, want)
			}
		}
	}
	points := write(t, "points.npy", npyFile("<i4", false, "(3, 2)", int32s(binary.LittleEndian, 0, 0, 9, 0, 0, 9)))
	byVoronoi := readTriangles(t, []byte(succeed(t, "triangulate", points, "-o", "-", "--route", "voronoi")))
	if direct := readTriangles(t,
		[]byte(succeed(t, "triangulate", points, "-o", "-"))); devicetest.CompareTriangles(byVoronoi, direct) != nil {
		t.Errorf("by way of a Voronoi diagram: %v, directly: %v", byVoronoi, direct)
	}
	if out := succeed(t, "triangulate", points, "-o", filepath.Join(t.TempDir(), "t.npy"), "--route",
		"voronoi"); !strings.Contains(out, "By way of a Voronoi diagram: ") {
		t.Errorf("output %q", out)
	}
	got := readTriangles(t, []byte(succeed(t, "triangulate", points, "-o", "-")))
	if len(got) != 1 || got[0] != (driver.Triangle{A: 0, B: 1, C: 2}) {
		t.Errorf("on standard output: %v", got)
	}
	none := write(t, "points.npy", npyFile("<i4", false, "(0, 2)", nil))
	if out := succeed(t, "triangulate", none, "-o", filepath.Join(t.TempDir(), "t.npy"), "--route",
		"voronoi"); !strings.Contains(out, "By way of a Voronoi diagram: ") {
		t.Errorf("output of no points %q", out)
	}
	in := strings.NewReader(npyFile("<i4", false, "(3, 2)", int32s(binary.LittleEndian, 0, 0, 9, 0, 0, 9)))
	stdout, stderr, code := polyscanIn(t, t.Context(), in, "triangulate", "-", "-o", "-")
	if code != 0 || stderr != "" || !slices.Equal(readTriangles(t, []byte(stdout)), got) {
		t.Errorf("from standard input: exit %d, %q, %q", code, stdout, stderr)
	}
}

// Pictures are the same by both routes.
func TestLowpolyByVoronoi(t *testing.T) {
	board := filepath.Join("..", "..", "testdata", "board.png")
	direct := succeed(t, "lowpoly", board, "-o", "-", "--points", "300")
	if other := succeed(t, "lowpoly", board, "-o", "-", "--points", "300", "--route", "voronoi"); other != direct {
		t.Error("the pictures differ")
	}
}

func TestTriangulateRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "triangles.npy")
	far := int32s(binary.LittleEndian, 0, 0, 1, 0, 0, driver.MaxPoint+1)
	for file, says := range map[string]string{
		"":                                      "is no NumPy file",
		"PK\x03\x04":                            "is no NumPy file",
		"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR": "is no NumPy file that can be read: not a valid NumPy file format",
		npyFile("<i4", false, "(3, 2)", nil)[:30]:         "is no NumPy file",
		npyFile("<i4", false, "(3, 2", nil):               "",
		"\x93NUMPY\x02\x00\x00\x00\x01\x00{":              "its header is not what NumPy writes",
		"\x93NUMPY\x02\x00\x00\x00\x00\xf0{":              "its header is said to take 4026531840 bytes: the limit is 65536",
		npyFile("<f8", false, "(3, 2)", make([]byte, 48)): `has values of type "<f8"; points are int32`,
		npyFile("<i4", false, "(6,)", make([]byte, 24)):   "has the shape [6]",
		npyFile("<i4", false, "(2, 3)", make([]byte, 24)): "has the shape [2 3]",
		npyFile("<i4", false, "(99999999999, 2)", nil):    "promises 99999999999 points",
		npyFile("<i4", false, "(2, 2)", make([]byte, 24)): "goes on behind the 2 points that it promises",
		npyFile("<i4", false, "(4, 2)", make([]byte, 24)): "ends before its 4 points do",
		npyFile("<i4", false, "(3, 2)",
			far): "points.npy: points[2].y = 268435457: must be -268435456 to 268435456",
		npyFile("<i4", false, "(-1, 2)", make([]byte, 24)):        "",
		npyFile("<i4", false, "(1 << 3, 2)", make([]byte, 1<<10)): "",
	} {
		_, stderr, code := polyscan(t, "triangulate", write(t, "points.npy", file), "-o", out)
		if code == 0 || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%.40q: exit %d, %q, want one line with %q", file, code, stderr, says)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%.40q: a file was written", file)
		}
	}
	points := write(t, "points.npy", npyFile("<i4", false, "(0, 2)", nil))
	if _, stderr, code := polyscan(t, "triangulate", points, "-o",
		filepath.Join(t.TempDir(), "none", "x.npy")); code == 0 {
		t.Errorf("into a folder that is not there: %q", stderr)
	}
}

func FuzzReadPoints(f *testing.F) {
	f.Add([]byte(npyFile("<i4", false, "(3, 2)", make([]byte, 24))))
	f.Add([]byte(npyFile(">i4", true, "(1, 2)", make([]byte, 8))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if points, err := decodePoints("points.npy", bytes.NewReader(b), int64(len(b))); err == nil &&
			len(points) > len(b)/8 {
			t.Errorf("%d points of %d bytes", len(points), len(b))
		}
	})
}
