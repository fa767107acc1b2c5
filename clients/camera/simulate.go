package main

// The command simulate: a camera that plays pictures, or draws parts.

import (
	"encoding/binary"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
)

type simulateCmd struct {
	// Picture, or folder of pictures (PNG, JPEG) of one size, to play over and over. Without it parts are drawn: gray
	// ones, some with a bright spot in the middle.
	Source string `arg:"" optional:"" placeholder:"FILE" predictor:"path" group:"picture"`

	// Be a line camera: blocks are runs of lines of an endless belt.
	Lines bool `group:"picture"`
	// Pixels of a line, of parts that are drawn.
	Width int `default:"512" group:"picture"`
	// Lines of a frame that is drawn, or of a line camera's block (default: 512, 64 with --lines).
	Height int `placeholder:"N" group:"picture"`
	// Bytes of padding behind each line.
	Pad int `placeholder:"N" group:"picture" zero:""`
	// Frames or blocks a second.
	Rate float64 `default:"10" group:"picture"`
	// Blocks that it sends after each start; 0: no end.
	Blocks uint64 `placeholder:"N" group:"picture" zero:""`
	// Every how many parts one has a spot; 0: none.
	Spots uint64 `default:"5" group:"picture"`

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
	Loss float64 `group:"fault" zero:""`
	// Share of the packets that come behind the next one.
	Reorder float64 `group:"fault" zero:""`
	// Share of the packets that come twice.
	Duplicate float64 `group:"fault" zero:""`
	// How much later than its time a block may begin.
	Jitter time.Duration `group:"fault" zero:""`
	// Seed of what happens to which packet.
	Seed uint64 `default:"1" group:"fault"`
}

func (c *simulateCmd) config() (cfg simulator.Config, err error) {
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
	cfg = simulator.Config{
		Addr: addr, Serial: c.Serial, Name: c.Name, Lines: c.Lines, Width: c.Width, Height: c.Height,
		Format: gvsp.Mono8, Pad: c.Pad, Rate: c.Rate, Blocks: c.Blocks, Loss: c.Loss, Reorder: c.Reorder,
		Duplicate: c.Duplicate, Jitter: c.Jitter,
		Seed: c.Seed, NoResend: c.NoResend, Extended: c.Extended,
	}
	if c.Source == "" {
		if c.Height == 0 {
			cfg.Height = 512
			if c.Lines {
				cfg.Height = 64
			}
		}
		cfg.Draw = drawn{cfg.Width, cfg.Height, c.Spots}.draw
		return cfg, nil
	}
	b, err := loadBelt(c.Source)
	if err != nil {
		return cfg, err
	}
	cfg.Format, cfg.Width = b.format, b.width
	if !c.Lines {
		if c.Height != 0 && c.Height != b.height {
			return cfg, usage("--height %d: the pictures have %d lines; only a line camera's blocks have others",
				c.Height,
				b.height)
		}
		cfg.Height = b.height
	} else if c.Height == 0 {
		cfg.Height = 64
	}
	cfg.Draw = b.draw
	return cfg, nil
}

func (c *simulateCmd) Run(e *env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	cam, err := simulator.Start(cfg)
	if err != nil {
		return usage("%v", err)
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
}

func (d drawn) draw(block uint64, pixels []byte) {
	for y := range d.height {
		row := pixels[y*d.width : (y+1)*d.width]
		for x := range row {
			row[x] = byte(96 + (x+y+int(block%32))%32)
		}
	}
	if d.spots == 0 || block%d.spots != d.spots-1 {
		return
	}
	for y := d.height * 2 / 5; y < d.height*3/5; y++ {
		row := pixels[y*d.width : (y+1)*d.width]
		for x := d.width * 2 / 5; x < d.width*3/5; x++ {
			row[x] = 250
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
func loadBelt(source string) (*belt, error) {
	names := []string{source}
	if i, err := os.Stat(source); err != nil {
		return nil, usage("%v", err)
	} else if i.IsDir() {
		names = nil
		entries, err := os.ReadDir(source)
		if err != nil {
			return nil, usage("%v", err)
		}
		for _, e := range entries {
			if slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(e.Name()))) {
				names = append(names, filepath.Join(source, e.Name()))
			}
		}
		if len(names) == 0 {
			return nil, usage("%s: no picture is in it", source)
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

// draw copies the lines of a block.
func (b *belt) draw(block uint64, pixels []byte) {
	at := int(block * uint64(len(pixels)) % uint64(len(b.lines)))
	for len(pixels) > 0 {
		n := copy(pixels, b.lines[at:])
		pixels = pixels[n:]
		at = (at + n) % len(b.lines)
	}
}
