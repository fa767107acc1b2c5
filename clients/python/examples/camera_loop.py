"""A camera loop: the camera writes into memory that the server reads, and a verdict comes back for each frame.

    camera_loop.py [--address HOST:PORT] [--frames N]

The camera is a stand-in that draws parts. With the SDK of a real one, pass it the array's memory (its ctypes pointer,
or the array itself) where draw() is called.
"""

import argparse
import time

import numpy as np

import polyscan

WIDTH, HEIGHT = 1280, 1024
parser = argparse.ArgumentParser(description="Judge the frames of a camera.")
parser.add_argument("--address", help="of a server that runs; without one it is started")
parser.add_argument("--frames", type=int, default=50)
given = parser.parse_args()


def draw(into: np.ndarray, number: int) -> None:
    """A part on a dark belt; every tenth has a hole."""
    into[:] = 20
    into[200:800, 300:900] = 180
    if number % 10 == 9:
        into[400:440, 500:540] = 25


part = polyscan.Region.rectangle("part", 310, 210, 890, 790, limits=["mean in [175, 185]", "min > 100"])
belt = polyscan.Region.rectangle("belt", 0, 820, WIDTH, HEIGHT, limits="max < 60")
rejected, times = [], []
with polyscan.connect(given.address, name="camera-1") as client:
    regions = client.regions([part, belt])  # converted once
    buffers = [client.frame((HEIGHT, WIDTH)) for _ in range(2)]  # the camera fills one while the other is judged
    for number in range(given.frames):
        frame = buffers[number % 2]
        draw(frame, number)
        began = time.perf_counter()
        try:
            result = client.reduce(frame, regions, part_id=f"part {number}", timeout=1)
        except polyscan.Error as e:
            rejected.append(number)  # what could not be judged has not passed
            print(f"frame {number}: {e}")
            continue
        times.append(time.perf_counter() - began)
        if not result.passed:
            rejected.append(number)
            print(f"frame {number}: {', '.join(m.reason for n in result.failed for m in result[n].limits if m.reason)}")
    way = "shared memory" if client.shared_memory else "the network"
print(f"{given.frames} frames through {way}, {1000 * np.median(times):.2f} ms each; rejected: {rejected}")
assert rejected == list(range(9, given.frames, 10))
