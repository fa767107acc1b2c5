// Image files: what they hold, whether it may be decoded, and decoding.

package frames

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"slices"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/polyscan/polyscan/internal/pictures"
	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// imageKind is a kind of image file.
type imageKind struct {
	name     string // as metrics have it
	encoding pb.Encoding
	magic    []string
	config   func(io.Reader) (image.Config, error)
	decode   func(io.Reader) (image.Image, error)
	// inspect completes what the header says about the samples, with host memory that decoding takes beside the pixels
	// that come out. It refuses what must not be decoded.
	inspect func(*pieceReader, image.Config, *imageHeader) error
}

var imageKinds = []*imageKind{
	{"png", pb.Encoding_ENCODING_PNG, []string{"\x89PNG\r\n\x1a\n"}, png.DecodeConfig, png.Decode, inspectPNG},
	{"jpeg", pb.Encoding_ENCODING_JPEG, []string{"\xff\xd8\xff"}, jpeg.DecodeConfig, jpeg.Decode, inspectJPEG},
	{"tiff", pb.Encoding_ENCODING_TIFF, []string{"II*\x00", "MM\x00*"}, tiff.DecodeConfig, tiff.Decode, inspectTIFF},
	{"bmp", pb.Encoding_ENCODING_BMP, []string{"BM"}, bmp.DecodeConfig, bmp.Decode, inspectBMP},
}

func (k *imageKind) title() string { return EncodingName(k.encoding) }

// EncodingName is the name without its prefix.
func EncodingName(e pb.Encoding) string { return e.String()[len("ENCODING_"):] }

// samples says what the pixels of a file are, by its structure and not by their values: two files of one camera have
// the same samples, whatever they show.
type samples uint8

const (
	samplesGray   samples = iota // 8 bits or less
	samplesGray16                // 16 bits
	samplesColor
	samplesAlpha   // colour or gray with alpha
	samplesColor16 // 16 bits a channel
)

// describe reads on from "the file holds".
func (s samples) describe() string {
	return [...]string{"8-bit gray", "16-bit gray", "8-bit colour", "8-bit colour with alpha", "16-bit colour"}[s]
}

// formats that the samples may be asked for as; the first is what they are. Gray may be the mosaic of a camera.
func (s samples) formats() []pb.PixelFormat {
	const (
		gray, gray16 = pb.PixelFormat_PIXEL_FORMAT_GRAY8, pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
		rgb, bgr     = pb.PixelFormat_PIXEL_FORMAT_RGB8, pb.PixelFormat_PIXEL_FORMAT_BGR8
		rgba         = pb.PixelFormat_PIXEL_FORMAT_RGBA8
	)
	const bayer, bayer16 = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG8, pb.PixelFormat_PIXEL_FORMAT_BAYER_RG16LE
	return [...][]pb.PixelFormat{
		samplesGray:    {gray, rgb, bgr, rgba, bayer, bayer + 1, bayer + 2, bayer + 3},
		samplesGray16:  {gray16, bayer16, bayer16 + 1, bayer16 + 2, bayer16 + 3},
		samplesColor:   {rgb, bgr, rgba},
		samplesAlpha:   {rgba, rgb, bgr},
		samplesColor16: {},
	}[s]
}

// imageHeader is what is known of a file before it is decoded.
type imageHeader struct {
	width, height int
	samples       samples
	// scratch is the host memory that decoding takes, in bytes: at worst, and with the decoded image.
	scratch int64
	// least is the number of bytes that a file has at least which holds so many pixels; 0 where that can't be said.
	least int64
	// end is where the picture ends in the file, if that is known; 0 if not.
	end int64
	// premultiplied says that colours are multiplied by alpha.
	premultiplied bool

	config image.Config
}

// decodeImage decodes a file. What its header claims is checked first: size, memory, and the layout that the request
// expects. release gives the pixels' memory back.
func (s *Reader) decodeImage(ctx context.Context, m *pb.Frame, pieces [][]byte, path string,
	share func(kernels.Picture) (int64, error)) (_ *Frame, k *imageKind, err error) {
	fail := func(reason string, err error) (*Frame, *imageKind, error) {
		s.Metrics.DecodeRefused.WithLabelValues(reason).Inc()
		return nil, nil, err
	}
	turn, err := s.Work.Enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer turn.Leave()
	src := newPieceReader(ctx, turn, pieces)
	k, err = s.kindOf(src, m.GetEncoding(), path)
	if err != nil {
		return fail("kind", err)
	}
	file := fmt.Sprintf("%s file of %d bytes", k.title(), src.size())
	h, err := readHeader(src, k)
	if err != nil {
		return fail("header", fileError(ctx, path, file, err))
	}
	if err := s.CheckPixels(clampUint32(h.width), clampUint32(h.height), path+".data"); err != nil {
		return fail("pixels", err)
	}
	if bad, ok := errors.AsType[*kernels.InvalidError](kernels.CheckSize(h.width, h.height)); ok {
		return fail("pixels", apierr.Refuse(path+".data", file, "%v", bad.Violations[0]))
	}
	if err := protect(func() error { return k.inspect(src, h.config, h) }); err != nil {
		return fail("header", fileError(ctx, path, file, err))
	}
	like := kernels.Picture{Width: h.width, Height: h.height}
	if like.Format, like.Coding, err = agree(m.GetLayout(), h, path); err != nil {
		return fail("layout", err)
	}
	format := like.Format // of the pixels that are decoded
	if like.Coding != (kernels.Coding{}) {
		if format = kernels.Gray8; h.samples == samplesGray16 {
			format = kernels.Gray16(16)
		}
	}
	bytes := int64(h.width) * int64(h.height) * int64(format.PixelBytes())
	if limit := s.MaxBytes; bytes > limit {
		return fail("bytes", apierr.Refuse(path+".data", file, "%d x %d pixels decode to %d bytes: the limit is %d", h.width,
			h.height, bytes, limit))
	}
	if src.size() < h.least {
		return fail("content",
			fileError(ctx, path, file,
				fmt.Errorf("%w: %d x %d pixels take %d bytes at least", errCutOff, h.width, h.height, h.least)))
	}
	if need, most := h.scratch+bytes, s.Host.Cap; need > most {
		return fail("bytes", apierr.Quota(apierr.ReasonHostMemory, "host memory",
			fmt.Sprintf("decoding the %s takes %d bytes: there are %d", file, need, most)))
	}
	turn.Leave() // nobody waits for memory with a place that others need who have some
	answer, err := share(like)
	if err != nil {
		return nil, nil, err
	}
	decoding, ofAnswer, err := s.Host.TakeBoth(ctx, h.scratch+bytes, answer)
	if err != nil {
		return nil, nil, err
	}
	if src.turn, err = s.Work.Enter(ctx); err != nil {
		decoding.Release()
		ofAnswer.Release()
		return nil, nil, err
	}
	defer src.turn.Leave()
	f, free, err := decodePixels(src, k, h, format, decoding)
	if err != nil {
		decoding.Release()
		ofAnswer.Release()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return fail("content", fileError(ctx, path, file, err))
	}
	f.Format, f.Coding = like.Format, like.Coding
	return &Frame{Picture: f, Release: func() { free(); decoding.Release() }, Answer: ofAnswer}, k, nil
}

// kindOf recognises a file by its first bytes, and checks that it is what the request says.
func (s *Reader) kindOf(src *pieceReader, want pb.Encoding, path string) (*imageKind, error) {
	if src.size() == 0 {
		return nil, apierr.Refuse(path+".data", "0 bytes", "an image file is expected")
	}
	head := src.at(0, 8)
	for _, k := range imageKinds {
		for _, m := range k.magic {
			if !bytes.HasPrefix(head, []byte(m)) {
				continue
			}
			if want != pb.Encoding_ENCODING_AUTO && want != k.encoding {
				return nil, apierr.Refuse(path+".encoding", EncodingName(want), "but the data is a %s file", k.title())
			}
			return k, nil
		}
	}
	what := "PNG, JPEG, TIFF or BMP"
	if want != pb.Encoding_ENCODING_AUTO {
		what = EncodingName(want)
	}
	return nil, apierr.Refuse(path+".data", fmt.Sprintf("%d bytes that start with % x", src.size(), head), "is no %s file",
		what)
}

// errCutOff takes the place of decoders' errors that say "unexpected EOF".
var errCutOff = errors.New("the file is cut off")

func readHeader(src *pieceReader, k *imageKind) (h *imageHeader, err error) {
	err = protect(func() error {
		src.rewind()
		cfg, err := k.config(src)
		if err != nil {
			return err
		}
		if err := pictures.Check(src.at); err != nil {
			return err
		}
		h = &imageHeader{width: cfg.Width, height: cfg.Height, config: cfg}
		if cfg.Width < 1 || cfg.Height < 1 {
			return fmt.Errorf("the image has %d x %d pixels", cfg.Width, cfg.Height)
		}
		switch cm := cfg.ColorModel.(type) {
		case color.Palette:
			h.samples = paletteSamples(cm)
		default:
			switch cm {
			case color.GrayModel:
				h.samples = samplesGray
			case color.Gray16Model:
				h.samples = samplesGray16
			case color.NRGBAModel:
				h.samples = samplesAlpha
			case color.RGBA64Model, color.NRGBA64Model:
				h.samples = samplesColor16
			default: // RGBA, YCbCr, CMYK
				h.samples = samplesColor
			}
		}
		return nil
	})
	return h, err
}

// protect runs a decoder. They are fuzzed and don't panic, but a line must not stop for one that does.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	return f()
}

// fileError is the refusal of a file.
func fileError(ctx context.Context, path, file string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errCutOff
	}
	return apierr.Refuse(path+".data", file, "can't be decoded: %s", apierr.OneLine(pictures.Error(err).Error()))
}

// agree returns the format that a file is to be decoded to. A layout that contradicts the file is refused.
func agree(l *pb.FrameLayout, h *imageHeader, path string) (kernels.PixelFormat, kernels.Coding, error) {
	bad := &apierr.FieldError{}
	check := func(field string, want, have int) {
		if want != 0 && want != have {
			bad.Add(path+".layout."+field, fmt.Sprint(want), fmt.Sprintf("but the file has %d", have))
		}
	}
	check("width", int(l.GetWidth()), h.width)
	check("height", int(l.GetHeight()), h.height)

	if h.samples == samplesColor16 {
		bad.Add(path+".data", h.samples.describe(),
			"no pixel format holds it: convert the file to 8 bits a channel, or to 16-bit gray")
		return kernels.PixelFormat{}, kernels.Coding{}, bad
	}
	can := h.samples.formats()
	name := l.GetPixelFormat()
	if name == pb.PixelFormat_PIXEL_FORMAT_UNSPECIFIED {
		name = can[0]
	}
	found := false
	for _, c := range can {
		found = found || c == name
	}
	var format kernels.PixelFormat
	var coding kernels.Coding
	switch {
	case !found:
		bad.Add(path+".layout.pixel_format", wire.FormatName(name),
			fmt.Sprintf("the file holds %s, %s", h.samples.describe(), wire.FormatName(can[0])))
		return format, coding, bad
	default:
		var err error
		format, coding, err = wire.FormatOf(&pb.FrameLayout{PixelFormat: name, SignificantBits: l.GetSignificantBits(),
			Demosaic: l.GetDemosaic()}, path)
		var fe *apierr.FieldError
		if errors.As(err, &fe) {
			bad.Join(fe)
			return format, coding, bad
		}
	}
	like := kernels.Picture{Width: h.width, Format: format, Coding: coding}
	check("stride", int(l.GetStride()), like.RowSize())
	return format, coding, bad.OrNil()
}

// decodePixels fills share with what decoding takes, and then with the pixels alone.
func decodePixels(src *pieceReader, k *imageKind, h *imageHeader, format kernels.PixelFormat, share *budget.Share) (
	f kernels.Picture, free func(), err error) {
	err = protect(func() error {
		src.rewind()
		share.Fill(h.scratch)
		img, err := k.decode(src)
		if err != nil {
			return err
		}
		if b := img.Bounds(); b.Dx() != h.width || b.Dy() != h.height {
			return fmt.Errorf("the header says %d x %d pixels, the content %d x %d", h.width, h.height, b.Dx(), b.Dy())
		}
		if k.encoding == pb.Encoding_ENCODING_PNG {
			h.end = src.pos // the decoder reads up to the end and not a byte more
		}
		if err := checkAlone(src, h.end); err != nil {
			return err
		}
		if f, free, err = convertImage(img, h, format, share); err == nil {
			share.Fill(int64(cap(f.Data[0]))) // all of what the pixels lie in
		}
		return err
	})
	return f, free, err
}

// checkAlone refuses a file that goes on with another picture behind the end of the first: two files that became one on
// their way, of which nobody would look at the second. What else follows a picture is a note of the program that wrote it.
func checkAlone(src *pieceReader, end int64) error {
	const longest = 8 // of what files begin with
	if end == 0 {
		return nil
	}
	rest := string(src.at(end, longest))
	for _, k := range imageKinds {
		if slices.ContainsFunc(k.magic, func(m string) bool { return strings.HasPrefix(rest, m) }) {
			return fmt.Errorf("another %s picture begins at byte %d, behind the end of the first: a frame is one picture",
				k.title(), end)
		}
	}
	return nil
}

// paletteSamples says what a palette holds. One of nothing but grays is how BMP files and some others hold gray.
func paletteSamples(p color.Palette) samples {
	s := samplesGray
	for _, c := range p {
		switch c := c.(type) {
		case color.NRGBA:
			return samplesAlpha
		case color.RGBA:
			if c.R != c.G || c.G != c.B {
				s = samplesColor
			}
		default: // TIFF's entries have 16 bits; the upper 8 count
			r, g, b, _ := c.RGBA()
			if r>>8 != g>>8 || g>>8 != b>>8 {
				s = samplesColor
			}
		}
	}
	return s
}

// maxDeflate is the most that deflate shrinks anything: a match of 258 bytes takes 2 bits at best.
const maxDeflate = 1032

// inspectPNG looks for transparency that the header doesn't mention, and for interlacing.
func inspectPNG(src *pieceReader, cfg image.Config, h *imageHeader) error {
	head := src.at(8, 8+13)
	if len(head) < 8+13 {
		return io.ErrUnexpectedEOF
	}
	depth, colorType, interlace := head[16], head[17], head[20]
	channels := map[byte]int64{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colorType]
	row := (int64(cfg.Width)*channels*int64(depth)+7)/8 + 1
	h.least = row * int64(cfg.Height) / maxDeflate
	src.atOnce = 1 << 10
	for off := int64(8); ; {
		chunk := src.at(off, 8)
		if len(chunk) < 8 || string(chunk[4:]) == "IDAT" {
			break
		}
		if string(chunk[4:]) == "tRNS" && colorType != 3 { // palettes have it in their colours
			switch h.samples {
			case samplesGray, samplesColor:
				h.samples = samplesAlpha
			case samplesGray16:
				h.samples = samplesColor16
			}
		}
		off += 12 + int64(binary.BigEndian.Uint32(chunk))
	}
	h.scratch = int64(cfg.Width) * int64(cfg.Height) * decodedBytes(cfg, h)
	if interlace != 0 {
		h.scratch *= 2
	}
	return nil
}

// decodedBytes is how many bytes the pixels have that decoders make.
func decodedBytes(cfg image.Config, h *imageHeader) int64 {
	if _, ok := cfg.ColorModel.(color.Palette); ok {
		return 1
	}
	switch h.samples {
	case samplesGray:
		return 1
	case samplesGray16:
		return 2
	case samplesColor16:
		return 8
	}
	return 4
}

// Bounds of the passes over a progressive JPEG. Encoders make about ten; each may cost as much time as the whole
// picture and hardly any bytes, so that their number and the pixels that all of them visit have a bound.
const (
	maxScans      = 100
	maxScanPixels = 1 << 30
)

// inspectJPEG walks over the segments.
func inspectJPEG(src *pieceReader, cfg image.Config, h *imageHeader) error {
	n := int64(cfg.Width+63) * int64(cfg.Height+63) // blocks and their groups are filled up
	components := int64(4)
	switch cfg.ColorModel {
	case color.GrayModel:
		components = 1
	case color.YCbCrModel:
		components = 3
	}
	if h.scratch = 4 * n; components == 1 { // RGB files become RGBA
		h.scratch = n
	}
	progressive, scans, end, whole, err := scanJPEG(src)
	if err != nil {
		return err
	}
	h.end = end
	if scans > maxScans {
		return fmt.Errorf("the file has %d scans: the limit is %d", scans, maxScans)
	}
	if progressive {
		if !whole {
			return errors.New("the file ends before all scans of its picture have come")
		}
		if pixels := n * int64(scans); pixels > maxScanPixels {
			return fmt.Errorf("the file has %d scans over %d x %d pixels, %d in all: the limit is %d", scans, cfg.Width,
				cfg.Height, pixels, maxScanPixels)
		}
		h.scratch += 4 * components * n // coefficients of 32 bits
		src.atOnce = 32
	}
	return nil
}

// precision is how many low bits of each coefficient of a component of a progressive JPEG haven't come.
type precision map[byte]*[64]byte

// begin reads the components of a frame, of which nothing has come, and scan what a scan brings (ITU T.81, B.2).
func (p precision) begin(segment []byte) {
	for i := 8; i+3 <= len(segment) && len(p) < int(segment[7]); i += 3 {
		p[segment[i]] = new([64]byte)
		for k := range p[segment[i]] {
			p[segment[i]][k] = 0xff
		}
	}
}

func (p precision) scan(segment []byte) {
	if len(segment) < 3 {
		return
	}
	n := int(segment[2])
	if len(segment) < 3+2*n+3 {
		return
	}
	first, last, low := segment[3+2*n], min(segment[4+2*n], 63), segment[5+2*n]&15
	for i := range n {
		c := p[segment[3+2*i]]
		for k := int(first); c != nil && k <= int(last); k++ {
			c[k] = low
		}
	}
}

// whole says that all of all coefficients came.
func (p precision) whole() bool {
	for _, c := range p {
		if *c != [64]byte{} {
			return false
		}
	}
	return true
}

// scanJPEG counts scans, and says whether coefficients are spread over several, and where the picture ends: 0 where the
// file says that more pictures follow, as telephones add them for depth and brightness (CIPA DC-007), or doesn't say it.
// whole says that all bits of all coefficients came where they are spread.
func scanJPEG(src *pieceReader) (progressive bool, scans int, end int64, whole bool, err error) {
	have := precision{}
	follow := false
	off := int64(2)
	for markers := 0; ; markers++ {
		if markers%4096 == 0 && src.ctx.Err() != nil {
			return false, 0, 0, false, context.Cause(src.ctx)
		}
		// To the next marker: in a scan that is an FF that neither 00 nor a restart follows.
		i, ok := src.index(0xff, off)
		if !ok {
			return progressive, scans, 0, have.whole(), nil
		}
		m, ok := src.byte(i + 1)
		off = i + 2
		switch {
		case !ok || m == 0xd9:
			if end = off; !ok || follow {
				end = 0
			}
			return progressive, scans, end, have.whole(), nil
		case m == 0xff:
			off = i + 1
		case m == 0 || m == 1 || m >= 0xd0 && m <= 0xd8:
		default:
			switch m {
			case 0xc2:
				progressive = true
				have.begin(src.at(off, 20))
			case 0xda:
				scans++
				have.scan(src.at(off, 14))
			}
			follow = follow || m == 0xe2 && string(src.at(off+2, 4)) == "MPF\x00"
			high, _ := src.byte(off)
			if low, ok := src.byte(off + 1); ok {
				off += int64(max(2, int(high)<<8|int(low)))
			}
		}
	}
}

// byte is that at off, and index the place of the next one like c at or behind off. Both are fast where off grows.
func (s *pieceReader) byte(off int64) (byte, bool) {
	if off >= s.size() {
		return 0, false
	}
	i := s.piece(off)
	return s.pieces[i][off-s.starts[i]], true
}

func (s *pieceReader) index(c byte, off int64) (int64, bool) {
	for off < s.size() {
		i := s.piece(off)
		if j := bytes.IndexByte(s.pieces[i][off-s.starts[i]:], c); j >= 0 {
			return off + int64(j), true
		}
		off = s.starts[i+1]
	}
	return 0, false
}

// inspectTIFF tells colour from colour with alpha, which have the same model where alpha is premultiplied.
func inspectTIFF(src *pieceReader, cfg image.Config, h *imageHeader) error {
	n := int64(cfg.Width) * int64(cfg.Height)
	h.scratch = n*decodedBytes(cfg, h) + 8*n // the image, and a strip or tile of it, at worst all in one
	const bitsPerSample = 258
	pictures.Directory(src.at, 0, func(tag uint16, count, _ uint32) {
		if tag == bitsPerSample && count == 4 && h.samples == samplesColor && cfg.ColorModel == color.RGBAModel {
			h.samples, h.premultiplied = samplesAlpha, true
		}
	})
	return nil
}

// inspectBMP tells files with an alpha channel from those with padding.
func inspectBMP(src *pieceReader, cfg image.Config, h *imageHeader) error {
	head := src.at(0, 30)
	if len(head) < 30 {
		return io.ErrUnexpectedEOF
	}
	const infoHeader = 40 // longer headers have a mask for alpha
	bits := int64(binary.LittleEndian.Uint16(head[28:]))
	if bits == 32 && binary.LittleEndian.Uint32(head[14:]) > infoHeader {
		h.samples = samplesAlpha
	}
	row := (int64(cfg.Width)*bits + 31) / 32 * 4
	h.least = int64(binary.LittleEndian.Uint32(head[10:])) + row*int64(cfg.Height)
	h.end = h.least
	h.scratch = int64(cfg.Width) * int64(cfg.Height) * decodedBytes(cfg, h)
	return nil
}

func clampUint32(v int) uint32 { return uint32(min(max(int64(v), 0), 1<<32-1)) }
