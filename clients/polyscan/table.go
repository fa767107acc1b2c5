package main

// Aligned columns of text.

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

type column struct {
	title string
	right bool // numbers
}

type cell struct {
	text  string
	style cli.Style
}

type table struct {
	columns []column
	rows    [][]cell
}

// tableWidth is how many columns a terminal has at the least.
const tableWidth = 80

// add adds a row. One of a single cell is a heading: it may reach over all columns.
func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// dropEmpty leaves out a column in which nothing is.
func (t *table) dropEmpty(title string) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.title == title })
	if i < 0 || slices.ContainsFunc(t.rows, func(r []cell) bool { return len(r) > i && r[i].text != "" }) {
		return
	}
	t.columns = slices.Delete(t.columns, i, i+1)
	for j, r := range t.rows {
		if len(r) > i {
			t.rows[j] = slices.Delete(r, i, i+1)
		}
	}
}

// fitting are the widths that say how a table is laid out: names are no wider there than on a terminal.
func (t *table) fitting() []int {
	width := t.widths()
	width[0] = min(width[0], maxNameColumns)
	return width
}

// widths are those of the columns.
func (t *table) widths() []int {
	width := make([]int, len(t.columns))
	for i, c := range t.columns {
		width[i] = uniseg.StringWidth(c.title)
	}
	for _, r := range t.rows {
		for i, c := range r {
			if len(r) > 1 {
				width[i] = max(width[i], uniseg.StringWidth(c.text))
			}
		}
	}
	return width
}

// fits says whether the table's lines fit a terminal.
func (t *table) fits() bool {
	sum := 2 * (len(t.columns) - 1)
	for _, w := range t.fitting() {
		sum += w
	}
	return sum <= tableWidth
}

// blocks splits a table that doesn't fit a terminal into some that do, each with the first columns again. Every row has
// a cell for every column. A column that is too wide by itself has a block of its own.
func (t *table) blocks(repeated int) []*table {
	if t.fits() {
		return []*table{t}
	}
	widths := t.fitting()
	var blocks []*table
	for from := repeated; from < len(t.columns); {
		to, line := from, -2
		for _, w := range widths[:repeated] {
			line += 2 + w
		}
		for to < len(t.columns) && (to == from || line+2+widths[to] <= tableWidth) {
			line += 2 + widths[to]
			to++
		}
		b := &table{columns: slices.Concat(t.columns[:repeated], t.columns[from:to])}
		for _, r := range t.rows {
			b.rows = append(b.rows, slices.Concat(r[:repeated], r[from:to]))
		}
		blocks = append(blocks, b)
		from = to
	}
	return blocks
}

// write prints the table with two spaces between columns and none at the end of a line.
func (t *table) write(e *env, w io.Writer) error {
	width := t.widths()
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
		head[i] = cell{c.title, cli.Bold}
	}
	line(head)
	for _, r := range t.rows {
		line(r)
	}
	return b.Flush()
}
