"""polyscan for asyncio: the same clients, methods and results as polyscan, with await.

    async with polyscan.aio.connect("localhost:7465") as client:
        result = await client.reduce("board.png", regions)
"""

from __future__ import annotations

import asyncio
import collections
import os
import time
from typing import Any, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence, TypeVar, Union

import grpc
import grpc.aio
import numpy as np
import numpy.typing as npt

from polyscan import _calls, _connection, _errors, _frames, _regions, _results, _scan, _streams, _watch, _wire
from polyscan._base import Base
from polyscan.v1 import device_pb2, diffusion_pb2, lowpoly_pb2, monitor_pb2, recipe_pb2, resident_pb2

T = TypeVar("T")
Array = npt.NDArray[Any]
FrameIterable = Union[Iterable[_frames.FrameLike], AsyncIterable[_frames.FrameLike]]


class Client(Base):
    """Calls the services of one server, from one event loop. Arguments are those of polyscan.Client.

    Use it in an async with statement; or await open() before the first call, and close() after the last.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        server: str | os.PathLike[str] | None = None,
        server_args: Sequence[str] = (),
        tls: _connection.TLS | bool | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        plain_text_token: bool = False,
        name: str = "",
        timeout: float | None = _connection.DEFAULT_TIMEOUT,
        shared_memory: bool | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        super().__init__(
            address, server=server, server_args=server_args, tls=tls, token=token, token_file=token_file, name=name,
            plain_text_token=plain_text_token, timeout=timeout, shared_memory=shared_memory, options=options,
        )  # fmt: skip
        self._methods: dict[str, Any] = {}
        self._sync: _Sync | None = None
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> grpc.aio.Channel:
        """The connection, for stubs of polyscan.v1: what has no method here is within reach."""
        self._life.check()
        if self._channel is None:
            raise RuntimeError("the client is not open: use it in an async with statement, or await open()")
        return self._channel

    def _connect(self) -> grpc.aio.Channel:
        t = self._target
        if t.tls:
            return grpc.aio.secure_channel(t.address, t.tls.credentials(), t.arguments())
        return grpc.aio.insecure_channel(t.address, t.arguments())

    async def open(self) -> Client:
        """Connect, and hold the versions of client and server against each other. Again does nothing."""
        if self._channel is not None:
            return self
        began = time.monotonic()
        while True:
            self._channel = self._connect()
            try:
                self._check(await self._once(_calls.device(), self.timeout))
                return self
            except _errors.PermissionDenied:
                return self  # this user may do other things
            except _errors.Error as e:
                await self._channel.close()
                self._methods.clear()
                try:
                    await asyncio.sleep(self._started(began, e))
                except BaseException:
                    await self.close()
                    raise

    async def close(self) -> None:
        """Close the connection, and end a server of our own. Again does nothing."""
        self._life.closed = True
        if self._channel is not None:
            await self._channel.close()
        if self._sync is not None:
            self._sync.channel.close()
        self._memory.close()
        if self._server:
            await asyncio.to_thread(self._server.close)

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<polyscan aio client of {self.address}>"

    # How calls are made.

    def _method(self, call: _connection.Call[Any]) -> Any:
        channel, found = self.channel, self._methods.get(call.method)
        if found is None:
            found = self._methods[call.method] = channel.unary_unary(
                call.method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(call.response)
            )
        return found

    async def _once(self, call: _connection.Call[T], timeout: float | None) -> T:
        try:
            answer = await self._method(call)(call.request, timeout=timeout, metadata=self._token.metadata() or None)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        return call.convert(answer)

    async def _call(self, call: _connection.Call[T], timeout: float | None) -> T:
        timeout = self.timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        retry = _connection.Retry(call.safe, deadline, time.monotonic)
        while True:
            try:
                return await self._once(call, retry.left())
            except _errors.Error as e:
                pause = retry.pause(e)
                if pause is None:
                    raise
                await asyncio.sleep(pause)

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

    # Regions and frames.

    def regions(
        self,
        source: _regions.RegionsLike,
        *,
        limits: Any = None,
        image: str = "",
        image_hint: str = "",
        tolerance: float = 0,
        ignore_viewbox: bool = False,
    ) -> _regions.Regions:
        """Regions that are used again and again, converted once: polygons, geometries of shapely, or a file (its path
        or its bytes) of polyscan, LabelMe, COCO, GeoJSON or SVG. All but polyscan's own are read by the program
        polyscan, which has to be in PATH, or where $POLYSCAN_PROGRAM says.

        image is the file name or id of one image of a COCO file, image_hint the name of the frame at hand; tolerance
        the largest distance in pixels between a curve and its polygon (1/16); ignore_viewbox takes an SVG's coordinates
        as pixels. limits replaces those of all regions, or of those that a mapping names. What the file says besides is
        in .file, and what was skipped in .warnings.
        """
        return self._regions_of(source, limits, image, image_hint, tolerance, ignore_viewbox)

    async def recipe_regions(self, recipe: str, *, timeout: float | None = None) -> _regions.Regions:
        """The regions of a recipe, to draw them or to change them."""
        return _regions.Regions((await self.get_recipe(recipe, timeout=timeout)).region_set)

    def frame(self, shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        """An array for a frame, in memory that the server reads: write to it and reduce it, as it is or a part of it,
        and nothing is copied on the way. Its content is what was there before. It must not change while a call with it
        has not been answered. Its memory comes round again when nobody has the array any more.

        Where the server has no shared memory it is an ordinary array; with shared_memory=True that is an error."""
        a = self._memory.array(tuple(shape), dtype)
        return np.empty(shape, dtype) if a is None else a

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
        format is "bgr" for arrays of OpenCV; bits says how many of the bits of a uint16 are used.

        results="failed" brings back the regions that failed, and no others. fields are what comes back of each: name,
        count, area, coverage, bounds, centroid, channels (the statistics of channels) and limits; by default all. Index
        and verdict always come, so fields=["verdict"] brings those alone.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            priority, results, fields,
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
        method: str | None = None,
        timeout: float | None = None,
    ) -> _calls.Mask:
        """The pixels of regions as an image of size (width, height), or of that of the array like."""
        what = _regions.inspection(self._given(regions), recipe, method=method)
        return await self._call(_calls.mask(what, _streams.size_of(size, like), labels), timeout)

    def stream(
        self,
        frames: FrameIterable,
        regions: _regions.RegionsLike | None = None,
        *,
        recipe: str | None = None,
        limits: Any = None,
        statistics: str | Iterable[str] | None = None,
        percentiles: Sequence[float] | None = None,
        percentile_method: str | None = None,
        histogram: bool | int | tuple[int, float, float] = False,
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

        A frame that the server refuses is an answer with an error; the stream goes on. frames may be an async iterable;
        it is read in a task of its own, at most window frames ahead of the answers. timeout is for each answer, from
        the time it is waited for.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            priority, results, fields,
        )  # fmt: skip
        kind = _streams.reducing(what)
        return self._exchange(kind, _encoded(frames, lambda f: self._encode(f, format, bits)), window, timeout)

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
            None, results, fields,
        )  # fmt: skip
        shape = _scan.strip_shape(strip_lines, width, format, dtype)
        opening = _scan.opening(
            what, shape, dtype, format, bits, part_lines, every_lines, marked, line_rate, latency_budget,
            reorder_strips, name,
        )  # fmt: skip
        if self._sync is None:
            self._sync = _Sync(self)
        return await Scan._open(
            self._sync, opening, shape, np.dtype(dtype), strips=strips, shared_memory=shared_memory, outage=outage,
            stall=stall, resume=resume, timeout=self.timeout if timeout is None else timeout,
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
        """Keep a frame on the server's device, to use it in many calls. It goes when it is released (release_frame),
        or when nobody has used it for idle seconds."""
        return await self._call(_calls.put_frame(self._encode(frame, format, bits, id), idle), timeout)

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
        requests = _calls.upload_requests(
            [np.ascontiguousarray(pieces)] if isinstance(pieces, np.ndarray) else pieces, *size, format, bits, id, idle
        )
        call = self.channel.stream_unary(
            _calls.FRAMES + "UploadFrame", response_deserializer=_wire.parser(resident_pb2.UploadFrameResponse)
        )
        try:
            metadata = self._token.metadata() or None
            answer = await call(iter(requests), timeout=timeout or self.timeout, metadata=metadata)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        return _frames.Resident(answer.frame.name, answer.frame)

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
        expected_version: int | None = None,
        timeout: float | None = None,
    ) -> recipe_pb2.Recipe:
        """Store a new version of a recipe, and return it without its regions. With expected_version the latest version
        must be that one (0: the name is new), or it is Aborted."""
        found = self._regions_of(regions, limits)
        wanted = _regions.reductions(statistics, percentiles, percentile_method, histogram)
        return await self._call(_calls.put_recipe(name, found, description, wanted, expected_version), timeout)

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
        frames: FrameIterable,
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
        return self._exchange(kind, _encoded(frames, lambda f: self._encode(f, format, bits)), window, timeout)

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
        call = self.channel.unary_stream(
            _calls.DIFFUSION + "SolveProgressively",
            request_serializer=_wire.serialize,
            response_deserializer=_wire.parser(diffusion_pb2.SolveProgressivelyResponse),
        )
        answers: Any = call(request, timeout=timeout or self.timeout, metadata=self._token.metadata() or None)
        try:
            async for a in answers:
                yield _calls.Solution(a.result, a.last)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        finally:
            answers.cancel()

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
        return Canvas(self, request, self.timeout if timeout is None else timeout)

    def _encode_travelling(self, frame: _frames.FrameLike) -> _frames.Encoded:
        """Pictures of which only some pixels are given are RGBA; a file is asked to be."""
        is_file = isinstance(frame, (bytes, bytearray, str, os.PathLike))
        return self._encode(frame, "rgba" if is_file else None)

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
        return await self._call(_calls.fill(encoded, holes, keep, idle, mask_method, options, priority), timeout)

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
        return await self._call(_calls.background(encoded, holes, keep, idle, mask_method, options, priority), timeout)

    # The server.

    async def watch(
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

        names, recipes and kinds (stream, verdict, scan, recipe, device, preview) choose; numbers (failed or all) says
        whose numbers come with verdicts; verdict_rate bounds the uneventful ones in a second. When the connection
        breaks, or the heartbeats stay away, it goes on where it was, for as long as outage seconds; what was lost is
        told in a message.
        """
        first = _watch.request(names, recipes, kinds, numbers, verdict_rate, heartbeat, preview)
        state = _watch.State(first, outage)
        while True:
            stub = self.channel.unary_stream(
                _watch.METHOD,
                request_serializer=_wire.serialize,
                response_deserializer=_wire.parser(monitor_pb2.WatchResponse),
            )
            call: Any = stub(state.request(), metadata=self._token.metadata() or None)
            try:
                while True:
                    m = await asyncio.wait_for(call.read(), max(1.0, _watch.SILENCE * heartbeat))
                    if m is grpc.aio.EOF:
                        raise _errors.Unavailable("the server has ended the watch")
                    if state.take(m):
                        yield m
            except asyncio.TimeoutError:
                pause = state.broken(_watch.silent(heartbeat))
            except grpc.RpcError as e:
                pause = state.broken(_errors.from_rpc(e))
            except _errors.Error as e:
                pause = state.broken(e)
            finally:
                call.cancel()
            await asyncio.sleep(pause)

    async def device(self, *, timeout: float | None = None) -> device_pb2.GetDeviceResponse:
        """What the server runs on, its version, its limits, its memory and its scheduler."""
        return await self._call(_calls.device(), timeout)

    async def _exchange(
        self, kind: _streams.Kind[T], frames: AsyncIterator[_frames.Encoded], window: int, timeout: float | None
    ) -> AsyncIterator[_streams.Answer[T]]:
        """Send frames and yield their answers."""
        if window < 1:
            raise ValueError(f"window {window}: must be 1 or more")
        timeout = self.timeout if timeout is None else timeout
        room = asyncio.Semaphore(window)
        pending: collections.deque[tuple[_frames.Encoded, float]] = collections.deque()
        stub = self.channel.stream_stream(
            kind.method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(kind.response)
        )
        call: Any = stub(metadata=self._token.metadata() or None)

        async def pump() -> None:
            try:
                await call.write(kind.open)
                while True:
                    await room.acquire()
                    try:
                        frame = await frames.__anext__()
                    except StopAsyncIteration:
                        break
                    pending.append((frame, time.monotonic()))
                    await call.write(kind.request(frame))
            except (grpc.RpcError, asyncio.InvalidStateError):
                return  # the call has ended; who receives gets the reason
            finally:
                if not call.done():
                    await call.done_writing()

        pumping = asyncio.create_task(pump())
        answered = 0
        try:
            while True:
                reading, wait = asyncio.ensure_future(call.read()), timeout
                while True:
                    done, _ = await asyncio.wait({reading}, timeout=wait)
                    if done:
                        break
                    try:
                        wait = _streams.patience(timeout, pending, not pumping.done(), answered)
                    except _errors.Error:
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
                        raise
                try:
                    m = reading.result()
                except grpc.RpcError as e:
                    raise _errors.from_rpc(e) from None
                if m is grpc.aio.EOF:
                    break
                yield kind.answer(m, answered, pending.popleft())
                answered += 1
                room.release()
            if pumping.done() or not pending:
                await pumping
            if await call.code() != grpc.StatusCode.OK:
                raise _errors.from_rpc(grpc.aio.AioRpcError(
                    await call.code(), await call.initial_metadata(), await call.trailing_metadata(),
                    await call.details(),
                ))  # fmt: skip
            if pending:
                raise _errors.Internal("the server ended the stream before it had answered all frames")
        finally:
            call.cancel()
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)


async def _encoded(
    frames: FrameIterable, encode: Callable[[_frames.FrameLike], _frames.Encoded]
) -> AsyncIterator[_frames.Encoded]:
    if isinstance(frames, AsyncIterable):
        async for frame in frames:
            yield encode(frame)
    else:
        for frame in frames:
            yield encode(frame)


class Canvas(_streams.Changes):
    """A canvas whose curves and pixels change, and which is solved after each change.

    Iterating yields an Edit for each picture, and for each change that can't be made; picture() waits for the one with
    all changes so far.
    """

    def __init__(self, client: Client, opening: _wire.Parts, timeout: float | None) -> None:
        super().__init__()
        self._timeout = timeout
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()
        stub = client.channel.stream_stream(
            _calls.DIFFUSION + "Edit",
            request_serializer=_wire.serialize,
            response_deserializer=_wire.parser(diffusion_pb2.EditResponse),
        )
        self._outgoing.put_nowait(opening.inside(1))
        self._call: Any = stub(self._requests(), metadata=client._token.metadata() or None)

    async def _requests(self) -> AsyncIterator[Any]:
        while True:
            request = await self._outgoing.get()
            if request is None:
                return
            yield request

    def _send(self, request: diffusion_pb2.EditRequest) -> None:
        self._outgoing.put_nowait(request)

    async def recv(self, timeout: float | None = None) -> _streams.Edit | None:
        """The next Edit; None when the canvas has ended. After a DeadlineExceeded it is over."""
        timeout = self._timeout if timeout is None else timeout
        try:
            m = await asyncio.wait_for(self._call.read(), timeout)
        except asyncio.TimeoutError:
            raise _errors.DeadlineExceeded(f"no picture for {timeout} s") from None
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        return None if m is grpc.aio.EOF else _streams.Edit.of(m)

    async def picture(self, timeout: float | None = None) -> _calls.Solution:
        """Wait for the picture with all changes so far. A change that couldn't be made is an error."""
        while True:
            edit = await self.recv(timeout)
            if edit is None:
                raise _errors.Aborted("the canvas has ended")
            if edit.error:
                raise edit.error
            if edit.solution and edit.edits >= self.edits:
                return edit.solution

    async def __aiter__(self) -> AsyncIterator[_streams.Edit]:
        while True:
            edit = await self.recv()
            if edit is None:
                return
            yield edit

    def close_send(self) -> None:
        """Say that no change follows: the last picture still comes."""
        self._outgoing.put_nowait(None)

    async def close(self) -> None:
        self._outgoing.put_nowait(None)
        self._call.cancel()

    async def __aenter__(self) -> Canvas:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Sync:
    """What a line-scan session needs of a client: its threads have a connection of their own."""

    def __init__(self, client: Client) -> None:
        self.channel = client._target.channel()
        self._target, self._token, self._memory, self.timeout = (
            client._target, client._token, client._memory, client.timeout,
        )  # fmt: skip


class Scan:
    """A line-scan session, as polyscan.Scan. Iterating yields its updates."""

    def __init__(self) -> None:
        self._updates: asyncio.Queue[Any] = asyncio.Queue()
        self._scan: _scan.Scan
        self._closing = False

    @classmethod
    async def _open(cls, client: Any, *args: Any, **options: Any) -> Scan:
        self = cls()
        loop = asyncio.get_running_loop()

        def deliver(update: Any) -> None:
            while self._updates.qsize() >= _scan._UPDATES and update is not _scan._END and not loop.is_closed():
                if self._closing:
                    return
                time.sleep(0.001)  # what isn't received holds the server up, as it should
            try:
                loop.call_soon_threadsafe(self._updates.put_nowait, update)
            except RuntimeError:
                pass  # the loop is closed, and nobody receives any more

        self._scan = await asyncio.to_thread(_scan.Scan, client, *args, deliver=deliver, **options)
        return self

    async def buffer(self, timeout: float | None = None) -> Array:
        return await asyncio.to_thread(self._scan.buffer, timeout)

    async def send(self, pixels: Array, **options: Any) -> int:
        """Hand over a strip; arguments are those of polyscan.Scan.send."""
        if self._scan.room:
            return self._scan.send(pixels, **options)  # which doesn't wait then
        return await asyncio.to_thread(lambda: self._scan.send(pixels, **options))

    def close_send(self) -> None:
        self._scan.close_send()

    async def recv(self, timeout: float | None = None) -> _scan.Update | None:
        """The next update; None after close_send and the last one."""
        try:
            got = await asyncio.wait_for(self._updates.get(), timeout)
        except asyncio.TimeoutError:
            raise _errors.DeadlineExceeded(f"no update for {timeout} s") from None
        if got is _scan._END:
            self._updates.put_nowait(got)
            if self._scan._error is not None:
                raise self._scan._error
            return None
        update: _scan.Update = got
        return update

    async def __aiter__(self) -> AsyncIterator[_scan.Update]:
        while True:
            update = await self.recv()
            if update is None:
                return
            yield update

    @property
    def session(self) -> _scan.Session:
        return self._scan.session

    @property
    def stats(self) -> _scan.Stats:
        return self._scan.stats

    async def close(self) -> None:
        self._closing = True
        await asyncio.to_thread(self._scan.close)

    async def __aenter__(self) -> Scan:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


connect = Client
__all__ = ["Canvas", "Client", "Scan", "connect"]
