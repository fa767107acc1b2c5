// fields: flat fields of recipes, by their content.
//
// A field is a file of its own, SHA256.flat, with the message FlatField in the binary form of protobuf, however many
// versions have it; the files of versions name it. It is there before them, and goes after the last of them.

package recipes

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// keptField is a field that versions have.
type keptField struct {
	*kernels.FlatField
	versions int
}

const fieldSuffix = ".flat"

// FlatField is the field that a message at path has, or stands for; nil for none.
func (s *store) FlatField(m *pb.FlatField, path string) (*kernels.FlatField, error) {
	switch {
	case m == nil:
		return nil, nil
	case len(m.GetDark()) > 0 || len(m.GetGain()) > 0 || m.GetSha256() == "":
		return wire.FlatFieldOf(m, path)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if kept := s.fields[m.GetSha256()]; kept != nil {
		return kept.FlatField, nil
	}
	return nil, apierr.Refuse(path+".sha256", strconv.Quote(m.GetSha256()),
		"is that of no field that a stored recipe has: put a recipe with the field, or bring it with the call (--flat)")
}

// newField is the size of a version's field where no other version has it, and its message; s.writing is held, or
// nobody else has the store. given has the dark values and gains, unless another version had them when it was checked.
func (s *store) newField(f *kernels.FlatField, given *pb.FlatField) (bytes int64, m *pb.FlatField, err error) {
	if f == nil || s.fields[hex.EncodeToString(f.Sum[:])] != nil {
		return 0, nil, nil
	}
	if len(given.GetDark()) == 0 {
		return 0, nil, apierr.Refuse("recipe.flat_field.sha256", strconv.Quote(given.GetSha256()),
			"is that of a field whose last recipe was deleted just now")
	}
	m = wire.FlatFieldRef(f)
	m.Dark, m.Gain = given.GetDark(), given.GetGain()
	return f.Bytes(), m, nil
}

// useField counts a version's field, and freeField stops that; it returns the bytes of memory that went. s.mu is held.
func (s *store) useField(f *kernels.FlatField) {
	if f == nil {
		return
	}
	sum := hex.EncodeToString(f.Sum[:])
	if s.fields[sum] == nil {
		s.fields[sum] = &keptField{FlatField: f}
		s.bytes += f.Bytes()
	}
	s.fields[sum].versions++
}

func (s *store) freeField(f *kernels.FlatField) (bytes int64) {
	if f == nil {
		return 0
	}
	sum := hex.EncodeToString(f.Sum[:])
	if kept := s.fields[sum]; kept.versions > 1 {
		kept.versions--
		return 0
	}
	delete(s.fields, sum)
	s.bytes -= f.Bytes()
	if s.dir != nil { // one that stays is removed at the next start
		_ = os.Remove(filepath.Join(s.dir.path, sum+fieldSuffix))
	}
	return f.Bytes()
}

// loadField is the field that a version which is read from a file names, and its size where no other version has it.
func (s *store) loadField(m *pb.Recipe) (*kernels.FlatField, int64, error) {
	sum := m.GetFlatField().GetSha256()
	if m.GetFlatField() == nil {
		return nil, 0, nil
	}
	if kept := s.fields[sum]; kept != nil {
		return kept.FlatField, 0, nil
	}
	f, err := s.dir.readField(sum)
	if err != nil {
		return nil, 0, fmt.Errorf("flat_field: %w", err)
	}
	return f, f.Bytes(), nil
}

// readField reads a field, and checks that it is the one.
func (d *dir) readField(sum string) (*kernels.FlatField, error) {
	if b, err := hex.DecodeString(sum); err != nil || len(b) == 0 {
		return nil, fmt.Errorf("%q is no hash", sum)
	}
	data, err := os.ReadFile(filepath.Join(d.path, sum+fieldSuffix))
	if err != nil {
		return nil, err
	}
	m := &pb.FlatField{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s%s: the file is damaged: %w", sum, fieldSuffix, err)
	}
	m.Sha256 = sum
	return wire.FlatFieldOf(m, sum+fieldSuffix)
}

// writeField makes the file of a field.
func (d *dir) writeField(m *pb.FlatField) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	return d.replace(m.GetSha256()+fieldSuffix, data)
}

// removeFields removes the files of fields that no version names: a crash left them.
func (d *dir) removeFields(named map[string]bool) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		sum, ok := strings.CutSuffix(e.Name(), fieldSuffix)
		if !ok || len(sum) != 64 || named[sum] {
			continue
		}
		if err := os.Remove(filepath.Join(d.path, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
