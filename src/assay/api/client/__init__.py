"""The client of a service: what `assay serve` offers, as typed calls."""

from assay.api.client.asynchronous import AsyncClient
from assay.api.client.client import Client
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
