"""The client of a service: what `assay serve` offers, as typed calls."""

from assay.api.client.client import AsyncClient, Client
from assay.core.http_answers import (
    ArtifactFile,
    Health,
    RecordError,
    RecordSummary,
    RunEvent,
    RunStatus,
    SubmissionResponse,
    ValidationResponse,
)

__all__ = [
    "ArtifactFile",
    "AsyncClient",
    "Client",
    "Health",
    "RecordError",
    "RecordSummary",
    "RunEvent",
    "RunStatus",
    "SubmissionResponse",
    "ValidationResponse",
]
