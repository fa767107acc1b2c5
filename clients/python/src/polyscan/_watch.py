"""Watching a server: what it does, for those who send it no frames."""

from __future__ import annotations

import random
import time
from typing import Any, Iterable

from polyscan import _errors, _wire
from polyscan.v1 import monitor_pb2

METHOD = "/polyscan.v1.MonitorService/Watch"
SILENCE = 3.0
"""Heartbeats that may be missing before the connection counts as broken."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


def request(
    names: Iterable[str],
    recipes: Iterable[str],
    kinds: Iterable[str],
    numbers: str | None,
    verdict_rate: float,
    heartbeat: float,
    preview: monitor_pb2.PreviewOptions | bool,
) -> monitor_pb2.WatchRequest:
    out = monitor_pb2.WatchRequest(
        names=names, recipes=recipes, verdict_rate=verdict_rate, heartbeat=_wire.duration(heartbeat),
        kinds=[_wire.enum_value(monitor_pb2.WatchKind, "WATCH_KIND_", k, "kind") for k in kinds],
        numbers=_wire.enum_value(monitor_pb2.RegionNumbers, "REGION_NUMBERS_", numbers, "numbers"),
    )  # fmt: skip
    if preview is True:
        out.preview.SetInParent()
    elif preview:
        out.preview.CopyFrom(preview)
    return out


class State:
    """Where a watcher is: what it asks for after a connection broke, and how long it goes on asking."""

    def __init__(self, first: monitor_pb2.WatchRequest, outage: float) -> None:
        self._first, self._outage = first, outage
        self._server, self._sequence = "", 0
        self._heard = time.monotonic()
        self._pause = _FIRST_PAUSE

    def request(self) -> monitor_pb2.WatchRequest:
        out = monitor_pb2.WatchRequest()
        out.CopyFrom(self._first)
        if self._server:
            out.resume.server_id, out.resume.sequence = self._server, self._sequence
        return out

    def take(self, m: monitor_pb2.WatchResponse) -> bool:
        """Note what came. False for a heartbeat, which says nothing."""
        self._heard, self._pause = time.monotonic(), _FIRST_PAUSE
        kind = m.WhichOneof("event")
        if kind == "started":
            self._server = m.started.server_id
        self._sequence = max(m.sequence, self._sequence) if kind != "started" else m.sequence
        return kind != "heartbeat"

    def broken(self, error: Any) -> float:
        """How long to wait before the next attempt; the error where there is none to be."""
        passing = ("UNAVAILABLE", "INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED")
        again = error.code in passing or error.retry_after is not None
        if not again or time.monotonic() - self._heard > self._outage:
            raise error
        wait = max(self._pause * (0.5 + random.random()), error.retry_after or 0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return wait


def silent(heartbeat: float) -> _errors.Error:
    return _errors.DeadlineExceeded(f"the server has said nothing for {SILENCE:g} heartbeats of {heartbeat:g} s")
