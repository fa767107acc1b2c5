package attack

// Image files: ordinary ones, and those that cost more than they weigh.

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
	"image"
	"image/png"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var imageAttacks = []attack{
	// p99 is 7.8 to 13.4 ms on two quiet cores, of 5.2: one file at a time is decoded beside the camera.
	{row: 6, name: "ordinary PNGs beside a camera", camera: true,
		run: func(ctx context.Context, a *attempt) { sendFiles(ctx, a, 8, ordinaryPNG()) }},
	{row: 7, name: "a progressive JPEG of 100 scans", cancelled: true,
		run: func(ctx context.Context, a *attempt) { sendFiles(ctx, a, 4, manyScans(4096, 100), deadline...) }},
	{row: 7, name: "a progressive JPEG of as many scans as are allowed", cancelled: true,
		run: func(ctx context.Context, a *attempt) { sendFiles(ctx, a, 4, manyScans(4096, 60), deadline...) }},
	{row: 11, name: "masks that are PNGs with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, maskFiles(ordinaryPNG(), 3), deadline...)
		}},
	{row: 12, name: "a JPEG of nothing but FF00 in frames of 8 bytes",
		asks: true, run: func(ctx context.Context, a *attempt) { sendOnce(ctx, a, stuffedJPEG(512<<10), 8) }},
	{row: 12, name: "a JPEG of nothing but FF00",
		asks: true, run: func(ctx context.Context, a *attempt) { sendOnce(ctx, a, stuffedJPEG(30<<20), 0) }},
	{row: 13, name: "a PNG of 1 × 2^25", asks: true, run: tallPNG},
}

// file is a request to reduce an image file.
func file(data []byte) []byte {
	return marshal(&pb.ReduceRequest{Inspection: inspect(rectangle("", 64, 64)),
		Frame: &pb.Frame{Encoding: pb.Encoding_ENCODING_AUTO, Source: &pb.Frame_Data{Data: data}}})
}

// maskFiles is a request to reduce a small frame inside so many masks, each of which is an image file.
func maskFiles(data []byte, n int) []byte {
	f := &pb.Frame{Encoding: pb.Encoding_ENCODING_AUTO, Source: &pb.Frame_Data{Data: data}}
	regions := make([]*pb.Region, n)
	for i := range regions {
		regions[i] = &pb.Region{Mask: &pb.Mask{Image: &pb.MaskImage{Frame: f}}}
	}
	return marshal(&pb.ReduceRequest{Inspection: inspect(regions...), Frame: grayFrame(8, 8)})
}

func sendFiles(ctx context.Context, a *attempt, connections int, data []byte, headers ...string) {
	flood(ctx, a, connections, pb.InspectionService_Reduce_FullMethodName, file(data), headers...)
}

// ordinaryPNG is what a camera of 6 megapixels makes.
var ordinaryPNG = sync.OnceValue(func() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	m := image.NewGray(image.Rect(0, 0, 3000, 2000))
	for i := range m.Pix {
		m.Pix[i] = byte(i/3000/8) + byte(r.Uint32()&3)
	}
	var b bytes.Buffer
	(&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	return b.Bytes()
})

// segment is a segment of a JPEG file.
func segment(marker byte, body ...byte) []byte {
	return append([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)}, body...)
}

// manyScans is a progressive JPEG of side × side gray pixels with so many scans. A scan of nothing but zeros takes some
// 30 bytes, and visits each block of the picture.
func manyScans(side, scans int) []byte {
	s := []byte{byte(side >> 8), byte(side)}
	out := []byte{0xff, 0xd8}
	out = append(out, segment(0xdb, make([]byte, 65)...)...)
	out = append(out, segment(0xc2, 8, s[0], s[1], s[0], s[1], 1, 1, 0x11, 0)...)
	table := make([]byte, 1+16+1) // one code, of one bit, for a run of 2^14 and more empty blocks
	table[0], table[1], table[17] = 0x10, 1, 0xe0
	out = append(out, segment(0xc4, table...)...)
	blocks := (side / 8) * (side / 8)
	var bits []byte
	n := 0
	bit := func(one bool) {
		if n%8 == 0 {
			if len(bits) > 0 && bits[len(bits)-1] == 0xff {
				bits = append(bits, 0)
			}
			bits = append(bits, 0)
		}
		if one {
			bits[len(bits)-1] |= 0x80 >> (n % 8)
		}
		n++
	}
	for run := 0; run < blocks; run += 1<<15 - 1 {
		bit(false)
		for range 14 {
			bit(true)
		}
	}
	for n%8 != 0 {
		bit(true)
	}
	if bits[len(bits)-1] == 0xff {
		bits = append(bits, 0)
	}
	// The first scan has the means of the blocks, of a bit each.
	clear(table)
	table[1] = 1
	out = append(out, segment(0xc4, table...)...)
	out = append(out, segment(0xda, 1, 1, 0, 0, 0, 0)...)
	out = append(out, make([]byte, blocks/8)...)
	for range scans - 1 {
		out = append(out, segment(0xda, 1, 1, 0, 1, 63, 0)...)
		out = append(out, bits...)
	}
	return append(out, 0xff, 0xd9)
}

// stuffedJPEG is a scan of n bytes of FF00.
func stuffedJPEG(n int) []byte {
	head := manyScans(512, 2)
	return append(head[:len(head)-2], bytes.Repeat([]byte{0xff, 0}, n/2)...)
}

// sendOnce sends a file in DATA frames of chunk bytes. Looking at it must take time that goes with its size.
func sendOnce(ctx context.Context, a *attempt, data []byte, chunk int) {
	req := file(data)
	w := dial(a, a.addr, 1<<20)
	defer w.close()
	c := w.call(pb.InspectionService_Reduce_FullMethodName)
	if err := c.data(ctx, append(prefix(len(req)), req[:len(req)-1]...), chunk, false); err != nil {
		if chunk == 0 {
			a.problem("a file of %d bytes can't be sent: %v", len(data), err)
		}
		return // the server may refuse crumbs
	}
	begun := time.Now()
	c.data(ctx, req[len(req)-1:], 0, true)
	code, err := c.wait(ctx)
	took := time.Since(begun)
	if err != nil {
		a.problem("a file of %d bytes: %v, %v, after %v", len(data), code, err, took)
	}
	a.felt(took, 100*time.Millisecond+time.Duration(len(data))*20*time.Nanosecond, "a file of %d bytes: %v after %v",
		len(data), code, took)
}

// tallPNG sends pictures one pixel wide that are as high as their size allows, and higher than any device takes.
func tallPNG(ctx context.Context, a *attempt) {
	const height = maxMessage
	var z bytes.Buffer
	zw, _ := zlib.NewWriterLevel(&z, zlib.BestSpeed)
	zeros := make([]byte, 1<<20)
	zw.Write(zeros)
	zw.Flush()
	head := z.Len()
	zw.Write(zeros)
	zw.Flush()
	again := bytes.Clone(z.Bytes()[head:]) // refers to nothing but zeros
	data := bytes.Clone(z.Bytes()[:head])
	for range 2*height/len(zeros) - 1 {
		data = append(data, again...)
	}
	data = append(data, 1, 0, 0, 0xff, 0xff)
	sum := adler32.New()
	for range 2 * height / len(zeros) {
		sum.Write(zeros)
	}
	data = sum.Sum(data)
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, body []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
		b := append([]byte(kind), body...)
		out = binary.BigEndian.AppendUint32(append(out, b...), crc32.ChecksumIEEE(b))
	}
	ihdr := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), height)
	chunk("IHDR", append(ihdr, 8, 0, 0, 0, 0))
	chunk("IDAT", data)
	chunk("IEND", nil)

	w := dial(a, a.addr, 1<<20)
	defer w.close()
	c := w.call(pb.InspectionService_Reduce_FullMethodName)
	begun := time.Now()
	c.send(ctx, file(out))
	code, err := c.wait(ctx)
	took := time.Since(begun)
	if code != codes.InvalidArgument || err != nil {
		a.problem("a PNG of 1 × %d pixels in %d bytes: %v, %v, after %v", height, len(out), code, err, took)
	}
	a.felt(took, 150*time.Millisecond, "a PNG of 1 × %d pixels in %d bytes is refused after %v", height, len(out), took)
}
