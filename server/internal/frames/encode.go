// Pixels to image files.

package frames

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// smallImage is so few pixels that encoding them takes less than a turn: 0.5 ms.
const smallImage = 1 << 15

// PNG makes a file of an image, at a place of the pool unless it is small. It ends with ctx, whose cause is the error
// then.
func (s *Reader) PNG(ctx context.Context, img image.Image) ([]byte, error) {
	return s.PNGIn(ctx, img, nil, 0)
}

// PNGIn is PNG that fills a share with the file as that grows, and with what there is beside it.
func (s *Reader) PNGIn(ctx context.Context, img image.Image, share *budget.Share, beside int64) ([]byte, error) {
	b := pausingBuffer{pause: func() error { return context.Cause(ctx) }, share: share, beside: beside}
	if size := img.Bounds().Size(); size.X*size.Y >= smallImage {
		turn, err := s.Work.Enter(ctx)
		if err != nil {
			return nil, err
		}
		defer turn.Leave()
		b.pause = turn.Yield
	}
	e := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := e.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encode PNG: %w", err)
	}
	return b.Bytes(), nil
}

// pausingBuffer lets others go first between what is written to it, and fills a share.
type pausingBuffer struct {
	bytes.Buffer
	pause  func() error
	share  *budget.Share
	beside int64
}

func (b *pausingBuffer) Write(p []byte) (int, error) {
	if err := b.pause(); err != nil {
		return 0, err
	}
	n, err := b.Buffer.Write(p)
	b.share.Fill(b.beside + int64(b.Cap()))
	return n, err
}
