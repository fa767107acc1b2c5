// Which instructions are used.

package cpu

// level is a set of instructions. Each includes those before it.
type level uint8

const (
	levelGo     level = iota // what the compiler makes of Go
	levelAVX2                // amd64 as of Haswell and Excavator
	levelAVX512              // amd64 as of Ice Lake and Zen 4: F, BW, VL, VBMI, VNNI, VPOPCNTDQ, GFNI
)

// simd is the best level of this build on this machine. Tests set it to lower ones.
var simd level = bestLevel

func (l level) String() string {
	return [...]string{"go", "avx2", "avx512"}[l]
}
