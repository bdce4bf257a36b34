"""Traces to MLflow in batches: only those that it does not have as they are, and nothing twice."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from assay.integrations.mlflow.traces import IN_FILE, LABEL_NOTE, Trace
from assay.integrations.mlflow.tracking import TrackedRun, TrackingConnection
from assay.integrations.mlflow.wire import DIGEST_TAG, SPANS_TAG, EntityMapper, digest_of

BATCH = 100
"""Traces whose spans go in one request."""
BATCH_BYTES = 4_000_000
WORKERS = 4
"""Requests in flight; each brings one trace with its marks, which MLflow takes one at a time."""
PAGE = 500


class StoredTrace(msgspec.Struct, frozen=True):
    """A trace that MLflow has."""

    digest: str
    labels: Mapping[str, str]
    """Marks that came from labels, and whose file each came from; empty for one that was given on the pages."""


class TraceSender:
    """The traces of one run in MLflow."""

    def __init__(self, tracking: TrackingConnection, run: TrackedRun) -> None:
        self._tracking = tracking
        self._run = run
        self._wire = EntityMapper()
        self._known = dict(self._read_known())
        self._raters: Collection[str] = ()

    @property
    def total(self) -> int:
        """Traces that MLflow has of the run."""
        return len(self._known)

    def _read_known(self) -> Iterator[tuple[str, StoredTrace]]:
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

    def send(self, traces: Iterable[Trace], *, sent: Callable[[int], None], raters: Collection[str] = ()) -> int:
        """Send what is new or has changed, and tell how far it is; returns how many traces were sent.

        Labels that people have taken back on the pages are removed; those of a file only where these raters have a newer one.
        """
        self._raters = raters
        count = seen = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for batch in _batches(traces):
                changed = [trace for trace in batch if self._is_changed(trace)]
                if changed:
                    # The batch is whole only once its spans are there; a push that ends before sends it again.
                    list(pool.map(self._send_one, changed))
                    spans = [span for trace in changed for span in self._wire.spans(trace)]
                    self._tracking.store.log_spans(self._run.experiment_id, spans)
                    self._known |= {trace.trace_id: StoredTrace(digest_of(trace), {}) for trace in changed}
                count, seen = count + len(changed), seen + len(batch)
                sent(seen)
        return count

    def _is_changed(self, trace: Trace) -> bool:
        known = self._known.get(trace.trace_id)
        return known is None or known.digest != digest_of(trace) or bool(self._gone(trace))

    def _gone(self, trace: Trace) -> list[str]:
        """Labels that MLflow has of a trace, and nobody says any more."""
        known, kept = self._known.get(trace.trace_id), {mark.mark_id for mark in trace.marks}
        labels = known.labels if known is not None else {}
        return sorted(mark for mark, rater in labels.items() if mark not in kept and (not rater or rater in self._raters))

    def _send_one(self, trace: Trace) -> None:
        self._tracking.store.start_trace(self._wire.trace(trace, self._run.experiment_id))
        for mark_id in self._gone(trace):
            self._tracking.store.delete_assessment(trace.trace_id, mark_id)


def _known(found: Any) -> StoredTrace:
    labels = {
        mark.assessment_id: mark.source.source_id if mark.metadata[LABEL_NOTE] == IN_FILE else ""
        for mark in found.assessments
        if LABEL_NOTE in (mark.metadata or {})
    }
    return StoredTrace(found.tags.get(DIGEST_TAG, "") if SPANS_TAG in found.tags else "", labels)


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
