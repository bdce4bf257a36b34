"""Metrics recomputed from the artifacts alone, to be compared with those that were published."""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from assay.core.artifact_lines import PredictionLine, ValidationLine
from assay.core.case import Case
from assay.core.manifest import Manifest
from assay.core.plan import Plan
from assay.core.summary import BY_SLICE, METRICS, GateResult, SlicesSummary, Summary
from assay.engine.finalization.artifact_lines import facts_of, invalid_facts
from assay.engine.records.groups import RecordGroups
from assay.engine.records.run_metrics import add_comparison, ranking_of, read_panel
from assay.metrics.facts import RecordColumns
from assay.metrics.gates import cancelled_reason, check_gates
from assay.metrics.panel import PanelMetrics
from assay.metrics.profiles import profile_of
from assay.metrics.ranking import PairwiseFigures
from assay.metrics.summary import summarize, summarize_slices
from assay.store.published_run import PublishedRun, decoded_as

_decode_prediction = msgspec.json.Decoder(PredictionLine).decode
Read = Callable[[bytes, PredictionLine, Case], None]
"""Called with every prediction, as its line and as a struct, and with its case."""

_TALLIES = frozenset({"errors", "flags", "left_out", "unscored"})
"""Members that count records by words of theirs: one that is not there is a count of 0, not a figure that was added later.

`labels` is none of them, because the first versions gave no label to a record that broke its contract.
"""


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a run and of its slices, and what its gates say of them."""

    summary: Summary
    gate: GateResult
    slices: SlicesSummary

    def documents(self) -> dict[str, Summary | SlicesSummary]:
        """Return the documents by file name."""
        return {METRICS: self.summary, BY_SLICE: self.slices}


def recompute(run: PublishedRun) -> RunMetrics:
    """Compute the metrics of a run and of its slices, from the predictions, the input and the validation results."""
    plan = run.manifest.settings
    ranking = ranking_of(plan.comparison, seed=plan.seed)
    # Slices of the first versions were built differently; their runs are recomputed as they were written.
    groups = RecordGroups(plan.datasets, is_former="slices_version" not in run.document(BY_SLICE))

    def rank(_: bytes, prediction: PredictionLine, case: Case) -> None:
        if ranking is not None:
            add_comparison(ranking, prediction, case, cluster=groups.cluster(case, plan.cluster_key))

    columns = columns_of(run, plan, read=rank, groups=groups)
    return metrics_of(
        columns,
        plan,
        panel=read_panel(run, plan),
        ranking=ranking,
        # Decided by the manifest, since the state alone does not say whether the gate took it into account.
        is_cancelled=_is_said_to_be_cancelled(run.manifest),
    )


def _is_said_to_be_cancelled(manifest: Manifest) -> bool:
    """Return whether the gate of a cancelled run names the cancellation."""
    # The first versions decided by the part that was evaluated.
    counts = manifest.counts
    return cancelled_reason(counts.evaluated_records, counts.total_records) in manifest.gate.reasons


def metrics_of(
    columns: RecordColumns,
    plan: Plan,
    *,
    panel: PanelMetrics | None = None,
    ranking: PairwiseFigures | None = None,
    is_cancelled: bool,
) -> RunMetrics:
    """Compute the metrics of a run from the facts of all its records and the figures of a panel or a ranking."""
    profile = profile_of(plan.profile, is_compat=plan.compat)
    summary = summarize(columns, seed=plan.seed, profile=profile, repeat=plan.repeat)
    if panel is not None:
        judges = panel.judges()
        summary = replace(summary, panel=panel.panel(judges), judges=judges)
    if ranking is not None:
        summary = replace(summary, ranking=ranking.summary())
    gate = check_gates(plan.gates, summary, is_cancelled=is_cancelled)
    return RunMetrics(
        # Added last: the gate is part of the summary, and is decided on the rest of it.
        summary=replace(summary, gate=gate),
        gate=gate,
        slices=summarize_slices(columns, seed=plan.seed, profile=profile),
    )


def columns_of(run: PublishedRun, plan: Plan, *, read: Read, groups: RecordGroups | None = None) -> RecordColumns:
    """Collect the facts of all records in their order; `read` is called with every prediction and its case."""
    groups = groups or RecordGroups(plan.datasets)
    # Three files are read side by side in the order of the records; rejected ones have neither case nor
    # prediction.
    cases = map(run.case_of, run.records())
    predictions, path = run.raw_lines("predictions.jsonl"), run.path / "predictions.jsonl"
    columns = RecordColumns()
    for line in run.typed_lines("record_validation.jsonl", ValidationLine):
        if line.result == "rejected":
            columns.append(invalid_facts(line.index, line.slices or {}))
            continue
        case = next(cases)
        raw = next(predictions)
        prediction = decoded_as(_decode_prediction, raw, path)
        read(raw, prediction, case)
        columns.append(facts_of(prediction, groups.slices(case, plan.slices), groups.cluster(case, plan.cluster_key)))
    return columns


def differences(run: PublishedRun) -> list[str]:
    """Return one line for each metric of the run that is not what its records give; empty when everything is.

    A figure that the run does not have is one that a later version has added, and no difference.
    """
    return [
        line
        for name, computed in recompute(run).documents().items()
        # Encoded and decoded, so that both sides went through the same rounding of JSON.
        for line in _differing(run.document(name), msgspec.json.decode(msgspec.json.encode(computed)), (name,))
    ]


def _differing(stored: object, computed: object, path: tuple[str, ...]) -> Iterator[str]:
    if path[1:] == ("assay_version",):
        # Another version may recompute the metrics; that it gives the same numbers is the point of it.
        return
    if isinstance(stored, dict) and isinstance(computed, dict):
        # Only members that are stored: a later version may have added others.
        for name in sorted({*stored, *computed} if path[-1] in _TALLIES else stored):
            yield from _differing(stored.get(name), computed.get(name), (*path, name))
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        for index, (one, other) in enumerate(zip(stored, computed, strict=True)):
            yield from _differing(one, other, (*path[:-1], f"{path[-1]}[{index}]"))
    elif stored != computed:
        yield f"{path[0]}: {'.'.join(path[1:])} is {stored!r}, but the records give {computed!r}"
