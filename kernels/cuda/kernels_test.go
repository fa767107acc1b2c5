package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestItem(t *testing.T) {
	const x, y, n = 1<<20 - 1024, 1<<20 - 1, itemPixels
	i := item(x | y<<20 | n<<40) // as make_item does
	if i.x() != x || i.y() != y || i.n() != n {
		t.Errorf("item %#x is %d, %d, %d", uint64(i), i.x(), i.y(), i.n())
	}
}

func TestReductionFor(t *testing.T) {
	const all = driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram
	for _, c := range []struct {
		format driver.PixelFormat
		what   driver.MaskWhat
		small  bool
		name   string
		shared int
	}{
		{driver.Gray8, driver.MaskSums, false, "mask_reduce_gray8", 0},
		{driver.Gray8, driver.MaskExtrema | driver.MaskMoments, false, "mask_reduce_gray8_m", 0},
		{driver.Gray8, driver.MaskHistogram, false, "mask_reduce_gray8_h", 256 * 4 * replicas},
		{driver.Gray8, all, true, "mask_reduce_gray8_hm_each", 256 * 4 * eachReplicas},
		{driver.BGR8, driver.MaskSums, false, "mask_reduce_any8", 0},
		{driver.RGBA8, all, true, "mask_reduce_any8_hm_each", 256 * 4 * eachReplicas},
		{driver.Gray16(8), driver.MaskHistogram, false, "mask_reduce_gray16_h", 1024},
		{driver.Gray16(12), all, true, "mask_reduce_gray16_hm_each", 16384},
		{driver.Gray16(13), all, true, "mask_reduce_wide_hm", 16384},
		{driver.Gray16(15), driver.MaskHistogram, false, "mask_reduce_wide_h", 65536},
		{driver.Gray16(16), driver.MaskHistogram, true, "mask_reduce_global_h", 0},
		{driver.Gray16(16), driver.MaskMoments, true, "mask_reduce_gray16_m_each", 0},
	} {
		r := reductionFor(c.format, c.what, c.small, 99<<10)
		if kernelNames[r.kernel].name != c.name || r.shared != c.shared ||
			r.each != strings.HasSuffix(c.name, "_each") {
			t.Errorf("%v, what %d: %s with %d bytes, want %s with %d", c.format, c.what, kernelNames[r.kernel].name,
				r.shared, c.name, c.shared)
		}
	}
}

func TestSmallRegions(t *testing.T) {
	const units = 132
	for _, c := range []struct {
		largest uint64
		count   int
		want    bool
	}{
		{0, 1, true}, {256, 1, true}, {257, 1, false}, {494, 40, false}, {506, 300, true}, {1000, 300, false},
		{1588, 1000, true}, {1 << 40, 1000, false},
	} {
		if got := smallRegions(c.largest, c.count, units); got != c.want {
			t.Errorf("%d regions, the largest with room for %d items: %v", c.count, c.largest, got)
		}
	}
	if smallRegions(1000, 1000, 0) != true {
		t.Error("a device that doesn't say how many multiprocessors it has")
	}
}

func TestMethodKernels(t *testing.T) {
	for m := driver.MethodDefault; m <= driver.RowSpans; m++ {
		p, r, ok := methodKernels(m)
		name := strings.ToLower(m.String())
		if m == driver.MethodDefault {
			name = "row_spans"
		}
		if !ok || kernelNames[p].name != "mask_prepare_"+name || kernelNames[r].name != "mask_raster_"+name {
			t.Errorf("%v: %s and %s", m, kernelNames[p].name, kernelNames[r].name)
		}
	}
	if _, _, ok := methodKernels(driver.RowSpans + 1); ok {
		t.Error("a method that isn't one has kernels")
	}
}

// TestFatbins: the committed fatbins are whole and were made from the sources at hand. Whether they are what nvcc makes
// of them is for CI, where there is an nvcc.
func TestFatbins(t *testing.T) {
	root := devicetest.Repository(t)
	folder := filepath.Join(root, "kernels", "cuda", "fatbin")
	build, err := os.ReadFile(filepath.Join(folder, "BUILD"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{} // hash by name
	for _, line := range strings.Split(strings.TrimSpace(string(build)), "\n") {
		a, b, _ := strings.Cut(line, " ")
		if b = strings.TrimSpace(b); strings.HasSuffix(b, ".fatbin") {
			want[b] = a
		} else {
			want[a] = b
		}
	}
	if got := sourceHash(t); want["sources"] != got {
		t.Errorf("fatbin/BUILD: made from sources %s, those at hand are %s: run kernels/cu/build.sh", want["sources"],
			got)
	}
	if !strings.HasPrefix(want["nvcc"], "11.8.") {
		t.Errorf("fatbin/BUILD: nvcc is %q", want["nvcc"])
	}
	var files []string
	for _, at := range kernelNames {
		if name := at.file + ".fatbin"; !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	for _, name := range files {
		image, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(image); hex.EncodeToString(sum[:]) != want[name] {
			t.Errorf("%s: not the file that fatbin/BUILD lists", name)
		}
	}
	have, err := filepath.Glob(filepath.Join(folder, "*.fatbin"))
	if err != nil || len(have) != len(files) {
		t.Errorf("%d fatbins, want %q (%v)", len(have), files, err)
	}
}

// sourceHash is the hash of the kernel sources as tools/gpureport defines it.
func sourceHash(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(devicetest.Repository(t), "kernels", "cu")
	var names []string
	for _, pattern := range []string{"*.cu", "*.cuh", "abi/*.cuh"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	listing := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(listing, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name[len(dir)+1:]))
	}
	return hex.EncodeToString(listing.Sum(nil))
}
