//go:build cuda

// Diffusion: which pixels have equations. See diffusion_label.cu.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// label enqueues what writes, for each pixel of a problem, what it takes from, and counts the fixed and void ones into
// the header, whose magic it clears. labels has room for a number more than there are pixels, and is scratch.
func (s *stream) label(op *diffusionSetup, head, labels, open uint64) error {
	w, h := int32(op.Width), int32(op.Height)
	blocks := (op.Width*op.Height + labelThreads - 1) / labelThreads
	first := labelInitParams{Head: head, Flags: op.Flags, Labels: labels, Fault: s.faultAt(), Width: w, Height: h,
		Allowed: uint32(op.Allowed())}
	across, down := (op.Width+labelTile-1)/labelTile, (op.Height+labelTile-1)/labelTile
	if err := labelInit.launch(s, across*down, 1, labelThreads, 0, &first); err != nil {
		return err
	}
	p := labelJoinParams{Flags: op.Flags, Labels: labels, Width: w, Height: h}
	if borders := (across-1)*op.Height + (down-1)*op.Width; borders > 0 {
		if err := labelJoin.launch(s, (borders+labelThreads-1)/labelThreads, 1, labelThreads, 0, &p); err != nil {
			return err
		}
	}
	last := labelOpenParams{Head: head, Flags: op.Flags, Labels: labels, To: open, Width: w, Height: h}
	if op.OneWay {
		last.OneWay = 1
		if err := labelShut.launch(s, 1, 1, labelShutThreads, 0, &p); err != nil {
			return err
		}
	}
	return labelOpen.launch(s, blocks, 1, labelThreads, 0, &last)
}

// labelSumsBytes is the size of the sums that fillIn needs.
const labelSumsBytes = 8 * 4 * labelParts

// fillIn enqueues what gives x the values that a solve begins with. done is the address of the word that says that
// there is nothing to do, and sums has labelSumsBytes.
func (s *stream) fillIn(op *diffusionSolve, head, done, open, sums uint64) error {
	f := labelFilling{
		Done: done, Head: head, Flags: op.Flags, Open: open, Colours: op.Colours, X: op.X, Sums: sums,
		Pixels: uint32(op.Width * op.Height), Channels: uint32(op.Channels),
	}
	if op.Start == driver.DiffusionFromX {
		f.Keep = 1
	}
	if err := labelMean.launch(s, labelParts, 1, labelThreads, 0, &f); err != nil {
		return err
	}
	blocks := min((op.Width*op.Height+labelThreads-1)/labelThreads, 8*s.dev.info.ComputeUnits)
	return labelFill.launch(s, blocks, 1, labelThreads, 0, &f)
}
