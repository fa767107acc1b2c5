package modbus

// The map: one table, from which registers are filled, and printed.

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Version is the number of the map, in input register 0. It changes when an address changes its meaning.
const Version = 1

// Sizes of the address spaces. What has no register in them reads 0.
const (
	inputs   = 130
	holdings = 24
	coils    = 3
	firstVal = 40
)

// Kind is an address space.
type Kind string

// Address spaces.
const (
	Input    Kind = "input register"
	Holding  Kind = "holding register"
	Discrete Kind = "discrete input"
	Coil     Kind = "coil"
)

// Register is an entry of the map.
type Register struct {
	Kind    Kind
	Address int // from 0, as in the protocol
	Words   int // of 16 bits; 1 for bits
	Name    string
	Type    string // of IEC 61131-3
	Doc     string

	fill func(s *station.Snapshot, w []uint16, o WordOrder) // of input registers
}

// WordOrder is where the high word of 32 bits is.
type WordOrder string

// Word orders.
const (
	HighFirst WordOrder = "high-first"
	LowFirst  WordOrder = "low-first"
)

func (o WordOrder) put(w []uint16, v uint32) {
	if o == LowFirst {
		w[0], w[1] = uint16(v), uint16(v>>16)
	} else {
		w[0], w[1] = uint16(v>>16), uint16(v)
	}
}

func (o WordOrder) get(w []uint16) uint32 {
	if o == LowFirst {
		return uint32(w[1])<<16 | uint32(w[0])
	}
	return uint32(w[0])<<16 | uint32(w[1])
}

func word(f func(s *station.Snapshot) uint16) func(*station.Snapshot, []uint16, WordOrder) {
	return func(s *station.Snapshot, w []uint16, _ WordOrder) { w[0] = f(s) }
}

func dword(f func(s *station.Snapshot) uint32) func(*station.Snapshot, []uint16, WordOrder) {
	return func(s *station.Snapshot, w []uint16, o WordOrder) { o.put(w, f(s)) }
}

func small(n int) uint16 { return uint16(min(n, math.MaxUint16)) }

func micros(d time.Duration) uint32 { return uint32(min(max(d.Microseconds(), 0), math.MaxUint32)) }

// unnamed is the meaning of a value that the configuration does not name.
const unnamed = "no value is configured"

// The types of the map.
const (
	tWord  = "WORD"
	tUint  = "UINT"
	tUdint = "UDINT"
	tReal  = "REAL"
	tBool  = "BOOL"
)

// Registers is the map. values are the names that the configuration gives to the numbers.
func Registers(values []string) []Register {
	sequence := dword(func(s *station.Snapshot) uint32 { return s.Result.Sequence })
	trigger := dword(func(s *station.Snapshot) uint32 { return s.Result.TriggerID })
	in := func(address, words int, name, typ, doc string, fill func(*station.Snapshot, []uint16, WordOrder)) Register {
		return Register{Input, address, words, name, typ, doc, fill}
	}
	counter := func(address int, name, doc string, f func(c *station.Counters) uint32) Register {
		return in(address, 2, name, tUdint, doc, dword(func(s *station.Snapshot) uint32 { return f(&s.Counters) }))
	}
	all := []Register{
		in(0, 1, "map_version", tUint, fmt.Sprintf("%d", Version), word(func(*station.Snapshot) uint16 { return Version })),
		in(1, 1, "state", tUint, names(1, 7, func(n uint16) string { return station.State(n).String() }),
			word(func(s *station.Snapshot) uint16 { return uint16(s.State) })),
		in(2, 1, "bits", tWord, bitDoc(station.BitNames), word(func(s *station.Snapshot) uint16 { return uint16(s.Bits) })),
		in(3, 1, "heartbeat", tUint, "moves 10 times a second, never 0",
			word(func(s *station.Snapshot) uint16 { return s.Heartbeat })),
		in(4, 1, "command_done", tUint, "the last command that was carried out, or refused",
			word(func(s *station.Snapshot) uint16 { return uint16(s.Command) })),
		in(5, 1, "error", tUint, names(0, 16, func(n uint16) string { return station.Code(n).String() }),
			word(func(s *station.Snapshot) uint16 { return uint16(s.Error) })),
		in(6, 2, "result_trigger_id", tUdint, "trigger that is answered; 0: none", trigger),
		in(8, 2, "result_sequence", tUdint, "number of the answer; 0: none", sequence),
		in(10, 1, "verdict", tWord, fmt.Sprintf("16#%04X PASS, 16#%04X FAIL, 16#%04X REJECT", uint16(station.Pass),
			uint16(station.Fail), uint16(station.Reject)),
			word(func(s *station.Snapshot) uint16 { return uint16(s.Result.Verdict) })),
		in(11, 1, "verdict_complement", tWord, "NOT verdict, or there is none",
			word(func(s *station.Snapshot) uint16 { return s.Result.Complement() })),
		in(12, 1, "failed_regions", tUint, "", word(func(s *station.Snapshot) uint16 { return small(s.Result.FailedRegions) })),
		in(13, 1, "first_failed", tUint, "index from 0; 16#FFFF: none", word(func(s *station.Snapshot) uint16 {
			if s.Result.FailedRegions == 0 {
				return math.MaxUint16
			}
			return small(s.Result.FirstFailed)
		})),
		in(14, 2, "latency_us", tUdint, "from the trigger to its answer",
			dword(func(s *station.Snapshot) uint32 { return micros(s.Result.Latency) })),
		in(16, 1, "reason", tUint, names(0, 11, func(n uint16) string { return station.Reason(n).String() }),
			word(func(s *station.Snapshot) uint16 { return uint16(s.Result.Reason) })),
		in(17, 1, "result_slot", tUint, "recipe slot that judged",
			word(func(s *station.Snapshot) uint16 { return s.Result.Recipe.Slot })),
		in(18, 2, "result_version", tUdint, "version of that recipe",
			dword(func(s *station.Snapshot) uint32 { return uint32(s.Result.Recipe.Version) })),
		counter(20, "triggers", "accepted", func(c *station.Counters) uint32 { return c.Accepted }),
		counter(22, "passed", "", func(c *station.Counters) uint32 { return c.Pass }),
		counter(24, "failed", "", func(c *station.Counters) uint32 { return c.Fail }),
		counter(26, "rejected", "", func(c *station.Counters) uint32 { return c.Reject }),
		counter(28, "missed", "triggers that were refused", func(c *station.Counters) uint32 { return c.Missed }),
		counter(30, "overruns", "triggers for which the queue was full", func(c *station.Counters) uint32 { return c.Overruns }),
		in(32, 2, "accepted_trigger_id", tUdint, "the last that was accepted; belongs to trigger_ack",
			dword(func(s *station.Snapshot) uint32 { return s.AcceptedID })),
		in(34, 1, "waiting", tUint, "answers that are not acknowledged",
			word(func(s *station.Snapshot) uint16 { return small(s.Waiting) })),
		in(35, 1, "running", tUint, "triggers without an answer", word(func(s *station.Snapshot) uint16 { return small(s.Running) })),
		in(36, 1, "slot", tUint, "prepared recipe that judges; 0: none",
			word(func(s *station.Snapshot) uint16 { return s.Recipe.Slot })),
		in(37, 1, "not_ready", tUint, "why not ready, as error; 0: ready",
			word(func(s *station.Snapshot) uint16 { return uint16(s.Missing) })),
		in(38, 2, "version", tUdint, "of the prepared recipe", dword(func(s *station.Snapshot) uint32 { return uint32(s.Recipe.Version) })),
	}
	for i := range station.MaxValues {
		doc := unnamed
		if i < len(values) {
			doc = values[i]
		}
		all = append(all, in(firstVal+2*i, 2, fmt.Sprintf("value_%d", i+1), tReal, doc,
			dword(func(s *station.Snapshot) uint32 { return math.Float32bits(s.Result.Values[i]) })))
	}
	all = append(all,
		in(104, 2, "result_trigger_id_again", tUdint, "", trigger),
		in(110, 2, "result_sequence_again", tUdint, "differs from result_sequence: read again", sequence),
		in(112, 16, "result_part_id", "STRING(32)", "first character in the high byte; 0 behind the last",
			func(s *station.Snapshot, w []uint16, _ WordOrder) { putText(w, s.Result.PartID) }),
		in(128, 2, "result_sequence_end", tUdint, "as result_sequence_again, behind the part id", sequence),
	)
	for i, name := range station.BitNames {
		all = append(all, Register{Discrete, i, 1, name, tBool, fmt.Sprintf("bits.%d", i), nil})
	}
	holding := func(address, words int, name, typ, doc string) {
		all = append(all, Register{Holding, address, words, name, typ, doc, nil})
	}
	holding(0, 1, "command", tUint, names(0, 11, func(n uint16) string { return station.Command(n).String() }))
	holding(1, 1, "control", tWord, bitDoc(controlNames))
	holding(2, 1, "plc_heartbeat", tUint, "must move every 500 ms")
	holding(3, 1, "recipe_slot", tUint, "of recipe commands")
	holding(4, 1, "recipe_version", tUint, "of prepare recipe; 0: as configured")
	holding(5, 2, "trigger_id", tUdint, "of the PLC's choice, another one for each part; not 0")
	holding(8, 16, "part_id", "STRING(32)", "first character in the high byte, 0 behind the last; empty: the next part")
	for i, name := range controlNames {
		all = append(all, Register{Coil, i, 1, name, tBool, fmt.Sprintf("control.%d", i), nil})
	}
	return all
}

// controlNames are the bits that a PLC writes.
var controlNames = []string{"enable", "trigger", "results_ack"}

func names(first, last uint16, of func(uint16) string) string {
	var s []string
	for n := first; n <= last; n++ {
		s = append(s, fmt.Sprintf("%d %s", n, of(n)))
	}
	return strings.Join(s, ", ")
}

func bitDoc(names []string) string {
	var s []string
	for i, n := range names {
		s = append(s, fmt.Sprintf("%d %s", i, n))
	}
	return strings.Join(s, ", ")
}

func putText(w []uint16, s string) {
	for i := range w {
		w[i] = 0
		if 2*i < len(s) {
			w[i] = uint16(s[2*i]) << 8
		}
		if 2*i+1 < len(s) {
			w[i] |= uint16(s[2*i+1])
		}
	}
}

// text is what registers hold up to the first 0, without spaces behind it.
func text(w []uint16) string {
	b := make([]byte, 0, 2*len(w))
	for _, v := range w {
		b = append(b, byte(v>>8), byte(v))
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimRight(s, " ")
}

// filler are the input registers of the map; they are the same for all stations.
var filler = Registers(nil)

// image fills the input registers.
func image(s *station.Snapshot, o WordOrder) (w [inputs]uint16) {
	for _, r := range filler {
		if r.fill != nil {
			r.fill(s, w[r.Address:r.Address+r.Words], o)
		}
	}
	return w
}

// outputs is what the holding registers ask for.
func outputs(w *[holdings]uint16, o WordOrder) station.Outputs {
	return station.Outputs{
		Enable: w[1]&1 != 0, Trigger: w[1]&2 != 0, ResultsAck: w[1]&4 != 0,
		Heartbeat: w[2], TriggerID: o.get(w[5:7]), PartID: text(w[8:24]), Command: station.Command(w[0]), Slot: w[3],
		Version: uint64(w[4]),
	}
}

// WriteTable prints the map for people, in 80 columns. Values without a name are one row.
func WriteTable(out io.Writer, values []string) error {
	const layout = "%-7s  %-23s  %-10s  %s" // the longest are 104-105, result_trigger_id_again and STRING(32)
	const meaning = 80 - (7 + 2 + 23 + 2 + 10 + 2)
	b := &strings.Builder{}
	row := func(address, name, typ, doc string) {
		for i, line := range wrap(doc, meaning) {
			if i > 0 {
				address, name, typ = "", "", ""
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf(layout, address, name, typ, line), " ") + "\n")
		}
	}
	kind := Kind("")
	rows := Registers(values)
	for i := 0; i < len(rows); i++ {
		r := rows[i]
		if r.Kind != kind {
			if kind != "" {
				b.WriteByte('\n')
			}
			kind = r.Kind
			fmt.Fprintf(b, "%sS\n", strings.ToUpper(string(kind)))
			row("ADDRESS", "NAME", "TYPE", "MEANING")
		}
		name := r.Name
		for r.Doc == unnamed && rows[i+1].Doc == unnamed { // another register is always behind them
			i++
			r.Words += rows[i].Words
		}
		if rows[i].Name != name {
			name += " to " + rows[i].Name
		}
		row(span(r), name, r.Type, r.Doc)
	}
	fmt.Fprintf(b, "\nHolding registers from %d on are the input registers, for function 23, which\nreads no others.\n",
		inputBase)
	_, err := io.WriteString(out, b.String())
	return err
}

func span(r Register) string {
	if r.Words == 1 {
		return strconv.Itoa(r.Address)
	}
	return fmt.Sprintf("%d-%d", r.Address, r.Address+r.Words-1)
}

// wrap breaks a text into lines of at most width columns: behind commas, so that items stay whole, otherwise between
// words, and within a word that is longer than a line. There is at least one line.
func wrap(text string, width int) []string {
	columns := func(s string) int { return uniseg.StringWidth(strings.TrimRight(s, " ")) }
	var lines []string
	line := ""
	add := func(piece string) {
		if columns(line+piece) > width && line != "" {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += piece
	}
	for item := range strings.SplitAfterSeq(text, ", ") {
		if columns(item) <= width {
			add(item)
			continue
		}
		for word := range strings.SplitAfterSeq(item, " ") {
			if columns(word) <= width {
				add(word)
				continue
			}
			for g := uniseg.NewGraphemes(word); g.Next(); {
				add(g.Str())
			}
		}
	}
	return append(lines, strings.TrimRight(line, " "))
}

// WriteCSV prints the map for spreadsheets and the import of engineering tools.
func WriteCSV(out io.Writer, values []string) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"kind", "address", "words", "name", "type", "meaning"})
	for _, r := range Registers(values) {
		_ = w.Write([]string{string(r.Kind), strconv.Itoa(r.Address), strconv.Itoa(r.Words), r.Name, r.Type, r.Doc})
	}
	w.Flush()
	return w.Error()
}

// WriteST prints the map as constants of structured text (IEC 61131-3): addresses, bits and words.
func WriteST(out io.Writer, values []string) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "(* Modbus map of plcgateway, version %d. Addresses count from 0. Made by: plcgateway map --format st *)\n", Version)
	b.WriteString("VAR_GLOBAL CONSTANT\n")
	prefix := map[Kind]string{Input: "IR", Holding: "HR", Discrete: "DI", Coil: "CO"}
	constant := func(name, typ, value, doc string) {
		line := fmt.Sprintf("    PS_%s : %s := %s;", strings.ToUpper(name), typ, value)
		if doc != "" {
			line = fmt.Sprintf("%-56s (* %s *)", line, strings.ReplaceAll(doc, "*)", "* )"))
		}
		b.WriteString(line + "\n")
	}
	for _, r := range Registers(values) {
		doc := strings.TrimSuffix(r.Type+", "+r.Doc, ", ")
		constant(prefix[r.Kind]+"_"+r.Name, tUint, strconv.Itoa(r.Address), doc)
	}
	constant("hr_inputs", tUint, strconv.Itoa(inputBase), "the input registers among the holding registers, for function 23")
	for _, v := range []station.Verdict{station.Pass, station.Fail, station.Reject} {
		constant("verdict_"+v.String(), tWord, fmt.Sprintf("16#%04X", uint16(v)), "")
	}
	number := func(group string, n uint16, name string) {
		constant(group+"_"+strings.ReplaceAll(name, " ", "_"), tUint, strconv.Itoa(int(n)), "")
	}
	for n := range uint16(12) {
		number("cmd", n, station.Command(n).String())
	}
	for n := station.Preoperational; n <= station.ContinuousExecution; n++ {
		number("state", uint16(n), n.String())
	}
	for n := range uint16(12) {
		number("reason", n, station.Reason(n).String())
	}
	for n := range uint16(17) {
		number("err", n, station.Code(n).String())
	}
	b.WriteString("END_VAR\n")
	_, err := io.WriteString(out, b.String())
	return err
}
