package recipes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// However large recipes and what changes in them are, an entry of the audit log is bounded, and says by how much it was
// cut: what it tells and what it leaves out are all the changes that there are.
func TestDifferencesAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, c := range []struct{ regions, limit int }{
		{1, 10}, {999, 10}, {1000, 10}, {1001, 10}, {100_000, 10}, {1, 3000}, {1, 1 << 20}, {40, 2000}, {3000, 500},
	} {
		before, after := &pb.Recipe{RegionSet: &pb.RegionSet{}}, &pb.Recipe{RegionSet: &pb.RegionSet{}}
		for i := range c.regions {
			name := fmt.Sprint("größe", i)
			limit := strings.Repeat("ü", r.IntN(c.limit)+c.limit/2)
			before.RegionSet.Regions = append(before.RegionSet.Regions, &pb.Region{Name: name, Limits: []string{limit}})
			after.RegionSet.Regions = append(after.RegionSet.Regions, &pb.Region{Name: name, Limits: []string{limit + "a"}})
		}
		lines, size, told := differences(before, after), 0, 0
		for i, line := range lines {
			size += len(line)
			more, whole := 0, fmt.Sprintf("region größe%d: limits %q, before %q", i,
				after.RegionSet.Regions[i].Limits[0], before.RegionSet.Regions[i].Limits[0])
			switch head, tail, cut := strings.Cut(line, "… and "); {
			case !utf8.ValidString(line) || len(line) > mostLineBytes:
				t.Errorf("%+v: a line of %d bytes: %.40q", c, len(line), line)
			case line == whole:
				told++
			case cut:
				told++
				if _, err := fmt.Sscanf(tail, "%d bytes more", &more); err != nil || !strings.HasPrefix(whole, head) ||
					len(head)+more != len(whole) {
					t.Errorf("%+v: %d bytes of %d, and %q", c, len(head), len(whole), tail)
				}
			case i == len(lines)-1:
				if _, err := fmt.Sscanf(line, "and %d more", &more); err != nil {
					t.Errorf("%+v: %q", c, line)
				}
				told += more
			default:
				t.Errorf("%+v: line %d: %.80q", c, i, line)
			}
		}
		if told != c.regions || size > mostChangeBytes || len(lines) > mostChanges || len(lines) == 0 {
			t.Errorf("%+v: %d changes in %d lines of %d bytes", c, told, len(lines), size)
		}
	}
}

// TestDifferencesOfLocate: each value of how parts are located that changes is told, with the one before.
func TestDifferencesOfLocate(t *testing.T) {
	window := func(name, shape string) *pb.Region { return &pb.Region{Name: name, Shape: shape} }
	a := &pb.Recipe{RegionSet: &pb.RegionSet{Locate: &pb.Locate{MaxResidual: 1, Fiducials: []*pb.Fiducial{
		{Window: window("F1", "rect(0, 0, 9, 9)"), At: &pb.Point{X: 4.5, Y: 4}},
		{Window: window("", "rect(20, 0, 29, 9)"), At: &pb.Point{X: 24, Y: 4}},
		{Window: window("F3", "rect(20, 0, 29, 9)"), At: &pb.Point{X: 24, Y: 4}}}}}}
	b := proto.Clone(a).(*pb.Recipe)
	l := b.RegionSet.Locate
	l.MaxResidual, l.MaxDistortionPercent, l.Model = 900, 2.5, pb.LocateModel_LOCATE_MODEL_AFFINE
	f := l.Fiducials[0]
	f.Window.Shape, f.At.X, f.Kind, f.Dark, f.MinArea = "rect(0, 0, 8, 8)", 5, pb.FiducialKind_FIDUCIAL_KIND_CIRCLE, true, 50
	l.Fiducials[1].Threshold, l.Fiducials[1].Channel = 90, pb.Channel_CHANNEL_RED
	l.Fiducials[2].Window.Name = "F4"
	none := &pb.Recipe{RegionSet: &pb.RegionSet{}}
	for _, c := range []struct {
		before, after *pb.Recipe
		want          string
	}{
		{a, b, `locate: model affine, before by default
locate: max_residual 900, before 1
locate: max_distortion_percent 2.5, before by default
fiducial F1: window "rect(0, 0, 8, 8)", before "rect(0, 0, 9, 9)"
fiducial F1: at (5, 4), before (4.5, 4)
fiducial F1: kind circle, before by default
fiducial F1: dark true, before false
fiducial F1: min_area 50, before by default
fiducial 2: threshold 90, before by default
fiducial 2: channel red, before by default
fiducial F4: added, window "rect(20, 0, 29, 9)", at (24, 4)
fiducial F3: removed`},
		{none, a, "locate: 3 fiducials, before none"},
		{a, none, "locate: none, before 3 fiducials"},
		{a, proto.Clone(a).(*pb.Recipe), ""},
	} {
		if got := strings.Join(differences(c.before, c.after), "\n"); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
