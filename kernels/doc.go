// Package kernels is the concrete front over the backends' narrow drivers, as database/sql is over its drivers.
//
// [Open] makes a [Device] of a driver and reserves its memory once. Work runs in jobs: [Device.Do] admits a job
// when the bytes that it declared are free, leases a stream, runs the job's function, which allocates from the
// job's own arena and enqueues ops on a [Queue], and waits until the stream has drained. What outlives a job (prepared
// regions, kept frames) is allocated with [Keep] and given back with [Kept.Free].
//
// Argument checks, the byte budget, pooling of streams, deadlines and accounting are here, once, for all backends;
// the backends trust them.
package kernels
