// What cameras send, and the oracle of the op that makes pixels of it.

package devicetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Shot is a frame as a camera sends it, Stride bytes from row to row. What is between rows is arbitrary.
type Shot struct {
	Name          string
	Width, Height int
	Stride        int
	Coding        driver.Coding
	Bytes         []byte

	rows [][]int64 // the samples of each row that was looked at
}

// Codings are all that [driver.Develop] takes.
func Codings() []driver.Coding {
	out := []driver.Coding{{Kind: driver.UYVY, Bits: 8}, {Kind: driver.YUYV, Bits: 8},
		{Kind: driver.Mono, Bits: 10, Packed: true}, {Kind: driver.Mono, Bits: 12, Packed: true}}
	for phase := range uint8(4) {
		for _, d := range []driver.Demosaic{driver.Bilinear, driver.MalvarHeCutler} {
			for _, c := range []driver.Coding{{Bits: 8}, {Bits: 10}, {Bits: 12}, {Bits: 14}, {Bits: 16},
				{Bits: 10, Packed: true}, {Bits: 12, Packed: true}} {
				c.Kind, c.Phase, c.Demosaic = driver.Bayer, phase, d
				out = append(out, c)
			}
		}
	}
	return out
}

// Shots are frames of all codings around sizes at which backends cut, of noise, of flat pixels, of the largest samples,
// and, where samples have more bits than are used, of some beyond.
func Shots(seed uint64, random int) []Shot {
	r := rand.New(rand.NewPCG(seed, 31))
	codings := Codings()
	sizes := [][2]int{{1, 1}, {1, 7}, {7, 1}, {2, 2}, {3, 2}, {2, 3}, {3, 5}, {8, 3}, {15, 4}, {16, 5}, {31, 33},
		{32, 2}, {33, 31}, {64, 7}, {255, 5}, {256, 4}, {257, 9}, {264, 3}, {520, 35}, {1030, 6}}
	for range random {
		sizes = append(sizes, [2]int{1 + r.IntN(300), 1 + r.IntN(40)})
	}
	var out []Shot
	for i, size := range sizes {
		for k, c := range codings {
			if i >= 12 && k > 3 && k%5 != i%5 { // Bayer of the larger sizes: some codings of each
				continue
			}
			w, h := size[0], size[1]
			if c.Kind == driver.UYVY || c.Kind == driver.YUYV {
				w = (w + 1) &^ 1
			}
			if side, _ := c.Fits(w, h); side != "" {
				continue
			}
			s := Shot{Name: fmt.Sprintf("%dx%d, %+v", w, h, c), Width: w, Height: h, Coding: c}
			s.Stride = c.RowBytes(w) + r.IntN(3)*c.Align()
			if i%4 == 1 { // as backends like it
				s.Stride = (s.Stride + 15) &^ 15
			}
			s.Bytes = make([]byte, s.Stride*(h-1)+c.RowBytes(w))
			for b := range s.Bytes {
				switch (i + k) % 6 {
				case 0:
					s.Bytes[b] = 255
				case 1:
					s.Bytes[b] = 0x39
				default:
					s.Bytes[b] = byte(r.Uint32())
				}
			}
			if c.Checked() && i%3 != 0 { // else most are beyond
				for b := 1; b < len(s.Bytes); b += 2 {
					s.Bytes[b] &= byte(1<<(c.Bits-8) - 1)
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// bit is bit i of row y.
func (s *Shot) bit(y, i int) int { return int(s.Bytes[y*s.Stride+i/8]) >> (i % 8) & 1 }

// row is the samples of a row, which are read bit by bit when it is first looked at.
func (s *Shot) row(y int) []int64 {
	if s.rows == nil {
		s.rows = make([][]int64, s.Height)
	}
	if s.rows[y] == nil {
		bits := s.Coding.RowBytes(8) // of a sample
		s.rows[y] = make([]int64, s.Width)
		for x := range s.rows[y] {
			for i := range bits {
				s.rows[y][x] |= int64(s.bit(y, x*bits+i)) << i
			}
		}
	}
	return s.rows[y]
}

// sample is the sample of a pixel, and whether it is beyond what its bits hold. Those beyond the frame are mirrored.
func (s *Shot) sample(x, y int) (v int64, beyond bool) {
	for x < 0 || x >= s.Width {
		if x < 0 {
			x = -x
		} else {
			x = 2*(s.Width-1) - x
		}
	}
	for y < 0 || y >= s.Height {
		if y < 0 {
			y = -y
		} else {
			y = 2*(s.Height-1) - y
		}
	}
	v = s.row(y)[x]
	most := int64(1)<<s.Coding.Bits - 1
	return min(v, most), v > most
}

// colorAt is the colour of a pixel of the mosaic: 0, 1 or 2 for red, green or blue.
func (s *Shot) colorAt(x, y int) int {
	names := [4]string{"RGGB", "GRBG", "GBRG", "BGGR"}[s.Coding.Phase] // two rows of two pixels
	return strings.IndexByte("RGB", names[(y&1)*2+(x&1)])
}

// weights of the pixels around one, from two rows above and two columns to the left on, by the definition.
type weights [5][5]int64

func (w weights) turned() (out weights) {
	for y := range w {
		for x := range w {
			out[x][y] = w[y][x]
		}
	}
	return out
}

var (
	sides = weights{1: {2: 1}, 2: {1: 1, 3: 1}, 3: {2: 1}}
	cross = weights{1: {1: 1, 3: 1}, 3: {1: 1, 3: 1}}
	along = weights{2: {1: 2, 3: 2}} // the colour is to the left and right

	malvarGreen = weights{0: {2: -2}, 1: {2: 4}, 2: {-2, 4, 8, 4, -2}, 3: {2: 4}, 4: {2: -2}}
	malvarThird = weights{0: {2: -3}, 1: {1: 4, 3: 4}, 2: {-3, 0, 12, 0, -3}, 3: {1: 4, 3: 4}, 4: {2: -3}}
	malvarAlong = weights{0: {2: 1}, 1: {1: -2, 3: -2}, 2: {-2, 8, 10, 8, -2}, 3: {1: -2, 3: -2}, 4: {2: 1}}
)

// color is one colour of a pixel.
func (s *Shot) color(x, y, c int) byte {
	w, d := sides, int64(4)
	malvar := s.Coding.Demosaic == driver.MalvarHeCutler
	if malvar {
		d = 16
	}
	choose := func(bilinear, better weights) {
		if w = bilinear; malvar {
			w = better
		}
	}
	switch here := s.colorAt(x, y); {
	case here == c:
		w = weights{2: {2: d}}
	case c == 1:
		choose(sides, malvarGreen)
	case here != 1:
		choose(cross, malvarThird)
	case s.colorAt(x+1, y) == c:
		choose(along, malvarAlong)
	default:
		choose(along.turned(), malvarAlong.turned())
	}
	n := int64(0)
	for j := range w {
		for i, k := range w[j] {
			if k != 0 { // else the pixel may not be there
				v, _ := s.sample(x+i-2, y+j-2)
				n += k * v
			}
		}
	}
	// N/D of so many bits, plus a half of those of 8 bits, rounded down.
	return byte(min(max(roundHalfUp(n<<8, d<<s.Coding.Bits), 0), 255))
}

// yuv is the colours of a pixel.
func (s *Shot) yuv(x, y int) [3]byte {
	four := s.Bytes[y*s.Stride+x/2*4:][:4]
	place := map[driver.CodingKind][4]int{driver.UYVY: {1, 3, 0, 2}, driver.YUYV: {0, 2, 1, 3}}[s.Coding.Kind]
	luma, u, v := int64(four[place[x%2]]), int64(four[place[2]])-128, int64(four[place[3]])-128
	var out [3]byte
	for i, n := range [3]int64{65793*luma + 91881*v, 65793*luma - 22554*u - 46802*v, 65793*luma + 116130*u} {
		out[i] = byte(min(max(floorDiv(n, 65536), 0), 255))
	}
	return out
}

// Develop is what [driver.Develop] asks for, by its definition: rows [from, to), and how many samples are beyond.
func (s *Shot) Develop(from, to int) (out Picture, beyond uint32) {
	out = Picture{Name: s.Name, Width: s.Width, Height: to - from, Format: s.Coding.Format()}
	out.Stride = s.Width * out.Format.PixelBytes()
	out.Pixels = make([]byte, out.Stride*out.Height)
	for y := from; y < to; y++ {
		for x := range s.Width {
			switch s.Coding.Kind {
			case driver.Mono:
				v, _ := s.sample(x, y)
				out.set(x, y-from, 0, int(v))
			case driver.Bayer:
				for c := range 3 {
					out.set(x, y-from, c, int(s.color(x, y, c)))
				}
				if _, more := s.sample(x, y); more {
					beyond++
				}
			default:
				for c, v := range s.yuv(x, y) {
					out.set(x, y-from, c, int(v))
				}
			}
		}
	}
	return out, beyond
}
