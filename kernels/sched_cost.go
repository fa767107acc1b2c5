// What work costs, by what it cost before.

package kernels

import "time"

// cost estimates how long work of one label takes: a fixed time and one by unit, fitted to what was measured with
// weights that fade. The zero value knows nothing.
type cost struct {
	n            int     // measurements, up to costWarm
	w            float64 // sums over the measurements: weights,
	u, t, uu, ut float64 // units, seconds and their products
	// outliers in a row: how many were longer, or with a minus sign shorter, than what is believable
	streak int
}

const (
	// costFade is the weight that a measurement keeps when the next one comes.
	costFade = 15. / 16
	// costWarm is how many measurements are taken as they are, for want of a better guess.
	costWarm = 3
	// costFactor bounds what is believed: a measurement beyond so many times the estimate, or below that part of it,
	// counts as that much only.
	costFactor = 2
	// costStreak is how many outliers in a row, all on one side, are a change: what was known before is forgotten.
	costStreak = 4
	// costGrowth is how many times as many units as in proportion may be taken for a given time, for the part of it
	// that is fixed.
	costGrowth = 4
	// costFloor is what differences in time mean nothing below.
	costFloor = 20e-6
)

// estimate is how long work of so many units takes; 0 when nothing is known. Jobs are refused for it, so while all
// measurements have the same units it says no more of larger jobs than that they take as long: with one size measured,
// all of the time may be fixed.
func (c *cost) estimate(units int64) time.Duration {
	u := float64(units)
	if c.w > 0 && !c.spread() {
		u = min(u, c.u/c.w)
	}
	return time.Duration(c.seconds(u) * 1e9)
}

// spread reports whether the measurements have different units.
func (c *cost) spread() bool {
	u := c.u / c.w
	return c.uu/c.w-u*u > 1e-3*u*u
}

func (c *cost) seconds(units float64) float64 {
	fixed, slope := c.fit()
	return fixed + slope*units
}

// fit is the line through the measurements: seconds, and seconds by unit. Neither is negative.
func (c *cost) fit() (fixed, slope float64) {
	if c.w == 0 {
		return 0, 0
	}
	u, t := c.u/c.w, c.t/c.w
	if u == 0 {
		return t, 0
	}
	most := t / u // leaves nothing for the fixed part
	slope = most  // while all measurements have the same units, time is taken to be in proportion
	if c.spread() {
		slope = min(max((c.ut/c.w-u*t)/(c.uu/c.w-u*u), 0), most)
	}
	return t - slope*u, slope
}

// units is how many units take about so long. Where the fixed part takes more than half of that it is not counted.
// Where by chance more units took no longer the slope is 0 and would allow any number: it is not far above what there
// would be in proportion.
func (c *cost) units(d time.Duration) float64 {
	fixed, slope := c.fit()
	n := max(d.Seconds()-fixed, d.Seconds()/2) / slope
	if c.t > 0 {
		n = min(n, costGrowth*d.Seconds()*c.u/c.t)
	}
	return n
}

// observe adds a measurement.
func (c *cost) observe(units int64, took time.Duration) {
	u, t := float64(units), took.Seconds()
	if c.n < costWarm {
		c.n++
	} else {
		guess := c.seconds(u)
		lo, hi := min(guess/costFactor, guess-costFloor), max(guess*costFactor, guess+costFloor)
		switch {
		case t > hi:
			c.streak = max(c.streak, 0) + 1
		case t < lo:
			c.streak = min(c.streak, 0) - 1
		default:
			c.streak = 0
		}
		if c.streak == costStreak || c.streak == -costStreak {
			*c = cost{n: 1}
		} else {
			t = min(max(t, lo), hi)
		}
	}
	for _, sum := range []*float64{&c.w, &c.u, &c.t, &c.uu, &c.ut} {
		*sum *= costFade
	}
	c.w++
	c.u += u
	c.t += t
	c.uu += u * u
	c.ut += u * t
}

// doubt makes the estimate smaller. Each refusal does so: otherwise an estimate that is too long would refuse all jobs
// and never be corrected.
func (c *cost) doubt() {
	c.t *= costFade
	c.ut *= costFade
}

// maxLabels bounds how many labels are known. There are few, unless somebody makes them up.
const maxLabels = 1024

// costs are those of all labels.
type costs map[string]*cost

func (m costs) estimate(label string, units int64) time.Duration {
	if c := m[label]; c != nil {
		return c.estimate(units)
	}
	return 0
}

func (m costs) observe(label string, units int64, took time.Duration) {
	c := m[label]
	if c == nil {
		if len(m) >= maxLabels {
			return
		}
		c = new(cost)
		m[label] = c
	}
	c.observe(units, took)
}

func (m costs) doubt(label string) {
	if c := m[label]; c != nil {
		c.doubt()
	}
}
