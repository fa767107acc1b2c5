package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// TestDiffusionPeers is this package's part in peers/diffusion.sh: it writes the scenes, or times one of them. It
// prints lines as the peers do: name, scene, least milliseconds of the set-up and of the solve, and the largest error
// in 255ths.
func TestDiffusionPeers(t *testing.T) {
	dir := os.Getenv("POLYSCAN_DIFFUSION_PEERS")
	if dir == "" {
		t.Skip("only for peers/diffusion.sh")
	}
	repeats, err := strconv.Atoi(os.Getenv("POLYSCAN_PEERS_REPEATS"))
	if err != nil {
		t.Fatal(err)
	}
	scenes, walls := devicetest.Scenes(1, 1024), devicetest.BarrierScenes(1, 1024)
	for _, s := range []*devicetest.Scene{scenes[0], scenes[2], scenes[5], walls[0]} {
		name := strings.ReplaceAll(s.Name, " ", "_")
		if only := os.Getenv("POLYSCAN_PEERS_SCENE"); only == "" {
			var b bytes.Buffer
			for _, v := range []any{[]uint32{uint32(s.Width), uint32(s.Height), uint32(s.Channels)}, s.Flags,
				s.Colours} {
				_ = binary.Write(&b, binary.LittleEndian, v) // to memory: does not fail
			}
			if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if only == name {
			exact, err := os.ReadFile(filepath.Join(dir, name+".exact"))
			if err != nil {
				t.Fatal(err)
			}
			for _, threads := range []int{1, 2} {
				timeDiffusionPeer(t, s, exact, threads, repeats, fmt.Sprintf("polyscan/%dthreads %s", threads, name))
			}
		}
	}
}

// timeDiffusionPeer asks for half of 1/255, as the peers are given.
func timeDiffusionPeer(t *testing.T, s *devicetest.Scene, exact []byte, threads, repeats int, label string) {
	d := newDiffusion(t, threads, s, grayLevel/2)
	d.wait()
	setup, solve := time.Hour, time.Hour
	for range repeats {
		start := time.Now()
		d.ok(d.s.Run(&d.setup))
		d.wait()
		middle := time.Now()
		d.ok(d.s.Run(&d.solve))
		d.wait()
		if end := time.Now(); end.Sub(start) < setup+solve {
			setup, solve = middle.Sub(start), end.Sub(middle)
		}
	}
	worst := 0.0
	for i, v := range download[float32](d.fixture, d.solve.X) {
		want := math.Float64frombits(binary.LittleEndian.Uint64(exact[8*i:]))
		if !math.IsNaN(want) { // void
			worst = max(worst, math.Abs(float64(v)-want))
		}
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	fmt.Printf("%s %.3f %.3f %.4f\n", label, ms(setup), ms(solve), worst/grayLevel)
}
