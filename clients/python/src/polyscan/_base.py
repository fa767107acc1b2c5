"""What the clients, sync and aio, have in common."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any, Callable, Sequence

import numpy as np
import numpy.typing as npt

from polyscan import _connection, _errors, _files, _frames, _memory, _regions, _server, _teach, _wire
from polyscan._version import __version__
from polyscan.v1 import device_pb2, recipe_pb2

Array = npt.NDArray[Any]

_SHARED_FROM = 64 << 10  # bytes of a frame for which shared memory is worth a slot
_FILES = 16  # of regions that are remembered
_START = 30.0  # seconds that a server of our own may take to start


class VersionWarning(UserWarning):
    """Client and server are of different versions."""


class Base:
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
        if address is not None and (server is not None or server_args):
            raise TypeError("want either the address of a server that runs, or server=, to start one")
        timeout = _connection.seconds(timeout)
        name = _wire.text(name, "name")
        self._life = _connection.Life()
        self._server = _server.Server(server, server_args) if address is None else None
        try:
            self._token = _connection.Token(token, token_file, time.monotonic)
            self._target = _connection.target(
                self._server.address if self._server else address or "", tls, self._token.given,
                plain_text_token, options
            )
        except BaseException:
            if self._server:
                self._server.close()
            raise
        self.name = name
        """Name of the camera or station, which whoever watches the server sees."""
        self.timeout = timeout
        """Seconds that a call may take unless it is told otherwise; None for no bound."""
        self.address = self._target.address
        enabled = shared_memory if self._target.local and hasattr(os, "memfd_create") else False
        if shared_memory and enabled is False:
            raise ValueError(f"shared_memory: {self.address}: it needs Linux, and a server on this host")
        self._memory = _memory.Pool(
            self._life, self._target.channel, self._token.metadata, enabled, timeout or _connection.DEFAULT_TIMEOUT
        )
        self._files: dict[tuple[Any, ...], _regions.Regions] = {}

    def _seconds(self, timeout: float | None) -> float | None:
        """How long a call may take that is given a timeout, or none."""
        return _connection.seconds(self.timeout if timeout is None else timeout)

    @property
    def shared_memory(self) -> bool:
        """Whether frames go through shared memory: known once the first has been sent, or asked for."""
        return bool(self._memory.enabled)

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

    def frame(self, shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        """An array for a frame, in memory that the server reads: write to it and reduce it, as it is or a part of it,
        and nothing is copied on the way. Its content is what was there before. It must not change while a call with it
        has not been answered. Its memory comes round again when nobody has the array any more.

        Where the server has no shared memory it is an ordinary array; with shared_memory=True that is an error."""
        a = self._memory.array(tuple(shape), dtype)
        return np.empty(shape, dtype) if a is None else a

    def _encode(
        self, frame: _frames.FrameLike, format: str | None = None, bits: int | None = None, id: str = "",
        part_id: str = "",
    ) -> _frames.Encoded:
        """A frame as the server takes it, in shared memory where that is to be had."""
        encoded = _frames.encode(frame, self._memory.place, format=format, bits=bits, id=id, part_id=part_id)
        a = encoded.array
        if a is None or a.nbytes < _SHARED_FROM or self._memory.enabled is False:
            return encoded
        shared = self._memory.array(a.shape, a.dtype)
        if shared is None:
            return encoded
        np.copyto(shared, a)
        again: Any = shared
        if isinstance(frame, _frames.Frame):
            again = _frames.Frame(
                shared, format=frame.format, bits=frame.bits, id=frame.id, part_id=frame.part_id, size=frame.size,
                demosaic=frame.demosaic,
            )  # fmt: skip
        out = _frames.encode(again, self._memory.place, format=format, bits=bits, id=id, part_id=part_id)
        out.original, out.kept = encoded.original, shared
        return out

    def _encode_travelling(self, frame: _frames.FrameLike) -> _frames.Encoded:
        """Pictures of which only some pixels are given are RGBA; a file is asked to be."""
        is_file = isinstance(frame, (bytes, bytearray, str, os.PathLike))
        return self._encode(frame, "rgba" if is_file else None)

    def _what(
        self,
        regions: _regions.Regions | None,
        recipe: str | recipe_pb2.RecipeRef | None,
        limits: Any,
        statistics: Any,
        percentiles: Any,
        percentile_method: Any,
        histogram: Any,
        method: Any,
        priority: Any,
        results: Any = None,
        fields: Any = None,
        texture: Any = False,
        colors: Any = None,
        correlate: Any = (),
        golden: Any = None,
    ) -> _regions.What:
        if limits is not None:
            if regions is None:
                raise TypeError("limits: a recipe has its own")
            regions = regions.with_limits(limits)
        if regions is not None:
            regions.look()
        given = _regions.reductions(statistics, percentiles, percentile_method, histogram, texture, colors, correlate)
        given, frames = _regions.asked(regions, given, golden)
        return _regions.inspection(
            regions,
            recipe,
            reductions=given,
            method=method,
            priority=priority,
            name=self.name,
            results=results,
            fields=fields,
            frames=frames,
        )

    def _regions_of(
        self,
        source: _regions.RegionsLike,
        limits: Any = None,
        image: str = "",
        image_hint: str = "",
        tolerance: float = 0,
        ignore_viewbox: bool = False,
    ) -> _regions.Regions:
        if not _regions.is_file(source):
            found = _regions.to_regions(source)
            return found if limits is None else found.with_limits(limits)
        key: Any = None
        if isinstance(source, (str, os.PathLike)):  # read again when it has changed
            s = os.stat(source)
            key = (os.path.abspath(source), s.st_mtime_ns, s.st_size, image, image_hint, tolerance, ignore_viewbox)
        known = self._files.get(key) if key else None
        if known is None:
            known = _files.read(source, image, image_hint, tolerance, ignore_viewbox, self.timeout)
            if key:
                while len(self._files) >= _FILES:
                    self._files.pop(next(iter(self._files)), None)
                self._files[key] = known
        return known if limits is None else known.with_limits(limits)

    def _limited(self, regions: _regions.RegionsLike | None, limits: Any) -> _regions.Regions | None:
        if limits is not None and regions is None:
            raise TypeError("limits: a recipe has its own")
        return None if regions is None else self._regions_of(regions, limits)

    def _labelled(self, format: str | None, bits: int | None) -> Callable[[Any], _wire.Parts]:
        """What makes a message of a frame, or of a frame and its label. It travels: nobody knows when the server has
        read it."""

        def encode(item: Any) -> _wire.Parts:
            frame, label = _teach.labelled(item)
            return _teach.request(_frames.encode(frame, None, format=format, bits=bits), label)

        return encode

    def _given(self, regions: _regions.RegionsLike | None) -> _regions.Regions | None:
        return None if regions is None else self._regions_of(regions)

    def _check(self, device: device_pb2.GetDeviceResponse) -> None:
        """Hold the versions of client and server against each other."""
        said = compare(__version__, device.server_version)
        if said:
            warnings.warn(said, VersionWarning, stacklevel=4)

    def _started(self, began: float, error: _errors.Error) -> float:
        """How long to wait for a server of our own that isn't there yet; or the error, where it won't be."""
        if self._server is None or not isinstance(error, _errors.Unavailable):
            raise error
        failed = self._server.failed()
        if failed:
            raise _errors.Unavailable(failed)
        if time.monotonic() - began > _START:
            raise error
        return 0.01


def compare(client: str, server: str) -> str:
    """What is to be said of two versions; nothing where they fit, or where one is of a build that has none."""
    ours, theirs = _release(client), _release(server)
    if ours is None or theirs is None or ours[0] == theirs[0] and (ours[0] or ours[1] == theirs[1]):
        return ""
    older = "server" if theirs < ours else "client"
    return f"polyscan {client} talks to a server of version {server}: update the {older}, which may lack what is asked"


def _release(version: str) -> tuple[int, int] | None:
    """Major and minor version. Versions of Go builds that no release was made of, such as (devel), have none."""
    parts = version.removeprefix("v").split(".")
    if len(parts) < 3 or not (parts[0].isdigit() and parts[1].isdigit()) or version.startswith("v0.0.0-"):
        return None
    return int(parts[0]), int(parts[1])
