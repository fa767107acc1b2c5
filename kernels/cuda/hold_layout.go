//lint:file-ignore U1000 launched under the tag cuda

package cuda

// holdParams are those of hold.cu, which takes the picture before for Src and leaves all scratch memory alone.
type holdParams struct {
	V           shading
	Changed     uint64
	Limit, Jump uint32
}

var (
	holdCheck     = listKernel[holdParams]("hold", "hold_check")
	holdTriangles = listKernel[holdParams]("hold", "hold_triangles")
)
