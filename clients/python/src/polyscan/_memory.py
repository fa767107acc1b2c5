"""Shared memory: arrays that live where the server reads them.

The server leases memory over a call that stays open, and hands over a file descriptor through a unix socket
(docs/sharedmemory.md). A lease is cut into slots of one size; arrays are views of slots, and a slot comes round again
when nobody has a view of it any more.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import threading
import weakref
from typing import Any, Callable

import grpc
import numpy as np
import numpy.typing as npt

from polyscan import _connection, _errors
from polyscan.v1 import sharedmemory_pb2

Array = npt.NDArray[Any]

METHOD = "/polyscan.v1.SharedMemoryService/Lease"
_SLOTS = 4  # of a lease, unless they are large
_LEASE_BYTES = 64 << 20  # beyond which a lease has a slot only
_F_GET_SEALS, _F_SEAL_SHRINK = 1034, 2  # Linux's; Python names them from 3.10 on, in fcntl
_REFUSALS = {
    1: "the token is not known there (any more): the server must run on this host",
    2: f"the server must be told to allow user id {os.geteuid() if hasattr(os, 'geteuid') else '?'} (--shm-allow-uid)",
}


class LeaseEnded(_errors.Error, ConnectionError):
    """The lease of shared memory is over: the server has gone, or has taken it back."""

    code = "UNAVAILABLE"


class Lease:
    """Memory that the server has leased to this process, cut into slots."""

    def __init__(
        self, channel: grpc.Channel, metadata: list[tuple[str, str]], slots: int, slot_bytes: int, timeout: float
    ) -> None:
        self.slot_bytes = slot_bytes
        self.apart = -(-slot_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.slots = slots
        size = slots * self.apart
        lease = channel.unary_stream(
            METHOD,
            request_serializer=sharedmemory_pb2.LeaseRequest.SerializeToString,
            response_deserializer=sharedmemory_pb2.LeaseResponse.FromString,
        )
        self._call: Any = lease(sharedmemory_pb2.LeaseRequest(bytes=size), metadata=metadata)
        give_up = threading.Timer(timeout, self._call.cancel)
        give_up.daemon = True
        give_up.start()
        try:
            answer = next(self._call)
            self._socket, self._map = _fetch(answer.socket_path, answer.token, size, timeout)
        except grpc.RpcError as e:
            raise _errors.from_rpc(e) from None
        except StopIteration:
            raise LeaseEnded("the server ended the lease without an answer") from None
        except BaseException:
            self._call.cancel()
            raise
        finally:
            give_up.cancel()
        self.id = int(answer.lease_id)
        self.address = np.frombuffer(self._map, np.uint8, 1).__array_interface__["data"][0]
        self.end = self.address + size
        self.lock = threading.Lock()
        self.free = list(range(slots))

    @property
    def ended(self) -> bool:
        return not self._call.is_active()

    def kept(self) -> bool:
        """Whether the slots of a lease that is over still hold what was written there: copy first, then ask."""
        try:
            return len(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) == 0
        except BlockingIOError:
            return True
        except OSError:
            return True

    def take(self) -> int | None:
        with self.lock:
            return self.free.pop() if self.free else None

    def give(self, i: int) -> None:
        with self.lock:
            self.free.append(i)

    def bytes(self, i: int) -> memoryview:
        return memoryview(self._map)[i * self.apart : i * self.apart + self.slot_bytes]

    def close(self) -> None:
        """End the lease. Arrays that are still there keep the pages, which the server doesn't read any more."""
        self._call.cancel()
        self._socket.close()


class _Slot:
    """The owner of an array's memory: when the last view is gone, the slot comes round again."""

    def __init__(self, lease: Lease, i: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._lease = lease  # keeps the mapping
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str, "data": (lease.address + i * lease.apart, False),
        }  # fmt: skip
        weakref.finalize(self, lease.give, i).atexit = False


def _fetch(path: str, token: bytes, size: int, timeout: float) -> tuple[socket.socket, mmap.mmap]:
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    conn.settimeout(timeout)
    try:
        try:
            conn.connect(path)
            try:
                conn.sendall(token)
            except BrokenPipeError:
                pass  # a server that refuses the user doesn't wait for it; the answer says so
            answer, fds, _, _ = socket.recv_fds(conn, 1, 1)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"shared memory: {path}: there is no such socket here: the server must run on this host and, in a "
                "container, share the socket's folder under the same path"
            ) from None
        try:
            if len(answer) != 1 or answer[0] != 0 or len(fds) != 1:
                code = answer[0] if answer else None
                raise PermissionError(f"shared memory: {path}: {_REFUSALS.get(code or 0, f'refused with {code}')}")
            if not fcntl.fcntl(fds[0], _F_GET_SEALS) & _F_SEAL_SHRINK or os.fstat(fds[0]).st_size < size:
                raise OSError(f"shared memory: {path}: the memory is not sealed, or less than {size} bytes")
            conn.setblocking(False)  # for kept, which must not wait
            return conn, mmap.mmap(fds[0], size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        finally:
            for fd in fds:
                os.close(fd)
    except BaseException:
        conn.close()
        raise


class Pool:
    """The leases of a client. Methods may be called from several threads."""

    def __init__(
        self,
        life: _connection.Life,
        connect: Callable[[], grpc.Channel],
        metadata: Callable[[], list[tuple[str, str]]],
        enabled: bool | None,
        timeout: float,
    ) -> None:
        self._life = life
        self._connect = connect
        self._metadata = metadata
        self.enabled = enabled  # None: not tried yet
        self._forced = bool(enabled)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._reconnect: Any = None  # the call that waits for a connection that has failed
        self._leases: list[Lease] = []

    def channel(self) -> grpc.Channel:
        with self._lock:
            self._life.check()
            if self._channel is None:
                self._channel = self._connect()
            return self._channel

    def array(self, shape: tuple[int, ...], dtype: Any, *, force: bool = False) -> Array | None:
        """An array in shared memory, with what was there before in it. None where the server has none, or no room:
        unless force is set, then that is an error."""
        if self.enabled is False and not force:
            return None
        dtype = np.dtype(dtype)
        need = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if need < 1:
            return None
        try:
            lease, i = self._slot(need)
        except (_errors.Error, OSError) as e:
            if force or self._forced:
                raise
            if not (isinstance(e, _errors.ResourceExhausted) or self.enabled):
                self.enabled = False  # it has none for us, and won't have any later
            return None
        self.enabled = True
        return np.asarray(_Slot(lease, i, shape, dtype))

    def _slot(self, need: int) -> tuple[Lease, int]:
        size = max(mmap.PAGESIZE, 1 << (need - 1).bit_length())
        size = -(-need // (size // 8)) * (size // 8)  # at most an eighth more than is needed, so that sizes recur
        channel = self.channel()
        with self._lock:
            self._life.check()
            for lease in self._leases[:]:
                if lease.ended:
                    self._leases.remove(lease)
                    lease.close()
                elif lease.slot_bytes == size:
                    i = lease.take()
                    if i is not None:
                        return lease, i
            lease = self._new(channel, max(1, min(_SLOTS, _LEASE_BYTES // size)), size)
            self._leases.append(lease)
            i = lease.take()
            assert i is not None
            return lease, i

    def lease(self, slots: int, slot_bytes: int) -> Lease:
        """A lease for one user, who closes it."""
        return self._new(self.channel(), slots, slot_bytes)

    def _new(self, channel: grpc.Channel, slots: int, slot_bytes: int) -> Lease:
        try:
            return Lease(channel, self._metadata(), slots, slot_bytes, self._timeout)
        except _errors.Unavailable:
            if self._reconnect is None or self._reconnect.done():
                self._reconnect = _connection.reconnect(channel, self._metadata(), self._timeout)
            raise

    def place(self, a: Array) -> tuple[int, int] | None:
        """The lease that an array lies in, and its offset there."""
        address = a.__array_interface__["data"][0]
        for lease in self._leases:
            if lease.address <= address < lease.end:
                if lease.ended:
                    return None  # it travels instead
                return lease.id, address - lease.address
        return None

    def close(self) -> None:
        with self._lock:
            self._life.closed = True
            leases, self._leases = self._leases, []
            channel, self._channel = self._channel, None
        for lease in leases:
            lease.close()
        if channel is not None:
            channel.close()
