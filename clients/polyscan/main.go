// Command polyscan reduces frames over polygons: exact statistics of the pixels inside each region, and verdicts, as
// tables, JSON and pictures.
//
//	polyscan reduce testdata/board.png --regions testdata/board.regions.json --overlay overlay.png
//
// It talks to a server, or runs the same server inside its own process when no address is given. See polyscan --help.
package main

import "github.com/polyscan/polyscan/clients/internal/cli"

func main() { cli.Main(run) }
