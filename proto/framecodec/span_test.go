package framecodec

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// toRegions leads from a ReduceRequest to its regions.
func toRegions() []protoreflect.FieldDescriptor {
	in := (&pb.ReduceRequest{}).ProtoReflect().Descriptor().Fields().ByName("inspection")
	return []protoreflect.FieldDescriptor{in, in.Message().Fields().ByName("region_set")}
}

// checkSpan cuts regions out of a request, and compares what they are, and what is left, with what protobuf reads. It
// returns whether they were found.
func checkSpan(t *testing.T, wire, cuts []byte) bool {
	t.Helper()
	pool := newCountingPool()
	data := cut(wire, cuts, pool)
	span, ok := Locate(data, toRegions()...)
	if ok {
		var got []byte
		for p := range span.Pieces {
			if len(p) == 0 {
				t.Errorf("%x: an empty piece", wire)
			}
			got = append(got, p...)
		}
		for range span.Pieces {
			break
		}
		if len(got) != span.Len() {
			t.Errorf("%x: pieces of %d bytes, Len = %d", wire, len(got), span.Len())
		}
		rest := span.Without()
		data.Free() // rest has references of its own
		m := New(&pb.ReduceRequest{})
		err := Codec().Unmarshal(rest, m)
		rest.Free()
		set, want := &pb.RegionSet{}, &pb.ReduceRequest{}
		setErr := proto.Unmarshal(got, set)
		if wantErr := proto.Unmarshal(wire, want); (wantErr != nil) != (err != nil || setErr != nil) {
			t.Fatalf("%x: errors %v and %v, the default codec has %v", wire, err, setErr, wantErr)
		} else if wantErr == nil {
			left, _ := whole(m).(*pb.ReduceRequest)
			if n := proto.Size(left.GetInspection().GetRegionSet()); n != 0 {
				t.Errorf("%x: %d bytes of regions are left", wire, n)
			}
			left.Inspection.Regions = &pb.Inspection_RegionSet{RegionSet: set}
			if !proto.Equal(left, want) {
				t.Fatalf("%x:\n%v, the default codec has\n%v", wire, left, want)
			}
		}
		m.Free()
	} else {
		data.Free()
	}
	if _, left, twice := pool.state(); left != 0 || twice != 0 {
		t.Fatalf("%x: %d buffers not freed, %d freed twice", wire, left, twice)
	}
	return ok
}

func TestSpan(t *testing.T) {
	in := inspection()
	in.Name = "camera"
	many := inspection()
	for range 300 {
		many.GetRegionSet().Regions = append(many.GetRegionSet().Regions, many.GetRegionSet().Regions[0])
	}
	framed := mustMarshal(t, &pb.ReduceRequest{Frame: frame("id", random(3000))})
	for name, wire := range map[string][]byte{
		"small":       mustMarshal(t, &pb.ReduceRequest{Inspection: in, Frame: frame("id", random(3000))}),
		"large":       mustMarshal(t, &pb.ReduceRequest{Inspection: many, Frame: frame("id", random(30))}),
		"no frame":    mustMarshal(t, &pb.ReduceRequest{Inspection: many}),
		"frame first": append(framed, mustMarshal(t, &pb.ReduceRequest{Inspection: many})...),
	} {
		for _, cuts := range [][]byte{nil, {1}, {2, 0, 3}, {255}, {7, 200, 0, 0, 1}} {
			if !checkSpan(t, wire, cuts) {
				t.Errorf("%s, cut %v: not found", name, cuts)
			}
		}
	}
	empty := &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{}}}
	if !checkSpan(t, mustMarshal(t, &pb.ReduceRequest{Inspection: empty}), nil) {
		t.Error("an empty set: not found")
	}
}

// What else has a say in what the regions are keeps them from being found.
func TestSpanNotFound(t *testing.T) {
	one := mustMarshal(t, &pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", random(30))})
	recipe := mustMarshal(t, &pb.ReduceRequest{Inspection: &pb.Inspection{
		Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "n"}}}})
	set := mustMarshal(t, inspection())
	for name, wire := range map[string][]byte{
		"nothing":        {},
		"a recipe":       recipe,
		"no regions":     mustMarshal(t, &pb.ReduceRequest{Inspection: &pb.Inspection{Name: "n"}}),
		"twice":          slices.Concat(one, one),
		"then a recipe":  slices.Concat(one, recipe),
		"recipe, before": slices.Concat(recipe, one),
		"sets twice":     protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), slices.Concat(set, set)),
		"truncated":      one[:len(one)-1],
	} {
		if checkSpan(t, wire, []byte{3}) {
			t.Errorf("%s: found", name)
		}
	}
}

func FuzzSpan(f *testing.F) {
	f.Add(mustMarshal(f, &pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", []byte("0123"))}), []byte{3, 0, 1})
	f.Add(bytes.Repeat([]byte{0x0a, 2, 0x0a, 0}, 2), []byte{1})
	f.Fuzz(func(t *testing.T, wire, cuts []byte) { checkSpan(t, wire, cuts) })
}
