package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/server"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	addr := startServer(t, server.Config{HistoryDir: t.TempDir()})
	dir := t.TempDir()
	succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--addr", addr, "--name", "camera-3",
		"--part-ids", "--quiet")
	got := succeed(t, "reduce", frames+"conveyor/frame_007.png", "-r", frames+"conveyor/regions.json", "--addr", addr,
		"--name", "desk", "--part", "B-2041-17", "--json")
	ask := func(args ...string) string {
		t.Helper()
		return succeed(t, append([]string{"history"}, append(args, "--addr", addr)...)...)
	}
	var reject struct {
		ID      string           `json:"id"`
		Results []map[string]any `json:"results"`
	}
	for end := time.Now().Add(30 * time.Second); reject.ID == ""; time.Sleep(20 * time.Millisecond) {
		out, _, code := polyscan(t, "history", "list", "--part", "B-2041-17", "--mark", "evidence", "--json", "--addr", addr)
		if code != exitOK { // until it has come there is a warning
			t.Fatalf("exit %d", code)
		}
		if out != "" {
			if err := json.Unmarshal([]byte(out), &reject); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatal("the part has no picture")
		}
	}
	if len(reject.Results) != 10 || !strings.Contains(got, `"part":"B-2041-17"`) {
		t.Errorf("%d regions", len(reject.Results))
	}
	for name, args := range map[string][]string{
		"list":   {"list", "--limit", "0"},
		"count":  {"count", "--by", "name", "--step", "1h"},
		"pareto": {"pareto"},
		"series": {"series", "bracket hole 3", "mean", "--lower", "1", "--upper", "250"},
		"status": {"status"},
	} {
		out := ask(args...)
		for line := range strings.Lines(out) {
			if uniseg.StringWidth(strings.TrimRight(line, "\n")) > 80 && name != "list" {
				t.Errorf("%s: a line of more than 80 columns:\n%s", name, line)
			}
		}
		want := map[string]string{"list": "mean < 80 (mean 185.205 is above 80)", "count": "all",
			"pareto": "bracket hole 3", "series": "Cpk",
			"status": "13,"}[name]
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", name, want, out)
		}
	}
	if out := ask("list", "--verdict", "fail", "--failed-region", "bracket hole 3", "--from", "1h"); strings.Count(out,
		"FAIL") != 2 {
		t.Errorf("rejects:\n%s", out)
	}
	if out := ask("list", "--name", "camera-*", "--name", "desk", "--limit", "0"); strings.Count(out, "\n") != 14 {
		t.Errorf("of both names:\n%s", out)
	}
	if out := ask("list", "--to", "2020-01-01"); out != "no parts\n" {
		t.Errorf("before there were any: %s", out)
	}

	if out := ask("pareto", "--name", "desk", "--to", "2020-01-01"); out != "no parts\n" { // not that none failed
		t.Errorf("of a time before there were any: %s", out)
	}
	if out := ask("pareto", "--part", "frame_003"); out != "no region failed\n" {
		t.Errorf("of a part that is PASS: %s", out)
	}

	lines, err := csv.NewReader(strings.NewReader(ask("export", "-"))).ReadAll()
	if err != nil || len(lines) != 14 {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	file := filepath.Join(dir, "regions.parquet")
	ask("export", file, "--regions", "--name", "desk")
	type row struct {
		Region string   `parquet:"region"`
		Mean   *float64 `parquet:"mean,optional"`
	}
	rows, err := parquet.ReadFile[row](file)
	if err != nil || len(rows) != 10 || rows[0].Mean == nil || rows[0].Region != reject.Results[0]["name"] {
		t.Errorf("%v: %v", rows, err)
	}
	for name, magic := range map[string]string{"x.png": "\x89PNG", "x.svg": "<svg", "x.jpg": "\xff\xd8"} {
		name = filepath.Join(dir, name)
		ask("picture", reject.ID, name)
		data, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(data, []byte(magic)) {
			t.Errorf("%s: %.20q: %v", name, data, err)
		}
	}

	succeed(t, "recipe", "put", "line", "-r", frames+"conveyor/regions.json", "--addr", addr)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(ask("audit"),
		"put line@1\n    the first version: 10 regions"); {
		if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
			t.Fatalf("audit:\n%s", ask("audit"))
		}
	}

	for want, args := range map[string][]string{
		"--from \"soon\": want a time": {"list", "--from", "soon", "--addr", addr},
		"--addr: say which server":     {"list"},
		"computed of the region, or the frames have colours and it needs a channel such as r.p77\n": {"series",
			"bracket hole 3", "p77", "--addr", addr},
		`QUANTITY "r.mean": is not among what was computed of the region` + "\n": {"series", "bracket hole 3", "r.mean",
			"--addr", addr},
		`--name desc: no part in the history has it: did you mean "desk"?`:     {"list", "--name", "desc", "--addr", addr},
		"--name cam-*: no part in the history has it: there is camera-3, desk": {"pareto", "--name", "cam-*", "--addr", addr},
		"--name x: no part in the history has it": {"count", "--name", "x", "--json", "--addr",
			addr},
		`--name desc: no part in the history has it: did you mean "desk"? (a part comes into it within a second of its verdict)` + "\n": {
			"list", "--name", "camera-3", "--name",
			"desc", "--addr", addr},
		`--name dusk: no part in the history has it: did you mean "desk"? (a part comes into it within a second of its verdict)` + "\n": {
			"count", "--name", "dusk,camera-*",
			"--addr", addr},
		`--name des: no part in the history has it`: {"pareto", "--name", "camera-3,des", "--addr", addr},
		`--name dsk: no part in the history has it`: {"series", "bracket hole 3", "mean", "--name", "desk", "--name", "dsk",
			"--addr", addr},
		`--recipe lime: no part in the history has it`:   {"list", "--recipe", "lime", "--recipe", "line", "--addr", addr},
		`--recipe line@7: no part in the history has it`: {"list", "--recipe", "line@7", "--addr", addr},
		`REGION Bracket hole 33: no region of the newest 13 parts is called so: did you mean "bracket hole 3"?`: {"series",
			"Bracket hole 33", "mean", "--addr", addr},
		`--failed-region hole 3: no region of the newest 12 parts is called so: there is belt above, `: {"list",
			"--failed-region", "hole 3", "--name", "camera-*", "--addr", addr, "--json"},
		`RECIPE lime: no recipe is or was called so: did you mean "line"?`: {"audit", "lime", "--addr", addr},
		`REGION #99: no region of the newest 13 parts is called so`:        {"series", "#99", "mean", "--addr", addr},
		`--name y: no part in the history has it`: {"export", filepath.Join(dir, "y.csv"), "--name", "y",
			"--addr", addr},
		"polyscan: there is no part 999":       {"picture", "999", filepath.Join(dir, "y.png"), "--addr", addr},
		"polyscan: QUANTITY \"meen\": must be": {"series", "bracket hole 3", "meen", "--addr", addr},
		"--failed-region nope: no region of the newest 13 parts is called so": {"export", filepath.Join(dir, "z.csv"),
			"--failed-region", "nope", "--addr", addr},
		"--limit -1: must not be negative":                {"audit", "--limit=-1", "--addr", addr},
		"polyscan: --to 2h: must not be before --from 1h": {"list", "--from", "1h", "--to", "2h", "--addr", addr},
		"want a file name that ends in .csv":              {"export", "x.txt", "--addr", addr},
		"a version can be asked for of one recipe":        {"list", "--recipe", "a@1", "--recipe", "b", "--addr", addr},
	} {
		var out, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"history"}, args...), strings.NewReader(""), &out, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), strings.TrimSuffix(want, " ")) {
			t.Errorf("%q: exit %d: %s", args, code, stderr.String())
		}
	}
	// Programs ask for a part until it has come: that none has its id is a warning.
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"count"},
		{"export", filepath.Join(dir, "none.csv")}} {
		_, stderr, code := polyscan(t, append(append([]string{"history"}, args...), "--part", "nope", "--addr", addr)...)
		if want := "polyscan: warning: --part nope: no part in the history has this id\n"; code != 0 ||
			!strings.HasPrefix(stderr, want) {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
	if _, said, code := polyscan(t, "history", "list", "--part", "frame_003", "--to", "2020-01-01", "--addr", addr); code !=
		0 || said != "" {
		t.Errorf("a part at another time: exit %d: %s", code, said)
	}
	// A file of parts isn't replaced by one of none.
	keep := write(t, "keep.csv", "the old parts\n")
	said, errs, code := polyscan(t, "history", "export", keep, "--to", "2020-01-01", "--addr", addr)
	if text, err := os.ReadFile(keep); code != 0 || errs != "" || said != "no parts: "+keep+" is not written\n" ||
		err != nil || string(text) != "the old parts\n" {
		t.Errorf("export of nothing: exit %d: %s%s; the file is %q, %v", code, said, errs, text, err)
	}
	said, _, code = polyscan(t, "history", "series", "#0", "p37", "--addr", addr)
	if code != 0 || !strings.HasPrefix(said, "no values: none of 13 parts has this number of the region") {
		t.Errorf("a series of nothing: exit %d: %s", code, said)
	}
	// A server that can't be reached is that, whatever file its answer was to go to, and no file is left.
	for _, args := range [][]string{{"picture", "8", filepath.Join(dir, "gone.png")},
		{"export", filepath.Join(dir, "gone.csv")}, {"list"}} {
		_, stderr, code := polyscan(t, append(append([]string{"history"}, args...), "--addr", "127.0.0.1:1")...)
		if code != exitServer || !strings.Contains(stderr, "polyscan: 127.0.0.1:1: no connection") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "gone*")); left != nil {
			t.Errorf("%q: %q", args, left)
		}
	}
	off := startServer(t, server.Config{})
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"history", "list", "--addr", off}, strings.NewReader(""), &out,
		&stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "keeps no history") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}

	// A part that ended with an error has a row of its own, too.
	succeed(t, "recipe", "put", "colours", "-r", frames+"conveyor/regions.json", "--limit", "*: r.mean < 90", "--addr", addr)
	if _, stderr, code := polyscan(t, "reduce", frames+"conveyor/frame_007.png", "--recipe", "colours", "--addr", addr,
		"--name", "gray"); code != exitUsage {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, stderr, code := polyscan(t, "history", "export", file, "--regions", "--name", "gray", "--addr", addr)
		if code == exitOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("exit %d, %s", code, stderr)
		}
	}
	type refusal struct {
		Name   string   `parquet:"name"`
		Region string   `parquet:"region"`
		Count  *int64   `parquet:"count,optional"`
		Mean   *float64 `parquet:"mean,optional"`
		Error  string   `parquet:"error"`
	}
	refused, err := parquet.ReadFile[refusal](file)
	if err != nil || len(refused) != 1 || refused[0].Name != "gray" || refused[0].Region != "" ||
		refused[0].Count != nil || refused[0].Mean != nil || !strings.Contains(refused[0].Error, "no red channel") {
		t.Errorf("%v: %v", refused, err)
	}
}
