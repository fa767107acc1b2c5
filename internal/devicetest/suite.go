// The suite: what it runs, and in which order.

package devicetest

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Suite is the conformance suite of backends.
type Suite struct {
	Driver  driver.Driver
	Ordinal int    // of the device
	Seed    uint64 // of what is random in the cases; 0 means 1
	Random  int    // random cases; 0 means 400, or 60 when Short
	Short   bool   // leaves out what takes long
	// Methods to run; nil means all.
	Methods []driver.Method
	// Tests is how many tests of a pixel against an edge Naive and Tiled may take in a case; larger cases are left to
	// the other methods, and that is reported. 0 means 2^30, or 2^27 when Short.
	Tests int64

	// For tests of the suite: the only part to run, the only cases, and small problems where large ones only pass
	// the time.
	part  string
	only  func(Case) bool
	small bool
}

// AllMethods are the methods of [driver.Method].
var AllMethods = []driver.Method{
	driver.MethodDefault, driver.Naive, driver.Tiled, driver.EdgeFiltered, driver.TiledEdgeFiltered, driver.RowSpans,
}

// Run runs the suite over device 0 of d, short where -short is given.
func Run(t *testing.T, d driver.Driver) {
	t.Helper()
	Suite{Driver: d, Short: testing.Short()}.Run(On(t))
}

// Run runs the suite.
func (s Suite) Run(t T) {
	t.Helper()
	if s.Seed == 0 {
		s.Seed = 1
	}
	if s.Random == 0 {
		s.Random = 400
		if s.Short {
			s.Random = 60
		}
	}
	if s.Tests == 0 {
		s.Tests = 1 << 30
		if s.Short {
			s.Tests = 1 << 27
		}
	}
	if s.Methods == nil {
		s.Methods = AllMethods
	}
	for _, p := range parts {
		if s.part == "" || s.part == p.name {
			t.Run(p.name, func(t T) { p.run(s, t) })
		}
	}
}

// parts are the subtests of the suite.
var parts = []struct {
	name string
	run  func(Suite, T)
}{
	{"open", Suite.open},
	{"info", on(Suite.info)},
	{"memory", on(Suite.memory)},
	{"sizes", on(Suite.sizes)},
	{"pieces", on(Suite.manyPieces)},
	{"order", on(Suite.order)},
	{"streams", on(Suite.streams)},
	{"errors", on(Suite.opErrors)},
	{"sticky", on(Suite.sticky)},
	{"cancel", on(Suite.cancel)},
	{"close", on(Suite.closeStream)},
	{"cases", on(Suite.cases)},
	{"again", on(Suite.again)},
	{"moved", on(Suite.moved)},
	{"concurrent", on(Suite.concurrent)},
	{"shared", on(Suite.shared)},
	{"cooccurrence", on(Suite.cooccurrence)},
	{"weigh", on(Suite.weigh)},
	{"blobs", on(Suite.blobs)},
	{"correlate", on(Suite.correlate)},
	{"triangulate", on(Suite.triangulate)},
	{"voronoi", on(Suite.voronoi)},
	{"meshes", on(Suite.meshes)},
	{"diffusion", on(Suite.diffusion)},
	{"curves", on(Suite.curves)},
	{"blur", on(Suite.blur)},
	{"develop", on(Suite.develop)},
	{"correct", on(Suite.correct)},
	{"pack", on(Suite.pack)},
	{"fingerprint", on(Suite.fingerprint)},
	{"edges", on(Suite.edges)},
	{"derivatives", on(Suite.derivatives)},
	{"vertices", on(Suite.vertices)},
	{"shade", on(Suite.shade)},
	{"hold", on(Suite.hold)},
}

// on opens the device around a part, and closes it: what is still in use then is an error.
func on(f func(Suite, T, driver.Device)) func(Suite, T) {
	return func(s Suite, t T) {
		dev, err := s.Driver.Open(s.Ordinal)
		if err != nil {
			t.Fatalf("Open(%d): %v", s.Ordinal, err)
		}
		defer func() {
			if err := dev.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		f(s, t, dev)
	}
}

// supported filters the methods by asking the device to prepare something small. It is an error to lack one.
func (s Suite) supported(t T, dev driver.Device) []driver.Method {
	t.Helper()
	r := newRig(t, dev)
	defer r.close(t)
	p := Cases(s.Seed, 0)[0].Problem()
	return slices.DeleteFunc(slices.Clone(s.Methods), func(m driver.Method) bool {
		err := s.tryPrepare(t, r, p, m)
		if err != nil {
			t.Errorf("%v: %v", m, err)
		}
		return err != nil
	})
}

// tryPrepare prepares p, and returns the error wherever it comes from but for Wait, where "not supported" must not.
func (s Suite) tryPrepare(t T, r *rig, p *Problem, m driver.Method) error {
	t.Helper()
	if _, err := r.dev.Scratch(&driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height,
		Method: m}); err != nil {
		return err
	}
	u := r.set(t, p, m)
	if err := r.prepare(u, m); err != nil {
		r.wait(t) // an error at once is not repeated
		return err
	}
	r.wait(t)
	return nil
}
