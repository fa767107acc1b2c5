"""The methods of the clients: what they send and what they make of the answers.

This is the one of asyncio; generate.py makes that of the other client, _methods.py, by leaving out what waits. Calls
and streams themselves are the clients' own: aio.py and _client.py.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterable, Mapping, Sequence, TypeVar, cast

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from polyscan import (
    _calls, _connection, _errors, _frames, _history, _regions, _results, _scan, _streams, _teach, _watch, _wire,
)  # fmt: skip
from polyscan._base import Base
from polyscan._streams import AsyncFrames, AsyncLabelledFrames
from polyscan.v1 import (
    device_pb2, diffusion_pb2, history_pb2, lowpoly_pb2, monitor_pb2, recipe_pb2, resident_pb2, scan_pb2, teach_pb2,
)  # fmt: skip

if TYPE_CHECKING:
    from polyscan.aio import Canvas, Scan

T = TypeVar("T")
Array = npt.NDArray[Any]


class Methods(Base):
    # What the clients do each in its way.

    @property
    def channel(self) -> Any:
        raise NotImplementedError

    async def _call(self, call: _connection.Call[T], timeout: float | None) -> T:
        raise NotImplementedError

    def _exchange(
        self, kind: _streams.Kind[T], frames: AsyncFrames, format: str | None, bits: int | None, window: int,
        timeout: float | None,
    ) -> AsyncIterator[_streams.Answer[T]]:
        """Send frames and yield their answers."""
        raise NotImplementedError

    async def _collect(
        self, method: str, response: type[Message], opening: _wire.Request | None, items: Any,
        encode: Callable[[Any], _wire.Request], timeout: float | None,
    ) -> Any:
        """Send a message for each item, and wait for the one answer."""
        raise NotImplementedError

    async def _open_scan(
        self, opening: scan_pb2.ScanOpen, shape: tuple[int, ...], dtype: np.dtype[Any], **options: Any
    ) -> Scan:
        raise NotImplementedError

    def _canvas(self, opening: _wire.Parts, timeout: float | None) -> Canvas:
        raise NotImplementedError

    def _watched(self, state: _watch.State, heartbeat: float) -> AsyncIterator[monitor_pb2.WatchResponse]:
        raise NotImplementedError

    def _keep(self, frame: _frames.Resident) -> _frames.Resident:
        """A frame that the server keeps for the user, with a way to release it where there is one."""
        raise NotImplementedError

    async def _pages(
        self, call: Callable[[str], _connection.Call[Any]], items: Callable[[Any], Iterable[T]], timeout: float | None
    ) -> AsyncIterator[T]:
        token = ""
        while True:
            page = await self._call(call(token), timeout)
            for item in items(page):
                yield item
            token = page.next_page_token
            if not token:
                return

    async def _answers(
        self, method: str, request: _wire.Request, response: type[Message], timeout: float | None
    ) -> AsyncIterator[Any]:
        """The answers to one request."""
        call = self.channel.unary_stream(
            method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(response)
        )
        timeout = self._seconds(timeout)
        answers: Any = call(request, timeout=timeout, metadata=self._token.metadata() or None)
        try:
            async for answer in answers:
                yield answer
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        finally:
            answers.cancel()

    # Regions.

    async def recipe_regions(self, recipe: str, *, timeout: float | None = None) -> _regions.Regions:
        """The regions of a recipe, to draw them or to change them."""
        found = await self.get_recipe(recipe, timeout=timeout)
        return _regions.of_recipe(found)

    # Inspection.

    async def reduce(
        self,
        frame: _frames.FrameLike,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        limits: Any = None,
        statistics: str | Iterable[str] | None = None,
        percentiles: Sequence[float] | None = None,
        percentile_method: str | None = None,
        histogram: bool | int | tuple[int, float, float] = False,
        texture: bool | Sequence[tuple[int, int]] | _regions.Texture = False,
        colors: _regions.Colors = None,
        correlate: str | Iterable[str] = (),
        golden: str | _frames.Resident | Mapping[str, str | _frames.Resident] | None = None,
        results: str | None = None,
        fields: Iterable[str] | None = None,
        method: str | None = None,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        id: str = "",
        part_id: str = "",
        timeout: float | None = None,
    ) -> _results.Result:
        """The exact numbers of regions over one frame, and verdicts where there are limits.

        statistics are names such as "mean" and "median", or "all"; by default count, sum, sum_of_squares, mean,
        variance, stddev, min and max. histogram is True for one bin a value, a number of bins, or (bins, lower, upper).
        texture asks for contrast, homogeneity, energy, correlation, texture_entropy and texture_pairs of pairs of pixels:
        offsets (dx, dy) of the second from the first, True for four neighbours, or polyscan.Texture for levels and counts.
        colors are channels to derive from colours: "gray" (BT.601), "gray709", "hsv", "lab", a matrix of 3 x 3 that red,
        green and blue are multiplied by, or several of these; or from neighbouring pixels: "gradient", "laplacian".
        correlate asks for correlation_pairs, mean_product, covariance and coefficient of pairs of pixels, as limits spell
        them: "autocorrelation(8,0)", "radial(32)" for all distances up to 32, 'ncc of "golden" at (0,0)' for a frame that the
        server keeps, which golden says, "ncc of the frame before" in streams, "channels".
        format is "bgr" for arrays of OpenCV; bits says how many of the bits of a uint16 are used.

        results="failed" brings back the regions that failed, and no others. fields are what comes back of each: name,
        count, area, coverage, bounds, centroid, channels (the statistics of channels) and limits; by default all. Index
        and verdict always come, so fields=["verdict"] brings those alone.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            priority, results, fields, texture, colors, correlate, golden,
        )  # fmt: skip
        return await self._call(_calls.reduce(self._encode(frame, format, bits, id, part_id), what), timeout)

    async def mask(
        self,
        regions: _regions.RegionsLike | None = None,
        size: tuple[int, int] | None = None,
        *,
        recipe: str | None = None,
        like: Array | None = None,
        labels: bool = False,
        winding: bool = False,
        distance: bool = False,
        method: str | None = None,
        timeout: float | None = None,
    ) -> _calls.Mask:
        """The pixels of regions as an image of size (width, height), or of that of the array like: where they are, or
        their labels, the winding numbers of their rings, or how far pixels are from their outline."""
        what = _regions.inspection(self._given(regions), recipe, method=method)
        return await self._call(_calls.mask(what, _streams.size_of(size, like), labels, winding, distance), timeout)

    def stream(
        self,
        frames: AsyncFrames,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        limits: Any = None,
        statistics: str | Iterable[str] | None = None,
        percentiles: Sequence[float] | None = None,
        percentile_method: str | None = None,
        histogram: bool | int | tuple[int, float, float] = False,
        texture: bool | Sequence[tuple[int, int]] | _regions.Texture = False,
        colors: _regions.Colors = None,
        correlate: str | Iterable[str] = (),
        golden: str | _frames.Resident | Mapping[str, str | _frames.Resident] | None = None,
        results: str | None = None,
        fields: Iterable[str] | None = None,
        method: str | None = None,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        window: int = 4,
        timeout: float | None = None,
    ) -> AsyncIterator[_streams.Answer[_results.Result]]:
        """Reduce frame after frame over one call, and yield the answers in order.

        A frame that can't be used is an answer with an error; the stream goes on. So is a frame of another size or
        format than the first one that was judged, since the same limits would look at other pixels. frames is read at most window
        frames ahead of the answers: in a thread of its own, and with asyncio, where it may be an async iterable, in a
        task. timeout is for each answer, from the time it is waited for.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            priority, results, fields, texture, colors, correlate, golden,
        )  # fmt: skip
        kind = _streams.reducing(what)
        return self._exchange(kind, frames, format, bits, window, timeout)

    async def scan(
        self,
        regions: _regions.RegionsLike | None = None,
        *,
        width: int,
        part_lines: int,
        strip_lines: int,
        every_lines: int | None = None,
        marked: bool = False,
        dtype: Any = np.uint8,
        format: str | None = None,
        bits: int | None = None,
        recipe: str | None = None,
        limits: Any = None,
        statistics: str | Iterable[str] | None = None,
        percentiles: Sequence[float] | None = None,
        percentile_method: str | None = None,
        histogram: bool | int | tuple[int, float, float] = False,
        colors: _regions.Colors = None,
        results: str | None = None,
        fields: Iterable[str] | None = None,
        method: str | None = None,
        line_rate: float = 0,
        latency_budget: float | None = None,
        reorder_strips: int = 0,
        name: str = "",
        strips: int = 0,
        shared_memory: bool | None = None,
        outage: float | None = None,
        stall: float = 10.0,
        resume: _scan.Session | None = None,
        timeout: float | None = None,
    ) -> Scan:
        """A line-scan session: strips of lines out, the numbers of each part back, over connections that may break.

        Lines are width pixels of dtype and format; a strip has strip_lines at most, a part part_lines, and one starts
        every every_lines lines (by default part_lines), or with marked where strips say so. strips bounds how many are
        under way; outage is how long a broken connection is tried anew (by default as long as the server keeps the
        session), stall how long the server may be silent while it owes an answer. resume goes on with the session of an
        earlier scan.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            None, results, fields, False, colors,
        )  # fmt: skip
        shape = _scan.strip_shape(strip_lines, width, format, dtype)
        opening = _scan.opening(
            what, shape, width, dtype, format, bits, part_lines, every_lines, marked, line_rate, latency_budget,
            reorder_strips, name,
        )  # fmt: skip
        return await self._open_scan(
            opening, shape, np.dtype(dtype), strips=strips, shared_memory=shared_memory, outage=outage,
            stall=stall, resume=resume, timeout=self._seconds(timeout),
        )  # fmt: skip

    # Frames that the server keeps.

    async def put_frame(
        self,
        frame: _frames.FrameLike,
        *,
        idle: float | None = None,
        format: str | None = None,
        bits: int | None = None,
        id: str = "",
        timeout: float | None = None,
    ) -> _frames.Resident:
        """Keep a frame on the server's device, to use it in many calls. It goes when it is released (by release_frame,
        or without asyncio at the end of a with statement), or when nobody has used it for idle seconds."""
        return self._keep(await self._call(_calls.put_frame(self._encode(frame, format, bits, id), idle), timeout))

    async def upload_frame(
        self,
        pieces: Iterable[Any] | Array,
        size: tuple[int, int],
        format: str = "gray",
        *,
        bits: int | None = None,
        id: str = "",
        idle: float | None = None,
        timeout: float | None = None,
    ) -> _frames.Resident:
        """Keep a frame of any size, of which only a piece is in memory at a time: buffers of raw pixels, cut
        anywhere."""
        requests = _calls.upload_requests(pieces, *size, format, bits, id, idle)
        answer = await self._collect(
            _calls.FRAMES + "UploadFrame", resident_pb2.UploadFrameResponse, None, requests, lambda r: r, timeout
        )
        return self._keep(_frames.Resident(answer.frame.name, answer.frame))

    async def get_frame(
        self, frame: str | _frames.Resident, *, touch: bool = False, timeout: float | None = None
    ) -> resident_pb2.ResidentFrame:
        """Describe a frame that the server keeps. touch counts as a use, which postpones its end."""
        return await self._call(_calls.get_frame(_streams.name_of(frame), touch), timeout)

    def frames(self, *, timeout: float | None = None) -> AsyncIterator[resident_pb2.ResidentFrame]:
        """The frames that the server keeps, ordered by name."""
        return self._pages(_calls.frames_page, lambda page: page.frames, timeout)

    async def release_frame(self, frame: str | _frames.Resident, *, timeout: float | None = None) -> None:
        await self._call(_calls.release_frame(_streams.name_of(frame)), timeout)

    # Recipes.

    async def put_recipe(
        self,
        name: str,
        regions: _regions.RegionsLike,
        *,
        limits: Any = None,
        description: str = "",
        statistics: str | Iterable[str] | None = None,
        percentiles: Sequence[float] | None = None,
        percentile_method: str | None = None,
        histogram: bool | int | tuple[int, float, float] = False,
        texture: bool | Sequence[tuple[int, int]] | _regions.Texture = False,
        colors: _regions.Colors = None,
        correlate: str | Iterable[str] = (),
        golden: str | _frames.Resident | Mapping[str, str | _frames.Resident] | None = None,
        expected_version: int | None = None,
        timeout: float | None = None,
    ) -> recipe_pb2.Recipe:
        """Store a new version of a recipe, and return it without its regions. Regions that are a recipe, such as
        taught.recipe, bring along its flat field and, where none are given, its description, reductions and frames.
        With expected_version the latest version must be that one (0: the name is new), or it is Aborted."""
        found = self._regions_of(regions, limits)
        wanted = _regions.reductions(statistics, percentiles, percentile_method, histogram, texture, colors, correlate)
        wanted, frames = _regions.asked(found, wanted, golden)
        for key, kept in sorted(frames.items()):
            try:
                await self.get_frame(kept, timeout=timeout)
            except (_errors.NotFound, _errors.InvalidArgument):
                text = f"recipe {name}: frame {key!r}: {kept!r} is no resident frame: it judges nothing until there is one"
                warnings.warn(text, _errors.InputWarning, stacklevel=2)
            except _errors.Error:
                pass  # which the recipe meets, too, or a token that may not ask
        return await self._call(_calls.put_recipe(name, found, description, wanted, expected_version, frames), timeout)

    async def get_recipe(self, recipe: str, *, timeout: float | None = None) -> recipe_pb2.Recipe:
        """A recipe by NAME, its latest version, or NAME@VERSION."""
        return await self._call(_calls.get_recipe(recipe), timeout)

    def recipes(
        self, prefix: str = "", *, all_versions: bool = False, timeout: float | None = None
    ) -> AsyncIterator[recipe_pb2.RecipeSummary]:
        """The recipes whose names start with prefix: the latest version of each, or all."""
        return self._pages(lambda t: _calls.recipes_page(prefix, all_versions, t), lambda p: p.recipes, timeout)

    async def delete_recipe(self, recipe: str, *, all_versions: bool = False, timeout: float | None = None) -> int:
        """Remove NAME@VERSION, or all versions of NAME, and return how many went."""
        return await self._call(_calls.delete_recipe(recipe, all_versions), timeout)

    async def teach(
        self,
        frames: AsyncLabelledFrames,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        limits: Any = None,
        quantities: Iterable[str] = (),
        sigma: float | None = None,
        quantile: tuple[float, float] | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
    ) -> teach_pb2.TeachResponse:
        """Learn limits from frames of good parts. frames are read one after the other; each is a frame, or a pair of
        one and "good" or "bad". timeout is for all of them.

        quantities are what limits are to be about, such as "mean" and "p99" (mean, stddev, min and max). Limits are
        sigma standard deviations from the mean (4), or beyond quantile: a percentage of the good frames on either side,
        and a share of the distance between them in percent. Nothing is stored: put_recipe takes the recipe of the
        answer, which says besides how each frame would be judged.
        """
        opening = _teach.teaching(self._limited(regions, limits), recipe, quantities, sigma, quantile)
        method, encode = _teach.SERVICE + "Teach", self._labelled(format, bits)
        answer = await self._collect(method, teach_pb2.TeachResponse, opening, frames, encode, timeout)
        return cast(teach_pb2.TeachResponse, answer)

    async def try_recipe(
        self,
        frames: AsyncLabelledFrames,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        limits: Any = None,
        beside: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
    ) -> teach_pb2.TryResponse:
        """Judge frames by regions with limits, or by a recipe, that aren't used yet, and by the recipe beside, if any.
        frames and timeout are those of teach."""
        opening = _teach.trying(self._limited(regions, limits), recipe, beside)
        method, encode = _teach.SERVICE + "Try", self._labelled(format, bits)
        answer = await self._collect(method, teach_pb2.TryResponse, opening, frames, encode, timeout)
        return cast(teach_pb2.TryResponse, answer)

    # Low-poly.

    async def lowpoly(
        self,
        frame: _frames.FrameLike,
        *,
        mesh: bool = True,
        svg: bool = False,
        picture: bool = True,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> _calls.LowPoly:
        """A picture of triangles. options are those of ConvertOptions in the schema, such as vertices, seed and
        stage."""
        encoded = self._encode(frame, format, bits)
        return await self._call(_calls.convert(encoded, options, mesh, svg, picture, priority), timeout)

    def lowpoly_stream(
        self,
        frames: AsyncFrames,
        *,
        mesh: bool = False,
        svg: bool = False,
        picture: bool = True,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        window: int = 4,
        timeout: float | None = None,
        **options: Any,
    ) -> AsyncIterator[_streams.Answer[_calls.LowPoly]]:
        """The frames of a video as pictures of triangles that don't flicker; otherwise as stream."""
        kind = _streams.converting(options, mesh, svg, picture, priority)
        return self._exchange(kind, frames, format, bits, window, timeout)

    async def triangulate(
        self, points: Any, *, route: str | None = None, priority: str | None = None, timeout: float | None = None
    ) -> _calls.Triangulation:
        """The Delaunay triangulation of points, n x 2 whole numbers up to 2^28. It is exact, and unique."""
        requests = _calls.triangulate_requests(points, route, priority)
        call = self.channel.stream_stream(
            _calls.LOWPOLY + "Triangulate",
            request_serializer=_wire.serialize,
            response_deserializer=_wire.parser(lowpoly_pb2.TriangulateResponse),
        )
        try:
            metadata = self._token.metadata() or None
            answers = call(iter(requests), timeout=timeout or self.timeout, metadata=metadata)
            return _calls.triangulation([a async for a in answers])
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None

    async def voronoi(
        self,
        sites: Any,
        size: tuple[int, int],
        *,
        method: str | None = None,
        priority: str | None = None,
        timeout: float | None = None,
    ) -> Array:
        """uint32[height][width]: the index of the site that is nearest to each pixel of an image of (width, height)."""
        return await self._call(_calls.voronoi(sites, size, method, priority), timeout)

    # Diffusion.

    async def diffuse(
        self,
        curves: Iterable[diffusion_pb2.Curve] = (),
        *,
        size: tuple[int, int] | None = None,
        pixels: Iterable[Sequence[float]] = (),
        frame: _frames.FrameLike | None = None,
        edges: Array | None = None,
        priority: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> _calls.Solution:
        """The picture that curves (see Curve), pixels (x, y, red, green, blue) and the opaque pixels of an RGBA frame
        amount to: each other pixel is the mean of its neighbours. size is (width, height) of the canvas, edges uint8 of
        height x width as SolveRequest has them; options are those of DiffusionOptions in the
        schema, such as tolerance, max_cycles and method."""
        encoded = None if frame is None else self._encode_travelling(frame)
        return await self._call(
            _calls.solve(_calls.solve_request(encoded, size, curves, pixels, edges, options, priority)), timeout
        )

    async def diffuse_progressively(
        self,
        curves: Iterable[diffusion_pb2.Curve] = (),
        *,
        size: tuple[int, int] | None = None,
        pixels: Iterable[Sequence[float]] = (),
        frame: _frames.FrameLike | None = None,
        edges: Array | None = None,
        priority: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> AsyncIterator[_calls.Solution]:
        """The same, with the pictures on the way. The last one has last set."""
        encoded = None if frame is None else self._encode_travelling(frame)
        request = _calls.solve_request(encoded, size, curves, pixels, edges, options, priority).inside(1)
        response = diffusion_pb2.SolveProgressivelyResponse
        async for a in self._answers(_calls.DIFFUSION + "SolveProgressively", request, response, timeout):
            yield _calls.Solution(a.result, a.last)

    def edit(
        self,
        curves: Iterable[diffusion_pb2.Curve] = (),
        *,
        size: tuple[int, int] | None = None,
        pixels: Iterable[Sequence[float]] = (),
        frame: _frames.FrameLike | None = None,
        edges: Array | None = None,
        priority: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Canvas:
        """A canvas whose curves and pixels change, and which is solved after each change. Close it after use."""
        encoded = None if frame is None else self._encode_travelling(frame)
        request = _calls.solve_request(encoded, size, curves, pixels, edges, options, priority)
        return self._canvas(request, self._seconds(timeout))

    async def extract(
        self,
        frame: _frames.FrameLike,
        *,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> _calls.Extracted:
        """A drawing from which diffuse makes about the same picture: edges become curves with the colours on both of
        their sides. options are those of ExtractOptions in the schema, such as threshold, levels and psnr. It takes as
        long as some forty calls of diffuse."""
        return await self._call(_calls.extract(self._encode(frame, format, bits), options, priority), timeout)

    async def fill(
        self,
        frame: _frames.FrameLike,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        mask: Array | None = None,
        mask_method: str | None = None,
        keep: bool = False,
        idle: float | None = None,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> _calls.Filled:
        """A frame whose pixels inside regions, or where mask isn't 0, or that are not opaque, are filled from around
        them. keep keeps the picture on the server's device, until nobody has used it for idle seconds. mask_method
        finds the pixels of regions; options are those of DiffusionOptions in the schema, such as tolerance, max_cycles
        and method."""
        holes = _calls.Holes(self._given(regions), recipe, mask)
        encoded = self._encode(frame, format, bits)
        filled = await self._call(_calls.fill(encoded, holes, keep, idle, mask_method, options, priority), timeout)
        if filled.kept:
            self._keep(filled.kept)
        return filled

    async def background(
        self,
        frame: _frames.FrameLike,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        mask: Array | None = None,
        mask_method: str | None = None,
        keep: bool = False,
        idle: float | None = None,
        priority: str | None = None,
        format: str | None = None,
        bits: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> _calls.Background:
        """The background of a frame, with what is inside regions or mask replaced, and the difference.
        keep, idle, mask_method and options are those of fill."""
        holes = _calls.Holes(self._given(regions), recipe, mask)
        encoded = self._encode(frame, format, bits)
        found = await self._call(_calls.background(encoded, holes, keep, idle, mask_method, options, priority), timeout)
        for kept in (found.kept_background, found.kept_residual):
            if kept:
                self._keep(kept)
        return found

    # The server.

    def watch(
        self,
        *,
        names: Iterable[str] = (),
        recipes: Iterable[str] = (),
        kinds: Iterable[str] = (),
        numbers: str | None = None,
        verdict_rate: float = 0,
        heartbeat: float = 1.0,
        preview: monitor_pb2.PreviewOptions | bool = False,
        outage: float = 30.0,
    ) -> AsyncIterator[monitor_pb2.WatchResponse]:
        """What the server does, as WatchResponse messages: its state first, then verdicts, streams that open and close,
        gaps, recipes, and the device.

        names, recipes and kinds (stream, verdict, scan, recipe, device, preview, call, history) choose; numbers (failed
        or all) says whose numbers come with verdicts; verdict_rate bounds the uneventful ones in a second. When the
        connection breaks, or the heartbeats stay away, it goes on where it was, for as long as outage seconds; what was
        lost is told in a message.
        """
        first = _watch.request(names, recipes, kinds, numbers, verdict_rate, heartbeat, preview)
        return self._watched(_watch.State(first, outage), heartbeat)

    async def history(self, *, timeout: float | None = None) -> history_pb2.GetHistoryResponse:
        """What the server keeps of parts that were inspected, and what it could not keep."""
        return await self._call(_history.history(), timeout)

    def parts(
        self, *, numbers: str | None = None, oldest_first: bool = False, timeout: float | None = None, **where: Any
    ) -> AsyncIterator[history_pb2.HistoryPart]:
        """Parts that were inspected, the newest first. numbers (failed or all) says whose numbers come with them.

        Names, recipes and a region that the history doesn't know are an error. where chooses parts: since and until are datetimes (without a zone: local time), names (which may end in "*"),
        recipes, verdicts ("pass", "fail", "none") and marks ("late", "incomplete", "error", "evidence") are lists,
        region is the name of one that failed, recipe_version, part_id, and stream is (server_id, stream_id) or
        (server_id, stream_id, result_number).
        """
        chosen = _history.part_filter(where)
        return self._known_parts(chosen, self._pages(
            lambda token: _history.parts_page(chosen, numbers, oldest_first, token), lambda page: page.parts, timeout
        ), timeout)  # fmt: skip

    async def _known_parts(
        self, asked: history_pb2.PartFilter, parts: AsyncIterator[history_pb2.HistoryPart], timeout: float | None
    ) -> AsyncIterator[history_pb2.HistoryPart]:
        if _history.several(asked):
            await self._check_known(asked, "", timeout)
        some = False
        async for part in parts:
            some = True
            yield part
        if not some:
            await self._check_known(asked, asked.region, timeout)

    async def _ask_history(
        self, call: _connection.Call[T], asked: history_pb2.PartFilter, region: str, some: Callable[[T], Any],
        timeout: float | None,
    ) -> T:
        if _history.several(asked):
            await self._check_known(asked, "", timeout)
        answer = await self._call(call, timeout)
        if not some(answer):
            await self._check_known(asked, region, timeout)
        return answer

    async def _check_known(self, asked: history_pb2.PartFilter, region: str, timeout: float | None) -> None:
        """Refuse names and recipes that no part of the history has, and a region that the newest of their parts don't
        have: where nothing is found, or several are asked for, whoever asked may have misspelt them."""
        for group in ("name", "recipe"):
            if _history.words(asked, group):
                counted = await self._call(_history.count(history_pb2.PartFilter(), group, None), timeout)
                _history.check_words(asked, group, counted.groups)
        if region:
            among = history_pb2.PartFilter(
                names=asked.names, recipes=asked.recipes, recipe_version=asked.recipe_version
            )
            page = await self._call(_history.parts_page(among, "all", False, "", _history.NEWEST), timeout)
            _history.check_region(region, page.parts)

    async def count_parts(
        self, *, group: str | None = None, step: float | None = None, timeout: float | None = None, **where: Any
    ) -> history_pb2.CountPartsResponse:
        """Count parts by their verdicts: all, by group ("name" or "recipe"), and by steps of so many seconds, which are
        whole minutes. where is that of parts."""
        chosen = _history.part_filter(where)
        call = _history.count(chosen, group, step)
        return await self._ask_history(call, chosen, chosen.region, lambda m: m.total.parts, timeout)

    async def pareto(
        self, *, limit: int = 0, timeout: float | None = None, **where: Any
    ) -> history_pb2.GetParetoResponse:
        """How often each region failed, the most frequent first, limit of them (20). where is that of parts."""
        chosen = _history.part_filter(where)
        return await self._ask_history(
            _history.pareto(chosen, limit), chosen, chosen.region, lambda m: m.failures, timeout
        )

    async def series(
        self,
        of: str,
        quantity: str,
        *,
        limit: int = 0,
        chart: str | None = None,
        subgroup: int = 0,
        spec: tuple[float | None, float | None] = (None, None),
        timeout: float | None = None,
        **where: Any,
    ) -> history_pb2.GetSeriesResponse:
        """A quantity, such as "mean", of the region of a name over time, the newest limit values (500), with control
        limits and capability: chart is "individuals" or "xbar-r" with a subgroup of so many values (5), spec the lower
        and upper limit of the specification. where is that of parts."""
        chosen = _history.part_filter(where)
        call = _history.series(chosen, of, quantity, limit, chart, subgroup, spec)
        return await self._ask_history(call, chosen, of, lambda m: m.points, timeout)

    async def export_parts(
        self, *, format: str = "csv", rows: str = "parts", timeout: float | None = None, **where: Any
    ) -> AsyncIterator[bytes]:
        """A file of parts in pieces, the oldest part first: format is "csv" or "parquet", and a row is one of the parts
        or of the regions, where a part without numbers has one that says why. where is that of parts."""
        chosen = _history.part_filter(where)
        request = _history.export(chosen, format, rows)
        await self._check_known(chosen, "", timeout)
        response = history_pb2.ExportPartsResponse
        async for piece in self._answers(_history.SERVICE + "ExportParts", request, response, timeout):
            yield piece.data

    async def evidence(
        self,
        part: int | history_pb2.HistoryPart,
        kind: str = "frame",
        *,
        max_pixels: int = 0,
        timeout: float | None = None,
    ) -> _history.Evidence:
        """The picture of a part, or of the one of an id: kind is "frame" (PNG), "overlay" (SVG of the regions) or
        "preview" (JPEG of at most max_pixels)."""
        request = _history.evidence(part, kind, max_pixels)
        response = history_pb2.GetEvidenceResponse
        answers = self._answers(_history.SERVICE + "GetEvidence", request, response, timeout)
        return _history.picture([piece async for piece in answers])

    async def audit(self, recipe: str = "", *, timeout: float | None = None) -> AsyncIterator[history_pb2.AuditEntry]:
        """Who changed recipes, or the one of a name, the newest change first."""
        some = False
        async for entry in self._pages(lambda t: _history.audit_page(recipe, t), lambda page: page.entries, timeout):
            some = True
            yield entry
        if recipe and not some:
            await self.get_recipe(recipe, timeout=timeout)  # which is an error where there is none

    async def device(self, *, timeout: float | None = None) -> device_pb2.GetDeviceResponse:
        """What the server runs on, its version, its limits, its memory and its scheduler."""
        return await self._call(_calls.device(), timeout)

