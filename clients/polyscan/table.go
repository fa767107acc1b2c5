package main

// Aligned columns of text.

import (
	"bufio"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

type column struct {
	title string
	right bool // numbers
}

type cell struct {
	text  string
	style style
}

type table struct {
	columns []column
	rows    [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// write prints the table with two spaces between columns and none at the end of a line.
func (t *table) write(e *env, w io.Writer) error {
	width := make([]int, len(t.columns))
	for i, c := range t.columns {
		width[i] = uniseg.StringWidth(c.title)
	}
	for _, r := range t.rows {
		for i, c := range r {
			width[i] = max(width[i], uniseg.StringWidth(c.text))
		}
	}
	b := bufio.NewWriter(w)
	line := func(cells []cell) {
		pending := 0 // spaces, written only if something follows
		for i, c := range cells {
			pad := width[i] - uniseg.StringWidth(c.text)
			if i > 0 {
				pending += 2
			}
			if t.columns[i].right {
				pending += pad
			}
			if c.text != "" {
				b.WriteString(strings.Repeat(" ", pending))
				pending = 0
				b.WriteString(e.paint(c.style, c.text))
			} else if t.columns[i].right {
				pending += width[i] - pad
			}
			if !t.columns[i].right {
				pending += pad
			}
		}
		b.WriteByte('\n')
	}
	head := make([]cell, len(t.columns))
	for i, c := range t.columns {
		head[i] = cell{c.title, bold}
	}
	line(head)
	for _, r := range t.rows {
		line(r)
	}
	return b.Flush()
}
