package genicam

// Features of chunks: what a camera sends behind an image.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Chunks reads features whose registers lie in chunks. What else they need of the camera it has read once.
type Chunks struct {
	camera *Camera
	names  []string
}

// Value is a feature's.
type Value struct{ Name, Value string }

// maxChunkFeatures bounds what is read of a block.
const maxChunkFeatures = 64

// kept is a port that keeps what was read, and asks no more once it is closed.
type kept struct {
	port   Port
	memory map[string][]byte
	closed bool
}

func (k *kept) Read(ctx context.Context, addr uint32, n int) ([]byte, error) {
	key := fmt.Sprint(addr, n)
	if b, ok := k.memory[key]; ok {
		return b, nil
	}
	if k.closed {
		return nil, ErrAbsent
	}
	b, err := k.port.Read(ctx, addr, n)
	if err == nil {
		k.memory[key] = b
	}
	return b, err
}

func (k *kept) Write(context.Context, uint32, []byte) error { return ErrReadOnly }

// Chunks finds the features that lie in chunks, at most 64.
func (c *Camera) Chunks(ctx context.Context) (*Chunks, error) {
	k := &kept{port: c.port, memory: map[string][]byte{}}
	out := &Chunks{camera: New(c.Model, k)}
	work := 0 // of all of them
	for _, f := range c.Model.Features() {
		if f.Kind == "Command" || !strings.HasPrefix(f.Name, "Chunk") || len(out.names) == maxChunkFeatures {
			continue
		}
		a := out.camera.access(ctx)
		a.any, a.work = true, &work
		_, err := out.camera.get(a, f.Name)
		if ctx.Err() != nil {
			return nil, err
		}
		if a.met {
			out.names = append(out.names, f.Name)
		}
	}
	k.closed = true
	return out, nil
}

// Read returns the features that a block's chunks have. It asks the camera nothing.
func (c *Chunks) Read(chunks map[uint32][]byte) (values []Value) {
	work := 0 // of all of them
	for _, name := range c.names {
		a := c.camera.access(context.Background())
		a.chunks, a.work = chunks, &work
		switch v, err := c.camera.get(a, name); {
		case err == nil:
			values = append(values, Value{name, v})
		case !errors.Is(err, ErrAbsent):
			values = append(values, Value{name, "?"}) // a chunk that its description doesn't fit
		}
	}
	return values
}

// EventName is what the description calls an event; "" where it doesn't.
func (m *Model) EventName(id uint16) string {
	best := ""
	for name, n := range m.nodes {
		text := n.value("EventID")
		if v, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 32); text == "" ||
			err != nil || v != uint64(id) {
			continue
		}
		if name = strings.TrimSuffix(name, "Port"); best == "" || len(name) < len(best) || len(name) == len(best) &&
			name < best {
			best = name
		}
	}
	return best
}
