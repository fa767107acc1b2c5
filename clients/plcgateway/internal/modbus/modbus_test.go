package modbus

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	other "github.com/simonvetter/modbus"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// source answers jobs as the test says, and holds them until then.
type source struct{ jobs chan *station.Job }

func (s *source) Inspect(j *station.Job)                                { s.jobs <- j }
func (*source) Prepare(context.Context, station.Recipe) (uint64, error) { return 70000, nil }
func (*source) Unprepare(station.Recipe)                                {}
func (*source) Reset()                                                  {}

func newStation(t testing.TB, name string) (*station.Station, *source) {
	src := &source{make(chan *station.Job, 64)}
	st, err := station.New(station.Config{
		Name: name, Deadline: time.Minute, HeartbeatTimeout: time.Minute, Values: []string{"U7.mean", "gaps.max"},
		Slots: map[uint16]station.Recipe{3: {Slot: 3, Name: "board"}},
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	st.Link(true)
	return st, src
}

// start serves stations as units 1, 2, ....
func start(t testing.TB, order WordOrder, stations ...*station.Station) (*Server, string) {
	t.Helper()
	s := NewServer()
	for i, st := range stations {
		if err := s.Add(uint8(i+1), st, order); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string, order WordOrder) *other.ModbusClient {
	t.Helper()
	c, err := other.NewClient(&other.ClientConfiguration{URL: "tcp://" + addr, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w := other.HIGH_WORD_FIRST
	if order == LowFirst {
		w = other.LOW_WORD_FIRST
	}
	if err := c.SetEncoding(other.BIG_ENDIAN, w); err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A part, as the PLC of another library sees it, for both word orders.
func TestHandshake(t *testing.T) {
	for _, order := range []WordOrder{HighFirst, LowFirst} {
		t.Run(string(order), func(t *testing.T) {
			st, src := newStation(t, "s1")
			_, addr := start(t, order, st)
			c := dial(t, addr, order)
			write := func(address uint16, w ...uint16) {
				t.Helper()
				if err := c.WriteRegisters(address, w); err != nil {
					t.Fatal(err)
				}
			}
			in := func(address uint16) uint16 { return must(c.ReadRegister(address, other.INPUT_REGISTER))(t) }
			in32 := func(address uint16) uint32 { return must(c.ReadUint32(address, other.INPUT_REGISTER))(t) }
			if in(0) != Version || in(1) != uint16(station.Preoperational) || in(10) != uint16(station.Reject) ||
				in(11) != ^uint16(station.Reject) || in32(6) != 0 {
				t.Error("before anything is written")
			}
			write(0, uint16(station.AckError), 1, 1, 3)
			write(0, 0)
			write(0, uint16(station.PrepareRecipe))
			for in(4) != uint16(station.PrepareRecipe) {
			}
			if in(5) != 0 || in(36) != 3 || in32(38) != 70000 || in(1) != uint16(station.Ready) || in(37) != 0 {
				t.Error("recipe not prepared")
			}
			if bits := must(c.ReadDiscreteInputs(0, 9))(t); !bits[0] || !bits[1] || bits[2] || bits[8] {
				t.Errorf("discrete inputs %v", bits)
			}
			id := uint32(0x12345678)
			hi, lo := uint16(id>>16), uint16(id&0xFFFF)
			if order == LowFirst {
				hi, lo = lo, hi
			}
			write(5, hi, lo, 0, 'B'<<8|'-', '1'<<8) // the part B-1
			if err := c.WriteCoil(1, true); err != nil {
				t.Fatal(err)
			}
			if coils := must(c.ReadCoils(0, 3))(t); !coils[0] || !coils[1] || coils[2] {
				t.Errorf("coils %v", coils)
			}
			if in(2) != uint16(station.Online|station.TriggerAck|station.Busy) || in32(32) != id {
				t.Errorf("bits %b", in(2))
			}
			j := <-src.jobs
			if j.TriggerID != id || j.PartID != "B-1" {
				t.Errorf("%+v", j)
			}
			j.Answer(station.Outcome{
				Reason: station.ReasonFail, PartID: "B-1", Recipe: "board", RecipeVersion: 70000, FailedRegions: 2,
				FirstFailed: 5, Values: []float32{1.25},
			})
			w := must(c.ReadRegisters(0, 125, other.INPUT_REGISTER))(t)
			if w[10] != uint16(station.Fail) || w[11] != ^w[10] || w[12] != 2 || w[13] != 5 ||
				w[16] != uint16(station.ReasonFail) ||
				w[17] != 3 {
				t.Errorf("%v", w[:20])
			}
			if in32(6) != id || in32(8) != 1 || in32(110) != 1 || in32(104) != id || in32(18) != 70000 || in32(24) != 1 ||
				in32(20) != 1 || in32(128) != 1 {
				t.Error("numbers of 32 bits")
			}
			if v := must(c.ReadFloat32(40, other.INPUT_REGISTER))(t); v != 1.25 {
				t.Errorf("value %v", v)
			}
			if v := must(c.ReadFloat32(102, other.INPUT_REGISTER))(t); !math.IsNaN(float64(v)) {
				t.Errorf("value that is not there %v", v)
			}
			if part := text(must(c.ReadRegisters(112, 16, other.INPUT_REGISTER))(t)); part != "B-1" {
				t.Errorf("part %q", part)
			}
			if st.Snapshot().Result.Steps.Read.IsZero() {
				t.Error("not marked as read")
			}
			write(1, 1|4)
			if in32(8) != 0 || in(2) != uint16(station.Online|station.ReadyBit) {
				t.Error("not acknowledged")
			}
		})
	}
}

// Function 23, which the other library lacks, and all that is refused.
func TestRequests(t *testing.T) {
	st, _ := newStation(t, "s1")
	two, _ := newStation(t, "s2")
	s := NewServer()
	for i, st := range []*station.Station{st, two} {
		if err := s.Add(uint8(i+1), st, HighFirst); err != nil {
			t.Fatal(err)
		}
	}
	from := netip.MustParseAddr("10.0.0.1")
	ask := func(id uint8, pdu ...byte) []byte { return s.answer(from, id, pdu, nil) }
	for name, c := range map[string]struct{ got, want []byte }{
		"write and read":               {ask(1, 23, 0x03, 0xE8, 0, 3, 0, 1, 0, 1, 2, 0, 1), []byte{23, 6, 0, 1, 0, 1, 0, 1}},
		"holding registers":            {ask(1, 3, 0, 1, 0, 1), []byte{3, 2, 0, 1}},
		"inputs among holdings":        {ask(1, 3, 0x03, 0xE8, 0, 1), []byte{3, 2, 0, 1}},
		"write a register":             {ask(1, 6, 0, 3, 0, 9), []byte{6, 0, 3, 0, 9}},
		"write coils":                  {ask(1, 15, 0, 1, 0, 2, 1, 2), []byte{15, 0, 1, 0, 2}},
		"coils":                        {ask(1, 1, 0, 0, 0, 3), []byte{1, 1, 5}},
		"discrete inputs":              {ask(1, 2, 0, 0, 0, 9), []byte{2, 2, 1, 0}},
		"the last input":               {ask(1, 4, 0, 129, 0, 1), []byte{4, 2, 0, 0}},
		"beyond the last input":        {ask(1, 4, 0, 129, 0, 2), []byte{0x84, 2}},
		"beyond the last holding":      {ask(1, 3, 0, 23, 0, 2), []byte{0x83, 2}},
		"writing inputs":               {ask(1, 6, 0x03, 0xE8, 0, 1), []byte{0x86, 2}},
		"beyond the last coil":         {ask(1, 1, 0, 0, 0, 4), []byte{0x81, 2}},
		"a coil that is none":          {ask(1, 5, 0, 3, 0xFF, 0), []byte{0x85, 2}},
		"a coil half set":              {ask(1, 5, 0, 0, 0, 1), []byte{0x85, 3}},
		"no register":                  {ask(1, 4, 0, 0, 0, 0), []byte{0x84, 3}},
		"too many registers":           {ask(1, 4, 0, 0, 0, 126), []byte{0x84, 3}},
		"too many bits":                {ask(1, 2, 0, 0, 0x07, 0xD1), []byte{0x82, 3}},
		"bytes that don't fit":         {ask(1, 16, 0, 0, 0, 2, 4, 0, 1, 0), []byte{0x90, 3}},
		"another count than there are": {ask(1, 16, 0, 0, 0, 2, 2, 0, 1), []byte{0x90, 3}},
		"a short request":              {ask(1, 4, 0, 0), []byte{0x84, 3}},
		"no function":                  {ask(1, 0), []byte{0x80, 1}},
		"another function":             {ask(1, 43, 14, 1, 0), []byte{0xAB, 1}},
		"another unit":                 {ask(3, 4, 0, 0, 0, 1), []byte{0x84, 11}},
		"unit 0 of two":                {ask(0, 4, 0, 0, 0, 1), []byte{0x84, 11}},
		"the second station":           {ask(2, 3, 0, 1, 0, 1), []byte{3, 2, 0, 0}},
		"another client": {s.answer(netip.MustParseAddr("10.0.0.2"), 1, []byte{6, 0, 3, 0, 9}, nil),
			[]byte{0x86, 6}},
		"another client reads": {s.answer(netip.MustParseAddr("10.0.0.2"), 1, []byte{4, 0, 0, 0, 1}, nil),
			[]byte{4, 2, 0, 1}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: % x, want % x", name, c.got, c.want)
		}
	}
	if st.Snapshot().Holder != "modbus 10.0.0.1" || two.Snapshot().Holder != "" {
		t.Errorf("held by %q and %q", st.Snapshot().Holder, two.Snapshot().Holder)
	}
	for _, id := range []uint8{0, 1, 248} {
		if s.Add(id, st, HighFirst) == nil {
			t.Errorf("unit %d taken", id)
		}
	}
}

// The map has no overlaps, and says where everything is that a PLC program relies on.
func TestMap(t *testing.T) {
	used := map[string]string{}
	size := map[Kind]int{Input: inputs, Holding: holdings, Discrete: len(station.BitNames), Coil: coils}
	at := map[string]int{}
	for _, r := range Registers([]string{"U7.mean"}) {
		for a := r.Address; a < r.Address+r.Words; a++ {
			k := fmt.Sprint(r.Kind, a)
			if used[k] != "" || a >= size[r.Kind] {
				t.Errorf("%s %d: %s and %q", r.Kind, a, r.Name, used[k])
			}
			used[k] = r.Name
		}
		at[string(r.Kind)+" "+r.Name] = r.Address
	}
	for name, want := range map[string]int{
		"input register map_version": 0, "input register state": 1, "input register bits": 2, "input register heartbeat": 3,
		"input register command_done": 4, "input register error": 5, "input register result_trigger_id": 6,
		"input register result_sequence": 8, "input register verdict": 10, "input register verdict_complement": 11,
		"input register failed_regions": 12, "input register first_failed": 13, "input register latency_us": 14,
		"input register triggers": 20, "input register overruns": 30, "input register value_1": 40,
		"input register value_32": 102, "input register result_sequence_again": 110, "holding register command": 0,
		"holding register control": 1, "holding register plc_heartbeat": 2, "holding register recipe_slot": 3,
		"holding register recipe_version": 4, "holding register trigger_id": 5, "holding register part_id": 8,
		"discrete input server_lost": 8, "coil results_ack": 2,
	} {
		if got, ok := at[name]; !ok || got != want {
			t.Errorf("%s at %d, want %d", name, got, want)
		}
	}
	var table, sheet, st bytes.Buffer
	if err := errors.Join(WriteTable(&table, nil), WriteCSV(&sheet, []string{"U7.mean"}), WriteST(&st, nil)); err != nil {
		t.Fatal(err)
	}
	rows := must(csv.NewReader(&sheet).ReadAll())(t)
	if len(rows) != 1+len(Registers(nil)) || !strings.Contains(fmt.Sprint(rows), "U7.mean") {
		t.Errorf("%d rows", len(rows))
	}
	for _, want := range []string{
		"PS_VERDICT_PASS : WORD := 16#A5C3;", "PS_IR_VERDICT : UINT := 10;", "PS_CMD_ACKNOWLEDGE_ERROR : UINT := 11;",
	} {
		if !strings.Contains(st.String(), want) {
			t.Errorf("no %q in\n%s", want, &st)
		}
	}
	got := table.String()
	if !strings.Contains(got, "\n40-103   value_1 to value_32      REAL        no value is configured\n") {
		t.Errorf("table:\n%s", got)
	}
	// Every row is there, with its meaning, however it is wrapped.
	flat := strings.Join(strings.Fields(got), " ")
	for _, r := range Registers(nil) {
		if r.Doc != unnamed && !strings.Contains(flat, strings.TrimSpace(span(r)+" "+r.Name+" "+r.Type)) {
			t.Errorf("no %s %s in\n%s", r.Kind, r.Name, got)
		}
		var doc strings.Builder // as it stands in the column of meanings
		for _, line := range strings.Split(got, "\n") {
			if len(line) > 46 {
				doc.WriteString(line[46:] + " ")
			}
		}
		if !strings.Contains(doc.String(), r.Doc) {
			t.Errorf("no %q in\n%s", r.Doc, got)
		}
	}
}

// The table fits a terminal whatever the values are called, and each value that has a name has a row.
func TestTableWidth(t *testing.T) {
	long := strings.Repeat("Dichtung,Süd.", 12) + "mean"
	for _, values := range [][]string{
		nil, {"U7.mean"}, {long, "the seam at the left, above the second screw.standard deviation"},
		slices.Repeat([]string{"a"}, station.MaxValues-1), slices.Repeat([]string{"ねじ穴の周り.平均"}, station.MaxValues),
	} {
		var out strings.Builder
		if err := WriteTable(&out, values); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if n := uniseg.StringWidth(line); n > 80 || strings.HasSuffix(line, " ") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		joined := strings.NewReplacer(" ", "", "\n", "").Replace(out.String())
		for i, v := range values {
			if want := fmt.Sprintf("value_%dREAL%s", i+1, strings.ReplaceAll(v, " ", "")); !strings.Contains(joined, want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
		left := ""
		switch n := station.MaxValues - len(values); {
		case n == 1:
			left = "value_32REAL" + strings.ReplaceAll(unnamed, " ", "")
		case n > 1:
			left = fmt.Sprintf("value_%dtovalue_32REAL", len(values)+1)
		}
		if !strings.Contains(joined, left) || left == "" && strings.Contains(out.String(), unnamed) {
			t.Errorf("no %q in\n%s", left, &out)
		}
	}
}

// More connections than there may be, half of them within a frame, some that read nothing: the PLC that asks is served,
// and what others hold is bounded.
func TestConnections(t *testing.T) {
	st, _ := newStation(t, "s1")
	s, addr := start(t, HighFirst, st)
	plc := dial(t, addr, HighFirst)
	if err := plc.WriteRegister(2, 1); err != nil {
		t.Fatal(err)
	}
	dials := 1000
	if testing.Short() {
		dials = 2 * MaxConnections
	}
	before := inUse()
	for i := range dials {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		switch i % 3 {
		case 1:
			_, err = c.Write([]byte{0, 1, 0, 0, 0, 6, 1, 4})
		case 2: // answers that nobody reads
			_, err = c.Write(bytes.Repeat([]byte{0, 1, 0, 0, 0, 6, 1, 4, 0, 0, 0, 125}, 40))
		}
		_ = err // it may be closed by now
		if _, err := plc.ReadRegisters(0, 112, other.INPUT_REGISTER); err != nil {
			t.Fatalf("after %d connections: %v", i, err)
		}
		if n := s.Stats().Connections; n > MaxConnections {
			t.Fatalf("%d connections", n)
		}
	}
	if n := s.Stats(); n.Dropped == 0 {
		t.Errorf("%+v", n)
	}
	// 32 KiB for each connection that may be open, and 4 KiB for each of the test's own ends.
	if grown, most := inUse()-before, int64(MaxConnections<<15+dials<<12); grown > most {
		t.Errorf("%d connections take %d bytes, at most %d", dials, grown, most)
	}
}

// inUse is the memory of heap and stacks in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestMalformed(t *testing.T) {
	st, _ := newStation(t, "s1")
	s, addr := start(t, HighFirst, st)
	for _, frame := range []string{
		"\x00\x01\x00\x01\x00\x06\x01\x04\x00\x00\x00\x01", // another protocol
		"\x00\x01\x00\x00\x00\x01\x01",                     // too short for a function
		"\x00\x01\x00\x00\x01\x00\x01\x04",                 // longer than a frame may be
	} {
		c := must(net.Dial("tcp", addr))(t)
		if _, err := c.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil {
			t.Errorf("% x: answered", frame)
		}
		c.Close()
	}
	if n := s.Stats().Malformed; n != 3 {
		t.Errorf("%d malformed", n)
	}
}

// FuzzAnswer: whatever comes, an answer is one that the standard has, and no verdict is PASS where nobody said so.
func FuzzAnswer(f *testing.F) {
	f.Add(uint8(1), []byte{4, 0, 0, 0, 125}, []byte{16, 0, 0, 0, 2, 4, 0, 11, 0, 1})
	f.Add(uint8(1), []byte{23, 3, 232, 0, 100, 0, 1, 0, 1, 2, 0, 1}, []byte{15, 0, 1, 0, 2, 1, 2})
	f.Add(uint8(255), []byte{5, 0, 0, 255, 0}, []byte{43, 14})
	st, src := newStation(f, "s1")
	go func() {
		for j := range src.jobs {
			j.Answer(station.Outcome{Reason: station.ReasonFail, PartID: j.PartID, Recipe: "board", RecipeVersion: 70000})
		}
	}()
	s := NewServer()
	if err := s.Add(1, st, LowFirst); err != nil {
		f.Fatal(err)
	}
	from := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, id uint8, first, second []byte) {
		for _, pdu := range [][]byte{first, second, {4, 0, 0, 0, 125}} {
			if len(pdu) == 0 || len(pdu) > maxPDU {
				continue
			}
			a := s.answer(from, id, pdu, nil)
			switch {
			case len(a) < 2 || len(a) > maxPDU:
				t.Fatalf("% x: %d bytes", pdu, len(a))
			case a[0] == pdu[0]|0x80 && len(a) == 2 && a[1] > 0 && a[1] < 12:
			case a[0] != pdu[0]:
				t.Fatalf("% x: function %d answered", pdu, a[0])
			case (a[0] <= 4 || a[0] == 23) && len(a) != 2+int(a[1]):
				t.Fatalf("% x: % x", pdu, a)
			}
		}
		if v := st.Snapshot().Result.Verdict; v == station.Pass {
			t.Fatal("PASS")
		}
	})
}
