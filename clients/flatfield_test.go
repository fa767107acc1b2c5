package clients_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// sent are frames of a format, one after the other.
func sent(raw clients.Raw, frames ...[]byte) iter.Seq2[*pb.Frame, error] {
	return func(yield func(*pb.Frame, error) bool) {
		for _, data := range frames {
			if !yield(raw.Frame(data), nil) {
				return
			}
		}
	}
}

// A field is what the comment says, by fractions: of several frames with gaps between rows, of one row and of many, of
// colours each channel for itself, with alpha as it is.
func TestLearnFlatField(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		f                    pb.PixelFormat
		channels, size, most int
	}{{clients.Gray8, 1, 1, 255}, {clients.Gray16LE, 1, 2, 4095}, {clients.RGB8, 3, 1, 255}, {clients.RGBA8, 4, 1, 255}} {
		for _, o := range []clients.FlatOptions{{}, {Columns: true}, {Level: 100}} {
			const w, h = 13, 5
			raw := clients.Raw{Width: w, Height: h, Format: c.f, Stride: w*c.channels*c.size + 6}
			if c.size == 2 {
				raw.Bits = 12
			}
			shot := func(level int) []byte {
				out := make([]byte, raw.Stride*h)
				for i := range out {
					out[i] = byte(level + i%7 + g.IntN(3))
					if c.size == 2 && i%2 == 1 {
						out[i] = 3
					}
				}
				return out
			}
			bright, dark := [][]byte{shot(150), shot(150), shot(150)}, [][]byte{shot(4), shot(4)}
			if c.size == 2 {
				dark = [][]byte{make([]byte, raw.Stride*h)}
			}
			f, err := clients.LearnFlatField(sent(raw, bright...), sent(raw, dark...), o)
			if err != nil {
				t.Fatalf("%v, %+v: %v", c.f, o, err)
			}
			rows := h
			if o.Columns {
				rows = 1
			}
			if l := f.GetLayout(); l.GetWidth() != w || int(l.GetHeight()) != rows || l.GetPixelFormat() != c.f ||
				int(l.GetSignificantBits()) != raw.Bits || len(f.Dark) != w*rows*c.channels*c.size ||
				len(f.Gain) != 2*w*rows*c.channels {
				t.Fatalf("%v, %+v: %v, %d and %d bytes", c.f, o, l, len(f.Dark), len(f.Gain))
			}
			mean := func(frames [][]byte, x, y, ch int) float64 {
				sum, n := 0.0, 0.0
				for _, data := range frames {
					for yy := range h {
						if o.Columns || yy == y {
							at := data[yy*raw.Stride+(x*c.channels+ch)*c.size:]
							v := float64(at[0])
							if c.size == 2 {
								v += 256 * float64(at[1])
							}
							sum, n = sum+v, n+1
						}
					}
				}
				return sum / n
			}
			for ch := range c.channels {
				level := 0.0
				for i := range w * rows {
					level += (mean(bright, i%w, i/w, ch) - math.Floor(mean(dark, i%w, i/w, ch)+0.5)) / float64(w*rows)
				}
				if o.Level > 0 {
					level = o.Level
				}
				for i := range w * rows {
					at := i*c.channels + ch
					gain := float64(binary.LittleEndian.Uint16(f.Gain[2*at:])) / float64(int(1)<<f.FractionBits)
					black := math.Floor(mean(dark, i%w, i/w, ch) + 0.5)
					want := level / (mean(bright, i%w, i/w, ch) - black)
					if ch == 3 {
						black, want = 0, 1
					}
					if math.Abs(gain-want) > 0.5001/float64(int(1)<<f.FractionBits) || float64(f.Dark[at*c.size]) != black {
						t.Fatalf("%v, %+v, sample %d: gain %v and dark %d, want %v and %v", c.f, o, at, gain, f.Dark[at*c.size],
							want, black)
					}
				}
			}
		}
	}
}

// What no good field can be learned from is refused, with figures.
func TestLearnFlatFieldRefuses(t *testing.T) {
	raw := clients.Raw{Width: 40, Height: 30, Format: clients.Gray8}
	even := func(v byte) []byte { return bytes.Repeat([]byte{v}, 1200) }
	with := func(data []byte, at int, v ...byte) []byte { copy(data[at:], v); return data }
	noise := func(seed uint64) []byte {
		g, out := rand.New(rand.NewPCG(seed, 1)), even(0)
		for i := range out {
			out[i] = byte(70 + g.IntN(61))
		}
		return out
	}
	noisy := sent(raw, noise(1), noise(2), noise(3), noise(4), noise(5), noise(6), noise(7), noise(8), noise(9), noise(10),
		noise(11), noise(12))
	other := raw
	other.Height = 29
	wide := clients.Raw{Width: 40, Height: 30, Format: clients.Gray16LE, Bits: 10}
	for _, c := range []struct {
		bright, dark iter.Seq2[*pb.Frame, error]
		o            clients.FlatOptions
		says         string
	}{
		{sent(raw), nil, clients.FlatOptions{}, "there is no bright frame"},
		{sent(raw, even(100), with(even(100), 7, 255, 255)), nil, clients.FlatOptions{},
			"bright frame 2: 0.17 % of its samples are saturated, 255: at most 0.1 % may be"},
		{sent(raw, with(even(100), 7, 255)), nil, clients.FlatOptions{}, ""},
		{sent(raw, with(even(100), 45, 6, 5)), sent(raw, even(4)), clients.FlatOptions{}, "2 of 1200 samples can't be " +
			"corrected: the first, channel 0 at (5, 1), is 6.0 in bright frames and 4 in dark ones, and the level is 95.8"},
		{sent(raw, even(4)), sent(raw, even(4)), clients.FlatOptions{}, "1200 of 1200 samples can't be corrected"},
		{noisy, nil, clients.FlatOptions{}, "bright frames have noise of 17."},
		{noisy, nil, clients.FlatOptions{Columns: true}, ""},
		{sent(raw, even(100)), nil, clients.FlatOptions{Level: 256}, "level 256: must be 1 to 255"},
		{sent(raw, even(100)), nil, clients.FlatOptions{Level: math.NaN()}, "level NaN: must be 1 to 255"},
		{sent(raw, even(100)), nil, clients.FlatOptions{Level: 0.3}, "level 0.3: must be 1 to 255"},
		{sent(raw, even(31)), sent(raw, even(3)), clients.FlatOptions{}, "bright frames are 28.0 above dark ones in " +
			"channel 0, where samples are rounded by 1.0 %: at most 1 % may be, so give more light or expose longer, to 29 or more"},
		{sent(raw, even(32)), sent(raw, even(3)), clients.FlatOptions{}, ""},
		{sent(raw, even(100)), sent(other, even(1)[:29*40]), clients.FlatOptions{},
			"dark frame 1: 40x29 of PIXEL_FORMAT_GRAY8: the first one has 40x30 of PIXEL_FORMAT_GRAY8"},
		{sent(raw, even(100)[:7]), nil, clients.FlatOptions{}, "7 bytes of pixels: the layout takes 1200"},
		{sent(wide, bytes.Repeat([]byte{0, 4}, 1200)), nil, clients.FlatOptions{},
			"a sample of 1024 at row 0 is above 1023, the most that 10 bits hold"},
		{sent(clients.Raw{Width: 40, Height: 30, Format: clients.BayerRG8}, even(9)), nil, clients.FlatOptions{},
			"want GRAY8, GRAY16LE, RGB8, BGR8 or RGBA8"},
	} {
		f, err := clients.LearnFlatField(c.bright, c.dark, c.o)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, %v, want %q", f, err, c.says)
		}
	}
}
