package cli

// The locate section of regions files, as a message.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// enumName is what files call a value, such as "circle" for FIDUCIAL_KIND_CIRCLE.
func enumName(full, prefix string) string {
	name := strings.ToLower(strings.TrimPrefix(full, prefix))
	if name == "unspecified" {
		return ""
	}
	return name
}

// locateChannels are the names that files have for channels.
var locateChannels = map[string]polyscanv1.Channel{"": 0, "gray": polyscanv1.Channel_CHANNEL_GRAY,
	"r": polyscanv1.Channel_CHANNEL_RED, "g": polyscanv1.Channel_CHANNEL_GREEN, "b": polyscanv1.Channel_CHANNEL_BLUE}

// CheckLocate says what is wrong with the words of a locate section.
func CheckLocate(l *regionfile.Locate) error {
	if l == nil {
		return nil
	}
	word := func(text, key string, known ...string) error {
		if slices.Contains(known, text) || text == "" {
			return nil
		}
		return fmt.Errorf("%s %q: want one of %s", key, text, strings.Join(known, ", "))
	}
	if err := word(l.Model, "model", "translation", "similarity", "affine"); err != nil {
		return fmt.Errorf("locate: %w", err)
	}
	for i, f := range l.Fiducials {
		if err := cmp.Or(word(f.Kind, "kind", "circle", "square", "cross"),
			word(f.Channel, "channel", "gray", "r", "g", "b")); err != nil {
			return fmt.Errorf("locate: fiducials[%d]: %w", i, err)
		}
	}
	return nil
}

// locateMessage is the section, whose words [CheckLocate] has seen; nil for none.
func locateMessage(l *regionfile.Locate) *polyscanv1.Locate {
	if l == nil {
		return nil
	}
	m := &polyscanv1.Locate{MaxResidual: l.MaxResidual, MaxDistortionPercent: l.MaxDistortionPercent}
	m.Model = polyscanv1.LocateModel(polyscanv1.LocateModel_value["LOCATE_MODEL_"+strings.ToUpper(l.Model)])
	for _, f := range l.Fiducials {
		to := &polyscanv1.Fiducial{Window: &polyscanv1.Region{Name: f.Name, Shape: f.Window},
			At: &polyscanv1.Point{X: f.At[0], Y: f.At[1]}, Dark: f.Dark, Threshold: f.Threshold, MinArea: f.MinArea,
			MaxArea: f.MaxArea, Channel: locateChannels[f.Channel],
			Kind: polyscanv1.FiducialKind(polyscanv1.FiducialKind_value["FIDUCIAL_KIND_"+strings.ToUpper(f.Kind)])}
		for _, ring := range f.Rings {
			r := &polyscanv1.Ring{}
			for _, p := range ring {
				r.Xy = append(r.Xy, p[:]...)
			}
			to.Window.Rings = append(to.Window.Rings, r)
		}
		m.Fiducials = append(m.Fiducials, to)
	}
	return m
}

// NotFound says that a part was searched for and not found, and why; empty where it was found, or where nothing was
// searched for.
func NotFound(l *polyscanv1.Location) string {
	if l == nil || l.GetFound() {
		return ""
	}
	return "the part was not found: " + l.GetReason()
}

// LocateOf is the section of a file for a message; nil for none. Windows that are masks, which files don't have, are
// left out.
func LocateOf(m *polyscanv1.Locate) *regionfile.Locate {
	if m == nil {
		return nil
	}
	l := &regionfile.Locate{Model: enumName(m.GetModel().String(), "LOCATE_MODEL_"), MaxResidual: m.GetMaxResidual(),
		MaxDistortionPercent: m.GetMaxDistortionPercent()}
	for _, f := range m.GetFiducials() {
		to := regionfile.Fiducial{Name: f.GetWindow().GetName(), Window: f.GetWindow().GetShape(),
			At: [2]float64{f.GetAt().GetX(), f.GetAt().GetY()}, Kind: enumName(f.GetKind().String(), "FIDUCIAL_KIND_"),
			Dark: f.GetDark(), Threshold: f.GetThreshold(), MinArea: f.GetMinArea(), MaxArea: f.GetMaxArea()}
		for name, c := range locateChannels {
			if c == f.GetChannel() {
				to.Channel = name
			}
		}
		for _, ring := range f.GetWindow().GetRings() {
			var r [][2]float64
			for xy := ring.GetXy(); len(xy) >= 2; xy = xy[2:] {
				r = append(r, [2]float64(xy))
			}
			to.Rings = append(to.Rings, r)
		}
		l.Fiducials = append(l.Fiducials, to)
	}
	return l
}
