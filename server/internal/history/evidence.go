// Pictures: files beside the database, of parts that failed and of some others, and how they are read.

package history

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"html"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/hostwork"
)

const (
	// evidenceDir is the folder of pictures. It has a folder for each day, by UTC.
	evidenceDir = "evidence"
	// A picture is two files of one name: the pixels, and the regions over them.
	frameSuffix   = ".png"
	overlaySuffix = ".svg"
	// writingSuffix marks files that are being written. Those found at the start were left by a crash.
	writingSuffix = ".writing"
)

// picture waits to be encoded.
type picture struct {
	*events.Picture
	stream *events.Stream
	number uint64
	partID string
	part   *partRef // of a call; nil where number says which part it is of
	at     time.Time
	result *polygon.Result
}

// savedPicture is one whose files are there, and whose part is to be told of them.
type savedPicture struct {
	*picture
	file           string // without suffix, below the folder of pictures
	width, height  int
	bytes, overlay int64
	missing        int
	unknown        bool // its part is not in the database
}

// encode makes files of pictures, one after the other, until no more come.
func (s *Service) encode() {
	ctx := kernels.WithClass(s.ctx, kernels.Batch)
	for p := range s.pictures {
		saved, err := s.save(ctx, p)
		p.Release()
		s.state.queuedPictures.Add(-1)
		if err != nil {
			s.Missed()
			s.Log.Warn("a picture can't be written to the history", "error", err)
			continue
		}
		p.Picture.Data = nil
		e := entry{saved: saved, bytes: entryBytes}
		if s.queue.used.Add(e.bytes); !s.queue.put(e) {
			s.unsave(saved)
		}
	}
}

// unsave removes a picture whose part is not there.
func (s *Service) unsave(p *savedPicture) {
	for _, suffix := range []string{frameSuffix, overlaySuffix} {
		os.Remove(filepath.Join(s.Dir, evidenceDir, p.file+suffix))
	}
	s.Missed()
}

// save writes the files of a picture.
func (s *Service) save(ctx context.Context, p *picture) (_ *savedPicture, err error) {
	defer hostwork.Recovered(&err, s.Metrics.Panics)
	data, err := s.PNG(ctx, p.Image())
	if err != nil {
		return nil, err
	}
	out := &savedPicture{picture: p, width: p.Width, height: p.Height, bytes: int64(len(data)), missing: p.MissingLines}
	day := p.at.UTC().Format("2006-01-02")
	dir := filepath.Join(s.Dir, evidenceDir, day)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	stem := p.at.UTC().Format("150405.000000") + fileName(p.stream.Name) + fileName(p.partID)
	if p.partID == "" && p.stream.ID != 0 {
		stem += fmt.Sprintf("-%d-%d", p.stream.ID, p.number)
	}
	name := stem
	for i := 2; ; i++ {
		if _, err := os.Lstat(filepath.Join(dir, name+frameSuffix)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return nil, err
		}
		name = fmt.Sprintf("%s-%d", stem, i)
	}
	out.file = day + "/" + name
	over := overlay(p, name+frameSuffix)
	out.overlay = int64(len(over))
	path := filepath.Join(dir, name)
	if err := writeFile(path+frameSuffix, data); err != nil {
		return nil, err
	}
	if err := writeFile(path+overlaySuffix, over); err != nil {
		os.Remove(path + frameSuffix)
		return nil, err
	}
	return out, nil
}

// fileName is a name or id as part of a file's name.
func fileName(text string) string {
	if text == "" {
		return ""
	}
	return "-" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '+':
			return r
		}
		return '_'
	}, text[:min(len(text), 64)])
}

// writeFile writes a file beside its place and renames it, so that a crash leaves all of it or none.
func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path+writingSuffix, data, 0o644); err != nil {
		os.Remove(path + writingSuffix)
		return err
	}
	return os.Rename(path+writingSuffix, path)
}

// Colours of the overlay, which those tell apart who see no red or green; failed regions are dashed as well.
const (
	passColour = "#0072b2"
	failColour = "#d55e00"
	noneColour = "#999999"
)

// overlay draws the regions of a part by verdict, in pixels of the frame, over the file of the frame.
func overlay(p *picture, frame string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		p.Width, p.Height, p.Width, p.Height)
	fmt.Fprintf(&b, `<image href="%s" width="%d" height="%d"/>`+"\n", html.EscapeString(frame), p.Width, p.Height)
	stroke := max(1, float64(min(p.Width, p.Height))/400)
	if r := p.result.AsRows(); r != nil {
		for i := range r.Regions {
			drawRegion(&b, p.stream, &r.Regions[i], r.Pose, stroke)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func drawRegion(b *bytes.Buffer, s *events.Stream, r *polygon.RegionResult, pose *polygon.Pose, stroke float64) {
	colour, dash := noneColour, ""
	switch r.Verdict {
	case polygon.Pass:
		colour = passColour
	case polygon.Fail:
		colour, dash = failColour, fmt.Sprintf(` stroke-dasharray="%g %g"`, 4*stroke, 2*stroke)
	}
	b.WriteString(`<path d="`)
	for _, ring := range s.Outline(r, pose) {
		xy := ring.GetXy()
		for k := 0; k+1 < len(xy); k += 2 {
			b.WriteString(map[bool]string{true: "M", false: "L"}[k == 0])
			b.WriteString(strconv.FormatFloat(xy[k], 'g', 8, 64))
			b.WriteByte(' ')
			b.WriteString(strconv.FormatFloat(xy[k+1], 'g', 8, 64))
		}
		b.WriteByte('Z')
	}
	fmt.Fprintf(b, `" fill="none" stroke="%s" stroke-width="%g"%s><title>%s</title></path>`+"\n", colour, stroke, dash,
		html.EscapeString(RegionLabel(r.Name, uint32(r.Index))+" "+strings.ToUpper(pb.Verdict(r.Verdict).String()[8:])))
}

// picture tells a part of its picture.
func (b *batch) picture(p *savedPicture) error {
	id := int64(0)
	if p.part != nil {
		id = p.part.id
	} else {
		s, err := b.statement("SELECT id FROM parts WHERE stream = (SELECT id FROM streams WHERE server = ? AND stream = ?) " +
			"AND number = ?")
		if err != nil {
			return err
		}
		err = s.QueryRow(b.Server, int64(p.stream.ID), int64(p.number)).Scan(&id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	if p.unknown = id == 0; p.unknown {
		return nil
	}
	_, err := b.exec(`INSERT OR REPLACE INTO pictures(part, file, width, height, bytes, overlay, missing)
		VALUES(?, ?, ?, ?, ?, ?, ?)`, id, p.file, p.width, p.height, p.bytes, p.overlay, p.missing)
	if err != nil {
		return err
	}
	_, err = b.exec("UPDATE parts SET marks = marks | 8 WHERE id = ?", id)
	return err
}

// sweep removes files that belong to no part: of a process that ended between the files and the row.
func (w *writer) sweep() error {
	root := filepath.Join(w.Dir, evidenceDir)
	removed := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		stem, isFrame := strings.CutSuffix(name, frameSuffix)
		if !isFrame {
			var isOverlay bool
			if stem, isOverlay = strings.CutSuffix(name, overlaySuffix); !isOverlay && !strings.HasSuffix(name, writingSuffix) {
				return nil // somebody else's
			}
		}
		var known bool
		if err := w.db.write.QueryRow("SELECT EXISTS(SELECT 1 FROM pictures WHERE file = ?)",
			stem).Scan(&known); err != nil || known {
			return err
		}
		removed++
		return os.Remove(path)
	})
	if removed > 0 {
		w.Log.Info("pictures of the history that no part has were removed", "files", removed)
	}
	return err
}

const (
	// evidenceChunk is how much of a file a message has.
	evidenceChunk = 256 << 10
	// defaultPreviewPixels are those of a preview whose size nobody said.
	defaultPreviewPixels = 1 << 16
)

// GetEvidence implements pb.HistoryServiceServer.
func (s *Service) GetEvidence(req *pb.GetEvidenceRequest, stream pb.HistoryService_GetEvidenceServer) error {
	ctx := stream.Context()
	who, err := s.ask(ctx, req)
	if err != nil {
		return err
	}
	var file string
	info := &pb.EvidenceInfo{Scale: 1}
	err = s.db.reader().QueryRowContext(ctx, `SELECT x.file, x.width, x.height, x.missing FROM pictures x JOIN parts ON id = x.part
		WHERE x.part = ? AND `+who.where("parts.tenant"), int64(req.GetId())).Scan(&file, &info.Width, &info.Height, &info.MissingLines)
	if errors.Is(err, sql.ErrNoRows) {
		return s.noEvidence(ctx, req.GetId(), who)
	} else if err != nil {
		return s.unreadable(ctx, err)
	}
	path := filepath.Join(s.Dir, evidenceDir, filepath.FromSlash(file))
	var data []byte
	switch req.GetKind() {
	case pb.EvidenceKind_EVIDENCE_KIND_OVERLAY:
		info.MediaType = "image/svg+xml"
		if data, err = os.ReadFile(path + overlaySuffix); err == nil {
			data = withoutImage(data)
		}
	case pb.EvidenceKind_EVIDENCE_KIND_PREVIEW:
		info.MediaType = "image/jpeg"
		data, err = preview(path+frameSuffix, int(req.GetMaxPixels()), info)
	default:
		info.MediaType = "image/png"
		return s.sendFile(stream, path+frameSuffix, info, req.GetId())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.NotFound, "the picture of part %d is gone", req.GetId())
	} else if err != nil {
		return s.unreadable(ctx, err)
	}
	info.Bytes = uint64(len(data))
	return sendData(stream, info, bytes.NewReader(data))
}

func (s *Service) noEvidence(ctx context.Context, id uint64, who asker) error {
	var known bool
	err := s.db.reader().QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM parts WHERE id = ? AND "+
		who.where("parts.tenant")+")", int64(id)).Scan(&known)
	if err != nil {
		return s.unreadable(ctx, err)
	}
	if known {
		return status.Errorf(codes.NotFound, "part %d has no picture", id)
	}
	return status.Errorf(codes.NotFound, "there is no part %d", id)
}

func (s *Service) sendFile(stream pb.HistoryService_GetEvidenceServer, path string, info *pb.EvidenceInfo,
	id uint64) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.NotFound, "the picture of part %d is gone", id)
	} else if err != nil {
		return s.unreadable(stream.Context(), err)
	}
	defer f.Close()
	if at, err := f.Stat(); err != nil {
		return s.unreadable(stream.Context(), err)
	} else {
		info.Bytes = uint64(at.Size())
	}
	return sendData(stream, info, f)
}

func sendData(stream pb.HistoryService_GetEvidenceServer, info *pb.EvidenceInfo,
	from interface{ Read([]byte) (int, error) }) error {
	r := bufio.NewReaderSize(from, evidenceChunk)
	for first := true; ; first = false {
		chunk := make([]byte, evidenceChunk)
		n := 0
		var err error
		for n < len(chunk) && err == nil {
			var k int
			k, err = r.Read(chunk[n:])
			n += k
		}
		if n == 0 && !first {
			return nil
		}
		m := &pb.GetEvidenceResponse{Data: chunk[:n]}
		if first {
			m.Info = info
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// withoutImage is an overlay over nothing.
func withoutImage(svg []byte) []byte {
	from := bytes.Index(svg, []byte("<image "))
	if from < 0 {
		return svg
	}
	to := bytes.IndexByte(svg[from:], '\n')
	if to < 0 {
		return svg
	}
	return append(svg[:from:from], svg[from+to+1:]...)
}

// preview is a smaller picture of a file: every n-th pixel of every n-th row.
func preview(path string, pixels int, info *pb.EvidenceInfo) ([]byte, error) {
	if pixels == 0 {
		pixels = defaultPreviewPixels
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	im, err := png.Decode(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, err
	}
	size := im.Bounds().Size()
	step := max(1, int(math.Sqrt(float64(size.X)*float64(size.Y)/float64(pixels))))
	steps := func(n int) int { return (n + step - 1) / step }
	for steps(size.X)*steps(size.Y) > pixels && step < max(size.X, size.Y) {
		step++
	}
	out := image.NewRGBA(image.Rect(0, 0, steps(size.X), steps(size.Y)))
	wide, is16 := im.(*image.Gray16)
	shift := 8
	if is16 { // cameras of 10 and 12 bits have theirs below
		most := byte(0)
		for i := 0; i < len(wide.Pix); i += 2 {
			most |= wide.Pix[i]
		}
		for shift = 0; most > 0; most >>= 1 {
			shift++
		}
	}
	for y := range out.Rect.Max.Y {
		for x := range out.Rect.Max.X {
			from := image.Pt(min(x*step+step/2, size.X-1), min(y*step+step/2, size.Y-1)).Add(im.Bounds().Min)
			if is16 {
				v := byte(wide.Gray16At(from.X, from.Y).Y >> shift)
				copy(out.Pix[out.PixOffset(x, y):], []byte{v, v, v, 255})
				continue
			}
			out.Set(x, y, im.At(from.X, from.Y))
		}
	}
	info.Width, info.Height, info.Scale = uint32(out.Rect.Max.X), uint32(out.Rect.Max.Y), float64(step)
	var b bytes.Buffer
	err = jpeg.Encode(&b, out, &jpeg.Options{Quality: 80})
	return b.Bytes(), err
}
