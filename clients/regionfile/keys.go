package regionfile

// Keys that a writer may have meant: a file whose "limits" are spelled "limit" would be read as one without any, and
// what nobody looks at must not pass in silence.

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/spelling"
)

// regionKeys and recipeKeys are the keys of polyscan's own formats.
var (
	regionKeys = []string{"name", "rings", "mask", "shape", "fill", "limits", "reference"}
	recipeKeys = []string{"name", "description", "fill", "scale", "regions", "reductions", "frames"}
)

// otherNames are keys that say the same elsewhere: in the protocol's JSON, in GIS programs.
var otherNames = map[string]string{
	"fill_rule": "fill", "fillrule": "fill", "fill-rule": "fill", "holes": "rings", "statistics": "reductions",
}

// strangeKey is where a key was found first that its object ignores, and in how many others it was.
type strangeKey struct {
	order int
	where string
	hint  string
	more  int
}

// strange notes a key that an object ignores, if it is close to one of the object's own keys or belongs elsewhere in
// the file. where says which object it is.
func (b *builder) strange(key string, own []string, where func() string) {
	if seen, ok := b.keys[key]; ok {
		seen.more++
		return
	}
	near := spelling.Nearest(key, own)
	if other := otherNames[strings.ToLower(key)]; slices.Contains(own, other) {
		near = other
	}
	if near == "" {
		return
	}
	hint := fmt.Sprintf("did you mean %s?", quote(near))
	if b.keys == nil {
		b.keys = map[string]*strangeKey{}
	}
	b.keys[key] = &strangeKey{order: len(b.keys), where: where(), hint: hint}
	if near != "name" && near != "description" {
		b.file.Misspelt = append(b.file.Misspelt, near)
	}
}

// limitsInside and regionsInside are of what a key holds that nobody reads.
var limitsInside, regionsInside = regexp.MustCompile(`"limits"\s*:`), regexp.MustCompile(`"(rings|mask|shape)"\s*:`)

// unread skips the value of a key that an object ignores. Limits in it are an error, and regions a warning.
func (b *builder) unread(c *cursor, key string, own []string, where func() string) *Error {
	b.strange(key, own, where)
	start := c.pos
	c.skip()
	switch text := c.s[start:c.pos]; {
	case limitsInside.MatchString(text):
		return misplacedLimits()
	case regionsInside.MatchString(text):
		b.warn("%s: the key %s is ignored, and so are the regions in it", where(), quote(key))
	}
	return nil
}

// warnOfKeys gives one warning for each of the strange keys.
func (b *builder) warnOfKeys() {
	byOrder := func(x, y string) int { return cmp.Compare(b.keys[x].order, b.keys[y].order) }
	for _, key := range slices.SortedFunc(maps.Keys(b.keys), byOrder) {
		k := b.keys[key]
		more := ""
		if k.more > 0 {
			more = fmt.Sprintf(" and %d more", k.more)
		}
		b.warn("%s%s: the key %s is ignored; %s", k.where, more, quote(key), k.hint)
	}
}
