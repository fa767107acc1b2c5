package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// TestPeers is this package's part in peers/compare.sh: it writes the scenes, or times one of them. It prints lines
// as the peers do: name, scene, what, least milliseconds, count, sum.
func TestPeers(t *testing.T) {
	dir := os.Getenv("POLYSCAN_PEERS")
	if dir == "" {
		t.Skip("only for peers/compare.sh")
	}
	repeats, err := strconv.Atoi(os.Getenv("POLYSCAN_PEERS_REPEATS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range benchScenes {
		if os.Getenv("POLYSCAN_PEERS_SCENE") == "" {
			if err := os.WriteFile(filepath.Join(dir, sc.name), sceneFile(sc), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if os.Getenv("POLYSCAN_PEERS_SCENE") == sc.name {
			what := driver.MaskSums | driver.MaskExtrema
			if os.Getenv("POLYSCAN_PEERS_WHAT") == "histogram" {
				what |= driver.MaskHistogram
			}
			timePeer(t, sc, what, 1, "polyscan", repeats)
			timePeer(t, sc, what, 2, "polyscan/2threads", repeats)
			for _, l := range levels() {
				if l != bestLevel {
					atLevel(t, l, func() { timePeer(t, sc, what, 1, "polyscan/"+l.String(), repeats) })
				}
			}
		}
	}
}

func timePeer(t *testing.T, sc scene, what driver.MaskWhat, threads int, name string, repeats int) {
	f := newFixture(t, threads, 256<<20)
	op := driver.MaskReduce{
		Count: len(sc.regions.Regions), What: what,
		Frame: driver.Image{Data: f.upload(texture(sc.width * sc.height)), Width: sc.width, Height: sc.height,
			Stride: sc.width, Format: driver.Gray8},
	}
	f.outputs(&op)
	op.Prepared = f.prepare(sc.regions, sc.width, sc.height, driver.RowSpans)
	f.wait()
	least := time.Hour
	for range repeats {
		start := time.Now()
		f.ok(f.s.Run(&driver.MaskPrepare{Regions: sc.regions, Width: sc.width, Height: sc.height,
			Dst: op.Prepared}))
		f.ok(f.s.Run(&op))
		f.wait()
		least = min(least, time.Since(start))
	}
	var sum driver.MaskStats
	for _, s := range download[driver.MaskStats](f, op.Stats) {
		sum.Count += s.Count
		sum.Sum += s.Sum
	}
	label := "sums"
	if what&driver.MaskHistogram != 0 {
		label = "histogram"
	}
	fmt.Printf("%s %s %s %.6f %d %d\n", name, sc.name, label, least.Seconds()*1e3, sum.Count, sum.Sum)
}

// sceneFile is described in peers/scene.h.
func sceneFile(sc scene) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // to memory: does not fail
	put(uint32(len(sc.name)))
	b.WriteString(sc.name)
	put([]uint32{uint32(sc.width), uint32(sc.height), uint32(len(sc.regions.Regions))})
	for _, g := range sc.regions.Regions {
		put(g.Count)
		for _, e := range sc.regions.Edges[g.First:][:g.Count] {
			put([]int32{e.X0, e.Y0})
		}
	}
	b.Write(texture(sc.width * sc.height))
	return b.Bytes()
}
