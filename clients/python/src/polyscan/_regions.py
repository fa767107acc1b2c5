"""Regions: polygons as users have them become messages."""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Iterable as IterableABC
from functools import cached_property
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from polyscan import _errors, _frames, _wire
from polyscan.v1 import columns_pb2, frame_pb2, inspection_pb2, recipe_pb2, region_pb2


class Region:
    """A region of interest: a polygon and its holes, with a name and limits.

    polygon is pairs of x and y in pixels, as a list or an array of n x 2. Pixels are inside by their centres, which lie
    at half pixels. holes are polygons, too; with the fill rule "evenodd", which a region with holes gets, each may turn
    either way. limits are sentences such as "mean in [35, 75]"; all must hold for a PASS. reference is what the region's
    distribution is compared with: the name of another region, or counts of samples by value, such as a histogram, one
    for all channels or one row for each.
    """

    __slots__ = ("message",)

    def __init__(
        self,
        name: str,
        polygon: Any,
        *holes: Any,
        limits: str | Iterable[str] = (),
        fill: str | None = None,
        reference: str | Any = None,
    ) -> None:
        self.message = region_pb2.Region(
            name=_wire.text(name, "region"),
            rings=[_ring(r, name) for r in (polygon, *holes)],
            fill_rule=_fill(fill or ("evenodd" if holes else "nonzero")),
            limits=_limits(limits, name),
            reference=_reference(reference),
        )

    @classmethod
    def rectangle(
        cls, name: str, x0: float, y0: float, x1: float, y1: float, *, limits: str | Iterable[str] = ()
    ) -> Region:
        return cls(name, [(x0, y0), (x1, y0), (x1, y1), (x0, y1)], limits=limits)

    @classmethod
    def mask(
        cls,
        name: str,
        pixels: Any,
        *,
        at: Sequence[int] = (0, 0),
        limits: str | Iterable[str] = (),
        reference: str | Any = None,
    ) -> Region:
        """A region of the pixels of an array of height x width that are not 0, whose first is pixel at = (x, y) of
        frames: a mask, or labels == 7. Or of those that are not black of an image file, by its path or its bytes, or of
        a frame that the server keeps: the server finds them."""
        if isinstance(pixels, (str, os.PathLike, bytes, bytearray, _frames.Frame, _frames.Resident)):
            x, y = _wire.whole(at, "at")
            return cls.from_message(
                region_pb2.Region(
                    name=_wire.text(name, "region"),
                    mask=region_pb2.Mask(
                        image=region_pb2.MaskImage(frame=_frames.encode(pixels).message(), x=x, y=y)
                    ),
                    fill_rule=_fill("nonzero"),
                    limits=_limits(limits, name),
                    reference=_reference(reference),
                )
            )
        return cls._of_runs(name, _runs(pixels, at), limits=limits, reference=reference)

    @classmethod
    def shape(
        cls, name: str, shape: str, *, limits: str | Iterable[str] = (), reference: str | Any = None
    ) -> Region:
        """A region that is made of others of the same call by their names, and of circles and rectangles, such as
        'band of "U7" inwards 4 px - circle(30, 40, 5)'."""
        return cls.from_message(
            region_pb2.Region(
                name=_wire.text(name, "region"), shape=shape, fill_rule=_fill("nonzero"), limits=_limits(limits, name),
                reference=_reference(reference),
            )
        )

    @classmethod
    def _of_runs(
        cls, name: str, runs: Any, *, limits: str | Iterable[str] = (), reference: str | Any = None
    ) -> Region:
        return cls.from_message(
            region_pb2.Region(
                name=_wire.text(name, "region"),
                mask=region_pb2.Mask(runs=np.asarray(runs, np.int32).ravel().tolist()),
                fill_rule=_fill("nonzero"),
                limits=_limits(limits, name),
                reference=_reference(reference),
            )
        )

    @classmethod
    def from_message(cls, message: region_pb2.Region) -> Region:
        self = cls.__new__(cls)
        self.message = message
        return self

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def limits(self) -> list[str]:
        return list(self.message.limits)

    @property
    def rings(self) -> list[Any]:
        """Arrays of n x 2."""
        return [np.array(r.xy).reshape(-1, 2) for r in self.message.rings]

    @property
    def runs(self) -> Any:
        """An array of n x 3, y, x0 and x1 of each run of a mask; None of a region of rings, and of an image."""
        m = self.message.mask
        if not self.message.HasField("mask") or m.HasField("image"):
            return None
        return np.array(m.runs, np.int32).reshape(-1, 3)

    def __repr__(self) -> str:
        what = self.message.shape or f"{len(self.message.rings)} rings"
        if self.message.HasField("mask"):
            what = "a mask"
        return f"Region({self.name!r}, {what}, limits={self.limits!r})"


def _runs(pixels: Any, at: Sequence[int]) -> Any:
    """The runs of an array's pixels that are not 0, row by row."""
    pixels = np.asarray(_wire.unmasked(pixels))
    if pixels.ndim != 2:
        raise ValueError(f"mask: an array of {pixels.ndim} dimensions, want height x width")
    edges = np.diff(np.pad(pixels != 0, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    x, y = _wire.whole(at, "at")
    return np.stack([rows + y, starts + x, ends + x], axis=1)


RegionsLike = Union[
    "Regions", Region, region_pb2.Region, region_pb2.RegionSet, recipe_pb2.Recipe, Sequence[Any], Mapping[str, Any],
    str, "os.PathLike[str]", bytes,
]  # fmt: skip
"""What calls take as regions: Region objects; a mapping of names to polygons; polygons as lists or arrays; geometries
of shapely, or anything else with a __geo_interface__; a recipe as get_recipe and teach return it; the path or the bytes
of a file in any format that polyscan reads."""


class RegionFileError(ValueError):
    """A file of regions can't be read, or says what can't be used."""


class Regions:
    """Regions that are used again and again: they are converted and serialised once."""

    def __init__(
        self,
        message: region_pb2.RegionSet,
        *,
        warnings: Sequence[str] = (),
        file: Any = None,
        source: str = "regions",
    ) -> None:
        self.message = message
        self.warnings = list(warnings)
        self.file = file
        """What the file that they come from says, in polyscan's own format, or the recipe; None where there is none."""
        self._source = source  # what errors call that file
        self._limited = any(r.limits for r in message.regions)  # they had limits before a call gave some
        self._looked = False

    @cached_property
    def serialized(self) -> bytes:
        return self.message.SerializeToString()

    def with_limits(self, limits: str | Iterable[str] | Mapping[str, str | Iterable[str]]) -> Regions:
        """The same regions with other limits: the same for all, or those of a mapping from names."""
        out = region_pb2.RegionSet()
        out.CopyFrom(self.message)
        if isinstance(limits, Mapping):
            unknown = set(limits) - {r.name for r in out.regions}
            if unknown:
                raise KeyError(f"limits for {', '.join(sorted(unknown))}: no such region")
            chosen = [(r, limits[r.name]) for r in out.regions if r.name in limits]
        else:
            same = _limits(limits)
            chosen = [(r, same) for r in out.regions]
        for r, sentences in chosen:
            del r.limits[:]
            r.limits.extend(_limits(sentences))
        return self._as(out)

    def with_scale(self, x: float, y: float | None = None, *, origin: Sequence[float] = (0, 0)) -> Regions:
        """The same regions with millimetres per pixel, along x and y, from a place in pixels: results have areas and
        positions in mm, too, and limits may say "area >= 3 mm2"."""
        out = region_pb2.RegionSet()
        out.CopyFrom(self.message)
        out.scale.CopyFrom(scale(x, y, origin=origin))
        return self._as(out)

    def _as(self, message: region_pb2.RegionSet) -> Regions:
        made = Regions(message, warnings=self.warnings, file=self.file, source=self._source)
        made._limited = self._limited
        return made

    def look(self) -> None:
        """Refuse limits of regions that can't be in pixels, and warn of regions that nobody judges beside those that
        came with limits, as the command line does: once, however often they are used."""
        if self._looked:
            return
        self._looked = True
        if any(r.limits for r in self.message.regions):
            why = _not_pixels(self.message)
            if why:
                self._looked = False  # the next use is an error, too
                raise RegionFileError(f"{self._source}: {why}, and polyscan needs pixels")
        text = _limitless(self.message) if self._limited else ""
        if text:
            warnings.warn(f"{self._source}: {text}", _errors.InputWarning, stacklevel=4)

    def __len__(self) -> int:
        return len(self.message.regions)

    def __iter__(self) -> Iterator[Region]:
        return (Region.from_message(r) for r in self.message.regions)

    def __getitem__(self, key: str | int) -> Region:
        if isinstance(key, int):
            return Region.from_message(self.message.regions[key])
        for r in self.message.regions:
            if r.name == key:
                return Region.from_message(r)
        raise KeyError(key)

    def __repr__(self) -> str:
        return f"<{len(self)} polyscan regions>"


def _not_pixels(regions: region_pb2.RegionSet) -> str:
    """Why coordinates can't be pixels: they are from 0 to 1, or regions cover less than a pixel together, by the
    squares around them. Empty where they can, and of masks and shapes, which have pixels."""
    covered, least, most = 0.0, float("inf"), 0.0
    for r in regions.regions:
        if not r.rings:
            return ""
        xy = np.concatenate([np.array(ring.xy) for ring in r.rings]).reshape(-1, 2)
        covered += float(np.ptp(xy, axis=0).max()) ** 2 if len(xy) else 0
        least, most = min(least, *xy.ravel()), max(most, *xy.ravel())
    if 0 <= least and most <= 1:
        return "all coordinates are from 0 to 1, as shares of an image's sides are"
    return "all regions together cover less than a pixel, as if they were in degrees" if covered < 1 else ""


def _limitless(regions: region_pb2.RegionSet) -> str:
    """Which regions nobody judges though others have limits: those without any, of which no limit, shape or reference
    of another speaks. Empty for none."""
    texts = [t for r in regions.regions for t in [*r.limits, r.shape]]
    named = {name for t in texts for name in re.findall(r'"([^"]*)"', t)}
    named |= {r.reference.region for r in regions.regions}
    groups = [re.compile(re.escape(n).replace(r"\*", ".*"), re.DOTALL) for n in named if "*" in n]
    found = [r.name for r in regions.regions if not r.limits and r.name not in named]
    found = [name for name in found if not any(g.fullmatch(name) for g in groups)]
    if not found or not any(r.limits for r in regions.regions):
        return ""
    if len(found) == 1:
        return f'region "{found[0]}" has no limits, and others have: nothing that it shows can fail a part'
    some = f'{len(found)} regions, such as "{found[0]}",'
    return f"{some} have no limits, and others have: nothing that they show can fail a part"


def scale(x: float, y: float | None = None, *, origin: Sequence[float] = (0, 0)) -> region_pb2.Scale:
    if y == 0:  # which the server takes for x, as of those who don't say it
        raise ValueError("y: 0 mm per pixel: want 1e-9 to 1e9, or None for that of x")
    left, top = origin
    return region_pb2.Scale(x=x, y=x if y is None else y, origin=frame_pb2.Point(x=left, y=top))


def is_file(regions: Any) -> bool:
    """Whether these are regions that the server has to read: a file's path or bytes."""
    return isinstance(regions, (str, os.PathLike, bytes, bytearray, memoryview))


def to_regions(regions: Any) -> Regions:
    """Make regions of what isn't a file."""
    if isinstance(regions, Regions):
        return regions
    if isinstance(regions, region_pb2.RegionSet):
        return Regions(regions)
    if isinstance(regions, recipe_pb2.Recipe):
        return of_recipe(regions)
    one = isinstance(regions, (Region, region_pb2.Region)) or hasattr(regions, "__geo_interface__")
    if one or _is_polygon(regions):
        regions = [regions]
    named: Iterable[tuple[str, Any]]
    if isinstance(regions, Mapping):
        named = [("region-0", regions)] if "type" in regions else regions.items()
    else:
        try:
            named = [(f"region-{i}", r) for i, r in enumerate(regions)]
        except TypeError:
            raise TypeError(f"regions of type {type(regions).__name__}: {_WANT}") from None
    return Regions(region_pb2.RegionSet(regions=[_region(name, r) for name, r in named]))


_WANT = "want Region objects, polygons of x and y, geometries of shapely, a recipe, or a file"


def _region(name: str, r: Any) -> region_pb2.Region:
    if isinstance(r, Region):
        return r.message
    if isinstance(r, region_pb2.Region):
        return r
    geometry = getattr(r, "__geo_interface__", r if isinstance(r, Mapping) else None)
    limits: Any = ()
    if geometry is None:
        if not _is_polygon(r):
            raise TypeError(f"region {name}: {type(r).__name__}: {_WANT}")
        return Region(name, r).message
    if geometry.get("type") == "Feature":
        properties = geometry.get("properties") or {}
        name = str(properties.get("name") or geometry.get("id") or name)
        limits = _limits_of_properties(properties.get("limits") or (), name)
        for key in (properties.keys() | geometry.keys()) & _OF_RECIPES:
            raise ValueError(f"region {name}: {key} is not read of a feature: it belongs to a recipe, or to the call")
        for key in properties.keys() - {"limits"}:
            if difflib.get_close_matches(str(key).lower(), ["limits"], cutoff=0.8):
                raise ValueError(f'region {name}: the property {key!r} is not read: did you mean "limits"?')
        for key in properties.keys() - {"limits", "name", "description"}:
            value = properties[key]
            if _OF_LIMITS.search(str(key).lower()) and _structured(value):
                raise ValueError(
                    f'region {name}: the property {key!r} is not read: limits are texts under "limits", such as ["max < 100"]'
                )
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(text, str) and _LIMIT.search(text):
                    raise ValueError(
                        f'region {name}: the property {key!r} is not read, and {text!r} looks like a limit: call it "limits"'
                    )
        _no_limits(geometry, name)
        geometry = geometry.get("geometry") or {}
    _no_limits(geometry, name)
    kind = geometry.get("type")
    if kind == "Polygon":
        polygons = [geometry["coordinates"]]
    elif kind == "MultiPolygon":
        polygons = [p for p in geometry["coordinates"] if len(p)]
    else:
        raise TypeError(f"region {name}: a geometry of type {kind}: want Polygon or MultiPolygon")
    rings = [_open(ring) for polygon in polygons for ring in polygon]
    if not rings:
        raise ValueError(f"region {name}: an empty geometry")
    if len(polygons) < 2:
        return Region(name, *rings, limits=limits, fill="evenodd" if len(rings) > 1 else None).message
    # The union of polygons that may overlap: all outsides turn one way, all holes the other.
    rings = [_turned(_open(ring), i == 0) for polygon in polygons for i, ring in enumerate(polygon)]
    return Region(name, *rings, limits=limits, fill="nonzero").message


_OF_RECIPES = {"scale", "reductions", "frames", "flat_field", "drawn_on", "locate"}
# What limits are called elsewhere, and what they consist of there: quantities and ends of ranges.
_OF_LIMITS = re.compile(
    r"limits$|(^|[_ -])(limits?|requirements?|criteri(on|a)|spec(ification)?s?|tolerances?|rules?|conditions?|checks?|"
    r"asserts?|[lu]sl|constraints?|thresholds?)([_ -]|$)"
)
_STRUCTURE = re.compile(
    r"((sum|mean|variance|stddev|min|max|median|mode|distinct|count|p\d+|low|lower|high|upper|least|most|minimum|maximum|"
    r"range)([_ -](?=.)|$))+(value|limit)?"
)
_LIMIT = re.compile(r"[<>≤≥]=?\s*[-+]?\.?\d|[a-z0-9]\s+in\s*[\[(]\s*[-+]?\.?\d")


def _limits_of_properties(limits: Any, name: str) -> list[str]:
    """A list, or a text with semicolons between, as in files."""
    if isinstance(limits, str):
        return [s for s in map(str.strip, limits.split(";")) if s]
    return _limits(limits, name)


def _structured(value: Any) -> bool:
    """Whether a list or a mapping has keys or texts that are quantities or ends of ranges."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return isinstance(value, (list, tuple)) and any(
        bool(_STRUCTURE.fullmatch(v.lower())) if isinstance(v, str) else _structured(v) for v in value
    )


def _no_limits(geometry: Any, name: str) -> None:
    if "limits" in geometry:
        raise ValueError(f"region {name}: limits are not read here: they belong to the properties of a feature")


def _turned(ring: Any, positive: bool) -> Any:
    """A ring whose area has a sign."""
    x, y = np.asarray(ring, np.float64).T
    area = np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))
    return ring if (area >= 0) == positive else ring[::-1]


def _open(ring: Any) -> Any:
    """A ring of GeoJSON without the last vertex, which repeats the first; and without a third coordinate."""
    points = [p[:2] for p in ring]
    return points[:-1] if len(points) > 1 and tuple(points[0]) == tuple(points[-1]) else points


def _is_polygon(r: Any) -> bool:
    """Whether it is pairs of numbers."""
    if isinstance(r, np.ndarray):
        return r.ndim == 2 and r.shape[1] == 2 and r.dtype.kind in "iuf"
    if not isinstance(r, Sequence) or isinstance(r, (str, bytes)) or len(r) == 0:
        return False
    return all(
        isinstance(p, (Sequence, np.ndarray)) and len(p) == 2 and not isinstance(p, str)
        and all(isinstance(v, (int, float, np.integer, np.floating)) for v in p)
        for p in r
    )  # fmt: skip


def _ring(polygon: Any, name: str) -> region_pb2.Ring:
    polygon = _wire.unmasked(polygon)
    try:
        a = np.asarray(polygon, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"region {name}: {type(polygon).__name__} is no polygon: want pairs of x and y") from None
    if a.ndim != 2 or a.shape[1] != 2:
        raise ValueError(f"region {name}: an array of {'x'.join(map(str, a.shape))}: want n x 2, pairs of x and y")
    return region_pb2.Ring(xy=a.ravel().tolist())


def _fill(fill: str) -> Any:
    rules = {"nonzero": region_pb2.FILL_RULE_NON_ZERO, "evenodd": region_pb2.FILL_RULE_EVEN_ODD}
    if fill not in rules:
        raise ValueError(f"fill {fill!r}: want nonzero or evenodd")
    return rules[fill]


def _reference(reference: Any) -> region_pb2.Reference | None:
    if reference is None or isinstance(reference, str):
        return None if reference is None else region_pb2.Reference(region=reference)
    counts = np.atleast_2d(np.asarray(_wire.unmasked(reference)))
    return region_pb2.Reference(counts=[region_pb2.ReferenceCounts(counts=row.tolist()) for row in counts])


def _limits(limits: str | Iterable[str], name: str = "") -> list[str]:
    if isinstance(limits, str):
        return [limits]
    if isinstance(limits, (Mapping, bytes)) or not isinstance(limits, IterableABC):
        where = f"region {name}: " if name else ""
        raise TypeError(f'{where}limits of type {type(limits).__name__}: want a sentence such as "mean < 90", or several')
    out = list(limits)
    for limit in out:
        if not isinstance(limit, str):
            raise TypeError(
                f'limits: {limit!r}: want a sentence such as "mean < 90"; those of regions by name are a dict, such as '
                '{"U1": "mean < 90"}'
            )
    return out


def recipe_ref(recipe: str | recipe_pb2.RecipeRef) -> recipe_pb2.RecipeRef:
    """Read "name", the latest version, or "name@version"."""
    if isinstance(recipe, recipe_pb2.RecipeRef):
        return recipe
    name, at, version = _wire.text(recipe, "recipe").partition("@")
    if not name or at and not re.fullmatch("[1-9][0-9]*", version):
        raise ValueError(f"recipe {recipe!r}: want NAME or NAME@VERSION")
    return recipe_pb2.RecipeRef(name=name, version=int(version or 0))


_DEFAULT = ("count", "sum", "sum_of_squares", "mean", "variance", "stddev", "min", "max")


class Texture(NamedTuple):
    """Which pairs of pixels textures are of: offsets (dx, dy) of the second pixel from the first, none for four
    neighbours; how many grey levels, 2 to 256; and whether the counts of pairs, the co-occurrence matrices, come too."""

    offsets: Sequence[tuple[int, int]] = ()
    levels: int = 64
    counts: bool = False


# What is derived: the name of a colour space or of a derivative, a matrix of 3 x 3, or several of these.
Colors = Union[str, npt.ArrayLike, Iterable[Union[str, npt.ArrayLike]], None]


def _colors(colors: Any, out: region_pb2.Reductions) -> None:
    if colors is None:
        return
    matrix = not isinstance(colors, str) and np.ndim(colors) == 2 if _numbers(colors) else False
    for c in [colors] if isinstance(colors, str) or matrix else colors:
        if isinstance(c, str) and c in ("gradient", "laplacian"):
            out.derivatives.append(_wire.enum_value(region_pb2.Derivative, "DERIVATIVE_", c, "derivative"))
            continue
        if isinstance(c, str):
            name = "gray-709" if c == "gray709" else c
            out.colors.append(_wire.enum_value(region_pb2.ColorSpace, "COLOR_SPACE_", name, "color"))
            continue
        a = np.asarray(c, np.float64)
        if a.shape != (3, 3) or out.color_matrix:
            raise ValueError(f"colors: an array of {'x'.join(map(str, a.shape))}: want one matrix of 3 x 3")
        out.colors.append(region_pb2.COLOR_SPACE_MATRIX)
        out.color_matrix.extend(a.ravel().tolist())


def _numbers(a: Any) -> bool:
    """Whether it is an array of numbers."""
    if isinstance(a, np.ndarray):
        return a.dtype.kind in "iuf"
    return isinstance(a, Sequence) and len(a) > 0 and all(
        isinstance(row, (Sequence, np.ndarray)) and not isinstance(row, str)
        and all(isinstance(v, (int, float, np.integer, np.floating)) for v in row)
        for row in a
    )  # fmt: skip


_PAIR = r"\(\s*([+-]?[0-9]+)\s*,\s*([+-]?[0-9]+)\s*\)"
_LAG = re.compile(rf"autocorrelation\s*{_PAIR}", re.I)
_RADIAL = re.compile(r"radial\s*\(\s*([0-9]+)\s*\)", re.I)
_FRAME = re.compile(rf'ncc\s+of\s+(?:"([^"]+)"|the\s+frame\s+before)(?:\s+at\s*{_PAIR})?', re.I)


def correlation(text: str) -> region_pb2.CorrelationTerm:
    """A correlation as limits spell it: "autocorrelation(8,0)", "radial(32)", 'ncc of "golden" at (0,0)' and "ncc of the
    frame before"; or "channels" for all pairs of channels."""
    text = text.strip()
    if m := _LAG.fullmatch(text):
        offset = region_pb2.PixelOffset(dx=int(m[1]), dy=int(m[2]))
        return region_pb2.CorrelationTerm(kind=region_pb2.CORRELATION_KIND_LAG, offset=offset)
    if m := _RADIAL.fullmatch(text):
        return region_pb2.CorrelationTerm(kind=region_pb2.CORRELATION_KIND_RADIAL, radius=int(m[1]))
    if m := _FRAME.fullmatch(text):
        offset = region_pb2.PixelOffset(dx=int(m[2] or 0), dy=int(m[3] or 0))
        return region_pb2.CorrelationTerm(kind=region_pb2.CORRELATION_KIND_FRAME, frame=m[1] or "", offset=offset)
    if text.lower() == "channels":
        return region_pb2.CorrelationTerm(kind=region_pb2.CORRELATION_KIND_CHANNEL)
    raise ValueError(
        f'correlate {text!r}: want autocorrelation(8,0), radial(32), ncc of "golden" at (0,0), ncc of the frame before or channels'
    )


def golden_frames(golden: Any) -> dict[str, str]:
    """Names of resident frames by the names that correlations and limits have for them; a frame alone is "golden"."""
    if golden is None:
        return {}
    of = golden if isinstance(golden, Mapping) else {"golden": golden}
    return {_wire.text(name, "golden"): _frames.resident_name(frame, "golden") for name, frame in of.items()}


def _several(given: str | Iterable[str], what: str) -> list[str]:
    """One text, or several."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, (Mapping, bytes)) or not isinstance(given, IterableABC):
        raise TypeError(f"{what} of type {type(given).__name__}: want a text, or a list of some")
    return list(given)


def reductions(
    statistics: str | Iterable[str] | None,
    percentiles: Sequence[float] | None,
    percentile_method: str | None,
    histogram: bool | int | tuple[int, float, float],
    texture: bool | Sequence[tuple[int, int]] | Texture = False,
    colors: Colors = None,
    correlate: str | Iterable[str] = (),
) -> region_pb2.Reductions | None:
    """What to compute; None for the recipe's, or the server's default."""
    names: list[str]
    correlations = [correlation(c) for c in _several(correlate, "correlate")]
    if statistics is None:
        if percentiles is None and not histogram and not texture and not correlations and colors is None:
            return None
        names = list(_DEFAULT)
    elif isinstance(statistics, str) and statistics == "all":
        names = list(_wire.names(region_pb2.Statistic, "STATISTIC_"))
    else:
        names = _several(statistics, "statistics")
        if not names and percentiles is None and not histogram and not texture and not correlations and colors is None:
            raise ValueError("statistics: none is given")
    out = region_pb2.Reductions()
    _colors(colors, out)
    if percentiles is not None:
        names.append("percentiles")
        if isinstance(percentiles, (str, bytes)) or not isinstance(percentiles, IterableABC):
            raise TypeError(f"percentiles {percentiles!r}: want a list, such as [50, 99]")
        out.percentiles.extend(_wire.floats(percentiles))
    out.percentile_method = _wire.enum_value(
        region_pb2.PercentileMethod, "PERCENTILE_METHOD_", percentile_method, "percentile_method"
    )
    if histogram is not False and histogram != 0:
        names.append("histogram")
        if histogram is not True:
            bins = histogram if isinstance(histogram, tuple) else (histogram, 0, 0)
            out.histogram.CopyFrom(region_pb2.HistogramSpec(bins=bins[0], lower=bins[1], upper=bins[2]))
    if texture:
        wanted = texture if isinstance(texture, Texture) else Texture(() if texture is True else texture)
        out.cooccurrence.levels, out.cooccurrence.counts = wanted.levels, wanted.counts
        for dx, dy in wanted.offsets:
            out.cooccurrence.offsets.add(dx=dx, dy=dy)
    for name in ("covered", "covered_histogram"):
        if name in names:
            out.covered.histogram |= name == "covered_histogram"
            out.covered.SetInParent()
            names = [n for n in names if n != name]
    out.correlations.extend(correlations)
    numbers = [
        {"min_at": 7, "max_at": 8}.get(n) or _wire.enum_value(region_pb2.Statistic, "STATISTIC_", n, "statistic")
        for n in names
    ]
    out.statistics.extend(dict.fromkeys(numbers))
    return out


_SPELLED = {
    "sum_sq": "sum_of_squares", "std": "stddev", "mad": "mean_absolute_deviation", "iqr": "interquartile_range",
}  # fmt: skip
_TERMS = ("autocorrelation", "autocovariance", "radial", "correlation", "covariance", "ncc", "channels")


def spelled(texts: Iterable[str]) -> region_pb2.Reductions | None:
    """What the reductions of a file ask for, such as "mean", "percentiles(1, 99, linear)" and "texture(1,0)"; None for
    none. Blobs are not read: how they are spelled only the command line knows."""
    given: dict[str, Any] = {"statistics": [], "colors": [], "correlate": [], "histogram": False}
    given |= {"percentiles": None, "percentile_method": None}
    for i, text in enumerate(texts):
        try:
            _spelled(text, given)
            made = reductions(**given)
        except ValueError as e:
            raise ValueError(f"reductions[{i}]: {text!r}: {e}") from None
    return made if texts else None


def _spelled(text: str, given: dict[str, Any]) -> None:
    """Add what one text asks for to the arguments of reductions."""
    head, bracket, rest = text.partition("(")
    name, rest = head.strip().lower(), rest.strip()
    if name.split(" ")[0] in _TERMS:
        given["correlate"].append(text)
        return
    if bracket and not rest.endswith(")"):
        raise ValueError("the bracket isn't closed")
    args = [a.strip() for a in rest[:-1].split(";" if name == "texture" else ",")] if bracket else []
    if name == "blobs":
        raise ValueError("blobs are not read here: put the file with polyscan recipe put, and name the recipe")
    if name == "texture":
        _first(given, name, _texture(args))
    elif name in _CHANNELS and args:
        for a in args:
            if a.lower() not in _CHANNELS[name]:
                raise ValueError(f"{name}({a}): want {', '.join(_CHANNELS[name])}")
            given["colors"].append(a.lower())
    elif name == "color_matrix":
        if len(args) != 9:
            raise ValueError(f"{len(args)} numbers: want nine")
        given["colors"].append(np.reshape([_plain(a) for a in args], (3, 3)))
    elif name == "percentiles" and args:
        if args[-1] == "linear":
            given["percentile_method"] = args.pop()
        _first(given, name, [_plain(a) for a in args])
    elif name == "histogram" and args:
        if len(args) not in (1, 3):
            raise ValueError("want (BINS) or (BINS, LOWER, UPPER)")
        _first(given, name, (_whole(args[0]), *map(_plain, args[1:] or ("0", "0"))))
    elif args:
        raise ValueError(f"{name} takes no arguments")
    elif name in ("all", "basic"):
        given["statistics"] += _wire.names(region_pb2.Statistic, "STATISTIC_") if name == "all" else _DEFAULT
    else:
        given["statistics"].append(_SPELLED.get(name, name))


_CHANNELS = {"color": ("gray", "gray709", "hsv", "lab"), "derivative": ("gradient", "laplacian")}


def _plain(text: str) -> float:
    """A number in plain digits, as the command line reads them: Python takes 1_0 for 10."""
    if not re.fullmatch(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        raise ValueError(f"{text!r} is no number in plain digits")
    return float(text)


def _whole(text: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]*", text):
        raise ValueError(f"{text!r} is no whole number in plain digits")
    return int(text)


def _first(given: dict[str, Any], name: str, value: Any) -> None:
    if given.get(name):
        raise ValueError(f"{name} comes a second time")
    given[name] = value


def _texture(args: list[str]) -> Texture:
    """Offsets, "N levels" and "counts"."""
    offsets, levels, counts = [], 0, False
    for a in args:
        if a == "counts":
            counts = True
        elif a.endswith("levels"):
            levels = _whole(a.removesuffix("levels").strip())
        else:
            offset = re.fullmatch(r"([+-]?[0-9]+)\s*,\s*([+-]?[0-9]+)", a)
            if offset is None:
                raise ValueError(f"{a!r}: want DX,DY, such as 1,0, N levels or counts")
            offsets.append((int(offset[1]), int(offset[2])))
    return Texture(offsets, levels, counts)


def asked(
    regions: Regions | None, given: region_pb2.Reductions | None, golden: Any
) -> tuple[region_pb2.Reductions | None, dict[str, str]]:
    """The reductions and the frames of a call. Given reductions take the place of all of those that the regions' file
    or recipe asks for, and given frames that of its frames of the same names."""
    frames = golden_frames(golden)
    if regions is None or not regions.file:
        return given, frames
    file = regions.file
    if isinstance(file, recipe_pb2.Recipe):
        if given is None and file.HasField("reductions"):
            given = file.reductions
        named: Mapping[str, str] = file.frames
        before = [limit for r in file.region_set.regions for limit in r.limits]
        before += [f'"{c.frame}"' for c in file.reductions.correlations]
    else:
        texts = file.get("reductions", [])
        if given is None:
            try:
                given = spelled(texts)
            except ValueError as e:
                raise RegionFileError(f"{regions._source}: {e}") from None
        named = file.get("frames", {})
        before = texts + [limit for r in file["regions"] for limit in r.get("limits", [])]
    own, own_matrix = _settings(file)
    now_levels = (given.cooccurrence.levels if given else 0) or _LEVELS
    limits = [limit for r in regions.message.regions for limit in r.limits]
    if own and own != now_levels and any(_OF_TEXTURES.search(limit) for limit in limits):
        raise RegionFileError(
            f"{regions._source}: its limits are about textures of {own} levels, and {now_levels} are asked for: ask for "
            "the same by texture, or leave out what is asked for"
        )
    now_matrix = list(given.color_matrix) if given else []
    if own_matrix and own_matrix != now_matrix and any(_OF_MATRIX.search(limit) for limit in limits):
        raise RegionFileError(
            f"{regions._source}: its limits are about colours by its own matrix, and another one, or none, is asked for: "
            "ask for the same by colors, or leave out what is asked for"
        )
    # The server refuses a frame that nothing speaks of, which is none that only replaced limits or reductions spoke of.
    now = [limit for r in regions.message.regions for limit in r.limits]
    now += [f'"{c.frame}"' for c in given.correlations] if given else []
    for name, frame in named.items():
        if any(f'"{name}"' in text for text in now) or not any(f'"{name}"' in text for text in before):
            frames.setdefault(name, frame)
    return given, frames


# What limits on textures look like, whose offsets are numbers, and the levels of those that nobody asks for.
_OF_TEXTURES = re.compile(r"\b(contrast|homogeneity|energy|correlation|entropy)\s*\(\s*[-+]?\d", re.IGNORECASE)
_LEVELS = 64
_OF_MATRIX = re.compile(r"\bmatrix\.[xyz]\b", re.IGNORECASE)


def _settings(file: Any) -> tuple[int, list[float]]:
    """The levels of the textures and the matrix of the colours that a file or recipe asks for; 0 and none where it asks
    for neither, or says what nobody reads."""
    try:
        asked = file.reductions if isinstance(file, recipe_pb2.Recipe) else spelled(file.get("reductions", []))
    except ValueError:
        return 0, []
    if asked is None:
        return 0, []
    return (asked.cooccurrence.levels or _LEVELS) if asked.HasField("cooccurrence") else 0, list(asked.color_matrix)


def of_recipe(recipe: recipe_pb2.Recipe) -> Regions:
    """The regions of a recipe, with what else of it decides about a verdict."""
    return Regions(recipe.region_set, file=recipe, source=f"recipe {recipe.name}".rstrip())


def flat_field(regions: Regions | None) -> frame_pb2.FlatField | None:
    """The flat field that the regions' file or recipe names."""
    file = regions.file if regions is not None else None
    if isinstance(file, recipe_pb2.Recipe):
        return file.flat_field if file.HasField("flat_field") else None
    text = file.get("flat_field", "") if isinstance(file, dict) else ""
    return frame_pb2.FlatField(sha256=text.removeprefix("sha256:")) if text else None


def to_recipe(
    name: str,
    regions: Regions,
    reductions: region_pb2.Reductions | None,
    frames: Mapping[str, str],
    description: str = "",
) -> recipe_pb2.Recipe:
    """The recipe that regions come to with what asked says of them."""
    if not description and isinstance(regions.file, recipe_pb2.Recipe):
        description = regions.file.description
    return recipe_pb2.Recipe(
        name=_wire.text(name, "recipe"), description=description, region_set=regions.message, reductions=reductions,
        frames=frames, flat_field=flat_field(regions),
    )  # fmt: skip


class What:
    """What an inspection is about, ready to be sent: the regions or the recipe, and what to compute."""

    __slots__ = ("data", "regions")

    def __init__(self, data: bytes, regions: Regions | None) -> None:
        self.data = data
        self.regions = regions

    def message(self) -> inspection_pb2.Inspection:
        return inspection_pb2.Inspection.FromString(self.data)


def inspection(
    regions: Regions | None,
    recipe: str | recipe_pb2.RecipeRef | None,
    *,
    reductions: region_pb2.Reductions | None = None,
    method: str | None = None,
    priority: str | None = None,
    name: str = "",
    results: str | None = None,
    fields: Iterable[str] | None = None,
    frames: Mapping[str, str] | None = None,
) -> What:
    if (regions is None) == (recipe is None):
        raise TypeError("want either regions or a recipe")
    rest = inspection_pb2.Inspection(
        reductions=reductions,
        method=mask_method(method),
        work_class=work_class(priority),
        name=name,
        result=result_options(results, fields),
        frames=frames,
        flat_field=flat_field(regions),
    )
    if recipe is not None:
        rest.recipe.CopyFrom(recipe_ref(recipe))
        return What(rest.SerializeToString(), None)
    assert regions is not None
    return What(_wire.field(1, regions.serialized) + rest.SerializeToString(), regions)


def result_options(results: str | None, fields: Iterable[str] | None) -> columns_pb2.ResultOptions:
    """What of a result comes back: as columns, where the server is not so old that it answers with all rows."""
    if isinstance(fields, str):
        fields = [fields]
    wanted = None if fields is None else list(fields)
    if wanted == []:
        raise ValueError('fields: none is given; ["verdict"] brings verdicts alone')
    return columns_pb2.ResultOptions(
        form=columns_pb2.RESULT_FORM_COLUMNS,
        regions=_wire.enum_value(columns_pb2.RegionChoice, "REGION_CHOICE_", results, "results"),
        fields=[_wire.enum_value(columns_pb2.RegionField, "REGION_FIELD_", f, "field") for f in wanted or ()],
    )


def mask_method(method: str | None) -> Any:
    return _wire.enum_value(region_pb2.MaskMethod, "MASK_METHOD_", method, "method")


def work_class(priority: str | None) -> Any:
    return _wire.enum_value(inspection_pb2.WorkClass, "WORK_CLASS_", priority, "priority")
