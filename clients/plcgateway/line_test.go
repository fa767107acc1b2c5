//go:build linux

package main

// A line: the conveyor plays parts, some strips of which go wrong; a server and a gateway, which are killed and
// stopped; and the simulated PLC, whose gate must eject exactly the bad parts. PLC_LINE asks for it, as stage plc of
// .ci/run does.
//
//	PLC_LINE=30s go test ./clients/plcgateway -run '^TestLine$' -v
//	PLC_LINE=1h go test ./clients/plcgateway -run '^TestLine$' -v -timeout 2h

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What passes: frames of 400 lines, twelve in turn, of which one is bad, as testdata/README.md says.
const (
	lineFrames, lineHeight = 12, 400
	lineBad                = 7
	lineRate               = 2000 // five parts a second
)

// linePassed is a line of plcgateway simulate about a part.
var linePassed = regexp.MustCompile(`^\S+ +(\d+) +\S+ +\S+ +\S+ ([A-Z ]{7}) (eject|     ) (.*) \[(.*)\]$`)

// TestLine plays for a while and compares each part's way with its truth, which its name has: the line at which it
// begins.
func TestLine(t *testing.T) {
	p, limit := newLine(t, "modbus: {unit: 1}", "")
	p.await() // the gateway, which a PLC would wait for
	p.run(limit, nil, func(sensor io.Reader, gate io.Writer) error {
		var said strings.Builder
		simulate := exec.Command(p.dir+"/plcgateway", "simulate", "--addr", p.modbusAddr, "--recipe", "1", "--parts", "-",
			"--patience", "1s")
		simulate.Stdin, simulate.Stdout, simulate.Stderr = sensor, gate, &said
		if err := simulate.Run(); err != nil {
			return fmt.Errorf("simulate: %w: %s", err, said.String())
		}
		return nil
	})
}

// newLine is a plant with one gate, and how long it is to run.
func newLine(t *testing.T, protocol, section string) (*plant, time.Duration) {
	limit, err := time.ParseDuration(os.Getenv("PLC_LINE"))
	if err != nil {
		t.Skip("not asked for by PLC_LINE; stage plc of .ci/run does")
	}
	return newPlant(t, "info",
		"  - {name: gate, parts: camera-0, recipes: {1: line}, prepare: 1, deadline: 150ms, "+protocol+"}\n"+section,
		recipeOf(t, frames+"/regions.json"), "../conveyor"), limit
}

const frames = "../../testdata/conveyor"

// run plays the line for a PLC, which reads the names of parts from the sensor, and writes what its gate does. harms
// are what can happen besides to server and gateway.
func (p *plant) run(limit time.Duration, harms map[string]func(), plc func(sensor io.Reader, gate io.Writer) error) {
	t := p.t
	// The light barrier: conveyors come and go, and the PLC is one.
	fifo := filepath.Join(p.dir, "barrier")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	barrier, err := os.OpenFile(fifo, os.O_RDWR, 0) // for writing, too: it does not end with a conveyor
	if err != nil {
		t.Fatal(err)
	}
	sensed, sensor, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	var running sync.WaitGroup
	var passed []string // names of parts in the order of the barrier
	running.Go(func() {
		defer sensor.Close()
		for lines := bufio.NewScanner(barrier); lines.Scan() && lines.Text() != "end"; {
			passed = append(passed, lines.Text())
			fmt.Fprintln(sensor, lines.Text())
		}
	})
	running.Go(func() {
		if err := plc(sensed, &printed); err != nil {
			t.Error(err)
		}
		sensed.Close()
	})

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	faults := map[string]int{}
	var playing sync.WaitGroup
	conveyors := 0
	playing.Go(func() {
		for ; ctx.Err() == nil; conveyors++ {
			p.play(ctx, uint64(conveyors)+1, fifo)
		}
	})
	playing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(1000+r.IntN(5000)) * time.Millisecond):
				if n := r.IntN(2 + len(harms)); n >= 2 {
					name := slices.Sorted(maps.Keys(harms))[n-2]
					harms[name]()
					faults[name]++
					continue
				}
				faults[p.harm(r, "server", "gateway")]++
			}
		}
	})
	playing.Wait()
	fmt.Fprintln(barrier, "end")
	running.Wait()
	barrier.Close()
	gate := strings.Split(strings.TrimSuffix(printed.String(), "\n"), "\n")
	p.judge(passed, gate)
	// A gateway that is killed in the moment between an answer and its line of the log loses that one, and it hears of no
	// acknowledgement then.
	if most := faults["kill gateway"]; len(p.unlogged) > most || len(p.unended) > most {
		t.Errorf("the log has no such parts as %v, and no end of %v, and the gateway was killed %d times", p.unlogged,
			p.unended, most)
	}
	t.Logf("one of the timelines:\n%s", p.sample)
	t.Logf("%d conveyors, faults %v", conveyors, faults)
	if t.Failed() {
		for _, name := range []string{"gateway", "server", "conveyor"} {
			log, _ := os.ReadFile(filepath.Join(p.dir, name+".log"))
			t.Logf("%s: %s", name, log[max(0, len(log)-4000):])
		}
		t.Logf("gate: %s", strings.Join(gate[max(0, len(gate)-50):], "\n"))
	}
}

// await waits until the gateway serves PLCs.
func (p *plant) await() {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command(p.dir+"/plcgateway", "simulate", "--addr", p.modbusAddr, "--recipe", "1", "--count", "1",
			"--first-id", "4000000000", "--patience", "1s").CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("simulate: %v\n%s", err, out)
		}
	}
}

// play runs a conveyor until it has lost its server, or ctx ends.
func (p *plant) play(ctx context.Context, seed uint64, fifo string) {
	log, err := os.OpenFile(filepath.Join(p.dir, "conveyor.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.dir+"/conveyor", frames, "--recipe", "line", "--addr", p.serverAddr,
		"--name", "camera", "--barrier", fifo, "--line-rate", strconv.Itoa(lineRate), "--strip-lines", "40",
		"--duration", "24h", "--budget", "150ms", "--max-held-up", "1", "--quiet", "--seed", strconv.FormatUint(seed, 10),
		"--fault", "drop:0.002", "--fault", "stall:0.001:300ms", "--fault", "kill:0.001", "--fault", "duplicate:0.01",
		"--fault", "reorder:0.01")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	_ = cmd.Run() // it fails when the server is killed, and that is what is tried
}

// judge compares what the gate did with the truth.
func (p *plant) judge(passed, gate []string) {
	t := p.t
	counts := map[string]int{}
	var judged [][]string
	at := 0 // in passed
	for _, line := range gate {
		m := linePassed.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, verdict, ejected, reason := m[5], strings.TrimSpace(m[2]), m[3] == "eject", m[4]
		if at >= len(passed) || passed[at] != name {
			t.Fatalf("part %d at the gate is %s; at the barrier there were %v", at, name, passed[at:min(at+3, len(passed))])
		}
		at++
		var first int
		if _, err := fmt.Sscanf(name, "0-%d", &first); err != nil || first%lineHeight != 0 {
			t.Fatalf("part %q: %v", name, err)
		}
		bad := first/lineHeight%lineFrames == lineBad
		switch {
		case bad && !ejected:
			t.Errorf("a bad part passed: %s", line)
		case ejected == (verdict == "PASS"):
			t.Errorf("the gate did not follow the verdict: %s", line)
		case !bad && verdict == "FAIL":
			t.Errorf("a good part was judged bad: %s", line)
		case bad && verdict == "FAIL" && reason != "fail, 1 region":
			t.Errorf("want one region that failed: %s", line)
		case ejected && (reason == "" || reason == "none" || reason == "pass"):
			t.Errorf("ejected without a reason: %s", line)
		}
		counts[fmt.Sprintf("%s: %s", map[bool]string{false: "good", true: "bad"}[bad], strings.ToLower(verdict))]++
		if ejected && verdict != "FAIL" {
			counts["  "+reason]++
		}
		if verdict == "PASS" || verdict == "FAIL" {
			judged = append(judged, m)
		}
	}
	if at != len(passed) {
		t.Errorf("%d parts passed the barrier, and %d the gate", len(passed), at)
	}
	if counts["good: pass"] == 0 || counts["bad: fail"] == 0 {
		t.Error("want parts of both kinds that were judged")
	}
	for _, i := range rand.Perm(len(judged))[:min(30, len(judged))] {
		p.timeline(judged[i][1], judged[i][5], strings.TrimSpace(judged[i][2]))
	}
	t.Logf("%d parts", at)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
}

// timeline asks for a part that was judged: all steps are there, those of one clock in order.
func (p *plant) timeline(trigger, name, verdict string) {
	out, err := exec.Command(p.dir+"/plcgateway", "timeline", "--trigger", trigger, "--log", p.dir+"/gateway.log",
		name).CombinedOutput()
	if err != nil && strings.Contains(string(out), "the log has no such part") {
		p.unlogged = append(p.unlogged, name)
		return
	}
	if err != nil {
		p.t.Errorf("timeline of %s: %v\n%s", name, err, out)
		return
	}
	last := time.Time{}
	text := string(out)
	ended := !strings.Contains(text, "the log ends before the PLC's acknowledgement")
	if !ended {
		p.unended = append(p.unended, name)
	}
	for _, step := range []string{
		"exposed", "last_line", "judged", "received", "answered", "presented", "read", "acked",
	} {
		if step == "read" && p.unread || !ended && (step == "read" || step == "acked") {
			continue
		}
		m := regexp.MustCompile(`(?m)^ *[-0-9.]+ ms  (\d\d:\d\d:\d\d\.\d{6})  ` + step + ` `).FindStringSubmatch(text)
		if m == nil {
			p.t.Errorf("timeline of %s has no %s:\n%s", name, step, text)
			return
		}
		at, err := time.Parse("15:04:05.000000", m[1])
		if err != nil || at.Before(last.Add(-time.Millisecond)) && last.Sub(at) < 12*time.Hour { // over midnight
			p.t.Errorf("timeline of %s: %s at %v, the step before at %v: %v\n%s", name, step, at, last, err, text)
		}
		last = at
	}
	if !strings.Contains(text, verdict) || !strings.Contains(text, "from line "+strings.TrimPrefix(name, "0-")+"\n") {
		p.t.Errorf("timeline of %s, %s:\n%s", name, verdict, text)
	}
	p.sample = text
}
