#!/usr/bin/env python3
"""Compares MaskCooccurrence with scikit-image's graycomatrix, each in one thread and in turns: counts and least times.

scikit-image takes levels, not samples: they are made before its time begins. Needs python3-skimage and python3-pil.

usage: kernels/cpu/peers/cooccurrence.py [FRAME [ROUNDS]]
"""

import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image
from skimage.feature import graycomatrix

HERE = os.path.dirname(os.path.abspath(__file__))
frame = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../../testdata/plank.png")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3

pixels = np.asarray(Image.open(frame).convert("L"))
pixels = np.ascontiguousarray(np.tile(pixels, (3, 3)))
levels = (pixels.astype(np.uint16) * 64 >> 8).astype(np.uint8)
with tempfile.TemporaryDirectory() as folder:
    binary, file = os.path.join(folder, "test"), os.path.join(folder, "frame")
    subprocess.run(["go", "test", "-c", "-o", binary, ".."], cwd=HERE, check=True)
    pixels.tofile(file)
    env = dict(os.environ, POLYSCAN_COOCCURRENCE=file, POLYSCAN_COOCCURRENCE_WIDTH=str(pixels.shape[1]))
    ours = theirs = math.inf
    for _ in range(rounds):
        out = subprocess.run([binary, "-test.run", "^TestCooccurrencePeer$"], env=env, check=True, capture_output=True, text=True)
        ours = min(ours, float(out.stdout.split()[1]))
        start = time.perf_counter()
        # Angles turn from columns to rows: the pair of (row, column) is (row + sin, column + cos).
        matrices = graycomatrix(levels, [1], [0, math.pi / 4, math.pi / 2, 3 * math.pi / 4], levels=64)
        theirs = min(theirs, 1000 * (time.perf_counter() - start))
    counts = np.fromfile(file + ".counts", np.uint32).reshape(4, 64, 64)
if not (counts == np.moveaxis(matrices[:, :, 0, :], 2, 0)).all():
    sys.exit("the counts differ")
print(f"{pixels.shape[1]}x{pixels.shape[0]}, 4 offsets, 64 levels: polyscan {ours:.2f} ms, scikit-image {theirs:.2f} ms, "
      f"{theirs / ours:.1f} times as long; the counts are the same")
