"""Files of regions. polyscan's own format, which is exact, is read here; all others by "polyscan regions", the program
that knows them, so that a file means the same everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import warnings
from typing import Any

from polyscan import _errors, _regions, _server
from polyscan.v1 import region_pb2

_KEYS = {"name", "rings", "mask", "shape", "fill", "limits"}
_FILE_KEYS = {
    "name", "description", "regions", "reductions", "frames", "flat_field", "scale", "drawn_on", "format", "version",
    "created_at",
}  # fmt: skip
_NOTES = {"name", "description", "format", "version", "created_at"}


def read(
    source: Any, image: str, image_hint: str, tolerance: float, ignore_viewbox: bool, timeout: float | None
) -> _regions.Regions:
    name = "regions"
    data = source
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        with open(source, "rb") as f:
            data = f.read()
    data = bytes(data)
    found = _own(data, name)
    if found is not None:
        return found
    try:
        program = _server.find("polyscan", None)
    except _server.ProgramNotFound as e:
        raise _regions.RegionFileError(
            f"{name}: files of other formats than polyscan's own are read by the program polyscan: {e}; or convert it "
            "where "
            f'that is: polyscan regions FILE -o regions.json'
        ) from None
    command = [program, "regions", "-", *(["--ignore-viewbox"] if ignore_viewbox else [])]
    for flag, value in (("--image", image), ("--frame", image_hint), ("--tolerance", str(tolerance or ""))):
        command += [flag, value] if value else []
    done = subprocess.run(command, input=data, capture_output=True, timeout=timeout)
    words = done.stderr.decode(errors="replace").replace("standard input", name).strip().splitlines()
    if done.returncode:
        raise _regions.RegionFileError(" / ".join(w.removeprefix("polyscan: ") for w in words))
    made = json.loads(done.stdout)
    prefix = f"polyscan: warning: {name}: "
    said = [w.removeprefix(prefix) for w in words]
    for w in said:
        warnings.warn(f"{name}: {w}", _errors.InputWarning, stacklevel=2)
    return _regions.Regions(_message(made), warnings=said, file=made, source=name)


def _own(data: bytes, name: str) -> _regions.Regions | None:
    """Regions in polyscan's own format, as polyscan regions writes it; None for whatever is not exactly that."""
    try:
        found = json.loads(data, object_pairs_hook=_once)
    except ValueError:
        return None
    file = found if isinstance(found, dict) else {"regions": found}
    regions = file.get("regions")
    if set(file) - _FILE_KEYS or not isinstance(regions, list) or not regions or not all(map(_is_region, regions)):
        return None
    reductions, frames = file.get("reductions", []), file.get("frames", {})
    if not _is_scale(file.get("scale")) or not _are_texts(reductions) or not isinstance(frames, dict):
        return None
    flat = file.get("flat_field", "")
    if not isinstance(flat, str) or not re.fullmatch("(sha256:[0-9a-f]{64})?", flat):
        return None
    notes = [v for key, v in file.items() if key in _NOTES]
    if not _is_drawn_on(file.get("drawn_on", {"name": ""})):
        return None
    if not _are_texts([*frames.values()]) or not all(isinstance(v, (str, int)) for v in notes):
        return None
    if any(sign in str(v) for v in notes for sign in "<>=[(≤≥"):  # it may be a limit, which is an error there
        return None
    if len({r["name"] for r in regions}) < len(regions):
        return None
    return _regions.Regions(_message(file), file=file, source=name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of equal ones, dict would drop all but the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made


def _is_region(r: Any) -> bool:
    return (
        isinstance(r, dict)
        and not set(r) - _KEYS
        and isinstance(r.get("name"), str)
        and r["name"] != ""
        and len({"rings", "mask", "shape"} & set(r)) == 1
        and isinstance(r.get("shape", "-"), str)
        and r.get("shape", "-") != ""
        and isinstance(r.get("rings", r.get("mask", [0])), list)
        and len(r.get("rings", r.get("mask", [0]))) > 0
        and all(isinstance(ring, list) and len(ring) > 2 and all(map(_is_point, ring)) for ring in r.get("rings", []))
        and all(isinstance(u, list) and len(u) == 3 and all(type(v) is int for v in u) for u in r.get("mask", []))
        and r.get("fill", "nonzero") in ("nonzero", "evenodd")
        and _are_texts(r.get("limits", []))
    )


def _are_texts(v: Any) -> bool:
    return isinstance(v, list) and all(isinstance(text, str) for text in v)


def _is_point(p: Any) -> bool:
    return isinstance(p, list) and len(p) == 2 and all(type(v) in (int, float) for v in p)


def _is_scale(s: Any) -> bool:
    """Whether it is a scale as polyscan regions writes it, or none."""
    return s is None or (
        isinstance(s, dict) and set(s) == {"mm_per_pixel", "origin"} and _is_point(s["mm_per_pixel"])
        and _is_point(s["origin"])
    )  # fmt: skip


def _is_drawn_on(f: Any) -> bool:
    """Whether it is the frame that regions were drawn on as polyscan regions writes it."""
    size = {"width", "height"}
    return (
        isinstance(f, dict) and set(f) in ({"name"}, size, {"name"} | size) and isinstance(f.get("name", ""), str)
        and all(type(f[key]) is int and f[key] > 0 for key in size & set(f))
    )  # fmt: skip


def _message(file: dict[str, Any]) -> region_pb2.RegionSet:
    m = region_pb2.RegionSet(regions=[_region(r) for r in file["regions"]])
    if file.get("scale"):
        s = file["scale"]
        m.scale.CopyFrom(_regions.scale(*s["mm_per_pixel"], origin=s["origin"]))
    if "width" in file.get("drawn_on", {}):
        m.drawn_on.width, m.drawn_on.height = file["drawn_on"]["width"], file["drawn_on"]["height"]
    if file.get("locate"):
        m.locate.CopyFrom(_locate(file["locate"]))
    return m


_CHANNELS = {"": "UNSPECIFIED", "gray": "GRAY", "r": "RED", "g": "GREEN", "b": "BLUE"}


def _locate(of: dict[str, Any]) -> region_pb2.Locate:
    """How the part is found, as polyscan regions writes it."""
    m = region_pb2.Locate(
        model=f"LOCATE_MODEL_{of.get('model', 'unspecified').upper()}",
        max_residual=of.get("max_residual", 0),
        max_distortion_percent=of.get("max_distortion_percent", 0),
    )
    for f in of["fiducials"]:
        made = m.fiducials.add(
            kind=f"FIDUCIAL_KIND_{f.get('kind', 'unspecified').upper()}",
            channel=f"CHANNEL_{_CHANNELS[f.get('channel', '')]}",
            **{key: f[key] for key in ("dark", "threshold", "min_area", "max_area") if key in f},
        )
        made.at.x, made.at.y = f["at"]
        made.window.name, made.window.shape = f.get("name", ""), f.get("window", "")
        for ring in f.get("rings", ()):
            made.window.rings.add(xy=[v for place in ring for v in place])
    return m


def _region(r: dict[str, Any]) -> region_pb2.Region:
    said = {"limits": r.get("limits", ()), "reference": _reference(r.get("reference"))}
    if "shape" in r:
        return _regions.Region.shape(r["name"], r["shape"], **said).message
    if "mask" in r:
        return _regions.Region._of_runs(r["name"], r["mask"], **said).message
    return _regions.Region(r["name"], *r["rings"], fill=r.get("fill") or "nonzero", **said).message


def _reference(r: Any) -> Any:
    return (r.get("region") or r.get("counts")) if r else None
