package daemon

import (
	"fmt"
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{
		"0": 0, "1": 1, "1b": 1, "2KiB": 2048, "2 kib": 2048, "1.5MiB": 3 << 19, "3g": 3 << 30, "2GB": 2_000_000_000, "1TiB": 1 << 40,
	} {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q = %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1XB", "MiB", "NaN", "Inf", "1e30", "1 2"} {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q = %d, %v, want an error that names it", text, b, err)
		}
	}
}
