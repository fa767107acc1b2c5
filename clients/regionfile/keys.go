package regionfile

// Keys that a writer may have meant, and limits under keys that nobody reads: a file whose "limits" are spelled "limit"
// or called "requirements" would be read as one without any, and what nobody looks at must not pass in silence.

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/spelling"
	"github.com/polyscan/polyscan/polygon"
)

// regionKeys and recipeKeys are the keys of polyscan's own formats.
var (
	regionKeys = []string{"name", "rings", "mask", "shape", "fill", "limits", "reference"}
	recipeKeys = []string{"name", "description", "fill", "scale", "regions", "reductions", "frames",
		"drawn_on"}
)

// otherNames are keys that say the same elsewhere: in the protocol's JSON, in GIS programs, in the words of inspectors.
var otherNames = map[string]string{
	"fill_rule": "fill", "fillrule": "fill", "fill-rule": "fill", "holes": "rings", "statistics": "reductions",
	"requirement": "limits", "requirements": "limits", "criterion": "limits", "criteria": "limits", "spec": "limits",
	"specs": "limits", "specification": "limits", "specifications": "limits", "tolerance": "limits",
	"tolerances": "limits", "rule": "limits", "rules": "limits", "condition": "limits", "conditions": "limits",
	"constraint": "limits", "constraints": "limits", "threshold": "limits", "thresholds": "limits",
}

// strangeKey is where a key was found first that its object ignores, and in how many others it was.
type strangeKey struct {
	order int
	where string
	hint  string
	more  int
}

// strange notes a key that an object ignores, if it means near, one of the object's own keys. where says which object
// it is.
func (b *builder) strange(key, near string, where func() string) {
	if seen, ok := b.keys[key]; ok {
		seen.more++
		return
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

// regionsInside is of what a key holds that nobody reads.
var regionsInside = regexp.MustCompile(`"(rings|mask|shape)"\s*:`)

// unread skips the value of a key that an object of polyscan's own ignores. Limits in it are an error, and regions a
// warning.
func (b *builder) unread(c *cursor, key string, own []string, where func() string) *Error {
	near := spelling.Nearest(key, own)
	if other := otherNames[strings.ToLower(key)]; slices.Contains(own, other) {
		near = other
	}
	b.strange(key, near, where)
	start := c.pos
	if e := c.skipUnread(key); e != nil {
		return e
	}
	if regionsInside.MatchString(c.s[start:c.pos]) {
		b.warn("%s: the key %s is ignored, and so are the regions in it", where(), quote(key))
	}
	return nil
}

// skipUnread consumes a value that nobody reads, of a key. Limits in it are an error: those of a key "limits", and
// texts and keys that are limits, alone ("mean < 3") or together ("mean": "< 3").
func (c *cursor) skipUnread(key string) *Error {
	end := *c
	end.skip()
	for c.pos < end.pos {
		if c.kind() != kindString {
			c.pos++
			continue
		}
		start := c.pos
		c.skipString()
		if c.pos-start > maxNote {
			continue // it is data, such as an image
		}
		text := (&cursor{s: c.s, pos: start}).text()
		isKey := false
		if c.space(); c.pos < end.pos && c.s[c.pos] == ':' {
			key, isKey = text, true
		}
		switch {
		case isKey && key == limitsKey:
			return misplacedLimits()
		case isLimit(text), !isKey && isLimit(key+" "+text):
			return misplacedLimits().within("%s", quote(text))
		}
	}
	*c = end
	return nil
}

// maxNote bounds the texts that are looked at for limits, in bytes.
const maxNote = 4096

// isLimit asks whether a text is a limit, or several with semicolons between.
func isLimit(text string) bool {
	if len(text) > maxNote || !strings.ContainsAny(text, "<>=[(") {
		return false
	}
	return slices.ContainsFunc(strings.Split(text, ";"), func(part string) bool {
		_, err := polygon.ParseLimit(strings.TrimSpace(part))
		return err == nil
	})
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
