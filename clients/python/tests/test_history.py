"""History and teaching: what is kept of parts, and limits that are learned from good ones."""

import asyncio
import csv
import datetime
import io
import time

import numpy as np
import pytest

import polyscan
import polyscan.aio
from conftest import ROOT
from polyscan import _history
from polyscan.v1 import history_pb2
from test_client import FRAME, SQUARE


@pytest.fixture(scope="module")
def station(programs, tmp_path_factory):
    """A server that has judged twelve parts, four of which failed."""
    folder = tmp_path_factory.mktemp("history")
    began = datetime.datetime.now()
    with polyscan.connect(server_args=["--history", str(folder / "h"), "--recipes", str(folder / "r")],
                          name="camera-1") as c:  # fmt: skip
        c.put_recipe("board", {"all": SQUARE}, limits="mean < 100")
        for i in range(12):
            part = np.full((30, 40), 200 if i % 3 == 2 else 50, np.uint8)
            c.reduce(part, recipe="board", part_id=f"B-{i}")
        deadline = time.monotonic() + 30
        while c.history().parts < 12:  # they are written behind the line
            assert time.monotonic() < deadline
            time.sleep(0.05)
        c.began = began
        yield c


def test_parts(station):
    kept = station.history()
    assert kept.parts == 12 and kept.lost_parts == 0 and kept.failure == ""
    parts = list(station.parts())
    assert [p.part_id for p in parts] == [f"B-{i}" for i in reversed(range(12))]
    assert parts[0].name == "camera-1" and parts[0].recipe == "board" and parts[0].verdict == polyscan.Verdict.FAIL
    failed = list(station.parts(verdicts=["fail"], numbers="all", oldest_first=True))
    assert [p.part_id for p in failed] == ["B-2", "B-5", "B-8", "B-11"] and failed[0].results[0].count == 1200
    assert [p.id for p in station.parts(region="all")] == [p.id for p in reversed(failed)]
    assert list(station.parts(verdicts=[polyscan.Verdict.NONE])) == list(station.parts(verdicts=["none"])) == []
    assert len(list(station.parts(names=["cam*"], recipes=["board"], recipe_version=1, since=station.began))) == 12
    assert not list(station.parts(until=station.began))
    assert [p.part_id for p in station.parts(part_id="B-7")] == ["B-7"] and not list(station.parts(marks=["late"]))
    count = station.count_parts(group="name", step=60)
    assert (count.total.parts, count.total.passed, count.total.failed) == (12, 8, 4)
    assert count.groups[0].name == "camera-1"
    bars = station.pareto(limit=3).bars
    assert [(b.region, b.failures, b.cumulative) for b in bars] == [("all", 4, 1)]
    series = station.series("all", "mean", chart="xbar-r", subgroup=4, spec=(None, 220), limit=8)
    assert [p.value for p in series.points] == [50, 200, 50, 50, 200, 50, 50, 200] and series.chart.subgroup == 4
    assert series.chart.HasField("cpk") and not series.chart.HasField("cp")
    rows = list(csv.DictReader(io.StringIO(b"".join(station.export_parts(verdicts=["fail"])).decode())))
    assert len(rows) == 4
    assert b"".join(station.export_parts(format="parquet", rows="regions")).startswith(b"PAR1")
    assert [(e.recipe, e.version) for e in station.audit("board")] == [("board", 1)]


def test_unknown(station):
    """What the history doesn't know is misspelt: nothing found would pass for nothing that failed."""
    asks = [lambda **where: list(station.parts(**where)), station.count_parts, station.pareto,
            lambda **where: station.series("all", "mean", **where)]  # fmt: skip
    for where, want in (
        ({"names": ["camera-2"]}, "name 'camera-2': no part in the history has it: there is camera-1"),
        ({"names": ["camera-1", "kamera*"]}, r"name 'kamera\*'"),
        ({"recipes": ["bord"]}, "recipe 'bord': no part .*: there is board, board@1"),
        ({"recipes": ["board"], "recipe_version": 7}, "recipe 'board@7'"),
        ({"region": "nope"}, "region 'nope': none of the newest 12 parts has it: there is all"),
    ):
        for ask in asks[: 3 if "region" in where else None]:
            with pytest.raises(polyscan.NotFound, match=want):
                ask(**where)
        if "region" not in where:
            with pytest.raises(polyscan.NotFound, match=want):
                list(station.export_parts(**where))
    with pytest.raises(polyscan.NotFound, match="region 'nope'"):
        station.series("nope", "mean")
    with pytest.raises(polyscan.NotFound):
        list(station.audit("bord"))
    none = {"names": ["camera-1"], "recipes": ["board"], "recipe_version": 1, "until": station.began}
    assert [len(ask(**none)) for ask in asks[:1]] == [0] and station.count_parts(**none).total.parts == 0
    assert station.pareto(region="#0", **none).failures == 0 and not station.series("#0", "mean", **none).points

    async def main():
        async with polyscan.aio.connect(station.address) as c:
            with pytest.raises(polyscan.NotFound, match="name 'nope'"):
                [p async for p in c.parts(names=["nope"])]
            with pytest.raises(polyscan.NotFound, match="region 'nope'"):
                await c.series("nope", "mean")

    asyncio.run(main())


def test_evidence(station):
    import PIL.Image

    part = next(station.parts(marks=["evidence"], part_id="B-5"))
    frame = station.evidence(part)
    assert (frame.info.media_type, frame.info.width) == ("image/png", 40)
    assert (np.asarray(PIL.Image.open(io.BytesIO(frame.data))) == 200).all()
    assert b"<svg" in station.evidence(part.id, "overlay").data
    assert station.evidence(part, "preview", max_pixels=300).info.media_type == "image/jpeg"
    with pytest.raises(polyscan.NotFound):
        station.evidence(10**9)


def test_filters(station, client):
    """All that the protocol can ask for can be said, and what can't be is an error."""
    now = datetime.datetime.now(datetime.timezone.utc)
    whole = _history.part_filter({
        "since": now, "until": now, "names": ["a"], "recipes": ["r"], "recipe_version": 2, "verdicts": ["pass"],
        "region": "x", "part_id": "p", "marks": ["late", "incomplete", "error", "evidence"], "stream": ("s", 1, 0),
    })  # fmt: skip
    assert {f.name for f, _ in whole.ListFields()} == set(history_pb2.PartFilter.DESCRIPTOR.fields_by_name)
    assert whole.stream.HasField("result_number") and getattr(whole, "from").ToDatetime(datetime.timezone.utc) == now
    for where in ({"camera": "a"}, {"names": "a"}, {"since": "yesterday"}):
        with pytest.raises(TypeError):
            station.parts(**where)
    for where in ({"verdicts": ["good"]}, {"marks": ["early"]}):
        with pytest.raises(ValueError):
            station.parts(**where)
    with pytest.raises(polyscan.FailedPrecondition):
        client.history()


def test_methods_of_services():
    """Each method of the protocol is one of the client's, or is used by one."""
    source = "".join(f.read_text() for f in (ROOT / "clients/python/src/polyscan").glob("*.py"))
    services = 0
    for stub in (ROOT / "clients/python/src/polyscan/v1").glob("*_pb2_grpc.py"):
        for line in stub.read_text().splitlines():
            if "'/polyscan.v1." in line:
                name = line.split("'")[1].rsplit("/", 1)[1]
                assert f'"{name}"' in source or f'/{name}"' in source, name
                services += 1
    assert services > 30


def good(n):
    rng = np.random.default_rng(1)
    for _ in range(n):
        yield np.clip(rng.normal(90, 3, (30, 40)), 0, 255).astype(np.uint8)


def test_teach(station):
    bad = np.full((30, 40), 200, np.uint8)
    taught = station.teach([*good(10), (bad, "bad")], {"all": SQUARE}, quantities=["mean", "p99"], sigma=5)
    assert [t.quantity for t in taught.limits] == ["mean", "p99"] and taught.limits[0].bad_rejected == 1
    assert (taught.tally.good_passed, taught.tally.bad_failed) == (10, 1) and taught.frames[10].failed[0].reason
    station.put_recipe("learned", taught.recipe.region_set)
    assert station.reduce(next(good(1)), recipe="learned").passed and not station.reduce(bad, recipe="learned").passed
    tried = station.try_recipe(((f, "good") for f in [*good(2), bad]), recipe="learned", beside="board")
    assert (tried.tally.good_passed, tried.tally.good_failed, tried.beside.good_passed) == (2, 1, 2)
    one = station.try_recipe(good(1), {"all": SQUARE}, limits="mean > 100")
    assert one.tally.other_failed == 1 and not one.HasField("beside")
    wide = station.teach(good(5), {"all": SQUARE}, limits="count > 3", quantities="mean", quantile=(0, 50))
    assert wide.recipe.region_set.regions[0].limits[0] == "count > 3"
    for bad_use in ({"sigma": 3, "quantile": (0, 1)}, {"recipe": "board"}):
        with pytest.raises(TypeError):
            station.teach(good(3), {"all": SQUARE}, **bad_use)
    for label in ("fine", True, False, 0, 1, np.int64(2), ""):
        for call in (station.teach, station.try_recipe):
            with pytest.raises(ValueError, match=f"label '{label}': want one of good, bad"):
                call([(FRAME, label)], {"all": SQUARE}, limits="mean > 1")
    with pytest.raises(polyscan.InvalidArgument):
        station.teach(good(3), {"all": SQUARE}, quantities=["meen"])

    def failing():
        yield FRAME
        raise OSError("the camera has gone")

    with pytest.raises(OSError, match="camera"):
        station.teach(failing(), {"all": SQUARE})
    with pytest.raises(OSError, match="camera"):
        station.upload_frame((FRAME if i == 0 else failing().throw(OSError("the camera has gone")) for i in range(2)),
                             (40, 60))  # fmt: skip


def test_asyncio(station):
    async def main():
        async with polyscan.aio.connect(station.address) as c:
            assert (await c.history()).parts >= 12
            parts = [p async for p in c.parts(verdicts=["fail"], recipes=["board"])]
            assert len(parts) == 4 and (await c.evidence(parts[0])).info.width == 40
            assert (await c.count_parts(recipes=["board"])).total.parts == 12 and (await c.pareto()).failures >= 4
            assert len((await c.series("all", "mean", limit=5)).points) == 5
            assert b"".join([piece async for piece in c.export_parts()]).count(b"\n") > 12
            assert [e.recipe async for e in c.audit("board")] == ["board"]

            async def camera():
                for f in good(4):
                    yield f, "good"

            taught = await c.teach(camera(), {"all": SQUARE})
            assert taught.tally.good_passed == 4
            assert (await c.try_recipe(good(2), taught.recipe.region_set)).tally.other_passed == 2
            with pytest.raises(polyscan.InvalidArgument):
                await c.teach(camera(), {"all": SQUARE}, quantities=["meen"])

            async def failing():
                yield FRAME
                raise OSError("the camera has gone")

            with pytest.raises(OSError, match="camera"):
                await c.teach(failing(), {"all": SQUARE})
            kept = await c.upload_frame(FRAME, (40, 30))
            await c.release_frame(kept)

    asyncio.run(main())
