//go:build !purego

package cpu

// In all of them n is a multiple of 8, and more than 0. Where odd is 0 they relax pixels 0, 2, 4 and so on, where it is
// 1 the others. Those beside the n pixels are read, too, and those of the rows above and below a coarse one, which are
// stride numbers apart.

//go:noescape
func stepAVX2(row, was *float32, n int, step float32) (most uint32)

//go:noescape
func relaxFinestAVX2(x, up, down, inv *float32, n, odd int)

//go:noescape
func residualFinestAVX2(dst, x, up, down, inv *float32, n int) (most uint32)

//go:noescape
func relaxCoarseAVX2(x, b, inv, e, s, se, sw *float32, stride, n, odd int)

//go:noescape
func residualCoarseAVX2(dst, x, b, inv, sink, e, s, se, sw *float32, stride, n int)
