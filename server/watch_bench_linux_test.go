package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Watchers look on from other machines as a rule. Those of the benchmarks are a process of their own, which gets what
// processor time is left (SCHED_IDLE), so that the server's share of watching is measured and not theirs. It watches
// from the word "watch" on standard input to the next line, and then tells what came.
type watchers struct {
	cmd  *exec.Cmd
	to   io.WriteCloser
	from *bufio.Reader
}

// watched is what watchers got.
type watched struct {
	Verdicts, Previews, Lost int
	Delays                   []time.Duration // from the verdict to the watcher
}

func (w *watched) add(o watched) {
	w.Verdicts, w.Previews, w.Lost = w.Verdicts+o.Verdicts, w.Previews+o.Previews, w.Lost+o.Lost
	w.Delays = append(w.Delays, o.Delays...)
}

// watchFrom starts a process of n watchers, idle or of the usual priority.
func watchFrom(b *testing.B, target string, n int, idle bool) *watchers {
	b.Helper()
	w := &watchers{cmd: exec.Command(os.Args[0], "-test.run=^TestWatcherProcess$", "-test.v=false")}
	w.cmd.Env = append(os.Environ(), "POLYSCAN_TEST_WATCH="+target, "POLYSCAN_TEST_WATCHERS="+strconv.Itoa(n),
		"POLYSCAN_TEST_IDLE="+strconv.FormatBool(idle))
	w.cmd.Stderr = os.Stderr
	to, err := w.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	from, err := w.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	w.to, w.from = to, bufio.NewReader(from)
	if err := w.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		w.to.Close()
		_, _ = io.Copy(io.Discard, w.from)
		if err := w.cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return w
}

// watch begins, and returns what ends it.
func (w *watchers) watch(b *testing.B) (stop func() watched) {
	b.Helper()
	say := func(word string) (out watched) {
		if _, err := io.WriteString(w.to, word+"\n"); err != nil {
			b.Fatal(err)
		}
		line, err := w.from.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &out)
		}
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	say("watch")
	return func() watched { return say("stop") }
}

// TestWatcherProcess is the other end of watchers.
func TestWatcherProcess(t *testing.T) {
	target := os.Getenv("POLYSCAN_TEST_WATCH")
	if target == "" {
		t.Skip("it is started by benchmarks")
	}
	if os.Getenv("POLYSCAN_TEST_IDLE") == "true" {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks { // threads that are still to come inherit it
			tid, err := strconv.Atoi(task.Name())
			if err == nil {
				err = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
		}
	}
	n, err := strconv.Atoi(os.Getenv("POLYSCAN_TEST_WATCHERS"))
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*grpc.ClientConn, n) // as many as machines
	for i := range conns {
		if conns[i], err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		ctx, cancel := context.WithCancel(context.Background())
		var all watched
		var mu sync.Mutex
		var over sync.WaitGroup
		for _, conn := range conns {
			call, err := pb.NewMonitorServiceClient(conn).Watch(ctx, &pb.WatchRequest{
				Numbers: pb.RegionNumbers_REGION_NUMBERS_FAILED, Preview: &pb.PreviewOptions{Rate: 30.0 / float64(n)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := call.Recv(); err != nil {
				t.Fatal(err)
			}
			over.Go(func() {
				var mine watched
				for {
					m, err := call.Recv()
					if err != nil {
						break
					}
					switch {
					case m.GetVerdict() != nil:
						mine.Verdicts++
						mine.Delays = append(mine.Delays, time.Since(m.GetAt().AsTime()))
					case m.GetPreview() != nil:
						mine.Previews++
					case m.GetLost() != nil:
						for _, n := range m.GetLost().GetKinds() {
							mine.Lost += int(n)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				all.add(mine)
			})
		}
		fmt.Println("{}")
		if !words.Scan() {
			cancel()
			break
		}
		cancel()
		over.Wait()
		if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
			t.Fatal(err)
		}
	}
}

// line is that of BenchmarkScan, over a unix socket: a strip is sent when the one before has been answered, and some
// milliseconds later.
type line struct {
	b     *testing.B
	call  *scanCall
	strip []byte
	n     uint64
}

const (
	watchedWidth, watchedLines = 4096, 128
	watchedPause               = 2 * time.Millisecond
)

func newLine(b *testing.B, s *testServer) *line {
	const width, lines, regions = watchedWidth, watchedLines, 50
	in := inspecting()
	for i := range regions {
		x, y := float64(i%10)*width/10, float64(i/10)*lines/5
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions,
			star("region", 24, x+width/20, y+float64(lines)/10, float64(lines)/10))
	}
	in.GetRegionSet().Regions[regions-1] = rect("last line", 100, lines-4, 500, lines)
	stream, err := pb.NewLineScanServiceClient(listen(b, s, "unix")).ScanLines(b.Context(),
		grpc.ForceCodecV2(framecodec.Codec()))
	if err != nil {
		b.Fatal(err)
	}
	call := &scanCall{LineScanService_ScanLinesClient: stream, t: b}
	return &line{b: b, strip: newBelt(1, width, lines).data,
		call: call.begin(openRequest(scanOpen(in, width, lines, lines, lines)))}
}

// send sends a strip, and returns the time to its part.
func (l *line) send() (latency time.Duration) {
	begin := time.Now()
	m := framecodec.New(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
		Sequence: l.n, FirstLine: l.n * watchedLines, NextResult: l.n,
		Frame: &pb.Frame{Source: &pb.Frame_Data{Data: l.strip}},
	}}})
	if err := l.call.SendMsg(m); err != nil {
		l.b.Fatal(err)
	}
	for acked := false; !acked; {
		r, err := l.call.Recv()
		if err != nil {
			l.b.Fatal(err)
		}
		if r.GetPart() != nil {
			latency = time.Since(begin)
		}
		acked = r.GetAck().GetNextSequence() > l.n
	}
	l.n++
	return latency
}

// ownTime is what this process has had of the processors.
func ownTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quantile is by nearest rank, of what is sorted.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// BenchmarkScanWatched is a line alone, and with 20 watchers that take 30 previews a second in all, in turns of half a
// second, so that both meet the same machine. Ratios of quantiles are what watching costs: each is the median over the
// pairs of turns, so that what a machine does besides, which is there in some turns, is not taken for watching. The
// camera's client is in this process, the watchers are not: see [watchers].
func BenchmarkScanWatched(b *testing.B) {
	const count = 20
	s := start(b, Config{})
	w := watchFrom(b, serveOn(b, s, "unix"), count, true)
	l := newLine(b, s)
	var alone, beside []time.Duration
	var got watched
	round := func(strips int) (took []time.Duration) {
		for range strips { // a line that is not always busy
			took = append(took, l.send())
			time.Sleep(watchedPause)
		}
		slices.Sort(took)
		return took
	}
	var timeAlone, timeBeside time.Duration // of processors
	ratios := map[string][]float64{}
	quantiles := map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99}
	strips := 150
	if testing.Short() {
		strips = 20
	}
	b.SetBytes(watchedWidth * watchedLines * 2 * int64(strips))
	runtime.GC()
	for b.Loop() {
		begun := ownTime(b)
		without := round(strips)
		middle := ownTime(b)
		stop := w.watch(b)
		with := round(strips)
		got.add(stop())
		timeAlone, timeBeside = timeAlone+middle-begun, timeBeside+ownTime(b)-middle
		for name, p := range quantiles {
			ratios[name] = append(ratios[name], float64(quantile(with, p))/float64(quantile(without, p)))
		}
		alone, beside = append(alone, without...), append(beside, with...)
	}
	for _, all := range [][]time.Duration{alone, beside, got.Delays} {
		slices.Sort(all)
	}
	for name, p := range quantiles {
		b.ReportMetric(float64(quantile(alone, p).Microseconds()), name+"-µs")
		b.ReportMetric(float64(quantile(beside, p).Microseconds()), "watched-"+name+"-µs")
		slices.Sort(ratios[name])
		b.ReportMetric(ratios[name][len(ratios[name])/2], name+"-ratio")
	}
	b.ReportMetric(float64(timeAlone.Microseconds())/float64(len(alone)), "cpu-µs/strip")
	b.ReportMetric(float64(timeBeside.Microseconds())/float64(len(beside)), "watched-cpu-µs/strip")
	b.ReportMetric(float64(quantile(got.Delays, 0.99).Microseconds()), "seen-p99-µs")
	b.ReportMetric(float64(got.Verdicts)/float64(len(beside)*count), "seen/verdict")
	b.ReportMetric(float64(got.Previews), "previews")
	b.ReportMetric(float64(got.Lost), "lost")
}

// BenchmarkWatchDelay is the time from a verdict to those who watch on the same machine, such as a gateway, while the
// line is as in BenchmarkScanWatched.
func BenchmarkWatchDelay(b *testing.B) {
	for _, count := range []int{1, 4, 20} {
		b.Run(fmt.Sprintf("watchers=%d", count), func(b *testing.B) {
			s := start(b, Config{})
			stop := watchFrom(b, serveOn(b, s, "unix"), count, false).watch(b)
			l := newLine(b, s)
			for b.Loop() {
				l.send()
				time.Sleep(watchedPause)
			}
			got := stop()
			slices.Sort(got.Delays)
			b.ReportMetric(float64(quantile(got.Delays, 0.5).Microseconds()), "seen-p50-µs")
			b.ReportMetric(float64(quantile(got.Delays, 0.99).Microseconds()), "seen-p99-µs")
			b.ReportMetric(float64(got.Lost), "lost")
		})
	}
}
