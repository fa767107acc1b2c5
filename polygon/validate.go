// Validate: checks of the parts of a request, each without the others.

package polygon

// Validate reports what [Reduce] would refuse whatever the frame, in an [*InvalidError] with paths such as
// "reductions.percentiles[2]".
func (r Reductions) Validate() error {
	var bad violations
	r.check(&bad)
	return bad.err()
}

// Validate reports what [Reduce] would refuse of the frame whatever the regions and reductions, in an [*InvalidError]
// with paths such as "frame.stride".
func (f *Frame) Validate() error {
	var bad violations
	f.check(&bad)
	return bad.err()
}

// Sizes is Validate for a frame whose pixels are not there yet. It returns the least and the most bytes that they may
// take together: without the gap behind the last row, and with it.
func (f *Frame) Sizes() (least, most int64, err error) {
	var bad violations
	if !f.checkLayout(&bad) {
		return 0, 0, bad.err()
	}
	least, most = f.sizes()
	return least, most, nil
}
