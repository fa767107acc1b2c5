package main

// The files that a command writes.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

// output is a flag and the file that it names; - is standard output, and there may be none. Kinds are how names may end
// there, separated by blanks, with what else to say of another ending behind a semicolon; none are any.
type output struct{ flag, name, kinds string }

// checkKind refuses a file whose ending isn't one of the kinds that are written there, so that a name never says
// something else than the file.
func (o *output) checkKind() error {
	kinds, hint, hinted := strings.Cut(o.kinds, ";")
	ends := func(kind string) bool {
		return len(o.name) > len(kind) && strings.EqualFold(o.name[len(o.name)-len(kind):], kind)
	}
	all := strings.Fields(kinds)
	if len(all) == 0 || o.name == "" || o.name == "-" && o.kinds != pictureKinds || slices.ContainsFunc(all, ends) {
		return nil
	}
	if hinted {
		hint = ";" + hint
	}
	return usage("%s %s: want a file name that ends in %s%s", o.flag, cli.Printable(o.name), strings.Join(all, " or "),
		hint)
}

// inputs are the files that a command reads; - is standard input, and empty names are none.
type inputs []string

// checkOutputs refuses a file of another kind, one that is read, one file for two flags, and files whose folder isn't
// there, before anything is computed.
func checkOutputs(read inputs, outputs ...output) error {
	for _, o := range outputs {
		if err := o.checkKind(); err != nil {
			return err
		}
	}
	for i, b := range outputs {
		if b.name == "" {
			continue
		}
		for _, in := range read {
			if in != "" && in != "-" && b.name != "-" && replaces(b.name, in) {
				return usage("%s %s would replace %s, which is read: name another file", b.flag, cli.Printable(b.name),
					cli.Printable(in))
			}
		}
		for _, a := range outputs[:i] {
			switch {
			case a.name == b.name && b.name == "-":
				return usage("%s and %s are both -: standard output holds one of them", a.flag, b.flag)
			case a.name == b.name:
				return usage("%s and %s are both %s: a file holds one of them", a.flag, b.flag, cli.Printable(b.name))
			case a.name != "" && a.name != "-" && b.name != "-" && sameFile(a.name, b.name):
				return usage("%s %s and %s %s are one file, which holds one of them", a.flag, cli.Printable(a.name), b.flag,
					cli.Printable(b.name))
			}
		}
		if b.name != "-" {
			if err := checkFolder(b.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaces reports whether an output is put in the place of an input, which may be a link to it, or into the folder
// that is read.
func replaces(out, in string) bool {
	if sameFile(out, in) {
		return true
	}
	x, errX := os.Stat(out)
	y, errY := os.Stat(in)
	if errX != nil || errY != nil || !os.SameFile(x, y) {
		return false
	}
	link, err := os.Lstat(out)
	return x.IsDir() || err == nil && link.Mode().IsRegular()
}

// sameFile reports whether writeFile makes the same file of two names: in one folder, however that is called. Links to
// files are files of their own, as they are replaced.
func sameFile(a, b string) bool {
	a, b = filepath.Clean(a), filepath.Clean(b)
	if a == b {
		return true
	}
	same := func(a, b string, stat func(string) (os.FileInfo, error)) bool {
		x, err := stat(a)
		if err != nil {
			return false
		}
		y, err := stat(b)
		return err == nil && os.SameFile(x, y)
	}
	if !same(filepath.Dir(a), filepath.Dir(b), os.Stat) {
		return false
	}
	// Where capitals make no difference to the system the file tells, if it is there.
	x, y := filepath.Base(a), filepath.Base(b)
	return x == y || strings.EqualFold(x, y) && same(a, b, os.Lstat)
}

// checkFolder refuses an output whose folder isn't there.
func checkFolder(name string) error {
	st, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return bad(name, "%v", reason(err))
	}
	if !st.IsDir() {
		return bad(name, "%s is no folder", filepath.Dir(name))
	}
	return nil
}
