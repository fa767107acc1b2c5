package kernels

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Elem is what buffers hold: plain values without pointers, of the same layout on host and device (little endian).
type Elem interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32 | ~int64 | ~float32 | ~float64 |
		driver.MaskStats | driver.PairSums | driver.Edge | driver.Point | driver.Triangle | driver.MeshCounts |
		driver.FlipStatus | driver.DiffusionCounts | driver.DiffusionStatus | driver.WeightSums | driver.BlobCount |
		driver.Blob | driver.BlobRun
}

// Buffer is n elements in device memory. It is a value that can be copied; it owns nothing.
type Buffer[T Elem] struct {
	slice driver.Slice
	n     int
}

// Len is the number of elements.
func (b Buffer[T]) Len() int { return b.n }

// Slice is the buffer's memory, to be put in op structs.
func (b Buffer[T]) Slice() driver.Slice { return b.slice }

// Range is the part [from, to) of the buffer.
func (b Buffer[T]) Range(from, to int) Buffer[T] {
	if from < 0 || to < from || to > b.n {
		panic(fmt.Sprintf("kernels: Range(%d, %d) of a buffer of %d", from, to, b.n))
	}
	var z T
	size := int64(unsafe.Sizeof(z))
	return Buffer[T]{driver.Slice{Mem: b.slice.Mem, Off: b.slice.Off + int64(from)*size, Len: int64(to-from) * size},
		to - from}
}

// Bytes is what [Alloc] of n elements takes from a job's footprint: a multiple of [driver.Align], at most 2^60, so that
// the sizes of a few buffers add up without overflow.
func Bytes[T Elem](n int) int64 {
	var z T
	size := int64(unsafe.Sizeof(z))
	return roundUp(min(int64(n), maxBytes/size) * size)
}

// Held is what buffers take of the device's memory, for [Job.Held]: empty ones take none.
func Held[T Elem](buffers ...Buffer[T]) (bytes int64) {
	for _, b := range buffers {
		if b.Len() > 0 {
			bytes += Bytes[T](b.Len())
		}
	}
	return bytes
}

// Alloc takes n elements from the job's footprint. The content is undefined. The memory goes back when the job ends.
// An alloc beyond the declared footprint is an error.
func Alloc[T Elem](q *Queue, n int, label string) (Buffer[T], error) {
	if n < 0 {
		return Buffer[T]{}, refuse("Alloc", label, n, "must not be negative")
	}
	if q.done.Load() {
		return Buffer[T]{}, ErrEnded
	}
	if q.scratch == nil {
		q.scratch = heaps.Get().(*heap)
		q.scratch.reset(q.arena.room())
	}
	need := Bytes[T](n)
	off, ok := q.scratch.alloc(need, false)
	if !ok {
		reason := fmt.Sprintf("exceeds the job's declared footprint (%d of %d bytes taken",
			q.scratch.size-q.scratch.avail, q.scratch.size)
		if most := q.scratch.largest(); most < q.scratch.avail {
			reason += fmt.Sprintf(", at most %d free in one piece", most)
		}
		return Buffer[T]{}, refuse("Alloc", label, need, reason+")")
	}
	var z T
	s := driver.Slice{Mem: q.dev.mem.mem, Off: q.arena.off + off, Len: int64(n) * int64(unsafe.Sizeof(z))}
	if q.dev.poison && s.Len < need {
		q.padded = append(q.padded, block{off: s.Off, len: need, bytes: s.Len, label: label})
	}
	return Buffer[T]{s, n}, nil
}

// Free gives what [Alloc] returned, whole, back to the job, whose later allocs may get the same bytes. It takes its
// turn on the stream: what was enqueued before still has the memory, and what is enqueued behind it must not use it. A
// job that frees in the reverse order of its allocs, or frees and allocates equal sizes, never takes more than it holds
// at once; in another order pieces may be left between, and its footprint has to allow for them.
func Free[T Elem](q *Queue, b Buffer[T]) error {
	if q.done.Load() {
		return ErrEnded
	}
	off := b.slice.Off - q.arena.off
	if q.scratch == nil || b.slice.Mem != q.dev.mem.mem || q.scratch.live[off] == nil ||
		q.scratch.live[off].len != roundUp(b.slice.Len) {
		return refuse("Free", "b", [2]int64{b.slice.Off, b.slice.Len},
			"(offset, length) is not what Alloc returned, or it is free already")
	}
	if q.dev.poison {
		padded := driver.Slice{Mem: b.slice.Mem, Off: b.slice.Off, Len: roundUp(b.slice.Len)}
		if err := q.stream.Run(&driver.Fill{Dst: padded, Value: poison}); err != nil {
			return err
		}
		q.padded = slices.DeleteFunc(q.padded, func(p block) bool { return p.off == b.slice.Off })
	}
	q.scratch.free(off)
	return nil
}

// GiveBack gives n bytes of the footprint, which the job does not need after all, to others while it goes on: as many
// as [Bytes] says of what it would have allocated. It waits for what was enqueued so far. Where the job has not more
// than that left, in one piece, it keeps all of it.
func (q *Queue) GiveBack(n int64) error {
	if q.done.Load() {
		return ErrEnded
	}
	if n < 0 || n%driver.Align != 0 {
		return refuse("GiveBack", "n", n, fmt.Sprintf("must be a multiple of %d, and not negative", driver.Align))
	}
	h := q.scratch
	if n == 0 || h == nil || h.largest() != h.avail || h.avail <= n {
		return nil
	}
	// The heap goes on with the size it has, and the end of it taken.
	if off, _ := h.alloc(n, true); off+n != q.arena.room() {
		h.free(off)
		return nil
	}
	if err := q.Wait(); err != nil {
		return err
	}
	if err := q.buryEnd(n); err != nil {
		return err
	}
	q.dev.mem.shorten(&q.arena, n)
	return nil
}

// heaps are those of jobs that ended.
var heaps = sync.Pool{New: func() any { return newHeap(0) }}

// reserve allocates memory beyond a job.
func reserve[T Elem](d *Device, n int, t tenant, op, label string) (block, Buffer[T], error) {
	if n < 0 {
		return block{}, Buffer[T]{}, refuse(op, label, n, "must not be negative")
	}
	var z T
	size := int64(unsafe.Sizeof(z))
	blk, err := d.sched.keep(min(int64(n), maxBytes/size)*size, t, label)
	if err != nil {
		return block{}, Buffer[T]{}, err
	}
	if err := d.mem.poisoner.prepare(blk); err != nil {
		blk.bytes = blk.len // it has no guard
		d.mem.release(blk)
		return block{}, Buffer[T]{}, err
	}
	return blk, Buffer[T]{driver.Slice{Mem: d.mem.mem, Off: blk.off, Len: blk.bytes}, n}, nil
}

// Persistent is device memory that outlives jobs, as the state of a session does. It is never evicted. Free it exactly
// once, when no job uses it any more. It must not be copied.
type Persistent[T Elem] struct {
	Buffer[T]
	dev atomic.Pointer[Device] // nil when freed
	blk block
}

// AllocPersistent allocates n elements beyond the job, of undefined content. It does not wait: where there is no room,
// even without the residents that nobody holds, it returns a [*CapacityError]. Memos that no job uses go for it in any
// case, so that it lies where it would without them and leaves as much in one piece.
func AllocPersistent[T Elem](d *Device, n int, label string) (*Persistent[T], error) {
	blk, buf, err := reserve[T](d, n, session, "AllocPersistent", label)
	if err != nil {
		return nil, err
	}
	k := &Persistent[T]{Buffer: buf, blk: blk}
	k.dev.Store(d)
	return k, nil
}

// Free gives the memory back. A second call panics: it is a bug that would hand the same memory out twice.
func (k *Persistent[T]) Free() {
	d := k.dev.Swap(nil)
	if d == nil {
		panic(fmt.Sprintf("kernels: persistent memory %q freed twice", k.blk.label))
	}
	k.Buffer = Buffer[T]{} // what still uses it gets an error for its length
	d.mem.release(k.blk)
}

// asBytes views values as the bytes that travel to a device.
func asBytes[T Elem](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// Upload enqueues a copy of src to dst, of the same length. src must stay untouched until the job has ended or
// [Queue.Wait] has returned.
func Upload[T Elem](q *Queue, dst Buffer[T], src []T) error {
	if len(src) != dst.n {
		return refuse("Upload", "len(src)", len(src), fmt.Sprintf("the buffer holds %d", dst.n))
	}
	if err := q.check("Upload", "dst", dst.slice); err != nil || dst.n == 0 {
		return err
	}
	return q.stream.Upload(dst.slice, [][]byte{asBytes(src)})
}

// UploadGather enqueues a copy of the concatenation of src to dst, whose length it must have. The pieces must stay
// untouched until the job has ended or [Queue.Wait] has returned.
func UploadGather(q *Queue, dst Buffer[byte], src [][]byte) error {
	n := 0
	for _, p := range src {
		n += len(p)
	}
	if n != dst.n {
		return refuse("UploadGather", "len(src)", n, fmt.Sprintf("the buffer holds %d", dst.n))
	}
	if err := q.check("UploadGather", "dst", dst.slice); err != nil || n == 0 {
		return err
	}
	return q.stream.Upload(dst.slice, src)
}

// Download enqueues a copy of src to dst, of the same length. dst holds the values when the job has ended or
// [Queue.Wait] has returned.
func Download[T Elem](q *Queue, dst []T, src Buffer[T]) error {
	if len(dst) != src.n {
		return refuse("Download", "len(dst)", len(dst), fmt.Sprintf("the buffer holds %d", src.n))
	}
	if err := q.check("Download", "src", src.slice); err != nil || src.n == 0 {
		return err
	}
	return q.stream.Download(asBytes(dst), src.slice)
}

// Fill enqueues setting each byte of dst.
func Fill[T Elem](q *Queue, dst Buffer[T], value byte) error {
	if dst.n == 0 {
		return q.alive()
	}
	return q.Run(&driver.Fill{Dst: dst.slice, Value: value})
}
