package kernels

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// testdata/allocations.txt is what a server that is used by all at once asks of its memory in eight seconds, as
// simulate has it. It is committed so that figures stay comparable when simulate changes. A line is
//
//   - TENANT BYTES	a block is taken: of a job (j), a session (s) or a resident (r)
//   - N		the block of the N-th "+" line, from 0, goes back
//
// go test ./kernels -run TestTrace -write writes it again.
const traceFile = "testdata/allocations.txt"

var writeTrace = flag.Bool("write", false, "write "+traceFile)

// traceStep is a line of the trace.
type traceStep struct {
	bytes  int64 // 0 where block goes back
	tenant tenant
	block  int
}

// simulation plays what happens at a server. Times are in microseconds.
type simulation struct {
	g      *rand.Rand
	now    int64
	events []simEvent // in order
	steps  []traceStep
	blocks int
}

type simEvent struct {
	at int64
	do func()
}

// after calls do in so many microseconds.
func (s *simulation) after(us int64, do func()) {
	at := s.now + us
	i, _ := slices.BinarySearchFunc(s.events, at+1, func(e simEvent, at int64) int { return cmp.Compare(e.at, at) })
	s.events = slices.Insert(s.events, i, simEvent{at, do})
}

// between is a random number of from to to.
func (s *simulation) between(from, to int64) int64 { return from + s.g.Int64N(to-from+1) }

func (s *simulation) take(t tenant, bytes int64) int {
	s.steps = append(s.steps, traceStep{bytes: bytes, tenant: t})
	s.blocks++
	return s.blocks - 1
}

func (s *simulation) giveBack(block int) { s.steps = append(s.steps, traceStep{block: block}) }

// job takes memory for a while.
func (s *simulation) job(bytes, us int64) {
	b := s.take(scratch, bytes)
	s.after(us, func() { s.giveBack(b) })
}

// reduceBytes is what a reduction takes beside the frame: sums of 80 bytes and a histogram for each region.
func reduceBytes(frame, regions, levels int64) int64 {
	return roundUp(frame) + roundUp(regions*80) + roundUp(min(regions*levels*4, 16<<20))
}

// camera is a line-scan session: strips of 128 lines, of which the device works on one at a time. Now and then the belt
// stops and another part comes, with another width.
func (s *simulation) camera(width, regions int64) {
	state := s.take(session, regions*80+regions*256*4)
	strips := s.between(100, 400)
	var strip func()
	strip = func() {
		if strips--; strips < 0 {
			s.giveBack(state)
			s.after(s.between(1e5, 1e6),
				func() { s.camera([]int64{2048, 4096, 8192, 10240}[s.g.IntN(4)], s.between(10, 60)) })
			return
		}
		s.job(reduceBytes(width*128, regions, 0), s.between(400, 1500))
		s.after(s.between(9000, 16000), strip)
	}
	strip()
}

// client sends frames of one size and waits for each. Its recipe reaches some rows of the frame. The regions are
// prepared once for each version of the recipe.
func (s *simulation) client(frame, regions, levels int64) {
	reached := frame * s.between(50, 100) / 100
	prepared := s.take(cached, s.between(20, 200)*regions*64)
	calls := s.between(5, 60)
	var call func()
	call = func() {
		if calls--; calls < 0 {
			s.giveBack(prepared)
			s.client(frame, regions, levels)
			return
		}
		took := reached/4000 + s.between(300, 3000)
		s.job(reduceBytes(reached, regions, levels), took)
		s.after(took+s.between(1e4, 2e5), call)
	}
	s.after(s.between(0, 2e5), call)
}

// resident is a frame that is uploaded once, and expires.
func (s *simulation) resident() {
	sizes := []int64{640 * 480, 1920 * 1080 * 3, 2448 * 2048, 4096 * 3000 * 2}
	b := s.take(cached, sizes[s.g.IntN(len(sizes))])
	s.after(s.between(2e5, 6e6), func() { s.giveBack(b) })
	s.after(s.between(1e4, 2e5), s.resident)
}

// recipe is prepared and kept for whoever comes; many are.
func (s *simulation) recipe() {
	b := s.take(cached, s.between(8<<10, 300<<10))
	s.after(s.between(1e6, 9e6), func() { s.giveBack(b) })
	s.after(s.between(1e3, 1e4), s.recipe)
}

// batch is a solver or a large triangulation, and what it keeps from run to run.
func (s *simulation) batch() {
	side := s.between(1000, 4000)
	state := s.take(session, side*side)
	took := s.between(2e5, 2e6)
	s.job(side*side*12, took)
	s.after(took, func() {
		s.giveBack(state)
		s.after(s.between(1e4, 5e5), s.batch)
	})
}

// simulate returns the steps of eight seconds.
func simulate() []traceStep {
	s := &simulation{g: rand.New(rand.NewPCG(4, 2026))}
	for i := range int64(4) {
		s.after(i*5e4, func() { s.camera(4096, 50) })
	}
	for _, c := range [][3]int64{
		{640 * 480, 4, 256}, {1920 * 1080 * 3, 20, 256}, {2448 * 2048, 300, 256}, {2448 * 2048, 12, 0},
		{4096 * 3000 * 2, 40, 4096}, {5120 * 5120, 1000, 0}, {8192 * 6000, 3000, 256},
	} {
		s.client(c[0], c[1], c[2])
	}
	for range 2 {
		s.batch()
	}
	s.resident()
	s.recipe()
	for s.now < 8e6 {
		e := s.events[0]
		s.events = s.events[1:]
		s.now = e.at
		e.do()
	}
	return s.steps
}

const tenantLetters = "jsr" // in the order of the tenants

func formatTrace(steps []traceStep) []byte {
	var b bytes.Buffer
	for _, s := range steps {
		if s.bytes > 0 {
			fmt.Fprintf(&b, "+ %c %d\n", tenantLetters[s.tenant], s.bytes)
		} else {
			fmt.Fprintf(&b, "- %d\n", s.block)
		}
	}
	return b.Bytes()
}

// readTrace reads the file.
func readTrace(t testing.TB) []traceStep {
	t.Helper()
	file, err := os.ReadFile(traceFile)
	if err != nil {
		t.Fatal(err)
	}
	var steps []traceStep
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		var s traceStep
		var letter rune
		_, take := fmt.Sscanf(lines.Text(), "+ %c %d", &letter, &s.bytes)
		_, back := fmt.Sscanf(lines.Text(), "- %d", &s.block)
		if s.tenant = tenant(bytes.IndexRune([]byte(tenantLetters), letter)); take != nil && back != nil {
			t.Fatalf("%s: %q", traceFile, lines.Text())
		}
		steps = append(steps, s)
	}
	return steps
}

// The file is what simulate makes.
func TestTrace(t *testing.T) {
	want := formatTrace(simulate())
	if *writeTrace {
		if err := os.WriteFile(traceFile, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(formatTrace(readTrace(t)), want) {
		t.Errorf("%s is not what simulate makes; run with -write", traceFile)
	}
}

// replay runs the steps over a memory. Where a block is refused it goes on without, and counts. each is called after
// each step.
func replay(steps []traceStep, m *memory, each func()) (refused int) {
	var blocks []block
	for _, s := range steps {
		if s.bytes > 0 {
			b, err := m.reserve(s.bytes, s.tenant, tenantLetters[s.tenant:s.tenant+1])
			if err != nil {
				refused++
			}
			blocks = append(blocks, b)
		} else if b := blocks[s.block]; b.len > 0 {
			m.release(b)
			blocks[s.block] = block{}
		}
		each()
	}
	for _, b := range blocks {
		if b.len > 0 {
			m.release(b)
		}
	}
	return refused
}

// room is the smallest memory in which nothing of the steps is refused, and the most that they have at a time.
func room(steps []traceStep) (least, most int64) {
	m := newMemory(plainMem(1 << 40))
	replay(steps, m, func() {})
	most = m.snapshot().HighWater
	const grain = 1 << 20
	n := most / grain
	for ; replay(steps, newMemory(plainMem(n*grain)), func() {}) > 0; n++ {
	}
	return n * grain, most
}

// The trace fits in little more than what is in use at a time, whatever lies in between.
func TestReplay(t *testing.T) {
	steps := readTrace(t)
	least, most := room(steps)
	t.Logf("%d steps, at most %d MiB in use at a time, fit in %d MiB", len(steps), most>>20, least>>20)
	if float64(least) > 1.1*float64(most) {
		t.Errorf("%d bytes in use at a time take %d", most, least)
	}
	m := newMemory(plainMem(least))
	replay(steps, m, func() {
		if s := m.snapshot(); s.ByTenant.Scratch+s.ByTenant.Session+s.ByTenant.Resident != s.Used ||
			s.Used > s.Reserved {
			t.Fatalf("%+v", s)
		}
	})
	if s := m.snapshot(); s.Used != 0 || s.Largest != s.Reserved {
		t.Errorf("%+v", s)
	}
}

// What a step of the trace takes, and what is lost between blocks: the mean and the largest Fragmentation of a memory
// of a quarter more than is in use at most, and how much larger than that the memory has to be.
func BenchmarkReplay(b *testing.B) {
	steps := readTrace(b)
	least, most := room(steps)
	size := most + most/4
	var fragmentation []float64
	m := newMemory(plainMem(size))
	replay(steps, m, func() { fragmentation = append(fragmentation, m.snapshot().Fragmentation) })
	var sum float64
	for _, f := range fragmentation {
		sum += f
	}
	b.ReportAllocs()
	for b.Loop() {
		replay(steps, newMemory(plainMem(size)), func() {})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(steps)), "ns/step")
	b.ReportMetric(sum/float64(len(fragmentation)), "fragmentation")
	b.ReportMetric(slices.Max(fragmentation), "max-fragmentation")
	b.ReportMetric(float64(least)/float64(most), "room/use")
}
