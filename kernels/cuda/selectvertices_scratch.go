//lint:file-ignore U1000 launched under the tag cuda

package cuda

import (
	"math/bits"

	"github.com/polyscan/polyscan/kernels/driver"
)

// selectRows is about how many rows of candidates a block of select_keys does: on an H200 with 8 a selection at
// 1920x1080 takes a microsecond less than with 16.
const selectRows = 8

// selectionOf computes what follows from sizes and rules, and lays out the scratch memory from an address
// on: it returns how many bytes of it there are. units is how many multiprocessors there are.
func selectionOf(n, width, height int, rule driver.VertexRule, units int, scratch uint64) (v selection, bytes int64) {
	parts := func(n, of int) int32 { return int32((n + of - 1) / of) }
	v = selection{
		Mixed: splitMix(rule.Seed), Floor: uint32(rule.Floor), Strength: uint32(rule.Strength), N: uint32(n),
		Width: int32(width), Height: int32(height), Spacing: int32(rule.Spacing), Block: int32(rule.Spacing) + 1,
		Cell:          int32(rule.Cell),
		BorderColumns: parts(width, rule.Border), BorderRows: parts(height, rule.Border),
		IndexBits: uint32(bits.Len(uint((width+1)*(height+1) - 1))),
	}
	border := 2 * int(v.BorderColumns+v.BorderRows)
	v.Room = uint32(n - border)
	if v.Columns, v.Rows = int32(width-1-2*rule.Spacing), int32(height-1-2*rule.Spacing); v.Columns <= 0 ||
		v.Rows <= 0 {
		v.Columns, v.Rows = 0, 0
	}
	v.BlockColumns, v.BlockRows = parts(int(v.Columns), int(v.Block)), parts(int(v.Rows), int(v.Block))
	v.RowBlocks = max(selectRows/v.Block, 1)
	if rule.Cell > 0 {
		v.CellColumns, v.CellRows = parts(width, rule.Cell), parts(height, rule.Cell)
		v.CellCount = uint32(v.CellColumns) * uint32(v.CellRows)
		// Warps enough for all multiprocessors, and rows for each.
		const warps = 32
		v.CellParts = int32(max(min(units*warps/int(v.CellCount), (rule.Cell-rule.Spacing+1)/2), 1))
	}
	take := func(n int64) uint64 {
		at := scratch + uint64(bytes)
		bytes += alignUp(n)
		return at
	}
	corners := int64(width+1) * int64(height+1)
	blocks := int64(v.BlockColumns) * int64(v.BlockRows)
	segments := (corners + 32*selectSegment - 1) / (32 * selectSegment)
	v.BitWords = uint32(segments * selectSegment)
	v.Keys = take(4 * int64(v.Columns) * int64(v.Rows))
	v.First = take(8 * blocks)
	v.Stay = take(8 * blocks)
	v.Cells = take(8 * int64(v.CellCount))
	v.Segments = take(4 * (segments + 1))
	zeros := bytes
	v.State = take(selectStateBytes)
	v.Tickets = take(4 * int64(v.CellCount))
	v.Bits = take(4 * int64(v.BitWords))
	v.ZeroWords = uint32((bytes - zeros) / 4)
	return v, bytes
}

// splitMix is the finaliser of SplitMix64: mix of selectvertices.cu.
func splitMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
