package exact

// Sample is what a sample of a channel that is derived from colours stands for: (v - zero) * step, or v itself where
// step is 0.
func Sample(v uint32, step float64, zero uint32) float64 {
	if step == 0 {
		return float64(v)
	}
	return (float64(v) - float64(zero)) * step
}

// SampleSum is the sum of what n samples stand for, of which sum is the sum.
func SampleSum(sum, n uint64, step float64, zero uint32) float64 {
	if step == 0 {
		return float64(sum)
	}
	return float64(int64(sum)-int64(zero)*int64(n)) * step
}
