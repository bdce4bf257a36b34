"""Traces to MLflow in batches: only those that it does not have as they are, and nothing twice."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from assay.surfaces.mlflow.traces import LABEL_NOTE, Trace
from assay.surfaces.mlflow.tracking import TrackedRun, Tracking
from assay.surfaces.mlflow.wire import DIGEST_TAG, SPANS_TAG, Wire, digest_of

BATCH = 100
"""Traces whose spans go in one request."""
BATCH_BYTES = 4_000_000
WORKERS = 4
"""Requests in flight; each brings one trace with its marks, which MLflow takes one at a time."""
PAGE = 500


class Known(msgspec.Struct, frozen=True):
    """A trace that MLflow has."""

    digest: str
    labels: frozenset[str]
    """Marks that came from labels: what people have taken back since is removed."""


class Sender:
    """The traces of one run in MLflow."""

    def __init__(self, tracking: Tracking, run: TrackedRun) -> None:
        self._tracking = tracking
        self._run = run
        self._wire = Wire()
        self._known = dict(self._read_known())

    @property
    def total(self) -> int:
        """Traces that MLflow has of the run."""
        return len(self._known)

    def _read_known(self) -> Iterator[tuple[str, Known]]:
        token: str | None = None
        while True:
            page = self._tracking.client.search_traces(
                locations=[self._run.experiment_id],
                run_id=self._run.run_id,
                include_spans=False,
                max_results=PAGE,
                page_token=token,
            )
            yield from ((trace.info.trace_id, _known(trace.info)) for trace in page)
            token = page.token
            if not token:
                return

    def send(self, traces: Iterable[Trace], *, sent: Callable[[int], None]) -> int:
        """Send what is new or has changed, and tell how far it is; returns how many traces were sent."""
        count = seen = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for batch in _batches(traces):
                changed = [trace for trace in batch if self._is_changed(trace)]
                if changed:
                    # The batch is whole only once its spans are there; a push that ends before sends it again.
                    list(pool.map(self._send_one, changed))
                    spans = [span for trace in changed for span in self._wire.spans(trace)]
                    self._tracking.store.log_spans(self._run.experiment_id, spans)
                    self._known |= {trace.trace_id: Known(digest_of(trace), frozenset()) for trace in changed}
                count, seen = count + len(changed), seen + len(batch)
                sent(seen)
        return count

    def _is_changed(self, trace: Trace) -> bool:
        known = self._known.get(trace.trace_id)
        return known is None or known.digest != digest_of(trace)

    def _send_one(self, trace: Trace) -> None:
        self._tracking.store.start_trace(self._wire.trace(trace, self._run.experiment_id))
        known = self._known.get(trace.trace_id)
        if known is not None:
            for mark_id in sorted(known.labels - {mark.mark_id for mark in trace.marks}):
                self._tracking.store.delete_assessment(trace.trace_id, mark_id)


def _known(found: Any) -> Known:
    labels = frozenset(mark.assessment_id for mark in found.assessments if LABEL_NOTE in (mark.metadata or {}))
    return Known(found.tags.get(DIGEST_TAG, "") if SPANS_TAG in found.tags else "", labels)


def _batches(traces: Iterable[Trace]) -> Iterator[list[Trace]]:
    """As many as go in one request, by number and by size."""
    batch: list[Trace] = []
    size = 0
    for trace in traces:
        batch.append(trace)
        size += len(msgspec.json.encode(trace))
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
