package wire

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestPatterns: no error shows a regular expression: each of those in the schemas has words.
func TestPatterns(t *testing.T) {
	found := 0
	protoregistry.GlobalFiles.RangeFilesByPackage(pb.File_polyscan_v1_frame_proto.Package(),
		func(f protoreflect.FileDescriptor) bool {
			for i := range f.Messages().Len() {
				for k := range f.Messages().Get(i).Fields().Len() {
					fd := f.Messages().Get(i).Fields().Get(k)
					rules, err := protovalidate.ResolveFieldRules(fd)
					if err != nil {
						t.Fatal(err)
					}
					if p := rules.GetString().GetPattern(); p != "" {
						found++
						if patterns[p] == "" {
							t.Errorf("%s: the pattern %s has no words", fd.FullName(), p)
						}
					}
				}
			}
			return true
		})
	if found == 0 {
		t.Error("no field has a pattern: this test tests nothing")
	}
	v, err := NewValidator()
	if err != nil {
		t.Fatal(err)
	}
	err = v.Validate(&pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "no/slash"}})
	if err == nil || strings.Contains(err.Error(), "regex") || !strings.Contains(err.Error(), "must be 1 to 128 letters") {
		t.Errorf("%v", err)
	}
}
