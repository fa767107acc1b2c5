package cli

import (
	"bytes"
	"image"
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
}
