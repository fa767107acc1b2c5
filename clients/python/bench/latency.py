#!/usr/bin/python3
"""How long a call takes from Python, from numpy array to numpy array, beside what the server computes of it.

    latency.py [--calls N] [--address HOST:PORT]

It prints a row for each way: the fastest call, the median, the median of the server's own time, and the least and the
median that a call took beyond that. Without an address it starts polyscand as connect() alone does, and calls it over
its unix socket where frames lie in shared memory, and over a port of this host where they travel. The Go client's
numbers come from go test -run '^$' -bench ReduceClient ./server.
"""

import argparse
import pathlib
import socket
import statistics
import sys
import time
import warnings

import grpc
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))
import polyscan  # noqa: E402
from polyscan import _calls, _wire  # noqa: E402
from polyscan.v1 import inspection_pb2  # noqa: E402

WIDTH, HEIGHT = 2880, 1440


def thousand():
    """1000 octagons in a grid."""
    turn = np.arange(8) * np.pi / 4
    circle = np.stack([np.cos(turn), np.sin(turn)], 1) * 25
    places = [(40 + 56 * (i % 50), 36 + 72 * (i // 50)) for i in range(1000)]
    return {f"r{i}": circle + place for i, place in enumerate(places)}


def measure(ways, calls):
    """Make calls of all ways in turn, so that what else the machine does meets all of them alike."""
    times = {what: [] for what in ways}
    for turn in range(10 + calls):
        for what, call in ways.items():
            began = time.perf_counter()
            compute = call()
            took = time.perf_counter() - began
            if turn >= 10:
                times[what].append((took, compute, took - compute))
    for what, rows in times.items():
        took, compute, over = zip(*rows)
        row = (min(took), statistics.median(took), statistics.median(compute), min(over), statistics.median(over))
        print(f"{what:44}", *(f"{1000 * v:8.2f}" for v in row), flush=True)


def bare(address, client, frame, regions):
    """What gRPC alone takes for the same bytes, without arrays and tables."""
    call = _calls.reduce(client._encode(frame), client._what(regions, None, None, None, None, None, False, None, None))
    request = _wire.serialize(call.request)
    method = grpc.insecure_channel(address).unary_unary(call.method)

    def send():
        answer = method(request, timeout=30)
        return _wire.seconds(inspection_pb2.ReduceResponse.FromString(answer).result.times.compute)

    return send


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--address")
    given = parser.parse_args()
    frame = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    print(f"{f'{WIDTH}x{HEIGHT}, gray of 8 bits; ms':44} fastest   median  compute  over it   median")
    address, own = given.address, None
    if not address:
        with socket.socket() as s:
            s.bind(("localhost", 0))
            address = f"localhost:{s.getsockname()[1]}"
        own = polyscan.connect(server_args=["--listen", address])
    warnings.simplefilter("ignore", polyscan.InputWarning)  # the recipe has no limits
    with polyscan.connect(address, shared_memory=False) as tcp, own or polyscan.connect(address) as local:
        one = tcp.regions({"one": [(100, 100), (2780, 100), (2780, 1340), (100, 1340)]})
        many = tcp.regions(thousand())
        local.put_recipe("latency", many)
        shared = local.frame(frame.shape)
        shared[:] = frame

        def histograms(**what):
            result = local.reduce(shared, histogram=True, **what)
            assert result.histogram.shape == (1000, 256) and result.mean.shape == (1000,)
            return result.compute_seconds

        measure({
            "TCP, from numpy, one region": lambda: tcp.reduce(frame, one).compute_seconds,
            "the same bytes through grpcio alone": bare(address, tcp, frame, one),
            "copied to shared memory, one region": lambda: local.reduce(frame, one).compute_seconds,
            "in shared memory, one region": lambda: local.reduce(shared, one).compute_seconds,
            "the same, 1000 regions, histograms": lambda: histograms(regions=many),
            "the same, by the name of a recipe": lambda: histograms(recipe="latency"),
        }, given.calls)  # fmt: skip
        local.delete_recipe("latency", all_versions=True)


if __name__ == "__main__":
    main()
