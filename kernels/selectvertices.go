// The checks in front of SelectVertices.

package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// BorderVertices is how many vertices [driver.SelectVertices] puts on the border of an image.
func BorderVertices(width, height, border int) int {
	return 2 * ((width+border-1)/border + (height+border-1)/border)
}

// VertexCells is how many cells [driver.SelectVertices] cuts an image into, at most.
func VertexCells(width, height, cell int) int {
	if cell == 0 {
		return 0
	}
	return ((width + cell - 1) / cell) * ((height + cell - 1) / cell)
}

// SelectVerticesScratch says how much Scratch [Queue.SelectVertices] needs for n vertices of an image.
func (d *Device) SelectVerticesScratch(n, width, height int, rule driver.VertexRule) (int64, error) {
	return d.selectVerticesScratch("SelectVerticesScratch", n, width, height, rule)
}

func (d *Device) selectVerticesScratch(op string, n, width, height int, rule driver.VertexRule) (int64, error) {
	for _, v := range []struct {
		field           string
		value, from, to int
	}{
		{"Width", width, 1, driver.MaxSide},
		{"Height", height, 1, driver.MaxSide},
		{"Floor", rule.Floor, 1, driver.MaxVertexFloor},
		{"Spacing", rule.Spacing, 0, driver.MaxVertexSpacing},
		{"Border", rule.Border, 1, driver.MaxSide},
		{"Cell", rule.Cell, 0, driver.MaxSide},
		{"Strength", rule.Strength, 0, driver.MaxVertexStrength},
		{"N", n, 0, driver.MaxPoints},
	} {
		if v.value < v.from || v.value > v.to {
			return 0, &ArgError{op, v.field, v.value, fmt.Sprintf("must be %d to %d", v.from, v.to)}
		}
	}
	if int64(width)*int64(height) > driver.MaxPixels {
		return 0, &ArgError{op, "Width, Height", fmt.Sprintf("%dx%d", width, height),
			fmt.Sprintf("have more than %d pixels", driver.MaxPixels)}
	}
	if rule.Cell != 0 && rule.Cell <= rule.Spacing {
		return 0, &ArgError{op, "Cell", rule.Cell,
			fmt.Sprintf("must be 0, or more than the Spacing of %d", rule.Spacing)}
	}
	border, cells := BorderVertices(width, height, rule.Border), VertexCells(width, height, rule.Cell)
	if n < border+cells {
		return 0, &ArgError{op, "N", n,
			fmt.Sprintf("is less than the %d vertices on the border and one for each of %d cells", border, cells)}
	}
	return d.dev.SelectVerticesScratch(n, width, height, rule)
}

// SelectVertices enqueues the op after checking its arguments. See [driver.SelectVertices].
func (q *Queue) SelectVertices(op driver.SelectVertices) error {
	const name = "SelectVertices"
	scratch, err := q.dev.selectVerticesScratch(name, op.N, op.Width, op.Height, op.VertexRule)
	if err != nil {
		return err
	}
	if err := checkCount(name, "NPrevious", op.NPrevious, driver.MaxPoints); err != nil {
		return err
	}
	if err := q.checkSlices(name,
		slot{"Edges", op.Edges, 2 * int64(op.Width) * int64(op.Height), false},
		slot{"Previous", op.Previous, 8 * int64(op.NPrevious), false},
		slot{"Points", op.Points, 8 * int64(op.N), false},
		slot{"Count", op.Count, 4, false},
		slot{"Scratch", op.Scratch, scratch, true},
	); err != nil {
		return err
	}
	return q.stream.SelectVertices(op)
}
