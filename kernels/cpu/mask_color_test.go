package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// colorErrors is by how much Lab may be off: what package driver says.
var colorErrors = [3]float64{0.0051, 0.021, 0.009}

// TestColors compares conversions with the definition and Lab with double arithmetic: all 2^24 colours, or with -short
// one of 251. The loops in Go see one of 251 in any case where others are used.
func TestColors(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	for simd = levelGo; simd <= best; simd++ {
		colorsOf(t, simd < best)
	}
}

func colorsOf(t *testing.T, few bool) {
	step := 1
	if few || testing.Short() {
		step = 251
	}
	const piece = 4096
	var r, g, b []byte
	var planes [3]chunk
	var one [piece]byte
	var worst [3]float64
	most := uint32(0)
	run := func() {
		n := len(r)
		at := 0
		var samples [piece][driver.MaxColorChannels]uint32
		wide := func() {
			for k := range planes {
				for i := range n {
					samples[i][at] = uint32(binary.LittleEndian.Uint16(planes[k][2*i:]))
				}
				at++
			}
		}
		for _, f := range []func(to, r, g, b []byte){gray601, gray709} {
			f(one[:n], r, g, b)
			for i := range n {
				samples[i][at] = uint32(one[i])
			}
			at++
		}
		for _, f := range []func(x, y, z, r, g, b []byte){hsv, lab} {
			f(planes[0][:2*n], planes[1][:2*n], planes[2][:2*n], r, g, b)
			wide()
		}
		for i := range n {
			want := devicetest.ColorSamples(driver.Colors{Spaces: 15}, r[i], g[i], b[i])
			for c, w := range want {
				if samples[i][c] != w {
					t.Fatalf("channel %d of (%d, %d, %d): %d, want %d", c, r[i], g[i], b[i], samples[i][c], w)
				}
				most = max(most, w)
			}
			real := devicetest.Lab(r[i], g[i], b[i])
			for k, v := range [3]float64{float64(samples[i][5]) / 256, float64(samples[i][6])/256 - 128,
				float64(samples[i][7])/256 - 128} {
				worst[k] = max(worst[k], math.Abs(v-real[k]))
			}
			if r[i] == g[i] && g[i] == b[i] && (samples[i][6] != 32768 || samples[i][7] != 32768) {
				t.Fatalf("gray %d has a* and b* of %d and %d", r[i], samples[i][6], samples[i][7])
			}
		}
		r, g, b = r[:0], g[:0], b[:0]
	}
	for i := 0; i < 1<<24; i += step {
		r, g, b = append(r, byte(i>>16)), append(g, byte(i>>8)), append(b, byte(i))
		if len(r) == piece {
			run()
		}
	}
	run()
	for k, name := range []string{"L*", "a*", "b*"} {
		t.Logf("%s is off by %.5f at most", name, worst[k])
		if worst[k] > colorErrors[k] || worst[k] < colorErrors[k]/2 {
			t.Errorf("%s is off by %.5f, and package driver says %g", name, worst[k], colorErrors[k])
		}
	}
	if most > driver.MostColorSample-1 {
		t.Errorf("a sample is %d", most)
	}
}

// TestBins16 compares bins of samples with their definition, by each set of instructions.
func TestBins16(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	var samples, got chunk
	for i := range chunkBytes / 2 {
		binary.LittleEndian.PutUint16(samples[2*i:], uint16(i*7%(driver.MostColorSample+1)))
	}
	for simd = levelGo; simd <= best; simd++ {
		for _, n := range []int{0, 1, 31, 32, 33, chunkBytes / 2} {
			bins16(&got, &samples, n, 8)
			for i := range n {
				if want := byte((int(binary.LittleEndian.Uint16(samples[2*i:])) + 128) >> 8); got[i] != want {
					t.Fatalf("%v, sample %d of %d: %d, want %d", simd, i, n, got[i], want)
				}
			}
		}
	}
}

// TestColorPeer is this package's part in peers/color.sh: it writes a frame of 2880x1440, reduces it to what L*, a* and
// b* have as sums and extrema, besides red, green and blue, and prints the least of a few times in ms, and the means.
func TestColorPeer(t *testing.T) {
	file := os.Getenv("POLYSCAN_COLOR")
	if file == "" {
		t.Skip("only for peers/color.sh")
	}
	const width, height = 2880, 1440
	pixels := texture(3 * width * height)
	if err := os.WriteFile(file, pixels, 0o666); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, 1, 256<<20)
	op := driver.MaskReduce{Count: 1, What: driver.MaskSums | driver.MaskExtrema,
		Colors: driver.Colors{Spaces: driver.ColorLab},
		Frame:  driver.Image{Data: f.upload(pixels), Width: width, Height: height, Stride: 3 * width, Format: driver.RGB8}}
	f.outputs(&op)
	op.Prepared = f.prepare(wholeFrame(width, height), width, height, driver.RowSpans)
	least := time.Hour
	for range 10 {
		start := time.Now()
		f.ok(f.s.Run(&op))
		f.wait()
		least = min(least, time.Since(start))
	}
	s := download[driver.MaskStats](f, op.Stats)
	mean := func(c int) float64 { return float64(s[c].Sum) / float64(s[c].Count) / 256 }
	fmt.Printf("polyscan %.3f %.3f %.3f %.3f\n", float64(least)/float64(time.Millisecond), mean(3), mean(4)-128,
		mean(5)-128)
}
