// Package kernels is the concrete front over the backends' narrow drivers, as database/sql is over its drivers.
//
// [Open] makes a [Device] of a driver and reserves its memory once. Work runs in jobs: [Device.Do] admits a job
// when the bytes that it declared are free, leases a stream, runs the job's function, which allocates from the
// job's own arena and enqueues ops on a [Queue], and waits until the stream has drained.
//
// Memory has three kinds of tenants. What a job allocates goes back with it, or before with [Free]. State of sessions
// is allocated with [AllocPersistent] and stays until [Persistent.Free]. What can be made again, such as prepared
// regions and frames that were uploaded once, is a [Resident] of [Store]: it stays while there is room, and is evicted
// when nobody holds it and others need the memory. What a job has computed and others can use is a memo, found by a key
// such as the fingerprint of what it depends on ([Queue.Recall], [Queue.NewMemo]): it takes memory that is free, and
// goes before any resident. A [Cache] keeps residents by key.
//
// Copies take host memory of any kind. A backend that needs it page-locked copies by way of buffers of its own, but for
// what [Device.RegisterHost] told it of.
//
// Jobs have a [Class], a client and a deadline, which travel in their contexts: see [WithClass], [WithClient] and
// [WithDeadline]. They wait by class, in a class by what their clients have had, and then by deadline; those that can't
// be in time are refused before anything is uploaded, and when too many wait batch jobs are refused first, then
// interactive ones, and line-scan jobs never. Long jobs are cut into chunks ([Queue.Chunk]) and let others go first
// between them ([Queue.Yield]).
//
// Argument checks, the byte budget, pooling of streams, deadlines and accounting are here, once, for all backends;
// the backends trust them.
package kernels
