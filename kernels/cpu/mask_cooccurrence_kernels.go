// The loop of MaskCooccurrence: pairs of levels to counters.

package cpu

import "unsafe"

// pairTables is how many counters a cell has, side by side: neighbours of one value count in turn, and don't wait for
// each other's.
const pairTables = 4

// countPairs counts the pairs of first and second, which is as long or longer, in tables: pairTables counters for each
// of levels*levels cells. The level of a byte is the byte shifted right by so many bits, and has to be below levels,
// 256 at most.
//
// Eight pairs are made numbers of their cells at a time, as two times four numbers of 16 bits in a word: level*levels +
// level is at most 256*256 - 1, so that nothing carries from one to the next.
func countPairs(tables []uint32, first, second []byte, levels int, shift uint) {
	n := len(first)
	if n == 0 {
		return
	}
	_, _ = second[n-1], tables[pairTables*levels*levels-1]
	shift &= 7
	times, mask := uint64(levels), uint64(0xff>>shift)*0x0001_0001_0001_0001
	t := unsafe.Pointer(unsafe.SliceData(tables))
	a, b := unsafe.Pointer(unsafe.SliceData(first)), unsafe.Pointer(unsafe.SliceData(second))
	i := 0
	for ; i <= n-8; i += 8 {
		p, q := *(*uint64)(unsafe.Add(a, i))>>shift, *(*uint64)(unsafe.Add(b, i))>>shift
		w := (p&mask)*times + q&mask
		*(*uint32)(unsafe.Add(t, w&0xffff*16))++
		*(*uint32)(unsafe.Add(t, w>>16&0xffff*16+4))++
		*(*uint32)(unsafe.Add(t, w>>32&0xffff*16+8))++
		*(*uint32)(unsafe.Add(t, w>>48*16+12))++
		w = (p>>8&mask)*times + q>>8&mask
		*(*uint32)(unsafe.Add(t, w&0xffff*16))++
		*(*uint32)(unsafe.Add(t, w>>16&0xffff*16+4))++
		*(*uint32)(unsafe.Add(t, w>>32&0xffff*16+8))++
		*(*uint32)(unsafe.Add(t, w>>48*16+12))++
	}
	for ; i < n; i++ {
		tables[pairTables*(int(first[i]>>shift)*levels+int(second[i]>>shift))]++
	}
}

// addTables adds counters to counts, and sets them to zero.
func addTables(to, tables []uint32) {
	for i := range to {
		t := tables[pairTables*i:][:pairTables:pairTables]
		to[i] += t[0] + t[1] + t[2] + t[3]
	}
	clear(tables)
}
