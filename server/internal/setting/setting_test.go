package setting

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1b": 1, "2KiB": 2048, "2 kib": 2048, "1.5MiB": 3 << 19, "3g": 3 << 30, "2GB": 2_000_000_000,
		"1TiB": 1 << 40,
	} {
		b, err := ParseSize(text)
		if err != nil || b != want {
			t.Errorf("%q = %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1XB", "MiB", "NaN", "Inf", "1e30", "1 2", "1.5"} {
		b, err := ParseSize(text)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q = %d, %v, want an error that names it", text, b, err)
		}
	}
}

// What FormatSize writes is the same size again.
func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1KiB", 1025: "1025", 3 << 19: "1536KiB", 1 << 30: "1GiB",
		5 << 40: "5TiB", 1<<31 - 1: "2147483647",
	} {
		text := FormatSize(n)
		if again, err := ParseSize(text); text != want || err != nil || again != n {
			t.Errorf("%d is %q, want %q, and read again %d, %v", n, text, want, again, err)
		}
	}
}

type inner struct {
	FileName string `default:"a"`
}

type all struct {
	Count  int           `default:"3" max:"9"`
	Bytes  int64         `name:"memory" type:"size" default:"2KiB" min:"1KiB"`
	Wait   time.Duration `default:"5s" max:"1m"`
	NoCopy bool          `type:"off" default:"true"`
	Any    int
	In     inner `embed:"" prefix:"in-"`
	inner
	Hook   func() `kong:"-"`
	hidden int
}

func TestFields(t *testing.T) {
	var a all
	var got []string
	for _, f := range Fields(&a) {
		got = append(got, f.Path+" "+f.Name)
	}
	want := []string{"Count count", "Bytes memory", "Wait wait", "NoCopy no-copy", "Any any", "In.FileName in-file-name"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	Fill(&a)
	if a.Count != 3 || a.Bytes != 2048 || a.Wait != 5*time.Second || a.NoCopy || a.Any != 0 || a.In.FileName != "a" {
		t.Errorf("%+v", a)
	}
	a = all{Count: 9, Bytes: 1 << 10, Wait: time.Minute, Any: 1 << 31, NoCopy: true, hidden: 1}
	before := a
	if Fill(&a); a.Count != before.Count || a.Bytes != before.Bytes || a.Wait != before.Wait || !a.NoCopy {
		t.Errorf("%+v", a)
	}
	if err := Check(&a); err != nil {
		t.Error(err)
	}
	for want, a := range map[string]all{
		"Config.Count = 10: must be 1 to 9, or 0 for the default":                 {Count: 10},
		"Config.Count = -1: must be 1 to 9, or 0 for the default":                 {Count: -1},
		"Config.Bytes = 1023: must be at least 1KiB, or 0 for the default":        {Bytes: 1023},
		"Config.Bytes = -1KiB: must be at least 1KiB, or 0 for the default":       {Bytes: -1024},
		"Config.Wait = 1m0.000000001s: must be 1ns to 1m0s, or 0 for the default": {Wait: time.Minute + 1},
		"Config.Any = 2147483649: must be 0 to 2147483648":                        {Any: 1<<31 + 1},
	} {
		if err := Check(&a); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// Where defaults are filled in, a 0 in the place of one was asked for.
	a = all{Count: 3, Bytes: 2048, Wait: 5 * time.Second}
	if err := CheckFlags(&a); err != nil {
		t.Error(err)
	}
	a.Count = 0
	var bound *BoundError
	if err := CheckFlags(&a); !errors.As(err, &bound) || bound.AsFlag() != "--count = 0: must be 1 to 9" {
		t.Error(err)
	}
	a.Count, a.Bytes = 3, 1
	if err := CheckFlags(&a); !errors.As(err, &bound) || bound.AsFlag() != "--memory = 1: must be at least 1KiB" {
		t.Error(err)
	}
}
