package shorttest

import (
	"slices"
	"testing"
)

func TestDefault(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"x.test"}, []string{"x.test", "-test.short=true"}},
		{[]string{"x.test", "-test.v"}, []string{"x.test", "-test.short=true", "-test.v"}},
		{[]string{"x.test", "-test.short=false"}, []string{"x.test", "-test.short=false"}},
		{[]string{"x.test", "--test.short"}, []string{"x.test", "--test.short"}},
	} {
		if got := withDefault(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.args, got, c.want)
		}
	}
}
