package main

// plcgateway simulate: the ladder of a PLC, to commission a gateway without one.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	other "github.com/simonvetter/modbus"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/modbus"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

type simulateCmd struct {
	// Gateway to talk to, by Modbus TCP.
	Addr string `default:"localhost:502" placeholder:"HOST:PORT"`
	// Unit id of the station.
	Unit uint8 `default:"1"`
	// Where the high word of 32 bits is: high-first or low-first.
	WordOrder string `enum:"high-first,low-first" default:"high-first"`
	// Recipe slot to prepare first; 0 leaves the one that is prepared.
	Recipe uint16 `placeholder:"SLOT" zero:""`
	// Parts to trigger (default: 10, and with --parts - all that are named).
	Count *int `placeholder:"N"`
	// Time from one trigger to the next.
	Every time.Duration `default:"100ms" without:"parts=-"`
	// Time between polls.
	Poll time.Duration `default:"2ms"`
	// Name the parts PREFIX0, PREFIX1, ...; without it each trigger takes the next part. With - standard input is a
	// light barrier: each line names a part that passes now, as conveyor --barrier writes it.
	Parts string `placeholder:"PREFIX"`
	// First trigger id.
	FirstID uint32 `default:"1"`
	// Time from the barrier to the gate: a part that has no answer by then is ejected. Also how long to wait for the
	// gateway.
	Patience time.Duration `default:"5s"`
	// Print each edge of the handshake.
	Edges bool
}

// plc is a simulated PLC: its memory is the image of the holding registers.
type plc struct {
	cmd    *simulateCmd
	client *other.ModbusClient
	stdin  io.Reader
	out    io.Writer
	count  int // parts to trigger
	begin  time.Time
	image  [24]uint16
	in     []uint16 // input registers 0 to 111, as last polled
	beat   time.Time
	last   station.Bits
}

// Names of the registers that the ladder uses.
const (
	irBits, irCommand, irError, irID, irSequence, irVerdict   = 2, 4, 5, 6, 8, 10
	irFailed, irFirst, irLatency, irReason, irMissing, irLast = 12, 13, 14, 16, 37, 110
	hrCommand, hrControl, hrBeat, hrSlot, hrID, hrPart        = 0, 1, 2, 3, 5, 8
	inputsPolled                                              = 112
)

var errPatience = errors.New("the gateway did not answer in time")

// What becomes of a part that has no verdict. It is ejected.
const (
	refused = "REFUSED" // the gateway did not take the trigger
	lost    = "LOST"    // it took the trigger, and gave no answer
	missed  = "MISSED"  // it answered, or the PLC could trigger, when the part had passed the gate
	noLink  = "NO LINK"
)

func (c *simulateCmd) Run(e *env) (err error) {
	count := 10
	if c.Parts == barrier {
		count = math.MaxInt
	}
	if c.Count != nil {
		count = *c.Count
	}
	switch {
	case count < 1:
		return usage("--count %d: must be 1 or more", count)
	case c.FirstID < 1:
		return usage("--first-id %d: must be 1 or more", c.FirstID)
	}
	for flag, d := range map[string]time.Duration{"--every": c.Every, "--poll": c.Poll, "--patience": c.Patience} {
		if d <= 0 {
			return usage("%s %v: must be above 0", flag, d)
		}
	}
	if c.Parts != "" && c.Parts != barrier {
		if err := checkPart(fmt.Sprintf("%s%d", c.Parts, count-1)); err != nil {
			return err
		}
	}
	client, err := other.NewClient(&other.ClientConfiguration{URL: "tcp://" + c.Addr, Timeout: c.Patience})
	if err != nil {
		return usage("--addr %s: %v", c.Addr, err)
	}
	if err := client.SetUnitId(c.Unit); err != nil {
		return usage("--unit %d: %v", c.Unit, err)
	}
	if err := client.Open(); err != nil {
		return awayError{fmt.Errorf("%w; is the gateway running there?", err)}
	}
	defer client.Close() // an error here is that of a link which is not there
	p := &plc{cmd: c, client: client, stdin: e.stdin, out: e.stdout, count: count, begin: time.Now()}
	err = p.run(e.ctx)
	switch {
	case errors.Is(err, other.ErrGWTargetFailedToRespond):
		return fmt.Errorf("%w: no station of the gateway has unit %d", err, c.Unit)
	case errors.Is(err, other.ErrServerDeviceBusy):
		return fmt.Errorf("%w: another PLC holds the station", err)
	}
	return err
}

// barrier is what --parts is where standard input names the parts.
const barrier = "-"

// partBytes is how long a part's id may be: its registers hold no more.
const partBytes = 32

// checkPart refuses the id of a part that the registers would cut.
func checkPart(name string) error {
	if len(name) > partBytes {
		return usage("--parts: id %q has %d bytes: must be at most %d", name, len(name), partBytes)
	}
	return nil
}

// passing is a part that passes the barrier.
type passing struct {
	name string
	at   time.Time
}

// waiting is how many parts may have passed the barrier before the PLC triggers them.
const waiting = 1024

// read follows the light barrier. The channel is closed behind the last part.
func (p *plc) read(ctx context.Context) <-chan passing {
	c := make(chan passing, waiting)
	go func() {
		defer close(c)
		for lines := bufio.NewScanner(p.stdin); lines.Scan(); {
			select {
			case c <- passing{strings.TrimSpace(lines.Text()), time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// run acknowledges the gateway, triggers parts, and reports. A link that breaks is made again, as a PLC does.
func (p *plc) run(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	// The reason is last: that of a refusal takes 24 columns, which makes 80.
	fmt.Fprintln(p.out, "TIME         TRIGGER   ACK RESULT LATENCY VERDICT EJECT REASON    (times in ms)")
	var named <-chan passing
	if p.cmd.Parts == barrier {
		named = p.read(ctx)
	}
	counts := map[string]int{}
	n, due := 0, time.Now()
	for ; n < p.count; n++ {
		var part passing
		more := true
		err := p.until(ctx, func() bool {
			if named == nil {
				part.at = time.Now()
				return !part.at.Before(due)
			}
			select {
			case part, more = <-named:
				return true
			default:
				return false
			}
		}, math.MaxInt64)
		if !more {
			break
		}
		if err == nil {
			if err := checkPart(part.name); err != nil {
				return err
			}
			due = part.at.Add(p.cmd.Every)
			if named == nil && p.cmd.Parts != "" {
				part.name = fmt.Sprintf("%s%d", p.cmd.Parts, n)
			}
			var verdict string
			if verdict, err = p.part(ctx, p.cmd.FirstID+uint32(n), part); verdict != "" {
				counts[verdict]++
			} else {
				n-- // there was no part
			}
		} else {
			n--
		}
		if err != nil {
			if err := p.relink(ctx, err); err != nil {
				return err
			}
		}
	}
	var parts []string
	for _, v := range []string{"PASS", "FAIL", "REJECT", refused, lost, missed, noLink} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	fmt.Fprintf(p.out, "%d parts: %s\n", n, strings.Join(parts, ", "))
	p.image[hrControl] = 0
	if err := p.write(); err != nil {
		return err
	}
	if counts[lost] > 0 {
		return fmt.Errorf("%d triggers were accepted and got no answer", counts[lost])
	}
	return nil
}

// relink makes the link again, and begins anew, as often as it takes.
func (p *plc) relink(ctx context.Context, why error) error {
	for said := ""; ctx.Err() == nil; {
		if said != why.Error() {
			said = why.Error()
			fmt.Fprintf(p.out, "%s link: %s\n", time.Now().Format(clock), said)
		}
		p.client.Close()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		if why = p.client.Open(); why != nil {
			continue
		}
		p.image = [len(p.image)]uint16{hrBeat: p.image[hrBeat]}
		if why = p.start(ctx); why == nil {
			return nil
		}
	}
	return ctx.Err()
}

// clock is how times are printed.
const clock = "15:04:05.000"

// start acknowledges that the gateway is new, empties what another PLC left, and prepares the recipe.
func (p *plc) start(ctx context.Context) error {
	p.image[hrControl] = 1
	for _, c := range []struct {
		cmd  station.Command
		slot uint16
	}{{station.AckError, 0}, {station.Reset, 0}, {station.PrepareRecipe, p.cmd.Recipe}} {
		if c.cmd == station.PrepareRecipe && c.slot == 0 {
			continue
		}
		if err := p.command(ctx, c.cmd, c.slot); err != nil {
			return err
		}
	}
	err := p.until(ctx, func() bool { return p.bits()&station.ReadyBit != 0 }, p.cmd.Patience)
	if errors.Is(err, errPatience) {
		return fmt.Errorf("the station is not ready: %s", station.Code(p.in[irMissing]).String())
	}
	return err
}

// command is the handshake of commands: write it, wait until it is shown as done, take it back.
func (p *plc) command(ctx context.Context, cmd station.Command, slot uint16) error {
	p.image[hrCommand], p.image[hrSlot] = uint16(cmd), slot
	if err := p.write(); err != nil {
		return err
	}
	if err := p.until(ctx, func() bool { return p.in[irCommand] == uint16(cmd) }, p.cmd.Patience); err != nil {
		return fmt.Errorf("command %v: %w", cmd, err)
	}
	code := station.Code(p.in[irError])
	p.edge("command %v: %s", cmd, code.String())
	p.image[hrCommand] = 0
	if err := p.write(); err != nil {
		return err
	}
	if err := p.until(ctx, func() bool { return p.in[irCommand] == 0 }, p.cmd.Patience); err != nil {
		return fmt.Errorf("command %v taken back: %w", cmd, err)
	}
	switch code {
	case station.NoError:
		return nil
	case station.UnknownRecipe:
		return fmt.Errorf("command %v: %s: the server has none of the name that slot %d has (see polyscan recipe list)", cmd, code.String(), slot)
	case station.UnknownSlot:
		return fmt.Errorf("command %v: %s %d: the station's recipes in the gateway's configuration lack it", cmd, code.String(), slot)
	case station.NoServer:
		return fmt.Errorf("command %v: %s: is polyscand running? the gateway's log says more", cmd, code.String())
	}
	return fmt.Errorf("command %v: %s", cmd, code.String())
}

// part is the handshake of one part, and a line about it. A part is ejected unless all of it is there and says PASS
// before the part is at the gate. An error ends the link.
func (p *plc) part(ctx context.Context, id uint32, part passing) (verdict string, err error) {
	row := row{id: id, part: part}
	defer func() {
		if row.verdict = verdict; verdict == "" {
			row.verdict, row.reason = noLink, "broke"
		}
		if ctx.Err() == nil {
			verdict = row.verdict
			p.line(row)
		}
	}()
	if time.Since(part.at) >= p.cmd.Patience {
		row.reason = "passed before its trigger"
		return missed, nil
	}
	p.put(p.image[hrID:], id)
	for k := range partBytes / 2 {
		p.image[hrPart+k] = 0
		for b := range 2 {
			if 2*k+b < len(part.name) {
				p.image[hrPart+k] |= uint16(part.name[2*k+b]) << (8 - 8*b)
			}
		}
	}
	p.image[hrControl] = 1 | 2
	begin := time.Now()
	p.edge("trigger 1, id %d %s", id, part.name)
	if err := p.write(); err != nil {
		return "", err
	}
	// The acknowledgement comes with the next poll, or the trigger was refused.
	if err := p.poll(); err != nil {
		return "", err
	}
	if p.bits()&station.TriggerAck == 0 {
		row.reason = station.Code(p.in[irError]).String()
		p.image[hrControl] = 1
		return refused, p.write()
	}
	row.ack = time.Since(begin)
	p.image[hrControl] = 1
	p.edge("trigger 0")
	if err := p.write(); err != nil {
		return "", err
	}
	err = p.until(ctx, func() bool {
		return p.bits()&station.ResultsValid != 0 && p.get(irSequence) == p.get(irLast) && p.get(irID) == id
	}, p.cmd.Patience)
	if errors.Is(err, errPatience) {
		row.reason = "no answer"
		return lost, err
	} else if err != nil {
		return "", err
	}
	row.result, row.latency = time.Since(begin), time.Duration(p.get(irLatency))*time.Microsecond
	word := station.Verdict(p.in[irVerdict])
	if p.in[irVerdict+1] != ^p.in[irVerdict] {
		word = station.Reject
	}
	verdict, row.reason = word.String(), station.Reason(p.in[irReason]).String()
	if n := p.in[irFailed]; n == 1 {
		row.reason += ", 1 region"
	} else if n > 1 {
		row.reason += fmt.Sprintf(", %d regions", n)
	}
	if time.Since(part.at) >= p.cmd.Patience {
		verdict, row.reason = missed, "passed before its answer"
	}
	p.image[hrControl] = 1 | 4
	p.edge("results_ack 1")
	if err := p.write(); err != nil {
		return verdict, err
	}
	if err := p.until(ctx, func() bool { return p.bits()&station.ResultsValid == 0 }, p.cmd.Patience); err != nil {
		return verdict, fmt.Errorf("results_ack: %w", err)
	}
	p.image[hrControl] = 1
	p.edge("results_ack 0")
	return verdict, p.write()
}

// row is the line about a part.
type row struct {
	part                 passing
	id                   uint32
	ack, result, latency time.Duration
	verdict, reason      string
}

func (p *plc) line(r row) {
	text := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", float64(d.Microseconds())/1e3)
	}
	eject := "eject"
	if r.verdict == station.Pass.String() {
		eject = ""
	}
	if p.cmd.Parts == barrier {
		r.reason += " [" + cli.Printable(r.part.name) + "]"
	}
	fmt.Fprintf(p.out, "%s %7d %5s %6s %7s %-7s %-5s %s\n", r.part.at.Format(clock), r.id, text(r.ack), text(r.result),
		text(r.latency), r.verdict, eject, r.reason)
}

// until polls until done, or no longer than patience.
func (p *plc) until(ctx context.Context, done func() bool, patience time.Duration) error {
	begin := time.Now()
	for {
		if err := p.poll(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		if time.Since(begin) >= patience {
			return errPatience
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.cmd.Poll):
		}
	}
}

// poll reads the inputs, and moves the heartbeat every 100 ms.
func (p *plc) poll() error {
	in, err := p.client.ReadRegisters(0, inputsPolled, other.INPUT_REGISTER)
	if err != nil {
		return err
	}
	if in[0] != modbus.Version {
		return fmt.Errorf("the gateway has version %d of the map, and this program %d", in[0], modbus.Version)
	}
	p.in = in
	for i, name := range station.BitNames {
		if bit := station.Bits(1) << i; (p.bits()^p.last)&bit != 0 {
			p.edge("    %s %d", name, min(p.bits()&bit, 1))
		}
	}
	p.last = p.bits()
	if time.Since(p.beat) >= 100*time.Millisecond {
		return p.write()
	}
	return nil
}

func (p *plc) write() error {
	p.beat = time.Now()
	p.image[hrBeat]++
	return p.client.WriteRegisters(0, slices.Clone(p.image[:]))
}

func (p *plc) bits() station.Bits { return station.Bits(p.in[irBits]) }

func (p *plc) get(i int) uint32 {
	if p.cmd.WordOrder == string(modbus.LowFirst) {
		return uint32(p.in[i+1])<<16 | uint32(p.in[i])
	}
	return uint32(p.in[i])<<16 | uint32(p.in[i+1])
}

func (p *plc) put(w []uint16, v uint32) {
	w[0], w[1] = uint16(v>>16), uint16(v)
	if p.cmd.WordOrder == string(modbus.LowFirst) {
		w[0], w[1] = w[1], w[0]
	}
}

func (p *plc) edge(format string, args ...any) {
	if p.cmd.Edges {
		fmt.Fprintf(p.out, "%10.2f ms  %s\n", float64(time.Since(p.begin).Microseconds())/1e3, fmt.Sprintf(format, args...))
	}
}
