"""Connections: addresses, transport security, tokens, and the options that large frames need."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers
import os
import random
from typing import Any, Callable, ClassVar, Generic, Iterator, Sequence, TypeVar

import grpc
from google.protobuf.message import Message

from polyscan import _errors, _wire

T = TypeVar("T")

DEFAULT_PORT = 7465
REACHED = "/polyscan.v1.DeviceService/GetDevice"
"""The method that tells whether a server is there: its request is empty, and it costs nothing."""
DEFAULT_TIMEOUT = 30.0
"""Seconds that a call may take, with its retries, unless it is told otherwise."""

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A server that comes back is found soon. (min_ is how long an attempt may take at least.)
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Channels of one address don't share a connection: closing one leaves nothing behind.
    ("grpc.use_local_subchannel_pool", 1),
    # A call that fails is tried again here, where it is safe.
    ("grpc.enable_retries", 0),
]


@dataclasses.dataclass(frozen=True)
class Call(Generic[T]):
    """A unary call: what to send, and what to make of the answer."""

    method: str
    request: _wire.Request
    response: type[Message]
    convert: Callable[[Any], T]
    safe: bool = True
    """Whether it may be sent again where it isn't known if the server has done it."""


def seconds(timeout: Any) -> float | None:
    """A timeout as users give it; None for no bound."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, numbers.Real)):
        raise TypeError(f"timeout {timeout!r}: want a number of seconds, such as 5")
    if timeout is not None and math.isnan(timeout):
        raise ValueError("timeout nan: want a number of seconds, such as 5")
    return None if timeout is None else float(timeout)


@dataclasses.dataclass(frozen=True)
class TLS:
    """Files of certificates in PEM. ca signed the server's (default: those of the system); cert and key are the
    client's own; server_name is the name in the server's certificate, where it isn't the host."""

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.cert is None) != (self.key is None):
            raise ValueError(
                "TLS: the certificate of the client and its key are given by two files, and one is missing")
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.cert))


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as f:
        return f.read()


@dataclasses.dataclass(frozen=True)
class Target:
    """Where a server is and how to reach it."""

    address: str
    local: bool
    tls: TLS | None
    options: Sequence[tuple[str, Any]]

    def arguments(self) -> list[tuple[str, Any]]:
        out = [*OPTIONS, *self.options]
        if self.tls and self.tls.server_name:
            out.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return out

    def channel(self) -> grpc.Channel:
        if self.tls:
            return grpc.secure_channel(self.address, self.tls.credentials(), self.arguments())
        return grpc.insecure_channel(self.address, self.arguments())


def target(
    address: str, tls: TLS | bool | None, token: bool, plain_text_token: bool, options: Sequence[tuple[str, Any]]
) -> Target:
    full, local = resolve(address)
    if not isinstance(tls, (TLS, bool, type(None))):
        raise TypeError(f"tls of type {type(tls).__name__}: want True, or TLS(...) with the files of certificates")
    if tls is True:
        tls = TLS()
    out = Target(full, local, tls or None, options)
    if token and not out.tls and not local and not plain_text_token:
        raise ValueError(f"{address}: a token would travel in plain text; use tls=")
    return out


def resolve(address: str) -> tuple[str, bool]:
    """Complete an address, and say whether it names this machine."""
    if not isinstance(address, str):
        raise TypeError(f"address {address!r}: want host:port as text, such as \"localhost:{DEFAULT_PORT}\"")
    if address.startswith(("unix:", "unix-abstract:")):
        return address, True
    scheme, found, rest = address.partition("://")
    if found:
        if scheme in ("dns", "ipv4", "ipv6", "xds"):
            return address, False
        hint = ", with tls=True" if scheme == "https" else ""
        raise ValueError(f"{address}: want host:port without {scheme}://{hint}, such as {rest.rstrip('/')}")
    host, port = _split(address)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{address}: the port {port!r}: want a number from 1 to 65535")
    local = host in ("localhost", "::1") or host.startswith("127.")
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), local


def _split(address: str) -> tuple[str, str]:
    if not address:
        raise ValueError("no address: want host:port")
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return host, rest[1:] if rest.startswith(":") else str(DEFAULT_PORT)
    if address.count(":") > 1:
        return address, str(DEFAULT_PORT)  # an IPv6 address without a port
    host, colon, port = address.partition(":")
    return host or "localhost", port if colon else str(DEFAULT_PORT)


def _check_token(token: str, where: str) -> None:
    """Refuse a token that no header can hold, before gRPC does, whose error and log show it."""
    if not token:
        raise ValueError(f"{where}: it is empty")
    if not all(" " < c <= "~" for c in token):
        raise ValueError(f"{where}: a token is printable ASCII without spaces and ends of lines")


class Token:
    """A bearer token, or the file that it is in, which is looked at again every few seconds."""

    LIFETIME = 5.0  # seconds that a replaced token may go on being sent

    def __init__(self, token: str | None, path: str | os.PathLike[str] | None, clock: Callable[[], float]) -> None:
        if token is not None and path is not None:
            raise TypeError("want either token or token_file")
        if token is not None:
            if not isinstance(token, str):
                raise TypeError(f"token of type {type(token).__name__}: want text")
            _check_token(token, "token")
        self._token, self._path, self._clock, self._until = token, path, clock, float("-inf")
        self.given = token is not None or path is not None
        self.metadata()

    def metadata(self) -> list[tuple[str, str]]:
        if self._path is not None and self._clock() >= self._until:
            self._token, self._until = self._first_line(), self._clock() + self.LIFETIME
        return [("authorization", f"Bearer {self._token}")] if self._token else []

    def _first_line(self) -> str:
        assert self._path is not None
        with open(self._path, encoding="utf-8", errors="surrogateescape") as f:  # errors of decoding show the token
            for line in map(str.strip, f):
                if line and not line.startswith(("#", "certificate=")):
                    token, *settings = line.split()
                    if all("=" in s for s in settings):  # a server's file says there whose token it is
                        line = token
                    _check_token(line, os.fspath(self._path))
                    return line
        raise ValueError(f"{os.fspath(self._path)}: no token in it")


class Life:
    """How long a client may be used: until it is closed, and in its own process. With a fork of that it shares the
    connection and the slots of shared memory, which both would write to."""

    _first: ClassVar[int | None] = None  # process that has made a client

    def __init__(self) -> None:
        self._process = os.getpid()
        self.closed = False
        first = Life._first = Life._first or self._process
        if first != self._process and os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "0").lower() in ("0", "false", ""):
            raise RuntimeError(
                "gRPC was at work in the process that this one was forked from, and calls could wait for ever: start "
                'processes with multiprocessing.set_start_method("spawn"), or set GRPC_ENABLE_FORK_SUPPORT=1'
            )

    def check(self) -> None:
        if self.closed:
            raise RuntimeError("the client is closed")
        if os.getpid() != self._process:
            raise RuntimeError(
                "the client belongs to the process that this one was forked from: connect in the process that calls"
            )


def reconnect(channel: grpc.Channel, metadata: list[tuple[str, str]], seconds: float | None) -> Any:
    """Start a call that waits for the connection, for so many seconds, and whose answer nobody needs. It may be
    cancelled.

    gRPC's sync channels only see to a connection while a call waits for it, and calls don't wait for one that has
    failed. An attempt to connect that nobody sees to ends when its time is over, and so does the next one, however long
    the server has been back: so whoever waits to try again has this call wait, too."""
    return channel.unary_unary(REACHED).future(b"", timeout=seconds, metadata=metadata or None, wait_for_ready=True)


@contextlib.contextmanager
def reconnecting(channel: grpc.Channel, metadata: list[tuple[str, str]]) -> Iterator[None]:
    """A pause, in which the channel connects anew."""
    call = reconnect(channel, metadata, None)
    try:
        yield
    finally:
        call.cancel()


class Retry:
    """When a call that failed is tried again: the server is not there, or has no room and says when it may have; and
    the call's time isn't over. What has changed something is only tried again where the server has not begun with
    it."""

    FIRST, LONGEST = 0.05, 2.0

    def __init__(self, safe: bool, deadline: float | None, clock: Callable[[], float]) -> None:
        self._safe, self._deadline, self._clock, self._pause = safe, deadline, clock, self.FIRST

    def left(self) -> float | None:
        """Seconds for the next attempt; None for no bound."""
        if self._deadline is None:
            return None
        left = self._deadline - self._clock()
        if left <= 0:
            raise _errors.DeadlineExceeded("no time is left for the call")
        return left

    def pause(self, error: Any) -> float | None:
        """Seconds to wait before the next attempt; None where there is none to be."""
        wait = self._pause * (0.5 + random.random())
        if error.code == "RESOURCE_EXHAUSTED" and error.retry_after is not None:
            wait = max(wait, error.retry_after)  # the server has refused it, so nothing has been done
        elif not (error.code == "UNAVAILABLE" and self._safe):
            return None
        self._pause = min(2 * self._pause, self.LONGEST)
        return None if self._deadline is not None and self._clock() + wait >= self._deadline else wait
