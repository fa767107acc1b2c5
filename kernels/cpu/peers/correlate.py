#!/usr/bin/env python3
"""Compares MaskCorrelate at 16 lags with NumPy's sums and dot products of slices in float64, whose integers are exact here:
each in one thread and in turns, sums and least times. NumPy has no mask, so that the region is the frame. Needs
python3-numpy and python3-pil.

usage: kernels/cpu/peers/correlate.py [FRAME [ROUNDS]]
"""

import math
import os
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
frame = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../../testdata/plank.png")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
LAGS = [(n * x, n * y) for n in (1, 2, 4, 8) for x, y in ((1, 0), (1, 1), (0, 1), (-1, 1))]

pixels = np.asarray(Image.open(frame).convert("L"))
pixels = np.ascontiguousarray(np.tile(pixels, (3, 3)))
height, width = pixels.shape
samples = pixels.astype(np.float64)


def numpy_sums():
    out = []
    for dx, dy in LAGS:
        first = samples[: height - dy, max(0, -dx) : width - max(0, dx)].ravel()
        second = samples[dy:, max(0, dx) : width + min(0, dx)].ravel()
        out.append((len(first), first.sum(), second.sum(), first @ first, second @ second, first @ second))
    return np.array(out)


with tempfile.TemporaryDirectory() as folder:
    binary, file = os.path.join(folder, "test"), os.path.join(folder, "frame")
    subprocess.run(["go", "test", "-c", "-o", binary, ".."], cwd=HERE, check=True)
    pixels.tofile(file)
    env = dict(os.environ, POLYSCAN_CORRELATE=file, POLYSCAN_CORRELATE_WIDTH=str(width))
    ours = theirs = math.inf
    for _ in range(rounds):
        out = subprocess.run([binary, "-test.run", "^TestCorrelatePeer$"], env=env, check=True, capture_output=True, text=True)
        ours = min(ours, float(out.stdout.split()[1]))
        start = time.perf_counter()
        want = numpy_sums()
        theirs = min(theirs, 1000 * (time.perf_counter() - start))
    got = np.fromfile(file + ".sums", np.uint64).reshape(len(LAGS), 6)
if not (got == want.astype(np.uint64)).all():
    sys.exit("the sums differ")
print(f"{width}x{height}, 16 lags: polyscan {ours:.2f} ms, NumPy {theirs:.2f} ms, {theirs / ours:.1f} times as long; the sums are "
      "the same")
