// Package mqtt binds stations to an MQTT broker, as an edge node of Sparkplug B or with plain JSON.
//
// The PLC, or the host that speaks for it, writes the same image that a PLC writes over Modbus ([station.Outputs]), as
// commands; what the station shows goes out as data. One session of the station is held for all who may publish
// commands to it: who may is the broker's business.
//
// A connection is one session from its CONNECT packet to its end, and nothing outlives it: no message is queued for the
// next one, and the broker keeps none (clean start, no session expiry, nothing retained; retained commands are
// refused). The station is given up when the connection ends, so that it is not ready, and after the next one the PLC
// has to acknowledge. Answers that nobody could be shown are published as history then: a record, never a present
// verdict.
//
// A station never waits for a broker. One goroutine owns a connection; it takes what is new from the stations, whose
// events wait in bounded queues, and a broker that doesn't take a packet within a second is lost.
//
// The protocol is MQTT 5. Sparkplug 3.0 takes 3.1.1 or 5; version 5 has what is needed to be safe: no retained commands
// on subscribing, a reason for each refusal, a disconnection that leaves the will in force.
package mqtt
