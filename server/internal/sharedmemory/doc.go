// Package sharedmemory leases memory to clients on the same host, and answers the calls of SharedMemoryService.
//
// It owns the memory, the socket over which its descriptors go, and the checks of what a request says about it. What a
// client can do to memory that it shares is dealt with here and nowhere else.
package sharedmemory
