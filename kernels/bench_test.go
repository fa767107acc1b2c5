package kernels

import (
	"context"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// What a job costs on top of its ops.
func BenchmarkDo(b *testing.B) {
	d, err := Open(&fakeDriver{}, Config{MemoryBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	b.ReportAllocs()
	for b.Loop() {
		err := d.Do(context.Background(), Job{Label: "bench", Footprint: 1 << 20}, func(q *Queue) error {
			_, err := Alloc[byte](q, 1000, "x")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// What the check of regions costs: 1000 of 126 edges, 16 bytes an edge.
func BenchmarkCheckRegions(b *testing.B) {
	var r driver.MaskRegions
	for i := range 1000 {
		const n = 126
		for k := range int32(n) {
			// A zigzag that comes back.
			r.Edges = append(r.Edges,
				driver.Edge{X0: k * 100, Y0: k % 7 * 300, X1: (k + 1) % n * 100, Y1: (k + 1) % n % 7 * 300})
		}
		r.Regions = append(r.Regions, driver.Region{First: uint32(i * n), Count: n})
	}
	b.SetBytes(int64(len(r.Edges)) * 16)
	for b.Loop() {
		op := driver.MaskPrepare{Regions: r, Width: 4096, Height: 2048}
		if err := driver.Check(&op); err != nil {
			b.Fatal(err)
		}
	}
}
