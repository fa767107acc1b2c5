package genicam

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Port is a camera's memory.
type Port interface {
	Read(ctx context.Context, addr uint32, n int) ([]byte, error)
	Write(ctx context.Context, addr uint32, data []byte) error
}

// Errors of access to features.
var (
	ErrNoFeature = errors.New("the camera has no such feature")
	ErrReadOnly  = errors.New("it can only be read")
	ErrWriteOnly = errors.New("it can only be written")
	ErrLocked    = errors.New("it is locked now")
	ErrAbsent    = errors.New("it isn't available now")
)

// Bounds of one access.
const (
	maxChain  = 64   // nodes that lead to each other
	maxVisits = 4096 // nodes in all
	// What it costs in all: the bytes of formulas, the children that are looked through, and 256 for each register. A
	// few milliseconds and 4096 packets are the most that a camera can make of one.
	maxWork      = 1 << 20
	registerWork = 256
	maxString    = 4096 // bytes of a register
	maxAddress   = 1 << 32
)

// Camera is a description and the memory that it describes.
type Camera struct {
	Model *Model
	port  Port
}

// New makes one.
func New(m *Model, p Port) *Camera { return &Camera{m, p} }

// access is one access to a feature, which may meet many nodes.
type access struct {
	*Camera
	chunks map[uint32][]byte // behind an image, by their ids; nil: there is none
	any    bool              // chunks of all ids are there, of zeros
	met    bool              // a register of a chunk was read
	ctx    context.Context
	depth  int
	visits int
	work   *int // that was done, which several accesses may share
}

func (c *Camera) access(ctx context.Context) *access {
	return &access{Camera: c, ctx: ctx, work: new(int)}
}

// wrap says which feature an error is about.
func wrap(name string, err error) error {
	if err != nil {
		return fmt.Errorf("feature %s: %w", name, err)
	}
	return nil
}

// enter looks a node up, and counts it.
func (a *access) enter(name string) (*node, error) {
	n := a.Model.nodes[name]
	if n == nil {
		return nil, fmt.Errorf("%q: %w", name, ErrNoFeature)
	}
	if err := a.spend(len(n.children)); err != nil {
		return nil, err
	}
	return n, a.count(name)
}

func (a *access) spend(work int) error {
	if *a.work += work; *a.work > maxWork {
		return errors.New("its description makes it more work than a camera may ask for")
	}
	return nil
}

func (a *access) count(name string) error {
	if a.depth++; a.depth > maxChain {
		return fmt.Errorf("more than %d nodes lead to each other, %q among them: a cycle", maxChain, name)
	}
	if a.visits++; a.visits > maxVisits {
		return fmt.Errorf("more than %d nodes are needed", maxVisits)
	}
	return nil
}

func (a *access) leave() { a.depth-- }

// usable is an error where a feature isn't there now or, to be written, is locked.
func (a *access) usable(n *node, write bool) error {
	for _, x := range []struct {
		kind string
		want bool
		err  error
	}{{"pIsImplemented", true, ErrNoFeature}, {"pIsAvailable", true, ErrAbsent}, {"pIsLocked", false, ErrLocked}} {
		p := n.child(x.kind)
		if p == nil || x.kind == "pIsLocked" && !write {
			continue
		}
		v, err := a.number(p.text)
		if err != nil {
			return err
		}
		if v.isTrue() != x.want {
			return x.err
		}
	}
	if write && (n.value("AccessMode") == "RO" || n.value("ImposedAccessMode") == "RO") {
		return ErrReadOnly
	}
	if !write && (n.value("AccessMode") == "WO" || n.value("ImposedAccessMode") == "WO") {
		return ErrWriteOnly
	}
	return nil
}

// number is the value of a node by its name, or of a number that is written in its place.
func (a *access) number(name string) (v number, err error) {
	n, err := a.enter(name)
	if err != nil {
		return v, err
	}
	defer a.leave()
	return a.numberOf(n)
}

// either is the number in a child, or of the node that the child p names; def where there is neither.
func (a *access) either(n *node, kind string, def number) (number, error) {
	if c := n.child(kind); c != nil {
		return parseNumber(c.text, false)
	}
	if c := n.child("p" + kind); c != nil {
		return a.number(c.text)
	}
	return def, nil
}

func (a *access) numberOf(n *node) (v number, err error) {
	switch n.kind {
	case "Integer", "Float", "Enumeration", "Boolean", "Command":
		if c := n.child("pIndex"); c != nil {
			return a.indexed(n, c)
		}
		if n.child("Value", "pValue") == nil {
			return v, fmt.Errorf("%s %q has no value", n.kind, n.name)
		}
		v, err = a.either(n, "Value", v)
		if err == nil && n.kind == "Boolean" {
			var on number
			if on, err = a.either(n, "OnValue", intOf(1)); err == nil {
				v = truth(v.asInt() == on.asInt())
			}
		}
		return v, err
	case "IntReg", "MaskedIntReg":
		b, err := a.register(n, 8)
		if err != nil {
			return v, err
		}
		return a.integer(n, b)
	case "FloatReg":
		b, err := a.register(n, 8)
		if err != nil {
			return v, err
		}
		switch u := unsigned(n, b); len(b) {
		case 4:
			return floatOf(float64(math.Float32frombits(uint32(u)))), nil
		case 8:
			return floatOf(math.Float64frombits(u)), nil
		}
		return v, fmt.Errorf("FloatReg %q has %d bytes", n.name, len(b))
	case "SwissKnife", "IntSwissKnife":
		return a.formula(n, n.value("Formula"), "", number{})
	case "Converter", "IntConverter":
		p := n.child("pValue")
		if p == nil {
			return v, fmt.Errorf("%s %q has no value", n.kind, n.name)
		}
		to, err := a.number(p.text)
		if err != nil {
			return v, err
		}
		return a.formula(n, n.value("FormulaFrom"), "TO", to)
	}
	return v, fmt.Errorf("%q, of kind %s, has no number", n.name, n.kind)
}

// indexed is the value of a node that has one for each value of another.
func (a *access) indexed(n, index *node) (number, error) {
	at, err := a.number(index.text)
	if err != nil {
		return number{}, err
	}
	for _, c := range n.children {
		if i, err := parseNumber(c.attrs["Index"], true); err != nil || i.i != at.asInt() {
			continue
		}
		switch c.kind {
		case "ValueIndexed":
			return parseNumber(c.text, false)
		case "pValueIndexed":
			return a.number(c.text)
		}
	}
	return a.either(n, "ValueDefault", number{})
}

// formula computes one with the variables of its node, and one more.
func (a *access) formula(n *node, text, name string, value number) (number, error) {
	if text == "" {
		return number{}, fmt.Errorf("%s %q has no formula", n.kind, n.name)
	}
	if err := a.spend(len(text)); err != nil {
		return number{}, err
	}
	integers := strings.HasPrefix(n.kind, "Int")
	return evaluate(text, integers, func(want string) (number, error) {
		if want == name && name != "" {
			return value, nil
		}
		if err := a.spend(len(n.children)); err != nil {
			return number{}, err
		}
		for _, c := range n.children {
			if c.attrs["Name"] != want {
				continue
			}
			switch c.kind {
			case "pVariable":
				return a.number(c.text)
			case "Constant":
				return parseNumber(c.text, integers)
			case "Expression":
				if err := a.count(want); err != nil {
					return number{}, err
				}
				defer a.leave()
				return a.formula(n, c.text, name, value)
			}
		}
		return number{}, fmt.Errorf("nobody says what %q is", want)
	})
}

// place is where a register lies, and how long it is.
func (a *access) place(n *node) (addr uint32, length int, err error) {
	l, err := a.either(n, "Length", intOf(0))
	if err != nil {
		return 0, 0, err
	}
	if l.asInt() < 1 || l.asInt() > maxString {
		return 0, 0, fmt.Errorf("register %q has %d bytes: must be 1 to %d", n.name, l.asInt(), maxString)
	}
	var sum int64
	for _, c := range n.children {
		var v number
		var err error
		switch c.kind {
		case "Address":
			v, err = parseNumber(c.text, true)
		case "pAddress":
			v, err = a.number(c.text)
		case "IntSwissKnife":
			if err = a.count(c.name); err == nil {
				v, err = a.numberOf(c)
				a.leave()
			}
		case "pIndex":
			if v, err = a.number(c.text); err == nil {
				var offset number
				if p, ok := c.attrs["pOffset"]; ok {
					offset, err = a.number(p)
				} else if o, ok := c.attrs["Offset"]; ok {
					offset, err = parseNumber(o, true)
				} else {
					offset = l
				}
				v = intOf(v.asInt() * offset.asInt())
			}
		}
		if err != nil {
			return 0, 0, err
		}
		sum += v.asInt()
	}
	if sum < 0 || sum+l.asInt() > maxAddress {
		return 0, 0, fmt.Errorf("register %q at %#x: outside of a camera's memory", n.name, sum)
	}
	return uint32(sum), int(l.asInt()), nil
}

// register reads one of at most so many bytes.
func (a *access) register(n *node, most int) ([]byte, error) {
	if n.value("AccessMode") == "WO" {
		return nil, ErrWriteOnly
	}
	addr, length, err := a.place(n)
	if err != nil {
		return nil, err
	}
	if length > most {
		return nil, fmt.Errorf("%s %q has %d bytes: at most %d", n.kind, n.name, length, most)
	}
	id, ok, err := a.chunkOf(n)
	if err == nil {
		err = a.spend(registerWork + length)
	}
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return a.port.Read(a.ctx, addr, length)
	case a.any:
		a.met = true
		return make([]byte, length), nil
	}
	a.met = true
	b, ok := a.chunks[id]
	if !ok {
		return nil, ErrAbsent
	}
	if int64(addr)+int64(length) > int64(len(b)) {
		return nil, fmt.Errorf("register %q ends behind its chunk of %d bytes", n.name, len(b))
	}
	return b[addr : int(addr)+length], nil
}

// chunkOf is the chunk in which a register lies, if it isn't in the camera's memory.
func (a *access) chunkOf(n *node) (id uint32, ok bool, err error) {
	p := a.Model.nodes[n.value("pPort")]
	if p == nil || p.child("ChunkID") == nil {
		return 0, false, nil
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(p.value("ChunkID")), "0x"), 16, 32)
	if err != nil {
		return 0, false, fmt.Errorf("id of chunk %q: %w", p.name, err)
	}
	return uint32(v), true, nil
}

// store writes a register's bytes.
func (a *access) store(n *node, addr uint32, b []byte) error {
	if _, ok, err := a.chunkOf(n); ok || err != nil {
		return errors.Join(err, ErrReadOnly)
	}
	return a.port.Write(a.ctx, addr, b)
}

func bigEndian(n *node) bool { return n.value("Endianess") == "BigEndian" }

func unsigned(n *node, b []byte) (u uint64) {
	for i := range b {
		if bigEndian(n) {
			u = u<<8 | uint64(b[i])
		} else {
			u |= uint64(b[i]) << (8 * i)
		}
	}
	return u
}

// mask is where the bits of a register's number lie: those from low to high. In registers that are big-endian bit 0 is
// the most significant one.
func mask(n *node, length int) (low, high int, err error) {
	if n.kind == "IntReg" {
		return 0, 8*length - 1, nil
	}
	var least, most number
	if c := n.child("Bit"); c != nil {
		least, err = parseNumber(c.text, true)
		most = least
	} else {
		if least, err = parseNumber(n.value("LSB"), true); err == nil {
			most, err = parseNumber(n.value("MSB"), true)
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("bits of %q: %w", n.name, err)
	}
	low, high = int(min(least.i, most.i, 64)), int(min(max(least.i, most.i), 64))
	if bigEndian(n) {
		low, high = 8*length-1-high, 8*length-1-low
	}
	if low < 0 || high > 8*length-1 {
		return 0, 0, fmt.Errorf("bits of %q: %d to %d of %d", n.name, least.i, most.i, 8*length)
	}
	return low, high, nil
}

func (a *access) integer(n *node, b []byte) (number, error) {
	low, high, err := mask(n, len(b))
	if err != nil {
		return number{}, err
	}
	v := unsigned(n, b) << (63 - high)
	if n.value("Sign") == "Signed" {
		return intOf(int64(v) >> (63 - high + low)), nil
	}
	return intOf(int64(v >> (63 - high + low))), nil
}

// set gives a node a number.
func (a *access) set(name string, v number) error {
	n, err := a.enter(name)
	if err != nil {
		return err
	}
	defer a.leave()
	if err := a.usable(n, true); err != nil {
		return err
	}
	switch n.kind {
	case "Integer", "Float":
		if err := a.within(n, v); err != nil {
			return err
		}
		return a.pass(n, v)
	case "Enumeration", "Command":
		return a.pass(n, v)
	case "Boolean":
		kind, def := "OffValue", intOf(0)
		if v.isTrue() {
			kind, def = "OnValue", intOf(1)
		}
		if v, err = a.either(n, kind, def); err != nil {
			return err
		}
		return a.pass(n, v)
	case "Converter", "IntConverter":
		to, err := a.formula(n, n.value("FormulaTo"), "FROM", v)
		if err != nil {
			return err
		}
		return a.pass(n, to)
	case "IntReg", "MaskedIntReg":
		return a.write(n, v)
	case "FloatReg":
		addr, length, err := a.place(n)
		if err != nil {
			return err
		}
		var u uint64
		switch length {
		case 4:
			u = uint64(math.Float32bits(float32(v.asFloat())))
		case 8:
			u = math.Float64bits(v.asFloat())
		default:
			return fmt.Errorf("FloatReg %q has %d bytes", n.name, length)
		}
		return a.store(n, addr, put(n, u, length))
	}
	return fmt.Errorf("%q is a %s: %w", n.name, n.kind, ErrReadOnly)
}

// pass gives the number to the node that holds it.
func (a *access) pass(n *node, v number) error {
	p := n.child("pValue")
	if p == nil {
		return ErrReadOnly
	}
	target := a.Model.nodes[p.text]
	if target != nil && (target.kind == "IntReg" || target.kind == "Integer" || target.kind == "MaskedIntReg") &&
		v.float {
		v = intOf(int64(math.Round(v.f)))
	}
	return a.set(p.text, v)
}

// within holds a number to the node's limits.
func (a *access) within(n *node, v number) error {
	least, err := a.either(n, "Min", floatOf(math.Inf(-1)))
	if err != nil {
		return err
	}
	most, err := a.either(n, "Max", floatOf(math.Inf(1)))
	if err != nil {
		return err
	}
	if !(v.asFloat() >= least.asFloat() && v.asFloat() <= most.asFloat()) {
		return fmt.Errorf("%v: must be %v to %v", v, least, most)
	}
	step, err := a.either(n, "Inc", intOf(1))
	if err != nil {
		return err
	}
	if n.kind == "Integer" && step.asInt() > 1 && !least.float && (v.asInt()-least.asInt())%step.asInt() != 0 {
		return fmt.Errorf("%v: must be %v and a multiple of %v more", v, least, step)
	}
	return nil
}

func put(n *node, u uint64, length int) []byte {
	b := make([]byte, 8)
	if bigEndian(n) {
		binary.BigEndian.PutUint64(b, u)
		return b[8-length:]
	}
	binary.LittleEndian.PutUint64(b, u)
	return b[:length]
}

func (a *access) write(n *node, v number) error {
	addr, length, err := a.place(n)
	if err != nil {
		return err
	}
	if length > 8 {
		return fmt.Errorf("%s %q has %d bytes: at most 8", n.kind, n.name, length)
	}
	low, high, err := mask(n, length)
	if err != nil {
		return err
	}
	u, width := uint64(v.asInt()), high-low+1
	if width < 64 {
		least, most := int64(0), int64(1)<<min(width, 62)-1
		if width == 63 {
			most = math.MaxInt64
		}
		if n.value("Sign") == "Signed" {
			least, most = -1<<(width-1), 1<<(width-1)-1
		}
		if v.asInt() < least || v.asInt() > most {
			return fmt.Errorf("%v: %q holds %d to %d", v, n.name, least, most)
		}
	}
	if width < 8*length {
		before, err := a.port.Read(a.ctx, addr, length)
		if err != nil {
			return err
		}
		bits := (uint64(1)<<width - 1) << low
		u = unsigned(n, before)&^bits | u<<low&bits
	}
	return a.store(n, addr, put(n, u, length))
}

// String is the number as it is written.
func (n number) String() string {
	if n.float {
		return strconv.FormatFloat(n.f, 'g', 10, 64)
	}
	return strconv.FormatInt(n.i, 10)
}

// Get reads a feature: an enumeration's value by its name, a boolean as true or false.
func (c *Camera) Get(ctx context.Context, name string) (string, error) {
	v, err := c.get(c.access(ctx), name)
	return v, wrap(name, err)
}

func (c *Camera) get(a *access, name string) (string, error) {
	n, err := a.enter(name)
	if err != nil {
		return "", err
	}
	defer a.leave()
	if err := a.usable(n, false); err != nil {
		return "", err
	}
	switch n.kind {
	case "String":
		if p := n.child("pValue"); p != nil {
			return c.get(a, p.text)
		}
		return n.value("Value"), nil
	case "StringReg":
		b, err := a.register(n, maxString)
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			b = b[:i]
		}
		return string(b), nil
	case "Command":
		return "", ErrWriteOnly
	}
	v, err := a.numberOf(n)
	if err != nil {
		return "", err
	}
	switch n.kind {
	case "Boolean":
		return strconv.FormatBool(v.isTrue()), nil
	case "Float":
		return floatOf(v.asFloat()).String(), nil
	case "Enumeration":
		for _, e := range n.children {
			if e.kind != "EnumEntry" {
				continue
			}
			if i, err := parseNumber(e.value("Value"), true); err == nil && i.i == v.asInt() {
				return e.name, nil
			}
		}
	}
	return v.String(), nil
}

// Int reads a feature as a number: an enumeration's as its value in the register.
func (c *Camera) Int(ctx context.Context, name string) (int64, error) {
	v, err := c.access(ctx).number(name)
	return v.asInt(), wrap(name, err)
}

// Set writes a feature, as Get gives it.
func (c *Camera) Set(ctx context.Context, name, value string) error {
	return wrap(name, c.setText(c.access(ctx), name, value))
}

func (c *Camera) setText(a *access, name, value string) error {
	n, err := a.enter(name)
	if err != nil {
		return err
	}
	defer a.leave()
	switch n.kind {
	case "Boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q: must be true or false", value)
		}
		return a.set(name, truth(b))
	case "Command":
		return fmt.Errorf("%q is a command: it has no value", name)
	case "Enumeration":
		for _, e := range n.children {
			if e.kind == "EnumEntry" && e.name == value {
				v, err := parseNumber(e.value("Value"), true)
				if err != nil {
					return err
				}
				if err := a.usable(e, false); err != nil {
					return err
				}
				return a.set(name, v)
			}
		}
		return fmt.Errorf("%q: must be %s", value, strings.Join(c.Model.Entries(name), ", "))
	case "String":
		if p := n.child("pValue"); p != nil {
			return c.setText(a, p.text, value)
		}
		return ErrReadOnly
	case "StringReg":
		if err := a.usable(n, true); err != nil {
			return err
		}
		addr, length, err := a.place(n)
		if err != nil {
			return err
		}
		if len(value) > length {
			return fmt.Errorf("%d bytes: at most %d", len(value), length)
		}
		return a.store(n, addr, append([]byte(value), make([]byte, length-len(value))...))
	}
	v, err := parseNumber(value, false)
	if err != nil {
		return err
	}
	if kinds[n.kind] == "Integer" && v.float {
		return fmt.Errorf("%s: must be a whole number", value)
	}
	return a.set(name, v)
}

// Execute runs a command.
func (c *Camera) Execute(ctx context.Context, name string) error {
	a := c.access(ctx)
	n := c.Model.nodes[name]
	switch {
	case n == nil:
		return wrap(name, ErrNoFeature)
	case n.kind != "Command":
		return wrap(name, fmt.Errorf("it is no command: its kind is %s", n.kind))
	}
	v, err := a.either(n, "CommandValue", intOf(1))
	if err == nil {
		err = a.set(name, v)
	}
	return wrap(name, err)
}

// Settable reports whether a feature may be written, as far as its description says: now, and by its access mode and
// that of the register behind it.
func (c *Camera) Settable(ctx context.Context, name string) bool {
	a := c.access(ctx)
	var seen []string
	for {
		n := c.Model.nodes[name]
		if n == nil || slices.Contains(seen, name) || a.usable(n, true) != nil || len(seen) > maxChain {
			return false
		}
		switch n.kind {
		case "IntReg", "MaskedIntReg", "FloatReg", "StringReg":
			return true
		case "SwissKnife", "IntSwissKnife":
			return false
		}
		p := n.child("pValue")
		if p == nil {
			return false
		}
		seen = append(seen, name)
		name = p.text
	}
}
