package source

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

type stub struct{ *parts }

func (s stub) Inspect(j *station.Job)                                { s.inspect(j) }
func (stub) Prepare(context.Context, station.Recipe) (uint64, error) { return 1, nil }
func (stub) Unprepare(station.Recipe)                                {}
func (s stub) Reset()                                                { s.reset() }
func (s stub) Skipped(id uint32, accepted bool)                      { s.skipped(id, accepted) }

// TestParts plays a script: "t5" triggers 5 without a name, "t5=B" for part B, "v3:B+" is verdict number 3 about B, a
// PASS, "-" a FAIL; "r5" is a trigger that is refused; "late" waits for deadlines, "gap" loses verdicts, "reset",
// "stop" and "ack" are the PLC's, "down" and "up" the server's. Then come the answers: "5+B" is PASS for trigger 5,
// about B, "5!late" a REJECT.
func TestParts(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"in order":            {"t1 v0:A+ t2 v1:B-", "1+A 2-B"},
		"pipelined":           {"t1 t2 t3 v0:A+ v1:B- v2:C+", "1+A 2-B 3+C"},
		"before the trigger":  {"v0:A+ t1 v1:B-", "1-B"},
		"named, before":       {"v0:A+ v1:B- t1=A t2=B", "1+A 2-B"},
		"named, after":        {"t1=B t2=A v0:A+ v1:B-", "1-B 2+A"},
		"named, once":         {"v0:A+ t1=A t2=A late", "1+A 2!late"},
		"named, old":          {"v0:A+ old t1=A late", "1!late"},
		"named, twice":        {"v0:A+ v1:A+ t1=A", "1!other_part"},
		"named, again, later": {"v0:A+ old v1:A- t1=A", "1-A"},
		"late":                {"t1 late v0:A+ t2 v1:B-", "1!late 2-B"},
		"never came":          {"t1 late t2 v0:B+ late t3 v1:C+ late", "1!late 2!late 3!late"},
		"reset pays":          {"t1 late reset t2 v0:B+", "2+B"},
		"number missing":      {"t1 v0:A+ t2 v2:C+ t3", "1+A 2!other_part 3!other_part"},
		"nobody waited":       {"t1 v0:A+ v5:C+ t2 v6:D-", "1+A 2-D"},
		"gap":                 {"t1 gap v0:A+ t2 v1:B+ reset t3 v2:C+", "3+C"},
		"gap, nobody waits":   {"gap t1 v7:A+", "1+A"},
		"gap while owed":      {"t1 late gap t2 v1:B+", "1!late 2!other_part"},
		"other stream":        {"t1 v0:A+ t2 w0:B+ reset t3=C w1:C+", "3+C"},
		"mixed":               {"t1 r2=B v0:A+ v1:B+ t3 v2:C-", "1+A 3-C"},
		"mixed, too early":    {"t1 v0:A+ r2=B t3 v1:B+ v2:C-", "1+A 3!other_part"},
		"mixed, named":        {"t1=A r2 v0:A+ v1:B+ t3=C v2:C-", "1+A 3-C"},
		// Parts come whether their triggers were inspected or not.
		"overrun": {"t1 t2 t3 t4 t5 t6 t7 t8 v0:A+ v1:A+ v2:A+ v3:A+ v4:A+ v5:A+ v6:A+ v7:A+ t9 ack ack t10 v8:B+ v9:C-",
			"3+A 4+A 5+A 6+A 7+A 8+A 9!overrun 10-C"},
		"server lost":             {"down t1 up t2 v0:A+ v1:B-", "1!server_lost 2-B"},
		"server lost, gap":        {"down t1 gap up t2 v0:A+", "1!server_lost 2!other_part"},
		"refused":                 {"t1 stop r2 v0:A+ t3 v1:B+ v2:C-", "1+A 3!other_part"},
		"refused, its part came":  {"t1 stop r2 v0:A+ v1:B+ t3 v2:C-", "1+A 3-C"},
		"refused, the same again": {"t1 stop r2 v0:A+ t2 v1:B-", "1+A 2-B"},
		"refused, twice":          {"t1 stop r2 r3 v0:A+ t3 v1:B+", "1+A 3!other_part"},
		"refused, reset":          {"t1 stop r2 reset t3 v0:B+", "3+B"},
		"other server, same id":   {"v0:A+ gap t1=A late", "1!late"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParts()
				s, err := station.New(station.Config{Name: "s", Slots: map[uint16]station.Recipe{1: {Slot: 1, Name: "r"}}}, stub{p})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				s.Link(true)
				c, err := s.Acquire("plc")
				if err != nil {
					t.Fatal(err)
				}
				do := func(cmd station.Command) {
					if _, err := c.Do(t.Context(), cmd, station.CommandArgs{Slot: 1}); err != nil {
						t.Fatal(cmd, err)
					}
				}
				do(station.AckError)
				do(station.PrepareRecipe)
				do(station.Continuous)
				c.Enable(true)
				for _, word := range strings.Fields(tc.script) {
					var id uint32
					var n uint64
					var rest string
					switch word[0] {
					case 't':
						part := ""
						word, part, _ = strings.Cut(word, "=")
						fmt.Sscanf(word, "t%d", &id)
						if _, err := c.Trigger(id, part); err != nil {
							t.Fatal(word, err)
						}
					case 'r':
						if word == "reset" {
							do(station.Reset)
							do(station.Continuous)
							break
						}
						part := ""
						word, part, _ = strings.Cut(word, "=")
						fmt.Sscanf(word, "r%d", &id)
						if _, err := c.Trigger(id, part); err == nil {
							t.Fatal(word, "was accepted")
						}
					case 'v', 'w':
						fmt.Sscanf(word[1:], "%d:%s", &n, &rest)
						o := station.Outcome{Reason: station.ReasonPass, PartID: rest[:1], Recipe: "r", RecipeVersion: 1}
						if rest[1] == '-' {
							o.Reason = station.ReasonFail
						}
						p.verdict(judged{uint64(word[0]), n, o})
					default:
						switch word {
						case "late":
							time.Sleep(50 * time.Millisecond)
						case "old":
							for range 10 {
								time.Sleep(Keep / 10)
								c.Alive()
							}
						case "gap":
							p.gap()
						case "stop":
							do(station.Stop)
						case "ack":
							if err := c.Acknowledge(0); err != nil {
								t.Fatal(err)
							}
						case "up", "down":
							s.Link(word == "up")
						}
					}
					c.Alive()
					synctest.Wait()
				}
				var got []string
				for {
					r := s.Snapshot().Result
					if r.Sequence == 0 {
						break
					}
					switch r.Verdict {
					case station.Pass:
						got = append(got, fmt.Sprintf("%d+%s", r.TriggerID, r.PartID))
					case station.Fail:
						got = append(got, fmt.Sprintf("%d-%s", r.TriggerID, r.PartID))
					default:
						got = append(got, fmt.Sprintf("%d!%s", r.TriggerID, strings.ReplaceAll(r.Reason.String(), " ", "_")))
					}
					if err := c.Acknowledge(r.Sequence); err != nil {
						t.Fatal(err)
					}
				}
				if s := strings.Join(got, " "); s != tc.want {
					t.Errorf("%s: answers %s, want %s", tc.script, s, tc.want)
				}
			})
		})
	}
}
