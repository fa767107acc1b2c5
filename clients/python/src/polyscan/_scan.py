"""Line-scan sessions: strips of lines out, the numbers of each part back, over connections that may break.

The contract is that of docs/linescan.md and of the Go client: strips are kept until the server has acknowledged them,
the session goes on over a new connection, strips that were lost on the way go out again, and results that come twice
are dropped. So each part comes exactly once, in order.
"""

from __future__ import annotations

import dataclasses
import datetime
import queue
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterator, Sequence, Union

import numpy as np
import numpy.typing as npt

from polyscan import _connection, _errors, _frames, _memory, _regions, _wire
from polyscan._connection import Retry
from polyscan._results import Part
from polyscan._streams import Bidi, Ended
from polyscan._wire import Parts
from polyscan.v1 import frame_pb2, scan_pb2

if TYPE_CHECKING:
    from polyscan._client import Client

Array = npt.NDArray[Any]

METHOD = "/polyscan.v1.LineScanService/ScanLines"
_STRIPS, _STRIP_BYTES, _MIN_STRIPS, _MAX_STRIPS = 64, 64 << 20, 4, 4096  # as in clients/scan.go
_UPDATES = 256  # that wait to be received
_OUTAGE = 30.0  # where the server doesn't say how long it keeps a session
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0
_BROKEN = ("UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED")  # what a stream ends with that was reset on the way
_TICK = 0.25


class Stalled(_errors.Unavailable):
    """The server owed an acknowledgement for too long."""


class _Wiped(_errors.Error):
    code = "DATA_LOSS"


@dataclasses.dataclass(frozen=True)
class Session:
    """What another process needs to go on with a session, within the time that the server keeps it."""

    token: bytes
    next_result: int


@dataclasses.dataclass(frozen=True)
class Event:
    """What the operator of the line should know: kind is gap, duplicate, out-of-order, bad-strip, slow-consumer,
    draining or device-lost; message has the strips and lines that it is about."""

    kind: str
    message: scan_pb2.ScanEvent
    error: _errors.Error | None


@dataclasses.dataclass(frozen=True)
class Reconnected:
    """The connection broke and the session went on: what broke it, the seconds without one, how often one was tried,
    and how many strips go out again."""

    cause: Exception
    outage: float
    attempts: int
    resent: int


Update = Union[Part, Event, Reconnected]


@dataclasses.dataclass
class Stats:
    """The counters of a scan. handed: strips that send has taken; sent: of them, those that have gone out over this
    connection; acked: those that are done with; repeated: results that came again and were dropped; leases: how often
    shared memory was leased."""

    handed: int = 0
    sent: int = 0
    acked: int = 0
    lines: int = 0
    results: int = 0
    repeated: int = 0
    reconnects: int = 0
    resent: int = 0
    leases: int = 0


def strip_shape(lines: int, width: int, format: str | None, dtype: Any) -> tuple[int, ...]:
    number = _frames._number(format) if format else _frames.GRAY8
    if number not in _frames.CHANNELS:  # rows of bytes
        return (lines, (width * _frames._pixel_bits(number) + 7) // 8)
    channels = _frames.CHANNELS[number]
    return (lines, width, channels) if channels > 1 else (lines, width)


def opening(
    what: _regions.What,
    shape: tuple[int, ...],
    width: int,
    dtype: Any,
    format: str | None,
    bits: int | None,
    part_lines: int,
    every_lines: int | None,
    marked: bool,
    line_rate: float,
    latency_budget: float | None,
    reorder_strips: int,
    name: str,
) -> scan_pb2.ScanOpen:
    if marked and every_lines:
        raise TypeError("want either every_lines or marked")
    number = _frames._number(format) if format else 0
    if number in _frames.CHANNELS or not number:
        number = _frames.array_format(np.empty(shape, dtype), format)
    if shape[0] < 1 or width < 1:
        raise ValueError(f"strip_lines {shape[0]}, width {width}: must be 1 or more")
    out = scan_pb2.ScanOpen(
        inspection=what.message(),
        layout=_frames._layout(width, shape[0], number, 0, bits),
        line_rate=line_rate,
        part_lines=part_lines,
        latency_budget=_wire.duration(latency_budget),
        reorder_strips=reorder_strips,
    )
    if name:
        out.inspection.name = name
    if marked:
        out.marked.SetInParent()
    else:
        out.every_lines = every_lines or part_lines
    return out


class _Slot:
    """A strip that was handed over."""

    __slots__ = ("end", "head", "size")

    def __init__(self) -> None:
        self.head = scan_pb2.Strip()
        self.end = 0  # the line after its last one
        self.size = 0  # bytes of its pixels


class _Heap:
    """Room for strips in this process."""

    lost = False

    def __init__(self, slots: int, size: int) -> None:
        self._slots: list[bytearray | None] = [None] * slots
        self._size = size

    def bytes(self, i: int) -> memoryview:
        found = self._slots[i]
        if found is None:
            found = self._slots[i] = bytearray(self._size)
        return memoryview(found)

    def shared(self, i: int, size: int) -> frame_pb2.SharedPixels | None:
        return None

    def kept(self) -> bool:
        return True

    def close(self) -> None:
        pass


class _Leased:
    """Room for strips in a lease."""

    def __init__(self, lease: _memory.Lease) -> None:
        self._lease = lease

    @property
    def lost(self) -> bool:
        return self._lease.ended

    def bytes(self, i: int) -> memoryview:
        return self._lease.bytes(i)

    def shared(self, i: int, size: int) -> frame_pb2.SharedPixels | None:
        return frame_pb2.SharedPixels(lease_id=self._lease.id, offset=i * self._lease.apart, length=size)

    def kept(self) -> bool:
        return self._lease.kept()

    def close(self) -> None:
        self._lease.close()


class Scan:
    """A line-scan session: a camera that sends strips, and the results of its parts.

    One thread sends, another iterates over the updates: Part, Event and Reconnected. If updates aren't received the
    strips aren't acknowledged, and send waits in the end. Client.scan opens one; close it after use, or use a with
    statement.
    """

    def __init__(
        self,
        client: Client,
        opening: scan_pb2.ScanOpen,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        strips: int,
        shared_memory: bool | None,
        outage: float | None,
        stall: float,
        resume: Session | None,
        timeout: float | None,
        deliver: Callable[[Any], None] | None = None,
    ) -> None:
        if not 0 <= strips <= _MAX_STRIPS:
            raise ValueError(f"strips {strips}: must be 0 to {_MAX_STRIPS}")
        if stall <= 0:
            raise ValueError(f"stall {stall}: must be more than 0")
        self._client, self._opening, self._shape, self._dtype = client, opening, shape, dtype.newbyteorder("<")
        self._row = int(np.prod(shape[1:])) * dtype.itemsize
        self._bytes = self._row * shape[0]
        self._count = strips or min(_STRIPS, max(_MIN_STRIPS, _STRIP_BYTES // self._bytes))
        self._slots = [_Slot() for _ in range(self._count)]
        self._outage, self._stall, self._resume, self._timeout = outage, stall, resume, timeout
        self._updates: queue.Queue[Any] = queue.Queue(_UPDATES)
        self._deliver_to = deliver
        self._state = threading.Condition()  # guards what follows, and is told when there is room, and at the end
        self._sending = threading.Lock()  # held by send
        self._bidi: Bidi | None = None
        self._opened = scan_pb2.ScanOpened()
        self._closing = False  # close_send was called
        self._half_closed = False
        self._stopped = False  # close was called
        self._done = False
        self._error: BaseException | None = None
        self._buffer: Array | None = None  # handed out by buffer
        self._buffer_memory: Any = None
        # Strips before it are acknowledged, sent, handed over, ...
        self._acked = self._sent = self._head = self._most = 0
        self._line = self._credit = 0
        self._next = resume.next_result if resume else 0
        self._stats = Stats()
        self._stamps: list[tuple[int, float]] = [(-1, 0.0)] * _MAX_STRIPS
        self._heard = time.monotonic()
        self._want_lease = shared_memory if shared_memory is not None else client._memory.enabled is not False
        self._forced = bool(shared_memory)
        if self._want_lease and not (client._target.local and hasattr(__import__("os"), "memfd_create")):
            if self._forced:
                raise ValueError("shared_memory: it needs Linux, and a server on this host")
            self._want_lease = False
        self._memory: Any = self._new_memory()
        try:
            bidi = self._first(resume is not None)
        except BaseException:
            self._memory.close()
            raise
        if resume is not None:
            self._acked = self._sent = self._head = self._most = self._opened.next_sequence
            self._line = self._opened.next_line
        self._take_up()
        self._bidi = bidi
        self._thread = threading.Thread(target=self._run, args=(bidi,), name="polyscan-scan", daemon=True)
        self._thread.start()

    # What users call.

    def buffer(self, timeout: float | None = None) -> Array:
        """Wait for room for a strip, and return the array to write it to, of strip_lines lines: then send it, or its
        first lines. With shared memory these are the bytes that the server reads. It is not to be touched after
        send."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._state:
            while True:
                if self._done or self._closing:
                    raise self._ended()
                if self._buffer is not None:
                    return self._buffer
                if self._head - self._acked < self._count:
                    memory = self._memory.bytes(self._head % self._count)[: self._bytes]
                    self._buffer = np.frombuffer(memory, self._dtype).reshape(self._shape)
                    self._buffer_memory = self._memory
                    return self._buffer
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0 or not self._state.wait(left):
                    raise _errors.DeadlineExceeded(f"no room for a strip for {timeout} s: {self._count} are under way")

    def send(
        self,
        pixels: Array,
        *,
        part_starts: Sequence[int] = (),
        part_ids: Sequence[str] = (),
        lost: int = 0,
        captured_at: datetime.datetime | None = None,
        timeout: float | None = None,
    ) -> int:
        """Hand over a strip, an array of lines, and return its sequence number. The pixels are copied, unless they are
        those of buffer(). It waits while as many strips are under way as may be; a strip goes out as soon as the server
        has given credit for its lines, and isn't lost when the connection breaks.

        part_starts are the lines of the strip, from 0, at which parts start, for marked; part_ids names the parts
        that start in it, each of them or none; lost is how many lines the camera
        has lost before it, which count as missing; captured_at comes back with results, by default now.
        """
        now = time.monotonic()
        lines = self._check(pixels, part_starts, lost)
        with self._sending:
            buffer = self.buffer(self._timeout if timeout is None else timeout)
            if pixels.__array_interface__["data"][0] != buffer.__array_interface__["data"][0]:
                np.copyto(buffer[:lines], pixels)
            with self._state:
                if self._done or self._closing:
                    raise self._ended()
                i = self._head % self._count
                self._buffer = None
                if self._buffer_memory is not self._memory:  # the lease ended since buffer handed it out
                    self._memory.bytes(i)[: self._bytes] = buffer.reshape(-1).view(np.uint8).data
                    kept = self._buffer_memory.kept()
                    self._buffer_memory.close()
                    if not kept:
                        raise _Wiped("the lease of shared memory has ended, and the strip in it is lost")
                slot, first = self._slots[i], self._line + lost
                slot.head = scan_pb2.Strip(
                    sequence=self._head, first_line=first, part_starts=[first + int(p) for p in part_starts],
                    part_ids=part_ids,
                    frame=frame_pb2.Frame(encoding=frame_pb2.ENCODING_RAW),
                )  # fmt: skip
                slot.head.captured_at.FromDatetime(captured_at or datetime.datetime.now(datetime.timezone.utc))
                if lines != self._shape[0]:
                    slot.head.frame.layout.height = lines
                slot.size, slot.end = lines * self._row, first + lines
                self._line = slot.end
                self._stamps[self._head % _MAX_STRIPS] = (self._head, now)
                sequence = self._head
                self._head += 1
                self._flush()
                return sequence

    def _check(self, pixels: Array, part_starts: Sequence[int], lost: int) -> int:
        if not isinstance(pixels, np.ndarray) or pixels.dtype.newbyteorder("<") != self._dtype:
            kind = pixels.dtype if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise TypeError(f"a strip of {kind}: want an array of {self._dtype}")
        lines = _wire.unmasked(pixels).shape[0] if pixels.ndim else 0
        if pixels.shape[1:] != self._shape[1:] or not 1 <= lines <= self._shape[0]:
            want = "x".join(map(str, self._shape[1:]))
            raise ValueError(
                f"a strip of {'x'.join(map(str, pixels.shape))}: want 1 to {self._shape[0]} lines of {want}"
            )
        if lost < 0:
            raise ValueError(f"lost {lost}: must not be negative")
        before = -1
        for p in _wire.whole(part_starts, "part_starts"):
            if not before < p < lines:
                raise ValueError(f"part_starts {list(part_starts)}: must be 0 to {lines - 1}, and ascend")
            before = p
        return lines

    def close_send(self) -> None:
        """Say that no strip follows. Those handed over still go out, parts that are not complete come back as they are,
        and then the updates end."""
        with self._state:
            self._closing = True
            self._flush()
            self._state.notify_all()

    def recv(self, timeout: float | None = None) -> Update | None:
        """The next update: None after close_send and the last one. It raises DeadlineExceeded when none comes in time,
        and what ended the stream otherwise than by close_send."""
        try:
            got = self._updates.get(timeout=timeout)
        except queue.Empty:
            raise _errors.DeadlineExceeded(f"no update for {timeout} s") from None
        if got is _END:
            self._updates.put(_END)
            if self._error is not None:
                raise self._error
            return None
        update: Update = got
        return update

    def __iter__(self) -> Iterator[Update]:
        while True:
            update = self.recv()
            if update is None:
                return
            yield update

    def close(self) -> None:
        """Give up what is on the way, and wait until the threads have ended. The server keeps the session for a while,
        as if the connection had broken; after close_send and the last update there is nothing to keep."""
        with self._state:
            self._stopped = True
            bidi = self._bidi
            self._state.notify_all()
        if bidi:
            bidi.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()

    @property
    def session(self) -> Session:
        """What another process needs to go on."""
        with self._state:
            return Session(self._opened.session_token, self._next)

    @property
    def room(self) -> int:
        """How many strips send would take without waiting."""
        with self._state:
            return self._count - (self._head - self._acked)

    @property
    def backend(self) -> str:
        return self._opened.backend

    @property
    def shared_memory(self) -> bool:
        """Whether strips go through shared memory."""
        return isinstance(self._memory, _Leased)

    @property
    def stats(self) -> Stats:
        with self._state:
            out = dataclasses.replace(self._stats)
            out.handed, out.sent, out.acked, out.lines = self._head, self._sent, self._acked, self._line
            out.results = self._next
            return out

    # How it is done.

    def _ended(self) -> Exception:
        if isinstance(self._error, Exception):
            return self._error
        return _errors.FailedPrecondition("the line-scan stream has ended")

    def _new_memory(self) -> Any:
        if self._want_lease:
            try:
                lease = self._client._memory.lease(self._count, self._bytes)
            except (_errors.Error, OSError):
                if self._forced or self._stats.leases:
                    raise
                self._want_lease = False
            else:
                self._stats.leases += 1
                return _Leased(lease)
        return _Heap(self._count, self._bytes)

    def _flush(self) -> None:
        """Send what has been handed over, as far as credit goes. The state is held."""
        if self._bidi is None:
            return
        if self._memory.lost:
            return  # the thread that receives finds out, and leases anew
        while self._sent < self._head:
            i = self._sent % self._count
            slot = self._slots[i]
            # One strip may go whatever its lines: the number of the next line may be far ahead where lines were lost.
            if slot.end > self._credit and self._sent > self._acked:
                return
            strip = scan_pb2.Strip()
            strip.CopyFrom(slot.head)
            strip.next_result = self._next
            shared = self._memory.shared(i, slot.size)
            if shared is not None:
                strip.frame.shared.CopyFrom(shared)
                request = Parts.of(strip.SerializeToString())
            else:
                head = strip.frame.SerializeToString()
                strip.ClearField("frame")
                pixels = self._memory.bytes(i)[: slot.size]
                frame = Parts([head, _wire.varint(15 << 3 | 2), _wire.varint(slot.size), pixels], 0)
                frame.size = sum(len(p) for p in frame.parts)
                request = Parts.of(strip.SerializeToString()) + frame.inside(15)
            self._bidi.send(request.inside(3))
            self._sent += 1
            self._most = max(self._most, self._sent)
        if self._closing and not self._half_closed:
            self._half_closed = True
            self._bidi.half_close()

    def _first(self, resume: bool) -> Bidi:
        """The first connection. A server that isn't there may come back in time."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        retry = Retry(True, deadline, time.monotonic)
        while True:
            try:
                return self._connect(resume)
            except _errors.Error as e:
                pause = retry.pause(e)
                if pause is None:
                    raise
                with self._reconnecting():
                    time.sleep(pause)

    def _reconnecting(self) -> ContextManager[None]:
        return _connection.reconnecting(self._client.channel, self._client._token.metadata())

    def _connect(self, resume: bool) -> Bidi:
        """Start a call with an open or a resume, and wait for the answer."""
        bidi = Bidi(self._client, METHOD, scan_pb2.ScanLinesResponse)
        with self._state:
            if self._stopped:
                bidi.close()
                raise _errors.Cancelled("the scan was closed")
        try:
            if resume:
                token = self._opened.session_token or (self._resume.token if self._resume else b"")
                bidi.send(scan_pb2.ScanLinesRequest(
                    resume=scan_pb2.ScanResume(session_token=token, next_result=self._next)
                ))  # fmt: skip
            else:
                bidi.send(scan_pb2.ScanLinesRequest(open=self._opening))
            try:
                answer = bidi.recv(self._stall)
            except queue.Empty:
                raise Stalled("the server does not answer") from None
            except Ended:
                raise _errors.Internal("the server ended the call without an answer") from None
            if answer.WhichOneof("message") != "opened":
                raise _errors.Internal(f"the server's first message is {answer.WhichOneof('message')}: want opened")
            if not answer.opened.session_token:  # a resumed session needn't repeat what doesn't change
                answer.opened.session_token = self._opened.session_token
            with self._state:
                self._opened = answer.opened
            return bidi
        except BaseException:
            bidi.close()
            raise

    def _take_up(self) -> int:
        """Set the cursors to what the server says, and return how many strips go out again."""
        with self._state:
            following = self._opened.next_sequence
            if not self._acked <= following <= self._head:
                raise _errors.DataLoss(
                    f"resumed session: the server wants strip {following}; this side has strips {self._acked} to "
                    f"{self._head}"
                )
            self._acked = self._sent = following
            self._credit = self._opened.credit_line
            self._half_closed = False
            self._heard = time.monotonic()
            self._state.notify_all()
            return max(0, self._most - following)

    def _run(self, bidi: Bidi) -> None:
        """Take the stream from connection to connection until it ends."""
        try:
            while True:
                with self._state:
                    self._bidi = bidi
                    self._flush()
                try:
                    self._receive(bidi)
                    break
                except (_errors.Error, OSError) as e:
                    cause: Exception = e
                finally:
                    with self._state:
                        self._bidi = None
                    bidi.close()
                if self._stopped or not self._retryable(cause):
                    raise cause
                bidi, again = self._reconnect(cause)
                with self._state:
                    self._stats.reconnects += 1
                    self._stats.resent += again.resent
                self._deliver(again)
        except BaseException as e:
            self._error = _errors.Cancelled("the scan was closed") if self._stopped else e
        with self._state:
            self._done = True
            self._state.notify_all()
            if self._buffer_memory is not None:
                self._buffer_memory.close()
        self._memory.close()
        self._deliver(_END)

    def _receive(self, bidi: Bidi) -> None:
        """Handle what the server says, until it has answered everything."""
        owing_since: float | None = None
        tick = min(_TICK, self._stall / 4)
        while True:
            try:
                m = bidi.recv(tick)
            except queue.Empty:
                now = time.monotonic()
                with self._state:
                    owes = self._sent > self._acked or self._closing
                    lost = self._memory.lost
                if lost:
                    raise _memory.LeaseEnded("the server has ended the lease") from None
                if not owes:
                    owing_since = None
                elif owing_since is None:
                    owing_since = now
                elif now - max(owing_since, self._heard) >= self._stall:
                    raise Stalled("the server does not answer") from None
                continue
            except Ended:
                with self._state:
                    if self._closing and self._sent == self._head:
                        self._acked = self._head
                        return
                raise _errors.Aborted(
                    f"the server ended the stream at strip {self._acked} of {self._head} without a reason"
                ) from None
            kind = m.WhichOneof("message")
            if kind == "ack":
                self._ack(m.ack)
            elif kind == "part":
                self._part(m.part)
            elif kind == "event":
                e = m.event
                error = _errors.from_status(e.error) if e.HasField("error") else None
                name = _wire.enum_name(scan_pb2.ScanEventKind, "SCAN_EVENT_KIND_", e.kind)
                self._deliver(Event(name, e, error))
            else:
                raise _errors.DataLoss(f"the server sent {kind}: want an ack, a part or an event")
            self._heard = time.monotonic()

    def _ack(self, ack: scan_pb2.ScanAck) -> None:
        with self._state:
            if ack.next_sequence > self._sent:
                raise _errors.DataLoss(
                    f"the server acknowledged strip {ack.next_sequence}: strips up to {self._sent} have been sent"
                )
            # An ack that is behind what resuming has said already adds nothing.
            self._acked = max(self._acked, ack.next_sequence)
            self._credit = max(self._credit, ack.credit_line)
            self._flush()
            self._state.notify_all()

    def _part(self, message: scan_pb2.PartResult) -> None:
        now = time.monotonic()
        with self._state:
            number = message.result_number
            if number < self._next:
                self._stats.repeated += 1
                return
            if number > self._next:
                lost = number - self._next
                raise _errors.DataLoss(f"result {number} came: want {self._next}; {lost} results are lost")
            self._next += 1
            sequence, at = self._stamps[message.strip_sequence % _MAX_STRIPS]
            latency = now - at if sequence == message.strip_sequence else 0.0
        self._deliver(Part(message, latency))

    def _deliver(self, update: Any) -> None:
        if self._deliver_to is not None:
            self._deliver_to(update)
            return
        while True:
            try:
                self._updates.put(update, timeout=_TICK)
                return
            except queue.Full:
                if self._stopped:  # nobody receives any more
                    try:
                        self._updates.get_nowait()
                    except queue.Empty:
                        pass

    def _retryable(self, error: Exception) -> bool:
        """Whether it is of the connection, and not of the session."""
        if self._outage is not None and self._outage < 0:
            return False
        if isinstance(error, _Wiped):
            return False
        return isinstance(error, OSError) and not isinstance(error, _errors.Error) or (
            isinstance(error, _errors.Error) and error.code in _BROKEN
        )

    def _reconnect(self, cause: Exception) -> tuple[Bidi, Reconnected]:
        """Resume the session over a new connection."""
        began = time.monotonic()
        limit = self._outage or _wire.seconds(self._opened.resume_window) or _OUTAGE
        pause, attempts = _FIRST_PAUSE, 0
        while True:
            attempts += 1
            try:
                bidi = self._attempt()
                try:
                    resent = self._take_up()
                except BaseException:
                    bidi.close()
                    raise
                return bidi, Reconnected(cause, time.monotonic() - began, attempts, resent)
            except (_errors.Error, OSError) as e:
                error = e
            again = self._retryable(error) or getattr(error, "code", "") == "RESOURCE_EXHAUSTED"
            if self._stopped or not again:
                raise error from cause
            wait = pause * (0.5 + random.random())
            wait = max(wait, getattr(error, "retry_after", None) or 0)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if time.monotonic() - began + wait > limit:
                raise _errors.Unavailable(
                    f"no connection for {time.monotonic() - began:.3g} s in {attempts} attempts: {error}"
                ) from cause
            with self._reconnecting(), self._state:
                self._state.wait_for(lambda: self._stopped, wait)

    def _attempt(self) -> Bidi:
        """Make one connection, and lease memory anew where the lease is over."""
        if self._memory.lost:
            memory = self._new_memory()
            with self._state:
                for n in range(self._acked, self._head):
                    i = n % self._count
                    size = self._slots[i].size
                    memory.bytes(i)[:size] = self._memory.bytes(i)[:size]
                if self._head > self._acked and not self._memory.kept():
                    memory.close()
                    raise _Wiped("the lease of shared memory has ended, and the strips in it are lost")
                old, self._memory = self._memory, memory
                if self._buffer is None or self._buffer_memory is not old:
                    old.close()
        return self._connect(True)


_END: Any = object()
