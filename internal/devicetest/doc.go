// Package devicetest checks backends, and what is built on them.
//
// [Run] runs one suite over any [driver.Driver]: memory, copies, order, errors, cancellation, and the mask ops over
// [Cases], which are data and can be used by other tests and by benchmarks. What an op must write comes from an oracle
// that shares nothing with any backend: it applies the crossing rule of [driver.Edge] pixel by pixel, in
// arbitrary-precision rationals. All results are integers and are compared exactly.
//
// [Oracle] is that oracle as a driver. [Mirror] runs two drivers side by side and compares what they compute op by op.
// [Fault] fails an op or an allocation of one's choice. [Trace] records what was launched. [Perturb] changes what an op
// wrote, so that tests can show that a comparison would notice.
package devicetest
