"""The client: connections, calls and streams. What can be called is in _methods.py."""

from __future__ import annotations

import os
import queue
import time
from typing import Any, Callable, Iterator, Sequence, TypeVar

import grpc
import numpy as np
from google.protobuf.message import Message

from polyscan import _calls, _connection, _errors, _frames, _scan, _streams, _watch, _wire
from polyscan._methods import Methods
from polyscan.v1 import device_pb2, monitor_pb2, scan_pb2

T = TypeVar("T")


class Client(Methods):
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
        timeout = self._seconds(timeout)
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

    def _exchange(
        self, kind: _streams.Kind[T], frames: _streams.Frames, format: str | None, bits: int | None, window: int,
        timeout: float | None,
    ) -> Iterator[_streams.Answer[T]]:
        def encode(frame: Any) -> _frames.Encoded:
            return self._encode(frame, format, bits)

        return _streams.exchange(self, kind, (_streams.encoded(encode, f) for f in frames), window, timeout)

    def _collect(
        self, method: str, response: type[Message], opening: _wire.Request | None, items: Any,
        encode: Callable[[Any], _wire.Request], timeout: float | None,
    ) -> Any:
        failed: list[BaseException] = []

        def requests() -> Iterator[_wire.Request]:  # in a thread of gRPC's
            if opening is not None:
                yield opening
            try:
                for item in items:
                    yield encode(item)
            except BaseException as e:
                failed.append(e)  # what comes of the call doesn't count then

        stub = self.channel.stream_unary(
            method, request_serializer=_wire.serialize, response_deserializer=_wire.parser(response)
        )
        timeout = self._seconds(timeout)
        try:
            answer = stub(requests(), timeout=timeout, metadata=self._token.metadata() or None)
        except grpc.RpcError as e:
            raise (failed[0] if failed else _errors.from_rpc(e)) from None
        if failed:
            raise failed[0]
        return answer

    def _open_scan(
        self, opening: scan_pb2.ScanOpen, shape: tuple[int, ...], dtype: np.dtype[Any], **options: Any
    ) -> _scan.Scan:
        return _scan.Scan(self, opening, shape, dtype, **options)

    def _canvas(self, opening: _wire.Parts, timeout: float | None) -> _streams.Canvas:
        return _streams.Canvas(self, opening, timeout)

    def _keep(self, frame: _frames.Resident) -> _frames.Resident:
        def release() -> None:
            try:
                self.release_frame(frame.name)
            except _errors.NotFound:
                pass  # it went by itself

        frame._release = release
        return frame

    def _watched(self, state: _watch.State, heartbeat: float) -> Iterator[monitor_pb2.WatchResponse]:
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
