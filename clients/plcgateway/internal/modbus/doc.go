// Package modbus shows stations over Modbus TCP. The PLC is the master; a station is a unit. [Registers] is the map,
// and all that is said about it, to PLCs and to people, is made from that table.
//
// One response is one moment of the station. What takes several requests to read is guarded by the sequence number of
// the answer before and behind its data: where they differ, it is to be read again. What is written in one request
// takes effect at once, as one image; what it asks for is carried out on edges, see package station.
//
// The client whose write comes first holds the station, by its IP address, so that a PLC that connects anew goes on;
// writes of others get exception 6 until its heartbeat is stale. Anyone may read.
//
// The server is our own because a kept one (simonvetter/modbus, which is what the tests and "plcgateway simulate" use
// as a client) takes no listener, refuses new connections where old ones are dead, which locks a PLC out after its
// cable was pulled, has no deadline of its own for a reader that takes nothing, and lacks function 23, with which a PLC
// writes and reads in one round trip.
package modbus
