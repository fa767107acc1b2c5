package attack

// The attacker as a process of its own: it sits on another machine in life, so neither its computing nor the turns of
// its goroutines may be taken for what the server does to the well-behaved clients.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
)

// The environment of an attacker: which case it runs, and against whom.
const (
	attackerCase = "ATTACKER_CASE"
	attackerAddr = "ATTACKER_ADDR" // of gRPC
	attackerWeb  = "ATTACKER_WEB"  // of HTTP
	attackerPID  = "ATTACKER_PID"
)

// finding is a line of what an attacker tells: a problem, or how often it got an answer.
type finding struct {
	Problem string     `json:"problem,omitempty"`
	Slow    bool       `json:"slow,omitempty"`
	Mild    bool       `json:"mild,omitempty"`
	Code    codes.Code `json:"code,omitempty"`
	Times   int        `json:"times,omitempty"`
}

// allAttacks are the cases, by rows.
func allAttacks() []attack {
	all := slices.Concat(computeAttacks, memoryAttacks, unreadAttacks, imageAttacks, tokenAttacks, scanAttacks, floodAttacks,
		httpAttacks, leaseAttacks, shapeAttacks, inspectAttacks)
	slices.SortStableFunc(all, func(a, b attack) int { return a.row - b.row })
	return all
}

func (c attack) title() string { return fmt.Sprintf("%d/%s", c.row, c.name) }

// attack runs a case in a process of its own until ctx ends, or it is done. It has the least priority: what it computes
// is not computed on the server's machine in life, and the server gets no less to do for that, since it gets all that
// the others leave.
func (a *attempt) attack(ctx context.Context, c attack) {
	name, err := daemon()
	if err != nil {
		a.problem("%v", err)
		return
	}
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestAttacker$", "-test.timeout", "0", "-attack",
		attackTime.String())
	cmd.Env = append(os.Environ(), "POLYSCAND="+name, attackerCase+"="+c.title(), attackerAddr+"="+a.addr,
		attackerWeb+"="+a.web, attackerPID+"="+strconv.Itoa(a.cmd.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	findings, theirs, err := os.Pipe()
	if err != nil {
		a.problem("%v", err)
		return
	}
	defer findings.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	end, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		a.problem("the attacker can't be started: %v", err)
		return
	}
	if !c.asks {
		defer context.AfterFunc(ctx, func() { end.Close() })()
	}
	for lines := bufio.NewScanner(findings); lines.Scan(); {
		var f finding
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			a.problem("the attacker says %q: %v", lines.Text(), err)
		} else if f.Problem != "" {
			a.note(problem{f.Problem, f.Slow, f.Mild})
		} else {
			a.mu.Lock()
			a.answers[f.Code] += f.Times
			a.mu.Unlock()
		}
	}
	if err := cmd.Wait(); err != nil {
		a.problem("the attacker: %v: %s", err, said.String())
	}
}

// TestAttacker is what an attacker's process runs. It ends when its standard input does.
func TestAttacker(t *testing.T) {
	title := os.Getenv(attackerCase)
	if title == "" {
		t.Skip("no case: the suite starts this test in processes of their own")
	}
	pid, err := strconv.Atoi(os.Getenv(attackerPID))
	if err != nil {
		t.Fatal(err)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{T: t, answers: map[codes.Code]int{}, process: &process{t: t, cmd: &exec.Cmd{Process: server},
		addr: os.Getenv(attackerAddr), web: os.Getenv(attackerWeb)}}
	findings := json.NewEncoder(os.NewFile(3, "findings"))
	all := allAttacks()
	i := slices.IndexFunc(all, func(c attack) bool { return c.title() == title })
	if i < 0 {
		t.Fatalf("no case is called %q", title)
	}
	limit := *attackTime
	if all[i].asks {
		limit = askingTime
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() {
		var b [1]byte
		os.Stdin.Read(b[:])
		cancel()
	}()
	all[i].run(ctx, a)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.problems {
		findings.Encode(finding{Problem: p.text, Slow: p.slow, Mild: p.mild})
	}
	for code, n := range a.answers {
		findings.Encode(finding{Code: code, Times: n})
	}
}

// A problem that an attacker finds is one of the case, and a broken attacker is none that goes unnoticed.
func TestAttackerTells(t *testing.T) {
	p := start(t)
	a := &attempt{T: t, process: p, answers: map[codes.Code]int{}}
	a.attack(t.Context(), attack{row: 99, name: "none"})
	if len(a.problems) != 1 || !strings.Contains(a.problems[0].text, `no case is called "99/none"`) {
		t.Errorf("an attacker without a case: %q", a.problems)
	}
}
