// The suite: diffusion.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	diffusionSide      = 28         // of the suite's images
	barrierSide        = 50         // of those with barriers: they have levels of more nodes than are solved exactly
	diffusionTolerance = 0.25 / 255 // of values up to 1
	diffusionAllowed   = 0.5 / 255
)

// diffusion solves the scenes from nothing, cut into single cycles, and again from the solution, and compares each with
// the exact solution and with what the status says. A subtest is a method and a scene.
func (s Suite) diffusion(t T, dev driver.Device) {
	if _, err := dev.Scratch(&driver.DiffusionSetup{Grid: driver.DiffusionGrid{Width: 1, Height: 1}}); errors.Is(err,
		driver.ErrNotSupported) {
		t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	run := func(scene *Scene, f func(T)) {
		if _, err := dev.Scratch(&driver.DiffusionSetup{Grid: scene.Grid()}); errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks %v for %s: %v", s.Driver.Name(), scene.Method, scene.Name, err)
			return
		}
		t.Run(fmt.Sprintf("%v %s", scene.Method, scene.Name), f)
	}
	scenes := append(Scenes(s.Seed, diffusionSide), BarrierScenes(s.Seed, barrierSide)...)
	if !s.Short { // a coarse level of it has a node with nothing fixed around, and weak or negative weights only
		scenes = append(scenes, BarrierScenes(4, 100)[2])
	}
	for _, scene := range scenes {
		run(scene, func(t T) { r.diffusionParts(t, scene, s.cyclesOf(scene)) })
	}
	for _, scene := range s.largeScenes() {
		run(scene, func(t T) { r.diffusionLarge(t, scene) })
	}
	for m := driver.DiffusionNaive; m <= driver.DiffusionVariableStencil; m++ {
		for _, scene := range s.slowScenes(m) {
			run(scene, func(t T) { r.diffusionMethod(t, scene, s.cyclesOf(scene)) })
		}
	}
	if _, err := dev.Scratch(&driver.DiffusionSolve{Grid: driver.DiffusionGrid{Width: 1, Height: 1,
		Method: driver.DiffusionNaive}, Channels: 1, Cycles: 1, Threshold: 1}); errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s lacks thresholds: %v", s.Driver.Name(), err)
	} else {
		for m := driver.DiffusionNaive; m <= driver.DiffusionPyramidGreedy; m++ {
			for _, scene := range s.thresholdScenes(m) {
				run(scene, func(t T) { r.diffusionThreshold(t, scene, s.Short) })
			}
		}
	}
	for _, scene := range s.largestScenes() {
		run(scene, func(t T) { r.diffusionLargest(t, scene) })
	}
	t.Run("errors", r.diffusionErrors)
}

// cyclesOf is how many cycles a scene is asked for at a time: more than it takes, or few when Short. A backend may
// enqueue all of them, and those that come after the last that is needed do nothing but take long under a sanitizer.
func (s Suite) cyclesOf(scene *Scene) int {
	switch {
	case !s.Short:
		return 60
	case scene.Method != driver.DiffusionMultigrid:
		return 1
	case scene.Barriers():
		return 3
	}
	return 6 // kernels/cuda looks after 3 whether they were enough
}

// diffusionParts solves a scene by ops of so many cycles, and by ops of one cycle.
func (r *rig) diffusionParts(t T, scene *Scene, cycles int) {
	exact := scene.Exact()
	whole, first, err := r.diffuse(t, scene, cycles)
	if err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	size := magnitude(whole)
	if d := CompareDiffusion(whole, exact, scene.Width, diffusionAllowed); d != nil {
		t.Errorf("%s: %v", scene.Name, d)
	}
	if st := first; st.Cycles < 1 || st.Cycles > 60 || st.Converged != 1 || !(st.Estimate <= diffusionTolerance) ||
		!(st.Update >= 0) || !(st.Residual >= 0) {
		t.Errorf("%s: after up to 60 cycles: %+v", scene.Name, st)
	}
	// With a set-up for other flags that was renewed it is the same, to the bit.
	renewed, status, err := r.diffuse(t, scene, cycles, func(up *driver.DiffusionSetup) {
		other := slices.Clone(scene.Flags)
		for i := 0; i < len(other); i += 1 + len(other)/9 {
			other[i] ^= driver.DiffusionFixed
		}
		for _, flags := range [][]byte{other, scene.Flags} {
			r.upload(t, up.Flags, flags)
			if err := errors.Join(r.stream.Run(up), r.stream.Wait(context.Background())); err != nil {
				t.Errorf("%s: set up again: %v", scene.Name, err)
			}
			up.Renew = true
		}
	})
	if d := CompareDiffusion(renewed, whole, scene.Width, 0); err != nil || d != nil || status != first {
		t.Errorf("%s: renewed, %+v instead of %+v: %v, %v", scene.Name, status, first, d, err)
	}
	// And cut into cycles.
	parts, status, err := r.diffuse(t, scene, 1)
	if err != nil {
		t.Errorf("%s: in parts: %v", scene.Name, err)
		return
	}
	if d := CompareDiffusion(parts, whole, scene.Width, 0); d != nil || status != first {
		t.Errorf("%s: in parts, %+v instead of %+v: %v", scene.Name, status, first, d)
	}
	if d := CompareDiffusion(whole, exact, scene.Width, 2*float64(first.Estimate)+DiffusionRounding*size); d != nil {
		t.Errorf("%s: the estimate is %v: %v", scene.Name, first.Estimate, d)
	}
}

// largeScenes are some whose sides have several levels and tiles of any solver, and are multiples of nothing. When
// Short the row is less long, which takes nothing away but levels like others.
func (s Suite) largeScenes() []*Scene {
	if s.small {
		return nil
	}
	r := rand.New(rand.NewPCG(s.Seed, 31))
	scene := func(name string, w, h, channels int, draw func(*Scene)) *Scene {
		x := NewScene(fmt.Sprintf("%s %dx%d", name, w, h), w, h, channels)
		draw(x)
		return x
	}
	points := func(x *Scene) {
		for range 16 {
			x.Fix(r.IntN(x.Width), r.IntN(x.Height), randomColour(r)...)
		}
	}
	long := 70001
	if s.Short {
		long = 5003
	}
	out := []*Scene{
		scene("many curves", 257, 129, 3, func(x *Scene) { x.Curves(r, 100, 80, 600) }),
		scene("few curves", 1000, 37, 1, func(x *Scene) { x.Curves(r, 10, 80, 600) }),
		scene("points", 131, 402, 2, points),
		scene("holes", 304, 200, 4, func(x *Scene) { x.Holes(r, 30) }),
		scene("frame", 193, 256, 3, (*Scene).Frame),
		scene("row", long, 1, 1, points),
	}
	if !s.Short {
		out = append(out,
			scene("many curves", 520, 511, 3, func(x *Scene) { x.Curves(r, 300, 80, 600) }),
			scene("points", 513, 640, 1, points))
	}
	// So many tiles and channels that kernels/cuda takes the channels of a tile one after the other.
	return append(out, scene("holes", 3301, 5, 4, func(x *Scene) { x.Holes(r, 30) }))
}

// diffusionLarge solves a scene from nothing, and again from the solution of others with the same pixels fixed.
func (r *rig) diffusionLarge(t T, scene *Scene) {
	before := *scene
	before.Colours = slices.Clone(scene.Colours)
	for i := range before.Colours {
		before.Colours[i] *= 0.5
	}
	x, status, err := r.diffuse(t, &before, 60)
	if err == nil {
		x, status, err = r.diffuseFrom(t, scene, 60, x)
	}
	if err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	exact := scene.Refine(x)
	if d := CompareDiffusion(x, exact, scene.Width,
		min(diffusionAllowed, 2*float64(status.Estimate)+DiffusionRounding)); d != nil || status.Converged != 1 {
		t.Errorf("%s: from another solution: %+v: %v", scene.Name, status, d)
	}
	if x, status, err = r.diffuse(t, scene, 60); err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	if d := CompareDiffusion(x, exact, scene.Width,
		min(diffusionAllowed, 2*float64(status.Estimate)+DiffusionRounding)); d != nil || status.Converged != 1 {
		t.Errorf("%s: %+v: %v", scene.Name, status, d)
	}
}

// slowScenes are what a slow method solves. When Short they are few, which take it few cycles: of one pixel, with a
// closed pixel, with edges that are open one way, and so large that an image, and the next smaller one of a pyramid,
// has several of the tiles of 64x64 pixels that kernels/cuda has; and a row, where it is soon done.
func (s Suite) slowScenes(m driver.DiffusionMethod) []*Scene {
	scenes := slices.Concat(Scenes(s.Seed+1, diffusionSide), BarrierScenes(s.Seed+1, diffusionSide),
		OneWayScenes(s.Seed+1, diffusionSide))
	if s.Short {
		few := []string{"one pixel 1x1", "a closed pixel 3x3", "shut in 3x3", "any one way 15x14"}
		if m == driver.DiffusionVariableStencil {
			few = append(few, "row 301x1")
		}
		scenes = slices.DeleteFunc(scenes, func(x *Scene) bool { return !slices.Contains(few, x.Name) })
		scenes = append(scenes, everyThird(rand.New(rand.NewPCG(s.Seed, 37)), 66, 130))
	}
	for _, x := range scenes {
		x.Method = m
	}
	return scenes
}

// diffusionMethod solves a scene by one of the slow methods, by ops of so many cycles: it reaches the same solution, as
// far as it can tell. Where it converges too slowly for a test it need only say so.
func (r *rig) diffusionMethod(t T, scene *Scene, cycles int) {
	x, status, err := r.diffuse(t, scene, cycles)
	if err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	if status.Converged == 0 {
		t.Logf("has not converged: %+v", status)
		return
	}
	if d := CompareDiffusion(x, scene.Exact(), scene.Width, 2*float64(status.Estimate)+DiffusionRounding); d != nil {
		t.Errorf("%s: %+v: %v", scene.Name, status, d)
	}
}

// thresholdScenes are what a method solves with a threshold: those of slowScenes, and images of several levels with
// several parts of a pass of kernels/cpu. When Short there are two.
func (s Suite) thresholdScenes(m driver.DiffusionMethod) []*Scene {
	r := rand.New(rand.NewPCG(s.Seed, 41))
	curves := func(w, h, channels, n, walls int) *Scene {
		x := NewScene(fmt.Sprintf("curves %dx%d", w, h), w, h, channels)
		x.Curves(r, n, 20, 200)
		x.Walls(r, walls, 20, 100)
		return x
	}
	var scenes []*Scene
	switch {
	case !s.Short:
		scenes = append(s.slowScenes(m), curves(404, 170, 3, 40, 0), curves(261, 131, 1, 20, 10))
	case m == driver.DiffusionPyramidGreedy:
		scenes = []*Scene{OneWayScenes(s.Seed+1, diffusionSide)[1], curves(266, 130, 1, 30, 0)}
	}
	for _, x := range scenes {
		x.Method, x.Threshold, x.Name = m, 0.004, x.Name+" to a threshold"
		if len(x.Flags) > 1<<13 {
			x.Threshold = 0.2
		}
	}
	return scenes
}

// diffusionThreshold solves a scene by one of the seed's methods until its own stop, and compares it with the same in
// double precision; cut into single cycles it is the same, to the bit.
func (r *rig) diffusionThreshold(t T, scene *Scene, short bool) {
	want, cycles := scene.Sweeps(float64(scene.Threshold))
	atOnce := 200
	if short {
		atOnce = 1
	}
	x, status, err := r.diffuse(t, scene, atOnce)
	if err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	allowed := 1e-4
	if scene.Method == driver.DiffusionPyramidGreedy {
		// Each of three additions rounds the sum of four differences by up to 2^-24 of it, of which a sweep adds up to
		// six times as much, 24/4.
		allowed = max(allowed, 6*3*4*magnitude(x)/(1<<24))
	}
	if d := CompareDiffusion(x, want, scene.Width, allowed); d != nil || int(status.Cycles) != cycles {
		t.Errorf("%s: %+v instead of %d cycles: %v", scene.Name, status, cycles, d)
	}
	if status.Converged != 1 || status.Estimate != 0 || !(min(status.Difference, status.Fall) <= scene.Threshold) ||
		!(status.Update <= status.Difference) {
		t.Errorf("%s: %+v", scene.Name, status)
	}
	if short {
		return
	}
	parts, cut, err := r.diffuse(t, scene, 1)
	if err != nil {
		t.Errorf("%s: in parts: %v", scene.Name, err)
		return
	}
	if d := CompareDiffusion(parts, x, scene.Width, 0); d != nil || cut != status {
		t.Errorf("%s: in parts, %+v instead of %+v: %v", scene.Name, cut, status, d)
	}
}

// largestColour is the largest that package diffusion takes.
const largestColour = 1 << 40

// largestScenes are some whose values are as large as can be, for each method. When Short there are none: numbers alone
// lead nowhere else.
func (s Suite) largestScenes() (out []*Scene) {
	if s.Short {
		return nil
	}
	out = append(out, BarrierScenes(s.Seed, barrierSide)[0])
	for m := driver.DiffusionMultigrid; m <= driver.DiffusionVariableStencil; m++ {
		scene := Scenes(s.Seed, diffusionSide)[0]
		scene.Method = m
		out = append(out, scene)
	}
	for _, scene := range out {
		scene.Name += ", largest values"
		for i := range scene.Colours {
			scene.Colours[i] = largestColour * float32(1-2*(i*i/7%2))
		}
	}
	return out
}

// diffusionLargest solves a scene of the largest values: nothing overflows, and the default method comes as near as
// numbers of 32 bits can.
func (r *rig) diffusionLargest(t T, scene *Scene) {
	x, status, err := r.diffuse(t, scene, 1)
	if err != nil {
		t.Errorf("%s: %v", scene.Name, err)
		return
	}
	for _, v := range append(slices.Clone(x), status.Estimate, status.Update, status.Residual) {
		if !(math.Abs(float64(v)) <= 64*largestColour) {
			t.Errorf("%s: %v; %+v", scene.Name, v, status)
			return
		}
	}
	if scene.Method == driver.DiffusionMultigrid {
		if d := CompareDiffusion(x, scene.Exact(), scene.Width, largestColour*DiffusionRounding); d != nil {
			t.Errorf("%s: %v", scene.Name, d)
		}
	}
}

// diffusionErrors looks for what has to be refused.
func (r *rig) diffusionErrors(t T) {
	scene := NewScene("flags", 5, 4, 1)
	scene.Fix(1, 1, 1)
	scene.Flags[7] |= 0x80
	if _, _, err := r.diffuse(t, scene, 1); err == nil {
		t.Errorf("a flag that means nothing: no error")
	}
	scene.Flags[7] = 0
	if _, _, err := r.diffuse(t, scene, 1, func(up *driver.DiffusionSetup) {
		r.fill(t, up.Dst, dirtyByte)
	}); err == nil {
		t.Errorf("a set-up that was overwritten: no error")
	}
	op := driver.DiffusionSolve{Grid: scene.Grid(), Channels: 1, Cycles: 1, Tolerance: 1}
	r.lay(t, &op)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err == nil {
		t.Errorf("no set-up: no error")
	}
}

// diffuse solves a scene by ops of so many cycles, with what is not to be looked at dirty, until it has converged, or
// 60 times. Between the set-up and the solve it calls what it is given.
func (r *rig) diffuse(t T, s *Scene, cycles int, between ...func(*driver.DiffusionSetup)) ([]float32,
	driver.DiffusionStatus, error) {
	t.Helper()
	return r.diffuseFrom(t, s, cycles, nil, between...)
}

// diffuseFrom is diffuse that begins with what is given, or with nothing.
func (r *rig) diffuseFrom(t T, s *Scene, cycles int, from []float32,
	between ...func(*driver.DiffusionSetup)) ([]float32, driver.DiffusionStatus, error) {
	t.Helper()
	g := s.Grid()
	none := driver.DiffusionStatus{}
	setup, err := r.dev.Scratch(&driver.DiffusionSetup{Grid: g})
	if err != nil {
		return nil, none, err
	}
	state, err := r.dev.Scratch(&driver.DiffusionSolve{Grid: g, Channels: s.Channels})
	if err != nil {
		return nil, none, err
	}
	planes := 4 * int64(len(s.Colours))
	r.reserve(t, 7, int64(len(s.Flags))+2*planes+setup+state+8+32)
	flags, colours, x := r.slice(t, int64(len(s.Flags)), 0), r.slice(t, planes, 0), r.slice(t, planes, 0)
	up := driver.DiffusionSetup{Grid: g, Flags: flags, Dst: r.slice(t, setup, 0), Counts: r.slice(t, 8, 0)}
	op := driver.DiffusionSolve{Grid: g, Channels: s.Channels, Cycles: cycles, Tolerance: diffusionTolerance,
		Flags: flags, Setup: up.Dst,
		Colours: colours, X: x, State: r.slice(t, state, 0), Status: r.slice(t, 32, 0)}
	if s.Threshold > 0 {
		op.Tolerance, op.Threshold = 0, s.Threshold
	}
	r.upload(t, flags, s.Flags)
	r.upload(t, colours, bytesOf(s.Colours))
	for _, dst := range []driver.Slice{x, up.Dst, up.Counts, op.State, op.Status} {
		r.fill(t, dst, dirtyByte)
	}
	if from != nil {
		r.upload(t, x, bytesOf(from))
		op.Start = driver.DiffusionFromX
	}
	r.wait(t)
	if err := errors.Join(r.stream.Run(&up), r.stream.Wait(context.Background())); err != nil {
		return nil, none, err
	}
	for _, f := range between {
		f(&up)
	}
	constraints := func() (now [2][]byte) { // other solves may read them at the same time
		for i, from := range []driver.Slice{flags, up.Dst} {
			now[i] = make([]byte, from.Len)
			r.download(t, now[i], from)
		}
		r.wait(t)
		return now
	}
	kept := constraints()
	var status [1]driver.DiffusionStatus
	for i := 0; i < 60 && status[0].Converged == 0; i++ {
		if i > 0 {
			op.Start = driver.DiffusionContinue
		}
		if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
			return nil, none, err
		}
		r.download(t, bytesOf(status[:]), op.Status)
		r.wait(t)
		if n := int(status[0].Cycles); n < i+1 || n > (i+1)*cycles {
			t.Errorf("%s: %d cycles after %d ops of up to %d", s.Name, n, i+1, cycles)
			break
		}
	}
	for i, now := range constraints() {
		if !bytes.Equal(now, kept[i]) {
			t.Errorf("%s: the solve has changed its %s", s.Name, [...]string{"flags", "set-up"}[i])
		}
	}
	var counts [1]driver.DiffusionCounts
	out := make([]float32, len(s.Colours))
	r.download(t, bytesOf(out), x)
	r.download(t, bytesOf(counts[:]), up.Counts)
	r.wait(t)
	r.checkGuards(t)
	var want driver.DiffusionCounts
	for _, f := range s.Flags {
		want.Fixed += uint32(f & driver.DiffusionFixed)
	}
	for _, v := range s.Void() {
		if v {
			want.Void++
		}
	}
	if d := CompareCounts(counts[0], want); d != nil {
		t.Errorf("%s: %v", s.Name, d)
	}
	return out, status[0], nil
}
