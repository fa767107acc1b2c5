// Command conveyor plays frames, or synthetic parts, into a polyscan server as line-scan cameras would, and says how
// fast and how right the answers were.
//
//	conveyor --line-rate 20000 --verify
//	conveyor testdata/conveyor --regions testdata/conveyor/regions.json --line-rate 2000
//
// It is a demonstration, a load generator and a soak test. See conveyor --help.
package main

import "github.com/polyscan/polyscan/clients/internal/cli"

func main() { cli.Main(run) }
