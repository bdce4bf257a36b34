"""A run's artifacts into what a report shows of them: the failures in groups, and the records to list one by one."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from assay import api
from assay.core.run_result import RunResult

FIRST_IDS = 3
"""Record ids that a group of failures names."""
MAX_CASES = 50
"""Records listed one by one unless all are asked for."""

Json = dict[str, Any]


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Records that failed in the same way."""

    word: str
    """An error code, or the taxonomy label of answers that did not pass."""
    is_error: bool
    count: int
    record_ids: tuple[str, ...]


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report on one run needs."""

    result: RunResult
    manifest: Json
    failures: tuple[FailureGroup, ...] = ()
    cases: tuple[Json, ...] = ()
    """Predictions to list one by one."""
    omitted_cases: int = 0

    @property
    def plan(self) -> Json:
        """The plan as the manifest keeps it."""
        return self.manifest.get("plan") or {}

    @property
    def seconds(self) -> float | None:
        """From the first call to the end."""
        begin, end = (self.manifest.get(name) for name in ("started_at", "completed_at"))
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() if begin and end else None


def view_of(run: api.Run, *, is_verbose: bool = False) -> RunView:
    """The view of an opened run; golden datasets list their cases, other contracts theirs only when everything is asked for."""
    result = run.result
    if not result.is_finished:
        return RunView(result=result, manifest=run.manifest)
    is_listed = is_verbose or run.manifest.get("contract") == "golden_v1"
    cases = tuple(_first(run.predictions(), None if is_verbose else MAX_CASES)) if is_listed else ()
    evaluable = result.counts.valid_records
    return RunView(
        result=result,
        manifest=run.manifest,
        failures=grouped(run.failures()),
        cases=cases,
        omitted_cases=evaluable - len(cases) if is_listed else 0,
    )


def grouped(failures: Iterable[Json]) -> tuple[FailureGroup, ...]:
    """Failures by what went wrong: errors first, then answers that did not pass, the largest groups first."""
    counts: Counter[tuple[bool, str]] = Counter()
    firsts: dict[tuple[bool, str], list[str]] = {}
    for failure in failures:
        is_error = failure["kind"] == "error"
        group = (is_error, str(failure["code"] if is_error else failure["taxonomy_label"]))
        counts[group] += 1
        ids = firsts.setdefault(group, [])
        if len(ids) < FIRST_IDS:
            ids.append(_named(failure))
    ordered = sorted(counts.items(), key=lambda item: (not item[0][0], -item[1], item[0][1]))
    return tuple(
        FailureGroup(word=word, is_error=is_error, count=count, record_ids=tuple(firsts[is_error, word]))
        for (is_error, word), count in ordered
    )


def _named(failure: Json) -> str:
    """A record that broke its contract may have no id."""
    return f"record {failure['index']}" if failure["record_id"] is None else str(failure["record_id"])


def _first(items: Iterator[Json], limit: int | None) -> Iterator[Json]:
    for number, item in enumerate(items):
        if limit is not None and number >= limit:
            return
        yield item
