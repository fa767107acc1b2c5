package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page for PLC programmers has the map that the program prints, and what is drawn fits a terminal.
func TestDocsMap(t *testing.T) {
	page, err := os.ReadFile("../../docs/plc.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, errs, code := plcgateway(t, t.Context(), "map", "--format", "csv")
	if code != exitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	rows, err := csv.NewReader(strings.NewReader(printed)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, r := range rows[1:] { // table, address, length, name, type, meaning
		if strings.HasPrefix(r[3], "value_") && r[3] != "value_1" {
			continue
		}
		if r[3] == "value_1" {
			r[1], r[3], r[5] = "40-103", "value_1 to value_32", "as the configuration names them; NaN: none"
		} else if r[2] == "2" {
			r[1] = fmt.Sprintf("%s-%s", r[1], next(t, r[1], 1))
		} else if r[2] == "16" {
			r[1] = fmt.Sprintf("%s-%s", r[1], next(t, r[1], 15))
		}
		fmt.Fprintf(&want, "| %s | %s | `%s` | %s | %s |\n", r[0], r[1], r[3], r[4], r[5])
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/plc.md: the map is another one; it is\n%s", want.String())
	}
	inside := false
	for i, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = !inside && (line == "```text" || line == "```console")
		} else if inside && len([]rune(line)) > 80 {
			t.Errorf("docs/plc.md:%d: %d columns", i+1, len([]rune(line)))
		}
	}
}

func next(t *testing.T, addr string, n int) string {
	t.Helper()
	var a int
	if _, err := fmt.Sscan(addr, &a); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(a + n)
}

// The examples in structured text use constants that the printed header has, and end what they begin. No compiler reads
// them here.
func TestExamples(t *testing.T) {
	header, _, code := plcgateway(t, t.Context(), "map", "--format", "st")
	if code != exitOK {
		t.Fatal("no header")
	}
	constants := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(PS_\w+) :`).FindAllStringSubmatch(header, -1) {
		constants[m[1]] = true
	}
	comments := regexp.MustCompile(`(?s)\(\*.*?\*\)|//[^\n]*`)
	for _, name := range []string{"examples/gate.st", "examples/gate.scl"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := comments.ReplaceAllString(string(raw), "")
		used := regexp.MustCompile(`PS_\w+`).FindAllString(text, -1)
		if len(used) < 40 {
			t.Errorf("%s: %d constants", name, len(used))
		}
		for _, c := range used {
			if !constants[c] {
				t.Errorf("%s: %s: the header has no such constant", name, c)
			}
		}
		count := func(word string) int { return len(regexp.MustCompile(`\b`+word+`\b`).FindAllString(text, -1)) }
		for _, block := range []string{"IF", "CASE", "FUNCTION_BLOCK"} {
			if count(block) != count("END_"+block) || count(block) == 0 {
				t.Errorf("%s: %d of %s, %d of END_%s", name, count(block), block, count("END_"+block), block)
			}
		}
		if vars := count("VAR") + count("VAR_INPUT") + count("VAR_OUTPUT"); vars != count("END_VAR") {
			t.Errorf("%s: %d begins of VAR, %d ends", name, vars, count("END_VAR"))
		}
		for pair := range strings.SplitSeq("() []", " ") {
			if a, b := strings.Count(text, pair[:1]), strings.Count(text, pair[1:]); a != b {
				t.Errorf("%s: %d of %s, %d of %s", name, a, pair[:1], b, pair[1:])
			}
		}
	}
}
