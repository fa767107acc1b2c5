//go:build cuda

// Diffusion: which pixels have equations. See diffusion_label.cu.

package cuda

// label enqueues what writes, for each pixel of a problem, what it takes from, and counts the fixed and void ones into the header, whose
// magic it clears. labels has room for a number more than there are pixels, and is scratch.
func (s *stream) label(op *diffusionSetup, head, labels, open uint64) error {
	w, h := int32(op.Width), int32(op.Height)
	blocks := (op.Width*op.Height + labelThreads - 1) / labelThreads
	first := labelInitParams{Head: head, Flags: op.Flags, Labels: labels, Fault: s.faultAt(), Width: w, Height: h, Allowed: uint32(op.Allowed())}
	if err := labelInit.launch(s, blocks, 1, labelThreads, 0, &first); err != nil {
		return err
	}
	p := labelParams{Flags: op.Flags, Labels: labels, Width: w, Height: h}
	if err := labelJoin.launch(s, blocks, 1, labelThreads, 0, &p); err != nil {
		return err
	}
	if op.OneWay {
		if err := labelShut.launch(s, 1, 1, labelShutThreads, 0, &p); err != nil {
			return err
		}
	}
	last := labelOpenParams{Head: head, Flags: op.Flags, Labels: labels, To: open, Width: w, Height: h}
	return labelOpen.launch(s, blocks, 1, labelThreads, 0, &last)
}
