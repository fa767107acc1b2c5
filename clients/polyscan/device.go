package main

// polyscan device.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type deviceCmd struct {
	// Print a JSON object.
	JSON bool `group:"output" name:"json"`
	deviceFlags
	serverFlags
}

func (c *deviceCmd) Help() string {
	return `
Says what a server computes on, how much of its memory is in use and by what, what its scheduler has done so far, and
which limits requests must keep.

Examples:

    polyscan device
    polyscan device --addr inspector:7465 --json
`
}

// deviceReport is what --json prints. Sizes are in bytes.
type deviceReport struct {
	Backend      string            `json:"backend"`
	Device       string            `json:"device"`
	ComputeUnits uint32            `json:"compute_units"`
	Capability   string            `json:"capability"`
	Memory       memoryReport      `json:"memory"`
	Scheduler    []classReport     `json:"scheduler"`
	Frames       framesReport      `json:"resident_frames"`
	Losses       uint64            `json:"device_losses"`
	Role         string            `json:"role"`
	Tenants      []tenantReport    `json:"tenants"`
	Server       string            `json:"server_version"`
	Go           string            `json:"go_version"`
	StartedAt    string            `json:"started_at"`
	Drivers      []string          `json:"drivers"`
	Limits       map[string]uint64 `json:"limits"`
}

type memoryReport struct {
	Reserved    uint64            `json:"reserved"`
	Used        uint64            `json:"used"`
	HighWater   uint64            `json:"high_water"`
	ByLabel     map[string]uint64 `json:"used_by_label"`
	Scratch     uint64            `json:"scratch"`
	Session     uint64            `json:"session"`
	Resident    uint64            `json:"resident"`
	Evictable   uint64            `json:"evictable"`
	LargestFree uint64            `json:"largest_free"`
	Evictions   uint64            `json:"evictions"`
	Refusals    uint64            `json:"refusals"`
	Waiting     uint32            `json:"waiting"`
}

// classReport counts jobs of a class of work.
type classReport struct {
	Class    string  `json:"class"`
	Running  uint32  `json:"running"`
	Waiting  uint32  `json:"waiting"`
	Admitted uint64  `json:"admitted"`
	Waited   float64 `json:"waited_s"`
	Done     uint64  `json:"done"`
	Missed   uint64  `json:"missed_deadlines"`
	Shed     uint64  `json:"shed"`
	Refused  uint64  `json:"refused"`
}

type tenantReport struct {
	Name   string        `json:"name"`
	Quotas []quotaReport `json:"quotas"`
}

type quotaReport struct {
	Resource string  `json:"resource"`
	Used     uint64  `json:"used"`
	Limit    *uint64 `json:"limit,omitempty"`
	Refused  uint64  `json:"refused"`
}

type framesReport struct {
	Frames    uint64            `json:"frames"`
	Bytes     uint64            `json:"bytes"`
	CopyBytes uint64            `json:"copy_bytes"`
	MaxFrames uint64            `json:"max_frames"`
	MaxBytes  uint64            `json:"max_bytes"`
	Gone      map[string]uint64 `json:"gone"`
}

func (c *deviceCmd) Run(e *env) (err error) {
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	d, err := conn.GetDevice(conn.ctx)
	if err != nil {
		return conn.fail(err, "", nil)
	}
	if c.JSON {
		return writeJSON(e.stdout, reportDevice(d))
	}
	m, l := d.GetMemory(), d.GetLimits()
	rows := [][2]string{
		{"backend", d.GetBackend()},
		{"device", d.GetDeviceName()},
		{"compute units", fmt.Sprint(d.GetComputeUnits())},
		{"capability", d.GetCapability()},
		{"memory", fmt.Sprintf("%s of %s in use, at most %s so far", size(m.GetUsedBytes()), size(m.GetReservedBytes()),
			size(m.GetHighWaterBytes()))},
	}
	for _, label := range slices.Sorted(maps.Keys(m.GetUsedBytesByLabel())) {
		rows = append(rows, [2]string{"  " + label, size(m.GetUsedBytesByLabel()[label])})
	}
	rows = append(rows,
		[2]string{"  by owner", fmt.Sprintf("%s scratch of jobs, %s state of sessions, %s resident (%s evictable)",
			size(m.GetScratchBytes()), size(m.GetSessionBytes()), size(m.GetResidentBytes()),
			size(m.GetEvictableBytes()))},
		[2]string{"  free", fmt.Sprintf("at most %s in one piece; %s, %s so far", size(m.GetLargestFreeBytes()),
			plural(int(m.GetEvictions()), "eviction", "evictions"),
			plural(int(m.GetRefusals()), "refusal", "refusals"))})
	if f := d.GetResidentFrames(); f.GetMaxFrames() > 0 {
		rows = append(rows, [2]string{"frames", fmt.Sprintf("%d of %d kept, %s of %s", f.GetFrames(), f.GetMaxFrames(),
			size(f.GetBytes()), size(f.GetMaxBytes()))})
	}
	for _, s := range d.GetScheduler() {
		text := fmt.Sprintf("%d running, %d waiting, %d done", s.GetRunning(), s.GetWaiting(), s.GetDone())
		if n := s.GetAdmitted(); n > 0 {
			text += fmt.Sprintf(", %s mean wait", pretty(s.GetWaited().AsDuration()/time.Duration(n)))
		}
		for _, k := range []struct {
			n    uint64
			text string
		}{{s.GetMissedDeadlines(), "late"}, {s.GetShed(), "shed"}, {s.GetRefused(), "refused"}} {
			if k.n > 0 {
				text += fmt.Sprintf(", %d %s", k.n, k.text)
			}
		}
		rows = append(rows, [2]string{s.GetName(), text})
	}
	for _, t := range d.GetTenants() {
		rows = append(rows, [2]string{"tenant", t.GetName() + ": " + holds(t)})
	}
	if n := d.GetDeviceLosses(); n > 0 {
		rows = append(rows, [2]string{"lost", fmt.Sprintf("%d times, and opened again", n)})
	}
	rows = append(rows,
		[2]string{"server", d.GetServerVersion() + ", " + d.GetGoVersion()},
		[2]string{"drivers", strings.Join(d.GetDrivers(), ", ")},
		[2]string{"started", d.GetStartedAt().AsTime().Local().Format(time.RFC3339)},
		[2]string{"limits", fmt.Sprintf("messages of %s, frames of %d pixels, %d calls a connection",
			size(l.GetMaxMessageBytes()), l.GetMaxFramePixels(), l.GetMaxStreamsPerConnection())},
		[2]string{"", fmt.Sprintf("%d regions, %d vertices", l.GetMaxRegions(), l.GetMaxVertices())})
	for _, r := range rows {
		if _, err := fmt.Fprintf(e.stdout, "%s %s\n", e.paint(cli.Bold, fmt.Sprintf("%-14s", r[0])),
			cli.Printable(r[1])); err != nil {
			return err
		}
	}
	return nil
}

// holds says what a tenant holds, and of how much, without what it neither holds nor has a limit for.
func holds(t *polyscanv1.TenantStatus) string {
	var parts []string
	for _, q := range t.GetQuotas() {
		if q.GetUsed() == 0 && q.Limit == nil && q.GetRefused() == 0 {
			continue
		}
		amount := func(n uint64) string {
			if strings.HasSuffix(q.GetResource(), "-bytes") {
				return size(n)
			}
			return fmt.Sprint(n)
		}
		text := q.GetResource() + " " + amount(q.GetUsed())
		if q.Limit != nil {
			text += " of " + amount(q.GetLimit())
		}
		if n := q.GetRefused(); n > 0 {
			text += fmt.Sprintf(" (%s)", plural(int(n), "refusal", "refusals"))
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "holds nothing"
	}
	return strings.Join(parts, ", ")
}

func reportDevice(d *polyscanv1.GetDeviceResponse) deviceReport {
	m, l := d.GetMemory(), d.GetLimits()
	labels := orEmpty(m.GetUsedBytesByLabel())
	f := d.GetResidentFrames()
	classes := []classReport{}
	for _, s := range d.GetScheduler() {
		classes = append(classes, classReport{s.GetName(), s.GetRunning(), s.GetWaiting(), s.GetAdmitted(),
			s.GetWaited().AsDuration().Seconds(),
			s.GetDone(), s.GetMissedDeadlines(), s.GetShed(), s.GetRefused()})
	}
	tenants := []tenantReport{}
	for _, t := range d.GetTenants() {
		r := tenantReport{Name: t.GetName(), Quotas: []quotaReport{}}
		for _, q := range t.GetQuotas() {
			r.Quotas = append(r.Quotas, quotaReport{q.GetResource(), q.GetUsed(), q.Limit, q.GetRefused()})
		}
		tenants = append(tenants, r)
	}
	return deviceReport{
		Backend: d.GetBackend(), Device: d.GetDeviceName(), ComputeUnits: d.GetComputeUnits(),
		Capability: d.GetCapability(),
		Memory: memoryReport{m.GetReservedBytes(), m.GetUsedBytes(), m.GetHighWaterBytes(), labels,
			m.GetScratchBytes(), m.GetSessionBytes(), m.GetResidentBytes(), m.GetEvictableBytes(),
			m.GetLargestFreeBytes(),
			m.GetEvictions(), m.GetRefusals(), m.GetWaiting()},
		Scheduler: classes,
		Frames: framesReport{f.GetFrames(), f.GetBytes(), f.GetCopyBytes(), f.GetMaxFrames(), f.GetMaxBytes(),
			orEmpty(f.GetGone())},
		Losses: d.GetDeviceLosses(), Role: d.GetRole(), Tenants: tenants,
		Server: d.GetServerVersion(), Go: d.GetGoVersion(),
		StartedAt: d.GetStartedAt().AsTime().UTC().Format(time.RFC3339Nano),
		Drivers:   d.GetDrivers(),
		Limits: map[string]uint64{
			"max_message_bytes": l.GetMaxMessageBytes(), "max_frame_pixels": l.GetMaxFramePixels(),
			"max_regions": uint64(l.GetMaxRegions()), "max_vertices": l.GetMaxVertices(),
			"max_streams_per_connection": uint64(l.GetMaxStreamsPerConnection()),
		},
	}
}

// orEmpty makes JSON of no map {} instead of null.
func orEmpty(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return m
}

// size is a number of bytes to about three digits.
func size(n uint64) string {
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return shortly(v) + " " + unit
		}
		v /= 1024
	}
	return shortly(v) + " TiB"
}
