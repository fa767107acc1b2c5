"""polyscan: frames and polygons in, exact numbers and verdicts out.

    import polyscan

    with polyscan.connect("localhost:7465") as client:
        result = client.reduce("board.png", {"U1": [(398, 270), (546, 270), (546, 418), (398, 418)]})
        print(result.mean, result["U1"].count)

connect() without an address starts a server of its own. polyscan.aio has the same for asyncio. polyscan.v1 are the
messages of the protocol. Pixel (i, j) covers [i, i+1) x [j, j+1) and is inside a polygon where its centre is; x grows
to the right, y down. Counts, sums, minima, maxima and histograms are exact integers, the same on every machine.
"""

from __future__ import annotations

from polyscan._base import VersionWarning
from polyscan._calls import Background, Curve, Extracted, Filled, LowPoly, Mask, Mesh, Solution, Triangulation
from polyscan._client import Client
from polyscan._connection import TLS
from polyscan._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    FieldViolation,
    InputWarning,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    QuotaViolation,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from polyscan._frames import Frame, FrameLike, Resident
from polyscan._history import Evidence
from polyscan._memory import LeaseEnded
from polyscan._regions import Region, RegionFileError, Regions, RegionsLike, Texture
from polyscan._results import LimitResult, Part, RegionTable, Result, Verdict
from polyscan._scan import Event, Reconnected, Scan, Session, Stalled
from polyscan._server import ProgramNotFound
from polyscan._streams import Answer, Canvas
from polyscan._version import __version__

connect = Client

__all__ = [
    "Aborted", "AlreadyExists", "Answer", "Background", "Cancelled", "Canvas", "Client", "Curve", "DataLoss",
    "DeadlineExceeded", "Error", "Event", "Evidence", "Extracted", "FailedPrecondition", "FieldViolation", "Filled", "Frame",
    "FrameLike",
    "InputWarning", "Internal", "InvalidArgument", "LeaseEnded", "LimitResult", "LowPoly", "Mask", "Mesh", "NotFound", "OutOfRange",
    "Part", "PermissionDenied", "ProgramNotFound", "QuotaViolation", "Reconnected", "Region", "RegionFileError",
    "RegionTable", "Regions", "RegionsLike",
    "Resident", "ResourceExhausted", "Result", "Scan", "Session", "Solution", "Stalled", "TLS", "Texture",
    "Triangulation", "Unauthenticated", "Unavailable", "Unimplemented", "Verdict", "VersionWarning", "__version__",
    "connect",
]  # fmt: skip
