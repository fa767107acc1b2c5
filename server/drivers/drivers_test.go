package drivers

import (
	"errors"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestOpen(t *testing.T) {
	for _, name := range Names() {
		d, err := Open(name, Options{})
		if err != nil || d.Name() != name {
			t.Errorf("Open(%q) = %v, %v", name, d, err)
		}
	}
	if names := Names(); names[len(names)-1] != "cpu" {
		t.Errorf("Names() = %q: the CPU comes last, because it is always there", names)
	}
	for _, name := range []string{"", Auto} {
		d, err := Open(name, Options{Threads: 1})
		if err != nil {
			t.Fatalf("Open(%q): %v", name, err)
		}
		dev, err := d.Open(0)
		if err != nil {
			t.Fatalf("Open(%q) chose %s, which does not open: %v", name, d.Name(), err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"gpu", Options{}, append([]string{`"gpu"`, Auto}, Names()...)},
		{"CPU", Options{}, []string{`"CPU"`}},
		{"cpu", Options{Threads: -1}, []string{"threads = -1", "negative"}},
		{Auto, Options{Threads: -1}, []string{"threads = -1"}},
	} {
		d, err := Open(c.name, c.o)
		if err == nil {
			t.Errorf("Open(%q, %+v) = %v, want an error", c.name, c.o, d)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Open(%q, %+v): %q lacks %q", c.name, c.o, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("Open(%q, %+v): more than one line: %q", c.name, c.o, err)
		}
	}
	if _, err := Open("gpu", Options{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v does not match ErrUnknown", err)
	}
}

// fake is a backend whose device opens, or doesn't.
type fake struct {
	driver.Driver
	name string
	err  error
}

func (f fake) Name() string { return f.name }

func (f fake) Open(int) (driver.Device, error) {
	if f.err != nil {
		return nil, f.err
	}
	return fakeDevice{}, nil
}

type fakeDevice struct{ driver.Device }

func (fakeDevice) Close() error { return nil }

func TestAutoTakesTheFirstThatOpens(t *testing.T) {
	with := func(name string, err error) backend {
		return backend{name, func(Options) driver.Driver { return fake{name: name, err: err} }}
	}
	for _, c := range []struct {
		backends []backend
		want     string
	}{
		{[]backend{with("a", nil), with("b", nil)}, "a"},
		{[]backend{with("a", driver.ErrNoDevice), with("b", nil)}, "b"},
		{[]backend{with("a", driver.ErrNotSupported), with("b", driver.ErrNoDevice)}, "b"},
	} {
		d, err := first(c.backends, Options{})
		if err != nil || d.Name() != c.want {
			t.Errorf("first = %v, %v, want %s", d, err, c.want)
		}
	}
}
