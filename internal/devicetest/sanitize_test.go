package devicetest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/cpu"
)

// TestSanitizePieces holds the pieces that kernels/cu/sanitize.sh runs to the suite: each part, or case of one, is in
// exactly one, so that none is left out or run twice.
func TestSanitizePieces(t *testing.T) {
	if race.Enabled {
		t.Skip("the parts take long, and this is not about threads")
	}
	script, err := os.ReadFile("../../kernels/cu/sanitize.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "\npieces=(\n")
	list, _, ok := strings.Cut(list, "\n)\n")
	if !ok {
		t.Fatal("no pieces in sanitize.sh")
	}
	type piece struct {
		text string
		of   []*regexp.Regexp // by level, as in -test.run
		used bool
	}
	var pieces []*piece
	for _, m := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(list, -1) {
		p := &piece{text: m[1]}
		for _, level := range strings.Split(m[1], "/") {
			p.of = append(p.of, regexp.MustCompile(level))
		}
		if len(p.of) > 2 {
			t.Errorf("%s: more than two levels", p.text)
		}
		pieces = append(pieces, p)
	}
	l := &lister{T: On(t)}
	Suite{Driver: cpu.New(cpu.Options{Threads: 1}), Short: true}.Run(l)
	for _, name := range l.names {
		levels := strings.Split(name, "/")
		var in []string
		for _, p := range pieces {
			matches := len(p.of) <= len(levels)
			for i := 0; matches && i < len(p.of); i++ {
				matches = p.of[i].MatchString(levels[i])
			}
			if matches {
				in = append(in, p.text)
				p.used = true
			}
		}
		if len(in) != 1 {
			t.Errorf("%s is in %d pieces: %q", name, len(in), in)
		}
	}
	for _, p := range pieces {
		if !p.used {
			t.Errorf("%s: matches nothing", p.text)
		}
	}
}

// lister is a T that runs parts, to see what their cases are, but no cases. names are the parts without cases, and the
// cases as "part/case", as -test.run sees them.
type lister struct {
	T
	part  string
	names []string
}

func (l *lister) Run(name string, f func(T)) bool {
	name = strings.ReplaceAll(name, " ", "_")
	if l.part != "" {
		l.names = append(l.names, l.part+"/"+name)
		return true
	}
	part := &lister{T: l.T, part: name}
	f(part)
	if len(part.names) == 0 {
		part.names = []string{name}
	}
	l.names = append(l.names, part.names...)
	return true
}
