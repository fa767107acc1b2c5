// Command gpureport tells whether the last run of the GPU suite was about the
// kernel sources at hand. CI has no GPU: it can only insist that somebody ran
// the suite on one after the kernels last changed.
//
//	gpureport hash FOLDER           print the hash of the kernel sources below FOLDER
//	gpureport check FOLDER REPORT   compare it with the one in REPORT
//
// The hash is the SHA-256 of a listing: one line for each *.cu and *.cuh file
// below the folder, sorted by path, with the file's own SHA-256, two spaces and
// its slash-separated path from the folder. So coreutils can print it as well:
//
//	cd kernels/cu && find . -name '*.cu' -o -name '*.cuh' | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum | sha256sum
//
// The report is the JSON object that the GPU suite writes; see type report for
// the members that are looked at here.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// A report is what the GPU suite writes after a run. It may hold more.
type report struct {
	SourceSHA256 string `json:"source_sha256"` // of the sources the run was built from
	Device       string `json:"device"`        // name, as the driver gives it
	Driver       string `json:"driver"`        // its version
	Tests        struct {
		Passed  int `json:"passed"`
		Failed  int `json:"failed"`
		Skipped int `json:"skipped"`
	} `json:"tests"`
	Benchmarks []json.RawMessage `json:"benchmarks"` // the table, one object for each
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gpureport:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "hash":
		sum, n, err := hash(os.DirFS(args[1]))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%s: no .cu file", args[1])
		}
		_, err = fmt.Fprintln(out, sum)
		return err
	case len(args) == 3 && args[0] == "check":
		return check(out, args[1], args[2])
	}
	return errors.New("usage: gpureport hash FOLDER | gpureport check FOLDER REPORT")
}

// check fails unless name is the report of a good run of the sources in dir,
// or there are neither sources nor a report.
func check(out io.Writer, dir, name string) error {
	sum, n, err := hash(os.DirFS(dir))
	if errors.Is(err, fs.ErrNotExist) {
		n, err = 0, nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Clean(name))
	if n == 0 {
		if err == nil {
			return fmt.Errorf("%s: there, but %s holds no .cu file that it could be about", name, dir)
		}
		_, err := fmt.Fprintf(out, "%s holds no .cu file yet: no kernel to be stale\n", dir)
		return err
	}
	if err != nil {
		return fmt.Errorf("%d kernel sources and no report of a GPU run: %w", n, err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case r.SourceSHA256 != sum:
		return fmt.Errorf("%s: source_sha256 is %q, the sources in %s have %s: run the GPU suite again and commit "+
			"its report", name, r.SourceSHA256, dir, sum)
	case r.Device == "" || r.Driver == "":
		return fmt.Errorf("%s: device is %q and driver %q: a run without a GPU", name, r.Device, r.Driver)
	case r.Tests.Passed == 0 || r.Tests.Failed != 0 || r.Tests.Skipped != 0:
		return fmt.Errorf("%s: tests: %d passed, %d failed, %d skipped; want some, 0, 0", name, r.Tests.Passed,
			r.Tests.Failed, r.Tests.Skipped)
	case len(r.Benchmarks) == 0:
		return fmt.Errorf("%s: benchmarks: empty", name)
	}
	_, err = fmt.Fprintf(out, "%d kernel sources as tested on %s (driver %s): %d tests, %d benchmarks\n", n, r.Device,
		r.Driver, r.Tests.Passed, len(r.Benchmarks))
	return err
}

// hash returns the hash of the kernel sources in dir and how many .cu files
// are among them.
func hash(dir fs.FS) (sum string, n int, err error) {
	listing := sha256.New()
	var names []string
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch path.Ext(name) {
		case ".cu":
			n++
			names = append(names, name)
		case ".cuh":
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return "", 0, err
	}
	// WalkDir goes folder by folder, which is not the order of whole paths.
	slices.Sort(names)
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return "", 0, err
		}
		fmt.Fprintf(listing, "%x  %s\n", sha256.Sum256(text), name)
	}
	return hex.EncodeToString(listing.Sum(nil)), n, nil
}
