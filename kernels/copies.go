// Long copies, in parts with others let through between them.

package kernels

import "fmt"

// UploadChunks is [UploadGather] in chunks that take about a millisecond, with [Queue.Yield] between them. The last one
// is still under way when it returns.
func UploadChunks(q *Queue, dst Buffer[byte], src [][]byte) error {
	size := 0
	for _, p := range src {
		size += len(p)
	}
	if size != dst.n {
		return refuse("UploadChunks", "len(src)", size, fmt.Sprintf("the buffer holds %d", dst.n))
	}
	var chunk [][]byte
	next, from := 0, 0 // the piece that is next, and where in it
	for at := 0; at < dst.n; {
		n := int(q.Chunk("upload", int64(dst.n-at)))
		if n == dst.n {
			return UploadGather(q, dst, src)
		}
		chunk = chunk[:0]
		for left := n; left > 0; {
			p := src[next][from:]
			if from += left; len(p) <= left {
				next, from = next+1, 0
			} else {
				p = p[:left]
			}
			chunk = append(chunk, p)
			left -= len(p)
		}
		if err := UploadGather(q, dst.Range(at, at+n), chunk); err != nil {
			return err
		}
		if at += n; at == dst.n {
			break
		}
		if err := q.Yield(); err != nil {
			return err
		}
	}
	return nil
}

// DownloadChunks is [Download] in chunks that take about a millisecond, with [Queue.Yield] between them. The last one
// is still under way when it returns.
func DownloadChunks(q *Queue, dst []byte, src Buffer[byte]) error {
	if len(dst) != src.n {
		return refuse("DownloadChunks", "len(dst)", len(dst), fmt.Sprintf("the buffer holds %d", src.n))
	}
	for at := 0; at < len(dst); {
		n := int(q.Chunk("download", int64(len(dst)-at)))
		if err := Download(q, dst[at:at+n], src.Range(at, at+n)); err != nil {
			return err
		}
		if at += n; at == len(dst) {
			break
		}
		if err := q.Yield(); err != nil {
			return err
		}
	}
	return nil
}
