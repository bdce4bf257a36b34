"""The client of a service: what `assay serve` offers, as typed calls."""

from assay.api.client.answers import (
    Artifact,
    Health,
    RecordError,
    RecordSummary,
    RunEvent,
    RunStatus,
    Submission,
    Validation,
)
from assay.api.client.asynchronous import AsyncClient
from assay.api.client.client import Client

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
