"""The client."""

from __future__ import annotations

import os
import queue
import time
from typing import Any, Callable, Iterable, Iterator, Sequence, TypeVar

import grpc
import numpy as np
import numpy.typing as npt

from polyscan import _calls, _connection, _errors, _frames, _regions, _results, _scan, _streams, _watch, _wire
from polyscan._base import Base
from polyscan.v1 import device_pb2, diffusion_pb2, lowpoly_pb2, monitor_pb2, recipe_pb2, resident_pb2

T = TypeVar("T")
Array = npt.NDArray[Any]


class Client(Base):
    """Calls the services of one server. Methods may be called from several threads.

    address is host:port, host (port 7465) or unix:/path. Without one, polyscand is started as a process of its own,
    which ends with the client; server names the program, and server_args are settings for it. tls encrypts: True with
    the certificates of the system, or TLS(...). token or token_file is sent with each call, over TLS or to this host
    only, unless plain_text_token allows more. name is that of the camera or station,
    which whoever watches the server sees. timeout is for each call that has none of its own. shared_memory says whether
    frames go through memory that the server maps: by default where the server is on this host and has some. options are
    those of gRPC's channels.

    Close it after use, or use it in a with statement.
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
        self._channel: grpc.Channel = self._target.channel()
        try:
            self._check(self._first_answer())
        except BaseException:
            self.close()
            raise

    @property
    def channel(self) -> grpc.Channel:
        """The connection, for stubs of polyscan.v1: what has no method here is within reach."""
        self._life.check()
        return self._channel

    def _first_answer(self) -> device_pb2.GetDeviceResponse:
        """What the server says about itself. Of a server of our own it waits for the start."""
        began = time.monotonic()
        while True:
            try:
                return self._once(_calls.device(), self.timeout)
            except _errors.PermissionDenied:
                return device_pb2.GetDeviceResponse()  # this user may do other things
            except _errors.Error as e:
                time.sleep(self._started(began, e))
                self._channel.close()  # it would wait before it tries to connect again
                self._methods.clear()
                self._channel = self._target.channel()

    def close(self) -> None:
        """Close the connection, and end a server of our own. Calls in flight end with an error. Again does nothing."""
        self._memory.close()
        self._channel.close()
        if self._server:
            self._server.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<polyscan client of {self.address}>"

    # How calls are made.

    def _method(self, call: _connection.Call[Any]) -> Any:
        channel, found = self.channel, self._methods.get(call.method)
        if found is None:
            found = self._methods[call.method] = channel.unary_unary(
                call.method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(call.response)
            )
        return found

    def _once(self, call: _connection.Call[T], timeout: float | None) -> T:
        try:
            answer = self._method(call)(call.request, timeout=timeout, metadata=self._token.metadata() or None)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        return call.convert(answer)

    def _call(self, call: _connection.Call[T], timeout: float | None) -> T:
        timeout = self.timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        retry = _connection.Retry(call.safe, deadline, time.monotonic)
        while True:
            try:
                return self._once(call, retry.left())
            except _errors.Error as e:
                pause = retry.pause(e)
                if pause is None:
                    raise
                with _connection.reconnecting(self.channel, self._token.metadata()):
                    time.sleep(pause)

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

    def recipe_regions(self, recipe: str, *, timeout: float | None = None) -> _regions.Regions:
        """The regions of a recipe, to draw them or to change them."""
        return _regions.Regions(self.get_recipe(recipe, timeout=timeout).region_set)

    def frame(self, shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        """An array for a frame, in memory that the server reads: write to it and reduce it, as it is or a part of it,
        and nothing is copied on the way. Its content is what was there before. It must not change while a call with it
        has not been answered. Its memory comes round again when nobody has the array any more.

        Where the server has no shared memory it is an ordinary array; with shared_memory=True that is an error."""
        a = self._memory.array(tuple(shape), dtype)
        return np.empty(shape, dtype) if a is None else a

    # Inspection.

    def reduce(
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
        return self._call(_calls.reduce(self._encode(frame, format, bits, id, part_id), what), timeout)

    def mask(
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
        return self._call(_calls.mask(what, _streams.size_of(size, like), labels), timeout)

    def stream(
        self,
        frames: Iterable[_frames.FrameLike],
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
    ) -> Iterator[_streams.Answer[_results.Result]]:
        """Reduce frame after frame over one call, and yield the answers in order.

        A frame that the server refuses is an answer with an error; the stream goes on. frames is read in a thread of
        its own, at most window frames ahead of the answers. timeout is for each answer, from the time it is waited for.
        """
        what = self._what(
            self._given(regions), recipe, limits, statistics, percentiles, percentile_method, histogram, method,
            priority, results, fields,
        )  # fmt: skip
        kind = _streams.reducing(what)
        return _streams.exchange(self, kind, (self._encode(f, format, bits) for f in frames), window, timeout)

    def scan(
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
    ) -> _scan.Scan:
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
        return _scan.Scan(
            self, opening, shape, np.dtype(dtype), strips=strips, shared_memory=shared_memory, outage=outage,
            stall=stall, resume=resume, timeout=self.timeout if timeout is None else timeout,
        )  # fmt: skip

    # Frames that the server keeps.

    def put_frame(
        self,
        frame: _frames.FrameLike,
        *,
        idle: float | None = None,
        format: str | None = None,
        bits: int | None = None,
        id: str = "",
        timeout: float | None = None,
    ) -> _frames.Resident:
        """Keep a frame on the server's device, to use it in many calls. It goes when it is released, at the end of a
        with statement, or when nobody has used it for idle seconds."""
        kept = self._call(_calls.put_frame(self._encode(frame, format, bits, id), idle), timeout)
        return self._owned(kept)

    def upload_frame(
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
            answer = call(iter(requests), timeout=timeout or self.timeout, metadata=self._token.metadata() or None)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        return self._owned(_frames.Resident(answer.frame.name, answer.frame))

    def _owned(self, kept: _frames.Resident) -> _frames.Resident:
        def release() -> None:
            try:
                self.release_frame(kept.name)
            except _errors.NotFound:
                pass  # it went by itself

        kept._release = release
        return kept

    def get_frame(
        self, frame: str | _frames.Resident, *, touch: bool = False, timeout: float | None = None
    ) -> resident_pb2.ResidentFrame:
        """Describe a frame that the server keeps. touch counts as a use, which postpones its end."""
        return self._call(_calls.get_frame(_streams.name_of(frame), touch), timeout)

    def frames(self, *, timeout: float | None = None) -> Iterator[resident_pb2.ResidentFrame]:
        """The frames that the server keeps, ordered by name."""
        return self._pages(_calls.frames_page, lambda page: page.frames, timeout)

    def release_frame(self, frame: str | _frames.Resident, *, timeout: float | None = None) -> None:
        self._call(_calls.release_frame(_streams.name_of(frame)), timeout)

    def _pages(
        self, call: Callable[[str], _connection.Call[Any]], items: Callable[[Any], Iterable[T]], timeout: float | None
    ) -> Iterator[T]:
        token = ""
        while True:
            page = self._call(call(token), timeout)
            yield from items(page)
            token = page.next_page_token
            if not token:
                return

    # Recipes.

    def put_recipe(
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
        return self._call(_calls.put_recipe(name, found, description, wanted, expected_version), timeout)

    def get_recipe(self, recipe: str, *, timeout: float | None = None) -> recipe_pb2.Recipe:
        """A recipe by NAME, its latest version, or NAME@VERSION."""
        return self._call(_calls.get_recipe(recipe), timeout)

    def recipes(
        self, prefix: str = "", *, all_versions: bool = False, timeout: float | None = None
    ) -> Iterator[recipe_pb2.RecipeSummary]:
        """The recipes whose names start with prefix: the latest version of each, or all."""
        return self._pages(lambda t: _calls.recipes_page(prefix, all_versions, t), lambda p: p.recipes, timeout)

    def delete_recipe(self, recipe: str, *, all_versions: bool = False, timeout: float | None = None) -> int:
        """Remove NAME@VERSION, or all versions of NAME, and return how many went."""
        return self._call(_calls.delete_recipe(recipe, all_versions), timeout)

    # Low-poly.

    def lowpoly(
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
        return self._call(_calls.convert(encoded, options, mesh, svg, picture, priority), timeout)

    def lowpoly_stream(
        self,
        frames: Iterable[_frames.FrameLike],
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
    ) -> Iterator[_streams.Answer[_calls.LowPoly]]:
        """The frames of a video as pictures of triangles that don't flicker; otherwise as stream."""
        kind = _streams.converting(options, mesh, svg, picture, priority)
        return _streams.exchange(self, kind, (self._encode(f, format, bits) for f in frames), window, timeout)

    def triangulate(
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
            return _calls.triangulation(call(iter(requests), timeout=timeout or self.timeout, metadata=metadata))
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None

    def voronoi(
        self,
        sites: Any,
        size: tuple[int, int],
        *,
        method: str | None = None,
        priority: str | None = None,
        timeout: float | None = None,
    ) -> Array:
        """uint32[height][width]: the index of the site that is nearest to each pixel of an image of (width, height)."""
        return self._call(_calls.voronoi(sites, size, method, priority), timeout)

    # Diffusion.

    def diffuse(
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
        return self._call(
            _calls.solve(_calls.solve_request(encoded, size, curves, pixels, edges, options, priority)), timeout
        )

    def diffuse_progressively(
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
    ) -> Iterator[_calls.Solution]:
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
            for a in answers:
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
    ) -> _streams.Canvas:
        """A canvas whose curves and pixels change, and which is solved after each change. Close it after use."""
        encoded = None if frame is None else self._encode_travelling(frame)
        request = _calls.solve_request(encoded, size, curves, pixels, edges, options, priority)
        return _streams.Canvas(self, request, self.timeout if timeout is None else timeout)

    def _encode_travelling(self, frame: _frames.FrameLike) -> _frames.Encoded:
        """Pictures of which only some pixels are given are RGBA; a file is asked to be."""
        is_file = isinstance(frame, (bytes, bytearray, str, os.PathLike))
        return self._encode(frame, "rgba" if is_file else None)

    def fill(
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
        filled = self._call(_calls.fill(encoded, holes, keep, idle, mask_method, options, priority), timeout)
        if filled.kept:
            self._owned(filled.kept)
        return filled

    def background(
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
        found = self._call(_calls.background(encoded, holes, keep, idle, mask_method, options, priority), timeout)
        for kept in (found.kept_background, found.kept_residual):
            if kept:
                self._owned(kept)
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
    ) -> Iterator[monitor_pb2.WatchResponse]:
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
            bidi = _streams.Bidi(self, _watch.METHOD, monitor_pb2.WatchResponse)
            try:
                bidi.send(state.request())
                bidi.half_close()
                while True:
                    m = bidi.recv(max(1.0, _watch.SILENCE * heartbeat))
                    if state.take(m):
                        yield m
            except queue.Empty:
                pause = state.broken(_watch.silent(heartbeat))
            except _streams.Ended:
                pause = state.broken(_errors.Unavailable("the server has ended the watch"))
            except _errors.Error as e:
                pause = state.broken(e)
            finally:
                bidi.close()
            with _connection.reconnecting(self.channel, self._token.metadata()):
                time.sleep(pause)

    def device(self, *, timeout: float | None = None) -> device_pb2.GetDeviceResponse:
        """What the server runs on, its version, its limits, its memory and its scheduler."""
        return self._call(_calls.device(), timeout)
