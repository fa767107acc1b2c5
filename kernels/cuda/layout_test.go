package cuda

// Both sides of layout.go: the sources of the kernels are read and compared with the Go declarations.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// sources are the kernel sources by file name, without comments.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		names, err := filepath.Glob(filepath.Join(repository(t), "kernels", "cu", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Base(name)] = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)`).ReplaceAllString(string(text), "")
		}
	}
	if len(out) == 0 {
		t.Fatal("no kernel sources")
	}
	return out
}

// repository is the root, looked for from the working directory upwards: the compiled suite runs in the root itself.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod here or above")
		}
		dir = up
	}
}

// cField is a member of a struct or a parameter.
type cField struct {
	name         string
	offset, size int
}

// cStruct is a C struct, or the parameters of a kernel.
type cStruct struct {
	fields      []cField
	size, align int
}

// parser knows the sizes of types.
type parser struct{ structs map[string]cStruct }

func (p *parser) typeSize(name string) (size, align int, ok bool) {
	name = strings.TrimSpace(strings.ReplaceAll(name, "const ", ""))
	if strings.Contains(name, "*") {
		return 8, 8, true
	}
	switch name {
	case "int", "u32", "unsigned int", "uint32_t", "float":
		return 4, 4, true
	case "u64", "i64", "Item", "double":
		return 8, 8, true
	}
	if s, ok := p.structs[name]; ok {
		return s.size, s.align, true
	}
	return 0, 0, false
}

var declaration = regexp.MustCompile(`^((?:const )?(?:unsigned )?\w+)\s+(.+)$`)

// lay gives fields their offsets. decls are such as "const u32 *a, b".
func (p *parser) lay(decls []string) (cStruct, error) {
	s := cStruct{align: 1}
	for _, d := range decls {
		d = strings.Join(strings.Fields(d), " ")
		m := declaration.FindStringSubmatch(d)
		if m == nil {
			return s, fmt.Errorf("can't read %q", d)
		}
		for _, v := range strings.Split(m[2], ",") {
			v = strings.TrimSpace(v)
			name, pointer := strings.CutPrefix(v, "*")
			name, length, array := strings.Cut(strings.TrimSuffix(name, "]"), "[")
			typ := m[1]
			if pointer {
				typ += "*"
			}
			size, align, ok := p.typeSize(typ)
			if !ok {
				return s, fmt.Errorf("unknown type in %q", d)
			}
			if array {
				n, err := strconv.Atoi(length)
				if err != nil {
					return s, fmt.Errorf("length of an array in %q", d)
				}
				size *= n
			}
			s.size = (s.size + align - 1) / align * align
			s.fields = append(s.fields, cField{name, s.size, size})
			s.size += size
			s.align = max(s.align, align)
		}
	}
	return s, nil
}

func (p *parser) readStruct(t *testing.T, text, name string) cStruct {
	t.Helper()
	m := regexp.MustCompile(`struct ` + name + ` \{([^}]*)\}`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no struct %s", name)
	}
	var decls []string
	for _, d := range strings.Split(m[1], ";") {
		if strings.TrimSpace(d) != "" {
			decls = append(decls, d)
		}
	}
	s, err := p.lay(decls)
	if err != nil {
		t.Fatalf("struct %s: %v", name, err)
	}
	s.size = (s.size + s.align - 1) / s.align * s.align
	p.structs[name] = s
	return s
}

// differ compares a C struct with a Go one, whose fields must have the same names but for case and underscores. It
// returns the first difference. size is what the C one takes.
func differ(c cStruct, g reflect.Type, size int) error {
	if int(g.Size()) != size {
		return fmt.Errorf("%d bytes in C, %s has %d", size, g, g.Size())
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	// Blanks in Go are called pad in C; at the end they may be missing there.
	n := g.NumField()
	for n > len(c.fields) && g.Field(n-1).Name == "_" {
		n--
	}
	if n != len(c.fields) {
		return fmt.Errorf("%d fields in C, %s has %d", len(c.fields), g, n)
	}
	for i, f := range c.fields {
		h := g.Field(i)
		name := h.Name
		if name == "_" {
			name = "pad"
		}
		if plain(name) != plain(f.name) || int(h.Offset) != f.offset || int(h.Type.Size()) != f.size {
			return fmt.Errorf("field %d is %s at %d of %d bytes in C, %s has %s at %d of %d", i, f.name, f.offset,
				f.size, g, h.Name, h.Offset, h.Type.Size())
		}
	}
	return nil
}

func parseAll(t *testing.T, src map[string]string) *parser {
	t.Helper()
	p := &parser{structs: map[string]cStruct{}}
	for _, s := range []struct {
		file, name string
		twin       any
	}{
		{"common.cuh", "Edge", driver.Edge{}},
		{"common.cuh", "MaskStats", driver.MaskStats{}},
		{"common.cuh", "PreparedRegion", preparedRegion{}},
		{"common.cuh", "Band", band{}},
		{"common.cuh", "View", view{}},
		{"mask_reduce.cu", "ReduceArgs", reduceArgs{}},
		{"voronoi.cu", "VoronoiArgs", voronoiArgs{}},
		{"triangulate.cu", "Delaunay", delaunayArgs{}},
		{"mesh.cuh", "MeshCounts", driver.MeshCounts{}},
		{"mesh.cuh", "MeshDiagram", meshDiagram{}},
		{"hullcompletion.cu", "HullArgs", hullArgs{}},
		{"flips.cu", "FlipArgs", flipArgs{}},
		{"pack.cu", "PackImage", packImage{}},
		{"fingerprint.cu", "FingerprintPlaces", fingerprintPlaces{}},
		{"fingerprint.cu", "FingerprintKey", fingerprintKey{}},
		{"curveraster.cu", "CurveStops", driver.CurveStops{}},
		{"curveraster.cu", "Curve", driver.Curve{}},
		{"curveraster.cu", "CurveSegment", driver.CurveSegment{}},
		{"curveraster.cu", "CurveStop", driver.CurveStop{}},
		{"diffusion.cuh", "DiffusionHeader", diffusionHeader{}},
		{"diffusion.cuh", "DiffusionStatus", driver.DiffusionStatus{}},
		{"selectvertices.cu", "Selection", selection{}},
		{"shade.cuh", "Shading", shading{}},
		{"diffusion_box.cu", "BoxLevel", boxLevel{}},
		{"diffusion_box.cu", "BoxSolve", boxSolve{}},
		{"diffusion_box.cu", "BoxBottom", boxBottom{}},
		{"diffusion_label.cu", "LabelFill", labelFilling{}},
		{"diffusion_sweeps.cu", "SweepLevel", sweepImage{}},
		{"diffusion_sweeps.cu", "SweepSolve", sweepSolve{}},
		{"diffusion_graph.cu", "Graph", graphSetup{}},
		{"diffusion_graph.cu", "GraphSolve", graphSolve{}},
	} {
		c := p.readStruct(t, src[s.file], s.name)
		if err := differ(c, reflect.TypeOf(s.twin), c.size); err != nil {
			t.Errorf("%s: struct %s: %v", s.file, s.name, err)
		}
	}
	return p
}

func TestStructs(t *testing.T) { parseAll(t, sources(t)) }

// A layout test that can't fail is none: each of these must be noticed.
func TestStructsReport(t *testing.T) {
	p := &parser{structs: map[string]cStruct{}}
	for _, text := range []string{
		"struct Band { int y; u32 region; }",
		"struct Band { u32 region; }",
		"struct Band { u32 region; int y, z; }",
		"struct Band { u32 region; u64 y; }",
		"struct Band { u64 region; int y; }",
	} {
		c := p.readStruct(t, text, "Band")
		if differ(c, reflect.TypeOf(band{}), c.size) == nil {
			t.Errorf("%s: not noticed", text)
		}
	}
	c := p.readStruct(t, "struct Band { u32 region; int y; }", "Band")
	if err := differ(c, reflect.TypeOf(band{}), c.size); err != nil {
		t.Error(err)
	}
}

// kernelParams are what a launch passes, by kernel.
func kernelParams(k kernel) any {
	switch {
	case k <= preparePrefix:
		return prepareParams{}
	case k < rasterItems:
		return rasterParams{}
	case k == rasterItems:
		return rasterItemsParams{}
	case k == reduceClear:
		return clearParams{}
	}
	return reduceParams{}
}

func TestKernels(t *testing.T) {
	src := sources(t)
	p := parseAll(t, src)
	signature := regexp.MustCompile(`extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?([\w#]+)\(([^)]*)\)`)
	macro := regexp.MustCompile(`(?m)^KERNEL\((\w+),`)
	found := map[string]string{}
	for file, text := range src {
		// The body of the macro KERNEL holds one signature for several names.
		for _, m := range signature.FindAllStringSubmatch(text, -1) {
			names := []string{m[1]}
			if suffix, ok := strings.CutPrefix(m[1], "name"); ok {
				names = nil
				for _, k := range macro.FindAllStringSubmatch(text, -1) {
					names = append(names, k[1]+strings.TrimPrefix(suffix, "##"))
				}
			}
			for _, name := range names {
				found[name] = strings.TrimSuffix(file, ".cu") + "|" + m[2]
			}
		}
	}
	for k, at := range kernelNames {
		file, params, ok := strings.Cut(found[at.name], "|")
		if !ok || file != at.file {
			t.Errorf("%s: no kernel of that name in %s.cu", at.name, at.file)
			continue
		}
		delete(found, at.name)
		c, err := p.lay(strings.Split(params, ","))
		if err != nil {
			t.Errorf("%s: %v", at.name, err)
			continue
		}
		g := at.params
		if kernel(k) < maskKernels {
			g = reflect.TypeOf(kernelParams(kernel(k)))
		}
		if kernel(k) == rasterItems {
			if c.size != rasterItemsBytes {
				t.Errorf("%s: takes %d bytes of parameters, not %d", at.name, c.size, rasterItemsBytes)
			}
			c.size = int(g.Size())
		}
		if err := differ(c, g, c.size); err != nil {
			t.Errorf("%s: parameters: %v", at.name, err)
		}
	}
	for name := range found {
		t.Errorf("kernel %s: nothing launches it", name)
	}
}

func TestConstants(t *testing.T) {
	src := sources(t)
	for _, c := range []struct {
		file, name string
		want       int
	}{
		{"common.cuh", "ITEM_PIXELS", itemPixels},
		{"spans.cuh", "THREADS", threads},
		{"mask_prepare.cu", "BAND_ROWS", bandRows},
		{"mask_raster.cu", "RASTER_ROWS", rasterRows},
		{"tiles.cuh", "TILE_W", tileWidth},
		{"tiles.cuh", "TILE_H", tileHeight},
		{"mask_reduce.cu", "THREADS", reduceThreads},
		{"mask_reduce.cu", "EACH_THREADS", eachThreads},
		{"mask_reduce.cu", "WIDE_THREADS", wideThreads},
		{"mask_reduce.cu", "SHARED_LEVELS", sharedLevels},
		{"mask_reduce.cu", "REPLICAS", replicas},
		{"islands.cu", "THREADS", islandThreads},
		{"islands.cu", "FIND_ROWS", islandRows},
		{"islands.cu", "SETTLE_THREADS", settleThreads},
		{"dualtriangles.cu", "THREADS", dualThreads},
		{"dualtriangles.cu", "ITEMS", dualItems},
		{"dualtriangles.cu", "SCAN_THREADS", dualScanThreads},
		{"dualtriangles.cu", "WRITE_THREADS", dualWriteThreads},
		{"hullcompletion.cu", "THREADS", hullThreads},
		{"flips.cu", "THREADS", flipThreads},
		{"flips.cu", "TAIL_THREADS", flipTailThreads},
		{"flips.cu", "SMALL", flipSmall},
		{"flips.cu", "WIDE_ROUNDS", flipWideRounds},
		{"curveraster.cu", "THREADS", curveThreads},
		{"curveraster.cu", "LANES", curveLanes},
		{"curveraster.cu", "RESOLVE_PIXELS", curvePixels},
		{"blur.cu", "TILE_W", blurTileW},
		{"blur.cu", "TILE_H", blurTileH},
		{"blur.cu", "BLUR_LEVELS", driver.BlurLevels},
		{"mask_reduce.cu", "EACH_REPLICAS", eachReplicas},
		{"voronoi.cu", "THREADS", threads},
		{"voronoi.cu", "CELL", voronoiCell},
		{"voronoi.cu", "TILE_WARPS", voronoiTileWarps},
		{"voronoi.cu", "LIST", voronoiList},
		{"voronoi.cu", "SEGMENT", voronoiSegment},
		{"voronoi.cu", "BRUTE_PIXELS", voronoiBrutePixels},
		{"triangulate.cu", "THREADS", triangulateThreads},
		{"triangulate.cu", "SORT_ITEMS", sortItems},
		{"triangulate.cu", "UNIQUE_ITEMS", uniqueItems},
		{"triangulate.cu", "EMIT_ITEMS", emitItems},
		{"triangulate.cu", "STAR_WARPS", starWarps},
		{"triangulate.cu", "LEAF", treeLeaf},
		{"triangulate.cu", "SLOTS", pointSlots},
		{"diffusion_label.cu", "THREADS", labelThreads},
		{"diffusion_label.cu", "SHUT_THREADS", labelShutThreads},
		{"diffusion_label.cu", "PARTS", labelParts},
		{"diffusion_label.cu", "TILE", labelTile},
		{"diffusion_sweeps.cu", "THREADS", sweepThreads},
		{"diffusion_sweeps.cu", "RUN_THREADS", sweepRunThreads},
		{"diffusion_sweeps.cu", "REGION", sweepRegion},
		{"diffusion_sweeps.cu", "HALO", sweepHalo},
		{"diffusion_sweeps.cu", "SWEEPS", sweepsInCycle},
		{"diffusion_sweeps.cu", "PAST_UPDATES", pastUpdates},
		{"diffusion_graph.cu", "THREADS", graphThreads},
		{"diffusion_graph.cu", "LEVEL_THREADS", graphLevelThreads},
		{"diffusion_graph.cu", "INVERT_THREADS", graphInvertThreads},
		{"diffusion_graph.cu", "MULTIPLY_BLOCKS", graphMultiplyBlocks},
		{"diffusion_graph.cu", "AMID_TILE_X", graphAmidX},
		{"diffusion_graph.cu", "AMID_TILE_Y", graphAmidY},
		{"diffusion_graph.cu", "FIRST_LANES", graphFirstLanes},
		{"diffusion_graph.cu", "DENSE_NODES", graphDenseNodes},
		{"diffusion_graph.cu", "TILE_X", graphTileX},
		{"diffusion_graph.cu", "TILE_ROWS", graphTileRows},
		{"diffusion_graph.cu", "RIM", graphRim},
		{"diffusion_graph.cu", "MULTIPLY_WARPS", graphMultiplyWarps},
		{"diffusion_graph.cu", "GRAPH_LEVELS", graphLevels},
		{"diffusion_graph.cu", "GRAPH_PARTS", graphParts},
		{"fingerprint.cu", "THREADS", fingerprintThreads},
		{"fingerprint.cu", "VECTORS", fingerprintVectors},
		{"fingerprint.cu", "ROUND_WORDS", fingerprintRound},
		{"fingerprint.cu", "MAX_BLOCKS", fingerprintBlocks},
		{"fingerprint.cu", "LIMBS", fingerprintLimbs},
		{"edges.cu", "THREADS", edgeThreads},
		{"edges.cu", "EDGE_COLUMNS", edgeColumns},
		{"edges.cu", "EDGE_HEIGHT", edgeHeight},
		{"selectvertices.cu", "THREADS", selectThreads},
		{"selectvertices.cu", "SEGMENT", selectSegment},
		{"selectvertices.cu", "STATE_WORDS", selectState},
		{"shade.cuh", "THREADS", shadeThreads},
		{"shade.cu", "TILE", shadeTile},
		{"shade.cu", "SCAN_THREADS", shadeScanThreads},
		{"shade.cu", "STATE_BYTES", shadeState},
		{"shade.cu", "SPLIT_BYTES", shadeSplit},
		{"diffusion_box.cu", "CHECK_THREADS", boxCheckThreads},
		{"diffusion_box.cu", "COARSEN_W", boxCoarsenWidth},
		{"diffusion_box.cu", "COARSEN_H", boxCoarsenHeight},
		{"diffusion_box.cu", "COARSEN_THREADS", boxCoarsenThreads},
		{"diffusion_box.cu", "COARSEST", boxCoarsest},
		{"diffusion_box.cu", "INVERT_THREADS", boxInvertThreads},
		{"diffusion_box.cu", "MEAN_THREADS", boxMeanThreads},
		{"diffusion_box.cu", "MEAN_BLOCKS", boxMeanBlocks},
		{"diffusion_box.cu", "FINE_THREADS", boxFineThreads},
		{"diffusion_box.cu", "FINE_W", boxFineWidth},
		{"diffusion_box.cu", "FINE_H", boxFineHeight},
		{"diffusion_box.cu", "MARGIN", boxFineMargin},
		{"diffusion_box.cu", "DOWN_THREADS", boxDownThreads},
		{"diffusion_box.cu", "DOWN_BLOCKS", boxDownBlocks},
		{"diffusion_box.cu", "UP_THREADS", boxUpThreads},
		{"diffusion_box.cu", "UP_BLOCKS", boxUpBlocks},
		{"diffusion_box.cu", "TILE_CHANNELS", boxTileChannels},
		{"diffusion_box.cu", "DOWN_W", boxDownWidth},
		{"diffusion_box.cu", "DOWN_H", boxDownHeight},
		{"diffusion_box.cu", "UP_W", boxUpWidth},
		{"diffusion_box.cu", "UP_H", boxUpHeight},
		{"diffusion_box.cu", "BOTTOM_SIDE", boxBottomSide},
		{"diffusion_box.cu", "BOTTOM_THREADS", boxBottomThreads},
		{"diffusion_box.cu", "END_THREADS", boxEndThreads},
		{"diffusion_box.cu", "STOP_AT", boxStopAt},
	} {
		text := src[c.file]
		value := ""
		for name := c.name; ; { // WARPS stands for another
			m := regexp.MustCompile(`(?m)^#define ` + name + `[ \t]+(.+?)[ \t]*$`).FindStringSubmatch(text)
			if m == nil && text != src["spans.cuh"] {
				text = src["spans.cuh"]
				continue
			}
			if m == nil {
				break
			}
			if value = m[1]; value == "(THREADS / 32)" {
				value = strconv.Itoa(threads / 32)
			}
			if !regexp.MustCompile(`^[A-Z_]+$`).MatchString(value) {
				break
			}
			name = value
		}
		if got, err := strconv.Atoi(value); err != nil || got != c.want {
			t.Errorf("%s: %s is %q, the host counts on %d", c.file, c.name, value, c.want)
		}
	}
	for _, want := range []struct{ file, text string }{
		{"mask_prepare.cu", fmt.Sprintf("__launch_bounds__(%d) mask_prepare_prefix", prefixThreads)},
		{"triangulate.cu", fmt.Sprintf("__launch_bounds__(%d) triangulate_tree", treeThreads)},
		{"triangulate.cu", fmt.Sprintf("sizeof(TriangulateState) == %d", stateBytes)},
		{"diffusion_sweeps.cu", fmt.Sprintf("s.state->cycles < %d", driver.DiffusionFarCycles)},
		{"mask_reduce.cu", "#define WHAT_EXTREMA 2u"},
		{"mask_reduce.cu", "#define WHAT_MOMENTS 4u"},
		{"mask_reduce.cu", "#define WHAT_HISTOGRAM 8u"},
	} {
		if !strings.Contains(src[want.file], want.text) {
			t.Errorf("%s: no %q, which the host counts on", want.file, want.text)
		}
	}
	if driver.MaskExtrema != 2 || driver.MaskMoments != 4 || driver.MaskHistogram != 8 {
		t.Error("driver.MaskWhat has other bits than the kernels")
	}
}

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
	root := repository(t)
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
	dir := filepath.Join(repository(t), "kernels", "cu")
	entries, err := os.ReadDir(dir) // sorted; there are no folders below
	if err != nil {
		t.Fatal(err)
	}
	listing := sha256.New()
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".cu" || ext == ".cuh" {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(listing, "%x  %s\n", sha256.Sum256(text), e.Name())
		}
	}
	return hex.EncodeToString(listing.Sum(nil))
}
