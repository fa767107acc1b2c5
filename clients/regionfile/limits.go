package regionfile

// Limits in the files of other programs, where those let people write something of their own: LabelMe's flags of a
// shape, attributes of a COCO annotation, as CVAT writes them, and properties of a GeoJSON feature. Limits anywhere
// else are an error: a region without its limits would have no verdict, and nobody would know.

import (
	"strings"
	"unicode"

	"github.com/polyscan/polyscan/polygon"
)

const limitsKey = "limits"

// misplacedLimits is the error of limits where nobody reads them.
func misplacedLimits() *Error {
	return fail(ErrInvalid, `limits are not read here: they belong to the key "limits" of a region, of the attributes `+
		"of a COCO annotation or of the properties of a GeoJSON feature, or to the flags of a LabelMe shape")
}

// flags reads the limits among the flags of a LabelMe shape: those that are set and hold a comparison or an interval,
// such as "mean in [90, 140]". Others that begin with a quantity ("mean below 90") are an error, and flags such as
// "occluded" somebody else's. where says whose they are.
func (b *builder) flags(c *cursor, where func() string) ([]string, *Error) {
	var limits []string
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	for more := c.enter(); more; more = c.next() {
		flag, kind := c.key(), c.kind()
		value := *c
		c.skip()
		switch {
		case strings.EqualFold(flag, limitsKey):
			return nil, fail(ErrInvalid, "the flag %s: each limit is a flag of its own, such as \"mean in [90, 140]\": true",
				quote(flag))
		case kind == kindFalse:
		case kind != kindTrue && kind != kindNull && !strings.ContainsAny(flag, limitSigns):
			b.ignored(value, flag, &freeObject, where)
			fallthrough
		case !strings.ContainsAny(flag, limitSigns):
			if e := value.skipUnread(flag); e != nil {
				return nil, e.within("%s", flag)
			}
			if q := firstQuantity(flag); q != "" {
				return nil, fail(ErrInvalid, "the flag %s begins with the quantity %s and is no limit: want a comparison, such as "+
					"\"%s < 90\"", quote(flag), q, q)
			}
		case kind != kindTrue:
			return nil, fail(ErrInvalid, "the flag %s: expected true or false, found %s", quote(flag), kind)
		default:
			var e *Error
			if limits, e = b.limit(limits, flag); e != nil {
				return nil, e
			}
		}
	}
	return limits, nil
}

// firstQuantity is the quantity that the first words of a text name, with or without a dot behind a channel ("red mean"),
// and empty where they name none.
func firstQuantity(text string) string {
	first, channel := "", ""
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return unicode.IsSpace(r) || r == ':' || r == ',' }) {
		if first == "" && !strings.EqualFold(word, "a") { // which is an article, too
			channel = word
		}
		dotted := channel + "." + strings.TrimPrefix(first+" "+word, channel+" ")
		first = strings.TrimSpace(first + " " + word)
		for _, q := range []string{first, dotted} {
			if _, err := polygon.ParseQuantity(q); err == nil {
				return q
			}
		}
	}
	return ""
}

// attributes reads the limits among the attributes of a COCO annotation or the properties of a GeoJSON feature:
// "limits", a string with semicolons between limits, or an array of strings. where says whose they are.
func (b *builder) attributes(c *cursor, where func() string) ([]string, *Error) {
	if c.kind() != kindObject { // null, or something of another program
		value := *c
		c.skip()
		if strings.Contains(c.s[value.pos:c.pos], `"`+limitsKey+`"`) {
			return nil, fail(ErrInvalid, "expected an object, as it names limits")
		}
		return nil, value.skipUnread("attributes")
	}
	var limits []string
	seen := false
	for more := c.enter(); more; more = c.next() {
		key := c.key()
		if key != limitsKey {
			b.ignored(*c, key, &freeObject, where)
			if e := c.skipUnread(key); e != nil {
				return nil, e.within("%s", key)
			}
			continue
		}
		if seen {
			return nil, twiceError(limitsKey)
		}
		seen = true
		var e *Error
		if c.kind() == kindArray {
			limits, e = b.strings(c)
		} else {
			isNull := c.kind() == kindNull
			var text string
			text, e = c.stringOrNull()
			for part := range strings.SplitSeq(text, ";") {
				if part = strings.TrimSpace(part); part != "" && e == nil {
					limits, e = b.limit(limits, part)
				}
			}
			// CVAT writes an attribute that was left blank as an empty text.
			switch {
			case len(limits) > 0 || e != nil || isNull:
			case strings.TrimSpace(text) == "":
				b.strange(key, limitsKey, "its text is empty, so that the region has no limits; null says so", false, where)
			default:
				e = fail(ErrInvalid, "no limit in %s: leave the key out, or say null", quote(text))
			}
		}
		if e != nil {
			return nil, e.within(limitsKey)
		}
	}
	return limits, nil
}

// limit adds a limit.
func (b *builder) limit(limits []string, text string) ([]string, *Error) {
	if b.strs++; b.strs > maxStrings {
		return nil, fail(ErrLimit, "more than %d limits and reductions in the file", maxStrings)
	}
	return append(limits, strings.Clone(text)), nil
}
