"""Channels that are derived from colours."""

import numpy as np
import pytest

import polyscan
from test_columns import NAMES, as_rows

MATRIX = np.array([[0.299, 0.587, 0.114], [0.5, -0.4187, -0.0813], [1, -1, 0]])


def test_values(client):
    frame = np.zeros((4, 6, 3), np.uint8)
    frame[:, :, 0] = 255  # red: L* 53.24, a* 80.10, b* 67.22
    frame[0, 0] = 90
    regions = {"red": [(1, 1), (5, 1), (5, 4), (1, 4)], "gray": [(0, 0), (1, 0), (1, 1), (0, 1)]}
    limits = ["lab.a.mean > 60", "hue.mean in [350, 20]", "gray.p99 < 80"]
    got = client.reduce(frame, regions, limits=limits, statistics="all", colors=["gray", "hsv", "lab", MATRIX])
    assert got.channels == ["red", "green", "blue", "gray", "hue", "saturation", "value", "lab.l", "lab.a", "lab.b",
                            "matrix.x", "matrix.y", "matrix.z"]  # fmt: skip
    assert np.allclose(got.mean[0], [255, 0, 0, 76, 0, 100, 100, 53.24, 80.1, 67.22, 76.25, 127.5, 255], atol=0.02)
    assert np.allclose(got.min[0, 7:10], got.mean[0, 7:10])
    assert np.isnan(got.mean[1, 4]) and np.isnan(got.mode[1, 4]) and np.isnan(got.min[0, 4])
    assert np.allclose(got.mean[1, 8:10], 0)
    assert [r.verdict.name for r in got] == ["PASS", "FAIL"]
    one = client.reduce(frame, regions, colors="lab")
    assert one.channels[3:] == ["lab.l", "lab.a", "lab.b"] and np.array_equal(one.mean[:, 3:], got.mean[:, 7:10])


@pytest.mark.parametrize("histogram", [False, True, 7, (5, -10, 90)])
def test_rows(client, histogram):
    frame = np.random.default_rng(7).integers(0, 256, (40, 50, 3), np.uint8)
    regions = client.regions({"a": [(3, 3), (44, 9), (20, 38)], "none": [(90, 90), (91, 90), (91, 91)]})
    colors = ["hsv", "lab", MATRIX]
    what = client._what(regions, None, None, "all", [5, 50], "nearest-rank", histogram, None, None, colors=colors)
    columns = client.reduce(frame, regions, statistics="all", percentiles=[5, 50], histogram=histogram, colors=colors)
    rows = as_rows(client, client._encode(frame, None, None), what)
    for name in NAMES:
        want, got = getattr(rows, name, None), getattr(columns, name, None)
        if want is not None and name != "verdicts":
            assert np.array_equal(want[0], got[0], equal_nan=np.asarray(want).dtype.kind == "f"), name


def test_wrong(client):
    frame = np.zeros((4, 6), np.uint8)
    regions = {"a": [(1, 1), (5, 1), (5, 4)]}
    with pytest.raises(polyscan.InvalidArgument, match="colors"):
        client.reduce(frame, regions, colors="lab")
    with pytest.raises(ValueError, match="3 x 3"):
        client.reduce(frame, regions, colors=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="color"):
        client.reduce(frame, regions, colors="luv")


def test_derivatives(client):
    frame = np.zeros((9, 12), np.uint8)
    frame[:, 6:] = 80  # a step of 80: half of it on either side
    regions = {"step": [(5, 1), (7, 1), (7, 8), (5, 8)], "flat": [(8, 1), (12, 1), (12, 8), (8, 8)]}
    limits = ["gradient.mean >= 40", "laplacian.variance > 1000"]
    got = client.reduce(frame, regions, limits=limits, statistics="all", colors=["gradient", "laplacian"])
    assert got.channels == ["gray", "gradient", "laplacian"]
    assert np.allclose(got.mean[0], [40, 40, 0]) and np.allclose(got.variance[0], [1600, 0, 6400])
    assert np.allclose(got.min[0], [0, 40, -80]) and np.allclose(got.max[0], [80, 40, 80])
    assert np.allclose(got.mean[1], [80, 0, 0])
    assert [r.verdict.name for r in got] == ["PASS", "FAIL"]
    with pytest.raises(ValueError, match="color"):
        client.reduce(frame, regions, colors="sobel")
