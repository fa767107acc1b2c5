package recipes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

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
