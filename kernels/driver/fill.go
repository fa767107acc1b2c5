// The op that sets memory.

package driver

// Fill sets each byte of Dst to Value.
type Fill struct {
	Dst   Slice
	Value byte
}

func (op *Fill) name() string { return "Fill" }

func (op *Fill) check() error { return nil }

func (op *Fill) operands(to []Operand) []Operand {
	return append(to, Operand{Field: "Dst", Slice: &op.Dst, Longer: true, Access: Write, Align: 1})
}
