package cpu

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// colorErrors is by how much Lab may be off: what package driver says.
var colorErrors = [3]float64{0.0051, 0.021, 0.009}

// TestColors compares conversions with the definition and Lab with double arithmetic: all 2^24 colours, or with -short
// one of 251.
func TestColors(t *testing.T) {
	step := 1
	if testing.Short() {
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
