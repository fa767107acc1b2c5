package cli

// Regions files as the server takes them.

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/clients/regionfile"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// LoadInspection reads a regions file for verdicts: its regions and their scale, its reductions and its frames. warn
// gets what may not be what was meant; strict makes errors of that. All errors name the file.
func LoadInspection(path string, strict bool, warn func(string)) (*polyscanv1.Inspection, error) {
	file, err := regionfile.Load(path, regionfile.Options{})
	if err != nil {
		return nil, err
	}
	for _, w := range file.Warnings {
		if w == file.NotPixels {
			continue // it is an error below
		}
		if strict {
			return nil, fmt.Errorf("%s: %s (--strict)", path, w)
		}
		warn(path + ": " + w)
	}
	if err := CheckRead(file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, text := range []string{Limitless(file.Regions, len(file.Regions)), Unsized(file)} {
		if text == "" {
			continue
		}
		if strict {
			return nil, fmt.Errorf("%s: %s (--strict)", path, text)
		}
		warn(path + ": " + text)
	}
	if err := CheckLocate(file.Locate); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := reductions.Parse(file.Reductions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &polyscanv1.Inspection{Regions: &polyscanv1.Inspection_RegionSet{RegionSet: RegionSet(file)}, Reductions: r,
		Frames: file.Frames, FlatField: FlatField(file)}, nil
}

// FlatField is the flat field that a file names; nil for none.
func FlatField(file *regionfile.File) *polyscanv1.FlatField {
	if file.FlatField == "" {
		return nil
	}
	return &polyscanv1.FlatField{Sha256: strings.TrimPrefix(file.FlatField, "sha256:")}
}

// CheckRead refuses limits, references and the like that nobody would read, or that would be of something else: of keys
// that are misspelt or misplaced, of what was skipped or is not read as it is drawn, and of regions that are not in
// pixels. There is a warning of each.
func CheckRead(file *regionfile.File) error {
	if file.NotPixels != "" {
		return errors.New(file.NotPixels)
	}
	if len(file.Misspelt) > 0 {
		return fmt.Errorf("a key is ignored that looks like %q, misspelt or at another place: correct it (the warning above "+
			"says where)", file.Misspelt[0])
	}
	if len(file.Lost) > 0 {
		return fmt.Errorf("%s is skipped or not read as it is drawn, so that limits on it would be of nothing or of "+
			"something else: correct it (the warning above says why)", file.Lost[0])
	}
	return nil
}

// Unsized says that limits of a file hold on frames of any size, where the file could say on which its regions were
// drawn: one of a format that has sizes, or of polyscan's own that names a frame. It is empty of other files.
func Unsized(file *regionfile.File) string {
	has := slices.Contains([]regionfile.Format{regionfile.FormatLabelMe, regionfile.FormatCOCO, regionfile.FormatSVG},
		file.Format)
	limits := slices.ContainsFunc(file.Regions, func(g regionfile.Region) bool { return len(g.Limits) > 0 })
	if file.ImageWidth > 0 || !has && file.Image == "" || !limits && file.Locate == nil {
		return ""
	}
	return "it doesn't say the width and height of the image that its regions were drawn on, so that frames of any size " +
		"are judged"
}

// Limitless says which regions nobody judges though others have limits: those that have none and that no limit, shape
// or reference of another region speaks of, of the first ones, so many. It is empty where there are none.
func Limitless(regions []regionfile.Region, count int) string {
	named, groups, limits := map[string]bool{}, map[string]*regexp.Regexp{}, false
	for _, g := range regions {
		limits = limits || len(g.Limits) > 0
		if g.Reference != nil {
			named[g.Reference.Region] = true
		}
		for _, text := range append(slices.Clip(g.Limits), g.Shape) {
			for _, quoted := range quotedName.FindAllStringSubmatch(text, -1) {
				name := quoted[1]
				if named[name] = true; strings.Contains(name, "*") && groups[name] == nil {
					groups[name] = regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") + "$")
				}
			}
		}
	}
	first, n := "", 0
	for _, g := range regions[:count] {
		if len(g.Limits) > 0 || named[g.Name] {
			continue
		}
		spoken := false
		for _, group := range groups {
			spoken = spoken || group.MatchString(g.Name)
		}
		if !spoken {
			if n++; n == 1 {
				first = g.Name
			}
		}
	}
	switch {
	case !limits || n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf("region %q has no limits, and others have: nothing that it shows can fail a part", first)
	}
	return fmt.Sprintf("%d regions, such as %q, have no limits, and others have: nothing that they show can fail a part", n,
		first)
}

// quotedName is a name in a limit or a shape.
var quotedName = regexp.MustCompile(`"([^"]*)"`)

// Because is what a message of the server says of the field that it refused first, behind its path: " = VALUE: REASON",
// or ": REASON", and how many more it refused.
func Because(e *clients.Error, message string) string {
	v := e.Violations
	// What follows the path of the first field reads better than its description.
	rest, ok := strings.CutPrefix(message, v[0].Field)
	if ok && rest != "" && (rest[0] == ' ' || rest[0] == ':') {
		return rest
	}
	more := ""
	if len(v) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(v)-1)
	}
	return ": " + v[0].Description + more
}

// A Session is where the fields of a session with the server come from.
type Session struct {
	Source  string // the file of regions, the flag --limit that stands for one, or a recipe
	Regions []*polyscanv1.Region
	Flags   map[string]string // by the fields that they set, or all below which they do
}

// Refused is why the server refused the session, in the words of its user: of files and flags, and not of a field of a
// request.
func (s Session) Refused(e *clients.Error) string {
	if len(e.Violations) == 0 {
		return e.Reason()
	}
	path, text := e.Violations[0].Field, Because(e, e.Message)
	path, of := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "open."), "inspection."), "region_set.")
	region, tail, _ := strings.Cut(path, ".")
	file := s.Source != "--limit"
	var i int
	if key, ok := FileKey(path); ok && file {
		return s.Source + ": " + key + FileText(key, text)
	}
	if path == "frames" || strings.HasPrefix(path, "frames[") {
		return s.Source + ": frames: " + strings.TrimPrefix(strings.TrimPrefix(text, " = "), ": ")
	}
	if _, err := fmt.Sscanf(region, "regions[%d]", &i); !of || err != nil || i >= len(s.Regions) {
		for field, flag := range s.Flags {
			if rest, ok := strings.CutPrefix(path, field); ok && (rest == "" || rest[0] == '.') {
				if strings.HasPrefix(flag, "--") {
					text = strings.TrimPrefix(text, " =")
				}
				return flag + text
			}
		}
		if of && file {
			return s.Source + ": " + path + text
		}
		return path + text
	}
	if !file && strings.HasPrefix(tail, "limits[") {
		return s.Source + strings.TrimPrefix(text, " =")
	}
	if tail != "" {
		tail = ": " + tail
	}
	return fmt.Sprintf("%s: %s %q%s%s", s.Source, region, s.Regions[i].GetName(), tail, text)
}

// CheckLimits refuses limits that can't be read, in the words of Refused.
func (s Session) CheckLimits() error {
	for i, g := range s.Regions {
		for k, limit := range g.GetLimits() {
			if _, err := polygon.ParseLimit(limit); err != nil {
				path := fmt.Sprintf("region_set.regions[%d].limits[%d]", i, k)
				return errors.New(s.Refused(&clients.Error{Message: fmt.Sprintf("%s = %q: %s", path, limit,
					reductions.LimitReason(err)), Violations: []clients.FieldViolation{{Field: path}}}))
			}
		}
	}
	return nil
}

// FileKey is where a regions file has a field of requests, beside its regions; ok is false for others.
func FileKey(field string) (key string, ok bool) {
	if field == "flat_field.sha256" {
		return "flat_field", true
	}
	part, ok := strings.CutPrefix(field, "reductions")
	part = strings.Replace(strings.TrimPrefix(part, "."), "cooccurrence", "texture", 1)
	if rest, blobs := strings.CutPrefix(part, "blobs"); blobs { // the value says which end of a range it is
		part = "blobs" + strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(rest, "lower"), "upper"), "_")
	}
	return strings.TrimSuffix("reductions: "+strings.Replace(part, ".", ": ", 1), ": "), ok
}

// FileText is what a message says behind a field, its value in front, behind the key that stands for it in a file.
func FileText(key, text string) string {
	if key == "flat_field" {
		return strings.Replace(text, `= "`, `= "sha256:`, 1)
	}
	if strings.HasPrefix(key, "reductions: ") {
		return strings.TrimPrefix(text, " =")
	}
	return text
}

// RegionSet is the regions of a file, their scale, and the size of the frame that they were drawn on.
func RegionSet(file *regionfile.File) *polyscanv1.RegionSet {
	m := &polyscanv1.RegionSet{Regions: regionsOf(file), Locate: locateMessage(file.Locate)}
	if s := file.Scale; s != nil {
		m.Scale = &polyscanv1.Scale{X: s.MMPerPixel[0], Y: s.MMPerPixel[1],
			Origin: &polyscanv1.Point{X: s.Origin[0], Y: s.Origin[1]}}
	}
	if file.ImageWidth > 0 && file.ImageHeight > 0 {
		m.DrawnOn = &polyscanv1.FrameSize{Width: uint32(file.ImageWidth), Height: uint32(file.ImageHeight)}
	}
	return m
}

func regionsOf(file *regionfile.File) []*polyscanv1.Region {
	out := make([]*polyscanv1.Region, len(file.Regions))
	for i, g := range file.Regions {
		m := &polyscanv1.Region{Name: g.Name, Limits: g.Limits, Shape: g.Shape,
			FillRule: polyscanv1.FillRule_FILL_RULE_NON_ZERO}
		if from := g.Reference; from != nil {
			m.Reference = &polyscanv1.Reference{Region: from.Region}
			for _, counts := range from.Counts {
				m.Reference.Counts = append(m.Reference.Counts, &polyscanv1.ReferenceCounts{Counts: counts})
			}
		}
		if g.Fill == regionfile.FillEvenOdd {
			m.FillRule = polyscanv1.FillRule_FILL_RULE_EVEN_ODD
		}
		if g.Mask != nil {
			m.Mask = &polyscanv1.Mask{Runs: make([]int32, 0, 3*len(g.Mask))}
			for _, u := range g.Mask {
				m.Mask.Runs = append(m.Mask.Runs, u[:]...)
			}
		}
		for _, ring := range g.Rings {
			r := &polyscanv1.Ring{Xy: make([]float64, 0, 2*len(ring))}
			for _, p := range ring {
				r.Xy = append(r.Xy, p[0], p[1])
			}
			m.Rings = append(m.Rings, r)
		}
		out[i] = m
	}
	return out
}
