// Command gen writes the frames and regions files of testdata. It is deterministic: the same pixels and the same JSON
// on every machine. Run it from the repository root:
//
//	go run ./testdata/gen
package main

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
)

// picture is a frame to write: its path below the output folder, and its pixels.
type picture struct {
	path string
	img  image.Image
}

// set is what one generator makes: frames, and the regions file that belongs to them.
type set struct {
	pictures []picture
	path     string
	regions  []region
	texts    []text
}

// sets are all generators in the order in which they run.
var sets = []func() set{board, plank, metal, metal16, conveyor}

func main() {
	out := flag.String("out", "testdata", "folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	for _, generate := range sets {
		s := generate()
		for _, p := range s.pictures {
			var b bytes.Buffer
			if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, p.img); err != nil {
				return fmt.Errorf("%s: %w", p.path, err)
			}
			if err := write(filepath.Join(out, p.path), b.Bytes()); err != nil {
				return err
			}
		}
		b, err := encode(s.regions)
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		for _, t := range append(s.texts, text{s.path, b}) {
			if err := write(filepath.Join(out, t.path), t.data); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
