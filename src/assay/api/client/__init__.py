"""The client of a service: what `assay serve` offers, as typed calls."""

from assay.api.client.client import AsyncClient, Client
from assay.core.http_answers import (
    Artifact,
    Health,
    RecordError,
    RecordSummary,
    RunEvent,
    RunStatus,
    Submission,
    Validation,
)

__all__ = [
    "Artifact",
    "AsyncClient",
    "Client",
    "Health",
    "RecordError",
    "RecordSummary",
    "RunEvent",
    "RunStatus",
    "Submission",
    "Validation",
]
