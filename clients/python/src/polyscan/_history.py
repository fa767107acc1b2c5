"""Questions about parts that were inspected: what the clients send to HistoryService."""

from __future__ import annotations

import datetime
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from google.protobuf import timestamp_pb2

from polyscan import _errors, _wire
from polyscan._connection import Call
from polyscan.v1 import history_pb2, monitor_pb2, region_pb2

SERVICE = "/polyscan.v1.HistoryService/"
_LISTS = ("names", "recipes", "verdicts", "marks")
_WHERE = ("since", "until", *_LISTS, "recipe_version", "region", "part_id", "stream")


class Evidence(NamedTuple):
    """The picture of a part: a file of PNG, SVG or JPEG, and what it is."""

    info: history_pb2.EvidenceInfo
    data: bytes


def part_filter(where: Mapping[str, Any]) -> history_pb2.PartFilter:
    """Which parts, in words: see Client.parts."""
    for name, value in where.items():
        if name not in _WHERE:
            raise TypeError(f"{name}: parts are chosen by {', '.join(_WHERE)}")
        if name in _LISTS and isinstance(value, str):
            raise TypeError(f"{name} {value!r}: want a list, such as [{value!r}]")
    out = history_pb2.PartFilter(
        names=where.get("names", ()),
        recipes=where.get("recipes", ()),
        recipe_version=where.get("recipe_version", 0),
        verdicts=[_verdict(v) for v in where.get("verdicts", ())],
        region=where.get("region", ""),
        part_id=where.get("part_id", ""),
        marks=[_wire.enum_value(history_pb2.PartMark, "PART_MARK_", m, "mark") for m in where.get("marks", ())],
    )
    for name, field in (("since", "from"), ("until", "to")):
        if where.get(name) is not None:
            getattr(out, field).CopyFrom(_time(name, where[name]))
    if where.get("stream") is not None:
        server, stream, *result = where["stream"]
        out.stream.CopyFrom(history_pb2.StreamRef(server_id=server, stream_id=stream))
        if result:
            out.stream.result_number = result[0]
    return out


def _verdict(verdict: Any) -> Any:
    if str(verdict).lower() in ("none", "0"):
        return region_pb2.VERDICT_UNSPECIFIED
    return _wire.enum_value(region_pb2.Verdict, "VERDICT_", verdict, "verdict")


def _time(name: str, at: Any) -> timestamp_pb2.Timestamp:
    if not isinstance(at, datetime.datetime):
        raise TypeError(f"{name} of type {type(at).__name__}: want a datetime")
    out = timestamp_pb2.Timestamp()
    out.FromDatetime(at.astimezone(datetime.timezone.utc))  # without a zone it is local time, as everywhere in Python
    return out


NEWEST = 100  # parts of which one has a region that is known


def words(asked: history_pb2.PartFilter, group: str) -> list[str]:
    """The names or recipes that are asked for."""
    if group == "name":
        return list(asked.names)
    version = f"@{asked.recipe_version}" if asked.recipe_version else ""
    return [recipe + version for recipe in asked.recipes]


def several(asked: history_pb2.PartFilter) -> bool:
    """Whether those of them that are known would hide that another is not."""
    return max(len(asked.names), len(asked.recipes)) > 1


def check_words(asked: history_pb2.PartFilter, group: str, counted: Sequence[history_pb2.PartCounts]) -> None:
    known = {g.name for g in counted} | {f"{g.name}@{g.recipe_version}" for g in counted if g.recipe_version}
    for word in words(asked, group):
        start = word.removesuffix("*")
        if word not in known and not (start != word and any(k.startswith(start) for k in known)):
            raise _errors.NotFound(f"{group} {word!r}: no part in the history has it{_there_is(known)}")


def check_region(region: str, parts: Sequence[history_pb2.HistoryPart]) -> None:
    known = {name for p in parts for r in p.results for name in (r.name, f"#{r.index}")}
    if parts and region not in known and not any(p.results_omitted for p in parts):
        there = _there_is({r.name for p in parts for r in p.results})
        raise _errors.NotFound(f"region {region!r}: none of the newest {len(parts)} parts has it{there}")


def _there_is(known: set[str]) -> str:
    names = sorted(known - {""})
    return f": there is {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else ""


def history() -> Call[history_pb2.GetHistoryResponse]:
    return Call(SERVICE + "GetHistory", history_pb2.GetHistoryRequest(), history_pb2.GetHistoryResponse, lambda m: m)


def parts_page(
    where: history_pb2.PartFilter, numbers: str | None, oldest_first: bool, token: str, size: int = 1000
) -> Call[history_pb2.ListPartsResponse]:
    request = history_pb2.ListPartsRequest(
        filter=where,
        page_size=size,
        page_token=token,
        numbers=_wire.enum_value(monitor_pb2.RegionNumbers, "REGION_NUMBERS_", numbers, "numbers"),
        oldest_first=oldest_first,
    )
    return Call(SERVICE + "ListParts", request, history_pb2.ListPartsResponse, lambda m: m)


def count(
    where: history_pb2.PartFilter, group: str | None, step: float | None
) -> Call[history_pb2.CountPartsResponse]:
    request = history_pb2.CountPartsRequest(
        filter=where,
        group=_wire.enum_value(history_pb2.CountGroup, "COUNT_GROUP_", group, "group"),
        step=_wire.duration(step),
    )
    return Call(SERVICE + "CountParts", request, history_pb2.CountPartsResponse, lambda m: m)


def pareto(where: history_pb2.PartFilter, limit: int) -> Call[history_pb2.GetParetoResponse]:
    request = history_pb2.GetParetoRequest(filter=where, limit=limit)
    return Call(SERVICE + "GetPareto", request, history_pb2.GetParetoResponse, lambda m: m)


def series(
    where: history_pb2.PartFilter,
    region: str,
    quantity: str,
    limit: int,
    chart: str | None,
    subgroup: int,
    spec: tuple[float | None, float | None],
) -> Call[history_pb2.GetSeriesResponse]:
    request = history_pb2.GetSeriesRequest(
        filter=where,
        region=region,
        quantity=quantity,
        limit=limit,
        chart=_wire.enum_value(history_pb2.ChartKind, "CHART_KIND_", chart, "chart"),
        subgroup=subgroup,
        lower_spec=spec[0],
        upper_spec=spec[1],
    )
    return Call(SERVICE + "GetSeries", request, history_pb2.GetSeriesResponse, lambda m: m)


def export(where: history_pb2.PartFilter, format: str, rows: str) -> history_pb2.ExportPartsRequest:
    return history_pb2.ExportPartsRequest(
        filter=where,
        format=_wire.enum_value(history_pb2.ExportFormat, "EXPORT_FORMAT_", format, "format"),
        rows=_wire.enum_value(history_pb2.ExportRows, "EXPORT_ROWS_", rows, "rows"),
    )


def evidence(part: int | history_pb2.HistoryPart, kind: str, max_pixels: int) -> history_pb2.GetEvidenceRequest:
    return history_pb2.GetEvidenceRequest(
        id=part if isinstance(part, int) else part.id,
        kind=_wire.enum_value(history_pb2.EvidenceKind, "EVIDENCE_KIND_", kind, "kind"),
        max_pixels=max_pixels,
    )


def picture(pieces: Iterable[history_pb2.GetEvidenceResponse]) -> Evidence:
    info = history_pb2.EvidenceInfo()
    data = []
    for piece in pieces:
        if piece.HasField("info"):
            info = piece.info
        data.append(piece.data)
    return Evidence(info, b"".join(data))


def audit_page(recipe: str, token: str) -> Call[history_pb2.ListAuditResponse]:
    request = history_pb2.ListAuditRequest(recipe=recipe, page_size=1000, page_token=token)
    return Call(SERVICE + "ListAudit", request, history_pb2.ListAuditResponse, lambda m: m)
