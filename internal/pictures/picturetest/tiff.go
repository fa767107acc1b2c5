// Package picturetest makes files for tests of package pictures and of those who use it.
package picturetest

import (
	"encoding/binary"
	"slices"
)

// Paged is a TIFF file in little endian with a directory behind the first that says of what kind it is, such as 1 for a
// smaller copy and 2 for a page, and nothing else.
func Paged(file []byte, kind uint32) []byte {
	file = slices.Clone(file)
	ifd := binary.LittleEndian.Uint32(file[4:])
	next := ifd + 2 + 12*uint32(binary.LittleEndian.Uint16(file[ifd:]))
	others := binary.LittleEndian.Uint32(file[next:])
	binary.LittleEndian.PutUint32(file[next:], uint32(len(file)))
	return binary.LittleEndian.AppendUint32(append(file, Directory(kind)[:14]...), others)
}

// Directory says of what kind it is, and nothing else.
func Directory(kind uint32) []byte {
	const newSubfileType, long = 254, 4
	return append(binary.LittleEndian.AppendUint32([]byte{1, 0, newSubfileType, 0, long, 0, 1, 0, 0, 0}, kind), 0, 0, 0, 0)
}

// With is a TIFF file in little endian whose first directory has a tag with these values of 32 bits, or lacks it where
// there are none.
func With(file []byte, tag uint16, values ...uint32) []byte {
	file = slices.Clone(file)
	ifd := binary.LittleEndian.Uint32(file[4:])
	n := uint32(binary.LittleEndian.Uint16(file[ifd:]))
	entries, next := file[ifd+2:ifd+2+12*n], binary.LittleEndian.Uint32(file[ifd+2+12*n:])
	var made []byte
	for _, v := range values {
		made = binary.LittleEndian.AppendUint32(made, v)
	}
	place := uint32(len(file))
	if len(values) > 1 {
		file = append(file, made...)
		made = binary.LittleEndian.AppendUint32(nil, place)
	}
	var out [][]byte
	for e := range slices.Chunk(entries, 12) {
		if binary.LittleEndian.Uint16(e) != tag {
			out = append(out, e)
		}
	}
	if len(values) > 0 {
		const long = 4
		head := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, tag), long)
		out = append(out, append(binary.LittleEndian.AppendUint32(head, uint32(len(values))), made...))
		slices.SortFunc(out, func(a, b []byte) int {
			return int(binary.LittleEndian.Uint16(a)) - int(binary.LittleEndian.Uint16(b))
		})
	}
	binary.LittleEndian.PutUint32(file[4:], uint32(len(file)))
	file = binary.LittleEndian.AppendUint16(file, uint16(len(out)))
	return binary.LittleEndian.AppendUint32(append(file, slices.Concat(out...)...), next)
}
