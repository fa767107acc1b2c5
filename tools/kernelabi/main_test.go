package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../kernels"

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("CXX") == "" && os.Getenv("CI") != "true" {
		fmt.Println("not run: no C++ compiler")
		return
	}
	os.Exit(m.Run())
}

// The committed file is what the headers give.
func TestCommitted(t *testing.T) {
	got, err := generate(folder+"/cu/abi", folder+"/driver")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(folder + "/cuda/abi.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("kernels/cuda/abi.go is not what kernels/cu/abi gives: run make generate")
	}
}

// try generates from a header of its own, with a package driver that exports Pair and PAIRS.
func try(t *testing.T, header string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"one_op.cuh": "typedef unsigned u32;\ntypedef unsigned long long u64;\ntypedef u64 Item;\n" +
			"struct int2 {\n    int x, y;\n};\n" +
			"#define KERNEL(name, ...) extern \"C\" void name(__VA_ARGS__) {}\n" + header,
		"driver.go": "package driver\n\ntype Pair struct{ A, B uint32 }\n\nconst PairsOfAll = 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := generate(dir, dir)
	return strings.Join(strings.Fields(string(text)), " "), err
}

func TestGenerate(t *testing.T) {
	got, err := try(t, `
#define ONE_SIZE (1 << 3) // of a tile
#define ONE_SHARE 0.5f
#define PAIRS_OF_ALL 2
struct Pair { u32 a, b; };
struct OneArgs { const Pair *pairs; int2 corner; u32 order_of[3], pad; float least; int side; Item *items; };
KERNEL(mask_one_op, OneArgs a);
KERNEL(one_next, u32 *to, int n, int pad);
KERNEL(one_last, u32 *to, int n, int pad);
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"oneSize = 8", "pairBytes = 8", "oneArgsBytes = 48",
		"type oneArgs struct { Pairs uint64 Corner [2]int32 OrderOf [3]uint32 _ uint32 Least float32 Side int32 Items uint64 }",
		"type oneNextParams struct { To uint64 N int32 _ int32 }",
		"oneOp kernelFor[oneArgs] = 0 oneNext kernelFor[oneNextParams] = 1 oneLast kernelFor[oneNextParams] = 2",
		`{"one_op", "mask_one_op"}, {"one_op", "one_next"}, {"one_op", "one_last"},`,
		"_ [driver.PairsOfAll]byte = [2]byte{}",
		"_ [unsafe.Sizeof(driver.Pair{})]byte = [8]byte{}", "_ [unsafe.Offsetof(driver.Pair{}.B)]byte = [4]byte{}",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"oneShare", "type pair ", "pairsOfAll ="} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q in\n%s", unwanted, got)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	const kernel = "\nKERNEL(one_op, u32 *to, u64 n);"
	for what, c := range map[string]struct{ header, want string }{
		"a hole that Go has not": {"struct __attribute__((aligned(8))) Part { u32 a; }; struct S { u32 a; Part p; };" +
			kernel, "pad"},
		"an end that is not full": {"struct S { u64 a; u32 b; };" + kernel, "pad"},
		"parameters that end early": {
			"KERNEL(one_op, u64 *to, u32 n);", "pad"},
		"a type without a place": {"union U { int a; float b; }; struct S { U u; };" + kernel, "no place"},
		"two of one name":        {"struct OneOp { int a; };" + kernel, "oneOp"},
		"no kernel":              {"struct S { int a; };", "no kernel"},
		"an error of the header": {"struct S { Unknown a; };" + kernel, "Unknown"},
	} {
		if _, err := try(t, c.header); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.want)
		}
	}
	if _, err := generate(t.TempDir(), folder+"/driver"); err == nil {
		t.Error("no headers: no error")
	}
	if _, err := generate(folder+"/cu/abi", t.TempDir()); err == nil {
		t.Error("no package driver: no error")
	}
}
