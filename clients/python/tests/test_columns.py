"""Results as columns and as rows are the same, bit for bit."""

import numpy as np
import pytest

import polyscan
from conftest import amount
from polyscan import _columns, _results
from polyscan.v1 import columns_pb2, inspection_pb2, inspection_pb2_grpc, region_pb2
from test_exact import FORMATS, named, random_frame, random_regions

NAMES = ["index", "count", "area", "coverage", "bounds", "centroid", *_results._CHANNEL, *_results._PLACES, "histogram",
         "below", "above", "percentiles", "verdicts", *_columns.TEXTURES, "covered_count", *_columns.COVERED,
         *_columns.COVERED_BINS]  # fmt: skip
EVERYTHING = [n.lower().removeprefix("statistic_") for n in region_pb2.Statistic.keys()[1:]] + ["covered_histogram"]


def as_rows(client, frame, what):
    inspection = what.message()
    inspection.ClearField("result")
    request = inspection_pb2.ReduceRequest(inspection=inspection, frame=frame.message())
    answer = inspection_pb2_grpc.InspectionServiceStub(client.channel).Reduce(request).result
    assert not answer.HasField("columns")
    return polyscan.Result(answer)


def test_same(client, rng):
    for i in range(amount(100, 3000)):
        format = FORMATS[i % len(FORMATS)]
        a, bits, _ = random_frame(rng, format)
        regions = client.regions(random_regions(rng, a.shape), limits=["mean < 100", "min > 3", "p90 < 200"])
        statistics = None if i % 4 == 3 else "all"
        histogram = [False, True, 7, (5, 10, 90)][i % 3 if statistics is None else i % 4]
        percentiles = [0, 0.1, 33.3, 50, 99.9, 100] if i % 2 else None
        method = ["nearest-rank", "linear"][i // 2 % 2]
        texture = [False, True, polyscan.Texture([(2, -1)], 5, True)][i % 3]
        what = client._what(regions, None, None, statistics, percentiles, method, histogram, None, None, texture=texture)
        encoded = client._encode(a, named(format), bits)
        columns = client.reduce(a, regions, format=named(format), bits=bits, statistics=statistics,
                                percentiles=percentiles,
                                percentile_method=method, histogram=histogram, texture=texture)  # fmt: skip
        if not columns.message.HasField("columns"):
            pytest.skip("the server answers with rows")
        rows = as_rows(client, encoded, what)
        assert rows.names == columns.names and rows.channels == columns.channels and rows.verdict == columns.verdict
        assert [r.limits for r in rows] == [r.limits for r in columns]
        empty = (rows.count == 0).all()
        for name in NAMES:
            want, got = getattr(rows, name, None), getattr(columns, name, None)
            if empty and (want is None or got is None or want.shape != got.shape):
                continue  # of rows without pixels it can't be seen what was asked for
            if want is None and got is not None and got.dtype == np.float64 and np.isnan(got).all():
                continue  # no region has a value: there is no reference, or samples are all equal
            assert (want is None) == (got is None), name
            if want is not None:
                np.testing.assert_array_equal(want, got, f"case {i}: {name}")


def test_lengths():
    """A column of another length than the message says is an error that names it."""
    m = columns_pb2.RegionColumns(rows=2, regions=2, channels=[1], verdict=b"\0\0", count=bytes(8))
    with pytest.raises(polyscan.DataLoss, match="count: 8 bytes"):
        _columns.Columns(m).column("count")
    with pytest.raises(polyscan.DataLoss, match="verdict"):
        _columns.Columns(columns_pb2.RegionColumns(rows=2))


def test_root(rng):
    """A standard deviation is the exact root, rounded once."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    for _ in range(2000):
        n = int(rng.integers(1, 1 << 32)) >> int(rng.integers(0, 32)) or 1
        over = int(rng.integers(0, 1 << 62)) * int(rng.integers(0, 1 << 34)) >> int(rng.integers(0, 90))
        assert _columns._root(over, n) == float(Decimal(over).sqrt() / n)


def test_chosen(client, rng):
    """Of regions and fields that were chosen comes what comes of all, and nothing else."""
    a = rng.integers(0, 256, (60, 80), np.uint8)
    corners = [(i % 8 * 10, i // 8 * 10) for i in range(48)]
    regions = {f"R{i}": [(x, y), (x + 9, y), (x + 9, y + 9), (x, y + 9)] for i, (x, y) in enumerate(corners)}
    found = client.regions(regions, limits={f"R{i}": "mean < 127" for i in range(0, 48, 2)}).with_scale(0.1)
    asked = dict(statistics=EVERYTHING, histogram=True, percentiles=[5, 50], texture=polyscan.Texture(counts=True))
    all = client.reduce(a, found, results="all", **asked)
    want = np.flatnonzero(all.verdicts == polyscan.Verdict.FAIL)
    assert 0 < len(want) < 24
    failed = client.reduce(a, found, results="failed", **asked)
    assert failed.verdict == all.verdict and failed.names == failed.failed == all.failed
    assert len(failed.to_pandas()) == len(want) and failed.message.columns.regions == 48
    assert [r.limits for r in failed] == [all[int(i)].limits for i in want]
    for name in NAMES:
        np.testing.assert_array_equal(getattr(failed, name), getattr(all, name)[want], name)

    fields = {"count": ["count"], "area": ["area"], "coverage": ["coverage"], "bounds": ["bounds"],
              "centroid": ["centroid"], "channels": ["count", *_results._CHANNEL, *_results._PLACES, "histogram",
                                                     "below", "above", "percentiles", *_columns.TEXTURES,
                                                     "covered_count", *_columns.COVERED, *_columns.COVERED_BINS]}  # fmt: skip
    for field, columns in {**fields, "verdict": [], "name": [], "limits": []}.items():
        r = client.reduce(a, found, fields=[field], **asked)
        for name in NAMES:
            if name in (*columns, "index", "verdicts"):
                np.testing.assert_array_equal(getattr(r, name), getattr(all, name), name)
            else:
                with pytest.raises(AttributeError, match=f"{name} (was not asked for|needs)"):
                    getattr(r, name)
        if field == "name":
            assert r.failed == all.failed and repr(r[0]) == f"<region 'R0' {r[0].verdict}>"
        else:
            for missing in (lambda: r.names, lambda: r[0].name):
                with pytest.raises(AttributeError, match="name was not asked for"):
                    missing()
            assert list(r.to_pandas().index) == list(range(48)) and str(r).splitlines()[1].split()[0] == "0"
            assert repr(r[0]).startswith("<region 0 ")
        if field == "limits":
            assert [x.limits for x in r] == [x.limits for x in all]
        else:
            assert r[1].limits == []  # it has none
            with pytest.raises(AttributeError, match="limits was not asked for"):
                r[0].limits


def test_none_failed(client):
    a = np.zeros((30, 40), np.uint8)
    found = client.regions({"all": [(0, 0), (40, 0), (40, 30)]}, limits="mean < 1").with_scale(0.1)
    r = client.reduce(a, found, results="failed", statistics=EVERYTHING, histogram=True, percentiles=[5, 50],
                      texture=polyscan.Texture(counts=True))  # fmt: skip
    assert (len(r), r.passed, r.names, r.failed) == (0, True, [], [])
    for name in NAMES:
        assert len(getattr(r, name)) == 0, name
    assert r.histogram.shape == (0, 256) and r.percentiles.shape == (0, 2) and len(r.to_pandas()) == 0
    r = client.reduce(a, found, results="failed", statistics=["mean"])
    assert r.mean.shape == (0,) and "max" not in r.to_pandas()
    with pytest.raises(AttributeError, match="stddev was not asked for"):
        r.stddev


def test_chosen_streams(client):
    """Streams and line-scans bring what was chosen, too."""
    found = client.regions({"a": [(0, 0), (40, 0), (40, 9)], "b": [(0, 9), (40, 30), (0, 30)]},
                           limits={"a": "mean < 1", "b": "mean > 1"})  # fmt: skip
    chosen = dict(results="failed", fields=["name", "count"])
    frames = [np.zeros((30, 40), np.uint8), np.full((30, 40), 3, np.uint8)]
    names = [r.result.names for r in client.stream(frames, found, **chosen)]
    with client.scan(found, width=40, part_lines=30, strip_lines=30, **chosen) as scan:
        for frame in frames:
            scan.send(frame)
        scan.close_send()
        parts = [p for p in scan if isinstance(p, polyscan.Part)]
    assert names == [p.names for p in parts] == [["b"], ["a"]]
    for p in parts:
        assert len(p.count) == 1
        with pytest.raises(AttributeError, match="mean was not asked for"):
            p.mean


def test_bad_choices(client):
    a, square = np.zeros((30, 40), np.uint8), {"all": [(0, 0), (40, 0), (40, 30)]}
    for options, match in [({"results": "passed"}, "results 'passed': want one of all, failed"),
                           ({"fields": ["mean"]}, "field 'mean': want one of verdict, name"),
                           ({"fields": []}, "fields: none")]:  # fmt: skip
        with pytest.raises(ValueError, match=match):
            client.reduce(a, square, **options)
