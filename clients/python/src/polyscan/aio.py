"""polyscan for asyncio: the same clients, methods and results as polyscan, with await.

    async with polyscan.aio.connect("localhost:7465") as client:
        result = await client.reduce("board.png", regions)
"""

from __future__ import annotations

import asyncio
import collections
import os
import time
from typing import Any, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence, TypeVar

import grpc
import grpc.aio
import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from polyscan import _calls, _connection, _errors, _frames, _scan, _streams, _watch, _wire
from polyscan._methods_aio import Methods
from polyscan.v1 import diffusion_pb2, monitor_pb2, scan_pb2

T = TypeVar("T")
Array = npt.NDArray[Any]


class Client(Methods):
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
        timeout = self._seconds(timeout)
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

    async def _watched(self, state: _watch.State, heartbeat: float) -> AsyncIterator[monitor_pb2.WatchResponse]:
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

    async def _collect(
        self, method: str, response: type[Message], opening: _wire.Request | None, items: Any,
        encode: Callable[[Any], _wire.Request], timeout: float | None,
    ) -> Any:
        stub = self.channel.stream_unary(
            method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(response)
        )
        timeout = self._seconds(timeout)
        call: Any = stub(timeout=timeout, metadata=self._token.metadata() or None)
        try:
            try:
                if opening is not None:
                    await call.write(opening)
                async for request in _encoded(items, encode):
                    await call.write(request)
                await call.done_writing()
            except asyncio.InvalidStateError:
                pass  # the call has ended, and says why
            return await call
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        finally:
            call.cancel()

    async def _open_scan(
        self, opening: scan_pb2.ScanOpen, shape: tuple[int, ...], dtype: np.dtype[Any], **options: Any
    ) -> Scan:
        if self._sync is None:
            self._sync = _Sync(self)
        return await Scan._open(self._sync, opening, shape, dtype, **options)

    def _canvas(self, opening: _wire.Parts, timeout: float | None) -> Canvas:
        return Canvas(self, opening, timeout)

    def _keep(self, frame: _frames.Resident) -> _frames.Resident:
        return frame  # it would take an await to release it

    async def _exchange(
        self, kind: _streams.Kind[T], frames: _streams.AsyncFrames, format: str | None, bits: int | None, window: int,
        timeout: float | None,
    ) -> AsyncIterator[_streams.Answer[T]]:
        encoded = _encoded(frames, lambda f: _streams.encoded(lambda f: self._encode(f, format, bits), f))
        _streams.check_window(window)
        timeout = self._seconds(timeout)
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
                        frame = await encoded.__anext__()
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
    frames: Iterable[Any] | AsyncIterable[Any], encode: Callable[[Any], T]
) -> AsyncIterator[T]:
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
