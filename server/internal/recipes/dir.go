// dir: recipes as files.
//
// Each version is a file of its own, STEM.VERSION.json, with the message Recipe in the JSON form of protobuf. STEM is
// made of the name so that two names never share a file, on file systems that don't tell upper from lower case either.
// Its flat field is a file of its own, see fields.go.
// A name some of whose versions were deleted has STEM.last.json beside it, so that their numbers are not used again.
// Few names without any version are remembered so; floor.json has a number that is not below any of those of the rest.
// Files are written beside their place, flushed and renamed, so that a crash leaves the old state or the new one.

package recipes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

type dir struct {
	path string
	lock *flock.Flock
}

// tempPrefix marks files that are being written. Those found at the start were left by a crash.
const tempPrefix = ".writing-"

// openDir makes the directory where it is missing, and locks it.
func openDir(path string) (*dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("server: recipes: %w", err)
	}
	lock := flock.New(filepath.Join(path, ".lock"))
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("server: recipes: %w", err)
	} else if !ok {
		return nil, fmt.Errorf("server: recipes: %s: another server uses the directory", path)
	}
	return &dir{path, lock}, nil
}

func (d *dir) close() { d.lock.Close() }

// last is the content of STEM.last.json.
type last struct {
	Name string `json:"name"`
	// LastVersion is the highest version ever used.
	LastVersion uint64 `json:"lastVersion,string"`
}

// floorFile is where the content of floor is.
const floorFile = "floor.json"

type floor struct {
	// Floor is the version that the first of a name that nobody knows comes behind.
	Floor uint64 `json:"floor,string"`
}

var recipeFile = regexp.MustCompile(`^[a-z0-9._-]+-[0-9a-f]{32}\.(last|[1-9][0-9]*)\.json$`)

// load reads all files and hands over what they hold: of a recipe that has fields or values which this server doesn't
// know the rest, and the error. An error that load returns names the file.
func (d *dir) load(recipe func(m *pb.Recipe, unknown error), lastVersion func(name string, last uint64),
	floor func(uint64)) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("server: recipes: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(d.path, name)
		if strings.HasPrefix(name, tempPrefix) {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("server: recipes: %w", err)
			}
			continue
		}
		if filepath.Ext(name) != ".json" {
			continue // somebody's README
		}
		if err := d.loadFile(path, recipe, lastVersion, floor); err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) { // has the path already
				return fmt.Errorf("server: recipes: %w", err)
			}
			return fmt.Errorf("server: recipes: %s: %s", path, apierr.OneLine(err.Error()))
		}
	}
	return nil
}

func (d *dir) loadFile(path string, recipe func(*pb.Recipe, error), lastVersion func(string, uint64),
	setFloor func(uint64)) error {
	name := filepath.Base(path)
	match := recipeFile.FindStringSubmatch(name)
	if match == nil && name != floorFile {
		return errors.New("this is no name of a recipe's file; move it elsewhere")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if name == floorFile {
		var f floor
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("the file is damaged: %w", err)
		}
		setFloor(f.Floor)
		return nil
	}
	if match[1] == "last" {
		var l last
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("the file is damaged: %w", err)
		}
		if name != lastFile(l.Name) {
			return fmt.Errorf("the file is damaged: it holds the name %q, which is kept in %s", l.Name,
				lastFile(l.Name))
		}
		lastVersion(l.Name, l.LastVersion)
		return nil
	}
	m := &pb.Recipe{}
	unknown := protojson.Unmarshal(data, m)
	if unknown != nil {
		unknown = errors.New(apierr.JSONWords(unknown))
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m) != nil {
			return fmt.Errorf("the file is damaged: %w", unknown)
		}
	}
	if want := versionFile(m.GetName(), m.GetVersion()); name != want {
		return fmt.Errorf("the file is damaged: it holds version %d of %q, which is kept in %s", m.GetVersion(),
			m.GetName(), want)
	}
	recipe(m, unknown)
	return nil
}

// encode makes the content of the file of a version.
func (d *dir) encode(m *pb.Recipe) ([]byte, error) {
	data, err := protojson.MarshalOptions{Multiline: len(m.GetRegionSet().GetRegions()) < 1000}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	return data, nil
}

// write makes the file of a version of what encode made of it.
func (d *dir) write(m *pb.Recipe, data []byte) error {
	return d.replace(versionFile(m.GetName(), m.GetVersion()), append(data, '\n'))
}

// remove deletes versions of a name, of which last was the highest ever used.
func (d *dir) remove(name string, lastVersion uint64, gone []*storedRecipe) error {
	// First what must survive: a crash between the two leaves versions that can be deleted again.
	data, err := json.Marshal(last{name, lastVersion})
	if err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	if err := d.replace(lastFile(name), append(data, '\n')); err != nil {
		return err
	}
	for _, r := range gone {
		err := os.Remove(filepath.Join(d.path, versionFile(name, r.msg.GetVersion())))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("recipes: %w", err)
		}
	}
	return d.sync()
}

// forget removes what is kept of names without versions, none of which had a version above the floor.
func (d *dir) forget(names []string, above uint64) error {
	// First what must survive: a crash between the two leaves names that can be forgotten again.
	data, err := json.Marshal(floor{above})
	if err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	if err := d.replace(floorFile, append(data, '\n')); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(d.path, lastFile(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("recipes: %w", err)
		}
	}
	return d.sync()
}

// replace puts data under a name: all of it, or nothing.
func (d *dir) replace(name string, data []byte) (err error) {
	f, err := os.CreateTemp(d.path, tempPrefix+"*")
	if err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("recipes: %w", err)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.path, name))
	}
	if err == nil {
		err = d.sync()
	}
	return err
}

// sync flushes the directory, so that a rename survives a power cut.
func (d *dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// stem is the readable start of a name, in lower case, and a hash of the whole.
func stem(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(name[:min(len(name), 64)]) + "-" + hex.EncodeToString(sum[:16])
}

func versionFile(name string, version uint64) string {
	return fmt.Sprintf("%s.%d.json", stem(name), version)
}

func lastFile(name string) string { return stem(name) + ".last.json" }
