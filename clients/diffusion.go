package clients

// Diffusion.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/grpc"

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

// solveProgressively describes the call to grpc.
var solveProgressively = &grpc.StreamDesc{StreamName: "SolveProgressively", ServerStreams: true}

// SolveProgressively is [Client.Solve] with the pictures on the way, from coarse to fine, as far as the loop keeps up:
// the server leaves out those that would have to wait. The one with Last is what Solve returns, and ends the loop. An
// error comes last, beside a nil response. Breaking out of the loop ends the call.
func (c *Client) SolveProgressively(ctx context.Context,
	req *polyscanv1.SolveRequest) iter.Seq2[*polyscanv1.SolveProgressivelyResponse, error] {
	return func(yield func(*polyscanv1.SolveProgressivelyResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rpc, err := c.cc.NewStream(ctx, solveProgressively,
			polyscanv1.DiffusionService_SolveProgressively_FullMethodName, frames)
		if err == nil {
			err = rpc.SendMsg(framecodec.New(&polyscanv1.SolveProgressivelyRequest{Request: req}))
		}
		if err == nil || errors.Is(err, io.EOF) { // RecvMsg has the reason
			err = rpc.CloseSend()
		}
		for err == nil {
			res := &polyscanv1.SolveProgressivelyResponse{}
			if err = rpc.RecvMsg(res); err == nil && (!yield(res, nil) || res.GetLast()) {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("clients: SolveProgressively: the server ended without the last picture: %w",
				io.ErrUnexpectedEOF)
		}
		yield(nil, wrap(err))
	}
}

// FillHoles replaces the pixels of a frame that are inside regions or a mask, or are not opaque.
func (c *Client) FillHoles(ctx context.Context, req *polyscanv1.FillHolesRequest) (*polyscanv1.FillHolesResponse,
	error) {
	res := &polyscanv1.FillHolesResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_FillHoles_FullMethodName, framecodec.New(req), res,
		frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}

// Background estimates what a frame would be without what regions or a mask cover, and what it has over that.
func (c *Client) Background(ctx context.Context, req *polyscanv1.BackgroundRequest) (*polyscanv1.BackgroundResponse,
	error) {
	res := &polyscanv1.BackgroundResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_Background_FullMethodName, framecodec.New(req), res,
		frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}

// Extract turns a picture into curves and pixels from which Solve makes about the same.
func (c *Client) Extract(ctx context.Context, req *polyscanv1.ExtractRequest) (*polyscanv1.ExtractResponse, error) {
	res := &polyscanv1.ExtractResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.DiffusionService_Extract_FullMethodName, framecodec.New(req), res,
		frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}
