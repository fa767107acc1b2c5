// Pixels to image files.

package frames

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
)

// PNG makes a file of an image. It ends with ctx, whose cause is the error then.
func PNG(ctx context.Context, img image.Image) ([]byte, error) {
	b := cancellableBuffer{ctx: ctx}
	e := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := e.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encode PNG: %w", err)
	}
	return b.Bytes(), nil
}

// cancellableBuffer takes no more when its context has ended.
type cancellableBuffer struct {
	bytes.Buffer
	ctx context.Context
}

func (b *cancellableBuffer) Write(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.Buffer.Write(p)
}
