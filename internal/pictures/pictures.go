// Package pictures reads what image files say beside their pixels, where decoders would show another picture than the
// one that people see, or less of it.
package pictures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// At returns the n bytes of a file that begin at off, or fewer where it ends.
type At func(off int64, n int) []byte

// Check refuses files whose picture isn't what decoders make of it: those that are to be turned or mirrored (EXIF's and
// TIFF's orientation), with more than one page or frame (TIFF, APNG), with bits in the other order (TIFF), and with
// chunks that matter and that nobody knows (PNG). It knows PNG, JPEG and TIFF by their first bytes and takes all else.
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
	tagSubfileType = 254
	tagFillOrder   = 266
	tagOrientation = 274
)

func checkTIFF(at At) error {
	if err := checkEXIF(at, 0); err != nil {
		return err
	}
	turned := false
	order, end := Directory(at, 0, func(tag uint16, _, value uint32) {
		turned = turned || tag == tagFillOrder && value == 2
	})
	if turned {
		return errors.New("the bits of its bytes are in the other order (FillOrder 2)")
	}
	next := at(end, 4)
	if len(next) < 4 || order.Uint32(next) == 0 {
		return nil
	}
	// Smaller copies of a page and its transparency are no pages.
	other := false
	entries(at, order, 0, int64(order.Uint32(next)), func(tag uint16, _, value uint32) {
		other = other || tag == tagSubfileType && value&(1|4) != 0
	})
	if !other {
		return errors.New("the file has another page: a frame is one picture")
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

// Directory calls f for the entries of the first directory of a TIFF file that begins at base, with values of two bytes
// as they are. It returns the order of bytes, and where the place of the next directory is.
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
		value := order.Uint32(e[8:])
		const short = 3
		if order.Uint16(e[2:]) == short { // which lies at the beginning of the four bytes
			value = uint32(order.Uint16(e[8:]))
		}
		f(order.Uint16(e), order.Uint32(e[4:]), value)
	}
	return base + ifd + 2 + 12*all
}
