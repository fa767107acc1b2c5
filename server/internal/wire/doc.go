// Package wire is where messages meet the rest of the server: the codec over the transport's buffers, the handlers that
// don't copy frames, the rules in the schemas, and the conversion of what several services have in common (layouts,
// regions, inspections, results) between messages and the domains.
//
// It keeps no state between calls and touches neither the device nor the host's budget. Conversion that only one
// service needs belongs to the room of that service.
package wire
