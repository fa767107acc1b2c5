package command

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// TestWords: what kong itself says of wrong values reads as sentences. A new kong that says it otherwise fails here.
func TestWords(t *testing.T) {
	type grammar struct {
		Count int           `name:"count"`
		Size  uint16        `name:"size"`
		Share float64       `name:"share"`
		Wait  time.Duration `name:"wait"`
		Name  string        `name:"name" short:"n"`
		Loud  bool          `name:"loud"`
		By    string        `name:"by" enum:",name,recipe" default:""`
		File  string        `arg:""`
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"f", "--count", "-1"}, `--count: "-1" looks like a flag: write --count=-1`},
		{[]string{"f", "--count", "3x"}, `--count: "3x" is no whole number, in plain digits`},
		{[]string{"f", "--count=10.7"}, `--count: "10.7" is no whole number, in plain digits`},
		{[]string{"f", "--count=9223372036854775808"},
			`--count: 9223372036854775808: must be -9223372036854775808 to 9223372036854775807`},
		{[]string{"f", "--size=70000"}, `--size: 70000: must be 0 to 65535`},
		{[]string{"f", "--size="}, `--size: "" is no whole number from 0, in plain digits`},
		{[]string{"f", "--size=0x10"}, `--size: "0x10" is no whole number from 0, in plain digits`},
		{[]string{"f", "--size=1_0"}, `--size: "1_0" is no whole number from 0, in plain digits`},
		{[]string{"f", "--loud=maybe"}, `--loud: "maybe" is neither true nor false`},
		{[]string{"f", "--by=x"}, `--by must be one of "name","recipe" but got "x"`},
		{[]string{"f", "--share=x"}, `--share: "x" is no number in plain digits`},
		{[]string{"f", "--wait=x"}, `--wait: "x" is no time: want one such as 30s or 1m30s`},
		{[]string{"f", "--name", "-1 to 1 sd"}, `--name: "-1 to 1 sd" looks like a flag: write --name='-1 to 1 sd'`},
		{[]string{"f", "--name", "-x"}, `--name: "-x" looks like a flag: write --name=-x`},
		{[]string{"f", "--name"}, `--name: its value is missing`},
		{nil, `<file> is missing`},
	} {
		Run(&grammar{}, c.args, io.Discard, io.Discard, nil, func(_ *kong.Context, err error) int {
			if err == nil {
				err = errors.New("no error")
			}
			if got := Words(err); got != c.want {
				t.Errorf("%q: %q, want %q (kong: %v)", c.args, got, c.want, err)
			}
			return 0
		}, kong.Name("x"))
	}
}

// TestPlainNumbers: what others read as another number is none, on the command line or in the environment.
func TestPlainNumbers(t *testing.T) {
	type grammar struct {
		Count int      `name:"count"`
		Each  []uint32 `name:"each"`
		Share float64  `name:"share"`
		Most  *int64   `name:"most" env:"MOST"`
	}
	t.Setenv("MOST", "10")
	var g grammar
	Run(&g, []string{"--count=-100", "--each=8,9", "--share=-.5e1"}, io.Discard, io.Discard, nil,
		func(_ *kong.Context, err error) int {
			if err != nil || g.Count != -100 || *g.Most != 10 || fmt.Sprint(g.Each) != "[8 9]" || g.Share != -5 {
				t.Errorf("%+v, most %d, %v", g, *g.Most, err)
			}
			return 0
		}, kong.Name("x"))
	refused := func(want string, args ...string) {
		t.Helper()
		Run(&g, args, io.Discard, io.Discard, nil, func(_ *kong.Context, err error) int {
			if err == nil || Words(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
			return 0
		}, kong.Name("x"))
	}
	refused(`--count: "010" is no whole number, in plain digits`, "--count=010")
	refused(`--count: "+1" is no whole number, in plain digits`, "--count=+1")
	refused(`--each: "08" is no whole number from 0, in plain digits`, "--each=08,9")
	refused(`--share: "1_0" is no number in plain digits`, "--share=1_0")
	refused(`--share: "inf" is no number in plain digits`, "--share=inf")
	t.Setenv("MOST", "010")
	refused(`--most: "010" is no whole number, in plain digits (from the variable MOST="010")`)
	t.Setenv("MOST", "")
	refused(`--most: "" is no whole number, in plain digits (from the variable MOST="")`)
}
