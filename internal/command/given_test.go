package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// A flag's second value doesn't replace the first in silence, and an empty one isn't taken for none.
func TestGiven(t *testing.T) {
	type grammar struct {
		Name   string        `name:"name" short:"n"`
		Strict bool          `name:"strict"`
		Listen []string      `name:"listen"`
		Count  *int          `name:"count"`
		Size   int           `name:"size"`
		Rate   float64       `name:"rate"`
		Seed   uint64        `name:"seed" zero:""`
		Limit  uint32        `name:"limit" default:"20"`
		Wait   time.Duration `name:"wait"`
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--name=a", "-n", "b"}, "--name is given twice, and holds one value"},
		{[]string{"--count=1", "--count=1"}, "--count is given twice, and holds one value"},
		{[]string{"--listen=a", "--listen=b", "--strict", "--strict", "--name=a"}, ""},
		{[]string{"--name="}, "--name: the value is empty"},
		{[]string{"-n", ""}, "--name: the value is empty"},
		{[]string{"--size=0"}, "--size 0: must be more than 0; leave the flag out for the default"},
		{[]string{"--rate=0"}, "--rate 0: must be more than 0; leave the flag out for the default"},
		{[]string{"--wait=0"}, "--wait 0s: must be more than 0; leave the flag out for the default"},
		{[]string{"--seed=0", "--limit=0", "--count=0", "--size=-1", "--rate=0.1"}, ""},
		{nil, ""},
	} {
		Run(&grammar{}, c.args, io.Discard, io.Discard, nil, func(_ *kong.Context, err error) int {
			got := ""
			if err != nil {
				got = Words(err)
			}
			if got != c.want {
				t.Errorf("%q: %q, want %q", c.args, got, c.want)
			}
			return 0
		}, kong.Name("x"), kong.WithBeforeApply(Given))
	}
}

// A flag that has no effect, for want of another or because of one, is refused by the names of both; one that comes of
// the environment isn't, and neither are those that a command lacks.
func TestIdle(t *testing.T) {
	t.Setenv("TOKEN", "t")
	t.Setenv("DRAWN", "d")
	type shared struct {
		Limit []string `name:"limit" needs:"regions"`
	}
	type grammar struct {
		Judge struct {
			shared
			File  string   `arg:"" optional:"" name:"file"`
			Size  int      `name:"size" needs:"overlay|drawn" default:"3"`
			Over  string   `name:"overlay"`
			Both  *float64 `name:"both" needs:"overlay,list"`
			List  []string `name:"list"`
			Token string   `name:"token" env:"TOKEN" needs:"overlay"`
			Seed  uint64   `name:"seed" zero:"" without:"file|stage=edges"`
			Stage string   `name:"stage" default:"all" enum:"all,edges"`
			Flat  bool     `name:"flat" needs:"stage=edges"`
			Alone bool     `name:"alone" needs:"nowhere"`
		} `cmd:""`
		Draw struct {
			shared
			Drawn string `name:"drawn" env:"DRAWN"`
			Size  int    `name:"size" needs:"overlay|drawn"`
		} `cmd:"" idle:"limit: it judges nothing"`
	}
	for args, want := range map[string]string{
		"judge --limit=a --alone":                "",
		"draw --limit=a":                         "--limit has no effect on draw: it judges nothing",
		"judge --size=3":                         "--size has no effect without --overlay",
		"judge --size=3 --overlay=x":             "",
		"draw --size=3":                          "", // by the environment
		"judge --both=0":                         "--both has no effect without --overlay",
		"judge --both=0 --overlay=x":             "--both has no effect without --list",
		"judge --both=0 --overlay=x --list=a":    "",
		"judge --seed=0 f":                       "--seed has no effect with <file>",
		"judge --seed=0 --stage=edges":           "--seed has no effect with --stage edges",
		"judge --seed=0 --stage=all":             "",
		"judge --flat":                           "--flat has no effect without --stage edges",
		"judge --flat=false":                     "",
		"judge --flat --stage=edges":             "",
		"judge --token=t":                        "--token has no effect without --overlay",
		"judge --list=":                          "--list: the value is empty",
		"judge --list=a,,b --both=0 --overlay=x": "--list: the value is empty",
		"judge --list= --overlay=x":              "--list: the value is empty",
		"judge":                                  "",
	} {
		Run(&grammar{}, strings.Fields(args), io.Discard, io.Discard, nil, func(_ *kong.Context, err error) int {
			got := ""
			if err != nil {
				got = Words(err)
			}
			if got != want {
				t.Errorf("%q: %q, want %q", args, got, want)
			}
			return 0
		}, kong.Name("x"), kong.WithBeforeApply(Given))
	}
	var help strings.Builder
	Run(&grammar{}, []string{"draw", "--help"}, &help, io.Discard, nil, nil, kong.Name("x"))
	if strings.Contains(help.String(), "--limit") || !strings.Contains(help.String(), "--size") {
		t.Errorf("the help of draw has --limit, which it has no use for:\n%s", &help)
	}
}
