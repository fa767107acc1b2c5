package genicam

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// memory is a camera's.
type memory map[uint32]byte

func (m memory) Read(_ context.Context, addr uint32, n int) ([]byte, error) {
	b := make([]byte, n)
	for i := range b {
		b[i] = m[addr+uint32(i)]
	}
	return b, nil
}

func (m memory) Write(_ context.Context, addr uint32, data []byte) error {
	for i, b := range data {
		m[addr+uint32(i)] = b
	}
	return nil
}

const head = `<?xml version="1.0"?><RegisterDescription ModelName="T" xmlns="http://www.genicam.org/GenApi/Version_1_0">`

const description = head + `
<Category Name="Root"><pFeature>Image</pFeature><pFeature>Nothing</pFeature><pFeature>Image</pFeature></Category>
<Category Name="Image"><pFeature>Width</pFeature><pFeature>Rate</pFeature><pFeature>Mode</pFeature>
 <pFeature>Flip</pFeature><pFeature>Start</pFeature><pFeature>Name</pFeature><pFeature>Size</pFeature></Category>
<Integer Name="Width"><ToolTip>Pixels of a line</ToolTip><pValue>WidthReg</pValue><Min>16</Min><pMax>Max</pMax><Inc>4</Inc>
 <pIsLocked>Lock</pIsLocked></Integer>
<Integer Name="Max"><Value>0x100</Value></Integer>
<Integer Name="Lock"><pValue>LockReg</pValue></Integer>
<IntReg Name="LockReg"><Address>0x90</Address><Length>4</Length><AccessMode>RW</AccessMode></IntReg>
<IntReg Name="WidthReg"><Address>0x10</Address><Length>4</Length><AccessMode>RW</AccessMode><Endianess>BigEndian</Endianess></IntReg>
<Float Name="Rate"><pValue>RateConv</pValue><Min>0.1</Min><Max>1000</Max></Float>
<Converter Name="RateConv"><FormulaTo>1000000 / FROM</FormulaTo><FormulaFrom>1000000 / TO</FormulaFrom><pValue>Period</pValue></Converter>
<IntReg Name="Period"><Address>0x14</Address><Length>4</Length><Endianess>LittleEndian</Endianess></IntReg>
<Enumeration Name="Mode"><EnumEntry Name="Off"><Value>0</Value></EnumEntry><EnumEntry Name="On"><Value>5</Value></EnumEntry>
 <pValue>ModeBits</pValue></Enumeration>
<StructReg Comment="bits"><Address>0x18</Address><Length>4</Length><Endianess>BigEndian</Endianess>
 <StructEntry Name="ModeBits"><LSB>31</LSB><MSB>28</MSB></StructEntry>
 <StructEntry Name="FlipBit"><Bit>0</Bit></StructEntry>
 <StructEntry Name="Small"><LSB>27</LSB><MSB>24</MSB><Sign>Signed</Sign></StructEntry></StructReg>
<Boolean Name="Flip"><pValue>FlipBit</pValue></Boolean>
<Command Name="Start"><pValue>StartReg</pValue><CommandValue>7</CommandValue></Command>
<IntReg Name="StartReg"><Address>0x1c</Address><Length>2</Length><AccessMode>WO</AccessMode></IntReg>
<StringReg Name="Name"><Address>0x20</Address><Length>8</Length></StringReg>
<IntSwissKnife Name="Size"><pVariable Name="W">Width</pVariable><Constant Name="H">3</Constant>
 <Expression Name="BOTH">W * H</Expression><Formula>BOTH + (W &gt; 20 ? 1 : 0)</Formula></IntSwissKnife>
<IntReg Name="Table"><Address>0x40</Address><pIndex Offset="4">Index</pIndex><Length>4</Length></IntReg>
<Integer Name="Index"><Value>2</Value></Integer>
<FloatReg Name="Gain"><Address>0x60</Address><Length>4</Length><Endianess>BigEndian</Endianess></FloatReg>
<Group Comment="more"><Integer Name="Grouped"><pIndex>Index</pIndex><ValueIndexed Index="1">11</ValueIndexed>
 <ValueIndexed Index="2">22</ValueIndexed><ValueDefault>0</ValueDefault></Integer></Group>
<Integer Name="Loop"><pValue>Pool</pValue></Integer><Integer Name="Pool"><pValue>Loop</pValue></Integer>
<IntSwissKnife Name="Tree"><pVariable Name="A">Tree2</pVariable><Formula>A+A+A+A+A+A+A+A+A+A</Formula></IntSwissKnife>
<IntSwissKnife Name="Tree2"><pVariable Name="A">Tree3</pVariable><Formula>A+A+A+A+A+A+A+A+A+A</Formula></IntSwissKnife>
<IntSwissKnife Name="Tree3"><pVariable Name="A">Tree4</pVariable><Formula>A+A+A+A+A+A+A+A+A+A</Formula></IntSwissKnife>
<IntSwissKnife Name="Tree4"><pVariable Name="A">Max</pVariable><Formula>A+A+A+A+A+A+A+A+A+A</Formula></IntSwissKnife>
</RegisterDescription>`

func open(t testing.TB) (*Camera, memory) {
	t.Helper()
	m, err := Parse([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	mem := memory{}
	return New(m, mem), mem
}

func TestFeatures(t *testing.T) {
	c, mem := open(t)
	var names []string
	for _, f := range c.Model.Features() {
		names = append(names, f.Category+"/"+f.Name+":"+f.Kind)
	}
	want := "Image/Width:Integer Image/Rate:Float Image/Mode:Enumeration Image/Flip:Boolean Image/Start:Command " +
		"Image/Name:String Image/Size:Integer"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if f := c.Model.Features()[0]; f.Tip != "Pixels of a line" || c.Model.Name != "T" {
		t.Errorf("%+v", f)
	}
	ctx := t.Context()
	for _, x := range []struct{ name, set, get, fails string }{
		{"Width", "64", "64", ""},
		{"Width", "66", "64", "a multiple of 4 more"},
		{"Width", "12", "64", "must be 16 to 256"},
		{"Width", "260", "64", "must be 16 to 256"},
		{"Width", "6.5", "64", "a whole number"},
		{"Width", "x", "64", "no number"},
		{"Size", "", "193", ""},
		{"Size", "3", "193", "can only be read"},
		{"Rate", "50", "50", ""},
		{"Rate", "0.01", "50", "must be 0.1 to 1000"},
		{"Mode", "On", "On", ""},
		{"Mode", "Maybe", "On", "must be Off, On"},
		{"Flip", "true", "true", ""},
		{"Flip", "2", "true", "true or false"},
		{"Small", "-3", "-3", ""},
		{"Small", "8", "-3", "holds -8 to 7"},
		{"Mode", "", "On", ""}, // its neighbours have not changed it
		{"Name", "belt", "belt", ""},
		{"Name", "too long for it", "belt", "at most 8"},
		{"Table", "77", "77", ""},
		{"Gain", "1.5", "1.5", ""},
		{"Grouped", "", "22", ""},
		{"Missing", "1", "", "no such feature"},
		{"Loop", "1", "", "a cycle"},
		{"Tree", "", "", "more than 4096 nodes"},
		{"Start", "1", "", "a command"},
		{"Image", "1", "", "is a Category"},
	} {
		if x.set != "" {
			err := c.Set(ctx, x.name, x.set)
			if (err == nil) != (x.fails == "") || err != nil && !strings.Contains(err.Error(), x.fails) {
				t.Errorf("%s = %s: %v, want %q", x.name, x.set, err, x.fails)
			}
		}
		got, err := c.Get(ctx, x.name)
		if got != x.get || x.get != "" && err != nil || x.get == "" && err == nil {
			t.Errorf("%s: %q, %v, want %q", x.name, got, err, x.get)
		}
	}
	for addr, want := range map[uint32][]byte{
		0x10: {0, 0, 0, 64}, 0x14: {0x20, 0x4e, 0, 0}, 0x18: {0x80, 0, 0, 0xd5}, 0x20: []byte("belt\x00\x00\x00\x00"),
		0x48: {77, 0, 0, 0}, 0x60: {0x3f, 0xc0, 0, 0},
	} {
		if got, _ := mem.Read(ctx, addr, len(want)); !bytes.Equal(got, want) {
			t.Errorf("at %#x: %x, want %x", addr, got, want)
		}
	}
	if err := c.Execute(ctx, "Start"); err != nil || mem[0x1c] != 7 {
		t.Errorf("%v, %d", err, mem[0x1c])
	}
	if err := c.Execute(ctx, "Width"); err == nil {
		t.Error("Width was executed")
	}
	for name, want := range map[string]bool{"Width": true, "Size": false, "Mode": true, "Start": true, "Loop": false,
		"Max": false} {
		if got := c.Settable(ctx, name); got != want {
			t.Errorf("%s can be set: %v", name, got)
		}
	}
	mem[0x90] = 1
	if err := c.Set(ctx, "Width", "32"); !errors.Is(err, ErrLocked) {
		t.Errorf("locked: %v", err)
	}
	if _, err := c.Get(ctx, "StartReg"); !errors.Is(err, ErrWriteOnly) {
		t.Errorf("%v", err)
	}
}

func TestParse(t *testing.T) {
	deep := head + strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40) + "</RegisterDescription>"
	for text, want := range map[string]string{
		"": "ends early", "<a>": "ends early", "<a></b>": "", "<a/>": "is a <a>",
		`<!DOCTYPE a [<!ENTITY x "xx">]><RegisterDescription>&x;</RegisterDescription>`: "DOCTYPE",
		head + "&x;</RegisterDescription>":                                              "entity", deep: "deeper",
		head + "</RegisterDescription><a/>":                                  "root",
		head + strings.Repeat("<a/>", maxNodes+1) + "</RegisterDescription>": "elements",
		head + strings.Repeat("x", maxText+1) + "</RegisterDescription>":     "text",
		head + strings.Repeat("</RegisterDescription>", 2):                   "",
		"PK\x03\x04": "zip",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v, want %q", text, err, want)
		}
	}
}

func TestZip(t *testing.T) {
	packed := func(name, text string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
		z.Close()
		return b.Bytes()
	}
	if m, err := Parse(packed("t.XML", description)); err != nil || !m.Has("Width") {
		t.Errorf("%v", err)
	}
	if _, err := Parse(packed("t.txt", description)); err == nil {
		t.Error("no XML")
	}
	if _, err := Parse(packed("bomb.xml", strings.Repeat(" ", MaxBytes+5))); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

func TestFormula(t *testing.T) {
	vars := map[string]float64{"A": 7, "B": 2, "X.Y": 3}
	lookup := func(name string) (number, error) {
		if v, ok := vars[name]; ok {
			return floatOf(v), nil
		}
		return number{}, errors.New("unknown")
	}
	for _, x := range []struct {
		text     string
		ints     bool
		want     float64
		mustFail bool
	}{
		{"1+2*3", true, 7, false}, {"(1+2)*3", true, 9, false}, {"A/B", true, 3, false}, {"A/B", false, 3.5, false},
		{"7/2", false, 3.5, false}, {"-A+B", true, -5, false}, {"2**10", true, 1024, false}, {"2**3**2", true, 512,
			false},
		{"A>>1&3", true, 3, false}, {"0xFF & ~0xF", true, 0xf0, false}, {"A=7", true, 1, false}, {"A<>7", true, 0,
			false},
		{"A<B||B<A", true, 1, false}, {"A<B&&1/0", true, 0, false}, {"1 ? 2 : 1/0", true, 2, false},
		{"0 ? 2 : 0 ? 3 : 4", true, 4, false}, {"X.Y*2", true, 6, false}, {"SQRT(16)", false, 4, false},
		{"abs(-3)", true, 3, false}, {"ROUND(2.345, 2)", false, 2.35, false}, {"TRUNC(-2.5)", false, -2, false}, {"1e3",
			false, 1000, false},
		{"1e-3*1000", false, 1, false}, {"PI", false, math.Pi, false}, {"!A", true, 0, false}, {"NEG(A)", true, -7,
			false},
		{"0x10-0x1", true, 15, false}, {"A ^ B", true, 5, false}, {"A%B", true, 1, false}, {"5%2.5", false, 0, false},
		{"1/0", true, 0, true}, {"", true, 0, true}, {"1+", true, 0, true}, {"(1", true, 0, true}, {"1)", true, 0,
			true},
		{"C", true, 0, true}, {"1 ? 2", true, 0, true}, {"1 << -1", true, 0, true}, {"$", true, 0, true}, {"1x", true,
			0, true},
		{strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100), true, 0, true},
		{strings.Repeat("-", 100) + "1", true, 0, true}, {strings.Repeat(" ", maxFormula+1), true, 0, true},
		{strings.Repeat("1**", 100) + "1", true, 0, true},
	} {
		got, err := evaluate(x.text, x.ints, lookup)
		if (err != nil) != x.mustFail || err == nil && math.Abs(got.asFloat()-x.want) > 1e-12 {
			t.Errorf("%.40q: %v, %v, want %v", x.text, got, err, x.want)
		}
	}
}

// Whatever a camera describes, reading its features ends soon and panics never.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(description))
	f.Add([]byte(head + `<Category Name="Root"><pFeature>Root</pFeature></Category></RegisterDescription>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		c := New(m, memory{})
		ctx := t.Context()
		for _, name := range slices.Sorted(maps.Keys(m.nodes))[:min(len(m.nodes), 50)] {
			v, err := c.Get(ctx, name)
			if err == nil {
				_ = c.Set(ctx, name, v)
			}
			_ = c.Execute(ctx, name)
			c.Settable(ctx, name)
		}
		m.Features()
	})
}

// hostile is memory that has other bytes each time, fails at times, and counts.
type hostile struct {
	t        testing.TB
	seed     []byte
	accesses int
}

func (h *hostile) fate(addr uint32, n int) byte {
	if n < 1 || n > maxString || uint64(addr)+uint64(n) > maxAddress {
		h.t.Fatalf("%d bytes at %#x", n, addr)
	}
	if h.accesses++; len(h.seed) == 0 {
		return 0
	}
	return h.seed[h.accesses%len(h.seed)]
}

func (h *hostile) Read(_ context.Context, addr uint32, n int) ([]byte, error) {
	fate := h.fate(addr, n)
	if fate == 13 {
		return nil, errors.New("no answer")
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = fate ^ h.seed[(h.accesses+i+int(addr))%len(h.seed)]
	}
	return b, nil
}

func (h *hostile) Write(_ context.Context, addr uint32, data []byte) error {
	if h.fate(addr, len(data)) == 17 {
		return errors.New("no answer")
	}
	return nil
}

// Whatever a camera's registers say, and however that changes, an access ends after a bounded number of them, within
// the camera's memory, and what can be read of a feature can be tried as its value. Inputs are long, so that a search
// of more than seconds wants -fuzzminimizetime 10x: else it spends its time on making them shorter.
func FuzzRegisters(f *testing.F) {
	own, err := os.ReadFile("../simulator/description.xml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(description), []byte{0, 1, 255, 13, 7, 17}, "3")
	f.Add(own, []byte{1, 0, 0, 0, 128, 63}, "-1e300")
	f.Add([]byte(indirect), []byte{255}, "true")
	f.Fuzz(func(t *testing.T, text, seed []byte, value string) {
		m, err := Parse(text)
		if err != nil || len(seed) == 0 {
			return
		}
		h := &hostile{t: t, seed: seed}
		c, ctx := New(m, h), t.Context()
		one := func(what string, do func()) {
			h.accesses = 0
			if do(); h.accesses > maxWork/registerWork+1 {
				t.Fatalf("%s takes %d registers", what, h.accesses)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m.nodes))[:min(len(m.nodes), 50)] {
			now := ""
			one("get", func() { now, _ = c.Get(ctx, name) })
			one("set", func() { _ = c.Set(ctx, name, now) })
			one("set", func() { _ = c.Set(ctx, name, value) })
			one("execute", func() { _ = c.Execute(ctx, name) })
			one("settable", func() { c.Settable(ctx, name) })
		}
		one("chunks", func() {
			if all, err := c.Chunks(ctx); err == nil {
				before := h.accesses
				if all.Read(map[uint32][]byte{1: seed}); h.accesses != before {
					t.Fatal("chunks ask the camera")
				}
			}
		})
	})
}

// indirect has registers at addresses that other registers say, in a circle, too.
const indirect = head + `<Category Name="Root"><pFeature>ChunkA</pFeature></Category>
<IntReg Name="A"><pAddress>B</pAddress><Length>4</Length></IntReg>
<IntReg Name="B"><pAddress>C</pAddress><pLength>L</pLength></IntReg>
<IntReg Name="C"><Address>0xfffffffe</Address><pIndex pOffset="A">L</pIndex><Length>8</Length></IntReg>
<IntReg Name="L"><Address>8</Address><Length>1</Length></IntReg>
<StringReg Name="S"><pAddress>L</pAddress><pLength>L</pLength></StringReg>
<Integer Name="I"><pValue>M</pValue><pMin>I</pMin><pMax>A</pMax></Integer>
<MaskedIntReg Name="M"><Address>0</Address><Length>8</Length><LSB>-9</LSB><MSB>99</MSB></MaskedIntReg>
<Integer Name="X"><pIndex>L</pIndex><pValueIndexed Index="1">X</pValueIndexed><pValueDefault>L</pValueDefault></Integer>
<Converter Name="V"><FormulaTo>FROM/L</FormulaTo><FormulaFrom>TO**TO</FormulaFrom>
 <pVariable Name="L">L</pVariable><pValue>L</pValue></Converter>
<Boolean Name="Y"><pValue>L</pValue><pIsLocked>Y</pIsLocked></Boolean>
<IntReg Name="ChunkA"><Address>0</Address><Length>2</Length><pPort>P</pPort></IntReg><Port Name="P"><ChunkID>1</ChunkID></Port>
</RegisterDescription>`

// A description can't make one access much work, by long formulas, many children or many registers, nor take much
// memory.
func TestWork(t *testing.T) {
	long := strings.Repeat("1+", 4000) + "1"
	wide := strings.Repeat("<a/>", 50_000)
	for name, text := range map[string]string{
		"formulas": `<IntSwissKnife Name="F"><pVariable Name="A">G</pVariable><Formula>` +
			strings.Repeat("A+", 2000) + `1</Formula></IntSwissKnife><IntSwissKnife Name="G"><Formula>` + long +
			`</Formula></IntSwissKnife>`,
		"children": `<IntSwissKnife Name="F"><Constant Name="A">1</Constant>` + wide + `<Formula>` +
			strings.Repeat("A+", 2000) + `1</Formula></IntSwissKnife>`,
		"nodes": `<IntSwissKnife Name="F"><pVariable Name="A">G</pVariable><Formula>` + strings.Repeat("A+", 2000) +
			`1</Formula></IntSwissKnife><Integer Name="G">` + wide + `<Value>1</Value></Integer>`,
		"registers": `<IntSwissKnife Name="F"><pVariable Name="A">G</pVariable><Formula>` + strings.Repeat("A+", 3000) +
			`1</Formula></IntSwissKnife><IntReg Name="G"><Address>0</Address><Length>8</Length><a/><a/><a/></IntReg>`,
	} {
		m, err := Parse([]byte(head + text + "</RegisterDescription>"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		count := &counting{}
		v, err := New(m, count).Get(t.Context(), "F")
		if name == "registers" { // as many as are needed by nobody
			if err != nil || count.reads != 3000 {
				t.Errorf("%s: %s, %v, %d reads", name, v, err, count.reads)
			}
		} else if err == nil || !strings.Contains(err.Error(), "more work") {
			t.Errorf("%s: %.20s, %v", name, v, err)
		}
	}
	entries := strings.Repeat(`<StructEntry Name="S"><Bit>0</Bit></StructEntry>`, 1000)
	m, err := Parse([]byte(head + `<StructReg>` + wide + entries + `</StructReg></RegisterDescription>`))
	if err != nil || len(m.nodes["S"].children) > maxCommon+1 {
		t.Errorf("an entry has %d children, %v", len(m.nodes["S"].children), err)
	}
	name := strings.Repeat("N", 10_000)
	m, err = Parse([]byte(head + `<Category Name="Root"><pFeature>` + name + `</pFeature></Category><Category Name="` +
		name +
		`"><pFeature>I</pFeature></Category><Integer Name="I"><Value>1</Value></Integer></RegisterDescription>`))
	if err != nil || len(m.Features()) != 1 || len(m.Features()[0].Category) > maxPath {
		t.Errorf("%v, %.60v", err, m.Features())
	}
	pieces := strings.Repeat("x<!---->", maxText) // of text
	if m, err = Parse([]byte(head + "<a Name='A'>" + pieces + "</a></RegisterDescription>")); err != nil ||
		len(m.nodes["A"].text) != maxText {
		t.Error(err)
	}
}

func FuzzFormula(f *testing.F) {
	for _, s := range []string{"1+2*3 ? A : B", "SQRT(A)**2 << 3", "A<B&&1/0", "0xFF&~3", "ROUND(A, 2)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lookup := func(string) (number, error) { return intOf(3), nil }
		for _, ints := range []bool{true, false} {
			a, err := evaluate(s, ints, lookup)
			b, again := evaluate(s, ints, lookup)
			if (err == nil) != (again == nil) || a.String() != b.String() || err == nil && a.float == ints {
				t.Fatalf("%q: %v, %v and %v, %v", s, a, err, b, again)
			}
		}
	})
}

// Features of chunks are read out of what came behind an image, and what else they need of the camera is read once. One
// that its chunk doesn't hold says so; one whose chunk isn't there isn't.
func TestChunks(t *testing.T) {
	const text = `<RegisterDescription>
		<Category Name="Root"><pFeature>ChunkCounter</pFeature><pFeature>ChunkGain</pFeature><pFeature>ChunkFar</pFeature>
			<pFeature>ChunkModeActive</pFeature><pFeature>Width</pFeature><pFeature>ChunkBad</pFeature></Category>
		<IntReg Name="ChunkCounter"><Address>2</Address><Length>2</Length><pPort>A</pPort><Endianess>BigEndian</Endianess></IntReg>
		<Converter Name="ChunkGain"><FormulaFrom>TO * SCALE</FormulaFrom><FormulaTo>FROM</FormulaTo><pVariable Name="SCALE">Width</pVariable>
			<pValue>GainReg</pValue></Converter>
		<IntReg Name="GainReg"><Address>0</Address><Length>1</Length><pPort>B</pPort></IntReg>
		<IntReg Name="ChunkFar"><Address>0xfffffff0</Address><Length>4</Length><pPort>A</pPort></IntReg>
		<IntReg Name="ChunkModeActive"><Address>8</Address><Length>4</Length><pPort>Device</pPort></IntReg>
		<IntReg Name="ChunkBad"><Address>8</Address><Length>4</Length><pPort>C</pPort></IntReg>
		<IntReg Name="Width"><Address>4</Address><Length>4</Length><pPort>Device</pPort><Endianess>BigEndian</Endianess></IntReg>
		<Port Name="A"><ChunkID>ff01</ChunkID></Port><Port Name="B"><ChunkID>0x2</ChunkID></Port><Port Name="C"><ChunkID>no</ChunkID></Port>
		<Port Name="Device"/><Port Name="EventEndPort"><EventID>9001</EventID></Port></RegisterDescription>`
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	memory := &counting{}
	c := New(m, memory)
	chunks, err := c.Chunks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reads := memory.reads
	got := fmt.Sprint(chunks.Read(map[uint32][]byte{0xff01: {9, 9, 1, 2}, 2: {3}}))
	if want := "[{ChunkCounter 258} {ChunkGain 15} {ChunkFar ?}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(chunks.Read(map[uint32][]byte{2: {}})); got != "[{ChunkGain ?}]" {
		t.Errorf("%s", got)
	}
	if memory.reads != reads || reads == 0 {
		t.Errorf("the camera was asked %d and %d times", reads, memory.reads)
	}
	if err := c.Set(t.Context(), "ChunkCounter", "3"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v", err)
	}
	if a, b := m.EventName(0x9001), m.EventName(1); a != "EventEnd" || b != "" {
		t.Errorf("%q, %q", a, b)
	}
}

// counting is memory of fives that counts reads.
type counting struct{ reads int }

func (c *counting) Read(_ context.Context, _ uint32, n int) ([]byte, error) {
	c.reads++
	b := make([]byte, n)
	b[n-1] = 5
	return b, nil
}

func (c *counting) Write(context.Context, uint32, []byte) error { return nil }
