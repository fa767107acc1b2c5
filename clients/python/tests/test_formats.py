"""What cameras send: Bayer, packed gray and YUV, as arrays, as raw bytes and as strips."""

import numpy as np
import pytest

import polyscan

REGION = [polyscan.Region("all", [(0, 0), (8, 0), (8, 4), (0, 4)])]


def pack12(samples):
    """Gray of 12 bits without gaps, by the definition: the first sample in the lowest bits."""
    rows = []
    for row in samples:
        bits = "".join(format(int(v), "012b")[::-1] for v in row)
        rows.append([int(bits[i : i + 8].ljust(8, "0")[::-1], 2) for i in range(0, len(bits), 8)])
    return np.array(rows, np.uint8)


@pytest.mark.parametrize("shared", [True, False])
def test_formats(shared):
    rng = np.random.default_rng(5)
    gray = rng.integers(0, 4096, (4, 8), np.uint16)
    with polyscan.connect(shared_memory=shared) as client:
        want = client.reduce(gray, REGION, bits=12)
        packed = pack12(gray)
        got = client.reduce(polyscan.Frame(packed.tobytes(), size=(8, 4), format="mono12p"), REGION)
        assert got[0].sum == want[0].sum
        padded = np.pad(packed, ((0, 0), (0, 5)))
        got = client.reduce(polyscan.Frame(padded.tobytes(), size=(8, 4), stride=17, format="mono12p"), REGION)
        assert got[0].sum == want[0].sum

        # Red is 200, green 90 and blue 30 everywhere.
        mosaic = np.tile(np.array([[200, 90], [90, 30]], np.uint8), (2, 4))
        for frame in (
            polyscan.Frame(mosaic, format="bayer_rg8"),
            polyscan.Frame(mosaic, format="bayer_rg8", demosaic="malvar_he_cutler"),
            polyscan.Frame(mosaic.astype(np.uint16) * 16, format="bayer_rg16le", bits=12),
        ):
            r = client.reduce(frame, REGION)[0]
            assert list(r.mean) == [200, 90, 30]
        yuv = np.full((4, 16), 128, np.uint8)
        r = client.reduce(polyscan.Frame(yuv.tobytes(), size=(8, 4), format="yuv422_yuyv"), REGION)[0]
        assert list(r.mean) == [128, 128, 128]
    with pytest.raises(ValueError, match="no bayer_rg16le"):
        polyscan._frames.encode(polyscan.Frame(mosaic, format="bayer_rg16le"))
    with pytest.raises(ValueError, match="takes 48"):
        polyscan._frames.encode(polyscan.Frame(b"x" * 47, size=(8, 4), format="mono12p"))
