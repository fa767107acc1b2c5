package clients

// The history: what parts came to, kept by the server beyond its process.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/grpc"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Parts yields the parts that a request asks for, page after page, the newest first unless the request says otherwise.
// Parts that are written meanwhile change nothing of what comes. An error comes last.
func (c *Client) Parts(ctx context.Context,
	req *polyscanv1.ListPartsRequest) iter.Seq2[*polyscanv1.HistoryPart, error] {
	return func(yield func(*polyscanv1.HistoryPart, error) bool) {
		page := &polyscanv1.ListPartsRequest{Filter: req.GetFilter(), PageSize: req.GetPageSize(),
			PageToken: req.GetPageToken(), Numbers: req.GetNumbers(), OldestFirst: req.GetOldestFirst()}
		for {
			res, err := c.History.ListParts(ctx, page)
			if err != nil {
				yield(nil, wrap(err))
				return
			}
			for _, p := range res.GetParts() {
				if !yield(p, nil) {
					return
				}
			}
			if page.PageToken = res.GetNextPageToken(); page.PageToken == "" {
				return
			}
		}
	}
}

// CountParts counts parts by their verdicts.
func (c *Client) CountParts(ctx context.Context, req *polyscanv1.CountPartsRequest) (*polyscanv1.CountPartsResponse,
	error) {
	res, err := c.History.CountParts(ctx, req)
	return res, wrap(err)
}

// Pareto counts how often each region failed, the most frequent first.
func (c *Client) Pareto(ctx context.Context, req *polyscanv1.GetParetoRequest) (*polyscanv1.GetParetoResponse, error) {
	res, err := c.History.GetPareto(ctx, req)
	return res, wrap(err)
}

// Series returns a number of a region over time, with its control chart.
func (c *Client) Series(ctx context.Context, req *polyscanv1.GetSeriesRequest) (*polyscanv1.GetSeriesResponse, error) {
	res, err := c.History.GetSeries(ctx, req)
	return res, wrap(err)
}

// Audit yields who changed which recipe, the newest change first. An empty recipe means all. An error comes last.
func (c *Client) Audit(ctx context.Context, recipe string) iter.Seq2[*polyscanv1.AuditEntry, error] {
	return func(yield func(*polyscanv1.AuditEntry, error) bool) {
		req := &polyscanv1.ListAuditRequest{Recipe: recipe}
		for {
			res, err := c.History.ListAudit(ctx, req)
			if err != nil {
				yield(nil, wrap(err))
				return
			}
			for _, e := range res.GetEntries() {
				if !yield(e, nil) {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// ExportParts writes a file of parts to w, and returns how many bytes there were. A file is whole when the error is
// nil.
func (c *Client) ExportParts(ctx context.Context, req *polyscanv1.ExportPartsRequest, w io.Writer) (int64, error) {
	return receive(ctx, w, func(ctx context.Context) (grpc.ServerStreamingClient[polyscanv1.ExportPartsResponse], error) {
		return c.History.ExportParts(ctx, req)
	}, func(*polyscanv1.ExportPartsResponse) {})
}

// Evidence writes the picture of a part to w, and returns what it is.
func (c *Client) Evidence(ctx context.Context, req *polyscanv1.GetEvidenceRequest,
	w io.Writer) (*polyscanv1.EvidenceInfo, error) {
	var info *polyscanv1.EvidenceInfo
	n, err := receive(ctx, w, func(ctx context.Context) (grpc.ServerStreamingClient[polyscanv1.GetEvidenceResponse],
		error) {
		return c.History.GetEvidence(ctx, req)
	}, func(m *polyscanv1.GetEvidenceResponse) {
		if m.GetInfo() != nil {
			info = m.GetInfo()
		}
	})
	if err == nil && uint64(n) != info.GetBytes() {
		err = fmt.Errorf("clients: the picture of part %d has %d bytes, and %d came", req.GetId(), info.GetBytes(), n)
	}
	return info, err
}

// receive writes the pieces of a file.
func receive[R any, P interface {
	*R
	GetData() []byte
}](ctx context.Context, w io.Writer, call func(context.Context) (grpc.ServerStreamingClient[R], error),
	look func(P)) (n int64,
	err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := call(ctx)
	if err != nil {
		return 0, wrap(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, wrap(err)
		}
		look(m)
		k, err := w.Write(P(m).GetData())
		if n += int64(k); err != nil {
			return n, err
		}
	}
}
