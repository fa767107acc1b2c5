"""The asyncio client: the same methods as the other, with the same results."""

import asyncio
import inspect

import numpy as np
import pytest

import polyscan
import polyscan.aio
from conftest import CHIP, Daemon
from test_client import FRAME, SQUARE
from test_scan import PART, REGION, STRIP, WIDTH, expected, strip


def test_same_methods():
    """Both clients have the same methods with the same arguments."""
    for ours, theirs in ((polyscan.Client, polyscan.aio.Client), (polyscan.Canvas, polyscan.aio.Canvas)):
        for name, method in inspect.getmembers(ours, inspect.isfunction):
            if name.startswith("_"):
                continue
            other = inspect.signature(getattr(theirs, name)).parameters
            same = inspect.signature(method).parameters
            assert list(same) == list(other), name
            assert [p.default for p in same.values()] == [p.default for p in other.values()], name
    for name in ("buffer", "send", "close_send", "recv", "session", "stats", "close"):
        assert hasattr(polyscan.aio.Scan, name)


def test_calls(programs, board, tmp_path):
    async def main():
        async with polyscan.aio.connect(server_args=["--recipes", str(tmp_path)]) as client:
            regions = {"U1": CHIP}
            results = await asyncio.gather(*(client.reduce(board, regions, histogram=True) for _ in range(8)))
            assert len({tuple(r.sum[0]) for r in results}) == 1 and results[0]["U1"].count == 21904
            some = await client.reduce(board, regions, limits="mean < 0", results="failed", fields=["name", "count"])
            assert some.names == ["U1"] and "red_mean" not in some.to_dict()
            a = client.frame((300, 400))
            a[:] = 5
            assert client.shared_memory and (await client.reduce(a, {"all": SQUARE}))["all"].mean == 5
            assert (await client.mask({"all": SQUARE}, like=FRAME)).counts.tolist() == [1200]
            with pytest.raises(polyscan.InvalidArgument):
                await client.reduce(FRAME, {"all": SQUARE}, limits="meen < 3")
            with pytest.raises(polyscan.DeadlineExceeded):
                await client.reduce(FRAME, {"all": SQUARE}, timeout=0)
            kept = await client.put_frame(board)
            assert (await client.reduce(kept, regions)).sum.tolist() == results[0].sum.tolist()
            assert [f.name async for f in client.frames()] == [kept.name]
            await client.release_frame(kept)
            kept = await client.upload_frame(FRAME, (40, 30))
            assert (await client.get_frame(kept)).layout.width == 40
            await client.put_recipe("r", {"all": SQUARE}, limits="mean > 1")
            assert (await client.reduce(FRAME, recipe="r")).passed
            assert [r.name async for r in client.recipes()] == ["r"] and len(await client.recipe_regions("r")) == 1
            assert await client.delete_recipe("r", all_versions=True) == 1
            assert (await client.lowpoly(board, vertices=100)).mesh.points.shape == (100, 2)
            assert (await client.triangulate([(0, 0), (9, 0), (0, 9)])).triangles.tolist() == [[0, 1, 2]]
            assert (await client.voronoi([(0, 0)], (3, 2))).tolist() == [[0] * 3] * 2
            pixels = [(0, 0, 255, 0, 0)]
            assert (await client.diffuse(size=(4, 3), pixels=pixels)).picture[2, 3].tolist() == [255, 0, 0]
            assert [s.last async for s in client.diffuse_progressively(size=(4, 3), pixels=pixels)][-1]
            assert (await client.extract(board[:60, :80].copy())).picture.shape == (60, 80, 3)
            assert (await client.fill(board, regions, mask_method="row-spans")).filled_pixels == 21904
            assert (await client.background(board, regions)).residual.shape == board.shape
            async with client.edit(size=(4, 3), pixels=pixels) as canvas:
                canvas.put_pixels([(0, 0, 0, 0, 255)])
                assert (await canvas.picture()).picture[2, 3].tolist() == [0, 0, 255]
                canvas.close_send()
                assert [e async for e in canvas] == []
            assert (await client.device()).backend == "cpu"
            assert len(await asyncio.to_thread(lambda: client.regions(SQUARE))) == 1
            watch = client.watch()
            assert (await watch.__anext__()).started.device.available
            await client.reduce(FRAME, {"all": SQUARE}, part_id="B-7")
            assert (await watch.__anext__()).verdict.part_id == "B-7"
            await watch.aclose()

    asyncio.run(main())


def test_streams(programs):
    async def main():
        async with polyscan.aio.connect() as client:
            frames = [FRAME + i for i in range(12)]
            frames[7], frames[9], frames[11] = b"no image", FRAME.astype(float), None

            async def camera():
                for f in frames:
                    await asyncio.sleep(0.001)
                    yield f

            for source in (frames, camera()):
                answers = [a async for a in client.stream(source, {"all": SQUARE}, window=3)]
                assert [a.sequence for a in answers] == list(range(12))
                for i, a in enumerate(answers):
                    if i in (7, 9, 11):
                        assert isinstance(a.error, polyscan.InvalidArgument) and a.result is None
                    else:
                        assert a.result["all"].sum == frames[i].sum() and a.error is None
                assert "want a NumPy array" in str(answers[11].error)
            with pytest.raises(polyscan.InvalidArgument):
                async for _ in client.stream(frames, {"all": SQUARE}, limits="meen < 3"):
                    pass

            async def failing():
                yield FRAME
                raise OSError("the camera has gone")

            with pytest.raises(OSError, match="camera"):
                async for _ in client.stream(failing(), {"all": SQUARE}):
                    pass
            video = [a async for a in client.lowpoly_stream([FRAME] * 3, vertices=50)]
            assert len(video) == 3 and video[2].result.picture.shape == FRAME.shape
            stream = client.stream(frames * 100, {"all": SQUARE})
            async for a in stream:
                if a.sequence == 5:
                    break
            await stream.aclose()
            # What is left is gRPC's own, and ends when it has seen that the call was cancelled.
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            assert not rest or not (await asyncio.wait(rest, timeout=30))[1]

    asyncio.run(main())


def test_scan(programs):
    async def main():
        async with polyscan.aio.connect() as client:
            async with await client.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP, strips=8) as scan:

                async def send():
                    for n in range(80):
                        await scan.send(strip(n))
                    scan.close_send()

                sending = asyncio.create_task(send())
                parts = [u async for u in scan if isinstance(u, polyscan.Part)]
                await sending
            assert [p.sum.tolist() for p in parts] == [expected(i) for i in range(20)]
            assert scan.stats.acked == 80

    asyncio.run(main())


def test_errors(programs):
    async def main():
        with Daemon() as d:
            async with polyscan.aio.connect(d.address) as client:
                d.kill()
                asyncio.get_running_loop().call_later(0.3, d.start)
                assert (await client.reduce(FRAME, {"all": SQUARE}, timeout=20))["all"].count == 1200
        with pytest.raises(RuntimeError):
            await polyscan.aio.connect("localhost:1").device()
        with pytest.raises(polyscan.Error):
            async with polyscan.aio.connect("localhost:1", timeout=1):
                pass
        assert np.array_equal(FRAME, FRAME)

    asyncio.run(main())
