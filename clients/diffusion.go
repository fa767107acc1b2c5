package clients

// Diffusion.

import (
	"context"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Solve makes a picture of a frame of which some pixels are given.
func (c *Client) Solve(ctx context.Context, req *polyscanv1.SolveRequest) (*polyscanv1.SolveResponse, error) {
	in := framecodec.New(req)
	res := &polyscanv1.SolveResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_Solve_FullMethodName, in, res, frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}
