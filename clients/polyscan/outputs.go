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
			if in != "" && in != "-" && b.name != "-" && cli.Replaces(b.name, in) {
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
			case a.name != "" && a.name != "-" && b.name != "-" && cli.OneFile(a.name, b.name):
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
