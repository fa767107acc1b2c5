package regionfile

// Telling the formats apart by content, and saying what a file is when it is none of them.

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

const accepted = "accepted are polyscan JSON, LabelMe, COCO, GeoJSON, SVG and PNG masks"

func parse(data []byte, o Options) (*File, *Error) {
	if int64(len(data)) > o.MaxBytes {
		return nil, tooLarge(int64(len(data)), o.MaxBytes)
	}
	if bytes.HasPrefix(data, []byte(pngSignature)) {
		b := &builder{opts: o, file: &File{}}
		if e := b.maskImage(data); e != nil {
			return nil, e
		}
		return b.finish()
	}
	if enc := wideEncoding(data); enc != "" {
		return nil, fail(ErrUnknownFormat, "the file is %s text; save it as UTF-8", enc)
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	b := &builder{opts: o, file: &File{}}
	body := bytes.TrimLeft(data, " \t\r\n")
	var e *Error
	switch {
	case len(body) == 0:
		if len(data) == 0 {
			return nil, fail(ErrUnknownFormat, "the file is empty; %s", accepted)
		}
		return nil, fail(ErrUnknownFormat, "the file has nothing but white space; %s", accepted)
	case body[0] == '{' || body[0] == '[':
		if !utf8.Valid(data) { // LabelMe files of other times and places; their shapes are fine
			at := 0
			for r, n := utf8.DecodeRune(data); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRune(data[at:]) {
				at += n
			}
			b.warn("line %d: the text is not UTF-8; what isn't becomes \uFFFD", 1+bytes.Count(data[:at], []byte("\n")))
		}
		e = b.json(data)
	case body[0] == '<':
		e = b.svg(data)
	default:
		return nil, fail(ErrUnknownFormat, "%s; %s", looksLike(body), accepted)
	}
	if e != nil {
		return nil, e
	}
	if want := o.Image; want != "" && b.file.Format != FormatCOCO && base(want) != base(b.file.Image) {
		other := ""
		if b.file.Image != "" {
			other = " of " + quote(b.file.Image)
		}
		return nil, fail(ErrInvalid, "the image %s is not in it: this is a file%s in the format %s, and only COCO files hold "+
			"the regions of several images", quote(want), other, b.file.Format)
	}
	return b.finish()
}

// wideEncoding recognises UTF-16 and UTF-32, by their byte order marks or by the zero bytes around an initial '{', '['
// or '<'.
func wideEncoding(data []byte) string {
	has := func(prefix string) bool { return bytes.HasPrefix(data, []byte(prefix)) }
	switch {
	case has("\xff\xfe\x00\x00"), has("\x00\x00\xfe\xff"):
		return "UTF-32"
	case has("\xff\xfe"), has("\xfe\xff"):
		return "UTF-16"
	}
	if len(data) >= 4 {
		for _, c := range "{[<" {
			switch {
			case data[0] == byte(c) && data[1] == 0 && data[2] != 0, data[0] == 0 && data[1] == byte(c):
				return "UTF-16"
			case data[0] == byte(c) && data[1] == 0 && data[2] == 0:
				return "UTF-32"
			}
		}
	}
	return ""
}

// signatures of files that people pass by mistake.
var signatures = []struct{ prefix, what string }{
	{"\xff\xd8\xff", "a JPEG image"},
	{"GIF87a", "a GIF image"},
	{"GIF89a", "a GIF image"},
	{"II*\x00", "a TIFF image"},
	{"MM\x00*", "a TIFF image"},
	{"RIFF", "a RIFF file (WebP, WAV or AVI)"},
	{"%PDF-", "a PDF document"},
	{"%!PS", "a PostScript document"},
	{"PK\x03\x04", "a ZIP archive"},
	{"\x1f\x8b", "gzip-compressed data (perhaps .svgz); decompress it first"},
	{"BZh", "bzip2-compressed data; decompress it first"},
	{"\xfd7zXZ\x00", "xz-compressed data; decompress it first"},
	{"\x28\xb5\x2f\xfd", "zstd-compressed data; decompress it first"},
	{"SQLite format 3\x00", "an SQLite database"},
	{"\x7fELF", "an executable"},
	{"\x93NUMPY", "a NumPy array"},
	{"%YAML", "YAML"},
	{"---\n", "YAML"},
	{"POLYGON", "well-known text (WKT)"},
	{"MULTIPOLYGON", "well-known text (WKT)"},
}

// looksLike describes content that no reader wants.
func looksLike(body []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(body, []byte(s.prefix)) {
			return "the file looks like " + s.what
		}
	}
	if len(body) > 14 && string(body[:2]) == "BM" && string(body[6:10]) == "\x00\x00\x00\x00" {
		return "the file looks like a BMP image"
	}
	line := body
	const longest = 4096
	if len(line) > longest {
		line = line[:longest]
	}
	if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRune(line[i:])
		// a rune that longest cut in two
		cut := r == utf8.RuneError && n == 1 && len(line)-i < utf8.UTFMax && len(line) == longest
		if (r == utf8.RuneError && n == 1 && !cut) || (unicode.IsControl(r) && r != '\t') {
			return fmt.Sprintf("the file looks like binary data (byte 0x%02x in its first line)", line[i])
		}
		i += n
	}
	for _, sep := range []string{",", ";", "\t"} {
		if bytes.Count(line, []byte(sep)) >= 2 {
			return "the file looks like a table with columns (CSV), starting with " + quote(string(line))
		}
	}
	return "the file looks like text, starting with " + quote(string(line))
}
