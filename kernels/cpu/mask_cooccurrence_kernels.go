// The loop of MaskCooccurrence: pairs of levels to counters.

package cpu

import "unsafe"

const (
	// pairTables is how many counters a cell has, side by side. Neighbours of one value count in turn, and don't wait for
	// each other's: a counter that was just stored takes some eight cycles to load again.
	pairTables = 8
	// pairRun is how many pairs are counted at a time: no counter gets more than pairRun/pairTables of them.
	pairRun = 1 << 15
	// pairMost is what a counter holds.
	pairMost = 1<<16 - 1
)

// countPairsGo counts the pairs of first and second, which is as long or longer, in tables: pairTables counters for
// each of levels*levels cells. The level of a byte is the byte shifted right by so many bits, and has to be below
// levels, 256 at most. Each counter of a cell gets at most one of every pairTables pairs, rounded up.
//
// Eight pairs are made numbers of their cells at a time, as two times four numbers of 16 bits in a word: level*levels +
// level is at most 256*256 - 1, so that nothing carries from one to the next.
func countPairsGo(tables []uint16, first, second []byte, levels int, shift uint) {
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
		*(*uint16)(unsafe.Add(t, w&0xffff*16))++
		*(*uint16)(unsafe.Add(t, w>>16&0xffff*16+2))++
		*(*uint16)(unsafe.Add(t, w>>32&0xffff*16+4))++
		*(*uint16)(unsafe.Add(t, w>>48*16+6))++
		w = (p>>8&mask)*times + q>>8&mask
		*(*uint16)(unsafe.Add(t, w&0xffff*16+8))++
		*(*uint16)(unsafe.Add(t, w>>16&0xffff*16+10))++
		*(*uint16)(unsafe.Add(t, w>>32&0xffff*16+12))++
		*(*uint16)(unsafe.Add(t, w>>48*16+14))++
	}
	for ; i < n; i++ {
		tables[pairTables*(int(first[i]>>shift)*levels+int(second[i]>>shift))+i%pairTables]++
	}
}

// addTables adds counters to counts, and sets them to zero: two words of four counters a cell.
func addTables(to []uint32, tables []uint16) {
	_ = tables[:pairTables*len(to)]
	const other = 0x0000ffff_0000ffff
	words := unsafe.Slice((*[2]uint64)(unsafe.Pointer(unsafe.SliceData(tables))), len(to))
	for i := range words {
		if t := &words[i]; t[0]|t[1] != 0 {
			n := t[0]&other + t[0]>>16&other + t[1]&other + t[1]>>16&other
			to[i] += uint32(n) + uint32(n>>32)
			*t = [2]uint64{}
		}
	}
}
