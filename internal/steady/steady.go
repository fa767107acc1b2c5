// Package steady is a clock that only goes on: for times that are kept as numbers, so that nothing waits for an hour
// where the host's clock is set back by one.
package steady

import "time"

var start = time.Now()

// Now is how many nanoseconds have passed since the program started, at least 1.
func Now() int64 { return max(int64(time.Since(start)), 1) }
