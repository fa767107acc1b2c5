"""Calls: what the clients, sync and aio, send, and what they make of the answers. Nothing here waits for anything."""

from __future__ import annotations

import math
import warnings
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from polyscan import _errors, _frames, _regions, _results, _wire
from polyscan._connection import REACHED, Call
from polyscan._wire import Parts
from polyscan.v1 import (
    device_pb2,
    diffusion_pb2,
    frame_pb2,
    inspection_pb2,
    lowpoly_pb2,
    recipe_pb2,
    region_pb2,
    resident_pb2,
)

Array = npt.NDArray[Any]

INSPECTION = "/polyscan.v1.InspectionService/"
RECIPES = "/polyscan.v1.RecipeService/"
FRAMES = "/polyscan.v1.FrameService/"
LOWPOLY = "/polyscan.v1.LowPolyService/"
DIFFUSION = "/polyscan.v1.DiffusionService/"

FRAME_FIELD = 15  # of a frame, in all requests but ReduceRequest and StreamFramesRequest


def reduce(frame: _frames.Encoded, what: _regions.What) -> Call[_results.Result]:
    return Call(
        INSPECTION + "Reduce",
        Parts.of(_wire.field(1, what.data)) + frame.parts().inside(2),
        inspection_pb2.ReduceResponse,
        lambda m: _results.Result(m.result, frame.original, what.regions),
    )


class Mask(NamedTuple):
    """The pixels of regions. image is height x width: uint8, 255 in any region and else 0; of labels, uint16, 1 + the
    index of the last region that holds the pixel; of winding numbers, int16; of distances, float32, in pixels from the
    outline, negative outside. counts are the pixels of each region."""

    image: Array
    counts: Array


_DRAWN: dict[str, Any] = {
    "mask": inspection_pb2.RASTER_MODE_MASK, "labels": inspection_pb2.RASTER_MODE_LABELS,
    "winding": inspection_pb2.RASTER_MODE_WINDING, "distance": inspection_pb2.RASTER_MODE_DISTANCE,
}  # fmt: skip


def mask(what: _regions.What, size: tuple[int, int], labels: bool, winding: bool, distance: bool) -> Call[Mask]:
    asked = [name for name, yes in (("labels", labels), ("winding", winding), ("distance", distance)) if yes]
    if len(asked) > 1:
        raise TypeError(f"{' and '.join(asked)}: want one of them")
    drawn = asked[0] if asked else "mask"
    m = what.message()
    request = inspection_pb2.RasterizeRequest(
        width=size[0],
        height=size[1],
        mode=_DRAWN[drawn],
        method=m.method,
    )
    if m.HasField("recipe"):
        request.recipe.CopyFrom(m.recipe)
    else:
        request.region_set.CopyFrom(m.region_set)
    return Call(
        INSPECTION + "Rasterize",
        request,
        inspection_pb2.RasterizeResponse,
        lambda r: Mask(_field(_frames.picture(r.image), drawn), np.fromiter(r.counts, np.uint64, len(r.counts))),
    )


def _field(image: Array, drawn: str) -> Array:
    """What the samples of an image stand for."""
    if drawn == "winding":
        return (image.astype(np.int32) - 32768).astype(np.int16)
    if drawn == "distance":
        return (image.astype(np.float32) - 32768) / np.float32(32)
    return image


def device() -> Call[device_pb2.GetDeviceResponse]:
    return Call(REACHED, device_pb2.GetDeviceRequest(), device_pb2.GetDeviceResponse, lambda m: m)


def put_frame(frame: _frames.Encoded, idle: float | None) -> Call[_frames.Resident]:
    rest = resident_pb2.PutFrameRequest(idle_timeout=_wire.duration(idle))
    return Call(
        FRAMES + "PutFrame",
        Parts.of(rest.SerializeToString()) + frame.parts().inside(1),
        resident_pb2.PutFrameResponse,
        lambda m: _frames.Resident(m.frame.name, m.frame),
        safe=False,
    )


def get_frame(name: str, touch: bool) -> Call[resident_pb2.ResidentFrame]:
    request = resident_pb2.GetFrameRequest(name=name, touch=touch)
    return Call(FRAMES + "GetFrame", request, resident_pb2.GetFrameResponse, lambda m: m.frame)


def release_frame(name: str) -> Call[None]:
    request = resident_pb2.ReleaseFrameRequest(name=name)
    return Call(FRAMES + "ReleaseFrame", request, resident_pb2.ReleaseFrameResponse, lambda m: None, safe=False)


def frames_page(token: str) -> Call[resident_pb2.ListFramesResponse]:
    request = resident_pb2.ListFramesRequest(page_token=token)
    return Call(FRAMES + "ListFrames", request, resident_pb2.ListFramesResponse, lambda m: m)


def put_recipe(
    name: str,
    regions: _regions.Regions,
    description: str,
    reductions: region_pb2.Reductions | None,
    expected_version: int | None,
    frames: dict[str, str],
) -> Call[recipe_pb2.Recipe]:
    if not any(r.limits for r in regions.message.regions):
        what = "it gives no verdict"
        if regions.message.HasField("locate"):
            what = "a part that is not found is FAIL, and one that is found has no verdict"
        warnings.warn(f"recipe {name}: no region has limits: {what}", _errors.InputWarning, stacklevel=3)
    regions.look()
    request = recipe_pb2.PutRecipeRequest(
        recipe=_regions.to_recipe(name, regions, reductions, frames, description),
        expected_version=expected_version,
    )
    return Call(RECIPES + "PutRecipe", request, recipe_pb2.PutRecipeResponse, lambda m: m.recipe, safe=False)


def get_recipe(recipe: str) -> Call[recipe_pb2.Recipe]:
    request = recipe_pb2.GetRecipeRequest(recipe=_regions.recipe_ref(recipe))
    return Call(RECIPES + "GetRecipe", request, recipe_pb2.GetRecipeResponse, lambda m: m.recipe)


def recipes_page(prefix: str, all_versions: bool, token: str) -> Call[recipe_pb2.ListRecipesResponse]:
    request = recipe_pb2.ListRecipesRequest(name_prefix=prefix, all_versions=all_versions, page_token=token)
    return Call(RECIPES + "ListRecipes", request, recipe_pb2.ListRecipesResponse, lambda m: m)


def delete_recipe(recipe: str, all_versions: bool) -> Call[int]:
    ref = _regions.recipe_ref(recipe)
    if (ref.version == 0) != all_versions:
        raise ValueError(f"recipe {recipe!r}: want NAME@VERSION, or NAME with all_versions=True")
    request = recipe_pb2.DeleteRecipeRequest(recipe=ref)
    return Call(RECIPES + "DeleteRecipe", request, recipe_pb2.DeleteRecipeResponse, lambda m: m.deleted, safe=False)


class Mesh(NamedTuple):
    """Coloured triangles that cover a frame: points int32[n][2] of x and y, triangles uint32[m][3] of indices of
    points, colors uint8[m][4] of red, green, blue and alpha."""

    points: Array
    triangles: Array
    colors: Array

    @classmethod
    def of(cls, m: lowpoly_pb2.Mesh) -> Mesh:
        return cls(
            np.frombuffer(m.points, "<i4").reshape(-1, 2),
            np.frombuffer(m.triangles, "<u4").reshape(-1, 3),
            np.frombuffer(m.colors, np.uint8).reshape(-1, 4),
        )


class LowPoly:
    """A picture of triangles. picture is an array, mesh the triangles, svg a drawing of them; each None where it was
    not asked for. message is what the server sent."""

    def __init__(self, m: lowpoly_pb2.ConvertResponse) -> None:
        self.message = m
        self.picture = _frames.picture(m.picture) if m.HasField("picture") else None
        self.mesh = Mesh.of(m.mesh) if m.HasField("mesh") else None
        self.svg = m.svg.decode() or None
        self.backend = m.backend


def convert_options(options: Mapping[str, Any]) -> lowpoly_pb2.ConvertOptions:
    """ConvertOptions by their names in the schema; enums by the words in their values."""
    out = lowpoly_pb2.ConvertOptions()
    _fill(out, options, {
        "color": (lowpoly_pb2.TriangleColor, "TRIANGLE_COLOR_"),
        "method": (lowpoly_pb2.ShadeMethod, "SHADE_METHOD_"),
        "route": (lowpoly_pb2.TriangulateRoute, "TRIANGULATE_ROUTE_"),
        "stage": (lowpoly_pb2.ConvertStage, "CONVERT_STAGE_"),
        "voronoi": (lowpoly_pb2.VoronoiMethod, "VORONOI_METHOD_"),
    })  # fmt: skip
    return out


def _fill(message: Any, options: Mapping[str, Any], enums: Mapping[str, tuple[Any, str]]) -> None:
    known = message.DESCRIPTOR.fields_by_name
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"no option {name!r}: there are {', '.join(known)}")
        if value is None:
            continue
        if name in enums:
            value = _wire.enum_value(*enums[name], value, name)
        elif known[name].type == known[name].TYPE_BYTES:
            value = _int32(value, name)
        setattr(message, name, value)


def convert(
    frame: _frames.Encoded, options: Mapping[str, Any], mesh: bool, svg: bool, picture: bool, priority: str | None
) -> Call[LowPoly]:
    rest = lowpoly_pb2.ConvertRequest(
        work_class=_regions.work_class(priority), options=convert_options(options), mesh=mesh, svg=svg,
        no_picture=not picture,
    )  # fmt: skip
    return Call(
        LOWPOLY + "Convert",
        Parts.of(rest.SerializeToString()) + frame.parts().inside(FRAME_FIELD),
        lowpoly_pb2.ConvertResponse,
        LowPoly,
    )


class Triangulation(NamedTuple):
    """triangles are uint32[m][3] of indices of points; message is the server's summary."""

    triangles: Array
    message: lowpoly_pb2.TriangulateSummary


_PIECE = 1 << 20  # bytes of points in a message


def triangulate_requests(
    points: Any, route: str | None, priority: str | None
) -> list[lowpoly_pb2.TriangulateRequest]:
    data = _int32(points, "points")
    pieces = [data[i : i + _PIECE] for i in range(0, len(data), _PIECE)] or [b""]
    out = [lowpoly_pb2.TriangulateRequest(points=p) for p in pieces]
    out[0].route = _wire.enum_value(lowpoly_pb2.TriangulateRoute, "TRIANGULATE_ROUTE_", route, "route")
    out[0].work_class = _regions.work_class(priority)
    return out


def triangulation(answers: Iterable[lowpoly_pb2.TriangulateResponse]) -> Triangulation:
    summary = lowpoly_pb2.TriangulateSummary()
    pieces = []
    for a in answers:
        if a.HasField("summary"):
            summary = a.summary
        else:
            pieces.append(a.triangles)
    return Triangulation(np.frombuffer(b"".join(pieces), "<u4").reshape(-1, 3), summary)


def _int32(values: Any, what: str) -> bytes:
    """Pairs of whole numbers as the protocol has them."""
    a = np.asarray(_wire.unmasked(values))
    if a.size == 0:
        return b""
    if a.ndim != 2 or a.shape[1] != 2:
        raise ValueError(f"{what}: an array of {'x'.join(map(str, a.shape))}: want n x 2, pairs of x and y")
    if a.dtype.kind not in "iu" and not np.array_equal(a, np.rint(a)):
        raise ValueError(f"{what}: they are whole numbers; round them first, so that you decide how")
    if a.min() < -(1 << 31) or a.max() >= 1 << 31:
        raise ValueError(f"{what}: numbers of 32 bits; the server takes up to 2^28")
    return a.astype("<i4").tobytes()


def voronoi(sites: Any, size: tuple[int, int], method: str | None, priority: str | None) -> Call[Array]:
    width, height = size
    request = lowpoly_pb2.VoronoiRequest(
        width=width, height=height, sites=_int32(sites, "sites"), work_class=_regions.work_class(priority),
        method=_wire.enum_value(lowpoly_pb2.VoronoiMethod, "VORONOI_METHOD_", method, "method"),
    )  # fmt: skip
    return Call(
        LOWPOLY + "Voronoi",
        request,
        lowpoly_pb2.VoronoiResponse,
        lambda m: np.frombuffer(m.labels, "<u4").reshape(height, width),
    )


class Solution:
    """A picture whose pixels were solved for: an array of height x width x 3. message is what the server sent."""

    def __init__(self, m: diffusion_pb2.SolveResponse, last: bool = True) -> None:
        self.message = m
        self.last = last
        """Whether no better picture follows, of one that came while it was being solved."""
        self.picture = _frames.picture(m.picture)
        self.converged = m.converged
        self.estimate = math.nan if m.error_unknown else m.estimate
        """About how far pixels may be from the exact solution, in levels of 8 bits; NaN where nothing is known of
        it."""
        self.cycles = m.cycles
        self.backend = m.backend


def Curve(
    xy: Any,
    *,
    left: Iterable[Sequence[float]] = (),
    right: Iterable[Sequence[float]] = (),
    blur: Iterable[tuple[float, float]] = (),
    barrier: bool = False,
    id: str = "",
) -> diffusion_pb2.Curve:
    """A diffusion curve: 3n+1 control points of x and y; stops of colour along both sides, (at, red, green, blue) or
    one (red, green, blue) for all of it; stops of blur, (at, sigma)."""
    points = np.asarray(_wire.unmasked(xy), np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"xy: an array of {'x'.join(map(str, points.shape))}: want n x 2, pairs of x and y")
    return diffusion_pb2.Curve(
        id=id, xy=points.ravel().tolist(), left=color_stops(left), right=color_stops(right), barrier=barrier,
        blur=[diffusion_pb2.BlurStop(at=at, sigma=sigma) for at, sigma in blur],
    )  # fmt: skip


def color_stops(stops: Iterable[Any]) -> list[diffusion_pb2.ColorStop]:
    stops = list(stops)
    if len(stops) == 3 and not any(isinstance(s, (Sequence, np.ndarray)) for s in stops):
        stops = [(0, *stops)]
    return [diffusion_pb2.ColorStop(at=at, red=r, green=g, blue=b) for at, r, g, b in stops]


def given_pixels(pixels: Iterable[Sequence[float]]) -> list[diffusion_pb2.GivenPixel]:
    """Of (x, y, red, green, blue)."""
    out = []
    for x, y, r, g, b in pixels:
        x, y = _wire.whole((x, y), "pixel")
        out.append(diffusion_pb2.GivenPixel(x=x, y=y, red=r, green=g, blue=b))
    return out


def solve_request(
    frame: _frames.Encoded | None,
    size: tuple[int, int] | None,
    curves: Iterable[diffusion_pb2.Curve],
    pixels: Iterable[Sequence[float]],
    edges: Array | None,
    options: Mapping[str, Any],
    priority: str | None,
) -> Parts:
    request = diffusion_pb2.SolveRequest(
        work_class=_regions.work_class(priority), options=diffusion_options(options),
        edges=b"" if edges is None else np.ascontiguousarray(edges, np.uint8).tobytes(),
    )  # fmt: skip
    curves, given = list(curves), given_pixels(pixels)
    if size is not None or curves or given:
        if size is None:
            raise TypeError("curves and pixels: size is missing, (width, height) of the canvas")
        request.drawing.CopyFrom(
            diffusion_pb2.Drawing(width=size[0], height=size[1], curves=curves, pixels=given)
        )
    parts = Parts.of(request.SerializeToString())
    return parts + frame.parts().inside(FRAME_FIELD) if frame else parts


def diffusion_options(options: Mapping[str, Any]) -> diffusion_pb2.DiffusionOptions:
    out = diffusion_pb2.DiffusionOptions()
    _fill(out, options, {"method": (diffusion_pb2.DiffusionMethod, "DIFFUSION_METHOD_")})
    return out


def solve(request: Parts) -> Call[Solution]:
    return Call(DIFFUSION + "Solve", request, diffusion_pb2.SolveResponse, Solution)


class Extracted:
    """A drawing from which diffuse makes about the picture it was taken from, and that picture again: an array of
    height x width x 3. drawing has curves and pixels; message is what the server sent."""

    def __init__(self, m: diffusion_pb2.ExtractResponse) -> None:
        self.message = m
        self.drawing = m.drawing
        self.picture = _frames.picture(m.picture)
        self.psnr = m.psnr
        """How close picture comes, in decibels; it may be less than asked for."""


def extract(frame: _frames.Encoded, options: Mapping[str, Any], priority: str | None) -> Call[Extracted]:
    rest = diffusion_pb2.ExtractRequest(work_class=_regions.work_class(priority))
    _fill(rest.options, options, {})
    request = Parts.of(rest.SerializeToString()) + frame.parts().inside(FRAME_FIELD)
    return Call(DIFFUSION + "Extract", request, diffusion_pb2.ExtractResponse, Extracted)


class Filled:
    """A frame without holes. picture is an array; kept a frame that the server keeps, where that was asked for."""

    def __init__(self, m: diffusion_pb2.FillHolesResponse) -> None:
        self.message = m
        self.picture = _frames.picture(m.picture) if m.HasField("picture") else None
        self.kept = _frames.Resident(m.kept.name, m.kept) if m.HasField("kept") else None
        self.filled_pixels = m.report.filled_pixels
        self.converged = m.report.converged
        _warn_of_nothing(self.filled_pixels)


def _warn_of_nothing(filled: int) -> None:
    if filled == 0:
        warnings.warn("no pixel was to be filled: the picture is as it was", _errors.InputWarning, stacklevel=2)


class Background:
    """The background of a frame, and what the frame has over it: residual is the difference plus half of the levels."""

    def __init__(self, m: diffusion_pb2.BackgroundResponse) -> None:
        self.message = m
        self.background = _frames.picture(m.background) if m.HasField("background") else None
        self.residual = _frames.picture(m.residual) if m.HasField("residual") else None
        self.kept_background = (
            _frames.Resident(m.kept_background.name, m.kept_background) if m.HasField("kept_background") else None
        )
        self.kept_residual = (
            _frames.Resident(m.kept_residual.name, m.kept_residual) if m.HasField("kept_residual") else None
        )
        self.filled_pixels = m.report.filled_pixels
        self.converged = m.report.converged
        _warn_of_nothing(self.filled_pixels)


class Holes(NamedTuple):
    """Where a frame has holes, or something in front of its background."""

    regions: _regions.Regions | None = None
    recipe: str | None = None
    mask: Array | None = None

    def into(self, request: Any, frame: _frames.Encoded) -> None:
        if sum(v is not None for v in self) > 1:
            raise TypeError("want one of regions, recipe and mask")
        if self.regions is not None:
            request.region_set.CopyFrom(self.regions.message)
        if self.recipe is not None:
            request.recipe.CopyFrom(_regions.recipe_ref(self.recipe))
        if self.mask is not None:
            layout = frame_pb2.Frame.FromString(frame.head).layout  # empty of a file
            size = layout.height, layout.width
            if np.ndim(self.mask) != 2 or size != (0, 0) and np.shape(self.mask) != size:
                raise ValueError(f"a mask of shape {np.shape(self.mask)}: want that of the frame, height x width")
            request.mask = np.ascontiguousarray(np.asarray(_wire.unmasked(self.mask)) != 0).view(np.uint8).tobytes()


def picture_output(keep: bool, idle: float | None) -> diffusion_pb2.PictureOutput:
    if idle is not None and not keep:
        raise TypeError("idle: it is for pictures that are kept; keep is missing")
    return diffusion_pb2.PictureOutput(keep=keep, idle_timeout=_wire.duration(idle))


def fill(
    frame: _frames.Encoded, holes: Holes, keep: bool, idle: float | None, mask_method: str | None,
    options: Mapping[str, Any], priority: str | None
) -> Call[Filled]:
    rest = diffusion_pb2.FillHolesRequest(
        work_class=_regions.work_class(priority), options=diffusion_options(options),
        output=picture_output(keep, idle), mask_method=_regions.mask_method(mask_method),
    )  # fmt: skip
    holes.into(rest, frame)
    request = Parts.of(rest.SerializeToString()) + frame.parts().inside(FRAME_FIELD)
    return Call(DIFFUSION + "FillHoles", request, diffusion_pb2.FillHolesResponse, Filled, safe=not keep)


def background(
    frame: _frames.Encoded, holes: Holes, keep: bool, idle: float | None, mask_method: str | None,
    options: Mapping[str, Any], priority: str | None
) -> Call[Background]:
    output = picture_output(keep, idle)
    rest = diffusion_pb2.BackgroundRequest(
        work_class=_regions.work_class(priority), options=diffusion_options(options),
        background=output, residual=output, mask_method=_regions.mask_method(mask_method),
    )  # fmt: skip
    holes.into(rest, frame)
    request = Parts.of(rest.SerializeToString()) + frame.parts().inside(FRAME_FIELD)
    return Call(
        DIFFUSION + "Background", request, diffusion_pb2.BackgroundResponse, Background, safe=not keep
    )


def upload_requests(
    pieces: Iterable[Any] | Array, width: int, height: int, format: str, bits: int | None, id: str, idle: float | None
) -> Iterable[Parts]:
    """The messages of an upload; pieces are buffers, or all of it."""
    layout = _frames._layout(width, height, _frames._number(format), 0, bits)
    first = frame_pb2.Frame(layout=layout, encoding=frame_pb2.ENCODING_RAW, frame_id=id).SerializeToString()
    rest = resident_pb2.UploadFrameRequest(idle_timeout=_wire.duration(idle)).SerializeToString()
    for piece in [np.ascontiguousarray(_wire.unmasked(pieces))] if isinstance(pieces, np.ndarray) else pieces:
        whole = memoryview(_wire.unmasked(piece)).cast("B")
        for at in range(0, whole.nbytes, _PIECE):
            data = whole[at : at + _PIECE]
            parts = Parts([first, _wire.varint(15 << 3 | 2), _wire.varint(data.nbytes), data], 0)
            size = sum(memoryview(p).nbytes for p in parts.parts)
            yield Parts.of(rest) + Parts(parts.parts, size).inside(1)
            first, rest = b"", b""
