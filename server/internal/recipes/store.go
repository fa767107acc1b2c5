// store: named and versioned recipes, in memory and in a directory.

package recipes

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// storedRecipe is one version of a recipe. It is immutable; msg must not be changed.
type storedRecipe struct {
	msg      *pb.Recipe
	set      *polygon.Set
	flat     *kernels.FlatField     // nil without one
	unusable *apierr.RecipeUnusable // a version that was read from a file and is refused, which has no set
	bytes    int64                  // of memory
	uncount  func()                 // when it is deleted
}

// store holds recipes. The versions of a name count from 1, or from above the floor, never change, and are never used
// again.
type store struct {
	dir      *dir                                 // nil: in memory only
	hold     func(tenant string) (release func()) // counts a version that is there already
	max      int
	maxBytes int64
	memory   *budget.Budget // where they count

	mu    sync.RWMutex
	names map[string]*recipeName
	// fields are those of versions, by their hashes.
	fields map[string]*keptField
	floor  uint64 // no version of a name that is not in names was above it
	count  int
	bytes  int64
	// unusable is how many of the count are refused.
	unusable int

	// writing is held by put and delete, so that files change in the order of versions while mu is free for readers.
	writing sync.Mutex
}

// keptNames is how many names without versions are remembered with their last versions. Beyond that those with the
// lowest are forgotten, and the floor is raised to them: clients that put and delete recipes under ever new names must
// not fill the directory.
const keptNames = 20

// recipeName is what is stored under one name.
type recipeName struct {
	last     uint64          // highest version ever used
	versions []*storedRecipe // by version
}

func (n *recipeName) latest() *storedRecipe {
	if n == nil || len(n.versions) == 0 {
		return nil
	}
	return n.versions[len(n.versions)-1]
}

func (n *recipeName) find(version uint64) *storedRecipe {
	i, ok := slices.BinarySearchFunc(n.versions, version, func(r *storedRecipe, v uint64) int {
		switch have := r.msg.GetVersion(); {
		case have < v:
			return -1
		case have > v:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return n.versions[i]
}

// newStore reads what is in dir; "" is for memory only. compile checks a recipe and makes its set, and hold counts one
// for its tenant. A recipe that compile refuses keeps its number and stays the latest where it is that, so that nobody
// gets an older one in its place; refused is called with each.
func newStore(dir string, limit int, maxBytes int64, memory *budget.Budget,
	compile func(*pb.Recipe) (*polygon.Set, error), hold func(tenant string) (release func()),
	refused func(*apierr.RecipeUnusable)) (*store, error) {
	s := &store{max: limit, maxBytes: maxBytes, memory: memory, hold: hold, names: map[string]*recipeName{},
		fields: map[string]*keptField{}}
	if dir == "" {
		return s, nil
	}
	var err error
	if s.dir, err = openDir(dir); err != nil {
		return nil, err
	}
	named := map[string]bool{} // fields, those of versions that are refused among them
	err = s.dir.load(
		func(m *pb.Recipe, err error) {
			var set *polygon.Set
			var flat *kernels.FlatField
			named[m.GetFlatField().GetSha256()] = true
			n, own := s.name(m.GetName()), int64(0)
			if err == nil {
				flat, own, err = s.loadField(m)
			}
			if err == nil {
				set, err = compile(m)
			}
			size := memoryOf(m, set)
			s.useField(flat)
			s.memory.Count(budget.Recipes, size+own)
			r := s.stored(m, set, size, s.hold(m.GetTenant()))
			r.flat = flat
			if err != nil {
				r.unusable = &apierr.RecipeUnusable{Name: m.GetName(), Version: m.GetVersion(),
					Reason: apierr.OneLine(err.Error())}
				s.unusable++
				refused(r.unusable)
			}
			n.versions = append(n.versions, r)
			n.last = max(n.last, m.GetVersion())
		},
		func(name string, last uint64) {
			n := s.name(name)
			n.last = max(n.last, last)
		},
		func(floor uint64) { s.floor = floor })
	if err == nil {
		err = s.dir.removeFields(named)
	}
	if err == nil {
		err = s.forget(keptNames)
	}
	if err != nil {
		s.dir.close()
		return nil, err
	}
	for _, n := range s.names {
		sort.Slice(n.versions, func(i, j int) bool {
			return n.versions[i].msg.GetVersion() < n.versions[j].msg.GetVersion()
		})
	}
	return s, nil
}

// forget keeps at most so many names without versions. Its caller holds writing.
func (s *store) forget(keep int) error {
	s.mu.Lock()
	var empty []string
	for name, n := range s.names {
		if len(n.versions) == 0 {
			empty = append(empty, name)
		}
	}
	slices.SortFunc(empty, func(a, b string) int { return cmp.Compare(s.names[a].last, s.names[b].last) })
	empty = empty[:max(len(empty)-keep, 0)]
	if len(empty) > 0 { // what fails from here on leaves the floor too high
		s.floor = max(s.floor, s.names[empty[len(empty)-1]].last)
	}
	floor := s.floor
	s.mu.Unlock()
	if len(empty) == 0 {
		return nil
	}
	if s.dir != nil {
		if err := s.dir.forget(empty, floor); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range empty {
		delete(s.names, name)
	}
	return nil
}

func (s *store) close() {
	if s.dir != nil {
		s.dir.close()
	}
}

func (s *store) name(name string) *recipeName {
	n := s.names[name]
	if n == nil {
		n = &recipeName{}
		s.names[name] = n
	}
	return n
}

// memoryOf is about how much memory a recipe takes, as a message and compiled.
func memoryOf(m *pb.Recipe, set *polygon.Set) int64 {
	return int64(proto.Size(m)) + wire.StructBytes(m.GetRegionSet()) + set.Bytes()
}

func (s *store) stored(m *pb.Recipe, set *polygon.Set, size int64, uncount func()) *storedRecipe {
	r := &storedRecipe{msg: m, set: set, bytes: size, uncount: uncount}
	s.count++
	s.bytes += r.bytes
	return r
}

// Recipe returns a version and its set; 0 is the latest. The message must not be changed.
func (s *store) Recipe(name string, version uint64) (*pb.Recipe, *polygon.Set, error) {
	r, err := s.get(name, version)
	if err != nil {
		return nil, nil, err
	}
	return r.msg, r.set, nil
}

// get returns a version; 0 is the latest.
func (s *store) get(name string, version uint64) (*storedRecipe, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.names[name]
	r := n.latest()
	if r != nil && version != 0 {
		r = n.find(version)
	}
	if r == nil {
		return nil, &apierr.RecipeNotFound{Name: name, Version: version}
	}
	if r.unusable != nil {
		return nil, r.unusable
	}
	return r, nil
}

// mayChange reports an error where the name belongs to another tenant. All who may teach change what belongs to nobody.
func mayChange(who auth.Caller, latest *storedRecipe) error {
	if latest == nil {
		return nil
	}
	if owner := latest.msg.GetTenant(); owner != "" && !who.Owns(owner) {
		return &apierr.RecipeOwned{Name: latest.msg.GetName(), Owner: owner}
	}
	return nil
}

// put stores m as the next version and sets that and whose it is in m, which the store keeps. expected, unless nil,
// must be the latest version (0: none). compare is called with the version before, nil where there is none, before m is
// stored, and stored afterwards, before another version can come. do runs what takes time in proportion to the recipe:
// its error is that of what it ran, or its own where it ran nothing.
//
// The field of m is only named; given has its dark values and gains, where no other version has it.
func (s *store) put(who auth.Caller, m *pb.Recipe, set *polygon.Set, flat *kernels.FlatField, given *pb.FlatField,
	expected *uint64, do func(func() error) error, compare func(before *pb.Recipe), stored func()) error {
	size := memoryOf(m, set)
	s.writing.Lock()
	defer s.writing.Unlock()
	own, field, err := s.newField(flat, given)
	if err != nil {
		return err
	}
	s.mu.RLock()
	n := s.names[m.GetName()]
	latest, last := uint64(0), s.floor
	if n != nil {
		last = n.last
	}
	before := n.latest()
	if before != nil {
		latest = before.msg.GetVersion()
		m.Tenant = before.msg.GetTenant()
	} else if who.Named {
		m.Tenant = who.Tenant
	}
	count, bytes := s.count, s.bytes
	s.mu.RUnlock()

	if err := mayChange(who, before); err != nil {
		return err
	}
	if expected != nil && *expected != latest {
		return &apierr.VersionConflict{Name: m.GetName(), Expected: *expected, Latest: latest}
	}
	switch {
	case count >= s.max:
		return apierr.Quota(apierr.ReasonRecipesFull, "recipes",
			fmt.Sprintf("%d versions are stored, which is the limit", count))
	case bytes+size+own > s.maxBytes:
		return apierr.Quota(apierr.ReasonRecipesFull, "recipes",
			fmt.Sprintf("the recipe takes %d bytes and those stored take %d: the limit is %d", size+own, bytes, s.maxBytes))
	}
	m.Version = last + 1
	release, err := who.TakeFor(m.Tenant, auth.Recipes, 1)
	if err != nil {
		return err
	}
	if !s.memory.Admit(budget.Recipes, size+own, false) {
		release()
		return apierr.Quota(apierr.ReasonHostMemory, "host memory",
			fmt.Sprintf("requests under way leave no room for the %d bytes that the recipe takes", size+own))
	}
	var file []byte
	err = do(func() (err error) {
		if before != nil {
			compare(before.msg)
		} else {
			compare(nil)
		}
		if s.dir != nil {
			file, err = s.dir.encode(m)
		}
		return err
	})
	if err == nil && s.dir != nil && field != nil {
		err = s.dir.writeField(field)
	}
	if err == nil && s.dir != nil {
		err = s.dir.write(m, file)
	}
	if err != nil {
		release()
		s.memory.Count(budget.Recipes, -size-own)
		return err
	}
	s.mu.Lock()
	n = s.name(m.GetName())
	n.last = m.GetVersion()
	r := s.stored(m, set, size, release)
	r.flat = flat
	s.useField(flat)
	n.versions = append(n.versions, r)
	s.mu.Unlock()
	stored()
	return nil
}

// delete removes a version, or all with 0, and returns them.
func (s *store) delete(who auth.Caller, name string, version uint64) ([]*storedRecipe, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	var gone []*storedRecipe
	var last uint64
	var latest *storedRecipe
	versions := 0
	if n := s.names[name]; n != nil {
		last, latest, versions = n.last, n.latest(), len(n.versions)
		if version == 0 {
			gone = slices.Clone(n.versions)
		} else if r := n.find(version); r != nil {
			gone = append(gone, r)
		}
	}
	s.mu.RUnlock()
	if len(gone) == 0 {
		return nil, &apierr.RecipeNotFound{Name: name, Version: version}
	}
	if err := mayChange(who, latest); err != nil {
		return nil, err
	}
	if len(gone) == versions {
		if err := s.forget(keptNames - 1); err != nil {
			return nil, err
		}
	}
	if s.dir != nil {
		if err := s.dir.remove(name, last, gone); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names[name]
	n.versions = slices.DeleteFunc(slices.Clone(n.versions), func(r *storedRecipe) bool {
		return slices.Contains(gone, r)
	})
	for _, r := range gone {
		s.count--
		if r.unusable != nil {
			s.unusable--
		}
		s.bytes -= r.bytes
		s.memory.Count(budget.Recipes, -r.bytes-s.freeField(r.flat))
		r.uncount()
	}
	return gone, nil
}

// list returns up to limit recipes whose names start with prefix, in the order of name and version, behind a position;
// and whether there are more.
func (s *store) list(prefix string, all bool, afterName string, afterVersion uint64,
	limit int) (page []*storedRecipe, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.names))
	for name, n := range s.names {
		if strings.HasPrefix(name, prefix) && name >= afterName && len(n.versions) > 0 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		versions := s.names[name].versions
		if !all {
			versions = versions[len(versions)-1:]
			if name == afterName {
				continue // its latest was listed, whatever it is by now
			}
		}
		for _, r := range versions {
			if name == afterName && r.msg.GetVersion() <= afterVersion {
				continue
			}
			if len(page) == limit {
				return page, true
			}
			page = append(page, r)
		}
	}
	return page, false
}

// size is the number of versions stored, how many of them are refused, and their bytes.
func (s *store) size() (count, unusable int, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count, s.unusable, s.bytes
}
