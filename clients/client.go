package clients

// The client: a connection and the calls over it.

import (
	"context"
	"io"
	"iter"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Client calls the services of one server. Its errors are of type [*Error] where the server or the connection made
// them.
type Client struct {
	// The generated stubs, for what has no method here.
	Inspection polyscanv1.InspectionServiceClient
	Recipe     polyscanv1.RecipeServiceClient
	Device     polyscanv1.DeviceServiceClient
	Frame      polyscanv1.FrameServiceClient
	LowPoly    polyscanv1.LowPolyServiceClient
	Diffusion  polyscanv1.DiffusionServiceClient
	Monitor    polyscanv1.MonitorServiceClient
	History    polyscanv1.HistoryServiceClient

	cc     grpc.ClientConnInterface
	closer io.Closer
}

// frames is how messages that carry a frame are sent: their pixels go out from where they are.
var frames = grpc.ForceCodecV2(framecodec.Codec())

// New makes a client over a connection that the caller made and closes. [DialOptions] are what makes a connection fit
// large frames.
func New(cc grpc.ClientConnInterface) *Client {
	return &Client{
		Inspection: polyscanv1.NewInspectionServiceClient(cc),
		Recipe:     polyscanv1.NewRecipeServiceClient(cc),
		Device:     polyscanv1.NewDeviceServiceClient(cc),
		Frame:      polyscanv1.NewFrameServiceClient(cc),
		LowPoly:    polyscanv1.NewLowPolyServiceClient(cc),
		Diffusion:  polyscanv1.NewDiffusionServiceClient(cc),
		Monitor:    polyscanv1.NewMonitorServiceClient(cc),
		History:    polyscanv1.NewHistoryServiceClient(cc),
		cc:         cc,
	}
}

// Close closes the connection that [Dial] made. Calls in flight end with an error.
func (c *Client) Close() error {
	if c.closer == nil {
		return nil
	}
	return c.closer.Close()
}

// Reduce computes the statistics of regions over one frame. See the package comment for who owns the pixels.
func (c *Client) Reduce(ctx context.Context, in *polyscanv1.Inspection,
	frame *polyscanv1.Frame) (*polyscanv1.FrameResult, error) {
	req := framecodec.New(&polyscanv1.ReduceRequest{Inspection: in, Frame: frame})
	res := &polyscanv1.ReduceResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.InspectionService_Reduce_FullMethodName, req, res, frames); err != nil {
		return nil, wrap(err)
	}
	return res.GetResult(), nil
}

// Rasterize returns the pixels of regions as an image.
func (c *Client) Rasterize(ctx context.Context, req *polyscanv1.RasterizeRequest) (*polyscanv1.RasterizeResponse,
	error) {
	res, err := c.Inspection.Rasterize(ctx, req)
	return res, wrap(err)
}

// PutRecipe stores a new version of a recipe and returns it as stored, without its regions. With expected set, the put
// is refused with ABORTED unless the latest version is that one (0: the name is new).
func (c *Client) PutRecipe(ctx context.Context, r *polyscanv1.Recipe, expected *uint64) (*polyscanv1.Recipe, error) {
	res, err := c.Recipe.PutRecipe(ctx, &polyscanv1.PutRecipeRequest{Recipe: r, ExpectedVersion: expected})
	return res.GetRecipe(), wrap(err)
}

// GetRecipe returns a version of a recipe; 0 is the latest.
func (c *Client) GetRecipe(ctx context.Context, name string, version uint64) (*polyscanv1.Recipe, error) {
	ref := &polyscanv1.RecipeRef{Name: name, Version: version}
	res, err := c.Recipe.GetRecipe(ctx, &polyscanv1.GetRecipeRequest{Recipe: ref})
	return res.GetRecipe(), wrap(err)
}

// Recipes lists the recipes whose names start with prefix, ordered by name and version: the latest version of each, or
// all. It asks the server page by page; an error ends it.
func (c *Client) Recipes(ctx context.Context, prefix string, all bool) iter.Seq2[*polyscanv1.RecipeSummary, error] {
	return func(yield func(*polyscanv1.RecipeSummary, error) bool) {
		req := &polyscanv1.ListRecipesRequest{NamePrefix: prefix, AllVersions: all}
		for {
			res, err := c.Recipe.ListRecipes(ctx, req)
			if err != nil {
				yield(nil, wrap(err))
				return
			}
			for _, r := range res.GetRecipes() {
				if !yield(r, nil) {
					return
				}
			}
			if res.GetNextPageToken() == "" {
				return
			}
			req.PageToken = res.GetNextPageToken()
		}
	}
}

// DeleteRecipe removes a version of a recipe, or all of them with version 0, and returns how many went.
func (c *Client) DeleteRecipe(ctx context.Context, name string, version uint64) (int, error) {
	ref := &polyscanv1.RecipeRef{Name: name, Version: version}
	res, err := c.Recipe.DeleteRecipe(ctx, &polyscanv1.DeleteRecipeRequest{Recipe: ref})
	return int(res.GetDeleted()), wrap(err)
}

// GetDevice says what the server runs on, and its limits.
func (c *Client) GetDevice(ctx context.Context) (*polyscanv1.GetDeviceResponse, error) {
	res, err := c.Device.GetDevice(ctx, &polyscanv1.GetDeviceRequest{})
	return res, wrap(err)
}
