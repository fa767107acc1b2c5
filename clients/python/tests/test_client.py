"""Calls: what each gives, what it refuses, and how errors look."""

import itertools
import json
import os
import re
import subprocess
import threading
import time
import types
import warnings

import numpy as np
import pytest

import polyscan
from conftest import CHIP, ROOT, Daemon
from polyscan import _base, _connection, _errors

SQUARE = [(0, 0), (40, 0), (40, 30), (0, 30)]
FRAME = np.arange(30 * 40, dtype=np.uint8).reshape(30, 40)


def test_columns(client, board):
    regions = {"U1": CHIP, "none": [(-9, -9), (-5, -9), (-5, -5)]}
    r = client.reduce(board, regions, limits={"U1": ["red.mean in [35, 75]", "green.max < 3"]}, statistics="all",
                      histogram=(8, 0, 256), percentiles=[50, 99], id="frame 7")  # fmt: skip
    assert (len(r), r.names, r.channels) == (2, ["U1", "none"], ["red", "green", "blue"])
    assert r.count.dtype == np.uint64 and r.count.tolist() == [21904, 0]
    assert r.mean.shape == (2, 3) and r.histogram.shape == (2, 3, 8) and r.percentiles.shape == (2, 3, 2)
    assert r.histogram_range == (0, 256) and r.percentile_levels == [50, 99]
    assert r.histogram[0].sum(1).tolist() == [21904] * 3
    assert np.isnan(r.mean[1]).all() and r.min[1].tolist() == [-1] * 3 and r.min_at[1].tolist() == [[-1, -1]] * 3
    assert r["U1"].bounds.tolist() == [398, 270, 546, 418] and r["U1"].coverage == 1
    assert r["U1"].percentiles[0].tolist() == [r["U1"].median[0], r["U1"].percentiles[0][1]]
    assert (r.verdict, r.passed, r.failed, r.frame_id) == (polyscan.Verdict.FAIL, False, ["U1"], "frame 7")
    first, second = r["U1"].limits
    assert first.verdict == polyscan.Verdict.PASS and first.channel == "red" and 35 < first.value < 75
    assert second.verdict == polyscan.Verdict.FAIL and second.reason
    assert [x.name for x in r] == r.names and r[-1].name == "none" and "mean" in dir(r[0])
    assert r.message.backend == r.backend == "cpu"
    for bad in ("U9", 2):
        with pytest.raises((KeyError, IndexError)):
            r[bad]
    with pytest.raises(ValueError):
        r.mean[0] = 1


def test_not_asked_for(client):
    r = client.reduce(FRAME, {"all": SQUARE}, statistics=["mean"])
    assert r.mean.shape == (1,) and r["all"].mean == FRAME.mean()
    for name in ("median", "histogram", "percentiles", "max_at"):
        with pytest.raises(AttributeError, match="was not asked for"):
            getattr(r, name)


def test_tables(client):
    r = client.reduce(FRAME, {"all": SQUARE, "none": [(90, 90), (95, 90), (95, 95)]}, percentiles=[5], histogram=4)
    table = r.to_pandas()
    assert list(table.index) == ["all", "none"] and table.loc["all", "count"] == 1200
    assert table.loc["all", "sum"] == FRAME.sum() and table["p5"].notna().tolist() == [True, False]
    assert table["min"].isna().tolist() == [False, True]
    assert str(r).splitlines()[1].split()[:3] == ["all", "NONE", "1200"]
    page = r._repr_html_()
    assert "data:image/png;base64," in page and "<td>all</td>" in page
    colour = client.reduce(np.dstack([FRAME] * 3), {"all": SQUARE}).to_pandas()
    assert colour.loc["all", "green_sum"] == FRAME.sum()


def test_arrow(client, monkeypatch):
    """Debian has no pyarrow: a stand-in says what it would be given."""
    fake = types.SimpleNamespace(
        table=lambda columns: columns, array=lambda v, mask: np.ma.masked_array(v, mask)  # noqa: E731
    )
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", fake)
    r = client.reduce(FRAME, {"all": SQUARE, "none": [(90, 90), (95, 90), (95, 95)]}, histogram=4)
    columns = r.to_arrow()
    assert columns["min"].tolist() == [0, None] and columns["histogram"][0].sum() == 1200


def test_overlay(client, tmp_path):
    import PIL.Image

    path = ROOT / "testdata" / "board.png"
    image = PIL.Image.open(path).convert("RGB")
    for frame in (path, path.read_bytes(), image, np.asarray(image)):
        overlay = client.reduce(frame, {"U1": CHIP}, limits="red.mean < 3").overlay(scale=1)
        assert overlay.size == image.size and overlay.getpixel((450, 270)) == (230, 0, 0)
        assert overlay.getpixel((9, 9)) == image.getpixel((9, 9))
    flipped = np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
    assert client.reduce(flipped, {"U1": CHIP}, format="bgr").overlay(1).getpixel((9, 9)) == image.getpixel((9, 9))
    gone = client.reduce(np.asarray(image).copy(), {"U1": CHIP})
    assert gone.overlay(1).getpixel((0, 0)) == (255, 255, 255)  # a result keeps no frame


def test_errors(client):
    with pytest.raises(polyscan.InvalidArgument) as e:
        client.reduce(FRAME, {"all": SQUARE}, limits="meen < 3")
    assert isinstance(e.value, ValueError) and e.value.code == "INVALID_ARGUMENT"
    assert e.value.fields[0].field == "inspection.region_set.regions[0].limits[0]" and "meen" in str(e.value)
    assert "\n" not in str(e.value) and e.value.retry_after is None
    with pytest.raises(polyscan.NotFound) as e:
        client.reduce(FRAME, recipe="nothing")
    assert isinstance(e.value, LookupError)
    with pytest.raises(polyscan.InvalidArgument, match="PNG|image"):
        client.reduce(b"no image", {"all": SQUARE})
    with pytest.raises(polyscan.DeadlineExceeded) as e:
        client.reduce(FRAME, {"all": SQUARE}, timeout=0)
    assert isinstance(e.value, TimeoutError)


def test_bad_arguments(client):
    for frame, kind in (
        (FRAME.astype(np.float32), TypeError), (FRAME.astype(np.int64), TypeError), (FRAME > 3, TypeError),
        (np.zeros((3, 4, 2), np.uint8), TypeError), (np.zeros((0, 4), np.uint8), ValueError), (7, TypeError),
        (np.zeros(5, np.uint8), TypeError), ("/nowhere.png", FileNotFoundError),
        (polyscan.Frame(b"12", size=(2, 2), format="gray"), ValueError),
        (polyscan.Frame(b"12", size=(2, 1)), ValueError),
    ):  # fmt: skip
        with pytest.raises(kind):
            client.reduce(frame, {"all": SQUARE})
    for options, kind in (
        ({"format": "rgb"}, ValueError), ({"format": "purple"}, ValueError), ({"bits": 12}, ValueError),
        ({"method": "guess"}, ValueError), ({"statistics": ["meen"]}, ValueError), ({"priority": "high"}, ValueError),
        ({"recipe": "board"}, TypeError), ({"limits": {"U9": "mean < 3"}}, KeyError),
    ):  # fmt: skip
        with pytest.raises(kind):
            client.reduce(FRAME, {"all": SQUARE}, **options)
    for regions in (7, [7], {"all": [1, 2]}, {"all": np.zeros((3, 3))}, [object()]):
        with pytest.raises((TypeError, ValueError)):
            client.reduce(FRAME, regions)
    with pytest.raises(TypeError):
        client.reduce(FRAME)


def test_regions(client):
    shapely = pytest.importorskip("shapely.geometry")
    ring = [(5, 5), (25, 5), (25, 25), (5, 25)]
    hole = [(10, 10), (20, 10), (20, 20), (10, 20)]
    with_hole = shapely.Polygon(ring, [hole])
    two = shapely.MultiPolygon([with_hole, shapely.Polygon([(30, 0), (40, 0), (40, 10), (30, 10)])])
    for regions, count in (
        (ring, 400), (np.array(ring), 400), ([ring, hole], [400, 100]), ({"a": ring}, 400),
        (shapely.Polygon(ring), 400),
        (polyscan.Region("a", ring, hole), 300), (polyscan.Region("a", ring, hole[::-1], fill="nonzero"), 300),
        (with_hole, 300), (two, 400), ([with_hole, two], [300, 400]), (with_hole.__geo_interface__, 300),
        ({"type": "Feature", "properties": {"name": "x"}, "geometry": with_hole.__geo_interface__}, 300),
        (polyscan.Region.rectangle("a", 5, 5, 25, 25, limits="mean > 1"), 400),
    ):  # fmt: skip
        assert client.reduce(FRAME, regions).count.tolist() == np.atleast_1d(count).tolist(), regions
    kept = client.regions({"a": ring, "b": hole}, limits={"b": "mean > 1"})
    assert kept["b"].limits == ["mean > 1"] and len(kept) == 2 and [r.name for r in kept] == ["a", "b"]
    assert client.reduce(FRAME, kept).verdict == polyscan.Verdict.PASS


def test_masks(client, tmp_path):
    """The pixels of an array are a region, as are the labels of an image file."""
    labels = np.zeros((20, 31), np.uint8)
    labels[3:9, 4:30] = 1
    labels[5, ::2] = 2
    labels[12:, :3] = 7
    regions = [polyscan.Region.mask(f"label {v}", labels == v, at=(5, 2)) for v in (1, 2, 7, 9)]
    assert regions[0].runs[0].tolist() == [5, 9, 35] and regions[3].runs.shape == (0, 3) and regions[0].rings == []
    assert "a mask" in repr(regions[0])
    got = client.reduce(FRAME, regions)
    inside = [FRAME[2:22, 5:36][labels == v] for v in (1, 2, 7)]
    assert got.count.tolist() == [len(v) for v in inside] + [0]
    assert got.sum.tolist()[:3] == [int(v.sum()) for v in inside]
    PIL = pytest.importorskip("PIL.Image")
    PIL.fromarray(labels).save(tmp_path / "labels.png")
    sent = [polyscan.Region.mask("m", m, at=(5, 2)) for m in (tmp_path / "labels.png", (tmp_path / "labels.png").read_bytes())]
    with client.put_frame(labels) as kept:
        sent.append(polyscan.Region.mask("m", kept, at=(5, 2)))
        again = client.reduce(FRAME, sent)
        assert again.sum.tolist() == [int(FRAME[2:22, 5:36][labels != 0].sum())] * 3
    assert sent[0].runs is None and "a mask" in repr(sent[0])
    with pytest.raises(polyscan.NotFound):
        client.reduce(FRAME, sent[2])
    read = client.regions(tmp_path / "labels.png")
    assert [r.name for r in read] == ["label-1", "label-2", "label-7"]
    assert [r.runs.tolist() for r in read] == [polyscan.Region.mask("", labels == v).runs.tolist() for v in (1, 2, 7)]
    own = b'[{"name": "m", "mask": [[1, 2, 5], [2, 0, 1]]}]'
    assert client.reduce(FRAME, own).count.tolist() == [4]
    assert client.regions(own)["m"].runs.tolist() == [[1, 2, 5], [2, 0, 1]]
    made = polyscan.Region.shape("rim", 'band of "m" outwards 1 px', limits="count > 1")
    assert client.reduce(FRAME, [client.regions(own)["m"], made]).count.tolist() == [4, 11]
    assert "outwards" in repr(made)
    text = b'[{"name": "m", "mask": [[1, 2, 5]]}, {"name": "n", "shape": "inset of circle(9, 9, 4) by 1"}]'
    assert client.reduce(FRAME, text).count.tolist()[0] == 3
    with pytest.raises(polyscan.InvalidArgument, match="no region is called"):
        client.reduce(FRAME, [made])
    with pytest.raises(ValueError, match="3 dimensions"):
        polyscan.Region.mask("m", np.zeros((2, 2, 2)))


@pytest.mark.filterwarnings("ignore::polyscan.InputWarning")
def test_region_files(client, tmp_path):
    """A file of each format gives the regions that the command line reads from it."""
    folder = ROOT / "clients" / "regionfile" / "testdata"
    for name in ("regions.json", "recipe.json", "labelme.json", "parts.geojson", "inkscape.svg", "illustrator.svg"):
        by_path, by_bytes = client.regions(folder / name), client.regions((folder / name).read_bytes())
        assert len(by_path) > 0 and by_path.message == by_bytes.message, name
        assert client.regions(str(folder / name)) is client.regions(folder / name)
    assert any("no area" in w for w in client.regions(folder / "labelme.json").warnings)
    with pytest.raises(polyscan.RegionFileError, match="2 images"):
        client.regions(folder / "coco.json")
    assert len(client.regions(folder / "coco.json", image="1")) > 0
    # The format that is read here, through the program as well.
    own = client.regions(ROOT / "testdata" / "board.regions.json")
    text = b'{"unknown": 1, "regions": ' + (ROOT / "testdata" / "board.regions.json").read_bytes() + b"}"
    assert own.file is not None and client.regions(text).message == own.message and len(own) == 72
    with pytest.raises(polyscan.RegionFileError):
        client.regions(b"nothing")


def test_mask(client):
    m = client.mask({"a": SQUARE, "b": [(0, 0), (5, 0), (5, 5), (0, 5)]}, (50, 40), labels=True)
    assert m.image.shape == (40, 50) and m.image.dtype == np.uint16 and m.counts.tolist() == [1200, 25]
    assert [np.count_nonzero(m.image == i) for i in (1, 2)] == [1175, 25]
    assert client.mask({"a": SQUARE}, like=FRAME).image.min() == 255
    turned = np.array(SQUARE)[::-1]
    winding = client.mask({"a": SQUARE, "b": SQUARE, "c": turned * 0.5}, (50, 40), winding=True).image
    assert winding.dtype == np.int16 and winding[29, 39] == 2 and winding[0, 0] == 1 and winding[0, 49] == 0
    away = client.mask({"a": [(10, 10), (30, 10), (30, 20), (10, 20)]}, (50, 40), distance=True).image
    assert away.dtype == np.float32 and away[10, 10] == 1 and away[14, 20] == 5 and away[9, 10] == -1
    assert abs(away[6, 6] + np.hypot(4, 4)) <= 1 / 64
    with pytest.raises(TypeError, match="labels and distance"):
        client.mask({"a": SQUARE}, (50, 40), labels=True, distance=True)
    with pytest.raises(TypeError):
        client.mask({"a": SQUARE})
    for wrong in (True, False):  # no numbers of methods
        with pytest.raises(ValueError, match=f"method {wrong}: want one of "):
            client.mask({"a": SQUARE}, (50, 40), method=wrong)


def test_stream(client):
    frames = [FRAME + i for i in range(20)]
    frames[7] = b"no image"
    answers = list(client.stream(iter(frames), {"all": SQUARE}, window=3))
    assert [a.sequence for a in answers] == list(range(20))
    for i, a in enumerate(answers):
        if i == 7:
            assert isinstance(a.error, polyscan.InvalidArgument) and a.result is None
        else:
            assert a.result["all"].sum == frames[i].sum() and a.frame is frames[i] and a.error is None
    with pytest.raises(polyscan.InvalidArgument):
        list(client.stream(frames, {"all": SQUARE}, limits="meen < 3"))

    def failing():
        yield FRAME
        raise OSError("the camera has gone")

    got = []
    with pytest.raises(OSError, match="camera"):
        for a in client.stream(failing(), {"all": SQUARE}):
            got.append(a)
    assert len(got) == 1
    before = threading.active_count()
    for a in client.stream(itertools.repeat(FRAME), {"all": SQUARE}):
        if a.sequence == 5:
            break
    del a
    for _ in range(200):
        if threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert threading.active_count() <= before

    def slow():
        yield FRAME
        time.sleep(1.5)
        yield FRAME

    assert len(list(client.stream(slow(), {"all": SQUARE}, timeout=1))) == 2  # frames may take their time


def test_resident(client, board):
    with client.put_frame(board, id="b", idle=60) as kept:
        assert client.get_frame(kept, touch=True).frame_id == "b"
        assert kept.name in [f.name for f in client.frames()]
        direct, resident = client.reduce(board, {"U1": CHIP}), client.reduce(kept, {"U1": CHIP})
        assert direct.sum.tolist() == resident.sum.tolist()
    with pytest.raises(polyscan.NotFound) as e:
        client.reduce(kept, {"U1": CHIP})
    assert e.value.reason == "FRAME_RELEASED"
    kept.release()
    pieces = [memoryview(FRAME.tobytes())[i : i + 100] for i in range(0, 1200, 100)]
    with client.upload_frame(pieces, (40, 30)) as kept:
        assert client.reduce(kept, {"all": SQUARE})["all"].sum == FRAME.sum()
    big = np.random.default_rng(1).integers(0, 4096, (1100, 1000), np.uint16)
    with client.upload_frame(big, (1000, 1100), "gray16", bits=12) as kept:
        assert client.reduce(kept, {"all": [(0, 0), (1000, 0), (1000, 1100), (0, 1100)]})["all"].sum == big.sum()


def test_recipes(programs, tmp_path):
    with polyscan.connect(server_args=["--recipes", str(tmp_path)]) as client:
        stored = client.put_recipe("board", {"all": SQUARE}, limits="mean > 1", description="d", statistics=["mean"])
        assert stored.version == 1
        with pytest.raises(polyscan.Aborted):
            client.put_recipe("board", {"all": SQUARE}, limits="mean > 1", expected_version=0)
        client.put_recipe("board", {"all": SQUARE}, limits="mean < 1", expected_version=1)
        assert client.reduce(FRAME, recipe="board").verdict == polyscan.Verdict.FAIL
        assert client.reduce(FRAME, recipe="board@1").passed
        assert client.get_recipe("board@1").description == "d"
        assert [(r.name, r.version) for r in client.recipes(all_versions=True)] == [("board", 1), ("board", 2)]
        assert client.recipe_regions("board")["all"].limits == ["mean < 1"]
        with pytest.raises(ValueError):
            client.delete_recipe("board")
        assert client.delete_recipe("board@1") == 1 and client.delete_recipe("board", all_versions=True) == 1


def test_lowpoly(client, board):
    low = client.lowpoly(board, vertices=300, svg=True, seed=3)
    assert low.picture.shape == board.shape and low.mesh.points.shape[0] == 300 and low.svg.startswith("<")
    assert low.mesh.triangles.max() < 300 and len(low.mesh.colors) == len(low.mesh.triangles)
    edges = client.lowpoly(board, vertices=300, stage="edges", mesh=False)
    assert edges.picture.ndim == 2 and edges.mesh is None
    with pytest.raises(TypeError, match="no option"):
        client.lowpoly(board, vertexes=300)
    video = list(client.lowpoly_stream([board] * 3, vertices=200, mesh=True))
    assert len(video) == 3
    np.testing.assert_array_equal(video[0].result.picture, video[2].result.picture)


def test_points(client):
    points = np.random.default_rng(2).permutation(200 * 200)[:500]
    points = np.stack([points % 200, points // 200], 1)
    t = client.triangulate(points)
    a, b, c = (points[t.triangles[:, k]].astype(np.int64) for k in range(3))
    doubled = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    assert (doubled > 0).all() and t.message.points == 500
    other = client.triangulate(points, route="voronoi")
    assert set(map(tuple, t.triangles)) == set(map(tuple, other.triangles))
    labels = client.voronoi(points, (200, 200))
    y, x = np.mgrid[:200, :200]
    distance = (x.ravel()[:, None] - points[:, 0]) ** 2 + (y.ravel()[:, None] - points[:, 1]) ** 2
    np.testing.assert_array_equal(labels.ravel(), distance.argmin(1))
    for bad in ([[0.5, 1], [2, 3]], [[1 << 40, 1]], [1, 2, 3]):
        with pytest.raises(ValueError):
            client.triangulate(bad)
    assert client.triangulate([]).triangles.shape == (0, 3)


def test_diffusion(client, board):
    pixels = [(0, 0, 255, 0, 0), (39, 29, 0, 0, 255)]
    s = client.diffuse(size=(40, 30), pixels=pixels)
    assert s.picture.shape == (30, 40, 3) and s.converged and s.picture[0, 0].tolist() == [255, 0, 0]
    last = list(client.diffuse_progressively(size=(40, 30), pixels=pixels))[-1]
    assert last.last and np.array_equal(last.picture, s.picture)
    curve = polyscan.Curve([(5, 15), (15, 5), (25, 25), (35, 15)], left=(200, 10, 10), right=[(0, 10, 10, 200)], id="c")
    drawn = client.diffuse([curve], size=(40, 30), tolerance=0.1).picture
    frame = np.zeros((30, 40, 4), np.uint8)
    frame[10:20, 10] = frame[10:20, 30] = (7, 9, 11, 255)
    assert (client.diffuse(frame=frame).picture == (7, 9, 11)).all()
    with client.edit([curve], size=(40, 30)) as canvas:
        assert np.array_equal(canvas.picture().picture, client.diffuse([curve], size=(40, 30)).picture)
        canvas.recolor_curve("c", left=(0, 0, 0), right=(0, 0, 0))
        assert not canvas.picture().picture.any()
        canvas.move_curve("nothing", 1, 1)
        with pytest.raises(polyscan.Error):
            canvas.picture()
        canvas.put_pixels([(3, 3, 255, 255, 255)])
        assert canvas.picture().picture[3, 3].tolist() == [255] * 3
        canvas.close_send()
        assert all(e.edits <= 4 for e in canvas)
    assert drawn.shape == (30, 40, 3)
    assert s.estimate <= 0.25
    s = client.diffuse([curve], size=(40, 30), method="naive", threshold=0.5)
    assert s.message.error_unknown and np.isnan(s.estimate) and s.message.global_difference > 0
    s = client.diffuse([curve], size=(40, 30), method="naive", threshold=0.5, measure_error=True)
    assert not s.message.error_unknown and s.estimate > 0
    small = np.ascontiguousarray(board[200:320, 380:560])
    e = client.extract(small)
    assert e.psnr > 20 and len(e.drawing.curves) > 0 and len(e.drawing.pixels) > 0 and e.message.solves > 0
    assert len(client.extract(small, max_pixels=0).drawing.pixels) == 0
    given = [(p.x, p.y, p.red, p.green, p.blue) for p in e.drawing.pixels]
    again = client.diffuse(e.drawing.curves, size=(180, 120), pixels=given)
    assert np.array_equal(again.picture, e.picture) and e.picture.shape == small.shape
    with pytest.raises(TypeError, match="no option 'quality': there are threshold"):
        client.extract(small, quality=3)
    with pytest.raises(polyscan.InvalidArgument, match="options.psnr"):
        client.extract(small, psnr=200)
    filled = client.fill(board, {"U1": CHIP})
    assert filled.filled_pixels == 21904 and filled.picture.shape == board.shape
    outside = np.ones(board.shape[:2], bool)
    outside[270:418, 398:546] = False
    assert np.array_equal(filled.picture[outside], board[outside])
    assert np.array_equal(client.fill(board, mask=~outside).picture, filled.picture)
    kept = client.fill(board, {"U1": CHIP}, keep=True)
    assert kept.picture is None and client.reduce(kept.kept, {"U1": CHIP})["U1"].count == 21904
    kept.kept.release()
    kept = client.fill(board, {"U1": CHIP}, keep=True, idle=7).kept
    assert kept and 0 < kept.message.expires_at.seconds - kept.message.created_at.seconds <= 8
    kept.release()
    for call in (client.fill, client.background):
        with pytest.raises(TypeError, match="keep is missing"):
            call(board, {"U1": CHIP}, idle=7)
        with pytest.raises(ValueError, match="method 'quick': want one of"):
            call(board, {"U1": CHIP}, mask_method="quick")
    assert np.array_equal(client.fill(board, {"U1": CHIP}, mask_method="row-spans").picture, filled.picture)
    b = client.background(board, {"U1": CHIP})
    assert np.array_equal(b.background, filled.picture) and (b.residual[outside] == 128).all()


def test_shared_memory(client, programs):
    a = client.frame((500, 400), np.uint16)
    a[:] = 7
    assert client.shared_memory and a.shape == (500, 400) and a.dtype == np.uint16
    assert client.reduce(a, {"all": [(0, 0), (400, 0), (400, 500), (0, 500)]})["all"].sum == 7 * 200_000
    leases = len(client._memory._leases)
    for _ in range(50):  # slots come round again
        client.frame((500, 400), np.uint16)[:] = 1
    assert len(client._memory._leases) == leases
    many = [client.frame((500, 400), np.uint16) for _ in range(9)]
    for i, m in enumerate(many):
        m[:] = i
    for i, m in enumerate(many):
        assert client.reduce(m, {"all": SQUARE})["all"].mean == i
    kept = many[3][10:20, 10:20]
    del many
    for _ in range(20):
        client.frame((500, 400), np.uint16)[:] = 99
    assert (kept == 3).all()  # a view keeps the slot


def test_shared_memory_elsewhere(tcp):
    with polyscan.connect(tcp) as remote:
        a = remote.frame((300, 400))
        a[:] = 5
        assert not remote.shared_memory and remote.reduce(a, {"all": SQUARE})["all"].mean == 5
    with pytest.raises(polyscan.FailedPrecondition):
        with polyscan.connect(tcp, shared_memory=True) as remote:
            remote.frame((300, 400))
    with pytest.raises(ValueError):
        polyscan.connect("example.com", shared_memory=True)


def test_lease_ends_with_the_server(tmp_path):
    with Daemon("--shm-socket", str(tmp_path / "s")) as d:
        with polyscan.connect(d.address) as c:
            a = c.frame((300, 400))
            a[:] = 5
            d.kill()
            d.start()
            assert c.reduce(a, {"all": SQUARE})["all"].mean == 5  # it travels, or is copied to a new lease
            assert (a == 5).all()


def test_retry(tmp_path):
    """A call that may be sent again waits for a server that comes back; one that may not doesn't."""
    with Daemon("--recipes", str(tmp_path)) as d:
        with polyscan.connect(d.address) as c:
            d.kill()
            with pytest.raises(polyscan.Unavailable):
                c.put_recipe("a", {"all": SQUARE}, limits="mean > 1")
            threading.Timer(0.5, d.start).start()
            assert c.reduce(FRAME, {"all": SQUARE}, timeout=20)["all"].count == 1200
            d.kill()
            began = time.monotonic()
            with pytest.raises(polyscan.Error) as e:
                c.reduce(FRAME, {"all": SQUARE}, timeout=0.5)
            assert e.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and time.monotonic() - began < 5
            d.start()


def test_retry_rules():
    now = [0.0]
    full = polyscan.ResourceExhausted("full", code="RESOURCE_EXHAUSTED", retry_after=0.7)
    assert _connection.Retry(False, 10, lambda: now[0]).pause(full) >= 0.7
    assert _connection.Retry(True, 0.5, lambda: now[0]).pause(full) is None
    assert _connection.Retry(True, 10, lambda: now[0]).pause(polyscan.ResourceExhausted("never")) is None
    gone = polyscan.Unavailable("gone")
    assert _connection.Retry(True, 10, lambda: now[0]).pause(gone) < 0.1
    assert _connection.Retry(False, 10, lambda: now[0]).pause(gone) is None
    assert _connection.Retry(True, None, lambda: now[0]).pause(polyscan.Internal("x")) is None


def test_status_details():
    from polyscan.rpc import error_details_pb2, status_pb2

    status = status_pb2.Status(code=8, message="no room")
    for name, m in (
        ("RetryInfo", error_details_pb2.RetryInfo(retry_delay={"seconds": 1, "nanos": 500_000_000})),
        ("QuotaFailure", error_details_pb2.QuotaFailure(violations=[{"subject": "memory", "description": "9 of 8"}])),
        ("ErrorInfo", error_details_pb2.ErrorInfo(reason="DEVICE_MEMORY", metadata={"needed": "9"})),
    ):
        status.details.add(type_url=f"type.googleapis.com/google.rpc.{name}", value=m.SerializeToString())
    e = _errors.from_status(status)
    assert isinstance(e, polyscan.ResourceExhausted) and e.retry_after == 1.5 and e.reason == "DEVICE_MEMORY"
    assert str(e) == "RESOURCE_EXHAUSTED: no room; memory: 9 of 8 (retry in 1.5 s)" and e.metadata == {"needed": "9"}
    assert type(_errors.from_status(status_pb2.Status(code=99))) is polyscan.Error


def test_addresses():
    for given, want in {
        "h": ("h:7465", False), "h:1": ("h:1", False), ":7465": ("localhost:7465", True), "::1": ("[::1]:7465", True),
        "[fe80::1]:9": ("[fe80::1]:9", False), "127.0.0.1": ("127.0.0.1:7465", True), "unix:/x": ("unix:/x", True),
    }.items():  # fmt: skip
        assert _connection.resolve(given) == want
    for bad in ("", "h:", "h:x", "h:70000", "https://h:1", "http://h"):
        with pytest.raises(ValueError):
            _connection.resolve(bad)


def test_tokens(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("# comment\n\ncertificate=plc\nsecret-token-of-the-line-3 name=line-3 role=run\n")
    with Daemon("--token-file", str(tokens), "--shm-socket", str(tmp_path / "s")) as d:
        with pytest.raises(polyscan.Unauthenticated):
            polyscan.connect(d.address)
        for how in ({"token": "secret-token-of-the-line-3"}, {"token_file": tokens}):
            with polyscan.connect(d.address, **how) as c:
                a = c.frame((300, 400))
                a[:] = 1
                assert c.shared_memory and c.reduce(a, {"all": SQUARE})["all"].mean == 1
                assert len(list(c.stream([FRAME], {"all": SQUARE}))) == 1
    with pytest.raises(ValueError, match="plain text"):
        polyscan.connect("example.com", token="t")


def test_tokens_stay_secret(tmp_path, capfd):
    """A token that can't be sent is refused before gRPC says it aloud."""
    tokens = tmp_path / "tokens"
    for token in ("gehe\u00efm", "gehe im", "gehe\n", b"geheim"):
        with pytest.raises((ValueError, TypeError), match="^token( of type bytes)?: ") as e:
            polyscan.connect("localhost:7", token=token, timeout=1)
        assert "gehe" not in str(e.value)
    for written in (b"gehe\xefm", "gehe\u00efm".encode()):
        tokens.write_bytes(written)
        with pytest.raises(ValueError, match="tokens: a token is printable ASCII") as e:
            polyscan.connect("localhost:7", token_file=tokens, timeout=1)
        assert "gehe" not in repr(e.value)
    assert "gehe" not in capfd.readouterr().err


def test_wrong_arguments(client):
    """What can't be is said in words of the argument, and not in those of what trips over it."""

    def reducing(**arguments):
        return lambda: client.reduce(FRAME, {"all": SQUARE}, **arguments)

    for call, kind, want in (
        (reducing(golden=FRAME), TypeError, "golden of type ndarray: want a frame that the server keeps"),
        (reducing(golden={"a": 5}), TypeError, "golden of type int"),
        (reducing(limits=[("all", "max < 200")]), TypeError, r"limits: \('all', 'max < 200'\): want a sentence .* a dict"),
        (reducing(limits={"all": [5]}), TypeError, "limits: 5: want"),
        (reducing(percentiles="50"), TypeError, r"percentiles '50': want a list"),
        (reducing(statistics=5), TypeError, "statistics of type int: want a text"),
        (reducing(correlate=5), TypeError, "correlate of type int: want a text"),
        (lambda: list(client.stream([FRAME], {"all": SQUARE}, window="4")), ValueError, "window '4': want a whole"),
        (lambda: list(client.stream([FRAME], {"all": SQUARE}, window=1.5)), ValueError, "window 1.5"),
        (lambda: list(client.stream([FRAME], {"all": SQUARE}, window=0)), ValueError, "window 0"),
        (reducing(timeout="5"), TypeError, "timeout '5': want a number of seconds"),
        (reducing(timeout=True), TypeError, "timeout True"),
        (reducing(timeout=float("nan")), ValueError, "timeout nan"),
        (reducing(part_id=5), TypeError, "part_id 5: want text"),
        (reducing(id="b\udcff.png"), ValueError, "id 'b.udcff.png': it is no UTF-8"),
        (lambda: client.reduce(FRAME, {"a\udcff": SQUARE}), ValueError, "region 'a.udcff': it is no UTF-8"),
        (lambda: client.reduce(FRAME, recipe=5), TypeError, "recipe 5: want text"),
        (lambda: list(client.stream([FRAME], {"all": SQUARE}, timeout="5")), TypeError, "timeout '5'"),
        (lambda: client.teach([FRAME], {"all": SQUARE}, timeout="5"), TypeError, "timeout '5'"),
        (lambda: client.get_frame(5), TypeError, "frame of type int: want a frame that the server keeps"),
        (lambda: polyscan.connect(5), TypeError, "address 5: want host:port"),
        (lambda: polyscan.connect(b"localhost"), TypeError, "address b'localhost': want host:port"),
        (lambda: polyscan.connect("localhost:7", timeout="5"), TypeError, "timeout '5'"),
        (lambda: polyscan.connect("localhost:7", tls=5), TypeError, "tls of type int"),
        (lambda: polyscan.connect("localhost:7", name=5), TypeError, "name 5: want text"),
    ):
        with pytest.raises(kind, match=want):
            call()


def test_tls(tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=line3",
               "-addext", "subjectAltName=DNS:line3"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with Daemon("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")) as d:
        tls = polyscan.TLS(ca=tmp_path / "cert.pem", server_name="line3")
        with polyscan.connect(d.address, tls=tls) as c:
            assert c.reduce(FRAME, {"all": SQUARE})["all"].count == 1200
        with pytest.raises(polyscan.Error):
            polyscan.connect(d.address, timeout=1)
    with pytest.raises(ValueError):
        polyscan.TLS(cert="a").credentials()


def test_versions():
    assert _base.compare("0.1.0", "(devel)") == "" and _base.compare("0.1.0", "v0.1.9") == ""
    assert _base.compare("1.2.0", "v1.9.0") == "" and "update the server" in _base.compare("0.2.0", "v0.1.0")
    assert "update the client" in _base.compare("1.0.0", "v2.0.0")
    assert _base.compare("0.1.0", "v0.0.0-20260819154853-08b0e4226688") == ""


def test_own_server(programs):
    with pytest.raises(polyscan.ProgramNotFound):
        polyscan.connect(server="/nowhere/polyscand")
    with pytest.raises(polyscan.Unavailable, match="no-such-flag"):
        polyscan.connect(server_args=["--no-such-flag"])
    c = polyscan.connect()
    process, folder = c._server.process, c.address.removeprefix("unix:").rsplit("/", 1)[0]
    assert os.path.isdir(folder)
    c.close()
    c.close()
    assert process.poll() is not None and not os.path.exists(folder)


def test_raw_stubs(client):
    """What has no method is within reach."""
    from polyscan.v1 import device_pb2, device_pb2_grpc

    stub = device_pb2_grpc.DeviceServiceStub(client.channel)
    assert stub.GetDevice(device_pb2.GetDeviceRequest()).backend == client.device().backend == "cpu"
    assert not hasattr(polyscan, "__main__") and __import__("importlib").util.find_spec("polyscan.__main__") is None


def test_watch(programs, tmp_path):
    with Daemon("--recipes", str(tmp_path)) as d, polyscan.connect(d.address, name="camera-3") as c:
        seen, ready = [], threading.Event()

        def look():
            for m in c.watch(kinds=["verdict", "recipe"], numbers="all", heartbeat=0.1):
                seen.append(m)
                ready.set()
                if sum(s.WhichOneof("event") == "verdict" for s in seen) == 3:
                    return

        watcher = threading.Thread(target=look)
        watcher.start()
        assert ready.wait(10)
        c.reduce(FRAME, {"all": SQUARE}, limits="mean > 1", part_id="B-7", id="one")
        r = c.reduce(polyscan.Frame(FRAME, part_id="B-8"), {"all": SQUARE}, limits="mean < 1")
        assert r.part_id == "B-8"
        for _ in range(100):
            if sum(m.WhichOneof("event") == "verdict" for m in seen) == 2:
                break
            time.sleep(0.1)
        d.kill()
        d.start()
        while watcher.is_alive():  # it comes back by itself
            c.reduce(FRAME, {"all": SQUARE}, limits="mean < 1", part_id="B-9")
            watcher.join(0.2)
    verdicts = [m.verdict for m in seen if m.WhichOneof("event") == "verdict"]
    assert [v.part_id for v in verdicts] == ["B-7", "B-8", "B-9"] and verdicts[0].name == "camera-3"
    assert verdicts[0].results[0].count == 1200 and verdicts[1].verdict == 2
    assert [m.WhichOneof("event") for m in seen].count("started") == 2
    with Daemon() as d, polyscan.connect(d.address) as c:
        watch = c.watch(outage=0.2)
        assert next(watch).started.device.available
        d.kill()
        with pytest.raises(polyscan.Unavailable):
            list(watch)
        with pytest.raises(ValueError):
            next(c.watch(kinds=["gossip"]))


def test_fork(client, tcp):
    """A client in a fork of its process says so, and leaves the connection of the other alone."""
    a = client.frame((300, 400))
    for use in (lambda: client.reduce(FRAME, {"all": SQUARE}), lambda: client.frame((300, 400)),
                lambda: polyscan.connect(tcp), lambda: next(client.watch())):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                use()
            except RuntimeError as e:
                os.write(write, str(e).encode())
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read, encoding="utf-8") as said:
            assert "forked" in said.read()
    a[:] = 5
    assert client.reduce(a, {"all": SQUARE})["all"].mean == 5


def test_closed(programs):
    """A client that was closed says so, whatever is called."""
    c = polyscan.connect()
    scan = c.scan({"all": SQUARE}, width=40, part_lines=30, strip_lines=10)
    kept = c.put_frame(FRAME)
    c.close()
    c.close()
    for use in (lambda: c.reduce(FRAME, {"all": SQUARE}), lambda: c.frame((300, 400)), lambda: next(c.watch()),
                lambda: list(c.stream([FRAME], {"all": SQUARE})), lambda: c.release_frame(kept), c.device,
                lambda: c.edit(size=(3, 4)), lambda: c.scan({"all": SQUARE}, width=40, part_lines=30, strip_lines=10)):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    with pytest.raises((RuntimeError, polyscan.Error)):
        scan.recv(10)
    scan.close()


def test_public_interfaces():
    """Nothing of gRPC's and protobuf's that may go with their next versions."""
    for f in (ROOT / "clients/python/src/polyscan").glob("*.py"):
        found = re.findall(r"grpc\.(?:aio\.)?_\w+|grpc\.experimental|cygrpc|protobuf\.internal", f.read_text())
        assert not found, f"{f.name}: {found}"


PATCH = [(2, 2), (20, 2), (20, 20), (2, 20)]


def square(x, *more):
    return [[(x, 2), (x + 18, 2), (x + 18, 20), (x, 20), (x, 2)], *more]


def test_limits_of_features(client):
    frame = np.full((64, 64), 7, np.uint8)
    polygon = {"type": "Polygon", "coordinates": square(2)}
    for limits in ("mean < 3; max < 9", ["mean < 3", "max < 9"]):
        feature = {"type": "Feature", "properties": {"name": "a", "limits": limits}, "geometry": polygon}
        result = client.reduce(frame, feature)
        assert result.verdict == polyscan.Verdict.FAIL and [str(m.verdict) for m in result["a"].limits] == ["FAIL", "PASS"]
    for wrong in (
        {"type": "Feature", "limits": ["mean < 3"], "geometry": polygon},
        {"type": "Feature", "geometry": {**polygon, "limits": ["mean < 3"]}},
        {**polygon, "limits": ["mean < 3"]},
    ):
        with pytest.raises(ValueError, match="limits are not read here"):
            client.reduce(frame, wrong)
    for key in ("limit", "Limits", "lmiits"):
        feature = {"type": "Feature", "properties": {key: "mean < 3"}, "geometry": polygon}
        with pytest.raises(ValueError, match=f"region region-0: the property '{key}' is not read: did you mean \"limits\""):
            client.reduce(frame, feature)
    for key in ("scale", "flat_field", "drawn_on", "reductions", "frames"):
        feature = {"type": "Feature", "properties": {"name": "a"}, "geometry": polygon}
        for wrong in ({**feature, "properties": {"name": "a", key: None}}, {**feature, key: {}}):
            with pytest.raises(ValueError, match=f"region a: {key} is not read of a feature: it belongs to a recipe"):
                client.reduce(frame, wrong)
    for value in ("mean < 3", ["U7", "p99 in [3, 5]"], "max ≤ .5"):
        feature = {"type": "Feature", "properties": {"name": "a", "rule": value}, "geometry": polygon}
        with pytest.raises(ValueError, match="region a: the property 'rule' is not read, and '.*' looks like a limit"):
            client.reduce(frame, feature)
    for key, value in (("spec", {"mean": {"min": 90}}), ("QC_tolerance", {"p99": [0, 9]}), ("rules", [{"of": "mean", "max_value": 9}])):
        feature = {"type": "Feature", "properties": {key: value}, "geometry": polygon}
        with pytest.raises(ValueError, match=f"region region-0: the property '{key}' is not read: limits are texts under"):
            client.reduce(frame, feature)
    numbers = {"mean": 90, "stats": {"mean": 3}, "tolerance": 0.5, "check": {"by": "x"}, "species": {"count": 3}}
    assert client.reduce(frame, {"type": "Feature", "properties": numbers, "geometry": polygon})["region-0"].name == "region-0"
    feature = {"type": "Feature", "properties": {"note": "made in (old) Rome > here", "description": "x < 3"}, "geometry": polygon}
    assert client.reduce(frame, feature)["region-0"].name == "region-0"
    for limits in (None, 5, b"mean < 3", {"mean": (3, 5)}):
        with pytest.raises(TypeError, match="want a sentence"):
            polyscan.Region("a", PATCH, limits=limits)


def test_overlapping_multipolygon(client, tmp_path):
    """Parts that overlap are a union, whichever way they turn, as where the same comes from a file; holes stay holes."""
    frame = np.zeros((64, 64), np.uint8)
    hole = [(4, 4), (4, 6), (6, 6), (6, 4), (4, 4)]
    for turn in (1, -1):
        second = [ring[::turn] for ring in square(10)]
        geometry = {"type": "MultiPolygon", "coordinates": [square(2, hole), second, []]}
        path = tmp_path / "regions.json"
        path.write_text(json.dumps({"type": "Feature", "properties": {}, "geometry": geometry}))
        assert client.reduce(frame, geometry)[0].count == client.reduce(frame, path)[0].count == 18 * 26 - 4


def test_warnings_reach_who_calls(client, tmp_path):
    frame = np.zeros((64, 64), np.uint8)
    path = tmp_path / "near.json"
    path.write_text('[{"nam":"a","rings":[[[2,2],[20,2],[20,20]]]}]')
    with pytest.warns(polyscan.InputWarning, match='near.json.*"nam" is ignored; did you mean "name"'):
        client.reduce(frame, path)
    with pytest.warns(polyscan.InputWarning, match="no region has limits: it gives no verdict"):
        client.put_recipe("silent", PATCH)
    path = tmp_path / "located.json"
    mark = '{"window":"rect(0, 0, 40, 40)","at":[20,20]}'
    path.write_text(f'{{"locate":{{"fiducials":[{mark}]}},"regions":[{{"name":"a","rings":[[[2,2],[20,2],[20,20]]]}}]}}')
    with pytest.warns(polyscan.InputWarning, match="no region has limits: a part that is not found is FAIL"):
        client.put_recipe("located", path)
    away = [(x + 900, y) for x, y in PATCH]
    for call in (client.fill, client.background):
        with pytest.warns(polyscan.InputWarning, match="no pixel was to be filled"):
            assert call(frame, away).filled_pixels == 0
        with pytest.raises(ValueError, match=r"a mask of shape \(48, 64\)"):
            call(np.zeros((64, 48), np.uint8), mask=np.ones((48, 64)))
    with pytest.raises(ValueError, match="none is given"):
        client.reduce(frame, PATCH, statistics=[])


def test_regions_that_nobody_judges(client, tmp_path):
    """A region without limits beside others that came with some is warned of, once, unless somebody speaks of it."""
    frame = np.full((64, 64), 5, np.uint8)
    first, second = polyscan.Region("a", PATCH, limits="mean < 90"), polyscan.Region("b", PATCH)
    path = tmp_path / "two.json"
    path.write_text(
        '[{"name":"a","rings":[[[2,2],[20,2],[20,20]]],"limits":["mean < 90"]},'
        '{"name":"b","rings":[[[2,2],[9,2],[9,9]]]}]'
    )
    told = 'region "b" has no limits, and others have'
    for regions, source in ((client.regions([first, second]), "regions"), (path, str(path))):
        with pytest.warns(polyscan.InputWarning, match=told) as said:
            for _ in range(3):
                client.reduce(frame, regions)
        assert len(said) == 1 and str(said[0].message).startswith(f"{source}: ") and said[0].filename == __file__
    for call in (
        lambda r: client.put_recipe("half", r),
        lambda r: client.try_recipe([frame], r),
        lambda r: list(client.stream([frame], r)),
    ):
        with pytest.warns(polyscan.InputWarning, match=told):
            call([first, second])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.reduce(frame, [second, polyscan.Region("c", PATCH)], limits={"b": "mean < 90"})  # by the call alone
        client.reduce(frame, [first, second], limits="mean < 90")
        client.reduce(frame, [first, second, polyscan.Region("d", PATCH, limits='all of "b*".mean < 90')])
        client.mask([first, second], (50, 40))
    with pytest.warns(polyscan.InputWarning, match='2 regions, such as "b", have no limits'):
        client.reduce(frame, [first, second, polyscan.Region("c", PATCH)])


def test_regions_that_are_not_in_pixels(client, tmp_path):
    frame = np.full((64, 64), 5, np.uint8)
    share = [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9)]
    client.reduce(frame, share)
    with pytest.raises(ValueError, match="regions: all coordinates are from 0 to 1, .* and polyscan needs pixels"):
        client.reduce(frame, share, limits="mean < 90")
    with pytest.raises(ValueError, match="cover less than a pixel, as if"):
        client.reduce(frame, [(13.37, 52.51), (13.38, 52.51), (13.38, 52.52)], limits="mean < 90")
    client.reduce(frame, [(9, 9), (10, 9), (10, 10), (9, 10)], limits="mean < 90")  # one pixel
    mask = polyscan.Region.mask("b", frame, limits="min > 1")
    client.reduce(frame, [polyscan.Region("a", share, limits="mean < 90"), mask])
    path = tmp_path / "degrees.geojson"
    geometry = {"type": "Polygon", "coordinates": [[[1, 1], [9, 1], [9, 9], [1, 1]]]}
    crs = {"type": "name", "properties": {"name": "EPSG:4326"}}
    path.write_text(json.dumps({"type": "Feature", "crs": crs, "properties": {}, "geometry": geometry}))
    with pytest.raises(polyscan.RegionFileError, match=r'"EPSG:4326" \(crs\), and polyscan needs pixels'):
        client.regions(path)


def region_file(more="", of_region="", limits='"mean < 9"'):
    region = f'{{"name":"a","rings":[[[2,2],[20,2],[20,20]]],"limits":[{limits}]{of_region}}}'
    return f'{{"regions":[{region}]{more}}}'


def test_files_that_would_lose_a_verdict(client, tmp_path):
    """Keys on which a verdict hangs and that nobody reads are errors, as is what is skipped though it has limits."""
    frame = np.zeros((64, 64), np.uint8)
    path = tmp_path / "near.json"
    misspelt = [
        ("limit", "limits", region_file(of_region=',"limit":[]')),
        ("refrence", "reference", region_file(of_region=',"refrence":{"region":"a"}')),
        ("scal", "scale", region_file(',"scal":0.1')), ("reductons", "reductions", region_file(',"reductons":["mean"]')),
        ("frame", "frames", region_file(',"frame":{"golden":"x"}')),
    ]  # fmt: skip
    for key, meant, text in misspelt:
        path.write_text(text)
        for call in (client.regions, lambda r: client.reduce(frame, r), lambda r: client.put_recipe("near", r)):
            with pytest.raises(polyscan.RegionFileError, match=f'near.json.*"{key}" is ignored; did you mean "{meant}"'):
                call(path)
    path.write_text(region_file(of_region=',"limits":[]'))  # of two equal keys, Python's reader of JSON takes the last
    with pytest.raises(polyscan.RegionFileError, match='near.json.*"limits"'):
        client.reduce(frame, path)
    for wrong in ('{"width":64}', '{"width":64,"height":-1}', '{"width":64,"heigth":64}', "64"):
        path.write_text(region_file(f',"drawn_on":{wrong}'))
        with pytest.raises(polyscan.RegionFileError, match="near.json.*drawn_on"):
            client.reduce(frame, path)
    path.write_text(region_file(',"drawn_on":{"name":"a.png","width":64,"height":63}'))
    with pytest.raises(polyscan.InvalidArgument, match="64x64: the regions with limits were drawn on 64x63 pixels"):
        client.reduce(frame, path)
    path.write_text(region_file(',"drawn_on":{"limits":["mean < 3"]}'))
    with pytest.raises(polyscan.RegionFileError, match="near.json.*drawn_on.*limits"):
        client.reduce(frame, path)
    geo = '{"type":"FeatureCollection","properties":{"limits":"mean > 150"},"features":[]}'
    for lost in (region_file(',"description":"mean > 150"'), geo):
        path.write_text(lost)
        with pytest.raises(polyscan.RegionFileError, match="near.json.*limits are not read here"):
            client.reduce(frame, path)
    line = '{"label":"l","shape_type":"line","points":[[1,1],[5,5]],"flags":{"mean < 5":true}}'
    path.write_text(f'{{"shapes":[{line},{{"label":"b","points":[[1,1],[9,1],[9,9]]}}]}}')
    with pytest.raises(polyscan.RegionFileError, match=r'near.json: shapes\[0\] "l" is skipped or not read as it is drawn'):
        client.reduce(frame, path)


def test_reductions_of_files(client, tmp_path):
    """What a file asks for is computed and kept in recipes, unless the call asks for something itself."""
    frame = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    path = tmp_path / "asks.json"
    texts = ["mean", "std", "sum_sq", "mad", "percentiles(1, 99, linear)", "histogram(16, 0, 4096)", "covered"]
    texts += ["texture(1,0; -8,2; 16 levels; counts)", "autocorrelation(8,0)", "Radial(3)"]
    path.write_text(region_file(f',"reductions":{json.dumps(texts)}'))
    r = client.reduce(frame, path)
    asked = {
        "statistics": ["mean", "stddev", "sum_of_squares", "mean_absolute_deviation", "covered"], "percentiles": [1, 99],
        "percentile_method": "linear", "histogram": (16, 0, 4096),
        "texture": polyscan.Texture([(1, 0), (-8, 2)], 16, True), "correlate": ["autocorrelation(8,0)", "radial(3)"],
    }  # fmt: skip
    plain = client.regions(region_file().encode())
    assert r.message.columns == client.reduce(frame, plain, **asked).message.columns and "FAIL" in repr(r.verdict)
    assert client.reduce(frame, path, statistics=["max"]).message.columns == (
        client.reduce(frame, plain, statistics=["max"]).message.columns
    )
    client.put_recipe("asks", path)
    client.put_recipe("asked", plain, **asked)
    kept, want = client.get_recipe("asks").reductions, client.get_recipe("asked").reductions
    assert sorted(kept.statistics) == sorted(want.statistics) and kept.cooccurrence == want.cooccurrence
    # All that the command line keeps, in the words that it writes.
    colors = ["basic", "distances", "color(hsv, gray709)", "color_matrix(1, 0, 0, 0, 1, 0, 0, 0, 1)", "derivative(laplacian)"]
    r = polyscan._regions.spelled(colors)
    assert len(r.statistics) == 9 and len(r.colors) == 3 and len(r.color_matrix) == 9 and len(r.derivatives) == 1
    for wrong, why in [
        ("blobs(>= 128)", "blobs are not read here: put the file with polyscan recipe put"), ("meen", "want one of"),
        ("mean(3)", "mean takes no arguments"), ("percentiles(1", "the bracket isn't closed"), ("color", "want one of"),
        ("texture(1)", "want DX,DY"), ("histogram(1, 2)", "want .BINS"), ("color_matrix(1)", "1 numbers"),
        ("correlation(g)", "want autocorrelation"), ("color(gradient)", "want gray, gray709"),
        ("derivative(lab)", "want gradient, laplacian"), ("percentiles(1_0)", "'1_0' is no number in plain digits"),
        ("histogram(+8)", "'.8' is no whole number in plain digits"), ("histogram(8, 0, inf)", "'inf' is no number"),
        ("texture(1,0; 1_6 levels)", "'1_6' is no whole number in plain digits"),
    ]:  # fmt: skip
        path.write_text(region_file(f',"reductions":["max",{json.dumps(wrong)}]'))
        for call in (lambda r: client.reduce(frame, r), lambda r: client.put_recipe("asks", r)):
            with pytest.raises(polyscan.RegionFileError, match=rf"asks.json: reductions\[1\]: .*{why}"):
                call(path)
        assert client.reduce(frame, path, statistics=["max"])[0].max > 0 and client.mask(path, (64, 64)).counts[0] > 0
    with pytest.raises(ValueError, match="percentiles comes a second time"):
        polyscan._regions.spelled(["percentiles(1)", "percentiles(2)"])
    path.write_text(region_file(',"reductions":["blobs(>= 9)"]'))
    with pytest.raises(polyscan.RegionFileError, match="asks.json: .*polyscan recipe put"):
        client.teach([frame], path, quantities=["mean"])


def test_matrix_of_colours(client, tmp_path, rng):
    """What is asked for moves limits on colours to no other matrix than that of the file or recipe."""
    frame = rng.integers(0, 256, (64, 64, 3), np.uint8)
    path = tmp_path / "matrix.json"
    path.write_text(region_file(',"reductions":["color_matrix(1,0,0,0,1,0,0,0,1)"]', limits='"matrix.x.mean > 9"'))
    client.put_recipe("matrix", path)
    for source in (path, client.get_recipe("matrix")):
        assert client.reduce(frame, source).passed
        assert client.reduce(frame, source, colors=np.eye(3)).passed
        for asked in ({"colors": np.eye(3) * 0.5}, {"statistics": ["mean"]}):
            with pytest.raises(polyscan.RegionFileError, match="colours by its own matrix"):
                client.reduce(frame, source, **asked)


def test_levels_of_textures(client, tmp_path, rng):
    """What is asked for moves limits on textures to no other levels than those of the file or recipe."""
    frame = rng.integers(0, 256, (64, 64), np.uint8)
    path = tmp_path / "levels.json"
    path.write_text(region_file(',"reductions":["texture(1,0; 16 levels)"]', limits='"contrast(1,0) > 1"'))
    client.put_recipe("levels", path)
    for source in (path, client.get_recipe("levels")):
        assert client.reduce(frame, source).passed
        assert client.reduce(frame, source, texture=polyscan.Texture([(1, 0)], 16)).passed
        with pytest.raises(polyscan.RegionFileError, match="textures of 16 levels, and 64"):
            client.reduce(frame, source, statistics="mean")
    with pytest.raises(polyscan.InvalidArgument, match="must be 16"):
        client.reduce(frame, recipe="levels", statistics="mean")


def test_frames_of_files(client, tmp_path, rng):
    """The frames that a file names are those that its limits compare with, in place of resident ones of that name."""
    frame = rng.integers(0, 256, (64, 64), np.uint8)
    path = tmp_path / "golden.json"
    with client.put_frame(frame) as kept, client.put_frame(255 - frame) as other:
        frames = json.dumps({"golden": kept.name, "extra": kept.name})
        more = f',"frames":{frames},"reductions":["mean","ncc of \\"extra\\" at (0,0)"]'
        path.write_text(region_file(more, limits='"ncc of \\"golden\\" > 0.99"'))
        assert client.reduce(frame, path).passed
        assert client.reduce(frame, path, statistics=["mean"]).passed
        assert client.reduce(frame, path, limits="mean < 255").passed  # the frame that the other limit spoke of is left out
        assert not client.reduce(frame, path, golden=other).passed
        client.put_recipe("golden", path)
        assert client.reduce(frame, recipe="golden").passed
        assert set(client.get_recipe("golden").frames) == {"golden", "extra"}
        tried = client.try_recipe([frame, 255 - frame], path)
        assert (tried.tally.other_passed, tried.tally.other_failed) == (1, 1)
        taught = client.teach([frame, frame], path, quantities=["mean"])
        assert set(taught.recipe.frames) == {"golden", "extra"} and not taught.tally.good_failed
        path.write_text(region_file(f',"frames":{frames}'))
        with pytest.raises(polyscan.InvalidArgument, match="spoken of by no limit"):
            client.reduce(frame, path)


def test_flat_fields(programs, tmp_path):
    """A recipe's flat field corrects frames, and stays with its regions through Python, and through a file."""
    flat = f"{ROOT}/testdata/flat"
    polyscan_program = os.environ["POLYSCAN_PROGRAM"]
    learn = [polyscan_program, "flat", f"{flat}/white.png", "--dark", f"{flat}/dark.png", "--columns", "-o", "f.flat"]
    subprocess.run(learn, cwd=tmp_path, check=True, capture_output=True)
    regions = tmp_path / "regions.json"
    regions.write_text(region_file(limits='"mean in [0, 254]"'))
    put = [polyscan_program, "recipe", "put", "flat", "-r", "regions.json", "--flat", "f.flat", "--recipes", "recipes"]
    subprocess.run(put, cwd=tmp_path, check=True, capture_output=True)
    frame = np.full((64, 1024), 99, np.uint8)
    with polyscan.connect(server_args=["--recipes", str(tmp_path / "recipes")]) as client:
        corrected = client.reduce(frame, recipe="flat")["a"].mean
        assert corrected != client.reduce(frame, regions)["a"].mean
        found = client.get_recipe("flat").flat_field
        path = tmp_path / "again.json"
        path.write_text(region_file(f',"flat_field":"sha256:{found.sha256}"', limits='"mean in [0, 254]"'))
        for source in (path, client.recipe_regions("flat"), client.get_recipe("flat")):
            assert client.reduce(frame, source)["a"].mean == corrected
            client.put_recipe("again", source)
            assert client.get_recipe("again").flat_field == found
        for source in ({"recipe": "flat"}, {"regions": path}, {"regions": client.get_recipe("flat")}):
            taught = client.teach([frame, frame], **source, quantities=["mean"])
            client.put_recipe("taught", taught.recipe)
            assert taught.limits[0].mean == corrected and client.get_recipe("taught").flat_field == found
            assert client.reduce(frame, taught.recipe)["a"].mean == corrected


def test_recipes_as_regions(client, rng):
    """A recipe in place of regions brings all along that decides about its verdicts, also with other limits."""
    frame = rng.integers(0, 256, (64, 64), np.uint8)
    with client.put_frame(frame) as kept:
        limits = ['ncc of "golden" > 0.99', "contrast(2,0) > 1"]
        client.put_recipe(
            "whole", {"all": SQUARE}, limits=limits, description="as drawn", golden=kept, texture=polyscan.Texture([(2, 0)], 16),
        )
        with pytest.warns(polyscan.InputWarning, match="recipe gone: frame 'golden': 'nope' is no resident frame"):
            client.put_recipe("gone", {"all": SQUARE}, limits=limits[:1], golden="nope")
        for source in (client.get_recipe("whole"), client.recipe_regions("whole")):
            client.put_recipe("copy", source)
            found, copy = client.get_recipe("whole"), client.get_recipe("copy")
            assert (copy.reductions, copy.frames, copy.description) == (found.reductions, found.frames, found.description)
            assert client.reduce(frame, source).passed and client.reduce(frame, source, limits="contrast(2,0) > 1").passed
            assert client.teach([frame, frame], source, quantities=["mean"]).recipe.frames == found.frames
        client.put_recipe("texture", client.get_recipe("whole"), limits="contrast(2,0) > 1")
        assert client.get_recipe("texture").reductions == found.reductions and not client.get_recipe("texture").frames
        assert client.try_recipe([frame], client.get_recipe("texture")).tally.other_passed == 1


def test_verdicts_have_no_truth(client):
    for verdict in polyscan.Verdict:
        with pytest.raises(TypeError, match="compare it with Verdict.PASS"):
            bool(verdict)
        with pytest.raises(TypeError, match="a verdict is no text"):
            _ = verdict != "FAIL"
        assert verdict == int(verdict) and verdict in {polyscan.Verdict.PASS, polyscan.Verdict.FAIL, polyscan.Verdict.NONE}


def test_columns_of_verdicts(client):
    """verdicts.all() would be true where all failed, and verdicts == "FAIL" false."""
    inside = [(2, 2), (9, 2), (9, 9)]
    r = client.reduce(FRAME, {"a": SQUARE, "b": inside}, limits={"a": "mean < 0.5", "b": "mean > 1"})
    for use in (lambda v: v.all(), lambda v: v.any(), np.all, np.any, lambda v: all(v), any, lambda v: bool(v[0]), lambda v: v == "FAIL",
                lambda v: v != "FAIL", lambda v: v[0] == "FAIL", lambda v: v[:1] == ["FAIL"], lambda v: "FAIL" in list(v)):
        with pytest.raises(TypeError, match="neither true nor false|no text"):
            use(r.verdicts)
    assert (r.verdicts == polyscan.Verdict.FAIL).tolist() == [True, False] and not (r.verdicts == polyscan.Verdict.PASS).all()
    assert (r.verdicts != polyscan.Verdict.FAIL).tolist() == [False, True] and list(r.verdicts) == [2, 1]
    assert r.verdicts[0] is polyscan.Verdict.FAIL and r.verdicts[[1, 0]].tolist() == [1, 2] and "2, 1" in repr(r.verdicts)
    assert r.verdicts.dtype == np.uint8 and r.failed == ["a"]


def test_pillow_as_files(client):
    """An image of Pillow is refused for what a file of it would be."""
    PIL = pytest.importorskip("PIL.Image")
    turned = PIL.fromarray(FRAME)
    turned.getexif()[274] = 6
    with pytest.raises(ValueError, match="turned or mirrored"):
        client.reduce(turned, {"all": SQUARE})
    with pytest.raises(TypeError, match="mode I: want .*uint16"):
        client.reduce(PIL.fromarray(FRAME.astype(np.int32)), {"all": SQUARE})
    for answer in client.stream([FRAME], {"all": SQUARE}):
        with pytest.raises(TypeError, match="an answer is neither true nor false"):
            bool(answer)


def test_stream_of_one_buffer(client, tcp):
    """Cameras fill the same memory again for each frame: what is judged is what it held when it was yielded."""

    def filled(size, wrap):
        buffer = np.empty(size, np.uint8)
        for i in range(40):
            buffer[:] = i
            yield wrap(buffer)

    def raw(a):
        return polyscan.Frame(memoryview(a).cast("B"), size=a.shape[::-1], format="gray")

    with polyscan.connect(tcp, shared_memory=False) as other:
        for c in (client, other):
            for size in ((30, 40), (480, 640)):  # less than shared memory is used for, and more
                for wrap in (lambda a: a, lambda a: a[::2, ::2], raw):
                    answers = c.stream(filled(size, wrap), {"all": SQUARE}, window=8)
                    assert [a.result["all"].max for a in answers] == list(range(40))


UNUSABLE = [FRAME.astype(float), "nope.png", None, np.ma.masked_array(FRAME, FRAME > 100), polyscan.Frame(FRAME, id=7),
            polyscan.Frame(FRAME, id="b\udcff.png")]  # fmt: skip


def test_stream_of_unusable(client):
    """A frame that can't be used is an answer with the error that reduce has, in its place, and the stream goes on."""
    frames = [FRAME, *UNUSABLE, FRAME + 1, None]
    answers = list(client.stream(iter(frames), {"all": SQUARE}, window=2))
    assert [a.sequence for a in answers] == list(range(len(frames)))
    for frame, a in zip(frames, answers):
        assert a.frame is (frame.source if isinstance(frame, polyscan.Frame) else frame)
        if frame is FRAME or frame is frames[-2]:
            assert a.error is None and a.result["all"].sum == frame.sum()
            continue
        with pytest.raises(Exception) as e:
            client.reduce(frame, {"all": SQUARE})
        assert isinstance(a.error, polyscan.InvalidArgument) and a.result is None
        assert type(a.error.__cause__) is e.type and str(e.value) in str(a.error)
    assert [bool(a.error) for a in client.lowpoly_stream([FRAME, None, FRAME], vertices=20)] == [False, True, False]


def test_frames_that_are_messages(client):
    """What is said beside a message of a frame would be dropped."""
    message = polyscan.v1.frame_pb2.Frame.FromString(b"".join(polyscan._frames.encode(FRAME).parts().parts))
    assert client.reduce(message, {"all": SQUARE})["all"].sum == FRAME.sum()
    for given in ({"id": "a"}, {"part_id": "a"}, {"format": "gray8"}, {"bits": 8}):
        with pytest.raises(TypeError, match="a message of a frame says itself"):
            client.reduce(message, {"all": SQUARE}, **given)


def test_stream_of_other_frames(client):
    """Limits look at the same pixels in all frames of a stream, or the frame has no verdict."""
    frames = [FRAME, FRAME[:20], FRAME, FRAME.astype(np.uint16), np.ascontiguousarray(FRAME)]
    answers = list(client.stream(frames, {"all": SQUARE}, limits="mean > 1"))
    assert [a.result is None for a in answers] == [False, True, False, True, False]
    want = "a frame of 40x20 gray8: the first one of the stream has 40x30 gray8, and the same limits"
    assert isinstance(answers[1].error, polyscan.InvalidArgument) and want in str(answers[1].error)
    assert "a frame of 40x30 gray16le: " in str(answers[3].error)
    assert all(a.result["all"].verdict == polyscan.Verdict.NONE for a in client.stream(frames, {"all": SQUARE}))


def test_truth(client):
    """What has a verdict is neither true nor false, whether it passed or not."""
    for limit in ("mean > 1", "mean < 1"):
        r = client.reduce(FRAME, {"all": SQUARE}, limits=limit)
        (a,) = client.stream([FRAME], {"all": SQUARE}, limits=limit)
        with client.scan({"all": SQUARE}, width=40, part_lines=30, strip_lines=30, limits=limit) as scan:
            scan.send(FRAME)
            scan.close_send()
            (part,) = [u for u in scan if isinstance(u, polyscan.Part)]
        for what, want in ((r, "passed"), (a.result, "passed"), (part, "passed"), (r["all"], "verdict"),
                           (r[0].limits[0], "verdict"), (r.verdict, "PASS")):  # fmt: skip
            with pytest.raises(TypeError, match=f"neither true nor false: .*{want}"):
                bool(what)
    tried = client.try_recipe([FRAME], {"all": SQUARE}, limits="mean < 1")
    for message in (tried, tried.tally, tried.frames[0], r.message, polyscan.v1.teach_pb2.TeachResponse(),
                    polyscan.v1.history_pb2.HistoryPart(), polyscan.v1.monitor_pb2.WatchVerdict()):  # fmt: skip
        with pytest.raises(TypeError, match=f"a {type(message).__name__} is neither true nor false: .* its verdicts"):
            bool(message)


def test_too_large(programs):
    """A request that gRPC refuses is told in the server's words."""
    with polyscan.connect(server_args=["--max-message", "64KiB"]) as client:
        want = "a message of [0-9]+ bytes: the server takes 65536 at most, its max-message"
        with pytest.raises(polyscan.ResourceExhausted, match=want):
            client.reduce(f"{ROOT}/testdata/board.png", {"all": SQUARE})


def test_masked(client):
    """The mask of an array would be dropped, wherever one is given."""
    masked = np.ma.masked_array(FRAME, FRAME > 100)
    for give in (
        lambda: client.reduce(masked, {"all": SQUARE}),
        lambda: client.put_frame(masked),
        lambda: client.upload_frame(masked, (40, 30)),
        lambda: client.fill(FRAME, mask=masked),
        lambda: client.voronoi(np.ma.masked_array([[1, 2], [3, 4]]), (40, 30)),
        lambda: polyscan.Region.mask("m", masked),
        lambda: polyscan.Region("m", np.ma.masked_array(SQUARE)),
    ):
        with pytest.raises(TypeError, match="mask would be dropped; give array.data"):
            give()
    with client.scan({"all": SQUARE}, width=40, part_lines=30, strip_lines=30) as scan:
        with pytest.raises(TypeError, match="mask would be dropped"):
            scan.send(masked)
    of = client.reduce(masked.data, [polyscan.Region.mask("m", ~np.ma.getmaskarray(masked))])
    assert of["m"].sum == masked.sum()


def test_fractions(client):
    """Fractions of pixels would be cut off."""
    mask = np.ones((2, 2), bool)
    assert polyscan.Region.mask("m", mask, at=(1.0, np.int64(2))).runs.tolist() == [[2, 1, 3], [3, 1, 3]]
    with pytest.raises(ValueError, match=r"at \[1.7, 1.2\]: want whole numbers"):
        polyscan.Region.mask("m", mask, at=(1.7, 1.2))
    with client.edit(size=(40, 30)) as canvas:
        for change in (lambda: canvas.put_pixels([(0.5, 1, 1, 2, 3)]), lambda: canvas.remove_pixels([(0, 1.5)]),
                       lambda: canvas.move_pixels([(0, 1.5)], 1, 1)):  # fmt: skip
            with pytest.raises(ValueError, match="want whole numbers"):
                change()
