"""Results: the numbers of regions as columns of NumPy, one value or row for each region."""

from __future__ import annotations

import enum
import html
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from polyscan import _wire
from polyscan._columns import CORRELATIONS, COVERED, COVERED_BINS, MILLIMETRES, TEXTURES, Columns, values_of
from polyscan._errors import Error, from_status
from polyscan.v1 import frame_pb2, history_pb2, inspection_pb2, monitor_pb2, region_pb2, scan_pb2, teach_pb2

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from polyscan._regions import Regions

Array = npt.NDArray[Any]


class Verdict(enum.IntEnum):
    """The outcome of limits. NONE: no limit was given."""

    NONE = 0
    PASS = 1
    FAIL = 2

    def __str__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        raise TypeError("a verdict is neither true nor false: FAIL would be true; compare it with Verdict.PASS")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):  # which no number is equal to, so that != "FAIL" would hold for a FAIL
            raise TypeError(f"a verdict is no text: compare it with Verdict.{other}")
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = enum.IntEnum.__hash__


def _neither(what: str, instead: str = "compare its verdict with Verdict.PASS") -> TypeError:
    """The truth of what has a verdict, so that `if result:` passes nothing that failed."""
    return TypeError(f"{what} is neither true nor false: one that failed would be true; {instead}")


def _no_truth(message: Any) -> bool:
    raise _neither(f"a {type(message).__name__}", "look at its verdicts, or compare it with None")


# Messages that say what parts came to have no truth, either; all others are true, as protobuf has it.
for _message in (
    history_pb2.HistoryPart, history_pb2.PartCounts, inspection_pb2.FrameResult, monitor_pb2.WatchVerdict,
    region_pb2.LimitResult, region_pb2.RegionResult, scan_pb2.PartResult, teach_pb2.JudgedFrame, teach_pb2.Tally,
    teach_pb2.TeachResponse, teach_pb2.TryResponse,
):  # fmt: skip
    setattr(_message, "__bool__", _no_truth)


class Verdicts(np.ndarray[Any, np.dtype[np.uint8]]):
    """An array of verdicts, as numbers. Each of its items is a Verdict; all() and any() have no answer, since a FAIL is no
    0, nor has a comparison with texts."""

    def __eq__(self, other: object) -> Any:
        if np.asarray(other).dtype.kind in "US":
            raise TypeError(f"verdicts are no texts: compare them with Verdict.{other}")
        return np.asarray(self).view(np.ndarray) == other

    def __ne__(self, other: object) -> Any:
        return np.logical_not(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, np.ndarray) else Verdict(int(found))

    def __iter__(self) -> Iterator[Any]:
        return map(Verdict, self.tolist())

    def all(self, *_: Any, **__: Any) -> Any:
        raise _neither("a verdict", "compare them with Verdict.PASS, and take all() of that")

    def any(self, *_: Any, **__: Any) -> Any:
        raise _neither("a verdict", "compare them with Verdict.FAIL, and take any() of that")


class LimitResult(NamedTuple):
    """The outcome of one limit. value is None where the region caught no pixel and the quantity has no value; channel
    is that of the channel that decided, "" where the quantity has none; reason says why it failed. Of a limit over the
    last parts of a stream, parts is of how many the value is."""

    expression: str
    verdict: Verdict
    value: float | None
    channel: str
    reason: str
    parts: int = 0

    def __bool__(self) -> bool:
        raise _neither("the result of a limit")


# Statistics of channels: the column, the field of rows, its type, and what stands where a region has no pixels.
_CHANNEL: dict[str, tuple[str, Any, Any]] = {
    "sum": ("sum", np.uint64, 0),
    "sum_of_squares": ("sum_of_squares", np.uint64, 0),
    "mean": ("mean", np.float64, np.nan),
    "variance": ("variance", np.float64, np.nan),
    "stddev": ("stddev", np.float64, np.nan),
    "min": ("min", np.int64, -1),
    "max": ("max", np.int64, -1),
    "median": ("median", np.float64, np.nan),
    "mode": ("mode", np.int64, -1),
    "distinct": ("distinct", np.int64, 0),
    "skewness": ("skewness", np.float64, np.nan),
    "kurtosis": ("kurtosis", np.float64, np.nan),
    "entropy": ("entropy", np.float64, np.nan),
    "mean_absolute_deviation": ("mean_absolute_deviation", np.float64, np.nan),
    "interquartile_range": ("interquartile_range", np.float64, np.nan),
    "kolmogorov_smirnov": ("kolmogorov_smirnov", np.float64, np.nan),
    "wasserstein": ("wasserstein", np.float64, np.nan),
    "jensen_shannon": ("jensen_shannon", np.float64, np.nan),
    "chi_square": ("chi_square", np.float64, np.nan),
    "plane_x": ("plane_x", np.float64, np.nan),
    "plane_y": ("plane_y", np.float64, np.nan),
    "plane_residual": ("plane_residual", np.float64, np.nan),
}
_PLACES: dict[str, tuple[Any, Any]] = {
    "min_at": (np.int64, -1), "max_at": (np.int64, -1), "weighted_centroid": (np.float64, np.nan),
    "min_at_mm": (np.float64, np.nan), "max_at_mm": (np.float64, np.nan), "weighted_centroid_mm": (np.float64, np.nan),
}  # fmt: skip
_SHOWN = 50  # rows of a table in a notebook


class Rows:
    """The numbers of a result that came as one message for each region."""

    def __init__(self, rows: Sequence[region_pb2.RegionResult]) -> None:
        self.rows = rows
        self.length = len(rows)
        self.channels: list[int] = []
        for r in rows:
            if r.channels:
                self.channels = [c.channel for c in r.channels]
                break

    def column(self, name: str) -> Array | None:
        """The column, with an axis for channels where it has one; None where it was not asked for."""
        rows, n, c = self.rows, self.length, len(self.channels)
        if name == "index":
            return np.fromiter((r.index for r in rows), np.int64, n)
        if name == "verdict":
            return np.fromiter((r.verdict for r in rows), np.uint8, n)
        if name == "count":
            return np.fromiter((r.count for r in rows), np.uint64, n)
        if name == "area":
            return np.fromiter((r.area for r in rows), np.float64, n)
        if name == "coverage":
            return np.fromiter((r.coverage if r.HasField("coverage") else np.nan for r in rows), np.float64, n)
        if name == "bounds":
            flat = (v for r in rows for b in (r.bounds,) for v in (b.x0, b.y0, b.x1, b.y1))
            return np.fromiter(flat, np.int64, 4 * n).reshape(n, 4)
        if name == "centroid":
            if not any(r.HasField("centroid") for r in rows) and any(r.count for r in rows):
                return None
            none = (np.nan, np.nan)
            xy = (v for r in rows for v in ((r.centroid.x, r.centroid.y) if r.HasField("centroid") else none))
            return np.fromiter(xy, np.float64, 2 * n).reshape(n, 2)
        if name in ("area_mm2", "count_mm2"):
            if not any(r.HasField(name) for r in rows):
                return None
            return np.fromiter((getattr(r, name) for r in rows), np.float64, n)
        if name == "bounds_mm":
            if not any(r.HasField("area_mm2") or r.HasField(name) for r in rows):
                return None
            return np.array([
                (b.x0, b.y0, b.x1, b.y1) if r.HasField(name) else (np.nan,) * 4 for r in rows for b in (r.bounds_mm,)
            ], np.float64).reshape(n, 4)  # fmt: skip
        if name == "centroid_mm":
            if not any(r.HasField(name) for r in rows):
                return None
            return np.array([
                (r.centroid_mm.x, r.centroid_mm.y) if r.HasField(name) else (np.nan, np.nan) for r in rows
            ], np.float64).reshape(n, 2)  # fmt: skip
        if name == "covered_count":
            if not any(r.HasField(name) for r in rows):
                return None
            return np.fromiter((r.covered_count for r in rows), np.float64, n)
        if not c:
            return None
        if name in COVERED:
            if not any(s.HasField("covered") for r in rows for s in r.channels):
                return None
            key = COVERED[name]  # the sum is there where the rest is not
            return np.array([
                getattr(s.covered, key) if s.HasField("covered") and (key == "sum" or s.covered.HasField(key)) else np.nan
                for r in rows for s in r.channels
            ], np.float64).reshape(n, c)  # fmt: skip
        if name in COVERED_BINS:
            histograms = [s.covered.histogram for r in rows for s in r.channels if s.covered.HasField("histogram")]
            if not histograms:
                return None
            key, bins = COVERED_BINS[name], len(histograms[0].counts)
            nothing: Any = [0.0] * bins if key == "counts" else 0.0  # of channels derived from colours
            return np.array([
                getattr(s.covered.histogram, key) if s.covered.HasField("histogram") else nothing for r in rows for s in r.channels
            ], np.float64).reshape((n, c, bins) if key == "counts" else (n, c))  # fmt: skip
        if name in _CHANNEL:
            key, kind, empty = _CHANNEL[name]
            if not self._asked(key):
                return None
            values = (getattr(s, key) if s.HasField(key) else empty for r in rows for s in r.channels)
            found = np.fromiter(values, kind, n * c).reshape(n, c)
            if name in ("min", "max", "mode"):
                steps = [[s.step for s in r.channels] for r in rows if r.channels]
                if any(map(any, steps)):
                    zeros = [s.zero for r in rows if r.channels for s in r.channels][:c]
                    return values_of(found, self.channels, steps[0], zeros)
            return found
        if name in _PLACES:
            kind, empty = _PLACES[name]
            if not self._asked(name) or name in MILLIMETRES and not any(r.HasField("area_mm2") for r in rows):
                return None
            flat = (
                v for r in rows for s in r.channels
                for p in (getattr(s, name) if s.HasField(name) else None,)
                for v in ((p.x, p.y) if p else (empty, empty))
            )  # fmt: skip
            return np.fromiter(flat, kind, 2 * n * c).reshape(n, c, 2)
        if name in ("histogram", "below", "above"):
            if not self._asked("histogram"):
                return None
            if name != "histogram":
                values = (getattr(s.histogram, name) for r in rows for s in r.channels)
                return np.fromiter(values, np.uint32, n * c).reshape(n, c)
            return np.array([s.histogram.counts for r in rows for s in r.channels], np.int64).reshape(n, c, -1)
        if name == "cumulative":
            if not any(s.cumulative for r in rows for s in r.channels):
                return None
            return np.array([s.cumulative for r in rows for s in r.channels], np.uint64).reshape(n, c, -1)
        if name in TEXTURES:
            key = TEXTURES[name]
            all_of = [getattr(t, key) if key in ("pairs", "counts") or t.HasField(key) else np.nan
                      for r in rows for s in r.channels for t in s.textures]  # fmt: skip
            asked = self.pairs()
            if asked is None or key == "counts" and not all_of[0]:
                return None
            number: Any = np.uint32 if key in ("pairs", "counts") else np.float64
            return np.array(all_of, number).reshape((n, c, len(asked[0])) + ((asked[1], asked[1]) if key == "counts" else ()))
        if name in CORRELATIONS:
            key = CORRELATIONS[name]
            terms = self.correlations()
            if terms is None:
                return None
            every = [getattr(t, key) if key == "pairs" or t.HasField(key) else np.nan
                     for r in rows for s in r.channels for t in s.correlations]  # fmt: skip
            return np.array(every, np.uint64 if key == "pairs" else np.float64).reshape(n, c, len(terms))
        if name == "percentiles":
            at = self.percentiles()
            if not at:
                return None
            out = np.full((n, c, len(at)), np.nan)
            for i, r in enumerate(rows):
                for j, s in enumerate(r.channels):
                    if s.percentiles:
                        out[i, j] = [p.value for p in s.percentiles]
            return out
        return None

    def _asked(self, key: str) -> bool:
        """Whether a statistic was asked for: some region has it, or none has a pixel, and could."""
        if any(s.HasField(key) for r in self.rows for s in r.channels):
            return True
        return not any(r.count for r in self.rows)

    def pairs(self) -> tuple[list[tuple[int, int]], int] | None:
        for r in self.rows:
            for s in r.channels:
                if s.textures:
                    return [(t.offset.dx, t.offset.dy) for t in s.textures], s.textures[0].levels
        return None

    def correlations(self) -> list[region_pb2.CorrelationTerm] | None:
        for r in self.rows:
            for s in r.channels:
                if s.correlations:
                    return [t.of for t in s.correlations]
        return None

    def percentiles(self) -> list[float]:
        for r in self.rows:
            for s in r.channels:
                if s.percentiles:
                    return [p.percentile for p in s.percentiles]
        return []

    def range(self) -> tuple[float, float] | None:
        for r in self.rows:
            for s in r.channels:
                if s.HasField("histogram"):
                    return s.histogram.lower, s.histogram.upper
        return None

    def names(self) -> list[str] | None:
        return [r.name for r in self.rows]

    def limits(self, i: int) -> list[tuple[str, int, float | None, int, str, int]] | None:
        return [
            (m.expression, m.verdict, m.value if m.HasField("value") else None, m.channel, m.reason, m.parts)
            for m in self.rows[i].limits
        ]


def channel_name(number: int) -> str:
    """As limits spell it, such as "red" and "lab.a"."""
    name = _wire.enum_name(frame_pb2.Channel, "CHANNEL_", number) if number else ""
    return name.replace("gray-", "gray").replace("-", ".")


class RegionTable:
    """The numbers of regions as columns: r.mean has one value for each region, in the order in which regions were
    given.

    For a colour frame a column of a channel has one row for each region, with red, green, blue and alpha in it;
    r.channels says which. A column that was not asked for is an AttributeError that says so. A region without pixels
    (count 0) has NaN in columns of floats, and -1 in min, max, mode, min_at and max_at. r["U7"] and r[3] are single
    regions with the same names. Where only the regions that failed came back, r[3] is the fourth of those, and r.index
    says which ones they are.
    """

    def __init__(self, store: Rows | Columns) -> None:
        self._store = store
        self._cache: dict[str, Array] = {}

    def __len__(self) -> int:
        return self._store.length

    def __bool__(self) -> bool:
        raise _neither("a result", "ask its passed, or len() for how many regions it has")

    def _column(self, name: str) -> Array:
        a = self._cache.get(name)
        if a is None:
            found = self._store.column(name)
            if found is None:
                raise AttributeError(_not_asked_for(name))
            a = found
            if a.ndim > 1 and len(self._store.channels) == 1 and name not in ("bounds", "centroid", "bounds_mm", "centroid_mm"):
                a = a[:, 0]
            a.flags.writeable = False
            self._cache[name] = a
        return a

    @property
    def index(self) -> Array:
        """int64[R]: the index of each region in the request's or recipe's list."""
        return self._column("index")

    @cached_property
    def names(self) -> list[str]:
        found = self._store.names()
        if found is None:
            raise AttributeError(_not_asked_for("name"))
        return found

    @property
    def channels(self) -> list[str]:
        """Such as ["gray"] or ["red", "green", "blue"]."""
        return [channel_name(c) for c in self._store.channels]

    @property
    def count(self) -> Array:
        """uint64[R]: pixels of the region inside the frame."""
        return self._column("count")

    @property
    def area(self) -> Array:
        """float64[R]: the polygon's area in square pixels, inside the frame or not."""
        return self._column("area")

    @property
    def coverage(self) -> Array:
        """float64[R]: share of the region's pixels that lie inside the frame; NaN where it is unknown."""
        return self._column("coverage")

    @property
    def bounds(self) -> Array:
        """int64[R][4]: x0, y0, x1, y1, the columns [x0, x1) and rows [y0, y1) that hold the region."""
        return self._column("bounds")

    @property
    def centroid(self) -> Array:
        """float64[R][2]: x, y."""
        return self._column("centroid")

    @property
    def area_mm2(self) -> Array:
        """float64[R]: area in mm2, where the regions have a scale, as what follows."""
        return self._column("area_mm2")

    @property
    def count_mm2(self) -> Array:
        """float64[R]: the area of the count pixels."""
        return self._column("count_mm2")

    @property
    def bounds_mm(self) -> Array:
        """float64[R][4]: x0, y0, x1, y1; NaN for a region without pixels."""
        return self._column("bounds_mm")

    @property
    def centroid_mm(self) -> Array:
        """float64[R][2]: x, y."""
        return self._column("centroid_mm")

    @property
    def min_at_mm(self) -> Array:
        """float64, x and y of the centre of the pixel at min_at."""
        return self._column("min_at_mm")

    @property
    def max_at_mm(self) -> Array:
        return self._column("max_at_mm")

    @property
    def weighted_centroid_mm(self) -> Array:
        return self._column("weighted_centroid_mm")

    @property
    def sum(self) -> Array:
        """uint64."""
        return self._column("sum")

    @property
    def sum_of_squares(self) -> Array:
        """uint64."""
        return self._column("sum_of_squares")

    @property
    def mean(self) -> Array:
        return self._column("mean")

    @property
    def variance(self) -> Array:
        """Of the population."""
        return self._column("variance")

    @property
    def stddev(self) -> Array:
        """Of the population."""
        return self._column("stddev")

    @property
    def min(self) -> Array:
        return self._column("min")

    @property
    def max(self) -> Array:
        return self._column("max")

    @property
    def min_at(self) -> Array:
        """int64, x and y of the first such pixel, row by row."""
        return self._column("min_at")

    @property
    def max_at(self) -> Array:
        return self._column("max_at")

    @property
    def median(self) -> Array:
        return self._column("median")

    @property
    def mode(self) -> Array:
        return self._column("mode")

    @property
    def distinct(self) -> Array:
        """int64: the number of different values."""
        return self._column("distinct")

    @property
    def skewness(self) -> Array:
        """Third standardised moment; NaN where all samples are equal."""
        return self._column("skewness")

    @property
    def kurtosis(self) -> Array:
        """Fourth standardised moment, 3 for a normal distribution; NaN where all samples are equal."""
        return self._column("kurtosis")

    @property
    def entropy(self) -> Array:
        """Of the values, in bits."""
        return self._column("entropy")

    @property
    def mean_absolute_deviation(self) -> Array:
        """Mean distance of the samples from their mean."""
        return self._column("mean_absolute_deviation")

    @property
    def interquartile_range(self) -> Array:
        """75th percentile less the 25th."""
        return self._column("interquartile_range")

    @property
    def kolmogorov_smirnov(self) -> Array:
        """Greatest difference of the cumulative distributions of the region and of its reference; NaN without one."""
        return self._column("kolmogorov_smirnov")

    @property
    def wasserstein(self) -> Array:
        """First Wasserstein distance from the reference, in levels; NaN without one."""
        return self._column("wasserstein")

    @property
    def jensen_shannon(self) -> Array:
        """Jensen-Shannon divergence from the reference, in bits; NaN without one."""
        return self._column("jensen_shannon")

    @property
    def chi_square(self) -> Array:
        """Half the sum of (p - q)^2 / (p + q); NaN without a reference."""
        return self._column("chi_square")

    @property
    def plane_x(self) -> Array:
        """How much samples grow from a pixel to the one on its right, by the plane that fits best; NaN where all pixels
        are on a line."""
        return self._column("plane_x")

    @property
    def plane_y(self) -> Array:
        """How much samples grow from a pixel to the one below, by the plane that fits best; NaN likewise."""
        return self._column("plane_y")

    @property
    def plane_residual(self) -> Array:
        """Root of the mean square of what the best plane leaves; NaN likewise."""
        return self._column("plane_residual")

    @property
    def cumulative(self) -> Array:
        """uint64, with the samples below the upper end of each bin in the last axis."""
        return self._column("cumulative")

    @property
    def percentiles(self) -> Array:
        """float64, with the percentiles of percentile_levels in the last axis."""
        return self._column("percentiles")

    @property
    def percentile_levels(self) -> list[float]:
        return self._store.percentiles()

    @property
    def histogram(self) -> Array:
        """uint32, with the counts of the bins in the last axis."""
        return self._column("histogram")

    @property
    def texture_offsets(self) -> list[tuple[int, int]]:
        """The offsets in the last axis of contrast and the other textures."""
        return self._pairs()[0]

    @property
    def texture_levels(self) -> int:
        """How many grey levels textures are of."""
        return self._pairs()[1]

    def _pairs(self) -> tuple[list[tuple[int, int]], int]:
        found = self._store.pairs()
        if found is None:
            raise AttributeError(_not_asked_for("contrast"))
        return found

    @property
    def covered_count(self) -> Array:
        """The area that each region covers of the frame, in pixels: the sum of the weights of its pixels."""
        return self._column("covered_count")

    @property
    def covered_sum(self) -> Array:
        """Of samples, weighted by the share of each pixel that the region covers; as all that follow."""
        return self._column("covered_sum")

    @property
    def covered_mean(self) -> Array:
        """NaN where a region covers nothing, and of channels derived from colours."""
        return self._column("covered_mean")

    @property
    def covered_variance(self) -> Array:
        """Of the population."""
        return self._column("covered_variance")

    @property
    def covered_stddev(self) -> Array:
        return self._column("covered_stddev")

    @property
    def covered_histogram(self) -> Array:
        """Pixels in fractions, for each bin in the last axis."""
        return self._column("covered_histogram")

    @property
    def covered_below(self) -> Array:
        """Pixels of samples below the bins of covered_histogram."""
        return self._column("covered_below")

    @property
    def covered_above(self) -> Array:
        """Pixels of samples at or above the end of the bins of covered_histogram."""
        return self._column("covered_above")

    @property
    def texture_pairs(self) -> Array:
        """uint32: how many pairs of pixels there are, with the offsets in the last axis."""
        return self._column("texture_pairs")

    @property
    def contrast(self) -> Array:
        """float64, with the offsets in the last axis, as the four below: sum of P(i, j) (i - j)^2. NaN without pairs."""
        return self._column("contrast")

    @property
    def homogeneity(self) -> Array:
        """Sum of P(i, j) / (1 + (i - j)^2)."""
        return self._column("homogeneity")

    @property
    def energy(self) -> Array:
        """Square root of the sum of P(i, j)^2."""
        return self._column("energy")

    @property
    def correlation(self) -> Array:
        """Of the two levels of a pair; NaN where all are equal."""
        return self._column("correlation")

    @property
    def texture_entropy(self) -> Array:
        """Of P, in bits."""
        return self._column("texture_entropy")

    @property
    def cooccurrence(self) -> Array:
        """uint32: counts of pairs by the level of the first and of the second pixel, in the last two axes."""
        return self._column("cooccurrence")

    @property
    def correlations(self) -> list[str]:
        """What is in the last axis of coefficient and the other correlations, as limits spell it."""
        found = self._store.correlations()
        if found is None:
            raise AttributeError(_not_asked_for("coefficient"))
        return [_spelled(t) for t in found]

    @property
    def correlation_pairs(self) -> Array:
        """uint64: how many pairs of pixels there are, with the correlations in the last axis."""
        return self._column("correlation_pairs")

    @property
    def mean_product(self) -> Array:
        """float64, with the correlations in the last axis, as the two below: mean of a * b. NaN without pairs."""
        return self._column("mean_product")

    @property
    def covariance(self) -> Array:
        """Mean of a * b less the product of the means."""
        return self._column("covariance")

    @property
    def coefficient(self) -> Array:
        """The covariance over the root of both variances, -1 to 1; NaN where one is 0."""
        return self._column("coefficient")

    @property
    def histogram_range(self) -> tuple[float, float]:
        """The lower end of the first bin and the upper end of the last."""
        found = self._store.range()
        if found is None:
            self._column("histogram")
            return (0.0, 0.0)
        return found

    @property
    def below(self) -> Array:
        """uint32: samples below the histogram's range."""
        return self._column("below")

    @property
    def above(self) -> Array:
        return self._column("above")

    @property
    def weighted_centroid(self) -> Array:
        """float64, x and y weighted by the samples; NaN where their sum is 0."""
        return self._column("weighted_centroid")

    @property
    def verdicts(self) -> Verdicts:
        """uint8[R], as Verdict has them."""
        return self._column("verdict").view(Verdicts)

    @property
    def failed(self) -> list[str]:
        """The names of the regions that failed."""
        return [self.names[i] for i in np.flatnonzero(self.verdicts == Verdict.FAIL)]

    @cached_property
    def _by_name(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for i, name in enumerate(self.names):
            found[name] = -1 if name in found else i
        return found

    def __getitem__(self, key: str | int) -> Region:
        if isinstance(key, str):
            i = self._by_name.get(key)
            if i is None:
                raise KeyError(f"no region {key!r} among {len(self)}")
            if i < 0:
                raise KeyError(f"several regions are called {key!r}: take them by their index")
            return Region(self, i)
        i = key + len(self) if key < 0 else key
        if not 0 <= i < len(self):
            raise IndexError(f"region {key} of {len(self)}")
        return Region(self, i)

    def __iter__(self) -> Iterator[Region]:
        return (Region(self, i) for i in range(len(self)))

    def _available(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        for name in names:
            try:
                yield name, self._column(name)
            except AttributeError:
                pass

    def to_dict(self) -> dict[str, Any]:
        """All columns of one value for each region, with names like "mean" for gray and "red_mean" for colour; with the
        index of each region where names were not asked for."""
        out: dict[str, Any] = {"index": self.index} if self._store.names() is None else {"name": self.names}
        out["verdict"] = [Verdict(v).name for v in self.verdicts]
        out.update(self._available(("count", "area", "coverage", "covered_count", "count_mm2", "area_mm2")))
        for name, a in self._available((*_CHANNEL, *COVERED)):
            if a.ndim == 1:
                out[name] = a
            else:
                out.update((f"{c}_{name}", a[:, j]) for j, c in enumerate(self.channels))
        for name, a in self._available(("percentiles",)):
            for k, level in enumerate(self.percentile_levels):
                for j, c in enumerate(self.channels):
                    column = a[:, k] if a.ndim == 2 else a[:, j, k]
                    out[f"p{level:g}" if a.ndim == 2 else f"{c}_p{level:g}"] = column
        return out

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row for each region, by name, or by index where names were not asked for. What a region
        without pixels doesn't have is NA."""
        import pandas

        columns = self.to_dict()
        table = pandas.DataFrame(columns).set_index(next(iter(columns)))
        for name in table.columns:
            if name.endswith(("min", "max", "mode")) and columns[name].dtype.kind != "f":
                table[name] = pandas.array(columns[name], dtype="Int64")
                table.loc[np.asarray(self.count) == 0, name] = pandas.NA
        return table

    def to_arrow(self) -> pyarrow.Table:
        """The same table for Apache Arrow, with histograms as lists where there are some."""
        import pyarrow

        columns = self.to_dict()
        for name, a in self._available(("histogram",)):
            if a.ndim == 2:
                columns[name] = list(a)
            else:
                columns.update((f"{c}_{name}", list(a[:, j])) for j, c in enumerate(self.channels))
        return pyarrow.table({
            name: pyarrow.array(values, mask=np.asarray(self.count) == 0)
                if name.endswith(("min", "max", "mode")) and values.dtype.kind != "f" else values
            for name, values in columns.items()
        })  # fmt: skip


_FIELDS = ("name", "count", "area", "coverage", "bounds", "limits")  # that all results have, where no fields are chosen


def _spelled(t: region_pb2.CorrelationTerm) -> str:
    at = f"({t.offset.dx},{t.offset.dy})"
    if t.kind == region_pb2.CORRELATION_KIND_RADIAL:
        return f"radial({t.radius})"
    if t.kind == region_pb2.CORRELATION_KIND_FRAME:
        return f'ncc of "{t.frame}" at {at}' if t.frame else f"ncc of the frame before at {at}"
    if t.kind == region_pb2.CORRELATION_KIND_CHANNEL:
        return f"correlation({channel_name(getattr(t, 'with'))})"
    return f"autocorrelation{at}"


def _not_asked_for(name: str) -> str:
    if name in MILLIMETRES:
        return f'{name} needs regions with a scale, Regions.with_scale(mm), and {MILLIMETRES[name]}'
    if name in _FIELDS:
        return f'{name} was not asked for: call with fields=[..., "{name}"]'
    asked = {"histogram": "histogram=True", "below": "histogram=True", "above": "histogram=True",
             "percentiles": "percentiles=[...]", **dict.fromkeys(TEXTURES, "texture=True"),
             **dict.fromkeys(CORRELATIONS, "correlate=[...]"),
             "cooccurrence": "texture=polyscan.Texture(counts=True)",
             **dict.fromkeys(("covered_count", *COVERED), 'statistics=["covered"]'),
             **dict.fromkeys(COVERED_BINS, 'statistics=["covered_histogram"]'),
             **dict.fromkeys(("kolmogorov_smirnov", "wasserstein", "jensen_shannon", "chi_square"),
                             'statistics=["distances"]'),
             **dict.fromkeys(("plane_x", "plane_y", "plane_residual"),
                             'statistics=["plane"]')}.get(name, f'statistics=["{name}"]')  # fmt: skip
    if name not in TEXTURES and name not in CORRELATIONS and not name.startswith("covered_"):
        asked += ', or statistics="all"'
    field = "centroid" if name == "centroid" else "channels"
    return f'{name} was not asked for: call with {asked}; fields, if any, must have "{field}"'


class Region:
    """One region of a result. Its attributes are those of the result: count, mean, histogram and so on."""

    __slots__ = ("_position", "_table")

    def __init__(self, table: RegionTable, position: int) -> None:
        self._table = table
        self._position = position

    def __bool__(self) -> bool:
        raise _neither("the result of a region")

    @property
    def name(self) -> str:
        return self._table.names[self._position]

    @property
    def verdict(self) -> Verdict:
        return Verdict(int(self._table.verdicts[self._position]))

    @property
    def limits(self) -> list[LimitResult]:
        """The outcomes of its limits, in order."""
        found = self._table._store.limits(self._position)
        if found is None:
            raise AttributeError(_not_asked_for("limits"))
        return [
            LimitResult(expression, Verdict(verdict), value, channel_name(channel), reason, parts)
            for expression, verdict, value, channel, reason, parts in found
        ]

    def __getattr__(self, name: str) -> Any:
        if name in _REGION_COLUMNS:
            value = self._table._column(name)[self._position]
            return value.item() if np.ndim(value) == 0 else value
        if name in ("name", "limits"):  # a property of this name has no value: it was not asked for
            raise AttributeError(_not_asked_for(name))
        raise AttributeError(f"a region has no {name!r}")

    def __dir__(self) -> list[str]:
        return ["name", "verdict", "limits", *sorted(_REGION_COLUMNS)]

    def __repr__(self) -> str:
        words = [f"{self.index}" if self._table._store.names() is None else f"{self.name!r}"]
        words += [f"{name}={a[self._position]}" for name, a in self._table._available(("count", "mean", "min", "max"))]
        return f"<region {' '.join(words)} {self.verdict}>"


_REGION_COLUMNS = {
    "index", "count", "area", "coverage", "bounds", "centroid", *MILLIMETRES, *_CHANNEL, *_PLACES, "histogram", "cumulative", "below", "above",
    "percentiles", *TEXTURES, *CORRELATIONS,
}  # fmt: skip


class Result(RegionTable):
    """The numbers of one frame. message is what the server sent, field by field."""

    def __init__(
        self, message: inspection_pb2.FrameResult, original: Any = None, regions: Regions | None = None
    ) -> None:
        super().__init__(store(message))
        self.message = message
        self._original = weak(original)
        self._regions = regions

    @property
    def verdict(self) -> Verdict:
        """FAIL when any region failed, PASS when any limit was given and none failed."""
        return Verdict(self.message.verdict)

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASS. Without any limit it isn't."""
        return self.verdict == Verdict.PASS

    @property
    def backend(self) -> str:
        return self.message.backend

    @property
    def frame_id(self) -> str:
        return self.message.frame_id

    @property
    def part_id(self) -> str:
        return self.message.part_id

    @property
    def pose(self) -> tuple[float, ...] | None:
        """a, b, c, d, e, f with which the regions were moved: (x, y) came to (a x + b y + c, d x + e y + f). None where they
        are as they were drawn."""
        return tuple(self.message.pose.affine) if self.message.HasField("pose") else None

    @property
    def location(self) -> region_pb2.Location | None:
        """Where the part was found, or why it was not; None where the regions don't say how to find it."""
        return self.message.location if self.message.HasField("location") else None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the frame."""
        return self.message.layout.width, self.message.layout.height

    @property
    def compute_seconds(self) -> float:
        return _wire.seconds(self.message.times.compute)

    def __repr__(self) -> str:
        width, height = self.size
        return f"<polyscan result: {len(self)} regions of {width}x{height} pixels, {self.verdict}>"

    def __str__(self) -> str:
        return _text(self)

    def overlay(self, scale: float | None = None) -> Any:
        """An image of Pillow: the frame, if it is still there, with the outlines of the regions, those that failed in
        red and those that passed in green; what didn't come back is blue, as regions without limits are. It needs
        Pillow, and regions that were given by the caller."""
        from polyscan._overlay import draw

        if self._regions is None:
            raise ValueError("the regions are the server's: reduce with Client.recipe_regions(name) to draw them")
        verdicts = dict(zip(self.index.tolist(), self.verdicts.tolist()))
        bgr = self.message.layout.pixel_format == frame_pb2.PIXEL_FORMAT_BGR8
        return draw(self._original(), self.size, self._regions, verdicts, scale, bgr)

    def _repr_html_(self) -> str:
        picture = ""
        try:
            from polyscan._overlay import data_url

            picture = f'<img alt="regions" style="max-width:100%" src="{data_url(self.overlay())}">'
        except (ImportError, ValueError):
            pass  # without Pillow, or with regions of the server's, the table is all there is
        return f"<div><b>{html.escape(repr(self)[1:-1])}</b><br>{picture}{_html(self)}</div>"


class Part(RegionTable):
    """The numbers of a part of a line-scan. message is what the server sent, field by field."""

    def __init__(self, message: scan_pb2.PartResult, latency: float) -> None:
        super().__init__(store(message))
        self.message = message
        self.latency = latency
        """Seconds from the call of send for the strip that completed the part to the arrival of the result; 0 where
        that is so long ago that it isn't known any more."""

    @property
    def number(self) -> int:
        return self.message.part_number

    @property
    def result_number(self) -> int:
        return self.message.result_number

    @property
    def part_id(self) -> str:
        return self.message.part_id

    @property
    def first_line(self) -> int:
        return self.message.first_line

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.message.verdict)

    @property
    def passed(self) -> bool:
        return self.verdict == Verdict.PASS

    @property
    def incomplete(self) -> bool:
        """Lines that its regions need were lost: missing_lines of them."""
        return self.message.incomplete

    @property
    def missing_lines(self) -> int:
        return self.message.missing_lines

    @property
    def late(self) -> bool:
        return self.message.late

    @property
    def error(self) -> Error | None:
        """Why its pixels gave no result; there are no regions then."""
        return from_status(self.message.error) if self.message.HasField("error") else None

    def __repr__(self) -> str:
        return f"<polyscan part {self.number}: {len(self)} regions, {self.verdict}>"


def store(message: Any) -> Rows | Columns:
    return Columns(message.columns) if message.HasField("columns") else Rows(message.regions)


def weak(original: Any) -> Any:
    """A function that returns what the user gave as a frame, as long as somebody else has it: results that are kept
    keep no frames. Files are kept, which are small."""
    import weakref

    if original is None or isinstance(original, (str, bytes, os.PathLike)):
        return lambda: original
    try:
        return weakref.ref(original)
    except TypeError:
        return lambda: None


def _cells(table: RegionTable, limit: int) -> tuple[list[str], list[list[str]]]:
    columns = table.to_dict()
    head = [c for c in columns if c not in ("area", "coverage", "sum", "variance") and not c.endswith("_of_squares")]
    head = [c for c in head if not c.endswith(("_sum", "_variance"))]
    rows = []
    for i in range(min(limit, len(table))):
        row = []
        for c in head:
            v = columns[c][i]
            row.append(f"{v:.4g}" if isinstance(v, (float, np.floating)) else str(v))
        rows.append(row)
    return head, rows


def _text(table: RegionTable) -> str:
    head, rows = _cells(table, len(table))
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = []
    for row in [head, *rows]:
        cells = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _html(table: RegionTable) -> str:
    head, rows = _cells(table, _SHOWN)
    out = ["<table><tr>", *(f"<th>{html.escape(h)}</th>" for h in head), "</tr>"]
    for row in rows:
        style = ' style="color:#c00"' if "FAIL" in row[1:2] else ""
        out += [f"<tr{style}>", *(f"<td>{html.escape(c)}</td>" for c in row), "</tr>"]
    out.append("</table>")
    if len(table) > _SHOWN:
        out.append(f"<p>and {len(table) - _SHOWN} more</p>")
    return "".join(out)
