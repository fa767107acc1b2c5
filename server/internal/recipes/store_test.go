package recipes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
)

func openStore(t *testing.T, path string) *store {
	t.Helper()
	s, err := newStore(path, 1000, 1<<20, budget.New(1<<30), func(*pb.Recipe) (*polygon.Set, error) { return nil, nil },
		func(string) func() { return func() {} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func atOnce(f func() error) error { return f() }

// files are those of a directory that end so, with what they hold.
func files(t *testing.T, path, suffix string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			b, err := os.ReadFile(filepath.Join(path, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name()] = string(b)
		}
	}
	return all
}

// No version of a name comes twice, whatever was deleted, and wherever the process ended; and what is kept of deleted
// names is bounded.
func TestVersionsNeverAgain(t *testing.T) {
	for _, inMemory := range []bool{true, false} {
		random := seed.New(t, 3, 4)
		path := ""
		if !inMemory {
			path = t.TempDir()
		}
		s := openStore(t, path)
		used := map[string]uint64{} // highest version of each name
		for range 1000 {
			name := fmt.Sprintf("recipe-%d", random.IntN(60))
			var before map[string]string
			if !inMemory {
				before = files(t, path, ".last.json")
			}
			if random.IntN(2) == 0 {
				m := &pb.Recipe{Name: name}
				if err := s.put(auth.Anonymous, m, nil, nil, nil, nil, atOnce, func(*pb.Recipe) {}, func() {}); err != nil {
					t.Fatal(err)
				}
				if m.Version <= used[name] {
					t.Fatalf("version %d of %s comes after %d", m.Version, name, used[name])
				}
				used[name] = m.Version
			} else {
				s.delete(auth.Anonymous, name, 0) // or there is none
			}
			empty := 0
			for _, n := range s.names {
				if len(n.versions) == 0 {
					empty++
				}
			}
			if empty > keptNames {
				t.Fatalf("%d deleted names are remembered", empty)
			}
			if inMemory || random.IntN(10) > 0 {
				continue
			}
			// The process ends while names are being forgotten: the floor is raised, and any of their files are left.
			s.close()
			after := files(t, path, ".last.json")
			for file, data := range before {
				if _, ok := after[file]; !ok && random.IntN(2) == 0 {
					if err := os.WriteFile(filepath.Join(path, file), []byte(data), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			s = openStore(t, path)
		}
		s.close()
	}
}

// A directory with the files of thousands of deleted names has few after the start, and no version comes again.
func TestForgetsAtStart(t *testing.T) {
	path := t.TempDir()
	d, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	const names = 500
	for i := range names {
		data := fmt.Sprintf(`{"name":"r%d","lastVersion":"%d"}`, i, 1+i%7)
		if err := os.WriteFile(filepath.Join(path, lastFile(fmt.Sprintf("r%d", i))), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.close()
	for range 2 {
		s := openStore(t, path)
		if n := len(files(t, path, ".last.json")); n != keptNames {
			t.Errorf("%d files of deleted names, want %d", n, keptNames)
		}
		for i := range names {
			if last := max(s.floor, s.nameOrNone(fmt.Sprintf("r%d", i)).last); last < uint64(1+i%7) {
				t.Errorf("r%d goes on behind version %d", i, last)
			}
		}
		s.close()
	}
	if err := os.WriteFile(filepath.Join(path, floorFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(path, 1, 1, budget.New(1<<30), nil, nil, nil); err == nil ||
		!strings.Contains(err.Error(), floorFile) {
		t.Errorf("a damaged floor: %v", err)
	}
}

// nameOrNone is what is kept of a name.
func (s *store) nameOrNone(name string) recipeName {
	if n := s.names[name]; n != nil {
		return *n
	}
	return recipeName{}
}

// A call that ends before there was a place for the work on its recipe stores nothing, and uses no version up.
func TestPutWithoutPlace(t *testing.T) {
	for _, path := range []string{"", t.TempDir()} {
		s := openStore(t, path)
		gone := errors.New("the call ended")
		put := func(do func(func() error) error) (version uint64, compared, stored bool, err error) {
			m := &pb.Recipe{Name: "r"}
			err = s.put(auth.Anonymous, m, nil, nil, nil, nil, do, func(*pb.Recipe) { compared = true }, func() { stored = true })
			return m.GetVersion(), compared, stored, err
		}
		if _, compared, stored, err := put(func(func() error) error { return gone }); err != gone || compared ||
			stored {
			t.Errorf("%q: %v, compared: %t, stored: %t", path, err, compared, stored)
		}
		if n, _, bytes := s.size(); n != 0 || bytes != 0 {
			t.Errorf("%q: %d versions of %d bytes", path, n, bytes)
		}
		if v, compared, stored, err := put(atOnce); v != 1 || !compared || !stored || err != nil {
			t.Errorf("%q: version %d, compared: %t, stored: %t, %v", path, v, compared, stored, err)
		}
		s.close()
	}
}
