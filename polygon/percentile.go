// Percentiles: which samples of the sorted ones they are.

package polygon

import "strconv"

// PercentileMethod says what a percentile is where it falls between two samples.
type PercentileMethod uint8

const (
	// NearestRank takes the sample of rank ceil(p*n/100), and rank 1 at least: the smallest value v such that p percent
	// of the samples are v or less.
	NearestRank PercentileMethod = iota
	// Linear interpolates between the samples around rank 1 + p*(n-1)/100, as numpy does by default. The result is the
	// exact fraction, rounded once.
	Linear
)

func (m PercentileMethod) String() string {
	switch m {
	case NearestRank:
		return "NEAREST_RANK"
	case Linear:
		return "LINEAR"
	}
	return "PercentileMethod(" + strconv.Itoa(int(m)) + ")"
}

// DefaultPercentiles are those of [Reductions] that ask for percentiles and list none.
func DefaultPercentiles() []float64 { return []float64{1, 5, 10, 25, 50, 75, 90, 95, 99} }

// PercentileValue is one percentile.
type PercentileValue struct {
	Percentile float64
	Value      float64
}
