// Package kernels is the concrete front over the backends' narrow drivers, as database/sql is over its drivers.
//
// [Open] makes a [Device] of a driver and reserves its memory once. Work runs in jobs: [Device.Do] admits a job
// when the bytes that it declared are free, leases a stream, runs the job's function, which allocates from the
// job's own arena and enqueues ops on a [Queue], and waits until the stream has drained.
//
// Memory has three kinds of tenants. What a job allocates goes back with it, or before with [Free]. State of sessions is
// allocated with [Keep] and stays until [Kept.Free]. What can be made again, such as prepared regions and frames that were
// uploaded once, is a [Resident] of [Store]: it stays while there is room, and is evicted when nobody holds it and others
// need the memory. [HostRing] is the host's side of copies.
//
// Argument checks, the byte budget, pooling of streams, deadlines and accounting are here, once, for all backends;
// the backends trust them.
package kernels
