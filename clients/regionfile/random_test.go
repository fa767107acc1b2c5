package regionfile

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// Regions files of random bytes, and good ones with some digits or a few bytes changed, give a good file or an error of
// one line. It takes half a million bytes, or what POLYSCAN_RANDOM_BYTES says.
func TestRandomBytes(t *testing.T) {
	budget := 500_000
	if testing.Short() {
		budget = 100_000
	}
	if s := os.Getenv("POLYSCAN_RANDOM_BYTES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		budget = n
	}
	var good [][]byte
	for _, name := range fixtures(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, data)
	}
	rng := seed.New(t, 1, 41)
	parsed, refused := 0, 0
	for budget > 0 {
		data := bytes.Clone(good[rng.IntN(len(good))])
		switch rng.IntN(4) {
		case 0:
			data = data[:rng.IntN(len(data)+1)]
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
		case 1: // most of them still parse
			for i, b := range data {
				if '0' <= b && b <= '9' && rng.IntN(20) == 0 {
					data[i] = byte('0' + rng.IntN(10))
				}
			}
		default:
			for range 1 + rng.IntN(6) {
				data[rng.IntN(len(data))] = byte(rng.Uint32())
			}
		}
		budget -= len(data) + 1
		file, err := Parse("f", data, fuzzOptions[rng.IntN(len(fuzzOptions))])
		if err != nil {
			if problem := badMessage(err, "f"); problem != "" {
				t.Fatal(problem)
			}
			refused++
			continue
		}
		if problem := broken(file); problem != "" {
			t.Fatal(problem)
		}
		parsed++
	}
	t.Logf("%d parsed, %d refused", parsed, refused)
	if parsed == 0 || refused == 0 {
		t.Errorf("%d files were parsed and %d refused", parsed, refused)
	}
}
