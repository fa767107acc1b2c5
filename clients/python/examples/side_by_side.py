"""polyscan, scikit-image and OpenCV side by side: the same polygon, the exact numbers, and what differs and why.

    side_by_side.py [PICTURE]

It needs Debian's python3-skimage and python3-opencv.
"""

import pathlib
import sys

import cv2
import numpy as np
import skimage.draw
import skimage.measure

import polyscan

HERE = pathlib.Path(__file__).resolve().parent
path = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parents[2] / "testdata" / "metal.png")
gray = cv2.imread(path, cv2.IMREAD_GRAYSCALE)


def report(title, polygons, client):
    """Count, sum, mean, standard deviation, minimum and maximum of the same pixels by three libraries."""
    print(f"\n{title}")
    print(f"{'':24} {'count':>7} {'sum':>9} {'mean':>12} {'stddev':>12} {'min':>4} {'max':>4}")
    rows = []
    for name, xy in polygons.items():
        xy = np.asarray(xy, float)
        r = client.reduce(gray, {name: xy})[name]
        rows.append(("polyscan", name, r.count, r.sum, r.mean, r.stddev, r.min, r.max))

        # polygon2mask takes (row, column), and pixels lie at whole numbers: centres of ours are half a pixel further.
        mask = skimage.draw.polygon2mask(gray.shape, xy[:, ::-1] - 0.5)
        p = skimage.measure.regionprops(mask.astype(np.uint8), gray)[0]
        inside = gray[mask]
        rows.append(("scikit-image", name, int(p.area), int(inside.sum()), p.mean_intensity,
                     inside.std(), p.min_intensity, p.max_intensity))  # fmt: skip

        # fillPoly has whole pixels for vertices (or 1/2^shift of one), and draws the outline, too.
        drawn = np.zeros(gray.shape, np.uint8)
        cv2.fillPoly(drawn, [np.round((xy - 0.5) * 16).astype(np.int32)], 255, shift=4)
        mean, deviation = cv2.meanStdDev(gray, mask=drawn)
        low, high, _, _ = cv2.minMaxLoc(gray, mask=drawn)
        inside = gray[drawn > 0]
        rows.append(("OpenCV", name, cv2.countNonZero(drawn), int(inside.sum()), mean[0, 0], deviation[0, 0],
                     low, high))
    for who, name, count, total, mean, deviation, low, high in rows:
        print(f"{who:14} {name:9} {count:7} {total:9} {mean:12.7f} {deviation:12.7f} {int(low):4} {int(high):4}")
    return rows


with polyscan.connect() as client:
    # Vertices at the borders of pixels: nobody has to decide about a pixel that lies on an edge.
    square = {"square": [(10, 10), (50, 10), (50, 40), (10, 40)]}
    ours, scikit, opencv = report("A square of 40 x 30 pixels", square, client)
    assert ours[2:4] == scikit[2:4] and abs(ours[4] - scikit[4]) < 1e-9
    # OpenCV draws the outline besides: pixels that the edge at 49.5 or 39.5 goes through count as inside.
    assert opencv[2] > ours[2]

    # Slanted edges: polyscan and scikit-image ask whether a pixel's centre is inside, and agree unless a centre lies on
    # an edge, of which scikit-image takes some and polyscan exactly one side. OpenCV takes each pixel that the outline
    # touches.
    turn = np.arange(6) * np.pi / 3 + 0.1
    hexagon = {"hexagon": np.stack([np.cos(turn), np.sin(turn)], 1) * 30.3 + (60.2, 70.7)}
    ours, scikit, opencv = report("A hexagon", hexagon, client)
    assert abs(ours[2] - scikit[2]) <= 2 and opencv[2] > ours[2]

    # Neighbours: shared edges go through centres of pixels.
    halves = {"left": [(10, 10), (30.5, 10), (30.5, 40), (10, 40)],
              "right": [(30.5, 10), (50, 10), (50, 40), (30.5, 40)]}
    rows = report("Two halves of the square, whose common edge runs through the centres of pixels", halves, client)
    total = {who: sum(r[2] for r in rows if r[0] == who) for who in ("polyscan", "scikit-image", "OpenCV")}
    print("\nPixels of both halves, of 1200:", ", ".join(f"{who} {n}" for who, n in total.items()))
    assert total["polyscan"] == 1200  # each pixel belongs to exactly one of polygons that share edges

print("""
What differs, and why
- Which pixels are inside. polyscan takes those whose centre is inside the polygon, by exact integers on a grid of 1/256
  pixel, and gives a centre on an edge to one side: polygons that share edges cover each pixel once. scikit-image asks
  for the centre as well, in floating point, and centres on an edge go either way. OpenCV takes all pixels that the
  outline touches besides, so that its regions are larger by half of their outline, and neighbours overlap.
- Where pixels are. In polyscan pixel (0, 0) covers [0, 1) x [0, 1), its centre is (0.5, 0.5); the others have its
  centre at (0, 0). Polygons are moved by half a pixel here.
- Sums. All three add integers, and agree where the pixels are the same. polyscan's mean and standard deviation are the
  exact fractions rounded once, on every machine; those of the others may differ in the last digits.""")
