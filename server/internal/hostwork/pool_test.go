package hostwork

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever works for long lets others have turns, in order, and an end of the context ends the waiting.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		var diary []string
		work := func(name string, pieces int) {
			turn, err := p.Enter(t.Context())
			if err != nil {
				t.Error(err)
			}
			defer turn.Leave()
			for range pieces {
				diary = append(diary, name)
				time.Sleep(4 * time.Millisecond)
				if err := turn.Yield(); err != nil {
					t.Error(err)
				}
			}
		}
		go work("long", 5)
		synctest.Wait()
		go work("a", 1)
		synctest.Wait()
		go work("b", 3)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Enter(ctx); err != context.DeadlineExceeded {
			t.Errorf("a place for nobody: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"long", "long", "a", "b", "b", "long", "long", "b", "long"}
		if !slices.Equal(diary, want) {
			t.Errorf("%q, want %q", diary, want)
		}
	})
}
