package cli

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"
)

// TestDecodePicture: a picture with a note behind it is a picture, one with another picture is none.
func TestDecodePicture(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 37, 5))
	for i := range img.Pix {
		img.Pix[i] = byte(i * i)
	}
	var p, j bytes.Buffer
	if err := png.Encode(&p, img); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, img, nil); err != nil {
		t.Fatal(err)
	}
	for kind, file := range map[string][]byte{"PNG": p.Bytes(), "JPEG": j.Bytes()} {
		for _, note := range []string{"", "a", strings.Repeat("note", 100)} {
			got, err := DecodePicture(append(bytes.Clone(file), note...))
			if err != nil || got.Bounds() != img.Bounds() {
				t.Errorf("%s with %q behind: %v", kind, note, err)
			}
		}
		_, err := DecodePicture(append(bytes.Clone(file), file...))
		if err == nil || !strings.Contains(err.Error(), "another "+kind+" picture begins") {
			t.Errorf("%s twice: %v", kind, err)
		}
		if _, err := DecodePicture(file[:len(file)-20]); err == nil {
			t.Errorf("%s cut off is a picture", kind)
		}
	}
	first := j.Bytes()
	follows := slices.Concat(first[:2], []byte("\xff\xe2\x00\x06MPF\x00"), first[2:], first)
	if _, err := DecodePicture(follows); err != nil {
		t.Errorf("a JPEG that speaks of another: %v", err)
	}
	if _, err := DecodePicture(nil); err == nil {
		t.Error("nothing is a picture")
	}
	// A file of 62 bytes can claim any size.
	bomb := bytes.Clone(p.Bytes())
	copy(bomb[16:], "\x00\x10\x00\x00\x00\x10\x00\x00")
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	if _, err := DecodePicture(bomb); err == nil || !strings.Contains(err.Error(),
		"1048576 x 1048576 pixels: a frame has at most") {
		t.Error(err)
	}
	// What a file says of itself is looked at first: nobody decodes pixels to refuse them.
	moving := slices.Concat(p.Bytes()[:33], []byte("\x00\x00\x00\x08acTL12345678crc.\x00\x00\x00\x04IDATbad!"))
	if _, err := DecodePicture(moving); err == nil || !strings.Contains(err.Error(), "an animation") {
		t.Error(err)
	}
}

// TestDecodePictureOpaque: a picture is taken as its colours, or not at all: never those of transparent pixels, which
// are darker than the file says, nor the upper half of 16 bits.
func TestDecodePictureOpaque(t *testing.T) {
	r := image.Rect(0, 0, 5, 4)
	for _, x := range []struct {
		img  draw.Image
		last color.Color // of the pixel (3, 2)
		want string      // "": it is a picture
	}{
		{image.NewNRGBA(r), color.NRGBA{200, 200, 200, 255}, ""},
		{image.NewNRGBA(r), color.NRGBA{200, 200, 200, 254}, "pixel (3, 2) is transparent, alpha 254 of 255"},
		{image.NewNRGBA(r), color.NRGBA{200, 200, 200, 0}, "pixel (3, 2) is transparent, alpha 0 of 255"},
		{image.NewPaletted(r, color.Palette{color.White, color.NRGBA{200, 200, 200, 100}}), color.White, ""},
		{image.NewPaletted(r, color.Palette{color.White, color.NRGBA{200, 200, 200, 100}}),
			color.NRGBA{200, 200, 200, 100}, "pixel (3, 2) is transparent, alpha 100 of 255"},
		{image.NewGray16(r), color.White, ""},
		{image.NewRGBA64(r), color.White, "16-bit colour"},
		{image.NewNRGBA64(r), color.NRGBA64{1, 2, 3, 4}, "16-bit colour"},
	} {
		draw.Draw(x.img, r, image.White, image.Point{}, draw.Src)
		x.img.Set(3, 2, x.last)
		var file bytes.Buffer
		if err := png.Encode(&file, x.img); err != nil {
			t.Fatal(err)
		}
		_, err := DecodePicture(file.Bytes())
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.HasPrefix(err.Error(), x.want)) {
			t.Errorf("%T with %v: %v, want %q", x.img, x.last, err, x.want)
		}
	}
	// Gray with alpha, which package png doesn't write.
	gray := []byte("\x89PNG\r\n\x1a\n")
	gray = appendChunk(gray, "IHDR", "\x00\x00\x00\x01\x00\x00\x00\x01\x08\x04\x00\x00\x00")
	gray = appendChunk(gray, "IDAT", deflated("\x00\xc8\x64"))
	gray = appendChunk(gray, "IEND", "")
	_, err := DecodePicture(gray)
	if err == nil || !strings.HasPrefix(err.Error(), "pixel (0, 0) is transparent, alpha 100") {
		t.Errorf("gray with alpha: %v", err)
	}
}

func appendChunk(to []byte, kind, data string) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	to = append(append(to, kind...), data...)
	return binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE([]byte(kind+data)))
}

func deflated(text string) string {
	var b strings.Builder
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}
