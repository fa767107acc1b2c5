package command

import (
	"io"
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
