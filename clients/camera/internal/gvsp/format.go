package gvsp

import (
	"fmt"
	"strings"
)

// PixelFormat is a number of the Pixel Format Naming Convention (PFNC).
type PixelFormat uint32

// Formats that polyscan's server takes as they are.
const (
	Mono8  PixelFormat = 0x01080001
	Mono10 PixelFormat = 0x01100003
	Mono12 PixelFormat = 0x01100005
	Mono14 PixelFormat = 0x01100025
	Mono16 PixelFormat = 0x01100007
	RGB8   PixelFormat = 0x02180014
	BGR8   PixelFormat = 0x02180015
	RGBa8  PixelFormat = 0x02200016

	Mono10p  PixelFormat = 0x010a0046
	Mono12p  PixelFormat = 0x010c0047
	YUV422   PixelFormat = 0x02100032 // YUV422_8: Y, U, Y, V
	YUV422UY PixelFormat = 0x0210001f // YUV422_8_UYVY
)

// Others, which are refused by their name.
var otherFormats = map[PixelFormat]string{
	0x010c0026: "BayerGR10Packed", 0x010c0027: "BayerRG10Packed", 0x010c0028: "BayerGB10Packed",
	0x010c0029: "BayerBG10Packed", 0x010c002a: "BayerGR12Packed", 0x010c002b: "BayerRG12Packed",
	0x010c002c: "BayerGB12Packed", 0x010c002d: "BayerBG12Packed", 0x010c0004: "Mono10Packed",
	0x010c0006: "Mono12Packed",
	0x01080002: "Mono8s", 0x020c001e: "YUV411_8_UYYVYY",
	0x02180020: "YUV8_UYV", 0x02180021: "RGB8_Planar", 0x02200017: "BGRa8", 0x02300018: "RGB10",
}

// Layout is how a format's pixels lie in memory.
type Layout struct {
	Name      string
	PixelBits int // that a pixel takes of a line
	Group     int // pixels that are whole bytes together: a line has a multiple of them
	Bits      int // significant ones of a 16-bit sample; 0 for others
	Bayer     int // which colours its first two pixels have: 1 to 4 for RG, GR, GB and BG; 0 is no Bayer
}

var layouts = func() map[PixelFormat]Layout {
	all := map[PixelFormat]Layout{
		Mono8: {"Mono8", 8, 1, 0, 0}, Mono10: {"Mono10", 16, 1, 10, 0}, Mono12: {"Mono12", 16, 1, 12, 0},
		Mono14: {"Mono14", 16, 1, 14, 0}, Mono16: {"Mono16", 16, 1, 16, 0}, RGB8: {"RGB8", 24, 1, 0, 0},
		BGR8: {"BGR8", 24, 1, 0, 0}, RGBa8: {"RGBa8", 32, 1, 0, 0}, Mono10p: {"Mono10p", 10, 4, 0, 0},
		Mono12p: {"Mono12p", 12, 2, 0, 0}, YUV422: {"YUV422_8", 16, 2, 0, 0}, YUV422UY: {"YUV422_8_UYVY", 16, 2, 0, 0},
	}
	for i, first := range []string{"GR", "RG", "GB", "BG"} { // of each kind in this order, but of packed ones
		which, n := [4]int{2, 1, 3, 4}[i], PixelFormat(i)
		packed := 2 * PixelFormat([4]int{2, 3, 1, 0}[i])
		for f, l := range map[PixelFormat]Layout{
			0x01080008 + n: {"8", 8, 1, 0, which}, 0x0110000c + n: {"10", 16, 1, 10, which},
			0x01100010 + n: {"12", 16, 1, 12, which}, 0x01100109 + n: {"14", 16, 1, 14, which},
			0x0110002e + n: {"16", 16, 1, 16, which}, 0x010a0052 + packed: {"10p", 10, 4, 0, which},
			0x010c0053 + packed: {"12p", 12, 2, 0, which},
		} {
			l.Name = "Bayer" + first + l.Name
			all[f] = l
		}
	}
	return all
}()

// Taken are the names of the formats that have a layout.
const Taken = "Mono8, Mono10, Mono12, Mono14, Mono16, Mono10p, Mono12p, RGB8, BGR8, RGBa8, YUV422_8, YUV422_8_UYVY, " +
	"BayerRG8, 10, 12, 14, 16, 10p and 12p, and the same with GR, GB and BG"

// String is the format's name, or its number.
func (f PixelFormat) String() string {
	if l, ok := layouts[f]; ok {
		return l.Name
	}
	if n, ok := otherFormats[f]; ok {
		return n
	}
	return fmt.Sprintf("%#08x", uint32(f))
}

// Layout is an error that names the format where the server doesn't take it.
func (f PixelFormat) Layout() (Layout, error) {
	l, ok := layouts[f]
	if !ok {
		return l, fmt.Errorf("pixel format %v isn't taken: set the camera to one of %s", f, Taken)
	}
	return l, nil
}

// ParseFormat finds a format that has a layout by its name.
func ParseFormat(name string) (PixelFormat, error) {
	for f, l := range layouts {
		if strings.EqualFold(l.Name, name) {
			return f, nil
		}
	}
	return 0, fmt.Errorf("pixel format %q: want one of %s", name, Taken)
}
