// Inspections: what a request wants to know of frames, as package polygon takes it.

package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unsafe"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/locate"
)

// Inspection is what to do with frames, ready to be done.
type Inspection struct {
	Set        *polygon.Set
	Reductions polygon.Reductions
	Method     polygon.Method
	Class      kernels.Class
	Keep       bool // the set meets more frames: its prepared form is worth keeping
	Paths      Paths
	Flat       *kernels.FlatField // what frames are corrected by; nil for frames as they are
	Frames     map[string]string  // the resident frames that correlations need, by the names that they have there
	Pose       *polygon.Pose      // of the part, with which Set is to be moved; nil for none
	Locator    *locate.Locator    // finds the pose in each frame where there is none; nil where nothing does

	Name    string // of the camera or station that asks
	Recipe  string // and its version; "" where the regions came with the request
	Version uint64
	Regions []*pb.Region // as they were given

	drawnOn *pb.FrameSize // that limits are for; nil where nobody knows, and where there are none
}

// Recipes finds recipes; version 0 is the latest.
type Recipes interface {
	Recipe(name string, version uint64) (*pb.Recipe, *polygon.Set, error)
	// FlatField is the field that a message at path has, or stands for; nil for none.
	FlatField(m *pb.FlatField, path string) (*kernels.FlatField, error)
}

// NewInspection resolves and checks an Inspection; path is where it lies in the request, frame where the frames do. It
// calls pause as [NewSet] does. sets may be nil.
func NewInspection(ctx context.Context, in *pb.Inspection, path, frame string, recipes Recipes, sets *RegionSets,
	b polygon.Bounds, pause func() error) (*Inspection, error) {
	out := &Inspection{
		Method: polygon.Method(in.GetMethod()),
		Class:  ClassOf(in.GetWorkClass()),
		Name:   in.GetName(),
		Paths:  Paths{Root: path + ".", Set: path + ".region_set", Reductions: path + ".reductions", Frame: frame},
	}
	reductions := in.GetReductions()
	flat := in.GetFlatField()
	b.Later = in.GetPose() != nil
	var kept map[string]string
	var own *pb.Reductions // of the recipe
	var regions *pb.RegionSet
	switch r := in.GetRegions().(type) {
	case *pb.Inspection_RegionSet:
		set, again, err := sets.compile(ctx, r.RegionSet, out.Paths, b, pause)
		if err != nil {
			return nil, err
		}
		out.Set, out.Keep, out.Regions = set, again, r.RegionSet.GetRegions()
		regions = r.RegionSet
	case *pb.Inspection_Recipe:
		recipe, set, err := recipes.Recipe(r.Recipe.GetName(), r.Recipe.GetVersion())
		if err != nil {
			return nil, err
		}
		out.Set, out.Keep = set, true
		out.Recipe, out.Version, out.Regions = recipe.GetName(), recipe.GetVersion(), recipe.GetRegionSet().GetRegions()
		out.Paths.Stored, out.Paths.Ref = RecipeID(recipe), path+".recipe"
		kept, regions = recipe.GetFrames(), recipe.GetRegionSet()
		if flat == nil {
			flat, out.Paths.StoredFlat = recipe.GetFlatField(), true
		}
		if reductions == nil {
			reductions = recipe.GetReductions()
			out.Paths.StoredReductions = true
		}
		own = recipe.GetReductions()
	default:
		return nil, apierr.Refuse(path+".regions", nil, "one of region_set and recipe must be given")
	}
	if out.Set.HasLimits() || regions.GetLocate() != nil { // of which a part that isn't found fails
		out.drawnOn = regions.GetDrawnOn()
	}
	var err error
	if out.Locator, err = locatorOf(regions, out.Paths); err != nil {
		return nil, err
	}
	if flat != nil { // recipes may be nil where nothing refers to any
		if out.Flat, err = recipes.FlatField(flat, path+".flat_field"); err != nil {
			return nil, err
		}
	}
	if out.Pose, err = PoseOf(in.GetPose(), path+".pose", out.Locator != nil); err != nil {
		return nil, err
	}
	out.Reductions = ReductionsOf(reductions)
	if out.Recipe != "" && in.GetReductions() != nil {
		stored := ReductionsOf(own)
		if err := out.Set.CheckAsked(&out.Reductions, &stored); err != nil {
			return nil, out.Paths.Translate(err)
		}
	}
	out.Reductions.Output = outputOf(in.GetResult())
	out.Frames = FramesOf(out.Set, out.Reductions, in.GetFrames(), kept)
	if err := CheckFrames(in.GetFrames(), out.Frames, path+".frames"); err != nil {
		return nil, err
	}
	return out, nil
}

// CheckSize refuses a frame of another size than that on which the regions with limits were drawn.
func (in *Inspection) CheckSize(width, height int) error {
	return CheckDrawnOn(in.drawnOn, width, height, in.Paths.Frame)
}

// CheckLines refuses parts of a line-scan, at path in the request, of another width than that of the frame on which the
// regions with limits were drawn, and whole ones, which are frames, of another size.
func (in *Inspection) CheckLines(width, lines int, whole bool, path string) error {
	m := in.drawnOn
	switch {
	case m == nil:
	case int64(m.GetWidth()) != int64(width):
		return apierr.Refuse(path+".layout.width", width, "must be %d: the regions were drawn on a frame of %dx%d pixels",
			m.GetWidth(), m.GetWidth(), m.GetHeight())
	case whole && int64(m.GetHeight()) != int64(lines):
		return apierr.Refuse(path+".part_lines", lines, "must be %d: the regions were drawn on a frame of %dx%d pixels",
			m.GetHeight(), m.GetWidth(), m.GetHeight())
	}
	return nil
}

// CheckDrawnOn refuses a frame, which lies at path in the request, of another size than that on which regions were
// drawn; m is nil where nobody knows.
func CheckDrawnOn(m *pb.FrameSize, width, height int, path string) error {
	if m != nil && (int64(m.GetWidth()) != int64(width) || int64(m.GetHeight()) != int64(height)) {
		return apierr.Refuse(path, fmt.Sprintf("%dx%d", width, height), "the regions with limits were drawn on %dx%d "+
			"pixels", m.GetWidth(), m.GetHeight())
	}
	return nil
}

// CheckFrames refuses a frame to compare with that nothing needs: who names it means a limit that isn't there.
func CheckFrames(named, needed map[string]string, path string) error {
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if _, ok := needed[name]; !ok {
			return apierr.Refuse(fmt.Sprintf("%s[%q]", path, name), strconv.Quote(named[name]),
				"is spoken of by no limit and no correlation")
		}
	}
	return nil
}

// FramesOf are the resident frames that correlations of a set and of reductions need, by the names that they have
// there: the first of named that has one says which, and else that name itself. The frame before in a stream isn't
// among them.
func FramesOf(set *polygon.Set, r polygon.Reductions, named ...map[string]string) (frames map[string]string) {
	names := set.Frames()
	for _, c := range r.Correlations {
		if c.Kind == polygon.Framed {
			names = append(names, c.Frame)
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		is := name
		for i := len(named) - 1; i >= 0; i-- {
			if resident, ok := named[i][name]; ok {
				is = resident
			}
		}
		if frames == nil {
			frames = map[string]string{}
		}
		frames[name] = is
	}
	return frames
}

// LooksBack says that correlations need the frame before in a stream.
func (in *Inspection) LooksBack() bool {
	return slices.Contains(in.Set.Frames(), "") || slices.ContainsFunc(in.Reductions.Correlations,
		func(c polygon.Correlation) bool { return c.Kind == polygon.Framed && c.Frame == "" })
}

// ResultBytes is about how many bytes a result takes beyond some for each region: those of what makes it large.
func (in *Inspection) ResultBytes(f kernels.PixelFormat) int64 {
	r := in.Reductions
	count, percentile := int64(8), int64(64) // which is a message of its own
	if r.Output.Columns {
		count, percentile = 4, 8
	}
	each := int64(0)
	channels := r.Output.Fields.Has(polygon.FieldChannels)
	bins := int64(r.Histogram.Bins)
	if bins == 0 {
		bins = int64(f.Levels())
	}
	histogram, cumulative := r.Statistics.Has(polygon.Histogram), r.Statistics.Has(polygon.Cumulative)
	if channels && (histogram || cumulative) {
		each += count * bins
		if histogram && cumulative && !r.Output.Columns {
			each += count * bins
		}
	}
	if channels && r.Statistics.Has(polygon.Percentiles) {
		n := len(r.Percentiles)
		if n == 0 {
			n = len(polygon.DefaultPercentiles())
		}
		each += percentile * int64(n)
	}
	if channels {
		n := 0
		for _, c := range r.Correlations {
			n++
			switch {
			case c.Kind == polygon.Radial:
				n += c.Radius
			case c.Kind == polygon.Crossed && c.With == polygon.NoChannel:
				n += int(f.Channels) - 1
			}
		}
		each += 250 * int64(n) // a message of its own, its term and its numbers
	}
	if c := r.Cooccurrence; channels && c != nil {
		offsets, levels := len(c.Offsets), c.Levels
		if offsets == 0 {
			offsets = len(polygon.DefaultOffsets())
		}
		if levels == 0 {
			levels = polygon.DefaultLevels
		}
		value := int64(300) // a message of its own, and its numbers
		if c.Counts {
			value += 8 * int64(levels*levels) // as they are and, of a varint or of a word, marshalled
		}
		each += value * int64(offsets)
	}
	if c := r.Covered; channels && c != nil {
		each += 150 // a message of its own
		if c.Histogram {
			each += 16 * bins // as they are, and marshalled
		}
	}
	n := each * int64(in.channels(f)) * int64(in.Set.Len())
	if channels && !r.Output.Columns {
		n += blobShare(r.Blobs, in.Set.Len())
	}
	if in.Set.HasLimits() {
		for i := range in.Set.Len() {
			n += 128 * int64(len(in.Set.Limits(i))) // with their text
		}
	}
	return n + in.Set.ComparedBytes(r, f, in.channels(f))
}

// Share is the host memory that the result of a frame takes. A result that no message can carry is refused.
func (in *Inspection) Share(f kernels.Picture, limit int64) (int64, error) {
	bytes := in.ResultBytes(f.Format)
	if bytes > limit {
		return 0, apierr.Quota(apierr.ReasonResultTooLarge, "result", fmt.Sprintf(
			"histograms, percentiles, textures, correlations, covered pixels, blobs, limits and distributions that are "+
				"compared of %d regions would take %d bytes; the limit is %d", in.Set.Len(), bytes, limit))
	}
	bytes += in.Set.CoverBytes(in.Reductions, f.Width, f.Height) + in.Set.ExtentBytes(f.Width, f.Height)
	return bytes + int64(in.Set.Len())*(regionShare+channelShare*int64(in.channels(f.Format))), nil
}

// channels is how many channels a result has, those that are derived from colours among them.
func (in *Inspection) channels(f kernels.PixelFormat) int {
	return in.Set.Channels(&in.Reductions, f)
}

// What a region and each of its channels take beside: sums on their way from the device, results, messages, and those
// marshalled, with small numbers to which messages have pointers.
const (
	regionShare = int64(unsafe.Sizeof(polygon.RegionResult{})+unsafe.Sizeof(pb.RegionResult{})+
		unsafe.Sizeof(pb.PixelRect{})+unsafe.Sizeof(pb.Point{})) + 200
	channelShare = int64(unsafe.Sizeof(polygon.ChannelStatistics{})+unsafe.Sizeof(pb.ChannelStatistics{})+
		2*unsafe.Sizeof(pb.PixelPosition{})) + 230
)

// RecipeID is how errors name a version of a recipe.
func RecipeID(m *pb.Recipe) string { return fmt.Sprintf("%s@%d", m.GetName(), m.GetVersion()) }

// ClassOf is the class of a call's jobs.
func ClassOf(c pb.WorkClass) kernels.Class {
	if c == pb.WorkClass_WORK_CLASS_BATCH {
		return kernels.Batch
	}
	return kernels.Interactive
}
