package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOutputs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("d", 0o777); err != nil {
		t.Fatal(err)
	}
	linked := os.Symlink("d", "l") == nil // which not every system has for everyone
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ a, b, says string }{
		{"", "", ""},
		{"-", "", ""},
		{"a.png", "-", ""},
		{"a.png", "b.png", ""},
		{"a.png", "d/a.png", ""},
		{"-", "-", "--a and --b are both -: standard output holds one of them"},
		{"a.png", "a.png", "--a and --b are both a.png: a file holds one of them"},
		{"a.png", "./a.png", "--a a.png and --b ./a.png are one file"},
		{"d/../a.png", "a.png", "are one file"},
		{filepath.Join(here, "d", "a.png"), "d//a.png", "are one file"},
		{"d/a.png", "l/a.png", "are one file"},
		{"n/a.png", "b.png", "n/a.png: "},
		{"a.png", "n/b.png", "n/b.png: "},
	} {
		if strings.HasPrefix(x.b, "l/") && !linked {
			continue
		}
		err := checkOutputs(output{"--a", x.a}, output{"--none", ""}, output{"--b", x.b})
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%q, %q: %v, want %q", x.a, x.b, err, x.says)
		}
	}
}
