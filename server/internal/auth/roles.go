package auth

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Role is what a caller may do. Each may do what those before it may.
type Role uint8

const (
	NoRole Role = iota // of nobody: may do nothing
	View               // see what the server does, and recipes
	Run                // compute, and keep things for that: frames, sessions, shared memory
	Teach              // change recipes
	Admin              // see, use and release what belongs to other tenants
)

// defaultRole is that of those who are given none: all that there was before there were roles.
const defaultRole = Teach

var roleNames = []string{NoRole: "none", View: "view", Run: "run", Teach: "teach", Admin: "admin"}

func (r Role) String() string { return roleNames[r] }

func parseRole(name string) (Role, error) {
	if i := slices.Index(roleNames, name); i > int(NoRole) {
		return Role(i), nil
	}
	return NoRole, fmt.Errorf("must be one of %s", strings.Join(roleNames[View:], ", "))
}

// leastRole is the least role that may call a method. What is not here is for [Admin].
var leastRole = map[string]Role{
	// Anyone may: those who ask, load balancers and supervisors, have no token.
	healthpb.Health_Check_FullMethodName: NoRole,
	healthpb.Health_List_FullMethodName:  NoRole,
	healthpb.Health_Watch_FullMethodName: NoRole,

	pb.DeviceService_GetDevice_FullMethodName:   View,
	pb.RecipeService_GetRecipe_FullMethodName:   View,
	pb.RecipeService_ListRecipes_FullMethodName: View,
	pb.MonitorService_Watch_FullMethodName:      View,

	pb.HistoryService_GetHistory_FullMethodName:  View,
	pb.HistoryService_ListParts_FullMethodName:   View,
	pb.HistoryService_CountParts_FullMethodName:  View,
	pb.HistoryService_GetPareto_FullMethodName:   View,
	pb.HistoryService_GetSeries_FullMethodName:   View,
	pb.HistoryService_ExportParts_FullMethodName: View,
	pb.HistoryService_GetEvidence_FullMethodName: View,
	pb.HistoryService_ListAudit_FullMethodName:   View,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      View,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": View,
	"/grpc.channelz.v1.Channelz/GetChannel":                          View,
	"/grpc.channelz.v1.Channelz/GetServer":                           View,
	"/grpc.channelz.v1.Channelz/GetServerSockets":                    View,
	"/grpc.channelz.v1.Channelz/GetServers":                          View,
	"/grpc.channelz.v1.Channelz/GetSocket":                           View,
	"/grpc.channelz.v1.Channelz/GetSubchannel":                       View,
	"/grpc.channelz.v1.Channelz/GetTopChannels":                      View,

	pb.InspectionService_Reduce_FullMethodName:            Run,
	pb.InspectionService_Rasterize_FullMethodName:         Run,
	pb.InspectionService_StreamFrames_FullMethodName:      Run,
	pb.LineScanService_ScanLines_FullMethodName:           Run,
	pb.SharedMemoryService_Lease_FullMethodName:           Run,
	pb.FrameService_PutFrame_FullMethodName:               Run,
	pb.FrameService_UploadFrame_FullMethodName:            Run,
	pb.FrameService_GetFrame_FullMethodName:               Run,
	pb.FrameService_ListFrames_FullMethodName:             Run,
	pb.FrameService_ReleaseFrame_FullMethodName:           Run,
	pb.LowPolyService_Convert_FullMethodName:              Run,
	pb.LowPolyService_ConvertFrames_FullMethodName:        Run,
	pb.LowPolyService_Triangulate_FullMethodName:          Run,
	pb.LowPolyService_Voronoi_FullMethodName:              Run,
	pb.DiffusionService_Solve_FullMethodName:              Run,
	pb.DiffusionService_SolveProgressively_FullMethodName: Run,
	pb.DiffusionService_Edit_FullMethodName:               Run,
	pb.DiffusionService_FillHoles_FullMethodName:          Run,
	pb.DiffusionService_Background_FullMethodName:         Run,
	pb.DiffusionService_Extract_FullMethodName:            Run,

	pb.TeachService_Teach_FullMethodName:         Teach,
	pb.TeachService_Try_FullMethodName:           Teach,
	pb.RecipeService_PutRecipe_FullMethodName:    Teach,
	pb.RecipeService_DeleteRecipe_FullMethodName: Teach,
}

// LeastRole is the least role that may call a method, and whether the method is known.
func LeastRole(method string) (least Role, known bool) {
	if r, ok := leastRole[method]; ok {
		return r, true
	}
	return Admin, false
}

// errRole refuses a call that needs another role.
func errRole(c Caller, least Role) error {
	return apierr.WithDetails(codes.PermissionDenied,
		fmt.Sprintf("tenant %s has the role %s; this needs %s", c.Tenant, c.Role, least),
		apierr.Info(apierr.ReasonRole, "role", c.Role.String(), "needed", least.String())).Err()
}
