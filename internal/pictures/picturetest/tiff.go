// Package picturetest makes files for tests of package pictures and of those who use it.
package picturetest

import (
	"encoding/binary"
	"slices"
)

// Paged is a TIFF file in little endian with a second directory that says of what kind it is, such as 1 for a smaller
// copy and 2 for a page, and nothing else.
func Paged(file []byte, kind uint32) []byte {
	file = slices.Clone(file)
	ifd := binary.LittleEndian.Uint32(file[4:])
	next := ifd + 2 + 12*uint32(binary.LittleEndian.Uint16(file[ifd:]))
	binary.LittleEndian.PutUint32(file[next:], uint32(len(file)))
	const newSubfileType, long = 254, 4
	file = append(file, 1, 0, newSubfileType, 0, long, 0, 1, 0, 0, 0)
	return append(binary.LittleEndian.AppendUint32(file, kind), 0, 0, 0, 0)
}
