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
	0x01080008: "BayerGR8", 0x01080009: "BayerRG8", 0x0108000a: "BayerGB8", 0x0108000b: "BayerBG8",
	0x0110000c: "BayerGR10", 0x0110000d: "BayerRG10", 0x0110000e: "BayerGB10", 0x0110000f: "BayerBG10",
	0x01100010: "BayerGR12", 0x01100011: "BayerRG12", 0x01100012: "BayerGB12", 0x01100013: "BayerBG12",
	0x010c0004: "Mono10Packed", 0x010c0006: "Mono12Packed",
	0x01080002: "Mono8s", 0x020c001e: "YUV411_8_UYYVYY",
	0x02180020: "YUV8_UYV", 0x02180021: "RGB8_Planar", 0x02200017: "BGRa8", 0x02300018: "RGB10",
}

// Layout is how a format's pixels lie in memory.
type Layout struct {
	Name      string
	PixelBits int  // that a pixel takes of a line
	Group     int  // pixels that are whole bytes together: a line has a multiple of them
	Bits      int  // significant ones of a 16-bit sample; 0 for others
	Colours   bool // three samples and more
}

var layouts = map[PixelFormat]Layout{
	Mono8: {"Mono8", 8, 1, 0, false}, Mono10: {"Mono10", 16, 1, 10, false}, Mono12: {"Mono12", 16, 1, 12, false},
	Mono14: {"Mono14", 16, 1, 14, false}, Mono16: {"Mono16", 16, 1, 16, false}, RGB8: {"RGB8", 24, 1, 0, true},
	BGR8: {"BGR8", 24, 1, 0, true}, RGBa8: {"RGBa8", 32, 1, 0, true}, Mono10p: {"Mono10p", 10, 4, 0, false},
	Mono12p: {"Mono12p", 12, 2, 0, false}, YUV422: {"YUV422_8", 16, 2, 0, true},
	YUV422UY: {"YUV422_8_UYVY", 16, 2, 0, true},
}

// Taken are the names of the formats that have a layout.
const Taken = "Mono8, Mono10, Mono12, Mono14, Mono16, Mono10p, Mono12p, RGB8, BGR8, RGBa8, YUV422_8 and " +
	"YUV422_8_UYVY"

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
