"""Overlays: a frame with the outlines of its regions. The only module that needs Pillow."""

from __future__ import annotations

import base64
import io
from typing import Any

import PIL.Image
import PIL.ImageDraw

from polyscan._frames import pixels_for_overlay
from polyscan._regions import Regions

_COLORS = {0: (0, 160, 255), 1: (0, 200, 0), 2: (230, 0, 0)}  # by verdict
_SIDE = 1200  # of an overlay whose scale nobody chose
_LINE = 2


def draw(
    original: Any, size: tuple[int, int], regions: Regions, verdicts: dict[int, int], scale: float | None,
    bgr: bool,
) -> PIL.Image.Image:
    if scale is None:
        scale = min(1.0, _SIDE / max(size))
    to = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    frame = pixels_for_overlay(original, bgr) if original is not None else None
    image: PIL.Image.Image
    image = frame.convert("RGB").resize(to) if frame is not None else PIL.Image.new("RGB", to, "white")
    pen = PIL.ImageDraw.Draw(image)
    failed_last = sorted(range(len(regions.message.regions)), key=lambda i: verdicts.get(i, 0))
    for i in failed_last:
        for ring in regions.message.regions[i].rings:
            xy = [v * scale for v in ring.xy]
            pen.line(xy + xy[:2], fill=_COLORS[verdicts.get(i, 0)], width=_LINE)
        _draw_mask(image, regions.message.regions[i].mask.runs, scale, _COLORS[verdicts.get(i, 0)])
    return image


def _draw_mask(image: PIL.Image.Image, runs: Any, scale: float, color: tuple[int, int, int]) -> None:
    """Tints the pixels of runs y, x0, x1, ..."""
    if not runs:
        return
    mask = PIL.Image.new("L", image.size)
    pen = PIL.ImageDraw.Draw(mask)
    for y, x0, x1 in zip(runs[0::3], runs[1::3], runs[2::3]):
        pen.rectangle((x0 * scale, y * scale, max(x1 * scale - 1, x0 * scale), max((y + 1) * scale - 1, y * scale)), fill=110)
    image.paste(PIL.Image.new("RGB", image.size, color), mask=mask)


def data_url(image: PIL.Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
