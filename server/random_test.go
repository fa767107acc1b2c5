package server

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/seed"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/inspect"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// randomBudget is how many random bytes a test spends: half a million, or what POLYSCAN_RANDOM_BYTES says.
func randomBudget(t *testing.T) int {
	if s := os.Getenv("POLYSCAN_RANDOM_BYTES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 200_000
	}
	return 500_000
}

// bytesOf returns n random bytes.
func bytesOf(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// spoil returns random bytes, or one of the seeds with some of its bytes changed, moved, or cut off.
func spoil(rng *rand.Rand, seeds [][]byte) []byte {
	b := bytes.Clone(seeds[rng.IntN(len(seeds))])
	if len(b) == 0 || rng.IntN(4) == 0 {
		return bytesOf(rng, rng.IntN(600))
	}
	for range 1 + rng.IntN(8) {
		i := rng.IntN(len(b))
		switch rng.IntN(5) {
		case 0:
			b = b[:i]
		case 1:
			b = append(b[:i:i], append(bytesOf(rng, rng.IntN(20)), b[i:]...)...)
		case 2:
			copy(b[i:], b[rng.IntN(len(b)):])
		default:
			b[i] = byte(rng.Uint32())
		}
		if len(b) == 0 {
			break
		}
	}
	return b
}

// Requests of random bytes are answered, or refused by an error that a client can act on.
func TestRandomBytesAsRequests(t *testing.T) {
	rng := seed.New(t, 1, 43)
	s := start(t, fuzzConfig)
	srv, codec, interceptor := s.inspector, s.codec,
		chain(s.unaryInterceptors())
	var seeds [][]byte
	for _, m := range fuzzSeeds(t) {
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, raw)
	}
	answered, refused := 0, 0
	for budget := randomBudget(t); budget > 0; {
		raw := spoil(rng, seeds)
		budget -= len(raw) + 1
		g := &wire.Guarded{}
		res, err := handlerOf(inspect.Desc(), "Reduce")(srv, t.Context(), func(v any) error {
			g.V = v
			if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, g); err != nil {
				return err
			}
			return g.Err
		}, interceptor)
		if g.Err != nil { // the registrar hands it to the interceptors
			err = apierr.StatusOf(t.Context(), s.log, g.Err).Err()
		}
		if err != nil {
			wantCanonical(t, err)
			refused++
			continue
		}
		out, err := codec.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		out.Free()
		answered++
	}
	t.Logf("%d answered, %d refused", answered, refused)
	if answered == 0 || refused == 0 {
		t.Errorf("%d requests were answered and %d refused", answered, refused)
	}
}

// Image files of random bytes are decoded, or refused likewise.
func TestRandomBytesAsImages(t *testing.T) {
	rng := seed.New(t, 2, 43)
	s := start(t, Config{MaxFramePixels: 1 << 20, MaxMessageBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler)})
	all := pictures(9, 5)
	var seeds [][]byte
	for kind, names := range map[string][]string{
		"png": {"gray", "gray16", "opaque", "nrgba", "palette"}, "jpeg": {"gray", "opaque"},
		"tiff": {"gray", "gray16", "nrgba"}, "tiff deflate": {"gray"}, "bmp": {"gray", "opaque", "nrgba"},
	} {
		for _, name := range names {
			seeds = append(seeds, encodePicture(t, kind, all[name]))
		}
	}
	slices.SortFunc(seeds, bytes.Compare) // maps have no order
	decoded, refused := 0, 0
	for budget := randomBudget(t); budget > 0; {
		file := spoil(rng, seeds)
		budget -= len(file) + 1
		m := fileFrame(nil)
		m.Layout = &pb.FrameLayout{PixelFormat: pb.PixelFormat(rng.IntN(6))}
		_, release, err := decodeFile(t, s.Server, m, cutUp(file, 100), "frame")
		if err != nil {
			wantCanonical(t, apierr.StatusOf(t.Context(), s.log, err).Err())
			refused++
			continue
		}
		release()
		decoded++
	}
	t.Logf("%d decoded, %d refused", decoded, refused)
	if decoded == 0 || refused == 0 {
		t.Errorf("%d files were decoded and %d refused", decoded, refused)
	}
}
