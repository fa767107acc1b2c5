package cpu

import (
	"context"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestSmoke(t *testing.T) {
	dev, err := New(Options{Threads: 2}).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, _ := dev.Alloc(64 << 20)
	defer m.Free()
	s, _ := dev.NewStream(0)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for it := range 300 {
		W, H := 1+rng.IntN(150), 1+rng.IntN(150)
		var r driver.MaskRegions
		for range 3 {
			n := 3 + rng.IntN(20)
			if it%10 == 0 {
				n = 300
			}
			px, py := make([]int32, n), make([]int32, n)
			for i := range n {
				px[i] = int32(rng.IntN(2*W*256)) - int32(W*128)
				py[i] = int32(rng.IntN(2*H*256)) - int32(H*128)
				if it%2 == 0 {
					px[i] = px[i]&^255 | 128
					py[i] = py[i]&^255 | 128
				}
			}
			f := len(r.Edges)
			for i := range n {
				j := (i + 1) % n
				r.Edges = append(r.Edges, driver.Edge{X0: px[i], Y0: py[i], X1: px[j], Y1: py[j]})
			}
			r.Regions = append(r.Regions, driver.Region{FirstEdge: uint32(f), EdgeCount: uint32(n), Fill: driver.FillRule(rng.IntN(2))})
		}
		img := make([]byte, W*H)
		for i := range img {
			img[i] = byte(rng.IntN(256))
		}
		var ref [3]driver.MaskStats
		for meth := driver.Naive; meth <= driver.RowSpans; meth++ {
			need, err := dev.MaskPreparedBytes(r, W, H, meth)
			if err != nil {
				t.Fatal(err)
			}
			prep := driver.Slice{Mem: m, Off: 0, Len: need}
			fr := driver.Slice{Mem: m, Off: 32 << 20, Len: int64(W * H)}
			st := driver.Slice{Mem: m, Off: 48 << 20, Len: 240}
			s.Upload(fr, [][]byte{img})
			s.MaskPrepare(driver.MaskPrepare{Regions: r, Width: W, Height: H, Method: meth, Dst: prep})
			s.MaskReduce(driver.MaskReduce{Prepared: prep, Count: 3, Frame: driver.Image{Data: fr, Width: W, Height: H, Stride: W, Format: driver.Gray8}, What: 7, Stats: st})
			var got [3]driver.MaskStats
			s.Download(unsafe.Slice((*byte)(unsafe.Pointer(&got)), 240), st)
			if err := s.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			if meth == driver.Naive {
				ref = got
			} else if got != ref {
				t.Fatalf("%v: %+v, want %+v", meth, got, ref)
			}
		}
	}
}
