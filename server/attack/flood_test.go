package attack

// Floods: of resets, of log lines, of silent connections, of files.

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var floodAttacks = []attack{
	{row: 16, name: "calls that are reset at once", run: resets},
	{row: 16, name: "silent connections to the socket of shared memory", apart: true, asks: true, run: silentConnections},
	{row: 16, name: "recipes that are put and deleted", apart: true, asks: true, run: deletedRecipes},
}

// resets opens calls and takes them back, over eight connections.
func resets(ctx context.Context, a *attempt) {
	var all sync.WaitGroup
	m := reduceMessage()
	for range 8 {
		all.Go(func() {
			w := dial(a, a.addr, 1<<20)
			defer w.close()
			for i := 0; i < 50_000 && ctx.Err() == nil; i++ {
				c := w.call(pb.InspectionService_Reduce_FullMethodName)
				if c.data(ctx, m, 0, true) != nil {
					return // the server has enough of it
				}
				c.reset()
				w.lock(func() { delete(w.streams, c.id) })
			}
			<-ctx.Done()
		})
	}
	all.Wait()
}

func reduceMessage() []byte {
	m := marshal(&pb.ReduceRequest{Inspection: inspect(rectangle("", 8, 8)), Frame: grayFrame(8, 8)})
	return append(prefix(len(m)), m...)
}

// silentConnections keeps many connections to the socket that say nothing. A lease must be fetched beside them.
func silentConnections(ctx context.Context, a *attempt) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		a.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	p := start(a, "--shm-socket", socket)
	var open sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	for range 600 {
		open.Go(func() {
			c, err := net.DialTimeout("unix", socket, time.Second)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
		})
	}
	open.Wait()
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	begun := time.Now()
	if err := fetchLease(ctx, p, a); err != nil {
		a.problem("beside %d silent connections: %v", len(conns), err)
	}
	took := time.Since(begun)
	a.felt(took, time.Second, "beside %d silent connections a lease takes %v", len(conns), took)
}

// fetchLease leases memory and fetches its descriptor.
func fetchLease(ctx context.Context, p *process, a *attempt) error {
	stream, err := pb.NewSharedMemoryServiceClient(p.client(a)).Lease(ctx, &pb.LeaseRequest{Bytes: 4096})
	if err != nil {
		return err
	}
	lease, err := stream.Recv()
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", lease.GetSocketPath(), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	return fetchDescriptor(c, lease.GetToken())
}

// fetchDescriptor asks for the descriptor of a lease, which the system drops as nobody takes it.
func fetchDescriptor(c net.Conn, token []byte) error {
	if _, err := c.Write(token); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := c.Read(answer[:]); err != nil {
		return err
	}
	if answer[0] != 0 {
		return fmt.Errorf("the socket answers %d", answer[0])
	}
	return nil
}

// deletedRecipes puts and deletes recipes of different names.
func deletedRecipes(ctx context.Context, a *attempt) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		a.Fatal(err)
	}
	defer os.RemoveAll(dir)
	recipes := pb.NewRecipeServiceClient(start(a, "--recipes", dir).client(a))
	n := 0
	for ; n < 300 && ctx.Err() == nil; n++ {
		name := fmt.Sprintf("recipe-%d", n)
		if _, err := recipes.PutRecipe(ctx, &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: name,
			RegionSet: &pb.RegionSet{Regions: []*pb.Region{rectangle("", 8, 8)}}}}); err != nil {
			break
		}
		if _, err := recipes.DeleteRecipe(ctx, &pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: name}}); err != nil {
			break
		}
	}
	// Some dozen leave one each, however many there were; a slow machine gets no further than these.
	const some = 35
	if files, _ := os.ReadDir(dir); len(files) > some {
		a.problem("%d recipes that were deleted leave %d files", n, len(files))
	}
}
