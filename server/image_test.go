package server

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/polyscan/polyscan/internal/pictures/picturetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

const (
	gray16 = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
	rgb8   = pb.PixelFormat_PIXEL_FORMAT_RGB8
	bgr8   = pb.PixelFormat_PIXEL_FORMAT_BGR8
	rgba8  = pb.PixelFormat_PIXEL_FORMAT_RGBA8
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// The pictures that files are made of.
func pictures(w, h int) map[string]image.Image {
	r := image.Rect(0, 0, w, h)
	gray, gray16 := image.NewGray(r), image.NewGray16(r)
	opaque, nrgba := image.NewRGBA(r), image.NewNRGBA(r)
	nrgba64 := image.NewNRGBA64(r)
	for _, p := range [][]byte{gray.Pix, gray16.Pix, opaque.Pix, nrgba.Pix, nrgba64.Pix} {
		copy(p, randomBytes(len(p)))
	}
	for i := 3; i < len(opaque.Pix); i += 4 {
		opaque.Pix[i] = 255
	}
	nrgba.Pix[3] = 7 // not opaque, whatever chance says
	nrgba64.Pix[6] = 3
	palette := func(colors ...color.Color) *image.Paletted {
		p := image.NewPaletted(r, colors)
		for i := range p.Pix {
			p.Pix[i] = byte(rand.IntN(len(colors)))
		}
		return p
	}
	colors, grays := []color.Color{}, []color.Color{}
	for i := range 200 {
		colors = append(colors, color.RGBA{byte(i), byte(7 * i), byte(255 - i), 255})
		grays = append(grays, color.RGBA{byte(255 - i), byte(255 - i), byte(255 - i), 255})
	}
	return map[string]image.Image{
		"gray": gray, "gray16": gray16, "opaque": opaque, "nrgba": nrgba, "nrgba64": nrgba64,
		"palette": palette(colors...), "palette of grays": palette(grays...),
		"palette of two":     palette(color.RGBA{1, 2, 3, 255}, color.RGBA{200, 100, 0, 255}),
		"palette with alpha": palette(color.NRGBA{10, 20, 30, 40}, color.RGBA{1, 2, 3, 255}),
	}
}

func encodePicture(t testing.TB, kind string, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 80})
	case "tiff":
		err = tiff.Encode(&b, img, nil)
	case "tiff deflate":
		err = tiff.Encode(&b, img, &tiff.Options{Compression: tiff.Deflate, Predictor: true})
	case "bmp":
		err = bmp.Encode(&b, img)
	}
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return b.Bytes()
}

// cutUp makes pieces as a transport would.
func cutUp(data []byte, n int) [][]byte {
	var out [][]byte
	for chunk := range slices.Chunk(data, n) {
		out = append(out, chunk)
	}
	return out
}

// pixelAt is the slow way to the samples of a decoded picture, in the order of a format.
func pixelAt(img image.Image, x, y int, f pb.PixelFormat) []byte {
	switch f {
	case gray8:
		return []byte{color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y}
	case gray16:
		v := color.Gray16Model.Convert(img.At(x, y)).(color.Gray16).Y
		return []byte{byte(v), byte(v >> 8)}
	}
	c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
	switch f {
	case rgb8:
		return []byte{c.R, c.G, c.B}
	case bgr8:
		return []byte{c.B, c.G, c.R}
	}
	return []byte{c.R, c.G, c.B, c.A}
}

// checkPixels compares a frame with a picture.
func checkPixels(t *testing.T, f kernels.Picture, img image.Image, format pb.PixelFormat) {
	t.Helper()
	b := img.Bounds()
	if f.Width != b.Dx() || f.Height != b.Dy() {
		t.Fatalf("%d x %d, want %v", f.Width, f.Height, b)
	}
	data := slices.Concat(f.Data...)
	n := f.Format.PixelBytes()
	if want := f.Stride*(f.Height-1) + f.Width*n; len(data) != want && len(data) != f.Stride*f.Height {
		t.Fatalf("%d bytes, want %d", len(data), want)
	}
	for y := range f.Height {
		for x := range f.Width {
			got := data[y*f.Stride+x*n:][:n]
			if want := pixelAt(img, b.Min.X+x, b.Min.Y+y, format); !bytes.Equal(got, want) {
				t.Fatalf("pixel (%d, %d): %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestDecodeImages(t *testing.T) {
	s := start(t, Config{})
	// What each picture is in each kind of file.
	want := map[string]pb.PixelFormat{
		"gray": gray8, "gray16": gray16, "opaque": rgb8, "nrgba": rgba8, "palette": rgb8, "palette of grays": gray8,
		"palette of two": rgb8, "palette with alpha": rgba8,
	}
	kinds := map[string][]string{
		"png": {"gray", "gray16", "opaque", "nrgba", "palette", "palette of grays", "palette of two",
			"palette with alpha"},
		"jpeg":         {"gray", "opaque"},
		"tiff":         {"gray", "gray16", "nrgba", "palette", "palette of grays"},
		"tiff deflate": {"gray", "gray16", "nrgba"},
		"bmp":          {"gray", "opaque", "nrgba", "palette"},
	}
	for _, size := range [][2]int{{1, 1}, {31, 5}, {32, 3}, {33, 4}, {17, 16}} {
		all := pictures(size[0], size[1])
		for kind, names := range kinds {
			for _, name := range names {
				file := encodePicture(t, kind, all[name])
				img, _, err := image.Decode(bytes.NewReader(file))
				if err != nil {
					t.Fatal(err)
				}
				natural := want[name]
				if kind == "bmp" && name == "nrgba" {
					natural = rgb8 // with a header that has no mask for alpha, it is padding
				}
				asked := []pb.PixelFormat{0, natural}
				switch natural {
				case gray8:
					asked = append(asked, rgb8, bgr8, rgba8)
				case rgb8:
					asked = append(asked, bgr8, rgba8)
				case rgba8:
					asked = append(asked, rgb8, bgr8)
				}
				for _, ask := range asked {
					format := ask
					if ask == 0 {
						format = natural
					}
					t.Run(fmt.Sprintf("%s/%s/%dx%d/%s", kind, name, size[0], size[1], wire.FormatName(ask)),
						func(t *testing.T) {
							m := &pb.Frame{Encoding: pb.Encoding_ENCODING_AUTO,
								Layout: &pb.FrameLayout{PixelFormat: ask}}
							known, _, _ := strings.Cut(kind, " ")
							before := metric(t, s, "polyscan_frames_total", "encoding", known)
							f, release, err := decodeFile(t, s.Server, m, cutUp(file, 7), "frame")
							if err != nil {
								t.Fatal(err)
							}
							defer release()
							if metric(t, s, "polyscan_frames_total", "encoding", known) != before+1 {
								t.Error("recognised as another kind")
							}
							if l := wire.LayoutOf(f); l.PixelFormat != format {
								t.Fatalf("format %v, want %v", l.PixelFormat, format)
							}
							checkPixels(t, f, img, format)
						})
				}
			}
		}
	}
}

// The same through the front door, with a sum that anybody can check.
func TestReduceImage(t *testing.T) {
	s := start(t, Config{})
	img := image.NewGray16(image.Rect(0, 0, 40, 30))
	sum := uint64(0)
	for i := range 40 * 30 {
		v := uint16(rand.Uint32N(4096))
		img.SetGray16(i%40, i/40, color.Gray16{Y: v})
		sum += uint64(v)
	}
	f := fileFrame(encodePicture(t, "png", img))
	f.Layout = &pb.FrameLayout{SignificantBits: 12, Width: 40}
	f.FrameId = "number 7"
	res, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 40, 30)), Frame: f})
	if err != nil {
		t.Fatal(err)
	}
	r := res.Result
	if got := r.Regions[0].Channels[0].GetSum(); got != sum {
		t.Errorf("sum %d, want %d", got, sum)
	}
	if r.Layout.PixelFormat != gray16 || r.Layout.SignificantBits != 12 || r.FrameId != "number 7" ||
		r.Times.Decode.AsDuration() <= 0 {
		t.Errorf("%v", r)
	}
	// One sample more than 12 bits hold.
	img.SetGray16(3, 4, color.Gray16{Y: 4096})
	f.Source = &pb.Frame_Data{Data: encodePicture(t, "png", img)}
	_, err = s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 40, 30)), Frame: f})
	wantRefused(t, err, "frame.data", "4096", "(3, 4)", "4095")
}

// A TIFF file with premultiplied alpha, which no encoder at hand writes.
func TestDecodeAssociatedAlpha(t *testing.T) {
	s := start(t, Config{})
	file := encodePicture(t, "tiff", image.NewNRGBA(image.Rect(0, 0, 2, 1)))
	// The pixels lie behind the header of 8 bytes.
	copy(file[8:], []byte{10, 20, 30, 255, 50, 25, 0, 128})
	setTag(t, file, 338, 1) // ExtraSamples: associated
	f, release, err := decodeFile(t, s.Server, fileFrame(nil), [][]byte{file}, "frame")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got, want := slices.Concat(f.Data...), []byte{10, 20, 30, 255, 100, 50, 0, 128}; !bytes.Equal(got, want) ||
		f.Format != driver.RGBA8 {
		t.Errorf("%v %v, want %v", got, f.Format, want)
	}
}

// A BMP file with an alpha channel, which takes a header longer than what the encoder writes.
func TestDecodeBMPAlpha(t *testing.T) {
	s := start(t, Config{})
	short := encodePicture(t, "bmp", image.NewNRGBA(image.Rect(0, 0, 2, 1)))
	file := slices.Concat(short[:54], make([]byte, 108-40), []byte{3, 2, 1, 4, 7, 6, 5, 0}) // blue first
	binary.LittleEndian.PutUint32(file[10:], 14+108)
	binary.LittleEndian.PutUint32(file[14:], 108)
	f, release, err := decodeFile(t, s.Server, fileFrame(nil), [][]byte{file}, "frame")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got, want := slices.Concat(f.Data...), []byte{1, 2, 3, 4, 5, 6, 7, 0}; !bytes.Equal(got, want) ||
		f.Format != driver.RGBA8 {
		t.Errorf("%v %v, want %v", got, f.Format, want)
	}
}

// setTag overwrites the value of a field of a little-endian TIFF file.
func setTag(t testing.TB, file []byte, tag uint16, value uint32) {
	t.Helper()
	ifd := binary.LittleEndian.Uint32(file[4:])
	for i := range int(binary.LittleEndian.Uint16(file[ifd:])) {
		if e := file[int(ifd)+2+12*i:]; binary.LittleEndian.Uint16(e) == tag {
			binary.LittleEndian.PutUint16(e[2:], 4) // of 32 bits
			binary.LittleEndian.PutUint32(e[8:], value)
			return
		}
	}
	t.Fatalf("no tag %d", tag)
}

// pngChunk is a chunk with its checksum.
func pngChunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// claimPNG is the start of a file that says it holds so many pixels.
func claimPNG(w, h uint32, depth, colorType byte) []byte {
	ihdr := binary.BigEndian.AppendUint32(nil, w)
	ihdr = binary.BigEndian.AppendUint32(ihdr, h)
	ihdr = append(ihdr, depth, colorType, 0, 0, 0)
	return slices.Concat([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", ihdr),
		pngChunk("IDAT", []byte{0x78, 0x9c, 1, 0, 0}), pngChunk("IEND", nil))
}

// transparentPNG adds a tRNS chunk to a file without one.
func transparentPNG(file, trns []byte) []byte {
	const ihdrEnd = 8 + 12 + 13
	return slices.Concat(file[:ihdrEnd], pngChunk("tRNS", trns), file[ihdrEnd:])
}

// claimJPEG is a file cut off behind a header that says it holds so many pixels.
func claimJPEG(t testing.TB, w, h uint16) []byte {
	file := encodePicture(t, "jpeg", image.NewGray(image.Rect(0, 0, 8, 8)))
	i := bytes.Index(file, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(file[i+5:], h)
	binary.BigEndian.PutUint16(file[i+7:], w)
	return file
}

func TestRefusesImages(t *testing.T) {
	s := start(t, Config{MaxFramePixels: 1_000_000, MaxMessageBytes: 2_000_000, Logger: nil})
	all := pictures(20, 10)
	pngOf := func(name string) []byte { return encodePicture(t, "png", all[name]) }
	bmpFile, jpegFile := encodePicture(t, "bmp", all["opaque"]), encodePicture(t, "jpeg", all["gray"])
	bigBMP := slices.Clone(bmpFile)
	binary.LittleEndian.PutUint32(bigBMP[18:], 2_000_000)
	bigTIFF := encodePicture(t, "tiff", all["gray"])
	setTag(t, bigTIFF, 256, 1<<31-1)
	setTag(t, bigTIFF, 257, 1)
	turned := slices.Concat(jpegFile[:2], []byte("\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01"+
		"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"), jpegFile[2:])
	longTIFF := encodePicture(t, "tiff", all["gray"])
	setTag(t, longTIFF, 257, 40_000)
	manyScans := encodePicture(t, "jpeg", all["gray"])
	sos := bytes.Index(manyScans, []byte{0xff, 0xda})
	manyScans = append(manyScans[:sos:sos], bytes.Repeat([]byte{0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2}, 101)...)

	progressive := progressiveJPEG(t)
	scans := []int{}
	for i := range len(progressive) - 1 {
		if progressive[i] == 0xff && progressive[i+1] == 0xda {
			scans = append(scans, i)
		}
	}
	cut := func(scan int) []byte { return append(progressive[:scans[scan]:scans[scan]], 0xff, 0xd9) }
	outside := bytes.Clone(pngOf("palette of two"))
	plte := bytes.Index(outside, []byte("PLTE"))
	outside = slices.Concat(outside[:plte-4], pngChunk("PLTE", []byte{1, 2, 3}), outside[plte+4+6+4:])

	raw, auto := pb.Encoding_ENCODING_RAW, pb.Encoding_ENCODING_AUTO
	for _, c := range []struct {
		name     string
		file     []byte
		encoding pb.Encoding
		layout   *pb.FrameLayout
		field    string
		words    []string
	}{
		{"empty", nil, auto, nil, "frame.data", []string{"0 bytes"}},
		{"text", []byte("hello, world"), auto, nil, "frame.data",
			[]string{"12 bytes", "68 65 6c 6c", "PNG, JPEG, TIFF or BMP"}},
		{"one byte", []byte{0x89}, pb.Encoding_ENCODING_PNG, nil, "frame.data", []string{"no PNG file"}},
		{"a JPEG called PNG", encodePicture(t, "jpeg", all["gray"]), pb.Encoding_ENCODING_PNG, nil, "frame.encoding",
			[]string{"PNG", "JPEG"}},
		{"PNG cut off in its header", pngOf("gray")[:20], auto, nil, "frame.data",
			[]string{"PNG file of 20 bytes", "cut off"}},
		{"PNG cut off in its pixels", pngOf("gray")[:100], auto, nil, "frame.data",
			[]string{"PNG file of 100 bytes", "not enough pixel data"}},
		{"PNG with a bad checksum", slices.Concat(pngOf("gray")[:60], []byte{1, 2, 3}, pngOf("gray")[63:]), auto, nil,
			"frame.data", []string{"checksum"}},
		{"JPEG cut off", encodePicture(t, "jpeg", all["gray"])[:300], auto, nil, "frame.data", []string{"cut off"}},
		{"TIFF cut off", encodePicture(t, "tiff", all["gray"])[:100], auto, nil, "frame.data",
			[]string{"TIFF file of 100 bytes"}},
		{"BMP cut off", bmpFile[:200], auto, nil, "frame.data", []string{"BMP file of 200 bytes", "cut off"}},
		{"BMP header alone", bmpFile[:20], auto, nil, "frame.data", []string{"cut off"}},

		{"PNG that claims 4 Gpx", claimPNG(65536, 65536, 8, 0), auto, nil, "frame.data",
			[]string{"65536 x 65536", "4294967296 pixels", "1000000"}},
		{"PNG that claims all there is", claimPNG(1<<31-1, 1<<31-1, 1, 0), auto, nil, "frame.data", nil},
		{"JPEG that claims 4 Gpx", claimJPEG(t, 65535, 65535), auto, nil, "frame.data",
			[]string{"65535 x 65535", "1000000"}},
		{"TIFF that claims 2 Gpx", bigTIFF, auto, nil, "frame.data", []string{"2147483647 x 1", "1000000"}},
		{"BMP that claims 20 Mpx", bigBMP, auto, nil, "frame.data", nil},
		{"PNG that decodes to more than a message", claimPNG(900, 900, 8, 2), auto, nil, "frame.data",
			[]string{"2430000 bytes", "2000000"}},
		{"PNG whose claim can't be in so few bytes", claimPNG(1000, 900, 8, 0), auto, nil, "frame.data",
			[]string{"1000 x 900", "cut off", "872 bytes at least"}},
		{"TIFF with fewer strips than rows", longTIFF, auto, nil, "frame.data", nil},
		{"JPEG with 101 scans", manyScans, auto, nil, "frame.data", []string{"101 scans", "100"}},
		{"two PNGs", slices.Concat(pngOf("gray"), pngOf("gray")), auto, nil, "frame.data",
			[]string{"another PNG picture", fmt.Sprintf("byte %d", len(pngOf("gray"))), "one picture"}},
		{"a PNG and a TIFF", slices.Concat(pngOf("opaque"), bigTIFF), auto, nil, "frame.data",
			[]string{"another TIFF picture"}},
		{"two JPEGs", slices.Concat(jpegFile, jpegFile), auto, nil, "frame.data",
			[]string{"another JPEG picture", fmt.Sprintf("byte %d", len(jpegFile))}},
		{"a BMP and a PNG", slices.Concat(bmpFile, pngOf("gray")), auto, nil, "frame.data", []string{"another PNG picture"}},

		{"JPEG without its last scan", cut(len(scans) - 1), auto, nil, "frame.data", []string{"before all scans"}},
		{"JPEG with its first scan alone", cut(1), auto, nil, "frame.data", []string{"before all scans"}},
		{"palette that lacks a colour", outside, auto, nil, "frame.data", []string{"colour 1 of a palette of 1"}},
		{"a turned JPEG", turned, auto, nil, "frame.data", []string{"orientation 6", "turn"}},
		{"two pages", picturetest.Paged(encodePicture(t, "tiff", all["gray"]), 0), auto, nil, "frame.data",
			[]string{"another page", "one picture"}},
		{"two pages of colour", picturetest.Paged(encodePicture(t, "tiff", all["nrgba"]), 2), auto, nil, "frame.data",
			[]string{"another page"}},

		{"black or white", picturetest.With(encodePicture(t, "tiff", all["gray"]), 262), auto, nil, "frame.data",
			[]string{"PhotometricInterpretation is missing"}},
		{"a thumbnail", picturetest.With(encodePicture(t, "tiff", all["gray"]), 254, 1), auto, nil, "frame.data",
			[]string{"smaller copy of another"}},
		{"planes of colour", picturetest.With(encodePicture(t, "tiff", all["opaque"]), 284, 2), auto, nil, "frame.data",
			[]string{"planes", "PlanarConfiguration 2"}},
		{"predicted, and not compressed", picturetest.With(encodePicture(t, "tiff", all["gray"]), 317, 2), auto, nil,
			"frame.data", []string{"Predictor 2"}},

		{"16-bit PNG as GRAY8", pngOf("gray16"), auto, &pb.FrameLayout{PixelFormat: gray8}, "frame.layout.pixel_format",
			[]string{"GRAY8", "16-bit gray", "GRAY16LE"}},
		{"8-bit PNG as GRAY16LE", pngOf("gray"), auto, &pb.FrameLayout{PixelFormat: gray16},
			"frame.layout.pixel_format", []string{"GRAY16LE", "8-bit gray"}},
		{"colour PNG as GRAY8", pngOf("opaque"), auto, &pb.FrameLayout{PixelFormat: gray8}, "frame.layout.pixel_format",
			[]string{"GRAY8", "8-bit colour", "RGB8"}},
		{"16-bit colour", pngOf("nrgba64"), auto, nil, "frame.data", []string{"16-bit colour", "convert"}},
		{"16-bit gray with transparency", transparentPNG(pngOf("gray16"), []byte{0, 1}), auto, nil, "frame.data",
			[]string{"16-bit colour"}},
		{"another width", pngOf("gray"), auto, &pb.FrameLayout{Width: 21}, "frame.layout.width", []string{"21", "20"}},
		{"another height", pngOf("gray"), auto, &pb.FrameLayout{Height: 21}, "frame.layout.height",
			[]string{"21", "10"}},
		{"another stride", pngOf("opaque"), auto, &pb.FrameLayout{Stride: 64}, "frame.layout.stride",
			[]string{"64", "60"}},
		{"12 bits of 8", pngOf("gray"), auto, &pb.FrameLayout{SignificantBits: 12}, "frame.layout.significant_bits",
			[]string{"12", "GRAY8"}},
		{"8 bits of 16", pngOf("gray16"), auto, &pb.FrameLayout{SignificantBits: 8}, "frame.layout.significant_bits",
			[]string{"8", "GRAY16LE"}},
		{"a file as raw pixels", pngOf("gray"), raw, nil, "frame.layout", []string{"must be given"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &pb.Frame{Encoding: c.encoding, Layout: c.layout, Source: &pb.Frame_Data{Data: c.file}}
			_, err := s.inspection.Reduce(t.Context(),
				&pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 20, 10)), Frame: f})
			wantRefused(t, err, c.field, c.words...)
		})
	}
	// Notes of programs may follow a picture, and pictures that the first one speaks of.
	follows := slices.Concat(jpegFile[:2], []byte("\xff\xe2\x00\x06MPF\x00"), jpegFile[2:], jpegFile)
	for _, file := range [][]byte{progressive, picturetest.Paged(encodePicture(t, "tiff", all["gray"]), 1), follows,
		slices.Concat(pngOf("gray"), make([]byte, 100)),
		slices.Concat(jpegFile, []byte("\xff\xd8 no picture")), slices.Concat(bmpFile, []byte("B"))} {
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 20, 10)),
			Frame: &pb.Frame{Source: &pb.Frame_Data{Data: file}, Encoding: auto}})
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.host.Cap; !s.host.Sem.TryAcquire(n) {
		t.Error("refused files keep host memory")
	}
}

// progressiveJPEG is 16x16 pixels of (10, 200, 100) but one, in ten scans, as libjpeg-turbo writes them.
func progressiveJPEG(t testing.TB) []byte {
	file, err := base64.StdEncoding.DecodeString("" +
		"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7" +
		"gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8" +
		"fHx8fHx8fHz/wgARCAAQABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAH/xAAVAQEBAAAAAAAAAAAAAAAAAAADBf/a" +
		"AAwDAQACEAMQAAABUOd//8QAFBABAAAAAAAAAAAAAAAAAAAAIP/aAAgBAQABBQIf/8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAgB" +
		"AwEBPwF//8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAgBAgEBPwF//8QAFBABAAAAAAAAAAAAAAAAAAAAIP/aAAgBAQAGPwIf/8QA" +
		"FBABAAAAAAAAAAAAAAAAAAAAIP/aAAgBAQABPyEf/9oADAMBAAIAAwAAABCP/8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAgBAwEB" +
		"PxB//8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAgBAgEBPxB//8QAFRABAQAAAAAAAAAAAAAAAAAAIIH/2gAIAQEAAT8Qg//Z")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A side that no device takes is refused before the pixels are read, whatever number of pixels the server takes.
func TestRefusesLongSides(t *testing.T) {
	s := start(t, Config{})
	_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 20, 10)),
		Frame: &pb.Frame{Encoding: pb.Encoding_ENCODING_AUTO, Source: &pb.Frame_Data{Data: claimPNG(1<<20+1, 1, 8, 0)}}})
	wantRefused(t, err, "frame.data", "PNG file of 62 bytes", "width = 1048577", "1 to 1048576")
}

// Transparency that a PNG's header doesn't mention.
func TestTransparentPNG(t *testing.T) {
	s := start(t, Config{})
	all := pictures(5, 4)
	for name, trns := range map[string][]byte{"gray": {0, 9}, "opaque": {0, 1, 0, 2, 0, 3}} {
		file := transparentPNG(encodePicture(t, "png", all[name]), trns)
		img, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		f, release, err := decodeFile(t, s.Server, fileFrame(nil), [][]byte{file}, "frame")
		if err != nil {
			t.Fatal(err)
		}
		checkPixels(t, f, img, rgba8)
		release()
	}
}

func FuzzImageDecode(f *testing.F) {
	all := pictures(9, 5)
	for kind, names := range map[string][]string{
		"png": {"gray", "gray16", "opaque", "nrgba", "palette", "palette with alpha"}, "jpeg": {"gray", "opaque"},
		"tiff": {"gray", "gray16", "nrgba", "palette"}, "tiff deflate": {"gray"}, "bmp": {"gray", "opaque", "nrgba"},
	} {
		for _, name := range names {
			f.Add(encodePicture(f, kind, all[name]), byte(0))
		}
	}
	f.Add(claimPNG(1<<31-1, 1, 1, 0), byte(1))
	f.Add(claimJPEG(f, 65535, 65535), byte(2))
	s := start(f, Config{MaxFramePixels: 1 << 20, MaxMessageBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, file []byte, ask byte) {
		m := fileFrame(nil)
		m.Layout = &pb.FrameLayout{PixelFormat: pb.PixelFormat(ask % 6)}
		frame, release, err := decodeFile(t, s.Server, m, cutUp(file, 100), "frame")
		if err != nil {
			wantCanonical(t, apierr.StatusOf(t.Context(), s.log, err).Err())
			return
		}
		n := 0
		for _, p := range frame.Data {
			n += len(p)
		}
		row := frame.Width * frame.Format.PixelBytes()
		if frame.Stride < row || n < frame.Stride*(frame.Height-1)+row || n > frame.Stride*frame.Height {
			t.Errorf("%d x %d, stride %d: %d bytes", frame.Width, frame.Height, frame.Stride, n)
		}
		release()
	})
}

// decodeFile decodes a file.
func decodeFile(t testing.TB, s *Server, m *pb.Frame, pieces [][]byte, path string) (kernels.Picture, func(), error) {
	f, err := s.frames.Read(t.Context(), m, pieces, path)
	if err != nil {
		return kernels.Picture{}, nil, err
	}
	return f.Picture, func() { f.Answer.Release(); f.Release() }, nil
}
