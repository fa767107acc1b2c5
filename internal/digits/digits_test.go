package digits

import "testing"

func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "7": true, "-7": true, "10": true, "99999999999999999999": true,
		"": false, "01": false, "00": false, "+1": false, "-01": false, "1_0": false, "0x1": false, "1.0": false, "1e3": false,
		" 1": false, "-": false, "١": false,
	} {
		if Whole(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestFloat(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "-0.5": -0.5, ".5": 0.5, "5.": 5, "10.25": 10.25, "1e3": 1000, "2.5E-1": 0.25, "1e+2": 100,
	} {
		if v, err := Float(text); err != nil || v != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "1_0", "0x1p3", "+1", "01", "01.5", "inf", "NaN", "1e999", " 1", "1 ", ".", "-", "e3", "1e"} {
		if v, err := Float(text); err == nil || v != 0 {
			t.Errorf("%q is %v", text, v)
		}
	}
}
