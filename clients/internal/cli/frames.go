package cli

// Frames in folders: which files they are, and what else is there.

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Pictures are the endings of image files that frames are read from; PNG and JPEG are the first three.
var Pictures = []string{".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp"}

// besideFrames are the kinds of files that programs put or read beside frames.
var besideFrames = []string{".json", ".csv", ".svg", ".yaml", ".yml", ".txt", ".md"}

// Frames finds the files of a folder that end in one of the kinds, in capitals or not, in the order of their names. It
// hands what else is there to warn, in one line; hidden files, and what lies beside frames, are left out without.
// Pipes, sockets and devices of such names are errors, and so are names that are no UTF-8, frames in folders below it
// and those of other names, parts that nobody would look at: among pictures other pictures, and among raw frames all
// other files, since none tells what it is.
func Frames(dir string, kinds []string, warn func(text string)) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names, others []string
	for _, f := range entries {
		kind := strings.ToLower(filepath.Ext(f.Name()))
		switch name := f.Name(); {
		case Hidden(name):
		case !f.IsDir() && slices.Contains(kinds, kind):
			// A pipe that nobody writes to would be waited for without an end.
			if st, err := os.Stat(filepath.Join(dir, name)); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
				return nil, fmt.Errorf("%s: no regular file", Printable(filepath.Join(dir, name)))
			}
			if !utf8.ValidString(name) { // messages can't hold it, and it tells the results of frames apart
				return nil, fmt.Errorf("%s: the name %q is no UTF-8: rename the file", Printable(dir), name)
			}
			names = append(names, name)
		case !f.IsDir():
			if is := mayBeFrame(filepath.Join(dir, name), kinds); is != "" {
				return nil, fmt.Errorf("%s: a %s that would not be read: frames end in %s here; convert it, rename it, "+
					"or move it away", Printable(filepath.Join(dir, name)), is, strings.Join(kinds, ", "))
			}
			if st, err := os.Stat(filepath.Join(dir, name)); err != nil || !st.IsDir() {
				if !slices.Contains(besideFrames, kind) {
					others = append(others, name)
				}
				break
			}
			fallthrough // a link to a folder
		default:
			if frame := frameBelow(filepath.Join(dir, name), kinds); frame != "" {
				return nil, fmt.Errorf("%s: a frame that would not be read: folders in %s are left out; name the one that is "+
					"meant, or move it away", Printable(frame), Printable(dir))
			}
			others = append(others, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no frames (%s) in this folder", dir, strings.Join(kinds, ", "))
	}
	if n := len(others); n > 0 {
		what := "1 file or folder"
		if n > 1 {
			what = fmt.Sprintf("%d files or folders", n)
		}
		warn(fmt.Sprintf("%s: %s skipped, such as %s: frames end in %s", Printable(dir), what, Printable(others[0]),
			strings.Join(kinds, ", ")))
	}
	return names, nil
}

// Hidden says that a file of a folder is left alone: macOS puts ._a.png beside a.png on foreign disks, and programs
// write frames under such a name until they are whole. One that is named on its own is read.
func Hidden(name string) bool { return strings.HasPrefix(name, ".") }

// mayBeFrame says what a file of another name is that may be meant as a frame; "" where it isn't.
func mayBeFrame(name string, kinds []string) string {
	if is := PictureKind(name); is != "" {
		return "picture (" + is + ")"
	}
	st, err := os.Stat(name)
	if kinds[0] == Pictures[0] || slices.Contains(besideFrames, strings.ToLower(filepath.Ext(name))) || err != nil ||
		!st.Mode().IsRegular() {
		return ""
	}
	return "file"
}

// frameBelow is a file in a folder, or in those below it that are not hidden, that is a frame or may be meant as one;
// "" where there is none, or none that may be read.
func frameBelow(dir string, kinds []string) (frame string) {
	root := dir + string(filepath.Separator) // a link to a folder is followed
	_ = filepath.WalkDir(root, func(path string, f fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		switch hidden := path != root && Hidden(f.Name()); {
		case hidden && f.IsDir():
			return fs.SkipDir
		case hidden, f.IsDir():
		case slices.Contains(kinds, strings.ToLower(filepath.Ext(path))), mayBeFrame(path, kinds) != "":
			frame = filepath.Clean(path)
			return fs.SkipAll
		}
		return nil
	})
	return frame
}

// otherPictures are endings of pictures that don't tell by their first bytes what they are.
var otherPictures = []string{".pgm", ".ppm", ".pnm", ".pbm", ".pam", ".tga", ".pcx", ".sgi", ".jxl", ".qoi", ".exr",
	".hdr", ".dcm", ".fits", ".npy", ".raw", ".bmp", ".tif", ".tiff", ".jpe", ".jfif"}

// PictureKind says what picture a file is, by its first bytes or its name; "" where it is none.
func PictureKind(name string) string {
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() { // such as a pipe, which would be waited for
		return ""
	}
	if end := strings.ToLower(filepath.Ext(name)); slices.Contains(otherPictures, end) {
		return strings.ToUpper(end[1:])
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 16)
	n, _ := io.ReadFull(f, head)
	switch head := string(head[:n]); {
	case strings.HasPrefix(head, "II*\x00"), strings.HasPrefix(head, "MM\x00*"):
		return "TIFF"
	case len(head) == 16 && (head[4:12] == "ftypheic" || head[4:12] == "ftypavif" || head[4:12] == "ftypmif1"):
		return "HEIF"
	case strings.HasPrefix(head, "\x00\x00\x00\x0cjP  "):
		return "JPEG 2000"
	case strings.HasPrefix(head, "BM"): // as some texts begin
		return ""
	}
	kind, _ := strings.CutPrefix(http.DetectContentType(head[:n]), "image/")
	if strings.Contains(kind, "/") {
		return ""
	}
	return strings.ToUpper(kind)
}

// FormatName is how command lines spell a pixel format, such as rgb8.
func FormatName(f polyscanv1.PixelFormat) string {
	return strings.ToLower(strings.TrimPrefix(f.String(), "PIXEL_FORMAT_"))
}

// PartID is the name of a frame's file without its ending.
func PartID(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// CheckPartIDs refuses files of which two would be the same part.
func CheckPartIDs(files []string) error {
	of := map[string]string{}
	for _, f := range files {
		if first, again := of[PartID(f)]; again {
			return fmt.Errorf("%s and %s are both part %q: parts are told apart by their ids", Printable(first),
				Printable(f), PartID(f))
		}
		of[PartID(f)] = f
	}
	return nil
}

// CheckStreamName refuses what can't be the name of a stream, by the schema of Inspection.name.
func CheckStreamName(name string) error {
	if len(name) > 64 || !streamName.MatchString(name) {
		return fmt.Errorf("%q is no name of a stream: want 1 to 64 letters, digits, spaces and any of . _ : / @ # + -, a "+
			"letter or digit first and no space last", name)
	}
	return nil
}

var streamName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 ._:/@#+-]*[A-Za-z0-9._:/@#+-])?$`)
