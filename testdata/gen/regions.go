// regions.go is the regions file: what the pictures' polygons look like on disk.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// region is one entry of a regions file. Field order is the order in the file.
type region struct {
	Name   string         `json:"name"`
	Rings  [][][2]float64 `json:"rings"`
	Fill   string         `json:"fill,omitempty"`
	Limits []string       `json:"limits,omitempty"`
}

// vertex rounds to an eighth of a pixel, which decimals and the 1/256 px grid of polyscan both hold exactly.
func vertex(v pt) [2]float64 {
	eighth := func(f fix) float64 { return float64((f+one/16)>>13) / 8 }
	return [2]float64{eighth(v.x), eighth(v.y)}
}

// ring makes a ring of the points in their order.
func ring(pts ...pt) [][2]float64 {
	r := make([][2]float64, len(pts))
	for i, v := range pts {
		r[i] = vertex(v)
	}
	return r
}

// reversed is the ring in the opposite direction, a hole under the non-zero rule.
func reversed(r [][2]float64) [][2]float64 {
	o := make([][2]float64, len(r))
	for i, v := range r {
		o[len(r)-1-i] = v
	}
	return o
}

// rect is the ring of an axis-aligned rectangle, clockwise on the screen.
func rect(x0, y0, x1, y1 fix) [][2]float64 {
	return ring(pt{x0, y0}, pt{x1, y0}, pt{x1, y1}, pt{x0, y1})
}

// around is the ring of a rectangle about c, by half width and half height.
func around(c pt, hw, hh fix) [][2]float64 { return rect(c.x-hw, c.y-hh, c.x+hw, c.y+hh) }

// ngon is a regular ring of n vertices, clockwise on the screen, starting at the given angle in turns.
func ngon(c pt, r fix, n int, start fix) [][2]float64 { return oval(c, r, r, n, start) }

// oval is ngon squeezed to two radii.
func oval(c pt, rx, ry fix, n int, start fix) [][2]float64 {
	o := make([][2]float64, n)
	for i := range n {
		a := start + px(i)/fix(n)
		o[i] = vertex(pt{c.x + mul(rx, cos(a)), c.y + mul(ry, sin(a))})
	}
	return o
}

// encode writes the regions as JSON, one region a line.
func encode(rs []region) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, r := range rs {
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false) // limits are full of < and >
		if err := enc.Encode(r); err != nil {
			return nil, fmt.Errorf("region %q: %w", r.Name, err)
		}
		b.Write(bytes.TrimRight(line.Bytes(), "\n"))
		if i < len(rs)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return b.Bytes(), nil
}
