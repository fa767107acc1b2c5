"""Results that come as columns: read where they lie, and what follows from them derived as the server derives it."""

from __future__ import annotations

import fractions
import math
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from polyscan import _errors
from polyscan.v1 import columns_pb2, frame_pb2, region_pb2

Array = npt.NDArray[Any]

# Columns in mm and mm2, and those in pixels that they follow from.
MILLIMETRES = {
    "area_mm2": "area", "count_mm2": "count", "bounds_mm": "bounds", "centroid_mm": "centroid", "min_at_mm": "min_at",
    "max_at_mm": "max_at", "weighted_centroid_mm": "weighted_centroid",
}  # fmt: skip
# Columns of textures, and their fields in TextureColumns and Texture.
TEXTURES = {
    "texture_pairs": "pairs", "contrast": "contrast", "homogeneity": "homogeneity", "energy": "energy",
    "correlation": "correlation", "texture_entropy": "entropy", "cooccurrence": "counts",
}  # fmt: skip
# Columns of pixels weighted by coverage, and their fields in CoveredColumns and Covered.
COVERED = {"covered_sum": "sum", "covered_mean": "mean", "covered_variance": "variance", "covered_stddev": "stddev"}
# Those of their histograms.
COVERED_BINS = {"covered_histogram": "counts", "covered_below": "below", "covered_above": "above"}
# Columns of correlations, and their fields in CorrelationColumns and Correlation.
CORRELATIONS = {
    "correlation_pairs": "pairs", "mean_product": "product", "covariance": "covariance", "coefficient": "correlation",
}  # fmt: skip
_EXACT = 1 << 53  # below it a float holds each integer, and dividing two of them rounds once


class Columns:
    """The numbers of a result that came as one message for all regions. Derived numbers are those that rows would have,
    bit for bit."""

    def __init__(self, m: columns_pb2.RegionColumns) -> None:
        self.message = m
        self.length = m.rows
        self.channels = list(m.channels)
        self._asked_for = set(m.statistics)
        self._verdict = self._read("verdict", m.verdict, np.uint8, m.rows)
        ends = m.limits.ends
        self._limit_ends = self._read("limits.ends", ends, "<u4", m.rows) if m.HasField("limits") else None

    def _read(self, name: str, data: bytes, kind: Any, *shape: int) -> Array:
        a = np.frombuffer(data, kind)
        if a.size != math.prod(shape):
            raise _errors.DataLoss(f"columns: {name}: {len(data)} bytes, want {'x'.join(map(str, shape))} values")
        return a.reshape(shape)

    def column(self, name: str) -> Array | None:
        m, n, c = self.message, self.length, len(self.channels)
        if name == "verdict":
            return self._verdict
        if name == "index":
            return self._read(name, m.index, "<u4", n).astype(np.int64) if m.index else np.arange(n)
        if name == "count":
            return self._read(name, m.count, "<u8", n) if m.count or not n else None
        if name in ("area", "coverage"):
            data = getattr(m, name)
            return self._read(name, data, "<f8", n) if data or not n else None
        if name == "bounds":
            return self._read(name, m.bounds, "<u4", n, 4).astype(np.int64) if m.bounds or not n else None
        if name == "centroid":
            return self._read(name, m.centroid, "<f8", n, 2) if self._came(m.centroid, "CENTROID") else None
        if name in MILLIMETRES:
            return self._millimetres(name)
        if name in ("sum", "sum_of_squares"):
            data = getattr(m, name)
            return self._read(name, data, "<u8", n, c) if self._came(data, name.upper()) else None
        if name in ("min", "max"):
            data = getattr(m, name)
            if not self._came(data, name.upper()):
                return None
            return self._angles(self._samples(self._read(name, data, "<u4", n, c)))
        if name in ("min_at", "max_at"):
            data = getattr(m, name)
            if not self._came(data, name[:3].upper()):
                return None
            return self._angles(self._full(self._read(name, data, "<u4", n, c, 2)))
        if name == "weighted_centroid":
            data = m.weighted_centroid
            return self._read(name, data, "<f8", n, c, 2) if self._came(data, "CENTROID") else None
        if name == "mean":
            if m.steps and self._has("MEAN"):
                return self._read(name, m.mean, "<f8", n, c)
            return self._mean() if self._has("MEAN") else None
        if name in ("variance", "stddev"):
            if m.steps and self._has(name.upper()):
                return self._read(name, getattr(m, name), "<f8", n, c)
            return self._variance(name == "stddev") if self._has(name.upper()) else None
        if name in ("histogram", "below", "above"):
            return self._histogram(name)
        if name == "median" and self._has("MEDIAN"):
            if m.median:
                return self._read(name, m.median, "<f8", n, c)
            return self._ranks([fractions.Fraction(1, 2)], True)[:, :, 0]
        if name in ("mode", "distinct") and self._has(name.upper()):
            data = getattr(m, name)
            if data:
                found = self._read(name, data, "<u4", n, c)
                return self._samples(found) if name == "mode" else found.astype(np.int64)
            counts = self._counts()
            return self._full(counts.argmax(2)) if name == "mode" else np.count_nonzero(counts, axis=2)
        if name in ("skewness", "kurtosis", "entropy", "mean_absolute_deviation", "interquartile_range"):
            data = getattr(m, name)
            return self._read(name, data, "<f8", n, c) if self._came(data, name.upper()) else None
        if name in ("kolmogorov_smirnov", "wasserstein", "jensen_shannon", "chi_square"):
            data = getattr(m, name)
            return self._read(name, data, "<f8", n, c) if self._came(data, "DISTANCES") else None
        if name in ("plane_x", "plane_y", "plane_residual"):
            data = getattr(m, name)
            return self._read(name, data, "<f8", n, c) if self._came(data, "PLANE") else None
        if name == "cumulative" and self._has("CUMULATIVE"):
            below = self._histogram("below")
            assert below is not None
            return np.cumsum(self._counts(), axis=2, dtype=np.uint64) + below[:, :, None]
        if name in TEXTURES and m.HasField("textures"):
            t = m.textures
            key = TEXTURES[name]
            data = getattr(t, key)
            if key == "counts":
                return self._read(name, data, "<u4", n, c, len(t.offsets), t.levels, t.levels) if data or not n else None
            return self._read(name, data, "<u4" if key == "pairs" else "<f8", n, c, len(t.offsets))
        if name == "covered_count" and m.HasField("covered"):
            return self._read(name, m.covered.count, "<f8", n)
        if name in COVERED and m.HasField("covered"):
            if name == "covered_stddev":
                return np.sqrt(self._read("covered_variance", m.covered.variance, "<f8", n, c))
            return self._read(name, getattr(m.covered, COVERED[name]), "<f8", n, c)
        if name in COVERED_BINS and m.covered.HasField("histogram"):
            h = m.covered.histogram
            shape = (n, c, h.bins) if name == "covered_histogram" else (n, c)
            return self._read(name, getattr(h, COVERED_BINS[name]), "<f8", *shape)
        if name in CORRELATIONS and m.HasField("correlations"):
            found = m.correlations
            key = CORRELATIONS[name]
            return self._read(name, getattr(found, key), "<u8" if key == "pairs" else "<f8", n, c, len(found.terms))
        if name == "percentiles" and m.percentiles:
            if m.percentile:
                return self._read(name, m.percentile, "<f8", n, c, len(m.percentiles))
            linear = m.percentile_method == region_pb2.PERCENTILE_METHOD_LINEAR
            return self._ranks([fractions.Fraction(repr(p)) / 100 for p in m.percentiles], linear)
        return None

    def _millimetres(self, name: str) -> Array | None:
        """What follows from a column in pixels, by the decimals that the scale is written as."""
        found = self.column(MILLIMETRES[name])
        if found is None or not self.message.HasField("scale"):
            return None
        s = self.message.scale
        x, y = fractions.Fraction(repr(s.x)), fractions.Fraction(repr(s.y))
        left, top = fractions.Fraction(repr(s.origin.x)), fractions.Fraction(repr(s.origin.y))
        if name.endswith("_mm2"):
            values = [float(fractions.Fraction(v) * x * y) for v in found.tolist()]
            return np.array(values, np.float64).reshape(found.shape)
        half = fractions.Fraction(int(name in ("min_at_mm", "max_at_mm")), 2)  # centres of pixels
        empty = np.isnan(found) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
        if name == "bounds_mm":
            empty |= (found[:, 2] <= found[:, 0])[:, None]
        elif half:
            empty |= found < 0
        values = [
            math.nan if e else float((fractions.Fraction(v) + half - (top if k % 2 else left)) * (y if k % 2 else x))
            for k, (v, e) in enumerate(zip(found.ravel().tolist(), empty.ravel().tolist()))
        ]
        return np.array(values, np.float64).reshape(found.shape)

    def _has(self, statistic: str) -> bool:
        return region_pb2.Statistic.Value(f"STATISTIC_{statistic}") in self._asked_for

    def _came(self, data: bytes, statistic: str) -> bool:
        """Whether a column was asked for. Of no rows it is empty either way."""
        return bool(data) or not self.length and self._has(statistic)

    def _full(self, a: Array) -> Array:
        """Values of channels, -1 for regions without pixels."""
        out = a.astype(np.int64)
        out[self._counted() == 0] = -1
        return out

    def _samples(self, a: Array) -> Array:
        """Samples of channels: where one is derived from colours, what they stand for, NaN where there is none."""
        out, m = self._full(a), self.message
        return values_of(out, self.channels, list(m.steps), list(m.zeros)) if m.steps else out

    def _angles(self, a: Array) -> Array:
        """Extrema and their places, which hues don't have."""
        hue = np.array([c == frame_pb2.CHANNEL_HUE for c in self.channels], bool)
        if hue.any():
            a[:, hue] = np.nan if a.dtype.kind == "f" else -1
        return a

    def _counted(self) -> Array:
        found = self.column("count")
        if found is None:
            raise _errors.DataLoss("columns: count is missing")
        return found

    def _mean(self) -> Array:
        if not self.length:
            return np.empty((0, len(self.channels)))
        count, total = self._counted()[:, None], self.column("sum")
        if total is None:
            raise _errors.DataLoss("columns: sum is missing")
        if total.size == 0 or int(total.max()) < _EXACT:
            with np.errstate(invalid="ignore"):
                return total.astype(np.float64) / count.astype(np.float64)
        n = count.tolist()  # integers of Python, whose quotient is rounded once
        return np.array([[s / n[i][0] if n[i][0] else np.nan for s in row] for i, row in enumerate(total.tolist())])

    def _variance(self, root: bool) -> Array:
        if not self.length:
            return np.empty((0, len(self.channels)))
        count, total, squares = self._counted(), self.column("sum"), self.column("sum_of_squares")
        if total is None or squares is None:
            raise _errors.DataLoss("columns: sum or sum_of_squares is missing")
        out = np.full(total.shape, np.nan)
        rows = zip(count.tolist(), total.tolist(), squares.tolist())
        for i, (n, sums, sq) in enumerate(rows):
            if n:
                for j, (a, b) in enumerate(zip(sums, sq)):
                    over = n * b - a * a
                    out[i, j] = _root(over, n) if root else over / (n * n)
        return out

    def _counts(self) -> Array:
        h = self.message.histogram
        return self._read("histogram.counts", h.counts, "<u4", self.length, len(self.channels), h.bins)

    def _histogram(self, name: str) -> Array | None:
        m, n, c = self.message, self.length, len(self.channels)
        if not m.HasField("histogram") or name == "histogram" and not self._has("HISTOGRAM"):
            return None
        if name == "histogram":
            return self._counts()
        data = getattr(m.histogram, name)
        return self._read(name, data, "<u4", n, c) if data else np.zeros((n, c), np.uint32)

    def _ranks(self, shares: Sequence[fractions.Fraction], linear: bool) -> Array:
        """Percentiles from the full histogram, by exact ranks."""
        counts = self._counts()
        cumulative = np.cumsum(counts, axis=2, dtype=np.int64)
        out = np.full((*counts.shape[:2], len(shares)), np.nan)
        for i, n in enumerate(self._counted().tolist()):
            for k, share in enumerate(shares if n else ()):
                at = share * (n - 1) if linear else fractions.Fraction(max(1, math.ceil(share * n)) - 1)
                low, rest = int(at), at - int(at)
                for j in range(counts.shape[1]):
                    a = int(np.searchsorted(cumulative[i, j], low + 1))
                    b = int(np.searchsorted(cumulative[i, j], low + 2)) if rest else a
                    out[i, j, k] = float(a + (b - a) * rest)
        return out

    def pairs(self) -> tuple[list[tuple[int, int]], int] | None:
        t = self.message.textures
        return ([(o.dx, o.dy) for o in t.offsets], t.levels) if self.message.HasField("textures") else None

    def correlations(self) -> list[region_pb2.CorrelationTerm] | None:
        return list(self.message.correlations.terms) if self.message.HasField("correlations") else None

    def percentiles(self) -> list[float]:
        return list(self.message.percentiles)

    def range(self) -> tuple[float, float] | None:
        h = self.message.histogram
        return (h.lower, h.upper) if self.message.HasField("histogram") else None

    def names(self) -> list[str] | None:
        if not self.message.HasField("name"):
            return None if self.length else []
        return texts(self.message.name)

    def limits(self, i: int) -> list[tuple[str, int, float | None, int, str, int]] | None:
        if self._limit_ends is None:
            return None if self._verdict[i] else []  # where there are limits there is a verdict
        m = self.message.limits
        start, end = int(self._limit_ends[i - 1]) if i else 0, int(self._limit_ends[i])
        value = np.frombuffer(m.value, "<f8")
        expressions, reasons = texts(m.expression), texts(m.reason)
        parts = np.frombuffer(m.parts, "<u4").tolist() if m.parts else [0] * len(value)
        return [
            (expressions[k], m.verdict[k], None if np.isnan(value[k]) else float(value[k]), m.channel[k], reasons[k], parts[k])
            for k in range(start, end)
        ]


def values_of(a: Array, channels: Sequence[int], steps: Sequence[float], zeros: Sequence[int]) -> Array:
    """What samples stand for, of which -1 is none. Hues have no extrema, and 255 is no hue."""
    step = np.array([s or 1.0 for s in steps])
    out = (a - np.array(zeros, np.float64)) * step
    out[a < 0] = np.nan
    hue = np.array([c == frame_pb2.CHANNEL_HUE for c in channels], bool)
    out[(a == 255) & hue] = np.nan
    return out


def texts(column: columns_pb2.TextColumn) -> list[str]:
    ends = np.frombuffer(column.ends, "<u4").tolist()
    text = column.text
    return [text[a:b].decode() for a, b in zip([0, *ends], ends)]


def _root(over: int, n: int) -> float:
    """The root of over / n^2, rounded once."""
    if over == 0:
        return 0.0
    shift = max(0, 60 - (over.bit_length() - 2 * n.bit_length()) // 2)
    square = (over << 2 * shift) // (n * n)
    found = math.isqrt(square)
    # What was cut off is told by the lowest bit: found has more bits than a float, so that this rounds as the root
    # would.
    cut = found * found * n * n != over << 2 * shift
    return (2 * found + cut) / (1 << shift + 1)
