// Command camera takes frames and lines from GigE Vision cameras into a polyscan server: it finds cameras, reads and
// writes their features, streams what they see, and says of each part what it came to, or what is missing of it.
//
//	camera list
//	camera stream 192.168.1.20 --addr localhost:7465 --regions regions.json
//	camera simulate
//
// The control protocol is package internal/gvcp, the stream internal/gvsp, features are internal/genicam, and a camera
// for tests and demonstrations is internal/simulator.
package main

import "github.com/polyscan/polyscan/clients/internal/cli"

func main() { cli.Main(run) }
