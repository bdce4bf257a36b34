"""Metrics recomputed from the artifacts alone, to be compared with those that were published."""

from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.plan import Plan
from assay.engine.sealing.evidence import PredictionLine, cluster_of, facts_of, invalid_facts, slices_of
from assay.engine.sealing.panels import read_panel
from assay.engine.sealing.rankings import add_comparison, ranking_of
from assay.metrics.facts import Columns
from assay.metrics.gates import check_gates
from assay.metrics.profiles import profile_of
from assay.metrics.summary import summarize, summarize_slices
from assay.store.folder import RunFolder

Line = dict[str, Any]
Read = Callable[[Line, Case], PredictionLine]


def recompute(run: RunFolder) -> dict[str, Line]:
    """The metrics documents by file name, from the predictions, the input and the validation results."""
    plan = msgspec.convert(run.manifest["plan"], Plan)
    ranking = ranking_of(plan.comparison, seed=plan.seed)

    def ranked(line: Line, case: Case) -> PredictionLine:
        prediction = prediction_of(line)
        if ranking is not None:
            add_comparison(ranking, prediction, case, cluster=cluster_of(case, plan.cluster_key))
        return prediction

    columns = columns_of(run, plan, read=ranked)
    return metrics_of(columns, plan, blocks={**read_panel(run, plan), **({} if ranking is None else ranking.block())})


def metrics_of(columns: Columns, plan: Plan, *, blocks: Line) -> dict[str, Line]:
    """The metrics documents by file name, from the facts of all records and the figures of a panel or a ranking."""
    profile = profile_of(plan.profile, is_compat=plan.compat)
    summary = summarize(columns, seed=plan.seed, profile=profile, repeat=plan.repeat)
    gate = msgspec.to_builtins(check_gates(plan.gates, summary))
    return {
        "metrics_summary.json": {**summary, **blocks, "gate": gate},
        "metrics_by_slice.json": summarize_slices(columns, seed=plan.seed, profile=profile),
    }


def prediction_of(line: Line) -> PredictionLine:
    """A line of predictions.jsonl; those of earlier versions name no policy."""
    return msgspec.convert({"policy_id": None, **line}, PredictionLine)


def columns_of(run: RunFolder, plan: Plan, *, read: Read) -> Columns:
    """The facts of all records in their order; `read` is called with every prediction and its case."""
    cases = (msgspec.convert(entry["record"], Case) for entry in run.records())
    predictions = run.lines("predictions.jsonl")
    columns = Columns()
    for line in run.lines("record_validation.jsonl"):
        if line["result"] == "rejected":
            columns.append(invalid_facts(line["index"]))
            continue
        case = next(cases)
        prediction = read(next(predictions), case)
        columns.append(facts_of(prediction, slices_of(case, plan.slices), cluster_of(case, plan.cluster_key)))
    return columns


def differences(run: RunFolder) -> list[str]:
    """One line for each figure that is not what its records give; empty when everything is."""
    found = _Differences(_later(run.document("metrics_summary.json")))
    for name, computed in recompute(run).items():
        found.compare(run.document(name), msgspec.json.decode(msgspec.json.encode(computed)), name)
    return found.lines


def _later(summary: Line) -> frozenset[str]:
    """Members that runs of earlier versions do not have, or that leave some records out there."""
    has_bounds = "headline_bounds" in (summary["profile"] or {"headline_bounds": None})
    return frozenset(() if "judge" in summary["tokens"] else ("judge", "labels")) | frozenset(
        () if has_bounds else ("headline_bounds",)
    )


class _Differences:
    """What two documents do not have in common."""

    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored
        self.lines: list[str] = []

    def compare(self, stored: Any, computed: Any, path: str) -> None:
        """Note every value that is not the same."""
        if isinstance(stored, dict) and isinstance(computed, dict):
            for name in sorted({*stored, *computed} - self._ignored):
                self.compare(stored.get(name), computed.get(name), f"{path}: {name}" if path.endswith("json") else f"{path}.{name}")
        elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
            for index, (one, other) in enumerate(zip(stored, computed, strict=True)):
                self.compare(one, other, f"{path}[{index}]")
        elif stored != computed:
            self.lines.append(f"{path} is {stored!r}, but the records give {computed!r}")
