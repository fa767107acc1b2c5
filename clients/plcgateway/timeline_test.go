package main

import (
	"strings"
	"testing"
)

// What plcgateway timeline makes of a log: a part's line and its end are one timeline, also where other lines stand
// between them; a gateway that was killed wrote no end; an end alone, of a trigger that came again, is none.
func TestTimeline(t *testing.T) {
	const at = "2026-01-02T10:00:00."
	part := func(trigger, sequence, name string) string {
		return `time=` + at + `1Z level=INFO msg=part station=desk trigger=` + trigger + ` part=` + name + ` sequence=` + sequence +
			` verdict=PASS reason=pass recipe=line version=1 failed_regions=0 last_line=` + at + `002Z triggered=` + at +
			`001Z answered=` + at + `003Z presented=` + at + "004Z\n"
	}
	end := func(how, trigger, sequence, name, steps string) string {
		return `{"msg":"` + how + `","station":"desk","trigger":` + trigger + `,"part":"` + name + `","sequence":` + sequence + steps + "}\n"
	}
	acked := `,"read":"` + at + `005Z","acked":"` + at + `006Z"`
	log := writeFile(t, part("1", "1", "A")+part("2", "2", "B")+end("acknowledged", "1", "1", "A", acked)+
		end("acknowledged", "1", "1", "A", acked)+end("dropped", "2", "2", "B",
		"")+"panic: text of something else\n"+part("1", "1", "A"))
	for _, c := range []struct{ part, want string }{
		// The trigger came before the last line, as the times say.
		{"A", `part A, trigger 1 of station desk: PASS, pass; recipe line@1, 0 failed regions
    0.000 ms  10:00:00.001000  triggered  gateway: the trigger was accepted
    1.000 ms  10:00:00.002000  last_line  server: the strip with the last line that the part needs was there
    2.000 ms  10:00:00.003000  answered   gateway: the answer was decided
    3.000 ms  10:00:00.004000  presented  gateway: it stood in the registers
    4.000 ms  10:00:00.005000  read       gateway: the PLC had read them
    5.000 ms  10:00:00.006000  acked      gateway: the PLC had acknowledged
part A, trigger 1 of station desk: PASS, pass; recipe line@1, 0 failed regions
    0.000 ms  10:00:00.001000  triggered  gateway: the trigger was accepted
    1.000 ms  10:00:00.002000  last_line  server: the strip with the last line that the part needs was there
    2.000 ms  10:00:00.003000  answered   gateway: the answer was decided
    3.000 ms  10:00:00.004000  presented  gateway: it stood in the registers
              the log ends before the PLC's acknowledgement
`},
		{"B", `part B, trigger 2 of station desk: PASS, pass; recipe line@1, 0 failed regions
    0.000 ms  10:00:00.001000  triggered  gateway: the trigger was accepted
    1.000 ms  10:00:00.002000  last_line  server: the strip with the last line that the part needs was there
    2.000 ms  10:00:00.003000  answered   gateway: the answer was decided
    3.000 ms  10:00:00.004000  presented  gateway: it stood in the registers
              the PLC did not acknowledge it: dropped by a reset, or with its holder
`},
	} {
		if out, errs, code := plcgateway(t, t.Context(), "timeline", c.part, "--log", log); out != c.want || code != exitOK {
			t.Errorf("%s: code %d, %s\n%s\nwant\n%s", c.part, code, errs, out, c.want)
		}
	}
	out, errs, code := plcgateway(t, t.Context(), "timeline", "C", "--log", log)
	if code != exitFail || !strings.Contains(errs, "no such part") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}
