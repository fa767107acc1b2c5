package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
)

// A stream whose source is away at its end has not passed, whatever its parts are, and says since when. As many parts
// as were asked for are enough.
func TestAwayAtEnd(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	one := func(t *testing.T, source string) string { // a file of camera run
		file := filepath.Join(t.TempDir(), "line.yaml")
		text := fmt.Sprintf("cameras: [{name: one, source: %q, addr: %q, limit: mean > 1, reconnect: 100ms}]", source, s.addr)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, run := range []bool{false, true} {
		args := func(t *testing.T, source string) []string {
			if run {
				return []string{"run", one(t, source), "--json"}
			}
			return []string{"stream", source, "--addr", s.addr, "--limit", "mean > 1", "--json", "--reconnect", "100ms"}
		}
		for name, x := range map[string]struct {
			lost string
			do   func(*testing.T) (source string, await, put, lose func(*running))
		}{
			"camera": {"doesn't answer", func(t *testing.T) (string, func(*running), func(*running), func(*running)) {
				cam := simulate(t, func(*simulator.Config) {})
				nothing := func(*running) {}
				return cam.Addr().String(), nothing, nothing, func(*running) { cam.Close() }
			}},
			"folder": {"the folder has gone", func(t *testing.T) (string, func(*running), func(*running), func(*running)) {
				dir := t.TempDir()
				return dir, func(r *running) {
						r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
					}, func(*running) { writePNG(t, filepath.Join(dir, "a.png"), picture(0)) },
					func(r *running) {
						os.RemoveAll(dir)
						r.err.await(t, "that it is gone", func(s string) bool { return strings.Contains(s, "has gone") })
					}
			}},
		} {
			t.Run(fmt.Sprintf("%s, run %v", name, run), func(t *testing.T) {
				t.Parallel()
				source, await, put, lose := x.do(t)
				r := start(t, args(t, source)...)
				await(r)
				put(r)
				r.out.await(t, "a part", func(s string) bool { return lines(s) >= 1 })
				lose(r)
				r.cancel()
				if code := r.wait(); code != exitLost || !strings.Contains(r.err.String(), "away when the stream ended, since ") ||
					!strings.Contains(r.err.String(), x.lost) {
					t.Errorf("%d: %s", code, r.err)
				}
			})
		}
	}
	// A camera that never was there is no better.
	r := start(t, "run", one(t, "/dev/no-such-video"))
	r.err.await(t, "that it isn't there", func(s string) bool { return strings.Contains(s, "no such file") })
	r.cancel()
	if code := r.wait(); code != exitLost || !strings.Contains(r.err.String(), "one: away when the stream ended, since ") {
		t.Errorf("%d: %s", code, r.err)
	}
}
