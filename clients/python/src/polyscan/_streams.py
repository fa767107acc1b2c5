"""Streams: frame after frame over one call, and canvases."""

from __future__ import annotations

import collections
import dataclasses
import queue
import threading
import time
from typing import (
    TYPE_CHECKING, Any, AsyncIterable, Callable, Generic, Iterable, Iterator, Mapping, Sequence,
    TypeVar, Union,
)

import grpc
import numpy.typing as npt

from polyscan import _calls, _errors, _frames, _regions, _results, _wire
from polyscan._wire import Parts
from polyscan.v1 import diffusion_pb2, inspection_pb2, lowpoly_pb2

if TYPE_CHECKING:
    from polyscan._client import Client

T = TypeVar("T")
Array = npt.NDArray[Any]
Frames = Iterable[_frames.FrameLike]
LabelledFrames = Iterable[Union[_frames.FrameLike, tuple[_frames.FrameLike, str]]]
AsyncLabelledFrames = Union[LabelledFrames, AsyncIterable[Union[_frames.FrameLike, tuple[_frames.FrameLike, str]]]]
AsyncFrames = Union[Iterable[_frames.FrameLike], AsyncIterable[_frames.FrameLike]]


@dataclasses.dataclass(frozen=True)
class Answer(Generic[T]):
    """What came of one frame of a stream: a result, or an error, with which the stream goes on. sequence counts the
    frames from 0, frame is what was given, latency the seconds from sending it to the answer."""

    sequence: int
    frame: Any
    result: T | None
    error: _errors.Error | None
    latency: float

    def __bool__(self) -> bool:
        raise TypeError("an answer is neither true nor false: a FAIL or an error would be true; look at result and error")


@dataclasses.dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of stream of frames."""

    method: str
    open: _wire.Request
    field: int  # of frames in requests
    response: Any
    convert: Callable[[Any, _frames.Encoded], T]

    def request(self, frame: _frames.Encoded) -> Parts:
        return frame.parts().inside(self.field)

    def answer(self, m: Any, expected: int, sent: tuple[_frames.Encoded, float]) -> Answer[T]:
        if m.sequence != expected:
            raise _errors.Internal(f"the server answered frame {m.sequence}, expected frame {expected}")
        frame, at = sent
        error = _errors.from_status(m.error) if m.WhichOneof("outcome") == "error" else None
        if frame.error:  # what the server says is that it is empty
            error = _errors.InvalidArgument(str(frame.error))
            error.__cause__ = frame.error
        result = None
        if not error:
            try:
                result = self.convert(m.result, frame)
            except _errors.InvalidArgument as e:
                error = e
        return Answer(m.sequence, frame.original, result, error, time.monotonic() - at)


def reducing(what: _regions.What) -> Kind[_results.Result]:
    first: list[str] = []  # the layout of the first frame that was judged

    def convert(m: Any, frame: _frames.Encoded) -> _results.Result:
        if m.verdict:
            layout = _frames.layout_text(m.layout)
            if not first:
                first.append(layout)
            if layout != first[0]:
                raise _errors.InvalidArgument(
                    f"a frame of {layout}: the first one of the stream has {first[0]}, and the same limits would look at "
                    "other pixels"
                )
        return _results.Result(m, frame.original, what.regions)

    return Kind(
        _calls.INSPECTION + "StreamFrames", Parts.of(_wire.field(1, what.data)), 2, inspection_pb2.StreamFramesResponse, convert
    )


def converting(
    options: Mapping[str, Any], mesh: bool, svg: bool, picture: bool, priority: str | None
) -> Kind[_calls.LowPoly]:
    opening = lowpoly_pb2.ConvertFramesOpen(
        work_class=_regions.work_class(priority), options=_calls.convert_options(options), mesh=mesh, svg=svg,
        no_picture=not picture,
    )  # fmt: skip
    return Kind(
        _calls.LOWPOLY + "ConvertFrames",
        lowpoly_pb2.ConvertFramesRequest(open=opening),
        _calls.FRAME_FIELD,
        lowpoly_pb2.ConvertFramesResponse,
        lambda m, _: _calls.LowPoly(m),
    )


def encoded(encode: Callable[[Any], _frames.Encoded], frame: Any) -> _frames.Encoded:
    """A frame of a stream, which goes on with the next one where it can't be used."""
    try:
        return encode(frame)
    except Exception as e:
        return _frames.unusable(frame, e)


class Ended(Exception):
    """The call has ended, and all that came has been received."""


class Bidi:
    """A call that sends and receives. Sending doesn't wait: who sends bounds what is under way."""

    def __init__(self, client: Client, method: str, response: Any) -> None:
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[Any] = queue.SimpleQueue()
        stub = client.channel.stream_stream(
            method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(response)
        )
        self._call: Any = stub(self._requests(), metadata=client._token.metadata() or None)
        self._reader = threading.Thread(target=self._read, name="polyscan-receive", daemon=True)
        self._reader.start()

    def _requests(self) -> Iterator[Any]:
        while True:
            item = self._outgoing.get()
            if item is None:
                return
            yield item

    def _read(self) -> None:
        end: Exception = Ended()
        try:
            for message in self._call:
                self._incoming.put(message)
        except grpc.RpcError as e:
            end = _errors.from_rpc(e)
        except Exception as e:  # an answer that isn't one
            end = e
        self._outgoing.put(None)
        self._incoming.put(end)

    def send(self, request: _wire.Request) -> None:
        """Send a message, which a thread of gRPC's serialises later: until then the memory of its pixels must not
        change."""
        self._outgoing.put(request)

    def half_close(self) -> None:
        self._outgoing.put(None)

    def recv(self, timeout: float | None) -> Any:
        """The next message. It raises Ended, what ended the call, or queue.Empty."""
        got = self._incoming.get(timeout=timeout)
        if isinstance(got, Exception):
            self._incoming.put(got)  # for who asks again
            raise got
        return got

    def close(self) -> None:
        """Give up what is on the way, and wait until the threads have ended."""
        self._call.cancel()
        self._outgoing.put(None)
        if threading.current_thread() is not self._reader:
            self._reader.join(5)


def exchange(
    client: Client, kind: Kind[T], frames: Iterable[_frames.Encoded], window: int, timeout: float | None
) -> Iterator[Answer[T]]:
    """Send frames and yield their answers."""
    check_window(window)
    timeout = client._seconds(timeout)
    room = threading.Semaphore(window)
    pending: collections.deque[tuple[_frames.Encoded, float]] = collections.deque()
    source: list[BaseException] = []
    stopped = threading.Event()
    bidi = Bidi(client, kind.method, kind.response)

    def pump() -> None:
        try:
            it = iter(frames)
            while True:
                room.acquire()
                if stopped.is_set():
                    return
                try:
                    frame = next(it)
                except StopIteration:
                    return
                pending.append((frame, time.monotonic()))
                # The copy of the pixels is made here: next may have the caller write the next frame to the same memory.
                bidi.send(Parts.of(_wire.serialize(kind.request(frame))))
        except BaseException as e:
            source.append(e)
        finally:
            bidi.half_close()

    bidi.send(kind.open)
    pumping = threading.Thread(target=pump, name="polyscan-send", daemon=True)
    pumping.start()
    answered, wait = 0, timeout
    try:
        while True:
            try:
                m = bidi.recv(wait)
            except queue.Empty:
                wait = patience(timeout, pending, pumping.is_alive(), answered)
                continue
            except Ended:
                break
            yield kind.answer(m, answered, pending.popleft())
            answered, wait = answered + 1, timeout
            room.release()
        pumping.join()
        if source:
            raise source[0]
        if pending:
            raise _errors.Internal("the server ended the stream before it had answered all frames")
    finally:
        stopped.set()
        room.release()
        bidi.close()
        pumping.join(5)


def check_window(window: int) -> None:
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ValueError(f"window {window!r}: want a whole number, 1 or more")


def patience(timeout: float | None, pending: Sequence[tuple[Any, float]], sending: bool, answered: int) -> float:
    """How long to wait on for an answer that hasn't come in time; an error where it has had its time. Frames may take
    theirs."""
    assert timeout is not None
    left = pending[0][1] + timeout - time.monotonic() if pending else timeout if sending else 0
    if left <= 0:
        raise _errors.DeadlineExceeded(f"no answer to frame {answered} for {timeout} s")
    return left


@dataclasses.dataclass(frozen=True)
class Edit:
    """What has become of changes of a canvas: the picture with the first edits of them, or the error of the one of that
    number, the first being 1, with which the canvas goes on."""

    edits: int
    solution: _calls.Solution | None
    error: _errors.Error | None
    setup_kept: bool

    @classmethod
    def of(cls, m: diffusion_pb2.EditResponse) -> Edit:
        if m.WhichOneof("outcome") == "error":
            return cls(m.edits, None, _errors.from_status(m.error), m.setup_kept)
        return cls(m.edits, _calls.Solution(m.result), None, m.setup_kept)


class Changes:
    """The changes of a canvas as messages, counted."""

    def __init__(self) -> None:
        self.edits = 0
        """How many changes have been made."""

    def _change(self, **message: Any) -> int:
        self._send(diffusion_pb2.EditRequest(**message))
        self.edits += 1
        return self.edits

    def _send(self, request: diffusion_pb2.EditRequest) -> None:
        raise NotImplementedError

    def put_curve(self, curve: diffusion_pb2.Curve) -> int:
        """Add a curve over all others, or put it in the place of the one of its id. Like all changes it returns its
        number, from 1."""
        return self._change(put_curve=curve)

    def move_curve(self, id: str, dx: float, dy: float) -> int:
        return self._change(move_curve=diffusion_pb2.MoveCurve(id=id, dx=dx, dy=dy))

    def recolor_curve(
        self,
        id: str,
        *,
        left: Iterable[Sequence[float]] = (),
        right: Iterable[Sequence[float]] = (),
        blur: Iterable[tuple[float, float]] = (),
    ) -> int:
        return self._change(recolor_curve=diffusion_pb2.RecolorCurve(
            id=id, left=_calls.color_stops(left), right=_calls.color_stops(right),
            blur=[diffusion_pb2.BlurStop(at=at, sigma=sigma) for at, sigma in blur],
        ))  # fmt: skip

    def remove_curve(self, id: str) -> int:
        return self._change(remove_curve=id)

    def put_pixels(self, pixels: Iterable[Sequence[float]]) -> int:
        """Give pixels (x, y, red, green, blue), under all curves."""
        return self._change(put_pixels=diffusion_pb2.GivenPixels(pixels=_calls.given_pixels(pixels)))

    def remove_pixels(self, places: Iterable[Sequence[int]]) -> int:
        """Take pixels (x, y) away that were given."""
        return self._change(remove_pixels=diffusion_pb2.PixelPlaces(xy=_wire.whole((v for p in places for v in p), "places")))

    def move_pixels(self, places: Iterable[Sequence[int]], dx: int, dy: int) -> int:
        xy = _wire.whole((v for p in places for v in p), "places")
        return self._change(move_pixels=diffusion_pb2.MovePixels(xy=xy, dx=dx, dy=dy))

    def put_edges(self, edges: Iterable[tuple[int, int, int]]) -> int:
        """Close edges of pixels (x, y, edges), and open their others; edges as in SolveRequest."""
        pixels = [diffusion_pb2.PixelEdges(x=x, y=y, edges=e) for x, y, e in edges]
        return self._change(put_edges=diffusion_pb2.PutEdges(pixels=pixels))


class Canvas(Changes):
    """A canvas whose curves and pixels change, and which is solved after each change.

    Iterating yields an Edit for each picture, and for each change that can't be made; picture() waits for the one with
    all changes so far.
    """

    def __init__(self, client: Client, opening: Parts, timeout: float | None) -> None:
        super().__init__()
        self._timeout = timeout
        self._bidi = Bidi(client, _calls.DIFFUSION + "Edit", diffusion_pb2.EditResponse)
        self._bidi.send(opening.inside(1))

    def _send(self, request: diffusion_pb2.EditRequest) -> None:
        self._bidi.send(request)

    def recv(self, timeout: float | None = None) -> Edit | None:
        """The next Edit; None when the canvas has ended."""
        timeout = self._timeout if timeout is None else timeout
        try:
            return Edit.of(self._bidi.recv(timeout))
        except queue.Empty:
            raise _errors.DeadlineExceeded(f"no picture for {timeout} s") from None
        except Ended:
            return None

    def picture(self, timeout: float | None = None) -> _calls.Solution:
        """Wait for the picture with all changes so far. A change that couldn't be made is an error."""
        while True:
            edit = self.recv(timeout)
            if edit is None:
                raise _errors.Aborted("the canvas has ended")
            if edit.error:
                raise edit.error
            if edit.solution and edit.edits >= self.edits:
                return edit.solution

    def __iter__(self) -> Iterator[Edit]:
        while True:
            edit = self.recv()
            if edit is None:
                return
            yield edit

    def close_send(self) -> None:
        """Say that no change follows: the last picture still comes."""
        self._bidi.half_close()

    def close(self) -> None:
        self._bidi.close()

    def __enter__(self) -> Canvas:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def size_of(size: tuple[int, int] | None, like: Array | None) -> tuple[int, int]:
    if (size is None) == (like is None):
        raise TypeError("want either size, (width, height), or like")
    if like is not None:
        return int(like.shape[1]), int(like.shape[0])
    assert size is not None
    return size


def name_of(frame: str | _frames.Resident) -> str:
    return _frames.resident_name(frame, "frame")
