package regionfile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// manyRegions writes n regions of 12 vertices in polyscan's own format.
func manyRegions(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString("[\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "C%d", "rings": [[`, i)
		x, y := rng.Float64()*9000, rng.Float64()*4000
		for k := range 12 {
			if k > 0 {
				b.WriteString(", ")
			}
			s, c := math.Sincos(float64(k) * math.Pi / 6)
			fmt.Fprintf(&b, "[%.8g, %.8g]", math.Round((x+20*c)*256)/256, math.Round((y+20*s)*256)/256)
		}
		b.WriteString("]]}")
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}

func benchmarkParse(b *testing.B, data []byte, regions int) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := Parse("", data, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(f.Regions) != regions {
			b.Fatalf("%d regions, want %d", len(f.Regions), regions)
		}
	}
}

// 100,000 regions, 1.2 million vertices: the largest frame with default limits.
func BenchmarkRegions(b *testing.B) { benchmarkParse(b, manyRegions(100_000), 100_000) }

func BenchmarkGeoJSON(b *testing.B) {
	var s strings.Builder
	s.WriteString(`{"type":"FeatureCollection","features":[`)
	const n = 10_000
	for i := range n {
		if i > 0 {
			s.WriteString(",\n")
		}
		fmt.Fprintf(&s,
			`{"type":"Feature","properties":{"name":"f%d"},"geometry":{"type":"Polygon","coordinates":[[[0.125,1.5],`+
				`[40.25,1.5],[40.25,80.75],[0.125,80.75],[0.125,1.5]]]}}`,
			i)
	}
	s.WriteString("]}")
	benchmarkParse(b, []byte(s.String()), n)
}

func BenchmarkSVG(b *testing.B) {
	var s strings.Builder
	const n = 10_000
	for i := range n {
		fmt.Fprintf(&s,
			`<path id="p%d" transform="translate(%d,%d)" d="M10,10 c5.5-2.25 10.75 0 12.5 5 S20 25 12.5 25.5 5 20.25 5 15.125Z"/>`+"\n",
			i, i%100*40, i/100*40)
	}
	benchmarkParse(b, []byte(svg(`viewBox="0 0 4000 4000"`, s.String())), n)
}

func BenchmarkRunLengths(b *testing.B) {
	// A disc of 2000 pixels across in a frame of 4096 × 2048.
	var counts []int64
	last := int64(0)
	for x := range int64(2001) {
		d := float64(x - 1000)
		half := int64(math.Sqrt(1000*1000 - d*d))
		from := (x+1000)*2048 + 1024 - half
		counts = append(counts, from-last, 2*half+1)
		last = from + 2*half + 1
	}
	counts = append(counts, 4096*2048-last)
	text := strings.ReplaceAll(compress(counts), `\`, `\\`)
	benchmarkParse(b, []byte(annotations(`{"segmentation":{"size":[2048,4096],"counts":"`+text+`"}}`)), 1)
}
