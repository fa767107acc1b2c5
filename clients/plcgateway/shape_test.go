package main

import (
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherShape: a picture of another size or format than the first one is no part that passes, though its regions
// would.
func TestOtherShape(t *testing.T) {
	dir := t.TempDir()
	for name, img := range map[string]image.Image{"a.png": image.NewGray(image.Rect(0, 0, 60, 40)),
		"b.png": image.NewGray(image.Rect(0, 0, 60, 41)), "c.png": image.NewGray16(image.Rect(0, 0, 60, 40)),
		"d.png": image.NewGray(image.Rect(0, 0, 60, 40))} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, img); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	recipe := t.TempDir()
	if err := os.WriteFile(recipe+"/regions.json", []byte(
		`{"name":"line","regions":[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["max < 200"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "servers: {hall: {addr: '"+serveRecipe(t, recipe)+"'}}\nmodbus: {listen: '127.0.0.1:0'}\n"+
		"stations:\n  - {name: desk, folder: "+dir+", recipes: {1: line}, deadline: 1m, heartbeat: 10s, modbus: {unit: 1}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &lines{more: make(chan struct{}, 1)}, &lines{more: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--config", file}, nil, out, errs) }()
	addr := out.await(t, `Modbus TCP on (\S+)\n`)
	errs.await(t, "server found")
	printed, said, _ := plcgateway(t, t.Context(), "simulate", "--addr", addr, "--recipe", "1", "--every", "1ms",
		"--patience", "1m", "--count", "4")
	if !strings.HasSuffix(printed, "4 parts: 2 PASS, 2 REJECT\n") || strings.Count(printed, "no verdict") != 2 {
		t.Errorf("%s%s", printed, said)
	}
	errs.await(t, `desk.*the picture is 60x41 GRAY8, and the first one that recipe line@1 judged was 60x40 GRAY8`)
	cancel()
	<-code
}
