package main

// Commands that talk to a server: over TCP with TLS and a token, by recipe, in streams.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"image"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/regionfile"
	"github.com/polyscan/polyscan/server"
)

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startServer serves on a port of the loopback interface.
func startServer(t *testing.T, cfg server.Config) string {
	t.Helper()
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func TestAddr(t *testing.T) {
	token := write(t, "token", "secret\n")
	addr := startServer(t, server.Config{TokenFile: token})
	args := []string{frames + "metal.png", "-r", frames + "metal.regions.json"}
	want := reduceJSON(t, args...)
	if got := reduceJSON(t, append(args, "--addr", addr, "--token-file", token)...); !sameReport(got, want) {
		t.Error("a server over TCP gives other numbers than the one inside the process")
	}
	t.Setenv("POLYSCAN_ADDR", addr)
	t.Setenv("POLYSCAN_TOKEN_FILE", token)
	if got := reduceJSON(t, args...); !sameReport(got, want) {
		t.Error("the server of POLYSCAN_ADDR gives other numbers")
	}
	if err := os.Unsetenv("POLYSCAN_TOKEN_FILE"); err != nil { // an empty one gets a warning
		t.Fatal(err)
	}
	_, stderr, code := polyscan(t, append([]string{"reduce"}, args...)...)
	if code != exitServer || !strings.HasPrefix(stderr, "polyscan: "+addr+": authorization: ") ||
		!strings.HasSuffix(stderr, "; add --token-file FILE\n") {
		t.Errorf("without the token: exit %d, %s", code, stderr)
	}
}

// TestWordsOfRefusals: what a server refuses is told by files and flags, and not by the fields and bytes of a protocol.
func TestWordsOfRefusals(t *testing.T) {
	addr := startServer(t, server.Config{MaxFramePixels: 100_000, MaxMessageBytes: 200 << 10, StreamDepth: 1})
	metal, long := frames+"metal.png", strings.Repeat("x", 5000)
	out := filepath.Join(t.TempDir(), "o.png")
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"RESOURCE_EXHAUSTED: a message of ~ bytes: the server takes 204800 at most, its max-message\n", exitServer,
			[]string{"reduce", frames + "board.png", "-r", frames + "board.regions.json"}},
		{metal + ": 1024 x 512: makes 524288 pixels: the limit is 100000\n", exitUsage,
			[]string{"teach", metal, frames + "metal16.png", "-r", frames + "metal.regions.json", "--quantity", "mean"}},
		{metal + ": 1024 x 512: makes 524288 pixels: the limit is 100000\n", exitUsage,
			[]string{"try", "--good", metal, "-r", frames + "metal.regions.json"}},
		{frames + "arch.json: 640 x 480: makes a picture of 921600 bytes: the limit is 204800\n", exitUsage,
			[]string{"diffuse", frames + "arch.json", "-o", out}},
		{`--description "x~" and more, 5000 bytes: must be at most 4096 bytes` + "\n", exitUsage,
			[]string{"recipe", "put", "m", "-r", frames + "metal.regions.json", "--description", long}},
		{metal + `: --id "x~" and more, 5000 bytes: must be at most 256 bytes` + "\n", exitUsage,
			[]string{"frames", "put", metal, "--id", long}},
		{metal + `: --id "x~" and more, 5000 bytes: must be at most 256 bytes` + "\n", exitUsage,
			[]string{"frames", "put", metal, "--raw", "16x16:gray8", "--id", long}},
	} {
		_, stderr, code := polyscan(t, append(c.args, "--addr", addr)...)
		if code != c.code || !like(stderr, "polyscan: "+c.want) {
			t.Errorf("%v: exit %d, %s", c.args[:2], code, stderr)
		}
	}
}

// TestTenants: what is whose shows in lists, in polyscan device, and in what is said to another tenant.
func TestTenants(t *testing.T) {
	const alice = "a name=alice frames=1 role=teach\n"
	tokens := write(t, "tokens", "certificate=x\n"+alice+"v name=viewer role=view\no name=ops role=admin\n")
	addr := startServer(t, server.Config{TokenFile: tokens})
	as := func(token string, args ...string) []string {
		return append(args, "--addr", addr, "--token-file", write(t, "token-"+token, token+"\n"))
	}
	a := func(args ...string) []string { return append(args, "--addr", addr, "--token-file", tokens) } // the first token
	succeed(t, a("frames", "put", frames+"board.png")...)
	if _, stderr, code := polyscan(t, a("frames", "put", frames+"board.png")...); code != exitServer ||
		!strings.Contains(stderr, "tenant alice: frames: 1 of 1 are in use") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	succeed(t, a("recipe", "put", "board", "-r", frames+"board.regions.json")...)
	if list := succeed(t, as("v", "recipe", "list")...); !strings.Contains(list, "TENANT") ||
		!strings.Contains(list, "alice") {
		t.Errorf("recipes:\n%s", list)
	}
	if list := succeed(t, as("o", "frames", "list")...); !strings.Contains(list, "TENANT") ||
		!strings.Contains(list, "alice") {
		t.Errorf("frames:\n%s", list)
	}
	if _, stderr, code := polyscan(t, as("v", "recipe", "delete", "board", "--all")...); code != exitServer ||
		!strings.Contains(stderr, "tenant viewer has the role view; this needs teach") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for token, want := range map[string]string{
		"v": "viewer: holds nothing", "o": "alice: frames 1 of 1 (1 refusal), frame-bytes ",
	} {
		if device := succeed(t, as(token, "device")...); !strings.Contains(device, want) {
			t.Errorf("device of %s:\n%s", token, device)
		}
	}
	var report deviceReport
	if err := json.Unmarshal([]byte(succeed(t, as("v", "device", "--json")...)), &report); err != nil ||
		report.Role != "view" || len(report.Tenants) != 1 || report.Tenants[0].Name != "viewer" {
		t.Errorf("%v %v, %v", report.Role, report.Tenants, err)
	}
}

// TestAddrTLS: certificates on both sides, and what is said when one side doesn't speak TLS.
func TestAddrTLS(t *testing.T) {
	dir := t.TempDir()
	crt, key := filepath.Join(dir, "crt.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, crt, key)
	plain := startServer(t, server.Config{})
	secure := startServer(t, server.Config{TLS: server.TLS{CertFile: crt, KeyFile: key, ClientCAFile: crt}})
	args := []string{"device", "--timeout", "20s", "--addr"}
	if got := succeed(t, append(args, secure, "--ca", crt, "--cert", crt, "--key", key)...); !strings.Contains(got,
		"backend ") {
		t.Errorf("device over TLS:\n%s", got)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{append(args, plain, "--ca", crt), plain +
			": no connection: authentication handshake failed: ~; the server speaks no TLS: ~"},
		{append(args, secure), secure +
			": no connection: error reading server preface: ~; if the server speaks TLS, add --tls, ~"},
		{append(args, secure, "--tls"),
			secure + ": no connection: authentication handshake failed: tls: failed to verify certificate: ~"},
		{append(args, secure, "--ca", crt), secure + ": ~"},
		{append(args, secure, "--ca", crt, "--server-name", "elsewhere"),
			secure + ": no connection: authentication handshake failed: tls: failed to verify certificate: ~elsewhere~"},
	} {
		stdout, stderr, code := polyscan(t, tt.args...)
		if code != exitServer || stdout != "" || !like(stderr, "polyscan: "+tt.want+"\n") ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d\n%swant %s", tt.args, code, stderr, tt.want)
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T, crt, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string]*pem.Block{crt: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecipes(t *testing.T) {
	addr := startServer(t, server.Config{})
	server := []string{"--addr", addr}
	with := func(args ...string) []string { return append(args, server...) }

	if got := succeed(t, with("recipe", "list")...); got != "no recipes\n" {
		t.Errorf("list: %q", got)
	}
	if got := succeed(t, with("recipe", "put", "conveyor", "-r", frames+"conveyor/regions.json", "--description",
		"washers & nuts",
		"--stats", "mean,min", "--percentiles", "1,99.5", "--percentile-method", "linear", "--bins", "16",
		"--range=-8,248", "--expect", "0")...); got != "conveyor@1: 12 regions\n" &&
		!regexp.MustCompile(`^conveyor@1: \d+ regions\n$`).MatchString(got) {
		t.Errorf("put: %q", got)
	}
	_, stderr, code := polyscan(t, with("recipe", "put", "conveyor", "-r", frames+"conveyor/regions.json", "--expect",
		"0")...)
	if code != exitUsage || !strings.Contains(stderr, "the latest is 1") {
		t.Errorf("put with a wrong --expect: exit %d, %s", code, stderr)
	}

	// get prints what --regions and put read; nothing is lost on the way.
	text := succeed(t, with("recipe", "get", "conveyor@1")...)
	file := write(t, "recipe.json", text)
	stored, err := regionfile.Load(file, regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	original, err := regionfile.Load(frames+"conveyor/regions.json", regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if stored.Name != "conveyor" || stored.Description != "washers & nuts" ||
		len(stored.Regions) != len(original.Regions) {
		t.Errorf("stored %q, %q, %d regions", stored.Name, stored.Description, len(stored.Regions))
	}
	for i := range original.Regions {
		a, b := original.Regions[i], stored.Regions[i]
		if a.Fill == "" {
			a.Fill = regionfile.FillNonZero
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("region %d\nput %v\ngot %v", i, a, b)
		}
	}
	if want := []string{"percentiles(1, 99.5, linear)",
		"histogram(16, -8, 248)"}; !slices.Equal(stored.Reductions[len(stored.Reductions)-2:], want) {
		t.Errorf("reductions %q", stored.Reductions)
	}
	if got := succeed(t, with("recipe", "put", "-r", file)...); !strings.HasPrefix(got, "conveyor@2: ") {
		t.Errorf("put of what get printed: %q", got)
	}
	again := succeed(t, with("recipe", "get", "conveyor")...)
	strip := regexp.MustCompile(`(?m)^"(version|created_at)": .*\n`)
	if strip.ReplaceAllString(again, "") != strip.ReplaceAllString(text, "") {
		t.Errorf("version 2 differs from version 1:\n%s\n%s", again, text)
	}
	out := filepath.Join(t.TempDir(), "out.json")
	succeed(t, with("recipe", "get", "conveyor", "-o", out)...)
	if data, err := os.ReadFile(out); err != nil || string(data) != again {
		t.Errorf("get -o: %v", err)
	}

	// The recipe gives the numbers and the verdict of its regions, and asks for its own statistics.
	frame := frames + "conveyor/frame_007.png"
	byFile := reduceJSON(t, frame, "-r", frames+"conveyor/regions.json")
	byRecipe := reduceJSON(t,
		with(frame, "--recipe", "conveyor@1", "--stats", "all", "--percentiles", "1,5,10,25,50,75,90,95,99")...)
	if !sameReport(byFile, byRecipe) {
		t.Error("reduce --recipe gives other numbers than reduce --regions")
	}
	table := succeed(t, with("reduce", frame, "--recipe", "conveyor")...)
	if !strings.HasPrefix(table, "REGION") || !strings.Contains(table, "P99.5") || strings.Contains(table, "STD") ||
		!strings.Contains(table, "FAIL (1 of ") {
		t.Errorf("table by recipe:\n%s", table)
	}
	if _, _, code := polyscan(t,
		with("reduce", frame, "--recipe", "conveyor", "--fail-on-reject")...); code != exitReject {
		t.Errorf("--fail-on-reject: exit %d", code)
	}
	mask, maskFile := filepath.Join(t.TempDir(), "a.png"), filepath.Join(t.TempDir(), "b.png")
	succeed(t, with("mask", frame, "--recipe", "conveyor", "-o", mask)...)
	succeed(t, "mask", frame, "-r", frames+"conveyor/regions.json", "-o", maskFile)
	a, b := readPNG(t, mask).(*image.Gray), readPNG(t, maskFile).(*image.Gray)
	if !slices.Equal(a.Pix, b.Pix) {
		t.Error("the mask by recipe differs")
	}

	succeed(t, with("recipe", "put", "board", "-r", frames+"board.regions.json")...)
	list := succeed(t, with("recipe", "list")...)
	if lines := strings.Split(list, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], "board ") ||
		!strings.Contains(lines[2], "washers & nuts") {
		t.Errorf("list:\n%s", list)
	}
	var all []recipeSummaryReport
	if err := json.Unmarshal([]byte(succeed(t, with("recipe", "list", "con", "--all", "--json")...)),
		&all); err != nil || len(all) != 2 || all[1].Version != 2 ||
		all[0].Vertices == 0 || int(all[0].Regions) != len(original.Regions) {
		t.Errorf("list --json: %+v, %v", all, err)
	}
	if got := succeed(t, with("recipe", "delete", "conveyor@1")...); got != "conveyor@1: deleted 1 version\n" {
		t.Errorf("delete: %q", got)
	}
	if _, stderr, code := polyscan(t, with("recipe", "get", "conveyor@1")...); code != exitUsage ||
		!strings.Contains(stderr, "not stored") {
		t.Errorf("get of a deleted version: exit %d, %s", code, stderr)
	}
	succeed(t, with("recipe", "put", "-r", file)...)
	if got := succeed(t, with("recipe", "delete", "conveyor", "--all")...); got != "conveyor: deleted 2 versions\n" {
		t.Errorf("delete --all: %q", got)
	}
}

// TestRecipeFolder keeps recipes without a server that runs.
func TestRecipeFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recipes")
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", dir)
	if got := succeed(t, "recipe", "list", "--recipes", dir); !strings.Contains(got, "metal ") {
		t.Errorf("list: %s", got)
	}
	if got := succeed(t, "reduce", frames+"metal.png", "--recipe", "metal@1", "--recipes", dir); !strings.Contains(got,
		"FAIL (3 of ") {
		t.Errorf("reduce by recipe:\n%s", got)
	}
}

func TestMask(t *testing.T) {
	regions := write(t, "r.json",
		`[{"name":"a","rings":[[[0,0],[4,0],[4,4],[0,4]]]},{"name":"b","rings":[[[2,2],[6,2],[6,3],[2,3]]]}]`)
	out := filepath.Join(t.TempDir(), "m.png")
	if got, want := succeed(t, "mask", "--size", "7x5", "-r", regions, "-o", out), out+
		": 7x5, 18 pixels in 2 regions (20 where each region counts its own), by cpu\n"; got != want {
		t.Errorf("mask printed %q, want %q", got, want)
	}
	draw := func(img image.Image) string {
		var b strings.Builder
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				fmt.Fprintf(&b, "%d ", samples(img, x, y)[0])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	row := func(s ...string) string { return strings.Join(s, " \n") + " \n" }
	want := row("255 255 255 255 0 0 0", "255 255 255 255 0 0 0", "255 255 255 255 255 255 0", "255 255 255 255 0 0 0",
		"0 0 0 0 0 0 0")
	if got := draw(readPNG(t, out)); got != want {
		t.Errorf("mask\n%s\nwant\n%s", got, want)
	}
	want = row("1 1 1 1 0 0 0", "1 1 1 1 0 0 0", "1 1 2 2 2 2 0", "1 1 1 1 0 0 0", "0 0 0 0 0 0 0")
	succeed(t, "mask", "--size", "7x5", "-r", regions, "-o", out, "--labels")
	img := readPNG(t, out)
	if _, ok := img.(*image.Gray16); !ok || draw(img) != want {
		t.Errorf("labels in %T\n%s\nwant\n%s", img, draw(img), want)
	}
	stdout, stderr, code := polyscan(t, "mask", "--size", "7x5", "-r", regions, "-o", "-")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "\x89PNG") {
		t.Errorf("mask -o -: exit %d, %q, %d bytes", code, stderr, len(stdout))
	}
	succeed(t, "mask", "--raw", "7x5:gray8", "-r", regions, "-o", out)
	succeed(t, "mask", frames+"metal16.png", "-r", regions, "-o", out)
	if b := readPNG(t, out).Bounds(); b.Dx() != 512 || b.Dy() != 256 {
		t.Errorf("mask of a frame: %v", b)
	}
}

func TestStream(t *testing.T) {
	csvFile := filepath.Join(t.TempDir(), "out.csv")
	got := succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--repeat", "2", "--csv",
		csvFile)
	want := regexp.MustCompile(`^FAIL frame_007\.png  bracket hole 3: mean [0-9.]+ is above 80\n` +
		`FAIL frame_007\.png  bracket hole 3: mean [0-9.]+ is above 80\n` +
		`24 frames in TIME by cpu: 22 PASS, 2 FAIL\n[0-9.]+ frames/s, [0-9.]+ MB/s, [0-9.]+ Mpixel/s\nlatency p50 ` +
		`TIME, p90 TIME, p99 TIME, max TIME; compute p50 TIME\n$`)
	if !want.MatchString(timeless(got)) {
		t.Errorf("stream printed\n%s", got)
	}
	f, err := os.Open(csvFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	file, err := regionfile.Load(frames+"conveyor/regions.json", regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+24*len(file.Regions) || !slices.Equal(rows[0], csvHeader) {
		t.Fatalf("%d rows, first %q", len(rows), rows[0])
	}
	// Against what reduce says of the same frame.
	one := reduceJSON(t, frames+"conveyor/frame_003.png", "-r", frames+"conveyor/regions.json")
	for i, g := range one.Regions {
		r := rows[1+3*len(file.Regions)+i]
		c := g.Channels[0]
		want := []string{"3", "frame_003.png", "PASS", g.Name, "", "gray", string(c.Count), "", number(*c.Mean),
			number(*c.StdDev), fmt.Sprint(*c.Min), fmt.Sprint(*c.Percentiles["50"]), fmt.Sprint(*c.Max), ""}
		want[4] = r[4]
		if !slices.Equal(r[:len(want)], want) {
			t.Errorf("row %q\nwant %q", r, want)
		}
	}

	var rep streamReport
	out, stderr, code := polyscan(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--json",
		"--fail-on-reject", "--window", "1")
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != exitReject || stderr != "" {
		t.Fatalf("stream --json: exit %d, %v, %s", code, err, stderr)
	}
	if rep.Backend != "cpu" || rep.Frames != 12 || rep.Pixels != 12*640*400 ||
		rep.Verdicts != (verdictsReport{Pass: 11, Fail: 1}) || len(rep.Rejected) != 1 ||
		rep.Rejected[0].Frame != "frame_007.png" || rep.Rejected[0].Sequence != 7 ||
		!slices.Equal(rep.Rejected[0].Regions, []string{"bracket hole 3"}) ||
		!(rep.Latency.Min > 0 && rep.Latency.Min <= rep.Latency.P50 && rep.Latency.P50 <= rep.Latency.Max) ||
		rep.Rate <= 0 {
		t.Errorf("report %+v", rep)
	}
}

// TestStreamBadFrames: what can't be used is reported in its place, and the rest goes on.
func TestStreamBadFrames(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(frames + "conveyor/frame_000.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a1.png": good, "a2.png": nil, "a3.png": good[:500], "a10.png": good,
		"a11.png": []byte("text"), "notes.txt": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.png"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"stream", dir, "-r", frames + "conveyor/regions.json"}
	// Nothing is known of a refused frame: that is no success, with --fail-on-reject or without.
	skipped := "1 file or folder skipped, such as folder.png: frames end in .png, .jpg, .jpeg, .tif, .tiff, .bmp"
	refuse := func(want string, args ...string) string {
		t.Helper()
		stdout, stderr, code := polyscan(t, args...)
		want = "polyscan: warning: " + dir + ": " + skipped + "\npolyscan: " + want + " refused, of which nothing is known\n"
		if code != exitUsage || stderr != want {
			t.Errorf("exit %d: %s", code, stderr)
		}
		return stdout
	}
	got := refuse("3 of 5 frames", args...)
	lines := strings.Split(got, "\n")
	for i, want := range []string{"REFUSED " + filepath.Join(dir, "a2.png") + ": the file is empty",
		"REFUSED a3.png: PNG file of 500 bytes: ~", "REFUSED a11.png: no PNG, JPEG, TIFF or BMP image; ~",
		"5 frames in ~: 2 PASS, 3 refused"} {
		want = strings.ReplaceAll(want, filepath.Join(dir, "a2.png"), "a2.png")
		if !like(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	if _, _, code := polyscan(t, append(args, "--fail-on-reject")...); code != exitReject {
		t.Errorf("--fail-on-reject: exit %d", code)
	}
	stdout, stderr, code := polyscan(t, append(args, "-q")...)
	if code != exitUsage || strings.Contains(stdout, "REFUSED") || !strings.HasSuffix(stderr,
		"polyscan: warning: the first refused frame: a2.png: the file is empty\n"+
			"polyscan: 3 of 5 frames refused, of which nothing is known\n") {
		t.Errorf("-q: exit %d\n%s%s", code, stdout, stderr)
	}
	// Raw frames: only .raw and .bin, of the right size. Other files may be frames, too.
	if _, stderr, code := polyscan(t, "stream", dir, "--raw", "4x3:gray8", "-r",
		frames+"conveyor/regions.json"); code != exitUsage ||
		!strings.Contains(stderr, "a1.png: a picture (PNG) that would not be read: frames end in .raw, .bin here") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.raw"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"1.raw": 12, "2.bin": 12, "3.raw": 11} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	regions := write(t, "r.json", `[{"name":"a","rings":[[[0,0],[4,0],[4,3]]]}]`)
	skipped = "1 file or folder skipped, such as folder.raw: frames end in .raw, .bin"
	got = refuse("1 of 3 frames", "stream", dir, "--raw", "4x3:gray8", "-r", regions)
	if !strings.HasPrefix(got, "REFUSED 3.raw: 11 bytes, but --raw 4x3:gray8 takes 12\n3 frames in ") ||
		!strings.Contains(got, "2 no limits, 1 refused") {
		t.Errorf("raw frames:\n%s", got)
	}
}

func TestNatural(t *testing.T) {
	want := []string{"", "a", "a01", "a1", "a2", "a10", "a10b2", "a10b10", "b", "b00000000000000000000000000000001",
		"b99999999999999999999999999999"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural)
	if !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// TestServe runs the command until it is interrupted.
func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	web := closedPort(t)
	// A socket that a dead server left behind must not be in the way.
	old, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		stdout, stderr string
		code           int
	}
	done := make(chan result, 1)
	go func() {
		stdout, stderr, code := polyscanIn(t, ctx, nil, "serve", "--listen", "unix:"+socket, "--listen", "127.0.0.1:0",
			"--http", web)
		done <- result{stdout, stderr, code}
	}()
	get := func(path string) (string, error) {
		res, err := http.Get("http://" + web + path)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if body, err := get("/readyz"); err == nil && strings.TrimSpace(body) == "ready" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server doesn't get ready")
		}
	}
	args := []string{frames + "metal.png", "-r", frames + "metal.regions.json"}
	if got := reduceJSON(t, append(args, "--addr", "unix:"+socket)...); !sameReport(got, reduceJSON(t, args...)) {
		t.Error("other numbers over the socket")
	}
	// The address is taken now.
	if _, stderr, code := polyscan(t, "serve", "--listen", "127.0.0.1:0", "--http", web, "--memory",
		"1048576"); code != exitReject || !strings.Contains(stderr, "--http: listen tcp "+web+": ") {
		t.Errorf("a second server on the same port: exit %d, %s", code, stderr)
	}
	// A setting that is wrong stays so.
	if _, stderr, code := polyscan(t, "serve", "--listen", "127.0.0.1:0", "--recipes", "/proc/self/recipes"); code != exitUsage {
		t.Errorf("recipes where none can be: exit %d, %s", code, stderr)
	}
	// With --log-format json that is said in JSON alone.
	stdout, stderr, code := polyscan(t, "serve", "--listen", "127.0.0.1:0", "--http", web, "--memory", "1MiB",
		"--log-format", "json")
	var line struct{ Msg string }
	if err := json.Unmarshal([]byte(stderr), &line); err != nil || code != exitReject || stdout != "" ||
		!strings.Contains(line.Msg, "--http: listen tcp "+web) {
		t.Errorf("exit %d, %q, %q: %v", code, stdout, stderr, err)
	}
	if body, err := get("/metrics"); err != nil || !strings.Contains(body, "polyscan_") {
		t.Errorf("metrics: %v\n%.300s", err, body)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	select {
	case r := <-done:
		if r.code != exitOK || !strings.Contains(r.stdout, "listening on unix:"+socket) ||
			!strings.Contains(r.stdout, "ready") || !strings.Contains(r.stderr, "shutting down") {
			t.Errorf("exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server doesn't stop")
	}
}

// Work that takes more memory than the server inside the process has otherwise gets it, or as much as there is.
func TestInProcessMemory(t *testing.T) {
	for _, x := range []struct{ need, least int64 }{{inProcessMemory + 1<<20, inProcessMemory + 1<<20},
		{1 << 50, inProcessMemory}} {
		c, err := connect(&env{ctx: t.Context()}, &serverFlags{}, &deviceFlags{Device: "cpu", memory: x.need}, "")
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.GetDevice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(d.GetMemory().GetReservedBytes()); got < x.least {
			t.Errorf("%d bytes are reserved for %d, want %d at least", got, x.need, x.least)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}
