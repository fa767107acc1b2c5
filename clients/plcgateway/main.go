// Command plcgateway stands between polyscan servers and PLCs: triggers, part ids and recipes come in over Modbus TCP;
// verdicts, numbers and counters go out. Whatever is late, lost, stuck or unread is REJECT.
//
//	plcgateway --config plcgateway.yaml
//	plcgateway map --format st
//	plcgateway simulate --addr localhost:502
//
// The handshake is package internal/station, where verdicts are from internal/source, and protocols are rooms beside
// them.
package main

import "github.com/polyscan/polyscan/clients/internal/cli"

func main() { cli.Main(run) }
