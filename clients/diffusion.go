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

// FillHoles replaces the pixels of a frame that are inside regions or a mask, or are not opaque.
func (c *Client) FillHoles(ctx context.Context, req *polyscanv1.FillHolesRequest) (*polyscanv1.FillHolesResponse, error) {
	res := &polyscanv1.FillHolesResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_FillHoles_FullMethodName, framecodec.New(req), res, frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}

// Background estimates what a frame would be without what regions or a mask cover, and what it has over that.
func (c *Client) Background(ctx context.Context, req *polyscanv1.BackgroundRequest) (*polyscanv1.BackgroundResponse, error) {
	res := &polyscanv1.BackgroundResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_Background_FullMethodName, framecodec.New(req), res, frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}
