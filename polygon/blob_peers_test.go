package polygon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/draw"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestBlobsAsOpenCVAndSciPyFindThem: 10,000 random masks, and thresholds of all real pictures, have the components of
// OpenCV's connectedComponentsWithStats and of scipy.ndimage.label. POLYSCAN_BLOB_PEERS names a Python with both.
func TestBlobsAsOpenCVAndSciPyFindThem(t *testing.T) {
	python := os.Getenv("POLYSCAN_BLOB_PEERS")
	if python == "" {
		t.Skip("POLYSCAN_BLOB_PEERS=/usr/bin/python3 compares, with python3-opencv and python3-scipy")
	}
	dev := openCPU(t, kernels.Config{})
	g := rand.New(rand.NewPCG(9, 9))
	var in bytes.Buffer
	put := func(f kernels.Picture, least byte, four bool) {
		spec := &BlobSpec{Range: Span{float64(least), 255}, FourConnected: four, MaxBlobs: MostBlobs}
		r := blobsIn(t, dev, f, spec, nil, whole(f)).Regions[0].Blobs
		if !r.All {
			return // more than are looked at
		}
		eight := int32(1)
		if four {
			eight = 0
		}
		write := func(v any) {
			if err := binary.Write(&in, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
		write([]int32{int32(f.Width), int32(f.Height), eight})
		mask := make([]byte, len(f.Data[0]))
		for i, v := range f.Data[0] {
			if v >= least {
				mask[i] = 1
			}
		}
		in.Write(mask)
		write(int32(len(r.Blobs)))
		for _, b := range r.Blobs {
			sum := func(mean float64) int64 { return int64((mean-0.5)*float64(b.Area) + 0.5) }
			write([]int64{int64(b.Area), int64(b.Bounds.X0), int64(b.Bounds.Y0), int64(b.Bounds.X1), int64(b.Bounds.Y1),
				sum(b.Centroid.X), sum(b.Centroid.Y), int64(b.First.Y*f.Width + b.First.X)})
		}
	}
	for range 10000 {
		w, h := 1+g.IntN(80), 1+g.IntN(60)
		f := kernels.Picture{Width: w, Height: h, Format: driver.Gray8, Data: [][]byte{make([]byte, w*h)}}
		for i := range f.Data[0] {
			f.Data[0][i] = byte(g.IntN(256))
		}
		put(f, byte(1+g.IntN(255)), g.IntN(2) == 0)
	}
	pictures := 0
	pages := filepath.Join("..", "..", "shared", "data", "images")
	err := filepath.WalkDir(pages, func(name string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); err != nil || d.IsDir() || ext != ".png" && ext != ".jpg" {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		img, _, err := image.Decode(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		b := img.Bounds()
		gray := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
		draw.Draw(gray, gray.Rect, img, b.Min, draw.Src)
		f := kernels.Picture{Width: b.Dx(), Height: b.Dy(), Format: driver.Gray8, Data: [][]byte{gray.Pix}}
		for _, least := range []byte{40, 90, 128, 200} {
			put(f, least, false)
			put(f, least, true)
		}
		pictures++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("..", "kernels", "cpu", "peers", "blobs.py"))
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	t.Logf("%d pictures: %s", pictures, out)
	if err != nil {
		t.Fatal(err)
	}
}
