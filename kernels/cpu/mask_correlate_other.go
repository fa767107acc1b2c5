//go:build purego || !amd64

package cpu

import "github.com/polyscan/polyscan/kernels/driver"

func pairs8(to *driver.PairSums, first, second []byte) { pairs8Go(to, first, second) }
