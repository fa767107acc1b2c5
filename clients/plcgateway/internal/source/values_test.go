package source

import (
	"math"
	"strings"
	"testing"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestValues(t *testing.T) {
	mean, red, most, slope := 12.5, 200.0, uint32(9), -0.25
	results := []*polyscanv1.RegionResult{
		{Index: 3, Name: "U7", Count: 40, Verdict: polyscanv1.Verdict_VERDICT_FAIL, Channels: []*polyscanv1.ChannelStatistics{
			{Channel: polyscanv1.Channel_CHANNEL_RED, Mean: &red, PlaneX: &slope},
			{Channel: polyscanv1.Channel_CHANNEL_GREEN, Mean: &mean,
				Percentiles: []*polyscanv1.PercentileValue{{Percentile: 95, Value: 7}}},
		}},
		{Index: 1, Name: "a.b", Channels: []*polyscanv1.ChannelStatistics{{Max: &most}},
			Verdict: polyscanv1.Verdict_VERDICT_FAIL},
	}
	for text, want := range map[string]float64{
		"U7.mean": 200, "U7.green.mean": 12.5, "U7.count": 40, "U7.green.p95": 7, "U7.green.p50": math.NaN(), "a.b.max": 9,
		"U7.plane.x": -0.25, "U7.red.plane.x": -0.25, "U7.plane.y": math.NaN(), "U7.green.plane.residual": math.NaN(),
		"U7.blue.mean": math.NaN(), "U7.coverage": math.NaN(), "U8.mean": math.NaN(), "U7.median": math.NaN(),
	} {
		v, err := ParseValue(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := float64(v.of(results)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "U7", ".mean", "U7.", "U7.average", "U7.p101", "U7.p", "U7.px", "U7.plane.z",
		"plane.x"} {
		if _, err := ParseValue(text); err == nil || !strings.Contains(err.Error(), "value") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if first, n := firstFailed(results); first != 1 || n != 2 {
		t.Errorf("first failed %d of %d", first, n)
	}
}
