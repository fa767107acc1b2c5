// Command vendorproto writes the schemas that polyscan's .proto files import
// and the compiler does not bring along, from the descriptors inside the
// generated Go modules that polyscan links.
//
// The compiler needs those schemas as text, but the Go modules carry them only
// in compiled form, and a registry that has the text is one network dependency
// more. Printing them from the modules keeps one source of truth: the text
// can't drift from the code that runs. What was printed is compiled again and
// compared with the descriptor it came from, so an error of the printer can't
// get into the tree.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	validatepb "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A schema is one file to write and where it comes from. The module's version
// must be the one in polyscan's own go.mod; the test beside this file says so.
type schema struct {
	file      protoreflect.FileDescriptor
	module    string // Go module that file was compiled into
	copyright string // as in that module's sources; both are Apache-2.0
}

var schemas = []schema{
	{
		file:      validatepb.File_buf_validate_validate_proto,
		module:    "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go",
		copyright: "Copyright 2023-2026 Buf Technologies, Inc.",
	},
	{
		file:      statuspb.File_google_rpc_status_proto,
		module:    "google.golang.org/genproto/googleapis/rpc",
		copyright: "Copyright 2026 Google LLC",
	},
	{ // no schema of ours imports it: clients in other languages read errors with it
		file:      errdetails.File_google_rpc_error_details_proto,
		module:    "google.golang.org/genproto/googleapis/rpc",
		copyright: "Copyright 2026 Google LLC",
	},
}

const header = `// %s
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Modified: printed by polyscan's tools/vendorproto from the descriptor in the
// Go module named below, which holds neither comments nor layout. Do not edit;
// "make generate" writes it.
//
// module:  %s
// version: %s

`

func main() {
	out := flag.String("out", "", "folder to write the .proto files under, as the import root")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: vendorproto -out FOLDER")
		os.Exit(2)
	}
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "vendorproto:", err)
		os.Exit(1)
	}
}

// run renders every schema before it writes the first, so that a failure
// leaves the folder as it was.
func run(out string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("no build information: build with module support")
	}
	texts := make([][]byte, len(schemas))
	for i, s := range schemas {
		var err error
		if texts[i], err = s.render(info); err != nil {
			return err
		}
	}
	for i, s := range schemas {
		path := filepath.Join(out, filepath.FromSlash(s.file.Path()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, texts[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the whole text of s: licence, origin, schema.
func (s schema) render(info *debug.BuildInfo) ([]byte, error) {
	version, err := moduleVersion(info, s.module)
	if err != nil {
		return nil, err
	}
	body, err := s.print()
	if err != nil {
		return nil, err
	}
	text := append(fmt.Appendf(nil, header, s.copyright, s.module, version), body...)
	if err := verify(s.file, text); err != nil {
		return nil, err
	}
	return text, nil
}

// print returns the schema alone.
func (s schema) print() ([]byte, error) {
	printer := &protoprint.Printer{Indent: "  ", Compact: true}
	var buf bytes.Buffer
	if err := printer.PrintProtoFile(s.file, &buf); err != nil {
		return nil, fmt.Errorf("print %s: %w", s.file.Path(), err)
	}
	return buf.Bytes(), nil
}

// moduleVersion is the version of the module at path that info's program was
// built with.
func moduleVersion(info *debug.BuildInfo, path string) (string, error) {
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version, nil
		}
	}
	return "", fmt.Errorf("build information does not list module %s", path)
}

// verify compiles text and reports how its descriptor differs from want.
func verify(want protoreflect.FileDescriptor, text []byte) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{want.Path(): string(text)}),
		}),
	}
	files, err := compiler.Compile(context.Background(), want.Path())
	if err != nil {
		return fmt.Errorf("compile the printed %s: %w", want.Path(), err)
	}
	got, err := reencode(protodesc.ToFileDescriptorProto(files[0]))
	if err != nil {
		return err
	}
	orig, err := reencode(protodesc.ToFileDescriptorProto(want))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(orig, got, protocmp.Transform()); diff != "" {
		return fmt.Errorf("the printed %s compiles to another schema (-module +printed):\n%s", want.Path(),
			strings.TrimSpace(diff))
	}
	return nil
}

// reencode returns d encoded and decoded again, so that the compiler's dynamic
// options and the module's generated ones have the same Go types.
func reencode(d *descriptorpb.FileDescriptorProto) (*descriptorpb.FileDescriptorProto, error) {
	raw, err := proto.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", d.GetName(), err)
	}
	out := new(descriptorpb.FileDescriptorProto)
	if err := proto.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("decode %s: %w", d.GetName(), err)
	}
	return out, nil
}
