// What all ops have in common: a name, a check of their fields, and the slices of device memory that they use.

package driver

import (
	"cmp"
	"fmt"
	"strings"
)

// Op is work for a [Stream]: a pointer to a struct of this package, whose comment says what it computes. The stream
// keeps the pointer, so that an op has to stay as it is until Wait has returned.
type Op interface {
	name() string
	check() error
	operands(to []Operand) []Operand
}

// Name is the name of the op's struct, such as "MaskReduce".
func Name(op Op) string { return op.name() }

// Check returns an [*ArgError] for the first field that no backend could work with, and nil where there is none. It
// looks at all fields but the lengths and places of slices: those are for [CheckOperands].
func Check(op Op) error { return op.check() }

// Operands appends the slices of an op that passed [Check], and what they have to be.
func Operands(op Op, to []Operand) []Operand { return op.operands(to) }

// Access says what an op does with a slice.
type Access uint8

const (
	Read  Access = 1 << iota // the op reads what is there
	Write                    // the op changes what is there
)

// BackendSized as [Operand.Bytes] stands for what [Device.Scratch] returns.
const BackendSized = -1

// Operand is a slice of an op, and what it has to be.
type Operand struct {
	Field  string // such as "Frame.Data"
	Slice  *Slice // the op's own
	Bytes  int64  // its length, or [BackendSized]
	Longer bool   // the slice may be longer than Bytes
	Access Access
	Align  int64 // Off is a multiple of it where the slice isn't empty
	Apart  bool  // no other slice of the op may overlap it
}

// exact is an operand of structures, of a length that the other fields decide.
func exact(field string, s *Slice, bytes int64, a Access) Operand {
	return Operand{Field: field, Slice: s, Bytes: bytes, Access: a, Align: Align}
}

// scratch is an operand whose least length is the backend's to say, or the op's.
func scratch(field string, s *Slice, bytes int64) Operand {
	return Operand{Field: field, Slice: s, Bytes: bytes, Longer: true, Access: Write, Align: Align}
}

// made is an operand that holds what another op of the backend made: that op's Dst, whose length only the backend
// knows. It fails the op where the content is not what it should be.
func made(field string, s *Slice) Operand {
	return Operand{Field: field, Slice: s, Longer: true, Access: Read, Align: Align}
}

// operand is the data of an image, by the name of the field.
func (m *Image) operand(field string, a Access) Operand {
	return Operand{Field: field, Slice: &m.Data, Longer: true, Access: a, Align: int64(m.Format.SampleBytes),
		Bytes: int64(m.Stride)*int64(m.Height-1) + int64(m.Width)*int64(m.Format.PixelBytes())}
}

// ArgError says which argument of an op was refused, and why.
type ArgError struct {
	Op     string // such as "MaskReduce"
	Field  string // such as "Frame.Stride"
	Value  any
	Reason string
}

func (e *ArgError) Error() string {
	return fmt.Sprintf("kernels: %s: %s = %v: %s", e.Op, e.Field, e.Value, e.Reason)
}

func refuse(op, field string, value any, format string, args ...any) error {
	return &ArgError{op, field, value, fmt.Sprintf(format, args...)}
}

// CheckOperands checks the lengths of an op's slices, then that they lie in the memory, aligned, and then that none
// overlaps one that has to be apart. Any memory will do where mem is nil. scratch is called for the length of an
// operand that is [BackendSized].
func CheckOperands(op Op, operands []Operand, mem Mem, scratch func(Op) (int64, error)) error {
	name := op.name()
	for i := range operands {
		o := &operands[i]
		need := o.Bytes
		if need == BackendSized {
			n, err := scratch(op)
			if err != nil {
				return err
			}
			need = n
		}
		switch {
		case o.Slice.Len < need && o.Longer && need > 0:
			return refuse(name, o.Field, o.Slice.Len, "is less than the %d bytes needed", need)
		case o.Slice.Len != need && !o.Longer:
			return refuse(name, o.Field, o.Slice.Len, "must be %d bytes", need)
		}
	}
	for i := range operands {
		o, in := &operands[i], mem
		if in == nil {
			in = o.Slice.Mem
		}
		if err := CheckSlice(name, o.Field, *o.Slice, in); err != nil {
			return err
		}
		if o.Slice.Len != 0 && o.Slice.Off%o.Align != 0 {
			return refuse(name, o.Field+".Off", o.Slice.Off, "must be a multiple of %d", o.Align)
		}
	}
	for i := range operands {
		for k := range operands {
			if a, b := &operands[i], &operands[k]; a.Apart && i != k && overlap(a.Slice, b.Slice) {
				return refuse(name, a.Field, [2]int64{a.Slice.Off, a.Slice.Len}, "(offset, length) overlaps %s, %d",
					b.Field, [2]int64{b.Slice.Off, b.Slice.Len})
			}
		}
	}
	return nil
}

// CheckSlice checks that a slice is empty or lies in the memory.
func CheckSlice(op, field string, s Slice, mem Mem) error {
	switch {
	case s.Len == 0:
		return nil
	case s.Mem != mem || mem == nil:
		return refuse(op, field+".Mem", fmt.Sprintf("%T", s.Mem), "is not memory of the job's device")
	case s.Off < 0 || s.Len < 0 || s.Len > mem.Bytes() || s.Off > mem.Bytes()-s.Len:
		return refuse(op, field, [2]int64{s.Off, s.Len}, "(offset, length) is not inside the memory of %d bytes",
			mem.Bytes())
	}
	return nil
}

func overlap(a, b *Slice) bool { return a.Mem == b.Mem && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len }

// CheckSize checks the sides of an image: 1 to [MaxSide] pixels each, and [MaxPixels] in all. An error names the field
// Width or Height behind the prefix, which is empty or ends in a dot.
func CheckSize(op, prefix string, width, height int) error {
	for _, side := range [...]struct {
		name  string
		value int
	}{{"Width", width}, {"Height", height}} {
		if side.value < 1 || side.value > MaxSide {
			return refuse(op, prefix+side.name, side.value, "must be 1 to %d", MaxSide)
		}
	}
	if int64(width)*int64(height) > MaxPixels {
		return refuse(op, cmp.Or(strings.TrimSuffix(prefix, "."), "Width, Height"), fmt.Sprintf("%dx%d", width, height),
			"makes more than %d pixels", MaxPixels)
	}
	return nil
}

// between checks that a number is from least to most.
func between[T int | float32](op, field string, v, least, most T) error {
	if !(v >= least && v <= most) {
		return refuse(op, field, v, "must be %v to %v", least, most)
	}
	return nil
}

// named checks a value of an enumeration whose last name is most.
func named[T ~uint8 | ~uint32](op, field string, v, most T, what string) error {
	if v > most {
		return refuse(op, field, uint32(v), "is no %s", what)
	}
	return nil
}

// check checks what the comment of [Image] promises, but for Data. An error names the field behind the prefix, which
// ends in a dot.
func (m *Image) check(op, prefix string) error {
	if !m.Format.Valid() {
		return refuse(op, prefix+"Format", m.Format, "is no known pixel format")
	}
	if err := CheckSize(op, prefix, m.Width, m.Height); err != nil {
		return err
	}
	row := m.Width * m.Format.PixelBytes()
	switch {
	case m.Stride < row:
		return refuse(op, prefix+"Stride", m.Stride, "is less than a row of %d bytes", row)
	case m.Stride%int(m.Format.SampleBytes) != 0:
		return refuse(op, prefix+"Stride", m.Stride, "must be even for 16-bit samples")
	case m.Height > 1 && int64(m.Stride) > maxImageBytes/int64(m.Height-1): // the product could overflow
		return refuse(op, prefix+"Stride", m.Stride, "makes more than %d bytes of %d rows", int64(maxImageBytes),
			m.Height)
	}
	return nil
}

// maxImageBytes is more than any device has.
const maxImageBytes = 1 << 60

// as checks that an image has the size and the format of another.
func (m *Image) as(op, field string, other *Image, otherField string) error {
	switch {
	case m.Width != other.Width:
		return refuse(op, field+".Width", m.Width, "must be that of %s, %d", otherField, other.Width)
	case m.Height != other.Height:
		return refuse(op, field+".Height", m.Height, "must be that of %s, %d", otherField, other.Height)
	case m.Format != other.Format:
		return refuse(op, field+".Format", m.Format, "must be that of %s, %v", otherField, other.Format)
	}
	return nil
}

// nameOf is the name of a value of an enumeration.
func nameOf[E ~uint8](names []string, e E) string {
	if int(e) < len(names) {
		return names[e]
	}
	return "INVALID"
}
