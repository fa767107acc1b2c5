package pictures

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/tiff"

	"github.com/polyscan/polyscan/internal/pictures/picturetest"
)

func at(file []byte) At {
	return func(off int64, n int) []byte {
		if off < 0 || off >= int64(len(file)) {
			return nil
		}
		return file[off:min(int64(len(file)), off+int64(n))]
	}
}

// encode makes a small picture of each kind.
func encode(t testing.TB) (p, j, f []byte) {
	img := image.NewGray(image.Rect(0, 0, 9, 7))
	var b [3]bytes.Buffer
	for i, err := range []error{png.Encode(&b[0], img), jpeg.Encode(&b[1], img, nil), tiff.Encode(&b[2], img, nil)} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	return b[0].Bytes(), b[1].Bytes(), b[2].Bytes()
}

// exif is a directory with an orientation, of one entry.
func exif(order binary.AppendByteOrder, name string, orientation uint16) []byte {
	b := order.AppendUint16([]byte(name), 42)
	b = order.AppendUint16(order.AppendUint32(b, 8), 1)
	b = order.AppendUint32(order.AppendUint16(order.AppendUint16(b, tagOrientation), 3), 1)
	return order.AppendUint32(order.AppendUint16(order.AppendUint16(b, orientation), 0xdead), 0)
}

func chunk(kind string, data []byte) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), kind...)
	return binary.BigEndian.AppendUint32(append(b, data...), crc32.ChecksumIEEE(append([]byte(kind), data...)))
}

func TestCheck(t *testing.T) {
	p, j, f := encode(t)
	inPNG := func(before string, more []byte) []byte {
		i := bytes.Index(p, []byte(before)) - 4
		return slices.Concat(p[:i], more, p[i:])
	}
	inJPEG := func(more []byte) []byte {
		head := binary.BigEndian.AppendUint16([]byte("\xff\xff\xe1"), uint16(8+len(more)))
		return slices.Concat(j[:2], head, []byte("Exif\x00\x00"), more, j[2:])
	}
	little := func(n uint16) []byte { return exif(binary.LittleEndian, "II", n) }
	with := picturetest.With
	sub := func(kinds ...uint32) []byte { // a file that speaks of directories of these kinds
		file, places := f, []uint32{}
		for _, k := range kinds {
			places = append(places, uint32(len(file)))
			file = slices.Concat(file, picturetest.Directory(k))
		}
		return with(file, tagSubIFDs, places...)
	}
	octet := exif(binary.BigEndian, "MM", 6<<8) // the orientation as a byte
	octet[8+2+3] = 1
	many := f
	for range 65 {
		many = picturetest.Paged(many, 1)
	}
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"PNG", p, ""}, {"JPEG", j, ""}, {"TIFF", f, ""}, {"nothing", nil, ""}, {"text", []byte("II or MM"), ""},
		{"upright PNG", inPNG("IDAT", chunk("eXIf", little(1))), ""},
		{"turned PNG", inPNG("IDAT", chunk("eXIf", little(6))), "orientation 6"},
		{"PNG, said at its end", inPNG("IEND", chunk("eXIf", exif(binary.BigEndian, "MM", 3))), "orientation 3"},
		{"PNG with a note", inPNG("IDAT", chunk("tEXt", []byte("a\x00b"))), ""},
		{"PNG with a strange chunk", inPNG("IDAT", chunk("ABCD", nil)), `"ABCD"`},
		{"animation", inPNG("IDAT", chunk("acTL", make([]byte, 8))), "animation"},
		{"pixels twice", inPNG("IEND", append(chunk("tEXt", nil), chunk("IDAT", nil)...)), "pixels come again"},
		{"upright JPEG", inJPEG(little(1)), ""},
		{"JPEG without a sense", inJPEG(little(9)), ""},
		{"turned JPEG", inJPEG(little(8)), "orientation 8"},
		{"mirrored JPEG", inJPEG(exif(binary.BigEndian, "MM", 2)), "orientation 2"},
		{"JPEG that is cut off", inJPEG(little(8))[:30], ""},
		{"turned TIFF", with(f, tagOrientation, 3), "orientation 3"},
		{"upright TIFF", with(f, tagOrientation, 1), ""},
		{"bits the other way round", with(f, tagFillOrder, 2), "FillOrder 2"},
		{"two pages", picturetest.Paged(f, 0), "another page"},
		{"a page of several", picturetest.Paged(f, 2), "another page"},
		{"a smaller copy", picturetest.Paged(f, 1), ""}, {"transparency", picturetest.Paged(f, 4), ""},
		{"a page behind a smaller copy", picturetest.Paged(picturetest.Paged(f, 0), 1), "another page"},
		{"many smaller copies", many, "more than 64"},
		{"dark colours", with(f, tagColorMap, 0, 0x1000, 0, 0, 0, 0), ""},
		{"colours of 8 bits", with(f, tagColorMap, 0, 0xff, 0, 0, 0, 0), "ColorMap"},
		{"turned, in a byte", octet, "orientation 6"},
		{"a smaller copy that it speaks of", sub(1), ""}, {"two smaller copies", sub(1, 5), ""},
		{"a picture that it speaks of", sub(0), "another page"}, {"one of two", sub(1, 0), "another page"},
		{"a thumbnail", with(f, tagSubfileType, 1), "NewSubfileType 1"}, {"a page", with(f, tagSubfileType, 2), ""},
		{"a mask", with(f, tagSubfileType, 4), "NewSubfileType 4"}, {"a whole picture", with(f, tagOldSubfileType, 1), ""},
		{"an old thumbnail", with(f, tagOldSubfileType, 2), "(SubfileType 2)"},
		{"black or white", with(f, tagPhotometric), "PhotometricInterpretation is missing"},
		{"where pixels are", with(f, tagStripOffsets), "StripOffsets is missing"},
		{"their length", with(f, tagStripByteCounts), "StripByteCounts is missing"},
		{"tiles", with(with(with(with(f, tagStripOffsets), tagStripByteCounts), tagTileOffsets, 8), tagTileByteCounts, 9), ""},
		{"bits", with(f, tagBitsPerSample), "BitsPerSample is missing"},
		{"bits of packed pixels", with(with(f, tagCompression, 5), tagBitsPerSample), "BitsPerSample is missing"},
		{"bits of a fax", with(with(with(f, tagCompression, 4), tagPhotometric, 0), tagBitsPerSample), ""},
		{"three bits and no number of samples", with(with(f, tagBitsPerSample, 8, 8, 8), tagSamplesPerPixel),
			"have 1 samples (SamplesPerPixel), and it says of 3"},
		{"whole numbers", with(f, tagSampleFormat, 1), ""}, {"of no kind", with(f, tagSampleFormat, 4), ""},
		{"with a sign", with(f, tagSampleFormat, 2), "SampleFormat 2"},
		{"floating point", with(f, tagSampleFormat, 3), "floating-point numbers"},
		{"three of floating point", with(with(with(f, tagSampleFormat, 3, 3, 3), tagBitsPerSample, 16, 16, 16),
			tagSamplesPerPixel, 3), "SampleFormat 3"},
		{"complex", with(f, tagSampleFormat, 6), "SampleFormat 6"},
		{"fax", with(with(f, tagCompression, 4), tagPhotometric, 0), ""},
		{"swapped fax", with(f, tagCompression, 3), "swapped"}, {"swapped fax", with(f, tagCompression, 4), "swapped"},
		{"one plane", with(f, tagPlanarConfiguration, 2), ""},
		{"planes", with(with(with(f, tagSamplesPerPixel, 3), tagBitsPerSample, 8, 8, 8), tagPlanarConfiguration, 2),
			"planes"},
		{"more samples than are spoken of", with(f, tagSamplesPerPixel, 2), "of 1 how many bits they have"},
		{"no samples are spoken of", with(f, tagSamplesPerPixel), ""}, {"predicted by none", with(f, tagPredictor, 1), ""},
		{"predicted", with(f, tagPredictor, 2), "Predictor 2, Compression 1"},
		{"predicted, in PackBits", with(with(f, tagPredictor, 2), tagCompression, 32773), "Compression 32773"},
		{"predicted, in LZW", with(with(f, tagPredictor, 2), tagCompression, 5), ""},
		{"predicted, deflated", with(with(f, tagPredictor, 2), tagCompression, 8), ""},
		{"predicted as floating point", with(with(f, tagPredictor, 3), tagCompression, 5), "Predictor 3"},
		{"predicted from above", with(f, tagPredictor, 9), "Predictor 9"},
	} {
		if err := Check(at(c.file)); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What decoders say of PNG's pixels is said once.
func TestError(t *testing.T) {
	p, _, _ := encode(t)
	file := slices.Clone(p)
	file[bytes.Index(file, []byte("IEND"))-5]++ // of the checksum of the pixels
	_, err := png.Decode(bytes.NewReader(file))
	if got := Error(err).Error(); got != "png: invalid format: invalid checksum" {
		t.Errorf("%q", got)
	}
	if err := errors.New("png: invalid format: not enough pixel data"); Error(err) != err {
		t.Error(Error(err))
	}
}

// No file makes it fail or read on and on.
func FuzzCheck(f *testing.F) {
	p, j, tif := encode(f)
	for _, b := range [][]byte{p, j, tif, picturetest.Paged(tif, 0), exif(binary.BigEndian, "MM", 3)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reads := 0
		_ = Check(func(off int64, n int) []byte { reads++; return at(b)(off, n) })
		if reads > len(b)/2+1000+2<<16 {
			t.Errorf("%d reads of %d bytes", reads, len(b))
		}
	})
}
