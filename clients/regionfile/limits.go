package regionfile

// Limits in the files of other programs, where those let people write something of their own: LabelMe's flags of a shape,
// and attributes of a COCO annotation, as CVAT writes them.

import "strings"

// flags reads the limits among the flags of a LabelMe shape: those that are set and hold a comparison or an interval, such
// as "mean in [90, 140]". Other flags, such as "occluded", are somebody else's.
func (b *builder) flags(c *cursor) ([]string, *Error) {
	var limits []string
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	for more := c.enter(); more; more = c.next() {
		flag := c.key()
		set := c.kind() == kindTrue
		c.skip()
		if !set || !strings.ContainsAny(flag, "<>=[(") {
			continue
		}
		var e *Error
		if limits, e = b.limit(limits, flag); e != nil {
			return nil, e
		}
	}
	return limits, nil
}

// attributes reads the limits among the attributes of a COCO annotation: "limits", a string with semicolons between limits,
// or an array of strings.
func (b *builder) attributes(c *cursor) ([]string, *Error) {
	if c.kind() != kindObject { // null, or something of another program
		c.skip()
		return nil, nil
	}
	var limits []string
	for more := c.enter(); more; more = c.next() {
		if c.key() != "limits" {
			c.skip()
			continue
		}
		var e *Error
		if c.kind() == kindArray {
			limits, e = b.strings(c)
		} else {
			var text string
			text, e = c.stringOrNull()
			for part := range strings.SplitSeq(text, ";") {
				if part = strings.TrimSpace(part); part != "" && e == nil {
					limits, e = b.limit(limits, part)
				}
			}
		}
		if e != nil {
			return nil, e.within("limits")
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
