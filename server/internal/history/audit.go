// The audit log.

package history

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// ListAudit implements pb.HistoryServiceServer. A caller sees changes of its own, and those of its recipes by others.
func (s *Service) ListAudit(ctx context.Context, req *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	who, err := s.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	f := filter{}
	sum := sha256.Sum256([]byte("audit " + req.GetRecipe()))
	copy(f.hash[:], sum[:])
	where, args := []string{"1"}, []any{}
	if !who.all {
		where, args = append(where, "(tenant = ? OR owner = ?)"), append(args, who.tenant, who.tenant)
	}
	if r := req.GetRecipe(); r != "" {
		where, args = append(where, "recipe = ?"), append(args, r)
	}
	if t := req.GetPageToken(); t != "" {
		after, err := parseToken(t, f.hash, false)
		if err != nil {
			return nil, err
		}
		where, args = append(where, "id < ?"), append(args, after.id)
	}
	size := wire.PageSize(req.GetPageSize())
	rows, err := s.db.reader().QueryContext(ctx, `SELECT id, at, tenant, peer, action, recipe, version, before, changes FROM audit
		WHERE `+strings.Join(where, " AND ")+fmt.Sprintf(" ORDER BY id DESC LIMIT %d", size+1), args...)
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	defer rows.Close()
	res := &pb.ListAuditResponse{}
	bytes := 0
	for rows.Next() {
		m := &pb.AuditEntry{}
		var id, at, version, before int64
		var action int32
		var changes string
		if err := rows.Scan(&id, &at, &m.Tenant, &m.Peer, &action, &m.Recipe, &version, &before, &changes); err != nil {
			return nil, s.unreadable(ctx, errors.Join(err, rows.Close()))
		}
		if bytes += len(changes); len(res.Entries) == size || bytes > pageBytes && len(res.Entries) > 0 {
			last := res.Entries[len(res.Entries)-1]
			res.NextPageToken = token(place{0, int64(last.GetId())}, f.hash, false)
			break
		}
		m.Id, m.At, m.Action = uint64(id), timestamppb.New(time.UnixMicro(at)), pb.AuditAction(action)
		m.Version, m.VersionBefore = uint64(version), uint64(before)
		if changes != "" {
			m.Changes = strings.Split(changes, "\n")
		}
		res.Entries = append(res.Entries, m)
	}
	if err := rows.Err(); err != nil {
		return nil, s.unreadable(ctx, err)
	}
	return res, nil
}
