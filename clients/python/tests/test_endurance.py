"""What stays behind: of clients that are killed, of clients that are closed, of many calls."""

import gc
import os
import pathlib
import random
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

import numpy as np

import polyscan
from conftest import HERE, Daemon, amount

# Forks clients, so that each starts in milliseconds: one for each line of standard input, which is killed by its
# number.
VICTIMS = """
    import os, sys, threading
    sys.path.insert(0, {src!r})
    import numpy as np
    import polyscan

    def live(address, i):
        c = polyscan.connect(address)
        region = {{"all": [(0, 0), (64, 0), (64, 64), (0, 64)]}}
        a = c.frame((300, 400))
        assert c.shared_memory
        if i % 3 == 1:
            threading.Thread(target=lambda: list(c.stream(iter(lambda: b"", 0), region)), daemon=True).start()
        if i % 3 == 2:
            s = c.scan(region, width=64, part_lines=64, strip_lines=8)
            threading.Thread(target=lambda: list(s), daemon=True).start()
        print(os.getpid(), flush=True)
        while True:
            a[:] = 3
            c.reduce(a, region)
            if i % 3 == 2:
                s.send(np.zeros((8, 64), np.uint8))

    for i, line in enumerate(sys.stdin):
        if os.fork() == 0:
            live(line.strip(), i)
        if i > 4:
            os.waitpid(-1, os.WNOHANG)
"""


def metric(port, name):
    text = urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=5).read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith((name + " ", name + "{")))


def settle(value, want, seconds=30):
    """Wait until value() is at most want, and return it."""
    end = time.monotonic() + seconds
    while (now := value()) > want and time.monotonic() < end:
        time.sleep(0.1)
    return now


def test_kills(programs, tmp_path):
    """Clients that are killed leave no lease, no connection and no goroutine at the server."""
    import socket

    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    flags = ["--shm-socket", str(tmp_path / "s"), "--http", f"localhost:{port}", "--scan-resume", "1s"]
    rng = random.Random(7)
    with Daemon(*flags) as d:
        with polyscan.connect(d.address) as c:
            c.frame((300, 400))
            assert metric(port, "polyscan_shared_memory_leases") == 1
        assert settle(lambda: metric(port, "polyscan_shared_memory_leases"), 0) == 0
        victims = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(VICTIMS).format(src=str(HERE.parent / "src"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        most, goroutines, warm = 0, 0, 9
        for i in range(warm + amount(30, 1000)):
            if i == warm:  # what the server keeps after the first ones is all that it keeps
                settle(lambda: metric(port, "polyscan_shared_memory_leases"), 0)
                time.sleep(3)
                goroutines = metric(port, "go_goroutines")
            victims.stdin.write(d.address + "\n")
            victims.stdin.flush()
            pid = int(victims.stdout.readline())
            time.sleep(rng.uniform(0, 0.03))
            if i % 50 == 7:  # it lives, and has its lease
                most = max(most, metric(port, "polyscan_shared_memory_leases"))
            os.kill(pid, 9)
        victims.stdin.close()
        victims.wait()
        victims.stdout.close()
        assert most > 0  # the measure is one
        assert settle(lambda: metric(port, "polyscan_shared_memory_leases"), 0) == 0
        left = settle(lambda: metric(port, "go_goroutines"), goroutines + 5, 60)
        assert left <= goroutines + 5, f"{left} goroutines, {goroutines} before"
        open_files = pathlib.Path(f"/proc/{d.process.pid}/fd").iterdir()
        descriptors = [os.readlink(f) for f in open_files if os.path.lexists(f)]
        assert not [f for f in descriptors if "memfd" in f]


def test_closed_clients(programs, tmp_path):
    """Clients that are closed leave no thread, no descriptor and no mapping in this process."""
    region = {"all": [(0, 0), (64, 0), (64, 64), (0, 64)]}

    def use(address):
        with polyscan.connect(address) as c:
            a = c.frame((64, 64))
            a[:] = 1
            assert c.shared_memory and c.reduce(a, region)["all"].sum == 64 * 64
            for _ in c.stream([a] * 3, region):
                break
            with c.scan(region, width=64, part_lines=64, strip_lines=8) as scan:
                scan.send(np.zeros((8, 64), np.uint8))
            c.edit(size=(4, 4), pixels=[(0, 0, 1, 2, 3)]).close()

    def held():
        gc.collect()
        maps = pathlib.Path("/proc/self/maps").read_text().count("memfd")
        return threading.active_count(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), maps

    with Daemon("--shm-socket", str(tmp_path / "s"), "--scan-resume", "1s") as d:
        for _ in range(5):
            use(d.address)
        time.sleep(0.5)
        before = held()
        for _ in range(amount(15, 1000)):
            use(d.address)
        for _ in range(100):
            after = held()
            if all(a <= b for a, b in zip(after, before)):
                break
            time.sleep(0.1)
        # gRPC has some threads of its own, whose number follows the load.
        most = [more + extra for more, extra in zip(before, (0, 8, 4, 0))]
        assert all(now <= bound for now, bound in zip(after, most)), (
            f"threads, tasks, descriptors, mappings: {before} before, {after} after"
        )


def test_memory(programs, tmp_path):
    """The memory of client and server is flat."""
    region = {"all": [(0, 0), (320, 0), (320, 240), (0, 240)]}

    def resident(pid):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    calls = amount(2000, 100_000)
    with Daemon("--shm-socket", str(tmp_path / "s")) as d:
        with polyscan.connect(d.address) as shared, polyscan.connect(d.address, shared_memory=False) as plain:
            a, frame = np.full((240, 320), 3, np.uint8), shared.frame((240, 320))
            frame[:] = 3

            def call(i):
                if i % 3 == 0:
                    assert plain.reduce(a, region, histogram=True)["all"].histogram[3] == a.size
                elif i % 3 == 1:
                    assert shared.reduce(a, region)["all"].sum == 3 * a.size
                else:
                    assert shared.reduce(frame, region, statistics="all")["all"].median == 3

            for i in range(calls // 4):
                call(i)
            before = resident("self"), resident(d.process.pid)
            for i in range(calls):
                call(i)
            gc.collect()
            after = resident("self"), resident(d.process.pid)
    print(f"{calls} calls: client {before[0]:.0f} to {after[0]:.0f} MiB, server {before[1]:.0f} to {after[1]:.0f} MiB")
    assert after[0] < before[0] + 8, f"the client grew from {before[0]:.1f} to {after[0]:.1f} MiB"
    assert after[1] < before[1] + 64, f"the server grew from {before[1]:.1f} to {after[1]:.1f} MiB"


def test_server_ends(programs):
    """A server of our own ends with the process that started it, however that ends."""
    program = f"""
import sys; sys.path.insert(0, {str(HERE.parent / "src")!r})
import polyscan
c = polyscan.connect()
print(c.address, c._server.process.pid, flush=True)
sys.stdin.readline()
"""
    for kill in (False, True):
        p = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address, pid = p.stdout.readline().split()
        folder = os.path.dirname(address.removeprefix("unix:"))
        assert os.path.exists(folder) and os.path.exists(f"/proc/{pid}")
        if kill:
            p.kill()
        p.communicate("\n" if not kill else None)
        for _ in range(100):
            if not os.path.exists(folder) and not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.1)
        assert not os.path.exists(folder)
        assert not os.path.exists(f"/proc/{pid}") or "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text()
