package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Tables that go to a file or a pipe have all of each text; on a terminal their lines fit it, and a wider one shows
// more of the reasons.
func TestTablesAreWholeOffTerminals(t *testing.T) {
	long := func(name string) string { return name + strings.Repeat(" is long", 30) + "!" }
	reason, name, region := long("reason"), long("name"), long("region")
	fail := polyscanv1.Verdict_VERDICT_FAIL
	for what, c := range map[string]struct {
		texts []string
		write func(e *env) error
	}{
		"try": {[]string{reason, name, region}, func(e *env) error {
			return (&tryCmd{}).table(e, &polyscanv1.TryResponse{Frames: []*polyscanv1.JudgedFrame{{FrameId: name, Verdict: fail,
				Failed: []*polyscanv1.FailedRegion{{RegionName: region, Reason: reason}}}}})
		}},
		"teach": {[]string{reason, region}, func(e *env) error {
			return (&teachCmd{}).table(e, &polyscanv1.TeachResponse{Limits: []*polyscanv1.TaughtLimit{{RegionName: region,
				Expression: reason}}})
		}},
		"history": {[]string{reason, name}, func(e *env) error {
			tab := &table{columns: make([]column, 7)}
			tab.add(partCells(e, &polyscanv1.HistoryPart{Name: name, Verdict: fail, Reason: reason})...)
			return tab.write(e, e.stdout)
		}},
		"watch": {[]string{reason, name}, func(e *env) error {
			return (&watchPrinter{env: e, headed: true}).line(cli.Plain, "12:00:00", name, "", "FAIL", "", reason)
		}},
		"textures": {[]string{region}, func(e *env) error {
			return writePairs(e, e.stdout, &polyscanv1.FrameResult{Regions: []*polyscanv1.RegionResult{{Name: region,
				Channels: []*polyscanv1.ChannelStatistics{{}}}}},
				[]string{"TEXTURE", "PAIR", "CONTRAST", "HOMOGEN", "ENERGY", "CORREL", "ENTROPY"},
				func(*polyscanv1.ChannelStatistics) []pairRow {
					return []pairRow{{of: "-1,1", pairs: 16789, numbers: make([]*float64, 5)}}
				})
		}},
		"reduce": {[]string{region}, func(e *env) error {
			return writeTable(e, e.stdout, &polyscanv1.FrameResult{Regions: []*polyscanv1.RegionResult{{Name: region,
				Channels: []*polyscanv1.ChannelStatistics{{}}}}})
		}},
	} {
		shown := map[int]int{}
		for _, columns := range []int{0, 80, 132} {
			var b bytes.Buffer
			if err := c.write(&env{stdout: &b, columns: columns}); err != nil {
				t.Fatal(what, err)
			}
			for _, text := range c.texts {
				if columns == 0 && !strings.Contains(b.String(), text) {
					t.Errorf("%s: %.10q is cut in\n%s", what, text, &b)
				}
			}
			for line := range strings.Lines(b.String()) {
				n := uniseg.StringWidth(strings.TrimRight(line, "\n"))
				if columns > 0 && n > columns {
					t.Errorf("%s: %d columns on a terminal of %d: %s", what, n, columns, line)
				}
				shown[columns] = max(shown[columns], n)
			}
		}
		if slices.Contains(c.texts, reason) && shown[132]-shown[80] != 132-80 {
			t.Errorf("%s: %d columns of 80, and %d of 132", what, shown[80], shown[132])
		}
	}
}
