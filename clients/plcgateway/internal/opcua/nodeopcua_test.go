package opcua

// node-opcua on the other side. Its packages are installed by CI's stage plc; NODE_OPCUA names the folder.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// runNode runs a script of nodeopcua with the installed packages, and returns the JSON of the last line that it prints.
// When the script says a word, asked is called, and the script is told to go on.
func runNode(t *testing.T, into any, asked func(), script string, args ...string) {
	t.Helper()
	folder := os.Getenv("NODE_OPCUA")
	if folder == "" {
		t.Skip("NODE_OPCUA names no folder with node-opcua, as CI's stage plc has")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(folder, script)}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	var last string
	lines := bufio.NewScanner(io.TeeReader(out, &all))
	lines.Buffer(nil, 64<<20) // a fast machine does thousands of jobs in a test's time
	for lines.Scan() {
		last = lines.Text()
		if strings.HasPrefix(last, `{"say":`) {
			asked()
			fmt.Fprintln(in, "done")
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("%s: %v", script, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", script, err, all.Bytes(), errs.Bytes())
	}
	if err := json.Unmarshal([]byte(last), into); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", script, err, all.Bytes(), errs.Bytes())
	}
}

// TestNodeset compares the server's nodes with node-opcua's copies of the nodesets. What of OPC 40100-1 is optional and
// not there must be in the table of docs/plc-opcua.md.
func TestNodeset(t *testing.T) {
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", newStation(t, time.Minute))
	var got struct {
		Nodes, Standard, Instances, Systems, Differences int
		Absent                                           []string
	}
	runNode(t, &got, nil, "nodeset.mjs", s.url)
	if got.Nodes < 790 || got.Standard < 800 || got.Instances < 80 || got.Systems != 1 || got.Differences != 0 {
		t.Fatalf("compared: %+v", got)
	}
	t.Logf("%d nodes of OPC 40100-1 and %d of the base nodeset are as in the nodesets; %d components of the instance",
		got.Nodes, got.Standard, got.Instances)
	page, err := os.ReadFile("../../../../docs/plc-opcua.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got.Absent {
		// Components of what is absent as a whole, and the optional properties of state variables, have one row together.
		parts := strings.Split(a, ".")
		name := parts[len(parts)-1]
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("%s is not served, and docs/plc-opcua.md has no `%s` in its table of what is not there", a, name)
		}
	}
}

// The line's program tells what it saw in these.
type sawJob struct {
	Meas, Part, Status, Job string
	Error                   *int32
	Read                    []any
	Released                *int32
	ByID                    *struct {
		Error   int32
		Part    string
		State   int32
		Verdict uint16
	}
}

type sawResult struct {
	ID, Part, Meas, Job, Recipe, Configuration string
	State                                      int32
	Partial, Simulated, Created                bool
	Verdict, Complement                        uint16
	Sequence, Trigger                          uint32
	Values                                     []float64
}

type saw struct {
	Refused, Failed      string
	Connected            bool
	States, Started, Log []string
	Recipe, Prepared     string
	Recipes              []string
	Begun, BegunAgain    []int32
	Jobs                 []sawJob
	Results              []sawResult
	Again, Wrong         string
	Halt, Halted, Reset  *int32
	Continuous           []any
	Ran                  *sawResult
	Stop                 *int32
	Stale                *uint16
	AfterRestart         *int32
	Renewed              int
}

func line(t *testing.T, want map[string]any, asked func()) saw {
	t.Helper()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got saw
	runNode(t, &got, asked, "line.mjs", string(b))
	if got.Failed != "" {
		t.Fatalf("the client failed: %s\n%+v", got.Failed, got)
	}
	return got
}

// judge compares what a client saw of jobs with what is true about their parts.
func judge(t *testing.T, got saw) {
	t.Helper()
	results := map[string]sawResult{}
	for _, r := range got.Results {
		if old, twice := results[r.Meas]; twice && (old.ID != r.ID || old.Verdict != r.Verdict) {
			t.Errorf("two answers to trigger %s: %+v and %+v", r.Meas, old, r)
		}
		results[r.Meas] = r
		if r.Partial || r.Simulated || !r.Created || r.Complement != ^r.Verdict || fmt.Sprint(r.Trigger) != r.Meas ||
			r.Configuration != "cell" || r.ID == "" {
			t.Errorf("result %+v", r)
		}
	}
	for _, j := range got.Jobs {
		r, ok := results[j.Meas]
		if j.Error == nil || j.Status != "Good" {
			t.Errorf("job %+v: no answer to StartSingleJob", j)
			continue
		}
		if *j.Error != 0 {
			if ok {
				t.Errorf("job %s was refused and has a result", j.Meas)
			}
			continue
		}
		want, state := station.Fail, int32(resultCompleted)
		switch {
		case strings.HasSuffix(j.Part, "x"):
			want, state = station.Reject, resultFailed
		case (j.Part[len(j.Part)-1]-'0')%2 == 0:
			want = station.Pass
		}
		if !ok || r.Verdict != uint16(want) || r.State != state || r.Part != j.Part || r.Job != j.Meas ||
			j.Job != j.Meas || r.Recipe != "board 7" {
			t.Errorf("job %+v: result %+v, want %v", j, r, want)
			continue
		}
		words := []any{float64(r.Sequence), float64(want), float64(^uint16(want)), float64(r.Trigger), float64(r.Sequence)}
		if !slices.Equal(j.Read, words) {
			t.Errorf("job %s: the variables read %v, want %v", j.Meas, j.Read, words)
		}
		if j.ByID == nil || j.ByID.Error != 0 || j.ByID.Part != j.Part || j.ByID.State != state ||
			j.ByID.Verdict != uint16(want) ||
			j.Released == nil || *j.Released != 0 {
			t.Errorf("job %s: asked for again: %+v", j.Meas, j)
		}
	}
}

func TestLine(t *testing.T) {
	client, operator := identityOf(t, "line"), identityOf(t, "operator")
	parts := []string{"a2", "b3", "c4", "d5x", "e6", "f1"}
	for _, c := range []struct {
		name, policy, mode string
		user               bool
	}{
		{"no security", "None", "None", false},
		{"password without security", "None", "None", true},
		{"signed", "Basic256Sha256", "Sign", true},
		{"encrypted", "Basic256Sha256", "SignAndEncrypt", true},
		{"aes 128", "Aes128_Sha256_RsaOaep", "SignAndEncrypt", true},
		{"aes 256", "Aes256_Sha256_RsaPss", "SignAndEncrypt", true},
		{"certificate", "Basic256Sha256", "SignAndEncrypt", false},
		{"certificate, aes 256", "Aes256_Sha256_RsaPss", "SignAndEncrypt", false},
		{"certificate without security", "None", "None", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			person := strings.HasPrefix(c.name, "certificate")
			cfg := Config{Policies: PolicyNames, Anonymous: !c.user && !person, ApplicationURI: "urn:test:plcgateway",
				Trusted: trust(t, client)}
			server := identityOf(t, "plcgateway")
			cfg.Certificate, cfg.Key = server.cert, server.key
			if c.user {
				cfg.Users = users(t)
			}
			want := map[string]any{"policy": c.policy, "mode": c.mode, "do": "line", "parts": parts}
			if c.user {
				want["user"], want["password"] = "plc", "secret"
			}
			if person {
				cfg.UserTrusted = trust(t, operator)
				want["userCertificate"], want["userKey"] = operator.certFile, operator.keyFile
			}
			s := serve(t, cfg, "127.0.0.1:0", newStation(t, 5*time.Second))
			want["url"] = s.url
			if c.mode != "None" {
				want["certificate"], want["key"] = client.certFile, client.keyFile
			}
			got := line(t, want, nil)
			judge(t, got)
			if *got.Jobs[0].Error != failure(station.NotAcknowledged) {
				t.Errorf("a job before automatic mode: %d", *got.Jobs[0].Error)
			}
			if len(got.Jobs) != 1+len(parts) || !slices.Equal(got.Begun, []int32{0, 0}) || got.Recipe != "board 7" ||
				got.Prepared != "board 7" ||
				!slices.Equal(got.Recipes, []string{"board", "lid"}) {
				t.Errorf("begun: %+v", got)
			}
			for _, want := range []string{"Preoperational-Operational", "Initialized-Ready", "Ready-SingleExecution",
				"SingleExecution-Ready",
				"Operational-Halted", "Halted-Preoperational", "Ready-ContinuousExecution", "ContinuousExecution-Ready"} {
				if !slices.Contains(got.States, want) {
					t.Errorf("no event of the transition %s among %v", want, got.States)
				}
			}
			zero := func(what string, p *int32) {
				if p == nil || *p != 0 {
					t.Errorf("%s: %v", what, p)
				}
			}
			zero("halt", got.Halt)
			zero("reset", got.Reset)
			zero("stop", got.Stop)
			if got.Halted == nil || *got.Halted != failure(station.WrongState) {
				t.Errorf("a job while halted: %v", got.Halted)
			}
			if got.Again != "10" || got.Wrong != "BadArgumentsMissing" {
				t.Errorf("a repeated job %q, a call without arguments %q", got.Again, got.Wrong)
			}
			if len(got.Continuous) != 2 || got.Continuous[0] != "continuous-1" || got.Ran == nil ||
				got.Ran.Verdict != uint16(station.Pass) || got.Ran.Job != "continuous-1" {
				t.Errorf("continuous execution: %v, %+v", got.Continuous, got.Ran)
			}
			if got.Stale == nil || *got.Stale != uint16(station.Reject) {
				t.Errorf("a heartbeat that stopped: verdict %v", got.Stale)
			}
			if len(got.Log) > 0 {
				t.Errorf("said: %v", got.Log)
			}
		})
	}
}

// TestRenew has a client renew its security tokens, each good for ten seconds at least, while it triggers.
func TestRenew(t *testing.T) {
	client, server := identityOf(t, "line"), identityOf(t, "plcgateway")
	for _, mode := range []string{"None", "SignAndEncrypt"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := serve(t, Config{Policies: PolicyNames, Anonymous: true, ApplicationURI: "urn:test:plcgateway",
				Trusted: trust(t, client), Certificate: server.cert, Key: server.key}, "127.0.0.1:0", newStation(t, 5*time.Second))
			want := map[string]any{"url": s.url, "do": "renew", "parts": []string{"a2"}, "lifetime": 1}
			if mode != "None" {
				want["policy"], want["mode"], want["certificate"], want["key"] = "Basic256Sha256", mode, client.certFile,
					client.keyFile
			}
			got := line(t, want, nil)
			judge(t, got)
			if got.Renewed < 2 || len(got.Jobs) < 20 || len(got.Log) > 0 {
				t.Errorf("%d renewals under %d jobs: %v", got.Renewed, len(got.Jobs), got.Log)
			}
			t.Logf("%d renewals under %d jobs", got.Renewed, len(got.Jobs))
		})
	}
}

func TestRefused(t *testing.T) {
	known, stranger, server := identityOf(t, "line"), identityOf(t, "stranger"), identityOf(t, "plcgateway")
	operator := identityOf(t, "operator")
	s := serve(t, Config{Policies: PolicyNames, Users: users(t), ApplicationURI: "urn:test:plcgateway",
		Trusted: trust(t, known), UserTrusted: trust(t, operator),
		Certificate: server.cert, Key: server.key}, "127.0.0.1:0", newStation(t, time.Minute))
	for _, c := range []struct {
		name           string
		who            *identity
		user, password string
		refused        bool
	}{
		{"right", known, "plc", "secret", false},
		{"a certificate that is not trusted", stranger, "plc", "secret", true},
		{"a wrong password", known, "plc", "Secret", true},
		{"an unknown user", known, "root", "secret", true},
		{"nobody", known, "", "", true},
		{"nobody, without security", nil, "", "", true},
		{"a wrong password, without security", nil, "plc", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]any{"url": s.url, "do": "refused", "user": c.user, "password": c.password}
			if c.who != nil {
				want["policy"], want["mode"], want["certificate"], want["key"] = "Basic256Sha256", "SignAndEncrypt",
					c.who.certFile, c.who.keyFile
			}
			if got := line(t, want, nil); got.Connected == c.refused {
				t.Fatalf("connected %v, refused with %q", got.Connected, got.Refused)
			}
		})
	}
	for _, c := range []struct {
		name      string
		cert, key *identity
		refused   bool
	}{
		{"a user's certificate", operator, operator, false},
		{"a user's certificate that is not trusted", stranger, stranger, true},
		{"the certificate of a program", known, known, true},
		{"another one's key", operator, stranger, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := line(t, map[string]any{"url": s.url, "do": "refused", "policy": "Basic256Sha256", "mode": "SignAndEncrypt",
				"certificate": known.certFile, "key": known.keyFile,
				"userCertificate": c.cert.certFile, "userKey": c.key.keyFile}, nil)
			if got.Connected == c.refused {
				t.Fatalf("connected %v, refused with %q", got.Connected, got.Refused)
			}
		})
	}
}

// TestRestart has the server made anew under a client: the station is not ready until the client has acknowledged that.
func TestRestart(t *testing.T) {
	cfg := Config{Policies: []string{"None"}, Anonymous: true}
	s := serve(t, cfg, "127.0.0.1:0", newStation(t, 5*time.Second))
	address := strings.TrimPrefix(s.url, "opc.tcp://")
	got := line(t, map[string]any{"url": s.url, "do": "restart", "parts": []string{"a2", "b3"}}, func() {
		s.stop()
		serve(t, cfg, address, newStation(t, 5*time.Second))
	})
	if got.AfterRestart == nil || *got.AfterRestart != failure(station.NotAcknowledged) ||
		!slices.Equal(got.BegunAgain, []int32{0, 0}) {
		t.Fatalf("after the restart: %v, %v", got.AfterRestart, got.BegunAgain)
	}
	judge(t, got)
	last := got.Jobs[len(got.Jobs)-1]
	if last.Meas != "501" || *last.Error != 0 {
		t.Fatalf("the last job: %+v", last)
	}
}
