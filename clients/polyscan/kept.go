package main

// Frames that a server keeps in its history, for commands that take many frames.

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// keptFlags choose frames of the history.
type keptFlags struct {
	// Frames of the history with this name of a camera or station; one that ends in * stands for all that begin so.
	Kept string `placeholder:"NAME" group:"frame"`
	// The newest N of them at most.
	Last int `default:"100" placeholder:"N" group:"frame" needs:"kept"`
}

// sampleFlags choose frames of parts, and the regions that they are judged by.
type sampleFlags struct {
	// Frames that the server keeps, by the names that frames put printed.
	Resident []string `name:"frame" sep:"none" placeholder:"NAME" group:"frame"`

	keptFlags

	regionFlags
	// Regions and limits stored on the server, instead of --regions.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe|beside" without:"addr"`
	frameFlags
	flatFlags
}

func (o *sampleFlags) check(s *serverFlags) error {
	if err := o.frameFlags.check(); err != nil {
		return err
	}
	if err := checkResident(o.Resident, s); err != nil {
		return err
	}
	if o.Flat != "" && o.Recipe != "" {
		return usage("--flat: frames are corrected by what the recipe of --recipe has")
	}
	return o.keptFlags.check(s)
}

// draft is the recipe that regions of a file come to, which isn't stored.
func (o *sampleFlags) draft(e *env, r *regions) (*polyscanv1.Recipe, error) {
	flat, err := o.field(e, r)
	r.asked = true
	return &polyscanv1.Recipe{Name: "draft", RegionSet: r.set(), Reductions: r.reductions, Frames: r.file.Frames,
		FlatField: flat}, err
}

func (o *keptFlags) check(s *serverFlags) error {
	switch {
	case o.Kept != "" && s.Addr == "":
		return usage("--kept %s: a server keeps the history: say --addr ADDR", o.Kept)
	case o.Last < 1 || o.Last > 100_000:
		return usage("--last %d: must be 1 to 100000", o.Last)
	}
	return nil
}

// find lists parts with pictures, the oldest first: of all verdicts, or of those that passed. It warns of parts among
// them that have no picture, or with --strict returns that as an error; done says what they are left out of.
func (o *sampleFlags) find(e *env, conn *connection, done string, passed bool) ([]*polyscanv1.HistoryPart, error) {
	if o.Kept == "" {
		return nil, nil
	}
	f := &polyscanv1.PartFilter{Names: []string{o.Kept}}
	parts := "parts"
	if passed {
		f.Verdicts, parts = []polyscanv1.Verdict{polyscanv1.Verdict_VERDICT_PASS}, "parts that passed"
	}
	// Parts that come meanwhile are neither listed nor counted.
	newest, err := o.list(conn, f, 1)
	if err != nil {
		return nil, err
	}
	if len(newest) > 0 {
		f.To = timestamppb.New(newest[0].GetAt().AsTime().Add(time.Microsecond))
	}
	f.Marks = []polyscanv1.PartMark{polyscanv1.PartMark_PART_MARK_EVIDENCE}
	found, err := o.list(conn, f, o.Last)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, usage("--kept %s: the history has no part of this name with a picture", o.Kept)
	}
	f.Marks = nil
	if len(found) == o.Last { // where there are fewer, all are among the newest that were asked for
		f.From = found[len(found)-1].GetAt()
	}
	count, err := conn.CountParts(conn.ctx, &polyscanv1.CountPartsRequest{Filter: f})
	if err != nil {
		return nil, conn.fail(err, "", nil)
	}
	if all := count.GetTotal().GetParts(); all > uint64(len(found)) {
		text := fmt.Sprintf("--kept %s: %d of the newest %d %s have no picture and were not %s", cli.Printable(o.Kept),
			all-uint64(len(found)), all, parts, done)
		if o.Strict {
			return nil, usage("%s (--strict)", text)
		}
		e.warn("%s", text)
	}
	slices.Reverse(found)
	return found, nil
}

// list lists the newest n parts, the newest first.
func (o *sampleFlags) list(conn *connection, f *polyscanv1.PartFilter, n int) ([]*polyscanv1.HistoryPart, error) {
	var parts []*polyscanv1.HistoryPart
	for p, err := range conn.Parts(conn.ctx, &polyscanv1.ListPartsRequest{PageSize: uint32(min(n, 1000)), Filter: f}) {
		if err != nil {
			return nil, conn.fail(err, "", nil)
		}
		if parts = append(parts, p); len(parts) == n {
			break
		}
	}
	return parts, nil
}

// read fetches the pictures of parts one after the other, in front of other frames.
func (o *keptFlags) read(conn *connection, parts []*polyscanv1.HistoryPart, bits int,
	others iter.Seq2[clients.Labeled, error]) iter.Seq2[clients.Labeled, error] {
	return func(yield func(clients.Labeled, error) bool) {
		for _, p := range parts {
			var b bytes.Buffer
			if _, err := conn.Evidence(conn.ctx, &polyscanv1.GetEvidenceRequest{Id: p.GetId()}, &b); err != nil {
				yield(clients.Labeled{}, conn.fail(err, "", nil))
				return
			}
			m := clients.Encoded(b.Bytes())
			if bits != 0 {
				m.Layout = &polyscanv1.FrameLayout{SignificantBits: uint32(bits)}
			}
			m.PartId, m.FrameId = p.GetPartId(), p.GetPartId()
			if m.FrameId == "" {
				m.FrameId = fmt.Sprintf("part %d", p.GetId())
			}
			if !yield(clients.Labeled{Frame: m}, nil) {
				return
			}
		}
		others(yield)
	}
}
