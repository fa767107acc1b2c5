package attack

// Requests that the server holds in memory: large, many, half sent, in small pieces.

import (
	"bytes"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var memoryAttacks = []attack{
	{row: 2, name: "health checks with names of 31 MiB, without a token",
		run: func(ctx context.Context, a *attempt) { longNames(ctx, a, healthpb.Health_Check_FullMethodName) }},
	{row: 2, name: "idle health watches with names of 31 MiB",
		run: func(ctx context.Context, a *attempt) { longNames(ctx, a, healthpb.Health_Watch_FullMethodName) }},
	{row: 8, name: "calls that lack their last megabyte", run: halfSent},
	{row: 8, name: "messages in frames of one byte", run: oneByteFrames},
}

// longNames sends names that no service has.
func longNames(ctx context.Context, a *attempt, method string) {
	m := marshal(&healthpb.HealthCheckRequest{Service: string(bytes.Repeat([]byte("a"), maxMessage-1<<20))})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			w := dial(a, a.addr, 1<<20)
			defer w.close()
			c := w.call(method)
			if err := c.send(ctx, m); err == nil || err == errEnded {
				code, err := c.wait(ctx)
				if err == nil && code != codes.ResourceExhausted {
					a.problem("%s with a name of 31 MiB: %v", method, code)
				}
			}
			<-ctx.Done()
		})
	}
	all.Wait()
}

// halfSent begins 20 messages on each of two connections and never ends one.
func halfSent(ctx context.Context, a *attempt) {
	var all sync.WaitGroup
	m := append(prefix(maxMessage-1<<20), make([]byte, maxMessage-2<<20)...)
	for range 2 {
		w := dial(a, a.addr, 1<<20)
		defer w.close()
		for range 20 {
			c := w.call(pb.InspectionService_Reduce_FullMethodName)
			all.Go(func() { c.data(ctx, m, 0, false) })
		}
	}
	all.Wait()
	<-ctx.Done()
}

// oneByteFrames sends messages a byte at a time, and leaves out the last one.
func oneByteFrames(ctx context.Context, a *attempt) {
	var all sync.WaitGroup
	m := append(prefix(8<<20), make([]byte, 8<<20-1)...)
	for range 4 {
		w := dial(a, a.addr, 1<<20)
		defer w.close()
		all.Go(func() { w.call(pb.InspectionService_Reduce_FullMethodName).data(ctx, m, 1, false) })
	}
	all.Wait()
	<-ctx.Done()
	time.Sleep(100 * time.Millisecond)
}
