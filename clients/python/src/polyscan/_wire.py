"""Messages on their way: a frame's pixels are joined to the bytes of its message, in one copy from where they are."""

from __future__ import annotations

import enum
import functools
from typing import Any, Callable, Iterable, Union

import numpy as np
from google.protobuf import duration_pb2
from google.protobuf.message import Message

MAX_MESSAGE = (1 << 31) - 1
"""gRPC and protobuf take no larger message."""


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes or of a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


class Parts:
    """A serialised message in pieces, pixels among them, which live at least as long as this."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: list[Any], size: int) -> None:
        self.parts = parts
        self.size = size

    @classmethod
    def of(cls, data: bytes) -> "Parts":
        return cls([data], len(data))

    def inside(self, number: int) -> "Parts":
        """This message as a field of another."""
        head = varint(number << 3 | 2) + varint(self.size)
        return Parts([head, *self.parts], len(head) + self.size)

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(self.parts + other.parts, self.size + other.size)


Request = Union[Message, Parts]

_LARGEST_BLOCK = 31 << 20  # of those that glibc learns from, a little less than its limit of 32 MiB
_kept = 64 << 10  # bytes of a message whose memory the allocator keeps


def keep_memory(size: int) -> None:
    """Have the C library keep the memory of messages of this size for the next ones.

    glibc gives the end of its heap back to the system when more than twice the largest block that it has freed so far
    is idle there. A message is two blocks, the joined one and gRPC's copy, so that each call would pay for fresh pages,
    which takes longer than the copies: 2 to 4 ms of 4 MB. After one larger block, which is not written to, it keeps
    them. Programs that free an array of NumPy of such a size have the same, and other allocators are not concerned."""
    global _kept
    if size > _kept:
        _kept = size
        bytes(min(4 * size, _LARGEST_BLOCK))


def serialize(request: Request) -> bytes:
    if isinstance(request, Parts):
        if request.size > MAX_MESSAGE:
            raise ValueError(f"a message of {request.size} bytes: gRPC takes {MAX_MESSAGE}; see Client.upload_frame")
        keep_memory(request.size)
        return b"".join(request.parts)
    return request.SerializeToString()


def parser(response: type[Message]) -> Callable[[bytes], Any]:
    def parse(data: bytes) -> Message:
        keep_memory(len(data))
        return response.FromString(data)

    return parse


def duration(seconds: float | None) -> duration_pb2.Duration | None:
    if seconds is None:
        return None
    nanos = round(seconds * 1e9)
    return duration_pb2.Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def seconds(d: duration_pb2.Duration) -> float:
    return d.seconds + d.nanos / 1e9


def enum_value(wrapper: Any, prefix: str, value: str | int | None, what: str) -> Any:
    """The number of a name as users write it, such as "row-spans" for MASK_METHOD_ROW_SPANS."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, (bool, enum.Enum)):  # True would be whatever is number 1
        return value
    number = _numbers(wrapper).get(prefix + str(value).upper().replace("-", "_").removeprefix(prefix))
    if number is None:
        raise ValueError(f"{what} {value!r}: want one of {', '.join(names(wrapper, prefix))}")
    return number


@functools.cache
def _numbers(wrapper: Any) -> dict[str, int]:
    """The numbers of names; a wrapper lists all of them anew for each that it is asked for."""
    return {name: int(number) for name, number in wrapper.items()}


def names(wrapper: Any, prefix: str) -> list[str]:
    return [enum_name(wrapper, prefix, n) for n in wrapper.values() if n]


def enum_name(wrapper: Any, prefix: str, number: int) -> str:
    """The other way: "row-spans"; of a number that this version doesn't know, the number."""
    try:
        return str(wrapper.Name(number)).removeprefix(prefix).lower().replace("_", "-")
    except ValueError:
        return str(number)


def unmasked(a: Any) -> Any:
    """What was given as an array, unless NumPy would drop a mask that is to say which of its values count."""
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError(
            "a masked array: its mask would be dropped; give array.data, and what counts of a frame as a region, such as "
            "Region.mask(name, ~numpy.ma.getmaskarray(array))"
        )
    return a


def whole(values: Iterable[Any], what: str) -> list[int]:
    """Numbers as they are, or an error that names what has fractions: they would be cut off."""
    given = list(values)
    out = [int(v) for v in given]
    if out != given:
        raise ValueError(f"{what} {given}: want whole numbers; round them first, so that you decide how")
    return out


def text(value: Any, what: str) -> str:
    """A text that messages can hold."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r}: want text")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{what} {value!r}: it is no UTF-8, as names of files of other encodings aren't")
    return value


def floats(values: Iterable[float]) -> list[float]:
    return [float(v) for v in values]
