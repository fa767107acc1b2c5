package cpu

import "syscall"

// yieldProcessor lets another thread have the processor if one waits for it: of this program or of another, such as the
// camera's on the same machine. The system itself takes the processor away every 3 to 4 ms only. It is a call that the
// runtime knows of, so that it may go on with other goroutines if this takes long.
func yieldProcessor() { syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
