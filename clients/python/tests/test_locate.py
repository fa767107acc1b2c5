"""Parts that are located: the recipe of a file, and where the result says that the board lies."""

import json

import conftest
import numpy as np
import pytest

import polyscan

DATA = conftest.ROOT / "testdata"


def test_locate(client):
    image = pytest.importorskip("PIL.Image")
    pixels = np.asarray(image.open(DATA / "moved" / "board.png").convert("RGB"))
    truth = json.loads((DATA / "moved" / "truth.json").read_text())
    regions = client.regions(DATA / "moved" / "board.recipe.json")
    assert [f.window.name for f in regions.message.locate.fiducials] == ["F1", "F2", "F3"]
    result = client.reduce(pixels, regions)  # the light is uneven, which moves no mark
    assert result.location.found and result.location.residual < 0.05
    assert np.allclose(result.pose, truth["pose"], atol=0.05) and abs(result.location.rotation - 1.2) < 0.02
    gone = pixels.copy()
    gone[:80, :200] = 0
    result = client.reduce(gone, regions)
    assert result.verdict == polyscan.Verdict.FAIL and result.pose is None
    assert 'fiducial "F1"' in result.location.reason
    assert "the part was not found" in result["U1"].limits[0].reason
    assert client.reduce(pixels, conftest.CHIP).location is None
