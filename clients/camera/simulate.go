package main

// The command simulate: a camera that plays pictures, or draws parts.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
	"github.com/polyscan/polyscan/clients/internal/cli"
)

type simulateCmd struct {
	// Picture, or folder of pictures (PNG, JPEG) of one size, to play over and over. Without it parts are drawn: gray
	// ones, some with a bright spot in the middle.
	Source string `arg:"" optional:"" placeholder:"FILE" predictor:"path" group:"picture"`

	// Be a line camera: blocks are runs of lines of an endless belt.
	Lines bool `group:"picture"`
	// Pixels of a line, of parts that are drawn.
	Width int `default:"512" group:"picture" without:"source"`
	// Lines of a frame that is drawn, or of a line camera's block (default: 512, 64 with --lines).
	Height int `placeholder:"N" group:"picture"`
	// Bytes of padding behind each line.
	Pad int `placeholder:"N" group:"picture" zero:""`
	// Frames or blocks a second.
	Rate float64 `default:"10" group:"picture"`
	// Blocks that it sends after each start; 0: no end.
	Blocks uint64 `placeholder:"N" group:"picture" zero:""`
	// Format of the pixels, such as Mono12p, BayerRG8 or YUV422_8 (default: that of the pictures, Mono8 of drawn
	// parts).
	Format string `placeholder:"FORMAT" group:"picture"`
	// Every how many parts one has a spot; 0: none.
	Spots uint64 `default:"5" group:"picture" without:"source"`

	// Address to listen at. Only port 3956 is found by others.
	Listen string `default:"127.0.0.1:3956" placeholder:"ADDR" group:"camera"`
	// Serial number.
	Serial string `default:"SIM001" group:"camera"`
	// Name that its user gave it.
	Name string `placeholder:"NAME" group:"camera"`
	// Number blocks with 64 bits.
	Extended bool `group:"camera"`
	// Keep no packets to send them again.
	NoResend bool `group:"camera"`

	// Share of the packets that are lost, 0 to 1; of those that are sent again, too.
	Loss float64 `placeholder:"SHARE" group:"fault" zero:""`
	// Share of the packets that come behind the next one.
	Reorder float64 `placeholder:"SHARE" group:"fault" zero:""`
	// Share of the packets that come twice.
	Duplicate float64 `placeholder:"SHARE" group:"fault" zero:""`
	// How much later than its time a block may begin.
	Jitter time.Duration `placeholder:"TIME" group:"fault" zero:""`
	// Seed of what happens to which packet.
	Seed uint64 `default:"1" group:"fault"`
}

func (c *simulateCmd) config(warn func(text string)) (cfg simulator.Config, err error) {
	addr, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(c.Listen); err != nil {
			return cfg, usage("--listen %s: want an IPv4 address, and a port behind ':'", c.Listen)
		}
		addr = netip.AddrPortFrom(a, gvcp.Port)
	}
	if !addr.Addr().Is4() || addr.Addr().IsUnspecified() {
		return cfg, usage("--listen %s: want an IPv4 address of this host", c.Listen)
	}
	if len(c.Serial) > 15 || len(c.Name) > 15 {
		return cfg, usage("--serial and --name hold at most 15 bytes")
	}
	if c.Jitter < 0 {
		return cfg, usage("--jitter %v: must not be negative", c.Jitter)
	}
	for flag, share := range map[string]float64{"--loss": c.Loss, "--reorder": c.Reorder, "--duplicate": c.Duplicate} {
		if !(share >= 0 && share <= 1) {
			return cfg, usage("%s %v: must be 0 to 1", flag, share)
		}
	}
	if !(c.Rate >= 0.1 && c.Rate <= 100_000) {
		return cfg, usage("--rate %v: must be 0.1 to 100000", c.Rate)
	}
	cfg = simulator.Config{
		Addr: addr, Serial: c.Serial, Name: c.Name, Lines: c.Lines, Width: c.Width, Height: c.Height,
		Format: gvsp.Mono8, Pad: c.Pad, Rate: c.Rate, Blocks: c.Blocks, Loss: c.Loss, Reorder: c.Reorder,
		Duplicate: c.Duplicate, Jitter: c.Jitter,
		Seed: c.Seed, NoResend: c.NoResend, Extended: c.Extended,
	}
	if c.Format != "" {
		if cfg.Format, err = gvsp.ParseFormat(c.Format); err != nil {
			return cfg, usage("--format: %v", err)
		}
	}
	if c.Source == "" {
		if c.Height == 0 {
			cfg.Height = 512
			if c.Lines {
				cfg.Height = 64
			}
		}
		cfg.Draw = drawn{cfg.Width, cfg.Height, c.Spots, cfg.Format}.draw
		return cfg, nil
	}
	b, err := loadBelt(c.Source, warn)
	if err != nil {
		return cfg, err
	}
	if c.Format == "" {
		cfg.Format = b.format
	}
	if cfg.Width = b.width; cfg.Format != b.format {
		b.recode(cfg.Format)
	}
	if !c.Lines {
		if c.Height != 0 && c.Height != b.height {
			return cfg, usage("--height %d: the pictures have %d lines; only a line camera's blocks have others",
				c.Height, b.height)
		}
		cfg.Height = b.height
	} else if c.Height == 0 {
		cfg.Height = 64
	}
	cfg.Draw = b.draw
	return cfg, nil
}

func (c *simulateCmd) Run(e *env) error {
	cfg, err := c.config(func(text string) { fmt.Fprintf(e.stderr, "camera: warning: %s\n", cli.OneLine(text)) })
	if err != nil {
		return err
	}
	cam, err := simulator.Start(cfg)
	if err != nil {
		return usage("%s", strings.TrimPrefix(err.Error(), "simulator: "))
	}
	fmt.Fprintf(e.stdout, "camera %s at %v: %d x %d %v, %v a second\n", c.Serial, cam.Addr(), cfg.Width, cfg.Height,
		cfg.Format, cfg.Rate)
	<-e.ctx.Done()
	err = cam.Close()
	s := cam.Stats()
	fmt.Fprintf(e.stdout,
		"%d blocks of %d packets in all; %d lost, %d reordered, %d doubled; %d sent again, %d unavailable\n", s.Blocks,
		s.Packets, s.Lost, s.Reordered, s.Doubled, s.Resent, s.Unavailable)
	return err
}

// drawn are gray parts; every so many have a bright spot.
type drawn struct {
	width, height int
	spots         uint64
	format        gvsp.PixelFormat
}

func (d drawn) draw(block uint64, pixels []byte) {
	spot := d.spots > 0 && block%d.spots == d.spots-1
	each, gray := len(pixels)/d.height, make([]byte, d.width)
	for y := range d.height {
		row := pixels[y*each : (y+1)*each]
		if d.format == gvsp.Mono8 {
			gray = row
		}
		for x := range gray {
			gray[x] = byte(96 + (x+y+int(block%32))%32)
		}
		for x := d.width * 2 / 5; spot && y >= d.height*2/5 && y < d.height*3/5 && x < d.width*3/5; x++ {
			gray[x] = 250
		}
		if d.format != gvsp.Mono8 {
			recode(row, d.format, gray, gvsp.Mono8, d.width, y)
		}
	}
}

// recode makes a row of a format, the y-th, of one that is Mono8, Mono16 or RGB8.
func recode(to []byte, format gvsp.PixelFormat, row []byte, from gvsp.PixelFormat, width, y int) {
	l, _ := format.Layout()
	bits := cmp.Or(l.Bits, min(l.PixelBits, 16)) // of a sample
	rgb := func(x int) (c [3]int) {              // of 16 bits
		for i := range c {
			switch from {
			case gvsp.Mono8:
				c[i] = int(row[x]) * 257
			case gvsp.Mono16:
				c[i] = int(binary.LittleEndian.Uint16(row[2*x:]))
			default:
				c[i] = int(row[3*x+i]) * 257
			}
		}
		return c
	}
	clear(to)
	for x := range width {
		c := rgb(x)
		luma := (19595*c[0] + 38470*c[1] + 7471*c[2]) >> 16 // BT.601
		switch {
		case format == gvsp.RGB8, format == gvsp.BGR8, format == gvsp.RGBa8:
			p := to[x*l.PixelBits/8:]
			p[0], p[1], p[2] = byte(c[0]>>8), byte(c[1]>>8), byte(c[2]>>8)
			if format == gvsp.BGR8 {
				p[0], p[2] = p[2], p[0]
			} else if format == gvsp.RGBa8 {
				p[3] = 255
			}
		case format == gvsp.YUV422, format == gvsp.YUV422UY:
			first := rgb(x &^ 1) // which has the colour of both
			base := (19595*first[0] + 38470*first[1] + 7471*first[2]) >> 16
			other := (first[2] - base) * 37029 >> 16 // U, and V of the second
			if x&1 != 0 {
				other = (first[0] - base) * 46734 >> 16
			}
			at := 0
			if format == gvsp.YUV422UY {
				at = 1
			}
			to[2*x+at], to[2*x+1-at] = byte(luma>>8), byte(min(128+other>>8, 255))
		default:
			v := luma
			if phase := l.Bayer - 1; phase >= 0 { // red is in the first column of RG and GB, in the first row of RG and GR
				column, line := (x^phase)&1, (y^phase>>1)&1
				if v = c[1]; column == line {
					v = c[2*line]
				}
			}
			for i := range bits {
				bit := x*l.PixelBits + i
				to[bit/8] |= byte(v>>(16-bits+i)&1) << (bit % 8)
			}
		}
	}
}

// belt is pictures behind each other.
type belt struct {
	format        gvsp.PixelFormat
	width, height int // of a picture
	lines         []byte
}

// maxBelt bounds the pictures in memory.
const maxBelt = 1 << 30

// loadBelt reads a picture, or the pictures of a folder in the order of their names.
func loadBelt(source string, warn func(text string)) (*belt, error) {
	names := []string{source}
	if i, err := os.Stat(source); err != nil {
		return nil, usage("%v", err)
	} else if i.IsDir() {
		if names, err = cli.Frames(source, pictures, warn); err != nil {
			return nil, usage("%v", err)
		}
		for i := range names {
			names[i] = filepath.Join(source, names[i])
		}
	}
	b := &belt{}
	for _, name := range names {
		if err := b.add(name); err != nil {
			return nil, usage("%s: %v", name, err)
		}
	}
	return b, nil
}

func (b *belt) add(name string) error {
	g, img, err := loadPicture(name, func(g gvsp.Geometry) error {
		if len(b.lines)+g.Bytes() > maxBelt {
			return fmt.Errorf("the pictures are larger than %d bytes together", maxBelt)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if b.lines == nil {
		b.format, b.width, b.height = g.Format, g.Width, g.Height
	} else if g.Format != b.format || g.Width != b.width || g.Height != b.height {
		return fmt.Errorf("%d x %d %v: those before it are %d x %d %v", g.Width, g.Height, g.Format, b.width, b.height,
			b.format)
	}
	b.lines = appendPixels(b.lines, img)
	return nil
}

// appendPixels adds a picture's pixels as loadPicture says their format: gray of 8 or 16 bits, or RGB8.
func appendPixels(to []byte, img image.Image) []byte {
	r := img.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		if m, ok := img.(*image.Gray); ok {
			at := m.PixOffset(r.Min.X, y)
			to = append(to, m.Pix[at:at+r.Dx()]...)
			continue
		}
		for x := r.Min.X; x < r.Max.X; x++ {
			switch m := img.(type) {
			case *image.Gray16: // cameras have the low byte first
				to = binary.LittleEndian.AppendUint16(to, m.Gray16At(x, y).Y)
			default:
				red, green, blue, _ := m.At(x, y).RGBA()
				to = append(to, byte(red>>8), byte(green>>8), byte(blue>>8))
			}
		}
	}
	return to
}

// recode makes the lines those of a format. Where they aren't whole bytes the width doesn't fit, which is refused
// later.
func (b *belt) recode(format gvsp.PixelFormat) {
	to, from := gvsp.Geometry{Format: format, Width: b.width}.RowBytes(),
		gvsp.Geometry{Format: b.format, Width: b.width}.RowBytes()
	lines := make([]byte, len(b.lines)/from*to)
	for y := range len(b.lines) / from {
		recode(lines[y*to:][:to], format, b.lines[y*from:][:from], b.format, b.width, y%b.height)
	}
	b.lines, b.format = lines, format
}

// draw copies the lines of a block.
func (b *belt) draw(block uint64, pixels []byte) {
	at := int(block * uint64(len(pixels)) % uint64(len(b.lines)))
	for len(pixels) > 0 {
		n := copy(pixels, b.lines[at:])
		pixels = pixels[n:]
		at = (at + n) % len(b.lines)
	}
}
