package regionfile

// What comes out of a region file, what a caller may choose, and the two entry points.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Format tells which kind of file the regions came from.
type Format uint8

// The formats that Parse recognises.
const (
	FormatRegions Format = iota + 1 // polyscan's own array of regions
	FormatRecipe                    // polyscan's recipe object
	FormatLabelMe
	FormatCOCO
	FormatGeoJSON
	FormatSVG
	FormatMask // a PNG, whose pixels are labels
)

// String returns the format's usual name.
func (f Format) String() string {
	switch f {
	case FormatRegions:
		return "polyscan regions"
	case FormatRecipe:
		return "polyscan recipe"
	case FormatLabelMe:
		return "LabelMe"
	case FormatCOCO:
		return "COCO"
	case FormatGeoJSON:
		return "GeoJSON"
	case FormatSVG:
		return "SVG"
	case FormatMask:
		return "mask image"
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Fill rules of a Region.
const (
	FillDefault = ""        // the file doesn't say: the caller's default applies
	FillNonZero = "nonzero" // inside where the winding number isn't zero
	FillEvenOdd = "evenodd" // inside where a ray crosses the rings an odd number of times
)

// coordinateLimit bounds the magnitude of every coordinate, in pixels: |x| and |y| are below it.
const coordinateLimit = 1 << 22

// MinTolerance and MaxTolerance bound Options.Tolerance, in pixels; 0 stands for DefaultTolerance.
const (
	MinTolerance = 1.0 / 1024
	MaxTolerance = 16.0

	DefaultTolerance = 1.0 / 16
)

// Defaults of Options.
const (
	DefaultMaxBytes    = 256 << 20
	defaultMaxRegions  = 100_000
	defaultMaxVertices = 8 << 20
)

// Region is one named area of one or more rings, or of the pixels of a mask.
//
// Its JSON form is polyscan's own format, so json.Marshal of a []Region is a file that Parse reads back to equal
// regions.
type Region struct {
	// Name is never empty and is unique within its File: a region without a name is called "region-<index in Regions>",
	// and when a name repeats, its second and later uses get the suffix "#2", "#3" and so on, skipping names already
	// taken. In polyscan's own formats a repeated name also gives a warning.
	Name string `json:"name"`

	// Rings holds at least one ring, unless there is a mask or a shape; each ring has at least 3 vertices [x, y] in pixels
	// and is closed implicitly. In polyscan, LabelMe and COCO polygons the vertices are what the file says, repeated and
	// collinear ones included. GeoJSON's mandatory closing vertex is dropped, and so is every vertex of an SVG outline
	// that equals the one before it. The rings of a file share backing arrays without overlapping; appending to one never
	// writes into another.
	Rings [][][2]float64 `json:"rings,omitempty"`

	// Mask has the region's pixels, where it has no rings: at least one run, row by row, no two touching.
	Mask []Run `json:"mask,omitempty"`

	// Shape says what the region is made of, where it has neither, as the file writes it ("band of \"U7\" inwards 4 px");
	// this package doesn't interpret it.
	Shape string `json:"shape,omitempty"`

	// Fill is FillDefault, FillNonZero or FillEvenOdd.
	Fill string `json:"fill,omitempty"`

	// Limits are the region's limits as the file writes them ("mean in [90, 140]"); this package doesn't interpret
	// them.
	Limits []string `json:"limits,omitempty"`
	// Reference is what the region's distribution is compared with; nil where nothing.
	Reference *Reference `json:"reference,omitempty"`
}

// File is what Parse makes of a region file. The caller owns it.
type File struct {
	Format Format

	// Name and Description of the file as a whole: a recipe's, a GeoJSON collection's name, an SVG's title and desc.
	// Often empty.
	Name        string
	Description string

	// Image names the frame that the regions were drawn on, as the file spells it (LabelMe's imagePath, COCO's
	// file_name), and ImageWidth × ImageHeight is its size in pixels. Empty and 0 when the file doesn't say. An SVG's
	// size is that of its root element when that is a whole number of pixels.
	Image       string
	ImageWidth  int
	ImageHeight int

	// Scale of a recipe; nil where it has none.
	Scale *Scale

	// Locate of a recipe; nil where it has none.
	Locate *Locate

	// Regions in the order of the file; never empty.
	Regions []Region

	// Renamed are the names that regions with a suffix have in the file, by those that they have here; nil where no
	// name repeats.
	Renamed map[string]string

	// Misspelt are the keys that others, which are ignored, look like or are at another place, but for names and
	// descriptions, on which no verdict hangs; there is a warning of each.
	Misspelt []string

	// Lost are the places of what was skipped though it has limits, and of what makes a region other than it is drawn
	// (a style sheet, a clip-path), so that limits would be of something else; there is a warning of each. At most
	// maxWarnings.
	Lost []string

	// NotPixels says why the coordinates can't be pixels, where they can't, so that whatever the regions give is about
	// other places than are meant; there is a warning of it.
	NotPixels string

	// Reductions that a recipe asks for, as the file writes them; this package doesn't interpret them.
	Reductions []string

	// Frames that correlations of a recipe speak of: names of resident frames by the names that are used there.
	Frames map[string]string

	// FlatField that frames are corrected by: "sha256:" and the hash of one that a recipe of the server has.
	FlatField string

	// Warnings tell, in one line each, what was skipped or assumed. At most maxWarnings, the last of which then says
	// how many more there were.
	Warnings []string
}

// maxWarnings is the longest that File.Warnings gets.
const maxWarnings = 50

// Options for Load and Parse. The zero value is a good default.
type Options struct {
	// Image picks the image of a COCO file that describes several: its file_name, its id, or its file_name without
	// folders. Not finding it is an error. Other formats describe one image and ignore this.
	Image string

	// ImageHint is a path or name of the frame at hand. Of a COCO file with annotations for several images, the one
	// whose file_name has the same last element is taken; it is an error if the file has that image without annotations.
	// Unlike Image, a name that the file doesn't have doesn't matter when only one image has annotations.
	ImageHint string

	// Tolerance is the largest distance in pixels between a curve and the polygon that replaces it (SVG curves and
	// arcs, LabelMe circles). Vertices lie on the curve. 0 means 1/16 px; else from MinTolerance to
	// MaxTolerance.
	Tolerance float64

	// IgnoreViewBox reads an SVG's coordinates as pixels just as they are written, whatever width, height and viewBox
	// of the root element say.
	IgnoreViewBox bool

	// MaxBytes, MaxRegions and MaxVertices limit the file; 0 means the default. MaxVertices counts the vertices of all
	// regions together, curves after flattening, and the runs of masks; it also bounds the pieces of columns that each
	// single run-length mask consists of.
	MaxBytes    int64
	MaxRegions  int
	MaxVertices int
}

// withDefaults fills in the defaults, or says which field is out of range.
func (o Options) withDefaults() (Options, *Error) {
	if o.Tolerance == 0 {
		o.Tolerance = DefaultTolerance
	}
	if !(o.Tolerance >= MinTolerance && o.Tolerance <= MaxTolerance) { // written so that NaN fails
		return o, fail(ErrOptions, "options: Tolerance is %v, it must be from %v to %v px", o.Tolerance, MinTolerance,
			MaxTolerance)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxRegions == 0 {
		o.MaxRegions = defaultMaxRegions
	}
	if o.MaxVertices == 0 {
		o.MaxVertices = defaultMaxVertices
	}
	if o.MaxBytes < 0 || o.MaxRegions < 0 || o.MaxVertices < 0 {
		return o, fail(ErrOptions, "options: MaxBytes %d, MaxRegions %d and MaxVertices %d must not be negative",
			o.MaxBytes, o.MaxRegions, o.MaxVertices)
	}
	return o, nil
}

// Parse reads regions from the content of a file. The name is used in error messages only and may be empty; data is not
// modified, and nothing that is returned refers to it.
//
// Errors are of type [*Error]; see the Err values for the kinds. Parse is deterministic. Vertices that the file states
// are exactly the nearest float64; the vertices of flattened curves may differ in the last bits between processor
// architectures, because Go may fuse multiplications and additions.
func Parse(name string, data []byte, opts Options) (*File, error) {
	o, e := opts.withDefaults()
	if e == nil {
		var f *File
		if f, e = parse(data, o); e == nil {
			return f, nil
		}
	}
	e.File = name
	return nil, e
}

// Load reads the file at path and parses it. The path is the name in its errors. A file larger than Options.MaxBytes is
// refused before it is read.
func Load(path string, opts Options) (*File, error) {
	o, e := opts.withDefaults()
	if e != nil {
		e.File = path
		return nil, e
	}
	data, err := read(path, o.MaxBytes)
	if err != nil {
		var own *Error
		if !errors.As(err, &own) {
			own = &Error{Kind: err, Reason: err.Error()}
			// The operating system's reason is enough; its path and verb would repeat what Error says anyway.
			var pe *fs.PathError
			if errors.As(err, &pe) {
				own.Reason = pe.Err.Error()
			}
		}
		own.File = path
		return nil, own
	}
	return Parse(path, data, opts)
}

func read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return nil, fail(ErrUnknownFormat, "is a directory, not a region file")
	}
	if st.Size() > limit {
		return nil, tooLarge(st.Size(), limit)
	}
	// A pipe has no size, and a regular file may grow after Stat: the limit holds for what is read, too.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fail(ErrLimit, "more than %d bytes, the limit for a region file", limit)
	}
	return data, nil
}

func tooLarge(size, limit int64) *Error {
	return fail(ErrLimit, "%d bytes, the limit for a region file is %d", size, limit)
}
