// The loop of MaskCooccurrence: pairs of levels to counters.

package cpu

import "unsafe"

// countPairs counts the pairs of first and second, which is as long or longer, in tables: pairTables of levels*levels
// counters. All levels are below levels, which is 256 at most.
//
// Four pairs are made indices of their counters at a time, as four numbers of 16 bits in a word: level*levels + level is
// at most 256*256 - 1, so that nothing carries from one to the next.
func countPairs(tables []uint32, first, second []uint16, levels int) {
	n := len(first)
	if n == 0 {
		return
	}
	cells := levels * levels
	_ = second[n-1]
	_ = tables[pairTables*cells-1]
	a, b := unsafe.Pointer(unsafe.SliceData(first)), unsafe.Pointer(unsafe.SliceData(second))
	base := unsafe.Pointer(unsafe.SliceData(tables))
	t0, t1 := base, unsafe.Add(base, 4*cells)
	t2, t3 := unsafe.Add(base, 8*cells), unsafe.Add(base, 12*cells)
	i := 0
	for ; i+4 <= n; i += 4 {
		w := *(*uint64)(unsafe.Add(a, 2*i))*uint64(levels) + *(*uint64)(unsafe.Add(b, 2*i))
		*(*uint32)(unsafe.Add(t0, 4*(w&0xffff)))++
		*(*uint32)(unsafe.Add(t1, 4*(w>>16&0xffff)))++
		*(*uint32)(unsafe.Add(t2, 4*(w>>32&0xffff)))++
		*(*uint32)(unsafe.Add(t3, 4*(w>>48)))++
	}
	for ; i < n; i++ {
		tables[int(first[i])*levels+int(second[i])]++
	}
}
