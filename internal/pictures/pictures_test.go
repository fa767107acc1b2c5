package pictures

import (
	"bytes"
	"encoding/binary"
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

// withTag is a TIFF file of which a tag has another number or value.
func withTag(file []byte, tag, as uint16, value uint32) []byte {
	file = slices.Clone(file)
	ifd := binary.LittleEndian.Uint32(file[4:])
	for i := range uint32(binary.LittleEndian.Uint16(file[ifd:])) {
		if e := file[ifd+2+12*i:]; binary.LittleEndian.Uint16(e) == tag {
			binary.LittleEndian.PutUint16(e, as)
			binary.LittleEndian.PutUint32(e[8:], value)
		}
	}
	return file
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
	const unused = 296 // of the encoder's tags, ResolutionUnit
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
		{"turned TIFF", withTag(f, unused, tagOrientation, 3), "orientation 3"},
		{"upright TIFF", withTag(f, unused, tagOrientation, 1), ""},
		{"bits the other way round", withTag(f, unused, tagFillOrder, 2), "FillOrder 2"},
		{"two pages", picturetest.Paged(f, 0), "another page"}, {"a page of several", picturetest.Paged(f, 2), "another page"},
		{"a smaller copy", picturetest.Paged(f, 1), ""}, {"transparency", picturetest.Paged(f, 4), ""},
	} {
		if err := Check(at(c.file)); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
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
