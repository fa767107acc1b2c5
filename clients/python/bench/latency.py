#!/usr/bin/python3
"""How long a call takes from Python, from numpy array to numpy array, beside what the server computes of it.

    latency.py [--calls N] [--address HOST:PORT]

It prints a row for each way: the fastest call, the median, the median of the server's own time, and the least that a
call took beyond that. Without an address it
starts polyscand, on a port of this host and with shared memory. The Go client's numbers come from
go test -run '^$' -bench ReduceClient ./server.
"""

import argparse
import pathlib
import socket
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))
import polyscan  # noqa: E402

WIDTH, HEIGHT = 2880, 1440


def thousand():
    """1000 octagons in a grid."""
    turn = np.arange(8) * np.pi / 4
    circle = np.stack([np.cos(turn), np.sin(turn)], 1) * 25
    places = [(40 + 56 * (i % 50), 36 + 72 * (i // 50)) for i in range(1000)]
    return {f"r{i}": circle + place for i, place in enumerate(places)}


def measure(what, call, calls):
    for _ in range(10):
        call()
    times, compute = [], []
    for _ in range(calls):
        began = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - began)
        compute.append(result.compute_seconds)
    over = min(t - c for t, c in zip(times, compute))
    row = (min(times), statistics.median(times), statistics.median(compute), over)
    print(f"{what:44}", *(f"{1000 * v:8.2f}" for v in row), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--address")
    given = parser.parse_args()
    frame = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    print(f"{f'{WIDTH}x{HEIGHT}, gray of 8 bits; ms':44} {'fastest':>8} {'median':>8} {'compute':>8} {'over it':>8}")
    address, own = given.address, None
    if not address:
        with socket.socket() as s:
            s.bind(("localhost", 0))
            address = f"localhost:{s.getsockname()[1]}"
        own = polyscan.connect(server_args=["--listen", address])
    with polyscan.connect(address, shared_memory=False) as tcp, polyscan.connect(address) as local:
        one = tcp.regions({"one": [(100, 100), (2780, 100), (2780, 1340), (100, 1340)]})
        many = tcp.regions(thousand())
        measure("TCP, from numpy, one region", lambda: tcp.reduce(frame, one), given.calls)
        measure("copied to shared memory, one region", lambda: local.reduce(frame, one), given.calls)
        shared = local.frame(frame.shape)
        shared[:] = frame
        measure("in shared memory, one region", lambda: local.reduce(shared, one), given.calls)

        def histograms(**what):
            result = local.reduce(shared, histogram=True, **what)
            assert result.histogram.shape == (1000, 256) and result.mean.shape == (1000,)
            return result

        measure("the same, 1000 regions, histograms", lambda: histograms(regions=many), given.calls)
        local.put_recipe("latency", many)
        measure("the same, by the name of a recipe", lambda: histograms(recipe="latency"), given.calls)
        local.delete_recipe("latency", all_versions=True)
    if own:
        own.close()


if __name__ == "__main__":
    main()
