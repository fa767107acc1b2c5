package seed

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// fake is a test that fails and is listened to.
type fake struct {
	testing.TB
	log      strings.Builder
	cleanups []func()
}

func (f *fake) Helper()                        {}
func (f *fake) Failed() bool                   { return true }
func (f *fake) Cleanup(c func())               { f.cleanups = append(f.cleanups, c) }
func (f *fake) Logf(format string, a ...any)   { fmt.Fprintf(&f.log, format+"\n", a...) }
func (f *fake) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func (f *fake) end() string {
	for _, c := range f.cleanups {
		c()
	}
	return f.log.String()
}

func TestNew(t *testing.T) {
	first := rand.New(rand.NewPCG(3, 4)).Uint64()
	for base, same := range map[string]bool{"": true, "0": true, "1": false, "18446744073709551615": false} {
		t.Setenv(variable, base)
		f := &fake{}
		got := New(f, 3, 4).Uint64()
		if (got == first) != same || New(f, 3, 4).Uint64() != got {
			t.Errorf("base %q: the first number is %d", base, got)
		}
		want := "POLYSCAN_SEED=" + base
		if base == "" {
			want += "0"
		}
		if log := f.end(); strings.Count(log, "\n") != 1 || !strings.Contains(log, want+"\n") {
			t.Errorf("base %q: the log is %q", base, log)
		}
	}
}

func TestNotANumber(t *testing.T) {
	t.Setenv(variable, "-1")
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, `POLYSCAN_SEED = "-1"`) {
			t.Error(p)
		}
	}()
	New(&fake{}, 1, 2)
}
