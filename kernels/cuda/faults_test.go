package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// The codes of faults are those of the kernels, and each has an op and a text with a place for the entry.
func TestFaults(t *testing.T) {
	found := map[string]string{}
	abi, err := os.ReadFile(filepath.Join(devicetest.Repository(t), "kernels", "cuda", "abi.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\tfault(\w+) += (\d+)$`).FindAllStringSubmatch(string(abi), -1) {
		found[m[2]] = m[1]
	}
	if len(found) != len(faultTexts)-1 || len(faultOps) != len(faultTexts) {
		t.Fatalf("%d codes in abi.go, %d ops and %d texts", len(found), len(faultOps)-1, len(faultTexts)-1)
	}
	for code := 1; code < len(faultTexts); code++ {
		f := fault(code)<<48 | 1234567
		name := strings.ToLower(found[fmt.Sprint(code)])
		if op := strings.ToLower(f.op()); op == "" || !strings.HasPrefix(name, op) {
			t.Errorf("code %d is %s in abi.go, of op %q", code, name, op)
		}
		if text := f.Error(); !strings.Contains(text, "1234567") || strings.Contains(text, "%!") {
			t.Errorf("code %d: %s", code, text)
		}
	}
	if f := fault(999) << 48; f.op() != "kernel" || !strings.Contains(f.Error(), "unknown") {
		t.Errorf("an unknown fault is %s: %v", f.op(), f)
	}
}
