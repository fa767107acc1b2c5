"""Numbers: equal to NumPy's for the mask that the server returns, for all formats and strides; and to the command
line's, which is the Go client."""

import json
import os
import subprocess

import numpy as np
import pytest

import polyscan
from conftest import ROOT, amount

FORMATS = ["gray", "gray16", "rgb", "bgr", "rgba"]


def named(format):
    """What a caller says of an array's format."""
    return None if format.startswith("gray") else format


def random_frame(rng, format):
    """An array of a format with random size and strides, its bits, and its samples with red first."""
    h, w = int(rng.integers(1, 48)), int(rng.integers(1, 48))
    channels = {"gray": 1, "gray16": 1, "rgb": 3, "bgr": 3, "rgba": 4}[format]
    bits = int(rng.choice([10, 12, 14, 16])) if format == "gray16" else None
    kind = np.dtype(str(rng.choice(["<u2", ">u2"]))) if bits else np.dtype(np.uint8)
    n = 2 * max(h, w) + 3
    shape = (n, n) + ((channels,) if channels > 1 or rng.integers(4) == 0 else ())
    whole = rng.integers(0, 1 << (bits or 8), shape).astype(kind)
    y, x = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    a = [
        lambda: np.ascontiguousarray(whole[:h, :w]),
        lambda: whole[y : y + h, x : x + w],  # rows apart
        lambda: whole[y : y + h][:, : 2 * w : 2],  # columns apart
        lambda: whole[: 2 * h : 2, x : x + w],  # every other row
        lambda: whole[y : y + h, x : x + w][::-1],  # upside down
        lambda: whole[y : y + h, x : x + w][:, ::-1],
        lambda: np.asfortranarray(whole[:h, :w]),
        lambda: whole[:w, :h].swapaxes(0, 1),
    ][int(rng.integers(8))]()
    samples = a.reshape(a.shape[0], a.shape[1], -1).astype(np.int64)
    return a, bits, samples[:, :, ::-1] if format == "bgr" else samples


def random_regions(rng, shape):
    h, w = shape[:2]
    out = {}
    for i in range(int(rng.integers(1, 4))):
        xy = rng.uniform((-4, -4), (w + 4, h + 4), (int(rng.integers(3, 8)), 2))
        out[f"r{i}"] = [np.round(xy), xy, np.round(xy * 2) / 2][int(rng.integers(3))]
    return out


def check(result, masks, samples, what):
    """Compare all integers, and what derives from them, with NumPy's."""
    several = samples.shape[2] > 1
    for i, inside in enumerate(masks):
        chosen = samples[inside]
        got = result[i]
        assert got.count == len(chosen), what
        if len(chosen) == 0:
            assert np.all(got.min == -1) and np.all(np.isnan(got.mean)) and np.all(got.sum == 0), what
            continue
        pick = (lambda v: v) if several else (lambda v: v[0])
        np.testing.assert_array_equal(got.sum, pick(chosen.sum(0)), what)
        np.testing.assert_array_equal(got.sum_of_squares, pick((chosen**2).sum(0)), what)
        np.testing.assert_array_equal(got.min, pick(chosen.min(0)), what)
        np.testing.assert_array_equal(got.max, pick(chosen.max(0)), what)
        np.testing.assert_array_equal(got.median, pick(np.median(chosen, 0)), what)
        np.testing.assert_allclose(got.mean, pick(chosen.mean(0)), rtol=1e-13)
        np.testing.assert_allclose(got.variance, pick(chosen.var(0)), rtol=1e-9, atol=1e-9)
        for c in range(samples.shape[2]):
            histogram = got.histogram[c] if several else got.histogram
            counts = np.bincount(chosen[:, c], minlength=len(histogram))
            np.testing.assert_array_equal(histogram, counts, what)
            assert (got.distinct[c] if several else got.distinct) == np.count_nonzero(counts), what
            assert (got.mode[c] if several else got.mode) == np.argmax(counts), what
            one = (lambda a: a[c]) if several else (lambda a: a)
            np.testing.assert_array_equal(one(got.cumulative), np.cumsum(counts), what)
            v = chosen[:, c].astype(float)
            d = v - v.mean()
            np.testing.assert_allclose(one(got.mean_absolute_deviation), np.abs(d).mean(), rtol=1e-9, atol=1e-9)
            low, high = np.percentile(v, [25, 75], method="inverted_cdf")
            assert one(got.interquartile_range) == high - low, what
            p = counts[counts > 0] / len(v)
            np.testing.assert_allclose(one(got.entropy), -(p * np.log2(p)).sum(), rtol=1e-9, atol=1e-9)
            if v.min() == v.max():
                assert np.isnan(one(got.skewness)) and np.isnan(one(got.kurtosis)), what
            else:
                np.testing.assert_allclose(one(got.skewness), (d**3).mean() / v.std() ** 3, rtol=1e-7, atol=1e-7)
                np.testing.assert_allclose(one(got.kurtosis), (d**4).mean() / v.var() ** 2, rtol=1e-7, atol=1e-7)
            y, x = np.nonzero(inside & (samples[:, :, c] == chosen[:, c].max()))
            assert tuple(got.max_at[c] if several else got.max_at) == (x[0], y[0]), what


def masks_of(client, regions, shape):
    """The pixels of each region, as the server draws them."""
    size = (shape[1], shape[0])
    return [client.mask({name: xy}, size).image != 0 for name, xy in regions.items()]


def test_random(client, tcp, rng):
    with polyscan.connect(tcp) as remote:
        for i in range(amount(300, 10_000)):
            format = FORMATS[i % len(FORMATS)]
            a, bits, samples = random_frame(rng, format)
            regions = random_regions(rng, a.shape)
            c = (client, remote)[i % 2]
            result = c.reduce(a, regions, format=named(format), bits=bits, statistics="all", histogram=True)
            what = f"case {i}: {format} {a.shape} {a.strides} {a.dtype} {bits} {regions}"
            check(result, masks_of(client, regions, a.shape), samples, what)


def test_shared_strides(client, rng):
    """Views of an array in shared memory go without a copy, whatever their rows are apart."""
    whole = client.frame((100, 120, 3))
    whole[:] = rng.integers(0, 256, whole.shape)
    assert client.shared_memory
    region = {"all": [(0, 0), (500, 0), (500, 500), (0, 500)]}
    copied = (whole[::-1], whole[:, ::2], whole[:, ::-1])
    for a in (whole, whole[10:90, 20:70], whole[::3], whole[:1], whole[:, :1], whole[5:6, 7:8], *copied):
        if not any(a is c for c in copied):
            assert client._encode(a, "bgr").message().WhichOneof("source") == "shared", a.strides
        result = client.reduce(a, region, format="bgr", histogram=True, statistics="all")
        check(result, [np.ones(a.shape[:2], bool)], a[:, :, ::-1].astype(np.int64), str(a.strides))


def test_comparator(client, rng):
    """check can fail."""
    a, regions = rng.integers(0, 256, (20, 20), np.uint8), {"all": [(0, 0), (20, 0), (20, 20), (0, 20)]}
    result = client.reduce(a, regions, histogram=True, statistics="all")
    samples = a[:, :, None].astype(np.int64)
    check(result, [np.ones((20, 20), bool)], samples, "")
    samples[3, 4] ^= 1
    with pytest.raises(AssertionError):
        check(result, [np.ones((20, 20), bool)], samples, "")


@pytest.mark.parametrize("format", FORMATS)
def test_go_client(client, rng, tmp_path, format):
    """The same frame and regions through the command line give the same report."""
    compared = 0
    for i in range(amount(3, 40)):
        a, bits, _ = random_frame(rng, format)
        regions = random_regions(rng, a.shape)
        a = np.ascontiguousarray(a.astype("<u2") if bits else a)
        (tmp_path / "frame.raw").write_bytes(a.tobytes())
        own = [{"name": n, "rings": [np.asarray(xy).tolist()]} for n, xy in regions.items()]
        (tmp_path / "regions.json").write_text(json.dumps(own))
        kind = {"gray": "gray8", "gray16": "gray16le", "rgb": "rgb8", "bgr": "bgr8", "rgba": "rgba8"}[format]
        command = [os.environ["POLYSCAN_PROGRAM"], "reduce", "frame.raw", "--raw", f"{a.shape[1]}x{a.shape[0]}:{kind}"]
        command += ["-r", "regions.json", "--json", "--stats", "all"] + (["--bits", str(bits)] if bits else [])
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        got = client.reduce(a, regions, format=named(format), bits=bits, statistics="all")
        for j, region in enumerate(json.loads(done.stdout)["regions"]):
            assert region["count"] == got.count[j]
            for c, channel in enumerate(region["channels"]):
                for name in ("sum", "sum_of_squares", "min", "max", "mean", "variance", "median", "mode", "distinct"):
                    if region["count"] and channel.get(name) is not None:
                        column = np.asarray(getattr(got, name)).reshape(len(got), -1)
                        assert channel[name] == column[j, c], (i, name, regions)
                        compared += 1
    assert compared > 20


def test_files(client):
    """A file by its path, its bytes, as an image of Pillow and as an array gives the same numbers."""
    import PIL.Image

    path = ROOT / "testdata" / "board.png"
    regions = ROOT / "testdata" / "board.regions.json"
    whole = PIL.Image.open(path).convert("RGB")
    ways = [path, str(path), path.read_bytes(), whole, np.asarray(whole), memoryview(np.asarray(whole))]
    ways.append(polyscan.Frame(whole.tobytes(), size=whole.size, format="rgb"))
    results = [client.reduce(w, regions) for w in ways]
    for r in results[1:]:
        np.testing.assert_array_equal(r.sum, results[0].sum)
        np.testing.assert_array_equal(r.verdicts, results[0].verdicts)
    assert len(results[0]) == 72 and len(results[0].failed) == 2
    bgr = np.asarray(whole)[:, :, ::-1]
    np.testing.assert_array_equal(client.reduce(bgr, regions, format="bgr").sum, results[0].sum)


def test_distances(client, rng):
    """Distances from another region and from a kept histogram, against NumPy."""
    a = rng.integers(0, 250, (40, 50)).astype(np.uint8)
    a[:, 25:] //= 3
    kept = np.bincount(a[:, :20].ravel(), minlength=256)
    left = [(0, 0), (25, 0), (25, 40), (0, 40)]
    regions = [
        polyscan.Region("left", left, reference="right", limits="ks > 0.3"),
        polyscan.Region("right", [(x + 25, y) for x, y in left], reference=kept),
    ]
    got = client.reduce(a, regions, statistics=["distances"])
    for i, other in enumerate((np.bincount(a[:, 25:].ravel(), minlength=256), kept)):
        own = np.bincount((a[:, :25] if i == 0 else a[:, 25:]).ravel(), minlength=256)
        p, q = own / own.sum(), other / other.sum()
        d = np.abs(np.cumsum(p) - np.cumsum(q))
        np.testing.assert_allclose(got.kolmogorov_smirnov[i], d.max(), rtol=1e-12)
        np.testing.assert_allclose(got.wasserstein[i], d.sum(), rtol=1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            js = np.nansum(p * np.log2(2 * p / (p + q))) + np.nansum(q * np.log2(2 * q / (p + q)))
            chi = np.nansum((p - q) ** 2 / (p + q))
        np.testing.assert_allclose(got.jensen_shannon[i], js / 2, rtol=1e-9)
        np.testing.assert_allclose(got.chi_square[i], chi / 2, rtol=1e-9)
    assert got["left"].verdict == polyscan.Verdict.PASS


@pytest.mark.parametrize("form", ["columns", "rows"])
def test_plane(client, rng, form):
    """The plane of a region's samples, against NumPy's least squares; pixels of one row have none."""
    a = rng.integers(0, 40, (60, 80)).astype(np.uint8)
    a += (np.arange(80)[None, :] + 2 * np.arange(60)[:, None]).astype(np.uint8)
    corners = [(5, 3), (70, 20), (22, 57)]
    regions = client.regions({"part": corners, "row": [(0, 7), (80, 7), (80, 8), (0, 8)]})
    regions = regions.with_limits({"part": ["plane.x in [0.9, 1.1]"]})
    got = client.reduce(a, regions, statistics=["plane"])
    if form == "rows":
        from test_columns import as_rows

        what = client._what(regions, None, None, ["plane"], None, "nearest-rank", False, None, None)
        got = as_rows(client, client._encode(a, None, None), what)
    inside = client.mask({"part": corners}, (80, 60)).image != 0
    y, x = np.nonzero(inside)
    v = a[inside].astype(float)
    m = np.stack([x, y, np.ones_like(x)], axis=1).astype(float)
    fit, *_ = np.linalg.lstsq(m, v, rcond=None)
    np.testing.assert_allclose(got.plane_x[0], fit[0], rtol=1e-9)
    np.testing.assert_allclose(got.plane_y[0], fit[1], rtol=1e-9)
    np.testing.assert_allclose(got.plane_residual[0], np.sqrt(np.mean((v - m @ fit) ** 2)), rtol=1e-9)
    assert np.isnan(got.plane_x[1]).all() and np.isnan(got.plane_residual[1]).all()
    assert got["part"].verdict == polyscan.Verdict.PASS


@pytest.mark.parametrize("form", ["columns", "rows"])
def test_scale(client, rng, form):
    """Areas and places in mm are those in pixels times the decimals of the scale."""
    from fractions import Fraction as F

    a = rng.integers(0, 250, (40, 50)).astype(np.uint8)
    regions = client.regions({
        "plate": [(2, 3), (32, 3), (32, 13), (2, 13)], "odd": [(20.3, 11.1), (40, 20), (30, 37.7)],
        "none": [(0.6, 0.6), (0.7, 0.6), (0.7, 0.7)],
    }).with_scale(0.1, 0.25, origin=(2, 3.5))  # fmt: skip
    regions = regions.with_limits({"plate": ["area == 7.5 mm2", "width < 3 mm"]})
    got = client.reduce(a, regions, statistics="all")
    if form == "rows":
        from test_columns import as_rows

        what = client._what(regions, None, None, "all", None, "nearest-rank", False, None, None)
        got = as_rows(client, client._encode(a, None, None), what)
    x, y, left, top = F("0.1"), F("0.25"), F(2), F("3.5")
    assert got.area_mm2.tolist() == [float(F(v) * x * y) for v in got.area.tolist()]
    assert got.count_mm2.tolist() == [float(F(v) * x * y) for v in got.count.tolist()]
    assert got.area_mm2[0] == 7.5

    def placed(p, half=0):
        return [float((F(p[0]) + F(half) - left) * x), float((F(p[1]) + F(half) - top) * y)]

    for i in range(2):
        assert got.centroid_mm[i].tolist() == placed(got.centroid[i].tolist())
        assert got.weighted_centroid_mm[i].tolist() == placed(got.weighted_centroid[i].tolist())
        assert got.min_at_mm[i].tolist() == placed(got.min_at[i].tolist(), 0.5)
        assert got.max_at_mm[i].tolist() == placed(got.max_at[i].tolist(), 0.5)
        x0, y0, x1, y1 = got.bounds[i].tolist()
        assert got.bounds_mm[i].tolist() == placed((x0, y0)) + placed((x1, y1))
    for name in ("centroid_mm", "weighted_centroid_mm", "min_at_mm", "max_at_mm", "bounds_mm"):
        assert np.isnan(getattr(got, name)[2]).all(), name
    assert got["plate"].area_mm2 == 7.5 and "area_mm2" in got.to_dict()
    assert [limit.value for limit in got["plate"].limits] == [7.5, 3.0]
    assert got["plate"].limits[1].reason == "width 3 mm is not below 3 mm"
    bare = client.reduce(a, [[(2, 3), (32, 3), (32, 13)]])
    with pytest.raises(AttributeError, match="area_mm2 needs regions with a scale"):
        bare.area_mm2
    with pytest.raises(polyscan.InvalidArgument, match="no scale"):
        client.reduce(a, [polyscan.Region("a", [(2, 3), (32, 3), (32, 13)], limits="area > 3 mm2")])
    with pytest.raises(polyscan.InvalidArgument, match="scale.x"):
        client.reduce(a, client.regions([[(2, 3), (32, 3), (32, 13)]]).with_scale(0))
    with pytest.raises(ValueError, match="y: 0 mm per pixel: want 1e-9 to 1e9, or None"):
        client.regions([[(2, 3), (32, 3), (32, 13)]]).with_scale(0.1, 0)


def test_scale_of_files(client, tmp_path):
    """A scale comes with a file, whoever reads it; so does a reference."""
    ring = "[[[0, 0], [4, 0], [4, 4]]]"
    for size, known in ((0.05, False), ("[0.05, 0.04]", True)):
        text = f'{{"scale": {{"mm_per_pixel": {size}, "origin": [1, 2]}}, "regions": [{{"name": "a", "rings": {ring}}}]}}'
        found = client.regions(text.encode()).message.scale
        assert (found.x, found.y, found.origin.x, found.origin.y) == (0.05, 0.04 if known else 0.05, 1, 2)
    text = f'[{{"name": "a", "rings": {ring}, "reference": {{"region": "b"}}}}, {{"name": "b", "rings": {ring}}}]'
    assert client.regions(text.encode()).message.regions[0].reference.region == "b"


def test_over_parts(client):
    """Limits over the last parts of a stream, and of how many parts their values are."""
    limits = ["mean over the last 3 parts of mean <= 20", "count of failed of the last 9 parts == 0", "mean <= 200"]
    regions = client.regions({"a": [(0, 0), (4, 0), (4, 4), (0, 4)]}).with_limits(limits)
    frames = [np.full((4, 4), v, np.uint8) for v in (10, 20, 60, 40)]
    for form in (None, ["name", "limits"]):
        got = [r.result["a"].limits for r in client.stream(frames, regions, fields=form)]
        assert [(m[0].value, m[0].parts) for m in got] == [(10, 1), (15, 2), (30, 3), (40, 3)]
        assert [m[1].parts for m in got] == [1, 2, 3, 4] and got[0][0].verdict == polyscan.Verdict.PASS
        assert got[2][0].verdict == polyscan.Verdict.FAIL and got[2][0].reason.endswith("30 is above 20")
    alone = client.reduce(frames[0], regions)
    assert alone.verdict == polyscan.Verdict.FAIL and "a frame alone" in alone["a"].limits[0].reason


def test_covered(client):
    """Pixels weigh what shapely says that a region covers of them, within the rounding of weights."""
    shapely = pytest.importorskip("shapely.geometry")
    rng = np.random.default_rng(19)
    for n in range(amount(4, 20)):
        a = rng.integers(0, 256, (7, 9)).astype(np.uint8)
        ring = [(int(x) / 256, int(y) / 256) for x, y in rng.integers(0, 1792, (3, 2))]
        got = client.reduce(a, {"a": ring}, statistics=["covered_histogram"])
        shape = shapely.Polygon(ring)
        shares = np.array([[shape.intersection(shapely.box(x, y, x + 1, y + 1)).area for x in range(9)] for y in range(7)])
        bound = 0.5 / 65536 + 1e-9
        assert abs(got.covered_count[0] - shares.sum()) <= 63 * bound
        assert abs(got.covered_sum[0] - (shares * a).sum()) <= 63 * 255 * bound
        histogram = np.bincount(a.ravel(), shares.ravel(), 256)
        np.testing.assert_allclose(got.covered_histogram[0], histogram, atol=63 * bound)
        assert got.covered_histogram[0].sum() == got.covered_count[0] and got.covered_below[0] == got.covered_above[0] == 0
        weights = got.covered_histogram[0]
        mean = (weights * np.arange(256)).sum() / weights.sum()
        assert got.covered_mean[0] == pytest.approx(mean, rel=1e-12)
        variance = (weights * (np.arange(256) - mean) ** 2).sum() / weights.sum()
        assert got.covered_variance[0] == pytest.approx(variance, rel=1e-9, abs=1e-9)
        assert got.covered_stddev[0] == np.sqrt(got.covered_variance[0]) and "covered_mean" in got.to_dict()
    with pytest.raises(AttributeError, match=r'covered_mean was not asked for: call with statistics=\["covered"\]'):
        client.reduce(a, {"a": ring}).covered_mean


def test_textures(client):
    """Textures are those of NumPy, as columns and as rows."""
    rng = np.random.default_rng(18)
    for n in range(amount(4, 30)):
        format = FORMATS[n % len(FORMATS)]
        a, bits, samples = random_frame(rng, format)
        regions = random_regions(rng, a.shape)
        levels = int(rng.choice([2, 7, 64]))
        wanted = polyscan.Texture([(1, 0), (-2, 3)], levels, True)
        result = client.reduce(a, regions, format=named(format), bits=bits, texture=wanted)
        assert result.texture_offsets == [(1, 0), (-2, 3)] and result.texture_levels == levels
        level = samples * levels >> (bits or 8)
        for i, (name, xy) in enumerate(regions.items()):
            (inside,) = masks_of(client, {name: xy}, a.shape)
            for k, (dx, dy) in enumerate(wanted.offsets):
                y, x = np.nonzero(inside)
                there = (x + dx >= 0) & (x + dx < a.shape[1]) & (y + dy >= 0) & (y + dy < a.shape[0])
                y, x = y[there], x[there]
                both = inside[y + dy, x + dx]
                y, x = y[both], x[both]
                for c in range(samples.shape[2]):
                    at = (i, c, k) if samples.shape[2] > 1 else (i, k)
                    matrix = np.zeros((levels, levels), np.int64)
                    np.add.at(matrix, (level[y, x, c], level[y + dy, x + dx, c]), 1)
                    np.testing.assert_array_equal(result.cooccurrence[at], matrix)
                    assert result.texture_pairs[at] == len(x)
                    if len(x) == 0:
                        assert np.isnan(result.contrast[at]) and np.isnan(result.correlation[at])
                        continue
                    p = (matrix + matrix.T) / (2 * len(x))
                    i1, j1 = np.indices(p.shape)
                    d = (i1 - j1) ** 2
                    np.testing.assert_allclose(result.contrast[at], (p * d).sum(), rtol=1e-12)
                    np.testing.assert_allclose(result.homogeneity[at], (p / (1 + d)).sum(), rtol=1e-12)
                    np.testing.assert_allclose(result.energy[at], np.sqrt((p * p).sum()), rtol=1e-12)
                    entropy = -(p[p > 0] * np.log2(p[p > 0])).sum()
                    np.testing.assert_allclose(result.texture_entropy[at], entropy, rtol=1e-12, atol=1e-12)
        assert result[0].contrast.shape == result.contrast.shape[1:]
    with pytest.raises(AttributeError, match="texture=True"):
        client.reduce(a, regions, format=named(format), bits=bits).contrast
    found = client.reduce(a, regions, format=named(format), bits=bits, texture=True)
    assert found.texture_offsets == [(1, 0), (1, 1), (0, 1), (-1, 1)] and found.texture_levels == 64
    with pytest.raises(AttributeError, match=r"Texture\(counts=True\)"):
        found.cooccurrence


def test_correlations(client):
    """Correlations are those of NumPy, as columns and as rows, with a golden frame and between channels."""
    rng = np.random.default_rng(19)
    for n in range(amount(4, 30)):
        format = FORMATS[n % len(FORMATS)]
        a, bits, samples = random_frame(rng, format)
        regions = random_regions(rng, a.shape)
        wanted = ["autocorrelation(1,0)", "autocorrelation(-2,3)", 'ncc of "golden" at (1, 1)', "channels", "radial(2)"]
        b = a[::-1].copy()
        flipped = samples[::-1]
        with client.put_frame(b, format=named(format), bits=bits) as golden:
            result = client.reduce(a, regions, format=named(format), bits=bits, correlate=wanted, golden=golden)
            rows = client.reduce(a, regions, format=named(format), bits=bits, correlate=wanted, golden={"golden": golden.name})
        channels = samples.shape[2]
        assert result.correlations == rows.correlations and len(result.correlations) == 6 + channels
        rings = [[(dx, dy) for dy in range(-4, 5) for dx in range(-4, 5) if round(np.hypot(dx, dy)) == r] for r in range(3)]
        for i, (name, xy) in enumerate(regions.items()):
            (inside,) = masks_of(client, {name: xy}, a.shape)

            def pairs(first, second, offsets):
                found = []
                for dx, dy in offsets:
                    y, x = np.nonzero(inside)
                    there = (x + dx >= 0) & (x + dx < a.shape[1]) & (y + dy >= 0) & (y + dy < a.shape[0])
                    y, x = y[there], x[there]
                    both = inside[y + dy, x + dx]
                    y, x = y[both], x[both]
                    found.append(np.stack([first[y, x], second[y + dy, x + dx]]).astype(np.float64))
                return np.concatenate(found, axis=1)

            for c in range(channels):
                own = samples[:, :, c]
                cases = [(own, [(1, 0)], 1), (own, [(-2, 3)], 1), (flipped[:, :, c], [(1, 1)], 1)]
                cases += [(samples[:, :, k], [(0, 0)], 1) for k in range(channels)]
                cases += [(own, offsets, 2 if r else 1) for r, offsets in enumerate(rings)]
                for k, (second, offsets, orders) in enumerate(cases):
                    at = (i, c, k) if channels > 1 else (i, k)
                    v = pairs(own, second, offsets)
                    assert result.correlation_pairs[at] * orders == v.shape[1]
                    if v.shape[1] == 0:
                        assert np.isnan(result.covariance[at]) and np.isnan(result.coefficient[at])
                        continue
                    scale = max(v.max(), 1) ** 2
                    np.testing.assert_allclose(result.mean_product[at], (v[0] * v[1]).mean(), rtol=1e-12)
                    covariance = np.cov(v, bias=True)
                    np.testing.assert_allclose(result.covariance[at], covariance[0, 1], rtol=1e-9, atol=1e-12 * scale)
                    if covariance[0, 0] and covariance[1, 1]:
                        want = np.corrcoef(v)[0, 1]
                        np.testing.assert_allclose(result.coefficient[at], want, rtol=1e-9, atol=1e-9)
        assert result[0].coefficient.shape == result.coefficient.shape[1:]
    with pytest.raises(AttributeError, match="correlate="):
        client.reduce(a, regions, format=named(format), bits=bits).coefficient
    with pytest.raises(ValueError, match="want autocorrelation"):
        client.reduce(a, regions, format=named(format), bits=bits, correlate="mean")
