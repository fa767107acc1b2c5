package clients

// Regions and what to compute inside them: short ways to build the messages.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/digits"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Polygon is a region of one ring: x0, y0, x1, y1, ... in pixels. More rings and limits are fields of what it returns.
func Polygon(name string, xy ...float64) *polyscanv1.Region {
	return &polyscanv1.Region{Name: name, Rings: []*polyscanv1.Ring{{Xy: xy}}}
}

// MaskImage is a region of the pixels of an image that aren't black, such as a PNG file or a resident frame, whose
// first pixel is the first one of frames; fields of what it returns say otherwise.
func MaskImage(name string, image *polyscanv1.Frame) *polyscanv1.Region {
	return &polyscanv1.Region{Name: name, Mask: &polyscanv1.Mask{Image: &polyscanv1.MaskImage{Frame: image}}}
}

// UseRegions inspects the given regions. Set the other fields of what it returns, such as Reductions, as needed.
func UseRegions(regions ...*polyscanv1.Region) *polyscanv1.Inspection {
	return &polyscanv1.Inspection{
		Regions: &polyscanv1.Inspection_RegionSet{RegionSet: &polyscanv1.RegionSet{Regions: regions}},
	}
}

// UseRecipe inspects what a recipe on the server says; version 0 is its latest.
func UseRecipe(name string, version uint64) *polyscanv1.Inspection {
	return &polyscanv1.Inspection{
		Regions: &polyscanv1.Inspection_Recipe{Recipe: &polyscanv1.RecipeRef{Name: name, Version: version}},
	}
}

// AllStatistics asks for everything that the server computes.
func AllStatistics() *polyscanv1.Reductions {
	r := &polyscanv1.Reductions{}
	for s := polyscanv1.Statistic_STATISTIC_COUNT; s <= polyscanv1.Statistic_STATISTIC_PLANE; s++ {
		r.Statistics = append(r.Statistics, s)
	}
	return r
}

// recipeName is the rule of the schema for RecipeRef.name.
var recipeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ParseRecipeRef reads "name" (the latest version) or "name@version".
func ParseRecipeRef(s string) (*polyscanv1.RecipeRef, error) {
	name, version, dated := strings.Cut(s, "@")
	ref := &polyscanv1.RecipeRef{Name: name}
	if name == "" {
		return nil, fmt.Errorf("recipe %q: want NAME or NAME@VERSION", s)
	}
	if !recipeName.MatchString(name) {
		return nil, fmt.Errorf("recipe %q: a name has 1 to 128 letters, digits, dots, underscores and hyphens, "+
			"of which the first is a letter or a digit", s)
	}
	if dated {
		v, err := strconv.ParseUint(version, 10, 64)
		if err != nil || v == 0 || !digits.Whole(version) {
			return nil, fmt.Errorf("recipe %q: version %q is no number from 1", s, version)
		}
		ref.Version = v
	}
	return ref, nil
}
