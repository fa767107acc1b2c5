package main

// polyscan device.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type deviceCmd struct {
	JSON bool `help:"Print a JSON object." group:"output" name:"json"`
	deviceFlags
	serverFlags
}

func (c *deviceCmd) Help() string {
	return `
Says what a server computes on, how much of its memory is in use, and which limits requests must keep.

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
	Server       string            `json:"server_version"`
	Go           string            `json:"go_version"`
	StartedAt    string            `json:"started_at"`
	Drivers      []string          `json:"drivers"`
	Limits       map[string]uint64 `json:"limits"`
}

type memoryReport struct {
	Reserved  uint64            `json:"reserved"`
	Used      uint64            `json:"used"`
	HighWater uint64            `json:"high_water"`
	ByLabel   map[string]uint64 `json:"used_by_label"`
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
		{"memory", fmt.Sprintf("%s of %s in use, at most %s so far", size(m.GetUsedBytes()), size(m.GetReservedBytes()), size(m.GetHighWaterBytes()))},
	}
	for _, label := range slices.Sorted(maps.Keys(m.GetUsedBytesByLabel())) {
		rows = append(rows, [2]string{"  " + label, size(m.GetUsedBytesByLabel()[label])})
	}
	rows = append(rows,
		[2]string{"server", d.GetServerVersion() + ", " + d.GetGoVersion()},
		[2]string{"drivers", strings.Join(d.GetDrivers(), ", ")},
		[2]string{"started", d.GetStartedAt().AsTime().Local().Format(time.RFC3339)},
		[2]string{"limits", fmt.Sprintf("messages of %s, frames of %d pixels, %d regions, %d vertices, %d calls a connection",
			size(l.GetMaxMessageBytes()), l.GetMaxFramePixels(), l.GetMaxRegions(), l.GetMaxVertices(), l.GetMaxStreamsPerConnection())})
	for _, r := range rows {
		if _, err := fmt.Fprintf(e.stdout, "%s %s\n", e.paint(bold, fmt.Sprintf("%-14s", r[0])), printable(r[1])); err != nil {
			return err
		}
	}
	return nil
}

func reportDevice(d *polyscanv1.GetDeviceResponse) deviceReport {
	m, l := d.GetMemory(), d.GetLimits()
	labels := m.GetUsedBytesByLabel()
	if labels == nil {
		labels = map[string]uint64{}
	}
	return deviceReport{
		Backend: d.GetBackend(), Device: d.GetDeviceName(), ComputeUnits: d.GetComputeUnits(), Capability: d.GetCapability(),
		Memory: memoryReport{m.GetReservedBytes(), m.GetUsedBytes(), m.GetHighWaterBytes(), labels},
		Server: d.GetServerVersion(), Go: d.GetGoVersion(), StartedAt: d.GetStartedAt().AsTime().UTC().Format(time.RFC3339Nano),
		Drivers: d.GetDrivers(),
		Limits: map[string]uint64{
			"max_message_bytes": l.GetMaxMessageBytes(), "max_frame_pixels": l.GetMaxFramePixels(),
			"max_regions": uint64(l.GetMaxRegions()), "max_vertices": l.GetMaxVertices(),
			"max_streams_per_connection": uint64(l.GetMaxStreamsPerConnection()),
		},
	}
}

// size is a number of bytes to about three digits.
func size(n uint64) string {
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return digits(v) + " " + unit
		}
		v /= 1024
	}
	return digits(v) + " TiB"
}
