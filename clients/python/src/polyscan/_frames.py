"""Frames: arrays, images and files become messages, and pictures become arrays."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Union

import numpy as np
import numpy.typing as npt

from polyscan._wire import Parts, enum_name, enum_value, text, unmasked, varint
from polyscan.v1 import frame_pb2, resident_pb2

if TYPE_CHECKING:
    import PIL.Image

Array = npt.NDArray[Any]

FrameLike = Union[
    Array, "PIL.Image.Image", bytes, bytearray, memoryview, str, "os.PathLike[str]", "Frame", "Resident",
    frame_pb2.Frame,
]  # fmt: skip
"""What calls take as a frame: an array of height x width (x 1, 3 or 4) of uint8, or height x width of uint16; an
image of Pillow; the bytes of an image file, or its path; a Frame, which says more; a frame that the server keeps."""

GRAY8, GRAY16LE = frame_pb2.PIXEL_FORMAT_GRAY8, frame_pb2.PIXEL_FORMAT_GRAY16LE
RGB8, BGR8, RGBA8 = frame_pb2.PIXEL_FORMAT_RGB8, frame_pb2.PIXEL_FORMAT_BGR8, frame_pb2.PIXEL_FORMAT_RGBA8

CHANNELS: dict[int, int] = {GRAY8: 1, GRAY16LE: 1, RGB8: 3, BGR8: 3, RGBA8: 4}
_FORMATS: dict[str, int] = {
    "gray": GRAY8, "gray8": GRAY8, "gray16": GRAY16LE, "gray16le": GRAY16LE,
    "rgb": RGB8, "rgb8": RGB8, "bgr": BGR8, "bgr8": BGR8, "rgba": RGBA8, "rgba8": RGBA8,
}  # fmt: skip
_BITS = (8, 10, 12, 14, 16)


def _pixel_bits(number: int) -> int:
    """How many bits of a row a pixel takes that a camera sends, in one number or packed; 0 for other formats."""
    name = frame_pb2.PixelFormat.Name(number)  # type: ignore[arg-type]
    if name.startswith("PIXEL_FORMAT_YUV422"):
        return 16
    if not name.startswith(("PIXEL_FORMAT_BAYER_", "PIXEL_FORMAT_MONO")):
        return 0
    return next(bits for end, bits in (("16LE", 16), ("10P", 10), ("12P", 12), ("8", 8)) if name.endswith(end))


def _wide(number: int) -> bool:
    """Whether samples are of 16 bits of which fewer may be used."""
    return number == GRAY16LE or CHANNELS.get(number) is None and frame_pb2.PixelFormat.Name(number).endswith("16LE")  # type: ignore[arg-type]


Place = Callable[[Array], "tuple[int, int] | None"]
"""Finds the lease and the offset of an array's first byte in shared memory; None where it lies elsewhere."""


Ids = dict[str, Any]  # frame_id and part_id of a message


class Resident:
    """A frame that the server keeps. Calls take it like any other frame, and nothing is sent.

    name is the server's, message all that it said. With `with`, it is released at the end.
    """

    def __init__(self, name: str, message: Any = None, release: Callable[[], None] | None = None) -> None:
        self.name = name
        self.message = message
        self._release = release

    def release(self) -> None:
        """Let the server forget it. Calls that use it finish. Again does nothing."""
        release, self._release = self._release, None
        if release:
            release()

    def __enter__(self) -> Resident:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Resident({self.name!r})"


def resident_name(frame: Any, what: str) -> str:
    """The name of a frame that the server keeps."""
    if isinstance(frame, (Resident, resident_pb2.ResidentFrame)):
        return frame.name
    if not isinstance(frame, str):
        raise TypeError(
            f"{what} of type {type(frame).__name__}: want a frame that the server keeps, as client.put_frame returns it, or "
            "its name"
        )
    return frame


class Frame:
    """A frame, and what its pixels alone don't say.

    format is "rgb" (the default) or "bgr" for three samples a pixel; "bayer_rg8" and its like for arrays of uint8, and
    "bayer_rg16le" for those of uint16, whose pixels have one colour each. The others, packed and YUV, are raw bytes.
    demosaic says how colours of Bayer are interpolated: "bilinear" (the default) or "malvar_he_cutler". bits is how many
    of the low bits of a uint16 are used: 10, 12, 14 or 16, the default. id is the caller's own name of the frame, and comes back in the result, as does
    part_id, the serial number of the part that it shows, which others see. size,
    (width, height), and format, with stride where rows are longer than their pixels, say what raw bytes are; bytes
    without a size are an image file.
    """

    __slots__ = ("bits", "demosaic", "format", "id", "part_id", "size", "source", "stride", "__weakref__")

    def __init__(
        self,
        source: FrameLike,
        *,
        format: str | None = None,
        bits: int | None = None,
        id: str = "",
        part_id: str = "",
        size: tuple[int, int] | None = None,
        stride: int = 0,
        demosaic: str | None = None,
    ) -> None:
        if isinstance(source, (Frame, frame_pb2.Frame)):
            raise TypeError(f"Frame of a {type(source).__name__}: it says its format itself")
        self.source = source
        self.format = format
        self.bits = bits
        self.id = id
        self.part_id = part_id
        self.size = size
        self.stride = stride
        self.demosaic = demosaic
        if stride and not size:
            raise ValueError(f"stride {stride}: only raw bytes with a size have one; arrays have strides of their own")

    def __repr__(self) -> str:
        return f"Frame({type(self.source).__name__}, format={self.format!r}, bits={self.bits!r}, id={self.id!r})"


class Encoded:
    """A frame as the server takes it: the serialised message but for its pixels, and those."""

    __slots__ = ("array", "error", "head", "kept", "original", "pixels")

    def __init__(self, head: bytes, pixels: list[Any], original: Any, array: Array | None = None) -> None:
        self.head = head
        self.pixels = pixels  # buffers in order; empty where the message says it all
        self.original = original  # what the user gave: keeps the memory, and is what overlays are drawn on
        self.array = array  # raw pixels that are not in shared memory
        self.kept: Any = None  # what has to live until the server has answered
        self.error: Exception | None = None  # why it stands for a frame that can't be used

    def parts(self) -> Parts:
        size = sum(memoryview(p).nbytes for p in self.pixels)
        if not self.pixels:
            return Parts.of(self.head)
        tag = varint(15 << 3 | 2) + varint(size)
        return Parts([self.head, tag, *self.pixels], len(self.head) + len(tag) + size)

    def message(self) -> frame_pb2.Frame:
        return frame_pb2.Frame.FromString(b"".join(self.parts().parts))


def encode(
    frame: FrameLike, place: Place | None = None, *, format: str | None = None, bits: int | None = None, id: str = "",
    part_id: str = "",
) -> Encoded:
    """Make a frame what the server takes. place finds memory that the server maps."""
    if isinstance(frame, Frame) and frame.demosaic:
        plain = Frame(frame.source, format=frame.format, bits=frame.bits, id=frame.id, part_id=frame.part_id,
                      size=frame.size, stride=frame.stride)  # fmt: skip
        encoded = encode(plain, place, format=format, bits=bits, id=id, part_id=part_id)
        head = frame_pb2.Frame.FromString(encoded.head)
        head.layout.demosaic = enum_value(frame_pb2.Demosaic, "DEMOSAIC_", frame.demosaic, "demosaic")
        encoded.head = head.SerializeToString()
        return encoded
    original: Any = frame
    source: Any = frame
    size, stride = None, 0
    if isinstance(frame, Frame):
        source = original = frame.source
        format, bits = format or frame.format, bits or frame.bits
        id, part_id = id or frame.id, part_id or frame.part_id
        size, stride = frame.size, frame.stride
    ids: Ids = {"frame_id": text(id, "id"), "part_id": text(part_id, "part_id")}
    if isinstance(source, frame_pb2.Frame):
        if format or bits or id or part_id:
            raise TypeError("a message of a frame says itself what its format, bits, id and part_id are")
        return Encoded(source.SerializeToString(), [], original)
    if isinstance(source, Resident):
        return Encoded(frame_pb2.Frame(resident=source.name, **ids).SerializeToString(), [], original)
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as f:
            source = f.read()
    if size is not None:
        return _raw_bytes(source, size, stride, format, bits, ids, original, place)
    if isinstance(source, memoryview) and source.ndim > 1:
        source = np.asarray(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _file(source, format, bits, ids, original)
    if _is_pillow(source):
        source = _from_pillow(source)
    elif not isinstance(source, np.ndarray):
        if not (hasattr(source, "__array_interface__") or hasattr(source, "__array__")):
            raise TypeError(
                f"a frame of type {type(source).__name__}: want a NumPy array, an image of Pillow, the bytes of an "
                "image file or its path"
            )
        source = np.asarray(source)
    return _array(source, format, bits, ids, original, place)


def unusable(frame: Any, error: Exception) -> Encoded:
    """What stands in a stream for a frame that can't be used: an empty one, which the server refuses. So answers keep
    their order, and those who watch the server see that a part of this name didn't pass."""
    ids: Ids = {}
    if isinstance(frame, Frame):
        ids = {"frame_id": _shown(frame.id), "part_id": _shown(frame.part_id)}
        frame = frame.source
    out = Encoded(frame_pb2.Frame(**ids).SerializeToString(), [], frame)
    out.error = error
    return out


def _shown(value: Any) -> str:
    """What can be said of an id that may be none."""
    return str(value).encode("utf-8", "replace").decode()


def layout_text(layout: frame_pb2.FrameLayout) -> str:
    """The size of a frame, and what its pixels are."""
    return f"{layout.width}x{layout.height} {enum_name(frame_pb2.PixelFormat, 'PIXEL_FORMAT_', layout.pixel_format)}"


def _layout(width: int, height: int, number: Any, stride: int, bits: int | None) -> frame_pb2.FrameLayout:
    own = _pixel_bits(number)
    if bits is not None and (bits not in _BITS or (bits == 8) != (not _wide(number))) and bits != own:
        raise ValueError(f"bits {bits}: want 10, 12, 14 or 16 for uint16, and {own or 8} for others")
    return frame_pb2.FrameLayout(
        width=width, height=height, pixel_format=number, stride=stride, significant_bits=bits or 0
    )


def _file(data: Any, format: str | None, bits: int | None, ids: Ids, original: Any) -> Encoded:
    layout = None
    if format or bits:
        layout = frame_pb2.FrameLayout(pixel_format=_number(format or "unspecified"), significant_bits=bits or 0)
    m = frame_pb2.Frame(encoding=frame_pb2.ENCODING_AUTO, **ids, layout=layout)
    return Encoded(m.SerializeToString(), [data], original)


def _number(format: str) -> Any:
    number = _FORMATS.get(format.lower())
    if number is None:
        number = enum_value(frame_pb2.PixelFormat, "PIXEL_FORMAT_", format, "format")
    return number


def _raw_bytes(
    source: Any, size: tuple[int, int], stride: int, format: str | None, bits: int | None, ids: Ids, original: Any,
    place: Place | None,
) -> Encoded:  # fmt: skip
    width, height = size
    if format is None:
        raise ValueError("raw bytes: format is missing, such as \"gray\"")
    number = _number(format)
    sample = 2 if _wide(number) else 1
    coded = number not in CHANNELS
    row = (width * _pixel_bits(number) + 7) // 8 if coded else width * CHANNELS[number] * sample
    stride = stride or row
    if width < 1 or height < 1 or stride < row:
        raise ValueError(f"raw bytes: {width}x{height} with a stride of {stride}: a row takes {row}")
    data = np.frombuffer(source, np.uint8)
    need = stride * (height - 1) + row
    if data.size not in (need, stride * height):
        raise ValueError(f"raw bytes: {data.size} of them: {width}x{height} with a stride of {stride} takes {need}")
    if coded:
        rows: Array = np.lib.stride_tricks.as_strided(data, shape=(height, row), strides=(stride, 1))
        return _rows(rows, width, number, bits, ids, original, place)
    shape = (height, width, CHANNELS[number]) if CHANNELS[number] > 1 else (height, width)
    strides = (stride, CHANNELS[number] * sample, sample)[: len(shape)]
    array: Array = np.lib.stride_tricks.as_strided(data.view(), shape=shape, strides=strides) if sample == 1 else (
        np.ndarray(shape, "<u2", data, 0, strides)
    )
    return _array(array, format, bits, ids, original, place)


def _array(
    a: Array, format: str | None, bits: int | None, ids: Ids, original: Any, place: Place | None
) -> Encoded:
    number = array_format(unmasked(a), format)
    if a.ndim == 3 and a.shape[2] == 1:
        a = a[:, :, 0]
    height, width = a.shape[:2]
    if width < 1 or height < 1:
        raise ValueError(f"a frame of {width}x{height} pixels")
    if a.dtype == np.dtype(">u2"):
        a = a.astype("<u2")
    return _rows(a, width, number, bits, ids, original, place)


def _rows(a: Array, width: int, number: int, bits: int | None, ids: Ids, original: Any, place: Place | None) -> Encoded:
    """An array whose rows are those of a frame: samples, or bytes of what cameras send."""
    height = a.shape[0]
    found = place(a) if place else None
    if found and row_strides(a):
        lease, offset = found
        stride = a.strides[0] if height > 1 else 0
        row = int(np.prod(a.shape[1:])) * a.itemsize
        m = frame_pb2.Frame(
            encoding=frame_pb2.ENCODING_RAW,
            **ids,
            layout=_layout(width, height, number, stride if stride != row else 0, bits),
            shared=frame_pb2.SharedPixels(
                lease_id=lease, offset=offset, length=stride * (height - 1) + row
            ),
        )
        return Encoded(m.SerializeToString(), [], original)
    m = frame_pb2.Frame(
        encoding=frame_pb2.ENCODING_RAW, **ids, layout=_layout(width, height, number, 0, bits)
    )
    return Encoded(m.SerializeToString(), _buffers(a), original, a)


def array_format(a: Array, format: str | None) -> int:
    """The pixel format of an array, which must fit the one that is named, if any."""
    number = _number(format) if format else 0
    what = f"an array of {'x'.join(map(str, a.shape))} {a.dtype}"
    channels = 1 if a.ndim == 2 else a.shape[2] if a.ndim == 3 else 0
    if a.dtype == np.uint8 and channels in (1, 3, 4):
        number = number or {1: GRAY8, 3: RGB8, 4: RGBA8}[channels]
        if _wide(number) or CHANNELS.get(number, _pixel_bits(number) // 8) != channels or _pixel_bits(number) > 8:
            raise ValueError(f"{what}: it has {channels} samples a pixel, which is no {format}")
        return number
    if a.dtype in (np.dtype("<u2"), np.dtype(">u2")) and channels == 1:
        if number and not _wide(number):
            raise ValueError(f"{what}: it is gray of 16 bits, which is no {format}")
        return number or GRAY16LE
    raise TypeError(
        f"{what}: a frame is height x width, or height x width x 3 or 4, of uint8, or height x width of uint16; convert"
        " it first, so that you decide how values are scaled"
    )


def row_strides(a: Array) -> bool:
    """Whether rows lie as the protocol can say it: samples beside each other, rows downwards."""
    inner = a.shape[2] if a.ndim == 3 else 1
    return (
        (a.ndim == 2 or a.strides[2] == a.itemsize or inner == 1)
        and (a.shape[1] == 1 or a.strides[1] == inner * a.itemsize)
        and (a.shape[0] == 1 or inner * a.itemsize * a.shape[1] <= a.strides[0] < 1 << 31)
    )


def _buffers(a: Array) -> list[Any]:
    """The rows of an array as buffers that b"".join copies: all in one where there is no gap, else one for each row."""
    if a.flags.c_contiguous:
        return [a.reshape(-1).view(np.uint8)]
    if row_strides(a) and a.shape[1] > 1:
        return [row.reshape(-1).view(np.uint8) for row in a]
    return [np.ascontiguousarray(a).reshape(-1).view(np.uint8)]


def _is_pillow(source: Any) -> bool:
    pillow: Any = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(source, pillow.Image)


def _from_pillow(image: Any) -> Array:
    if image.getexif().get(274, 1) not in (0, 1):
        raise ValueError("an image that is to be turned or mirrored (EXIF's orientation): see PIL.ImageOps.exif_transpose")
    if getattr(image, "n_frames", 1) > 1:
        raise ValueError(f"an image of {image.n_frames} frames or pages: a frame is one picture")
    if image.mode in ("1", "P", "LA", "PA"):
        transparent = image.mode.endswith("A") or "transparency" in image.info
        image = image.convert("L" if image.mode == "1" else "RGBA" if transparent else "RGB")
    if image.mode not in ("L", "RGB", "RGBA", "I;16", "I;16L", "I;16B"):
        raise TypeError(f"an image of Pillow's mode {image.mode}: want L, RGB, RGBA or I;16; one of 16 bits is np.asarray(image).astype(np.uint16)")
    return np.asarray(image)


def picture(message: frame_pb2.Frame) -> Array:
    """A raw picture of the server's as an array that can't be written to; of another encoding, its bytes."""
    if message.encoding != frame_pb2.ENCODING_RAW:
        return np.frombuffer(message.data, np.uint8)
    layout = message.layout
    sample = np.dtype("<u2") if layout.pixel_format == GRAY16LE else np.dtype(np.uint8)
    channels = CHANNELS[layout.pixel_format]
    shape = (layout.height, layout.width, channels) if channels > 1 else (layout.height, layout.width)
    row = layout.width * channels * sample.itemsize
    strides = (layout.stride or row, channels * sample.itemsize, sample.itemsize)[: len(shape)]
    a: Array = np.ndarray(shape, sample, message.data, 0, strides)
    return a


def pixels_for_overlay(original: Any, bgr: bool) -> Any:
    """An 8-bit image of Pillow of what the user gave as a frame; None where there is none to show."""
    import io

    import PIL.Image

    if isinstance(original, (str, os.PathLike)):
        return PIL.Image.open(os.fspath(original))
    if isinstance(original, (bytes, bytearray)):
        return PIL.Image.open(io.BytesIO(original))
    if _is_pillow(original):
        return original
    if not isinstance(original, np.ndarray):
        return None
    a = original
    if a.dtype.itemsize == 2:
        a = (a >> max(0, int(a.max(initial=1)).bit_length() - 8)).astype(np.uint8)
    if bgr:
        a = a[:, :, ::-1]
    return PIL.Image.fromarray(np.ascontiguousarray(a))

