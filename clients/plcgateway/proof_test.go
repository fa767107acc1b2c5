//go:build linux

package main

// The proof: libmodbus on the other side, a camera, a real server, and faults. PLC_PROOF asks for it, as stage plc of
// .ci/run does; it needs gcc, pkg-config, libmodbus and mbpoll of Debian.
//
//	PLC_PROOF=60s go test ./clients/plcgateway -run '^TestProof$' -v
//	PLC_PROOF=3h PLC_TRIGGERS=1000000 go test ./clients/plcgateway -run '^TestProof$' -v -timeout 4h
//	go test ./clients/plcgateway -run '^$' -bench Latency -benchtime 3000x
//
// On a machine without Go the programs come from a folder: PLC_PROGRAMS has polyscand, plcgateway and plc, and
// PLC_DEVICE is the device of polyscand.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const proofRate = 500 // triggers a second

// partShape is what the camera sends of each part: strips with so many lines, one each period.
type partShape struct {
	width, lines, strips int
	period               time.Duration
	shared               bool // strips lie in shared memory
}

var (
	smallPart = partShape{width: 64, lines: 8, strips: 1}
	// 100 parts a second of these are 2.1 GB/s, with a pause of 5 % between parts.
	largePart = partShape{width: 10240, lines: 2048, strips: 32, period: 297 * time.Microsecond, shared: true}
)

// What a part is, as testdata/plc.c has it.
func proofHash(id uint32) uint32 { return id * 2654435761 >> 8 }

func proofLevel(id uint32) byte {
	level := byte(proofHash(id) % 100)
	if proofHash(id)%4 != 0 {
		level += 100
	}
	return level
}

// plant is all that runs.
type plant struct {
	unlogged, unended      []string // parts judged that the log of the gateway does not know, and whose end it does not
	t                      testing.TB
	dir                    string
	serverAddr, modbusAddr string
	mu                     sync.Mutex
	procs                  map[string]*exec.Cmd
	camera                 *net.UDPConn
	sent                   map[uint32]time.Time // when the last line of a part was in memory
	logLevel               string
	counts                 map[string]int64
	violations             []string
	results                map[uint32]int64 // when libmodbus had the answer, ns
	life                   int
	sample                 string // a timeline
	unread                 bool   // the protocol can't tell when the PLC has read a result
	part                   partShape
}

// newPlant builds the programs, and starts a server with a recipe and a gateway with stations.
func newPlant(t testing.TB, logLevel, stations string, recipe *polyscanv1.Recipe, packages ...string) *plant {
	p := &plant{
		t: t, dir: t.TempDir(), procs: map[string]*exec.Cmd{}, sent: map[uint32]time.Time{}, logLevel: logLevel,
		counts: map[string]int64{}, results: map[uint32]int64{},
	}
	p.serverAddr, p.modbusAddr = freeAddr(t), freeAddr(t)
	if programs := os.Getenv("PLC_PROGRAMS"); programs == "" {
		p.build(append([]string{"go", "build", "-o", p.dir + "/", ".", "../../server/cmd/polyscand"}, packages...)...)
	} else if err := os.CopyFS(p.dir, os.DirFS(programs)); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("log-level: %s\nlog-format: json\nservers: {hall: {addr: '%s'}}\nmodbus: {listen: '%s'}\nstations:\n%s",
		logLevel, p.serverAddr, p.modbusAddr, stations)
	if err := os.WriteFile(p.dir+"/plcgateway.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, cmd := range p.procs {
			cmd.Process.Kill()
			_ = cmd.Wait()
			delete(p.procs, name)
		}
	})
	p.start("server")
	p.recipe(recipe)
	p.start("gateway")
	return p
}

// newProof is a plant for the PLC in testdata/plc.c.
func newProof(t testing.TB, logLevel string, part partShape) *plant {
	w, h := float64(part.width), float64(part.lines)
	region := clients.Polygon("all", 0, 0, w, 0, w, h, 0, h)
	region.Limits = []string{"mean >= 100"}
	p := newPlant(t, logLevel,
		"  - name: line\n    parts: camera\n    recipes: {1: line}\n    values: [all.mean]\n    modbus: {unit: 1}\n",
		&polyscanv1.Recipe{Name: "line", RegionSet: &polyscanv1.RegionSet{Regions: []*polyscanv1.Region{region}}})
	p.part = part
	if os.Getenv("PLC_PROGRAMS") == "" {
		p.build("sh", "-c", "gcc -O2 -Wall -Werror -o "+p.dir+"/plc testdata/plc.c $(pkg-config --cflags --libs libmodbus)")
	}
	var err error
	if p.camera, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.camera.Close() })
	return p
}

func (p *plant) build(args ...string) {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// freeAddr is an address that programs can use which are started again on it.
func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *plant) start(name string) {
	var cmd *exec.Cmd
	switch name {
	case "server":
		args := []string{"--listen", p.serverAddr, "--recipes", p.dir + "/recipes"}
		if device := os.Getenv("PLC_DEVICE"); device != "" {
			args = append(args, "--device", device, "--shm-socket", p.dir+"/shm")
		} else {
			args = append(args, "--device", "cpu", "--threads", "1")
		}
		cmd = exec.Command(p.dir+"/polyscand", args...)
	case "gateway":
		cmd = exec.Command(p.dir+"/plcgateway", "--config", p.dir+"/plcgateway.yaml")
	}
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Error(err)
		return
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Error(err)
	}
	log.Close()
	p.mu.Lock()
	p.procs[name] = cmd
	p.mu.Unlock()
}

// signal sends one to a program, and reports whether that runs.
func (p *plant) signal(name string, s os.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := p.procs[name]
	return cmd != nil && cmd.Process.Signal(s) == nil
}

// kill ends a program without a word.
func (p *plant) kill(name string) {
	p.mu.Lock()
	cmd := p.procs[name]
	p.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		if name != "plc" { // which drive waits for
			_ = cmd.Wait()
		}
	}
}

func (p *plant) dial() *clients.Client {
	c, err := clients.Dial(p.serverAddr)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// recipe puts the recipe, when the server is there.
func (p *plant) recipe(r *polyscanv1.Recipe) {
	c := p.dial()
	defer c.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := c.PutRecipe(context.Background(), r, nil)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shoot sends the parts that the PLC tells of, over as many sessions as it takes.
func (p *plant) shoot(ctx context.Context) {
	ids := make(chan uint32, 64)
	go func() {
		defer close(ids)
		var b [4]byte
		for {
			if n, err := p.camera.Read(b[:]); err != nil {
				return
			} else if n == 4 {
				select {
				case ids <- binary.BigEndian.Uint32(b[:]):
				default: // the camera misses it
				}
			}
		}
	}()
	rate := float64(proofRate * p.part.lines)
	if p.part.period > 0 {
		rate = float64(p.part.lines/p.part.strips) / p.part.period.Seconds()
	}
	open := &polyscanv1.ScanOpen{
		Inspection: clients.UseRecipe("line", 0), LineRate: rate,
		PartLines: uint32(p.part.lines), Layout: &polyscanv1.FrameLayout{
			Width: uint32(p.part.width), Height: uint32(p.part.lines / p.part.strips), PixelFormat: clients.Gray8},
		Trigger: &polyscanv1.ScanOpen_Marked{Marked: &polyscanv1.MarkedTrigger{}},
	}
	open.Inspection.Name = "camera"
	c := p.dial()
	defer c.Close()
	for ctx.Err() == nil {
		scan, err := c.OpenScan(ctx, open, clients.ScanOptions{
			Outage: -1, Stall: 500 * time.Millisecond, SharedMemory: p.part.shared})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			case <-ids: // nobody sees it
			}
			continue
		}
		broken := make(chan struct{})
		go func() {
			defer close(broken)
			for _, err := range scan.Updates() {
				if err != nil {
					return
				}
			}
		}()
		for alive := true; alive; {
			select {
			case <-ctx.Done():
				alive = false
			case <-broken:
				alive = false
			case id, ok := <-ids:
				if !ok {
					scan.Close()
					return
				}
				at, err := p.expose(ctx, scan, id)
				if err != nil {
					alive = false
				} else if p.logLevel == "info" {
					p.mu.Lock()
					p.sent[id] = at
					p.mu.Unlock()
				}
			}
		}
		scan.Close()
		<-broken
	}
}

// expose sends a part as a camera exposes it, and returns when its last line was in memory.
func (p *plant) expose(ctx context.Context, scan *clients.Scan, id uint32) (at time.Time, err error) {
	began := time.Now()
	pixels := bytes.Repeat([]byte{proofLevel(id)}, p.part.width*p.part.lines/p.part.strips)
	for k := range p.part.strips {
		strip := clients.Strip{Pixels: pixels}
		if k == 0 {
			strip.PartStarts, strip.PartIDs = []int{0}, []string{fmt.Sprintf("P%d", id)}
		}
		time.Sleep(time.Until(began.Add(time.Duration(k) * p.part.period)))
		at = time.Now()
		if _, err = scan.Send(ctx, strip); err != nil {
			break
		}
	}
	return at, err
}

// drive runs the PLC once, to its end or until it is killed, and adds up what it says.
func (p *plant) drive(count int64, rate int, how string) {
	host, port, _ := net.SplitHostPort(p.modbusAddr)
	p.life++
	cmd := exec.Command(p.dir+"/plc", host, port, strconv.Itoa(p.camera.LocalAddr().(*net.UDPAddr).Port),
		strconv.Itoa(p.life*8_000_000+1), strconv.FormatInt(count, 10), strconv.Itoa(rate), how)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.procs["plc"] = cmd
	p.mu.Unlock()
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "S "):
			last = text[2:]
		case strings.HasPrefix(text, "V "):
			p.violations = append(p.violations, fmt.Sprintf("PLC %d: %s", p.life, text[2:]))
			p.signal("plc", syscall.SIGKILL) // this has failed
		case strings.HasPrefix(text, "R "):
			var id uint32
			var ns int64
			fmt.Sscanf(text, "R %d %d", &id, &ns)
			p.results[id] = ns
		}
	}
	_ = cmd.Wait()
	p.mu.Lock()
	delete(p.procs, "plc")
	p.mu.Unlock()
	one := map[string]int64{}
	for _, field := range strings.Fields(last) {
		name, n, _ := strings.Cut(field, "=")
		one[name], _ = strconv.ParseInt(n, 10, 64)
		p.counts[name] += one[name]
	}
	if open := one["accepted"] - one["answered"] - one["lost"]; open < 0 || open > 12 {
		p.violations = append(p.violations, fmt.Sprintf("PLC %d: %d accepted triggers without an answer or a lost link: %s",
			p.life, open, last))
	}
}

// harm does something to one of several programs.
func (p *plant) harm(r *rand.Rand, names ...string) string {
	name := names[r.IntN(len(names))]
	if r.IntN(2) == 0 {
		p.kill(name)
		if name != "plc" { // which drive starts
			p.start(name)
		}
		return "kill " + name
	}
	if p.signal(name, syscall.SIGSTOP) {
		time.Sleep(time.Duration(20+r.IntN(800)) * time.Millisecond)
		p.signal(name, syscall.SIGCONT)
	}
	return "stop " + name
}

func TestProof(t *testing.T) {
	limit, err := time.ParseDuration(os.Getenv("PLC_PROOF"))
	if err != nil {
		t.Skip("not asked for by PLC_PROOF; stage plc of .ci/run does")
	}
	most := int64(1 << 40)
	if text := os.Getenv("PLC_TRIGGERS"); text != "" {
		if most, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	p := newProof(t, "warn", smallPart)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer p.camera.Close()
	running.Go(func() { p.shoot(ctx) })
	p.mbpoll()

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	faults := map[string]int{}
	done := make(chan struct{})
	running.Go(func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				p.kill("plc")
				return
			case <-time.After(time.Duration(500+r.IntN(5000)) * time.Millisecond):
				faults[p.harm(r, "server", "gateway", "plc")]++
			}
		}
	})
	told := time.Now()
	for ctx.Err() == nil && p.counts["triggers"] < most {
		p.drive(most-p.counts["triggers"], proofRate, "quiet")
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Logf("%v", p.counts)
		}
		if len(p.violations) > 0 {
			break
		}
	}
	cancel()
	<-done
	t.Logf("%d lives of the PLC, faults %v", p.life, faults)
	t.Logf("%v", p.counts)
	for _, v := range p.violations {
		t.Error(v)
	}
	n := p.counts
	if n["pass"] == 0 || n["fail"] == 0 || n["reject"] == 0 {
		t.Error("want each verdict")
	}
	if t.Failed() {
		for _, name := range []string{"gateway", "server"} {
			log, _ := os.ReadFile(filepath.Join(p.dir, name+".log"))
			t.Logf("%s: %s", name, log[max(0, len(log)-4000):])
		}
	}
}

// mbpoll is another client that reads the map.
func (p *plant) mbpoll() {
	host, port, _ := net.SplitHostPort(p.modbusAddr)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out, err := exec.Command("mbpoll", "-m", "tcp", "-a", "1", "-t", "3:hex", "-0", "-r", "10", "-c", "2", "-1",
			"-p", port, host).CombinedOutput()
		if err == nil && bytes.Contains(out, []byte("0x3C69")) && bytes.Contains(out, []byte("0xC396")) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("mbpoll: %v\n%s", err, out)
		}
	}
}

// BenchmarkLatency measures, without faults, from the verdict at the gateway to libmodbus having read it, and from a
// part's last line in the camera's memory to that. Answers that waited for a trigger before theirs which was late are
// left out, and counted: a machine that does more than this has such, and their time is that trigger's deadline.
func BenchmarkLatency(b *testing.B) {
	if os.Getenv("PLC_PROGRAMS") == "" && exec.Command("pkg-config", "--exists", "libmodbus").Run() != nil {
		b.Skip("no libmodbus here")
	}
	b.Run("small", func(b *testing.B) { benchmarkLatency(b, smallPart) })
	b.Run("2.1GBps", func(b *testing.B) {
		if os.Getenv("PLC_DEVICE") == "" {
			b.Skip("it is for a GPU, which PLC_DEVICE names")
		}
		benchmarkLatency(b, largePart)
	})
}

func benchmarkLatency(b *testing.B, part partShape) {
	p := newProof(b, "info", part)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { p.shoot(ctx) })
	b.ResetTimer()
	n := max(b.N, 100) // of a few, a busy machine may make all late
	p.drive(int64(n), 100, "print")
	b.StopTimer()
	cancel()
	p.camera.Close()
	running.Wait()
	for _, v := range p.violations {
		b.Error(v)
	}
	// The log has when the gateway received each verdict.
	var verdict, line []float64
	deadline := time.Now().Add(10 * time.Second)
	for len(verdict) == 0 && time.Now().Before(deadline) {
		verdict, line = p.latencies()
	}
	if len(verdict) == 0 {
		log, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
		b.Fatalf("no part was measured: %v\nserver: %s", p.counts, log[max(0, len(log)-2000):])
	}
	for name, of := range map[string][]float64{"verdict-to-PLC": verdict, "line-to-PLC": line} {
		slices.Sort(of)
		b.ReportMetric(of[len(of)/2], name+"-p50-µs")
		b.ReportMetric(of[len(of)*99/100], name+"-p99-µs")
	}
	b.ReportMetric(float64(len(verdict))/float64(n), "measured/part")
	b.ReportMetric(float64(p.counts["behind"])/float64(n), "behind-late-ones/part")
}

func (p *plant) latencies() (verdict, line []float64) {
	log, err := os.ReadFile(filepath.Join(p.dir, "gateway.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	for text := range bytes.Lines(log) {
		var m struct {
			Msg       string
			Trigger   uint32
			Received  time.Time
			Answered  time.Time
			Presented time.Time
		}
		if json.Unmarshal(text, &m) != nil || m.Msg != "part" || m.Received.IsZero() || p.results[m.Trigger] == 0 {
			continue
		}
		if m.Presented.Sub(m.Answered) > time.Millisecond {
			p.counts["behind"]++ // another one, which a busy machine made late
			continue
		}
		verdict = append(verdict, float64(p.results[m.Trigger]-m.Received.UnixNano())/1e3)
		p.mu.Lock()
		if at, ok := p.sent[m.Trigger]; ok {
			line = append(line, float64(p.results[m.Trigger]-at.UnixNano())/1e3)
		}
		p.mu.Unlock()
	}
	return verdict, line
}
