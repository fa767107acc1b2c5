package main

// The pages: README.md and docs/*.md. Their commands are run as a reader would type them, in a folder with nothing but
// testdata, proto, the clients in other languages and the built programs; their links and pictures exist.
//
// A command stands in a block that begins with ```sh. A line before the block, which readers don't see, may say more:
//
//	<!-- server -->            start it, wait until it is ready, and stop it at the end of the page
//	<!-- if: COMMAND -->       run it where COMMAND succeeds
//	<!-- not run: REASON -->   don't run it
//	<!-- file: NAME -->        before a block of any language: write it to this file
//
// Comments that begin with a capital letter are for editors of the page.
//
// Each page has one folder for all of its commands. Ports 7465 and 7466 and /run/polyscan become others in it.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/race"
)

// A block is one that is fenced.
type block struct {
	language string
	text     string
	line     int    // of its first line of text
	mark     string // "server", "if", "not run", "file" or ""
	arg      string // what the mark says
}

var pageMarks = regexp.MustCompile(`^<!-- (server|if|not run|file)(?:: (.+))? -->$`)

var remark = regexp.MustCompile(`^<!-- [A-Z].* -->$`)

// commandLine is the beginning of a line that isn't the rest of one before.
var commandLine = regexp.MustCompile(`(?m)^[a-z]`)

// indented finds commands outside of blocks, which nobody would run.
var indented = regexp.MustCompile(`^(    |\t)(\$ )?(polyscand?|conveyor|plcgateway|camera|go|make|curl|grpcurl) `)

// blocks are the fenced blocks of a page.
func blocks(text string) ([]block, error) {
	var found []block
	var mark, arg string
	inside := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch {
		case inside && line == "```":
			inside = false
			mark, arg = "", ""
		case inside:
			found[len(found)-1].text += line + "\n"
		case strings.HasPrefix(line, "```"):
			inside = true
			found = append(found, block{language: line[3:], line: n + 1, mark: mark, arg: arg})
		case remark.MatchString(line):
		case strings.HasPrefix(line, "<!--"):
			m := pageMarks.FindStringSubmatch(line)
			if m == nil || (m[1] == "server") != (m[2] == "") {
				return nil, fmt.Errorf("line %d: %s is no mark", n, line)
			}
			mark, arg = m[1], m[2]
		case indented.MatchString(line):
			return nil, fmt.Errorf("line %d: a command outside of a block: %s", n, line)
		case mark != "":
			return nil, fmt.Errorf("line %d: a mark without a block behind it", n-1)
		}
	}
	if inside {
		return nil, errors.New("the last block has no end")
	}
	return found, nil
}

// pages are the README and those below docs, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"README.md": readme(t)}
	names, err := filepath.Glob(filepath.Join(top, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found["docs/"+filepath.Base(name)] = string(text)
	}
	if len(found) < 12 {
		t.Fatalf("%d pages", len(found))
	}
	return found
}

var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// TestDocsParse: every call of polyscan in a page has flags and arguments that polyscan takes, those that aren't run as
// well.
func TestDocsParse(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	n := 0
	for name, text := range pages(t) {
		found, err := blocks(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, b := range found {
			if b.language != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				for _, call := range regexp.MustCompile(`\||&&|;`).Split(line, -1) {
					args := word.FindAllString(call, -1)
					if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, ">") || a == "#" }); i >= 0 {
						args = args[:i]
					}
					if len(args) == 0 || args[0] != "polyscan" {
						continue
					}
					n++
					if _, stderr, code := polyscan(t, append(args[1:], "--help")...); code != 0 {
						t.Errorf("%s:%d: %s: exit %d, %s", name, b.line, strings.TrimSpace(call), code, stderr)
					}
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("%d calls of polyscan found", n)
	}
}

// TestDocsRun runs the pages. It takes a minute, so CI's stage readme asks for it.
func TestDocsRun(t *testing.T) {
	chosen := os.Getenv("POLYSCAN_DOCS")
	if chosen == "" {
		t.Skip("POLYSCAN_DOCS=all runs the commands of all pages, as .ci/run readme does; or name one, such as docs/gpu.md")
	}
	bin := buildPrograms(t)
	ran, made := 0, map[string]string{}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(pages(t))) {
		if chosen != "all" && chosen != name {
			continue
		}
		dir := t.TempDir()
		r := runPage(t.Context(), pages(t)[name], dir, bin)
		for _, err := range r.failed {
			t.Errorf("%s: %v", name, err)
		}
		for _, l := range r.left {
			left = append(left, name+" "+l)
		}
		ran += r.ran
		t.Logf("%s: %d commands in %.1f s", name, r.ran, r.took.Seconds())
		for _, m := range picLink.FindAllStringSubmatch(pages(t)[name], -1) {
			if f := filepath.Join(dir, filepath.Base(m[1])); exists(f) {
				made[filepath.Join("docs/pictures", filepath.Base(m[1]))] = f
			}
		}
	}
	for _, l := range left {
		t.Logf("not run: %s", l)
	}
	t.Logf("%d commands run, %d blocks not", ran, len(left))
	if chosen != "all" {
		return
	}
	if ran < 60 {
		t.Errorf("%d commands run", ran)
	}
	comparePictures(t, made)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// buildPrograms makes the programs that pages call, and returns their folder.
func buildPrograms(t *testing.T) string {
	race.Skip(t) // processes of their own, in which no detector watches
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin, "./clients/polyscan", "./clients/conveyor", "./clients/plcgateway",
		"./clients/camera", "./server/cmd/polyscand")
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// A pageRun is what came of a page.
type pageRun struct {
	ran    int      // lines of shell
	left   []string // blocks not run: line and reason
	failed []error
	took   time.Duration
}

// runPage runs the blocks of a page in dir, in their order, up to the first that fails.
func runPage(ctx context.Context, text, dir, bin string) (r pageRun) {
	start := time.Now()
	defer func() { r.took = time.Since(start) }()
	fail := func(format string, args ...any) pageRun {
		r.failed = append(r.failed, fmt.Errorf(format, args...))
		return r
	}
	found, err := blocks(text)
	if err != nil {
		return fail("%w", err)
	}
	for _, name := range []string{"testdata", "proto", "clients/python", "clients/cpp"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(top, name))); err != nil {
			return fail("%w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		return fail("%w", err)
	}
	// Ports that are free now.
	elsewhere := []string{"/run/polyscan", filepath.Join(dir, "run")}
	for _, port := range []string{"7465", "7466"} {
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return fail("%w", err)
		}
		defer l.Close()
		elsewhere = append(elsewhere, ":"+port, ":"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		l.Close()
	}
	move := strings.NewReplacer(elsewhere...)

	shell := func(ctx context.Context, script string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
		return cmd
	}
	for _, b := range found {
		script := move.Replace(b.text)
		if b.mark == "file" {
			if err := os.WriteFile(filepath.Join(dir, b.arg), []byte(script), 0o644); err != nil {
				return fail("line %d: %w", b.line, err)
			}
		}
		if b.language != "sh" {
			continue
		}
		switch b.mark {
		case "not run":
			r.left = append(r.left, fmt.Sprintf("line %d: %s", b.line, b.arg))
			continue
		case "if":
			if err := shell(ctx, b.arg).Run(); err != nil {
				r.left = append(r.left, fmt.Sprintf("line %d: not here: %s", b.line, b.arg))
				continue
			}
		case "server":
			stop, err := serve(shell(ctx, "exec "+script))
			if err != nil {
				return fail("line %d: %w", b.line, err)
			}
			defer func() {
				if err := stop(); err != nil {
					r.failed = append(r.failed, fmt.Errorf("line %d: %w", b.line, err))
				}
			}()
			r.ran++
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		out, err := shell(limited, script).CombinedOutput()
		cancel()
		if err != nil {
			return fail("line %d: %w\n%s%s", b.line, err, script, out)
		}
		r.ran += len(commandLine.FindAllString(b.text, -1))
	}
	return r
}

// serve starts a server, waits until it tells that it is ready, as it tells systemd, and returns what stops it and says
// whether it ended well.
func serve(cmd *exec.Cmd) (stop func() error, err error) {
	socket := filepath.Join(cmd.Dir, "notify")
	os.Remove(socket)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		l.Close() // wakes who waits below
	}()
	message := make([]byte, 4096)
	l.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, err := l.Read(message)
		if err != nil {
			cmd.Process.Kill()
			return nil, fmt.Errorf("the server did not get ready: %w\n%s", errors.Join(err, <-ended), output.String())
		}
		if strings.Contains(string(message[:n]), "READY=1") {
			break
		}
	}
	return func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("the server had ended before: %w\n%s", <-ended, output.String())
		}
		if err := <-ended; err != nil {
			return fmt.Errorf("the server ended with %w\n%s", err, output.String())
		}
		return nil
	}, nil
}

// TestDocsRunReports: a page with a fault fails, and says where.
func TestDocsRunReports(t *testing.T) {
	bin := t.TempDir()
	polyscan := "#!/bin/sh\n[ \"$1\" = works ]\n"
	if err := os.WriteFile(filepath.Join(bin, "polyscan"), []byte(polyscan), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ page, want string }{
		{"```sh\npolyscan works\n```\n", ""},
		{"```sh\npolyscan works\n```\ntext\n```sh\npolyscan breaks\npolyscan works\n```\n", "line 6: exit status 1"},
		{"```sh\npolyscan breaks | cat\n```\n", "line 2: exit status 1"},
		{"```sh\ntest \"$(cat a.txt)\" = b\n```\n", "line 2: exit status 1"},
		{"<!-- file: a.txt -->\n```text\nb\n```\n```sh\ntest \"$(cat a.txt)\" = b\n```\n", ""},
		{"<!-- if: polyscan breaks -->\n```sh\npolyscan breaks\n```\n", ""},
		{"<!-- if: polyscan works -->\n```sh\npolyscan breaks\n```\n", "line 3: exit status 1"},
		{"<!-- server -->\n```sh\npolyscan works\n```\n", "line 3: the server did not get ready"},
		{"<!-- not run -->\n```sh\npolyscan works\n```\n", "no mark"},
		{"<!-- not run: no GPU -->\npolyscan\n", "a mark without a block"},
		{"<!-- some day -->\n", "no mark"},
		{"    polyscan works\n", "a command outside of a block"},
		{"```sh\npolyscan works\n", "has no end"},
	} {
		r := runPage(t.Context(), c.page, t.TempDir(), bin)
		err := errors.Join(r.failed...)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.page, err, c.want)
		}
	}
	r := runPage(t.Context(), "<!-- not run: no GPU -->\n```sh\nexit 1\n```\n", t.TempDir(), bin)
	if len(r.left) != 1 || r.left[0] != "line 3: no GPU" || r.ran != 0 {
		t.Errorf("%+v", r)
	}
}

// anchor is the name that a heading has in a link.
func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(heading))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// anchors are those of a page's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		}
		if title := strings.TrimLeft(line, "#"); !inside && title != line && strings.HasPrefix(title, " ") {
			found[anchor(title)] = true
		}
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	picLink = regexp.MustCompile(`!\[[^\]]*\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// badLinks are the links of a page, of this path, that lead nowhere.
func badLinks(page, text string) []string {
	var bad []string
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		target, fragment, _ := strings.Cut(m[1], "#")
		name := page
		if target != "" {
			name = filepath.Join(filepath.Dir(page), target)
		}
		if !exists(filepath.Join(top, name)) {
			bad = append(bad, m[1])
			continue
		}
		if fragment == "" {
			continue
		}
		linked := text
		if target != "" {
			data, err := os.ReadFile(filepath.Join(top, name))
			if err != nil {
				bad = append(bad, m[1])
				continue
			}
			linked = string(data)
		}
		if !anchors(linked)[fragment] {
			bad = append(bad, m[1])
		}
	}
	return bad
}

// TestDocsLinks: links lead to files and headings that are there; each page is one that another links to, and each
// picture is shown.
func TestDocsLinks(t *testing.T) {
	linked := map[string]bool{"README.md": true}
	for page, text := range pages(t) {
		for _, l := range badLinks(page, text) {
			t.Errorf("%s links to %s, which isn't there", page, l)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target != "" {
				linked[filepath.Join(filepath.Dir(page), target)] = true
			}
		}
	}
	for page := range pages(t) {
		if !linked[page] {
			t.Errorf("no page links to %s: add it to \"Where to go on\" in README.md", page)
		}
	}
	names, err := filepath.Glob(filepath.Join(top, "docs/pictures/*"))
	if err != nil || len(names) < 5 {
		t.Fatalf("%d pictures, %v", len(names), err)
	}
	for _, name := range names {
		if !linked["docs/pictures/"+filepath.Base(name)] {
			t.Errorf("no page shows %s", name)
		}
		if info, err := os.Stat(name); err != nil || info.Size() > 500<<10 {
			t.Errorf("%s: %d bytes, %v; too large for a page", name, info.Size(), err)
		}
	}
	page := "# A heading, of `four` words\n[a](#a-heading-of-four-words) [b](#b) [c](docs) [d](../nothing.md) [e](README.md#none)\n"
	if bad := badLinks("README.md", page); !slices.Equal(bad, []string{"#b", "../nothing.md", "README.md#none"}) {
		t.Errorf("bad links: %q", bad)
	}
}

// comparePictures: the pictures of docs/pictures are those that the commands of the pages draw today. With -update they
// are written anew. made gives the file that a page has drawn for each.
func comparePictures(t *testing.T, made map[string]string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(top, "docs/pictures/*"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for name, file := range made {
			data, err := os.ReadFile(file)
			if err == nil {
				err = errors.Join(os.MkdirAll(filepath.Join(top, "docs/pictures"), 0o755),
					os.WriteFile(filepath.Join(top, name), data, 0o644))
			}
			if err != nil {
				t.Error(err)
			}
		}
		return
	}
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "console-") {
			continue // a screenshot: server/console/browser takes it, and no two are alike
		}
		name = "docs/pictures/" + filepath.Base(name)
		if made[name] == "" {
			t.Errorf("no command of a page draws %s", name)
			continue
		}
		if d := difference(readPNG(t, filepath.Join(top, name)), readPNG(t, made[name])); d > 0.5 {
			t.Errorf("%s differs from what the command draws by %.2f levels a sample", name, d)
		}
	}
}
