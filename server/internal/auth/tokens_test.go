package auth

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const reduce = pb.InspectionService_Reduce_FullMethodName

func bearing(ctx context.Context, token string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
}

func tenantsOf(t *testing.T, content string) (tenants *Tenants, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tenants, err := New(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tenants.Close)
	return tenants, file
}

// replace changes a file in one piece: one that is written to in place is empty at times.
func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Whatever comes first, a call or a change of the file: no call goes on whose token is not in the file, and none ends
// whose token stays.
func TestAdmitWhileTheFileChanges(t *testing.T) {
	tenants, file := tenantsOf(t, "stays\n")
	var all sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	open := map[string][]context.Context{}
	both := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open["comes"]) > 0 && len(open["stays"]) > 0
	}
	for i := range 4 {
		token := []string{"stays", "comes"}[i%2]
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, done, err := tenants.Admit(bearing(t.Context(), token), reduce)
				switch {
				case err != nil && token == "stays":
					t.Errorf("refused: %v", err)
				case err == nil && n%50 == 0: // stays open to the end
					mu.Lock()
					open[token] = append(open[token], ctx)
					mu.Unlock()
					time.Sleep(time.Millisecond)
				default:
					done()
				}
			}
		})
	}
	// 200 times, and until calls of both tokens are open.
	for i := 0; i < 200 || !both() && i < 100_000; i++ {
		content := "stays\n"
		if i%2 == 0 {
			content += "comes name=x\n"
		}
		replace(t, file, content)
		tenants.Reload()
	}
	close(stop)
	all.Wait()
	replace(t, file, "stays\n")
	tenants.Reload()
	if len(open["comes"]) == 0 || len(open["stays"]) == 0 {
		t.Fatalf("%d and %d calls", len(open["comes"]), len(open["stays"]))
	}
	for token, calls := range open {
		for _, ctx := range calls {
			err := Revoked(ctx)
			if token == "stays" && (err != nil || ctx.Err() != nil) {
				t.Fatalf("a call ended whose token stays: %v", err)
			}
			if token == "comes" && status.Code(err) != codes.Unauthenticated {
				t.Fatalf("a call goes on whose token is gone: %v", err)
			}
		}
	}
}

// What a call is told depends on who asks and for what, and is the same for tokens that never were.
func TestAdmit(t *testing.T) {
	tenants, _ := tenantsOf(t, "v name=viewer role=view\nbare\n")
	for token, want := range map[string]codes.Code{
		"v": codes.PermissionDenied, "bare": codes.OK, "w": codes.Unauthenticated, "certificate=": codes.Unauthenticated,
		"certificate= viewer": codes.Unauthenticated, "bare name=viewer": codes.Unauthenticated, "": codes.Unauthenticated,
	} {
		ctx, done, err := tenants.Admit(bearing(t.Context(), token), reduce)
		if status.Code(err) != want {
			t.Errorf("%q: %v", token, err)
		}
		if who := FromContext(ctx); (who.Tenant == "") != (want == codes.Unauthenticated) {
			t.Errorf("%q is %+v", token, who)
		}
		done()
	}
	if n := len(tenants.calls); n != 0 {
		t.Errorf("%d calls are known after their end", n)
	}
	_, _, err := tenants.Admit(bearing(t.Context(), "bare"), "/no.Such/Method")
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a method that is not in the table: %v", err)
	}
	if _, _, err := tenants.Admit(t.Context(), "/grpc.health.v1.Health/Check"); err != nil {
		t.Errorf("health without a token: %v", err)
	}
}

func BenchmarkAdmit(b *testing.B) {
	for _, lines := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			content := "token-of-the-first\n"
			for i := 1; i < lines; i++ {
				content += fmt.Sprintf("token-%d name=t%d sessions=4\n", i, i)
			}
			c, err := parse([]byte(content))
			if err != nil {
				b.Fatal(err)
			}
			tenants := &Tenants{path: "x", ledger: newLedger(), known: c, calls: map[*call]struct{}{}}
			tenants.ledger.list(c.tenants)
			ctx := bearing(b.Context(), "token-of-the-first")
			b.ReportAllocs()
			for b.Loop() {
				_, done, err := tenants.Admit(ctx, reduce)
				if err != nil {
					b.Fatal(err)
				}
				done()
			}
		})
	}
}
