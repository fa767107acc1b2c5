"""Blobs, held to OpenCV and SciPy: reads masks and what polyscan found in them, and compares.

From standard input, again and again: width, height and whether corners connect (int32 each), height*width bytes of the
mask, the number of blobs (int32), and for each the area, box and sums of columns and rows (int64: n, x0, y0, x1, y1, sx,
sy, least label pixel). It prints how many masks were equal, and fails at the first that is not.
"""

import struct
import sys

import cv2
import numpy as np
from scipy import ndimage


def wanted(mask, eight):
    """Blobs by OpenCV, in the order of their first pixels, after SciPy has found the same labels."""
    n, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8 if eight else 4)
    other, m = ndimage.label(mask, np.ones((3, 3)) if eight else None)
    labels, other = labels.ravel(), other.ravel()
    first = np.full(n, -1, np.int64)
    first[labels[::-1]] = np.arange(mask.size)[::-1]  # of values for one place NumPy keeps the last: the least pixel
    # SciPy's name of each component is the one of its first pixel, if both have the same components.
    names = np.where(first < 0, 0, other[first])  # no pixel is of the background where all are in the mask
    if m != n - 1 or len(np.unique(names)) != n or not np.array_equal(names[labels], other):
        raise SystemExit(f"OpenCV has {n - 1} components, SciPy {m}, or others")
    out = []
    for k in sorted(range(1, n), key=lambda k: first[k]):
        x, y, w, h, area = stats[k].tolist()
        sx, sy = (round(c * area) for c in centres[k])
        out.append((area, x, y, x + w, y + h, sx, sy, int(first[k])))
    return out


def main():
    read, count = sys.stdin.buffer.read, 0
    while head := read(12):
        w, h, eight = struct.unpack("<3i", head)
        mask = np.frombuffer(read(w * h), np.uint8).reshape(h, w)
        (n,) = struct.unpack("<i", read(4))
        got = [struct.unpack("<8q", read(64)) for _ in range(n)]
        want = wanted(mask, eight)
        if got != want:
            bad = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            raise SystemExit(f"mask {count} of {w}x{h}, 8-connected {eight}: {len(got)} blobs, want {len(want)}; blob {bad}: "
                             f"{got[bad:bad + 1]}, want {want[bad:bad + 1]}")
        count += 1
    print(f"{count} masks equal to OpenCV {cv2.__version__} and SciPy")


main()
