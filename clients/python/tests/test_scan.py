"""Line-scan: each part exactly once, whatever happens to the connection, with the numbers of its pixels."""

import os
import random
import socket
import struct
import threading
import time

import numpy as np
import pytest

import polyscan
from conftest import Daemon, amount

WIDTH, PART, STRIP = 64, 32, 8
REGION = {"all": [(0, 0), (WIDTH, 0), (WIDTH, PART), (0, PART)],
          "left": [(0, 0), (20, 0), (20, PART - 3), (0, PART - 3)]}


def line(n, width=WIDTH):
    """The pixels of a line, by its number."""
    return ((np.arange(width, dtype=np.int64) * 7 + n * 13 + (n >> 5) * 5) & 255).astype(np.uint8)


def strip(n):
    return np.stack([line(n * STRIP + i) for i in range(STRIP)])


def expected(part):
    pixels = np.stack([line(part * PART + i) for i in range(PART)]).astype(np.int64)
    return [int(pixels.sum()), int(pixels[: PART - 3, :20].sum())]


def drain(scan, found, stop_at=None):
    for update in scan:
        if isinstance(update, polyscan.Part):
            assert update.number == len(found) and update.result_number == len(found)
            if not update.incomplete:
                assert update.sum.tolist() == expected(update.number)
            found.append(update)
        elif isinstance(update, polyscan.Event):
            assert update.kind in ("gap", "duplicate", "draining", "slow-consumer"), update


@pytest.mark.parametrize("shared", [False, True])
def test_parts(client, shared):
    parts = []
    lines = {"width": WIDTH, "part_lines": PART, "strip_lines": STRIP}
    with client.scan(REGION, **lines, shared_memory=shared, limits="mean > 1") as scan:
        assert scan.shared_memory == shared and scan.backend == "cpu"
        receiver = threading.Thread(target=drain, args=(scan, parts))
        receiver.start()
        for n in range(100):
            if n % 3:
                assert scan.send(strip(n)) == n
            else:
                buffer = scan.buffer()
                buffer[:] = strip(n)
                assert scan.send(buffer) == n
        scan.close_send()
        receiver.join(20)
        stats = scan.stats
    assert len(parts) == 25 and all(p.passed and not p.incomplete for p in parts)
    assert (stats.handed, stats.acked, stats.results, stats.repeated) == (100, 100, 25, 0)
    assert parts[3].latency > 0 and parts[3]["left"].count == 20 * (PART - 3) and parts[3].first_line == 3 * PART
    with pytest.raises(polyscan.Error):
        scan.send(strip(0))


def test_marked_and_lost(client):
    with client.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP, marked=True) as scan:
        for n in range(12):
            starts = [0] if n in (0, 4) else []
            scan.send(strip(n), part_starts=starts, part_ids=["B-1"] * len(starts), lost=STRIP if n == 6 else 0)
        scan.close_send()
        updates = list(scan)
    parts = [u for u in updates if isinstance(u, polyscan.Part)]
    assert [p.first_line for p in parts] == [0, 4 * STRIP] and [p.part_id for p in parts] == ["B-1"] * 2
    assert parts[0].sum.tolist() == expected(0) and parts[1].incomplete and parts[1].missing_lines > 0
    assert "gap" in [u.kind for u in updates if isinstance(u, polyscan.Event)]


def test_bad_arguments(client):
    common = {"width": WIDTH, "part_lines": PART, "strip_lines": STRIP}
    for options in ({"strips": -1}, {"stall": 0}, {"dtype": np.float32}, {"bits": 12},
                    {"marked": True, "every_lines": 4}):
        with pytest.raises((TypeError, ValueError)):
            client.scan(REGION, **{**common, **options})
    with pytest.raises(polyscan.InvalidArgument):
        client.scan(REGION, **common, limits="meen < 3")
    with client.scan(REGION, **common) as scan:
        for pixels in (strip(0)[:, :9], strip(0).astype(np.uint16), np.zeros((STRIP + 1, WIDTH), np.uint8),
                       b"x", strip(0)[0]):
            with pytest.raises((TypeError, ValueError)):
                scan.send(pixels)
        for starts in ([STRIP], [3, 3], [-1]):
            with pytest.raises(ValueError):
                scan.send(strip(0), part_starts=starts)
        with pytest.raises(polyscan.DeadlineExceeded):
            scan.recv(timeout=0.01)
    with pytest.raises(polyscan.NotFound):
        client.scan(REGION, **common, resume=polyscan.Session(b"0123456789abcdef", 0))


def test_sixteen_bits(client):
    lines = np.random.default_rng(3).integers(0, 4096, (2 * PART, WIDTH), np.uint16)
    with client.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP, dtype=np.uint16, bits=12) as scan:
        for n in range(0, 2 * PART, STRIP):
            scan.send(lines[n : n + STRIP])
        scan.close_send()
        parts = [u for u in scan if isinstance(u, polyscan.Part)]
    assert [p["all"].sum for p in parts] == [int(lines[:PART].sum()), int(lines[PART:].sum())]


def test_other_process(client):
    """Another scan goes on with the session of one that was closed."""
    options = {"width": WIDTH, "part_lines": PART, "strip_lines": STRIP}
    first = client.scan(REGION, **options)
    for n in range(6):
        first.send(strip(n))
    parts = [first.recv(10)]
    while first.stats.acked < 6:
        time.sleep(0.01)
    session = first.session
    first.close()
    with client.scan(REGION, **options, resume=session) as second:
        for n in range(6, 12):
            assert second.send(strip(n)) == n
        second.close_send()
        parts += [u for u in second if isinstance(u, polyscan.Part)]
    assert [p.number for p in parts] == [0, 1, 2] and [p.sum.tolist() for p in parts] == [expected(i) for i in range(3)]


def hang_up(s):
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    s.close()


class Proxy:
    """A way to a server that breaks: each connection after some bytes, or when told so."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("localhost", 0))
        self.address = f"localhost:{self.listener.getsockname()[1]}"
        self.connections = []
        self.broken = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("localhost", self.port))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            with self.lock:
                self.connections.append((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    def copy(self, a, b):
        try:
            while data := a.recv(1 << 16):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            hang_up(s)

    def cut(self):
        """Reset all connections, so that what is on its way is lost."""
        with self.lock:
            connections, self.connections = self.connections, []
        for pair in connections:
            self.broken += 1
            for s in pair:
                hang_up(s)

    def close(self):
        self.listener.close()
        self.cut()


@pytest.mark.parametrize("shared", [False, True])
def test_broken_connections(programs, tmp_path, shared):
    """Nothing is lost and nothing comes twice, however often the connection breaks."""
    seconds = float(os.environ.get("POLYSCAN_SCAN_SECONDS") or amount(8, 900))  # twice: with and without shared memory
    found, seed = [], int(os.environ.get("POLYSCAN_SEED") or random.randrange(1 << 32))
    print(f"POLYSCAN_SEED={seed}")
    rng = random.Random(seed)
    with Daemon("--shm-socket", str(tmp_path / "s")) as d:
        proxy = Proxy(d.port)
        with polyscan.connect(proxy.address) as c:
            scan = c.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP, strips=16, shared_memory=shared)
            receiver = threading.Thread(target=drain, args=(scan, found))
            receiver.start()
            end, n, at = time.monotonic() + seconds, 0, time.monotonic() + 0.3
            while time.monotonic() < end:
                scan.send(strip(n), timeout=30)
                n += 1
                if time.monotonic() > at:
                    proxy.cut()
                    at = time.monotonic() + rng.uniform(0.05, 1)
            while n % (PART // STRIP):
                scan.send(strip(n), timeout=30)
                n += 1
            scan.close_send()
            receiver.join(60)
            assert not receiver.is_alive()
            stats = scan.stats
            scan.close()
        proxy.close()
    print(f"{len(found)} parts, {stats.reconnects} reconnections, {stats.resent} strips again, "
          f"{stats.repeated} repeated")
    assert len(found) == n * STRIP // PART and not any(p.incomplete for p in found)
    assert stats.reconnects >= 3 and stats.handed == stats.acked == n


def test_server_gone(programs):
    """A server that doesn't come back ends the stream with the reason; a session that it forgot, too."""
    d = Daemon()
    with polyscan.connect(d.address) as c:
        scan = c.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP, outage=0.5)
        scan.send(strip(0))
        d.kill()
        with pytest.raises(polyscan.Unavailable):
            list(scan)
        with pytest.raises(polyscan.Error):
            scan.send(strip(1))
        scan.close()
        d.start()
        with c.scan(REGION, width=WIDTH, part_lines=PART, strip_lines=STRIP) as scan:
            scan.send(strip(0))
            d.kill()
            d.start()
            with pytest.raises(polyscan.NotFound):
                list(scan)
    d.kill()


def test_stalled():
    """A server that says nothing counts as broken."""
    with socket.create_server(("localhost", 0)) as silent:
        with pytest.raises(polyscan.Error):
            polyscan.connect(f"localhost:{silent.getsockname()[1]}", timeout=0.5)
