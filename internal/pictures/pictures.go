// Package pictures reads what image files say beside their pixels, where decoders would show another picture than the
// one that people see, or less of it.
package pictures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// At returns the n bytes of a file that begin at off, or fewer where it ends.
type At func(off int64, n int) []byte

// Check refuses files whose picture isn't what decoders make of it: those that are to be turned or mirrored (EXIF's and
// TIFF's orientation), with more than one page or frame (TIFF, APNG), with tags that decoders take otherwise than
// others do (TIFF), and with chunks that matter and that nobody knows (PNG). It knows PNG, JPEG and TIFF by their first
// bytes and takes all else.
func Check(at At) error {
	switch head := string(at(0, 8)); {
	case head == "\x89PNG\r\n\x1a\n":
		return checkPNG(at)
	case strings.HasPrefix(head, "\xff\xd8\xff"):
		return checkJPEG(at)
	case strings.HasPrefix(head, "II*\x00"), strings.HasPrefix(head, "MM\x00*"):
		return checkTIFF(at)
	}
	return nil
}

// Error is an error of a decoder, without what PNG's says twice of pixels that can't be unpacked.
func Error(err error) error {
	const twice = "png: invalid format: "
	if said, ok := strings.CutPrefix(err.Error(), twice); ok && strings.HasPrefix(said, twice) {
		return errors.New(said)
	}
	return err
}

// mostParts is how many chunks of a PNG and segments of a JPEG's head are looked at: as many as a file of 1 GB in chunks
// of 8 KB has.
const mostParts = 1 << 17

func checkPNG(at At) error {
	pixels, behind := false, false
	for off, n := int64(8), 0; n < mostParts; n++ {
		head := at(off, 8)
		if len(head) < 8 {
			return nil
		}
		switch kind := string(head[4:]); kind {
		case "IDAT":
			if behind {
				return errors.New("pixels come again behind other chunks")
			}
			pixels = true
		case "IEND":
			return nil
		case "IHDR", "PLTE":
		case "acTL":
			return errors.New("the file is an animation: a frame is one picture")
		case "eXIf":
			if err := checkEXIF(at, off+8); err != nil {
				return err
			}
		default:
			if 'A' <= kind[0] && kind[0] <= 'Z' {
				return fmt.Errorf("the chunk %q is one that readers must know, and this one doesn't", kind)
			}
		}
		behind = pixels && string(head[4:]) != "IDAT"
		off += 12 + int64(binary.BigEndian.Uint32(head))
	}
	return nil
}

func checkJPEG(at At) error {
	for off, n := int64(2), 0; n < mostParts; n++ {
		head := at(off, 10)
		switch {
		case len(head) < 10 || head[0] != 0xff || head[1] == 0xda || head[1] == 0xd9: // pixels begin, or none come
			return nil
		case head[1] == 0xff: // a marker may have more of them in front
			off++
			continue
		case head[1] == 0xe1 && string(head[4:]) == "Exif\x00\x00":
			if err := checkEXIF(at, off+10); err != nil {
				return err
			}
		}
		off += 2 + max(2, int64(binary.BigEndian.Uint16(head[2:])))
	}
	return nil
}

// Tags of directories.
const (
	tagSubfileType         = 254
	tagOldSubfileType      = 255
	tagBitsPerSample       = 258
	tagCompression         = 259
	tagPhotometric         = 262
	tagFillOrder           = 266
	tagStripOffsets        = 273
	tagOrientation         = 274
	tagSamplesPerPixel     = 277
	tagStripByteCounts     = 279
	tagPlanarConfiguration = 284
	tagPredictor           = 317
	tagColorMap            = 320
	tagTileOffsets         = 324
	tagTileByteCounts      = 325
	tagSubIFDs             = 330
	tagSampleFormat        = 339
)

func checkTIFF(at At) error {
	if err := checkEXIF(at, 0); err != nil {
		return err
	}
	first := map[uint16]entry{}
	order, end := Directory(at, 0, func(tag uint16, count, value uint32) {
		if count > 0 {
			first[tag] = entry{count, value}
		}
	})
	photometric, ok := first[tagPhotometric]
	samples, described := max(1, first[tagSamplesPerPixel].value), first[tagBitsPerSample].count
	predictor, compression := first[tagPredictor].value, first[tagCompression].value
	form := first[tagSampleFormat]
	if form.count > 2 { // they lie elsewhere
		b := at(int64(form.value), 2)
		if form.value = 0; len(b) == 2 {
			form.value = uint32(order.Uint16(b))
		}
	}
	switch kind, old := first[tagSubfileType].value, first[tagOldSubfileType].value; {
	case first[tagFillOrder].value == 2:
		return errors.New("the bits of its bytes are in the other order (FillOrder 2)")
	case !ok:
		return errors.New("it doesn't say whether 0 is black or white (PhotometricInterpretation is missing)")
	case first[tagStripOffsets].count+first[tagTileOffsets].count == 0:
		return errors.New("it doesn't say where its pixels are (StripOffsets is missing)")
	case first[tagStripByteCounts].count+first[tagTileByteCounts].count == 0:
		return errors.New("it doesn't say how many bytes its pixels have (StripByteCounts is missing)")
	case described == 0 && !slices.Contains(fax, compression): // 1 bit, by the standard, and 8 to those who leave it out
		return errors.New("it doesn't say how many bits a sample has (BitsPerSample is missing)")
	case form.value == 2 || form.value == 3:
		return fmt.Errorf("its samples are %s, and are read only as whole numbers from 0 (SampleFormat %d: want 1)",
			[]string{"numbers with a sign", "floating-point numbers"}[form.value-2], form.value)
	case form.value > 4:
		return fmt.Errorf("its samples are of a kind that isn't read (SampleFormat %d: want 1)", form.value)
	case (compression == 3 || compression == 4) && photometric.value != 0: // which the decoder leaves out of account
		return fmt.Errorf("its fax codes have black and white swapped, which isn't read (Compression %d, "+
			"PhotometricInterpretation %d: want 0)", compression, photometric.value)
	case kind&notWhole != 0:
		return fmt.Errorf("its first picture is a smaller copy of another, or a mask (NewSubfileType %d)", kind)
	case old == 2:
		return errors.New("its first picture is a smaller copy of another (SubfileType 2)")
	case samples > 1 && first[tagPlanarConfiguration].value == 2:
		return errors.New("its channels lie in planes one behind the other, and they are read only where they lie side by " +
			"side in each pixel (PlanarConfiguration 2: want 1)")
	case samples != max(1, described):
		return fmt.Errorf("its pixels have %d samples (SamplesPerPixel), and it says of %d how many bits they have "+
			"(BitsPerSample)", samples, described)
	case predictor > 2:
		return fmt.Errorf("its pixels are predicted in a way that isn't read (Predictor %d: want 1 or 2)", predictor)
	case predictor == 2 && !slices.Contains(predicted, compression):
		return fmt.Errorf("it says that its pixels are predicted, and readers don't agree whether they are in its "+
			"compression (Predictor 2, Compression %d)", compression)
	}
	if m, ok := first[tagColorMap]; ok && narrow(at(int64(m.value), int(2*min(m.count, mostColors))), order) {
		return errors.New("the colours of its palette have 8 bits, and would all be black (ColorMap: want 16 bits)")
	}
	return checkPages(at, order, end, first[tagSubIFDs])
}

// fax are the compressions of pixels that have a bit.
var fax = []uint32{2, 3, 4}

// predicted are the compressions whose pixels may be differences: LZW and the two numbers of deflate.
var predicted = []uint32{5, 8, 32946}

// mostColors is how many values the largest palette has.
const mostColors = 3 << 8

// narrow says whether the values of a palette have 8 bits, as some programs write them, and not 16.
func narrow(values []byte, order binary.ByteOrder) bool {
	most := uint16(0)
	for ; len(values) > 1; values = values[2:] {
		most = max(most, order.Uint16(values))
	}
	return 0 < most && most < 256
}

const (
	notWhole        = 1 | 4 // of subfile types: smaller copies of a page and its transparency are no pages
	mostDirectories = 64
)

// checkPages refuses a page beside the first, among the directories behind it, whose place is at next, and those that
// it speaks of itself.
func checkPages(at At, order binary.ByteOrder, next int64, sub entry) error {
	place := func(off int64) int64 {
		if b := at(off, 4); len(b) == 4 {
			return int64(order.Uint32(b))
		}
		return 0
	}
	starts := []int64{place(next)}
	if sub.count == 1 {
		starts = append(starts, int64(sub.value))
	}
	for i := int64(0); sub.count > 1 && i < int64(min(sub.count, mostDirectories)); i++ {
		starts = append(starts, place(int64(sub.value)+4*i))
	}
	left := mostDirectories
	for _, ifd := range starts {
		for ifd != 0 {
			if left--; left < 0 {
				return fmt.Errorf("it has more than %d directories", mostDirectories)
			}
			head := at(ifd, 2+12) // the number of entries and the first of them, which is that of the kind: none is less
			if len(head) < 2+12 {
				return errors.New("it is cut off in its directories")
			}
			if tag, e := readEntry(head[2:], order); tag != tagSubfileType || e.value&notWhole == 0 {
				return errors.New("the file has another page: a frame is one picture")
			}
			ifd = place(ifd + 2 + 12*int64(order.Uint16(head)))
		}
	}
	return nil
}

// checkEXIF refuses an orientation other than the usual one in the directory of a TIFF file that begins at base.
func checkEXIF(at At, base int64) (err error) {
	Directory(at, base, func(tag uint16, _, value uint32) {
		if tag == tagOrientation && value > 1 && value <= 8 {
			err = fmt.Errorf("the file says that its picture is to be turned or mirrored (orientation %d), and pixels are "+
				"taken as they lie: turn them and leave out the tag", value)
		}
	})
	return err
}

// Directory calls f for the entries of the first directory of a TIFF file that begins at base, with values of one
// and two bytes as they are. It returns the order of bytes, and where the place of the next directory is.
func Directory(at At, base int64, f func(tag uint16, count, value uint32)) (order binary.ByteOrder, end int64) {
	head := at(base, 8)
	order = binary.LittleEndian
	if len(head) < 8 {
		return order, base
	}
	if head[0] == 'M' {
		order = binary.BigEndian
	}
	return order, entries(at, order, base, int64(order.Uint32(head[4:])), f)
}

func entries(at At, order binary.ByteOrder, base, ifd int64, f func(tag uint16, count, value uint32)) (end int64) {
	n := at(base+ifd, 2)
	if len(n) < 2 {
		return base + ifd
	}
	all := int64(order.Uint16(n))
	for i := range all {
		e := at(base+ifd+2+12*i, 12)
		if len(e) < 12 {
			break
		}
		tag, v := readEntry(e, order)
		f(tag, v.count, v.value)
	}
	return base + ifd + 2 + 12*all
}

// entry is what a directory says of a tag: how many values, and the only one of them or where they are.
type entry struct{ count, value uint32 }

func readEntry(e []byte, order binary.ByteOrder) (tag uint16, v entry) {
	v = entry{order.Uint32(e[4:]), order.Uint32(e[8:])}
	const octet, short = 1, 3 // which lie at the beginning of the four bytes
	switch order.Uint16(e[2:]) {
	case octet:
		v.value = uint32(e[8])
	case short:
		v.value = uint32(order.Uint16(e[8:]))
	}
	return order.Uint16(e), v
}
