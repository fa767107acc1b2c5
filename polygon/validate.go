// Validate: checks of a request before there is a frame.

package polygon

// Validate reports what [Reduce] would refuse whatever the frame, in an [*InvalidError] with paths such as
// "reductions.percentiles[2]".
func (r Reductions) Validate() error {
	var bad violations
	r.check(&bad)
	return bad.err()
}
