package polyscan_test

// What no file of the repository may say: paths of the machine it was written
// on, and hosts of package registries, which are the reader's own choice.

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type forbiddenWord struct{ what, word string }

// forbidden are the words, put together so that this file doesn't hold them.
var forbidden = []forbiddenWord{
	{"machine path", "/wo" + "rk/"},
	{"machine path", "/ro" + "ot/"},
	{"machine path", "/ho" + "me/"},
	{"machine path", "/tm" + "p/te" + "am"},
	{"registry host", "proxy.gol" + "ang.org"},
	{"registry host", "sum.gol" + "ang.org"},
	{"registry host", "gopr" + "oxy.io"},
	{"registry host", "gopr" + "oxy.cn"},
	{"registry host", "py" + "pi.org"},
	{"registry host", "pythonho" + "sted.org"},
	{"registry host", "registry.npm" + "js.org"},
	{"registry host", "crat" + "es.io"},
}

// matcher finds a forbidden word that starts a path or a host: "a/b" + word is
// some other path.
func matcher() *regexp.Regexp {
	words := make([]string, len(forbidden))
	for i, f := range forbidden {
		words[i] = regexp.QuoteMeta(f.word)
	}
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9_\-.])(?:[a-z]+\.)?(` + strings.Join(words, "|") + `)`)
}

func TestText(t *testing.T) {
	found := findWords(t, os.DirFS("."))
	for _, line := range found {
		t.Error(line)
	}
}

func TestTextReports(t *testing.T) {
	root := t.TempDir()
	want := []string{}
	for i, f := range forbidden {
		name := string(rune('a'+i)) + ".txt"
		text := "first\nsecond: " + f.word + "x\n"
		if err := os.WriteFile(path.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want = append(want, name+":2: "+f.what+" "+f.word)
	}
	clean := "a frame" + "wo" + "rk/x, out" + "/wo" + "rk/x, not-a-my" + "py" + "pi.org.example\n"
	if err := os.WriteFile(path.Join(root, "clean.txt"), []byte(clean), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := findWords(t, os.DirFS(root)); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// compiled reports whether a file is something that was built or measured here
// and lies about: those hold paths by nature, and git ignores them.
func compiled(name string, text []byte) bool {
	switch path.Ext(name) {
	case ".prof", ".pyc", ".test":
		return true
	}
	return bytes.HasPrefix(text, []byte("\x7fELF"))
}

// findWords returns "file:line: what word" for each forbidden word.
func findWords(t *testing.T, root fs.FS) []string {
	t.Helper()
	re := matcher()
	found := []string{}
	err := walkFiles(root, func(name string) error {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		// Few files have any of the words, and the expression takes long to see that.
		if compiled(name, text) ||
			!slices.ContainsFunc(forbidden,
				func(f forbiddenWord) bool { return bytes.Contains(text, []byte(f.word)) }) {
			return nil
		}
		for _, m := range re.FindAllSubmatchIndex(text, -1) {
			word := string(text[m[2]:m[3]])
			i := slices.IndexFunc(forbidden, func(f forbiddenWord) bool { return f.word == word })
			line := bytes.Count(text[:m[2]], []byte("\n")) + 1
			found = append(found, name+":"+strconv.Itoa(line)+": "+forbidden[i].what+" "+word)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
