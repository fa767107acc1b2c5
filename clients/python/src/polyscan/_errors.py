"""What went wrong: a gRPC status and its details as an exception."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import grpc

from polyscan.rpc import error_details_pb2, status_pb2

CODES = {c.value[0]: c.name for c in grpc.StatusCode}
"""Names of codes by their numbers, such as 3: "INVALID_ARGUMENT"."""

_DETAILS = "grpc-status-details-bin"


class InputWarning(UserWarning):
    """What was given works, and is probably not what was meant: a file of regions with a key that looks misspelt, a
    recipe without limits, a region without limits beside others that have some, a picture without anything to fill."""


class FieldViolation(NamedTuple):
    """A field of a request that was refused, such as "inspection.region_set.regions[3].rings[0].xy[5]"."""

    field: str
    description: str


class QuotaViolation(NamedTuple):
    """A quota that had no room, and how much was asked for."""

    subject: str
    description: str


class Error(Exception):
    """An error that the server, or the way to it, made. Its text is one line.

    code is the name of the canonical code ("INVALID_ARGUMENT"), message the server's words, fields what was refused,
    in the server's order, quotas what had no room, retry_after the seconds to wait where the server says that waiting
    helps, and else None, reason and metadata those of google.rpc.ErrorInfo. Each code has a class of its own, which is
    also the exception of Python's that fits: NotFound is a LookupError, DeadlineExceeded a TimeoutError.
    """

    code: str = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        fields: tuple[FieldViolation, ...] = (),
        quotas: tuple[QuotaViolation, ...] = (),
        retry_after: float | None = None,
        reason: str = "",
        metadata: dict[str, str] | None = None,
    ) -> None:
        if code:
            self.code = code
        self.message = message
        self.fields = fields
        self.quotas = quotas
        self.retry_after = retry_after
        self.reason = reason
        self.metadata = metadata or {}
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [] if _covers(self.message, self.fields) else [self.message] if self.message else []
        for f in self.fields[:_LISTED]:
            parts.append(f"{f.field}: {f.description}")
        if len(self.fields) > _LISTED:
            parts.append(f"and {len(self.fields) - _LISTED} more")
        parts += [f"{q.subject}: {q.description}" for q in self.quotas if q.description not in self.message]
        text = f"{self.code}: {' '.join('; '.join(parts).split()) or 'no reason given'}"
        if self.retry_after:
            text += f" (retry in {self.retry_after:.3g} s)"
        return text


_LISTED = 4  # fields in the text; all are in fields


def _covers(message: str, fields: tuple[FieldViolation, ...]) -> bool:
    """Whether the fields say all that the message says."""
    return bool(fields) and all(f.description in message or f.field in message for f in fields)


class Cancelled(Error):
    code = "CANCELLED"


class InvalidArgument(Error, ValueError):
    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    code = "DEADLINE_EXCEEDED"


class NotFound(Error, LookupError):
    code = "NOT_FOUND"


class AlreadyExists(Error):
    code = "ALREADY_EXISTS"


class PermissionDenied(Error, PermissionError):
    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    code = "FAILED_PRECONDITION"


class Aborted(Error):
    code = "ABORTED"


class OutOfRange(Error):
    code = "OUT_OF_RANGE"


class Unimplemented(Error, NotImplementedError):
    code = "UNIMPLEMENTED"


class Internal(Error):
    code = "INTERNAL"


class Unavailable(Error, ConnectionError):
    code = "UNAVAILABLE"


class DataLoss(Error):
    code = "DATA_LOSS"


class Unauthenticated(Error, PermissionError):
    code = "UNAUTHENTICATED"


_CLASSES: dict[str, type[Error]] = {c.code: c for c in Error.__subclasses__()}


def from_status(status: status_pb2.Status) -> Error:
    """The exception for a google.rpc.Status, such as one inside of an answer."""
    return _make(CODES.get(status.code, f"CODE_{status.code}"), status.message, status)


def from_rpc(error: grpc.RpcError) -> Error:
    """The exception for an error of gRPC's, sync or aio."""
    e: Any = error
    details = status_pb2.Status()
    for key, value in e.trailing_metadata() or ():
        if key == _DETAILS:
            details.ParseFromString(value)
    return _make(e.code().name, e.details() or "", details)


# What gRPC says of a request, before anything of the server has seen it.
_TOO_LARGE = re.compile(r"^grpc: received message larger than max \((\d+) vs\. (\d+)\)$")


def _make(code: str, message: str, status: status_pb2.Status) -> Error:
    fields: list[FieldViolation] = []
    quotas: list[QuotaViolation] = []
    retry: float | None = None
    reason, metadata = "", {}
    message = _TOO_LARGE.sub(r"a message of \1 bytes: the server takes \2 at most, its max-message", message)
    for any_ in status.details:
        kind = any_.type_url.rpartition("/")[2]
        if kind == "google.rpc.BadRequest":
            bad = error_details_pb2.BadRequest.FromString(any_.value)
            fields += [FieldViolation(v.field, v.description) for v in bad.field_violations]
        elif kind == "google.rpc.QuotaFailure":
            quota = error_details_pb2.QuotaFailure.FromString(any_.value)
            quotas += [QuotaViolation(v.subject, v.description) for v in quota.violations]
        elif kind == "google.rpc.RetryInfo":
            delay = error_details_pb2.RetryInfo.FromString(any_.value).retry_delay
            retry = delay.seconds + delay.nanos / 1e9
        elif kind == "google.rpc.ErrorInfo":
            info = error_details_pb2.ErrorInfo.FromString(any_.value)
            reason, metadata = info.reason, dict(info.metadata)
    return _CLASSES.get(code, Error)(
        message,
        code=code,
        fields=tuple(fields),
        quotas=tuple(quotas),
        retry_after=retry,
        reason=reason,
        metadata=metadata,
    )
