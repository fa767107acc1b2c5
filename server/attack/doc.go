// Package attack is the suite of attacks on polyscand. It holds no code of the server: it starts the daemon as a
// process on loopback, attacks it over HTTP/2 frames that it writes itself, and watches from outside what a
// well-behaved client, a line-scan camera and the memory of the machine get to feel of it.
//
//	go test ./server/attack                      the smoke part, a few seconds
//	go test ./server/attack -attack 3s           every case, each for three seconds
//	go test ./server/attack -attack 1m -run /7   those of row 7, for longer
//	go test ./server/attack -run TestTogether -together 30m -timeout 1h
//	                                             all at once, beside a line at 60 % of what it can do
//
// POLYSCAND names another daemon than the one of this tree, such as one that was built with -race, and ATTACK_DEVICE
// what it computes on:
//
//	CGO_ENABLED=1 go build -race -o /tmp/polyscand ./server/cmd/polyscand
//	POLYSCAND=/tmp/polyscand go test ./server/attack -run TestTogether -together 30m -timeout 1h -v
//
// Both the suite and the daemon run where there is no Go, as on a machine with a GPU (make cuda, go test -c). There
// TestDeviceIsLost takes the device away, too; see testdata/lose.c. A run on a machine that others use is worth little:
// taskset gives it processors of its own, and the suite looks at what others had of those.
//
// The attacker is a process of its own with the least priority: in life it sits on another machine.
//
// Each file holds one kind of attack. A case says how the server is set up, what is sent, and which bounds hold beside
// those that every case has; see bounds in measure_test.go. Ratios compare with the same run before the attack.
//
// A case that is beyond its bounds by little in all of its attempts is told and fails nothing: see gross. Every case
// holds the sum of metrics to the resident set, in both directions.
package attack
