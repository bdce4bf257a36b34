"""Lines of a run's artifacts into the figures of its panel of judges, while they are written or when they are read back."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from assay.core.artifact_lines import AttemptLine, PredictionLine
from assay.core.plan import Plan
from assay.engine.run_counters import FREE
from assay.grading import AGAIN
from assay.metrics.panel import JudgeAttempt, PanelFigures
from assay.store.published_run import PublishedRun


def panel_of(plan: Plan) -> PanelFigures | None:
    """Figures to be filled, for a plan as it is shown; None where there are no several judges."""
    return PanelFigures([judge.name for judge in plan.judges], plan.panel) if len(plan.judges) > 1 else None


def add_record(figures: PanelFigures, prediction: PredictionLine, attempts: Iterable[AttemptLine]) -> None:
    """The lines of one record."""
    decisions = () if prediction.panel is msgspec.UNSET else prediction.panel
    figures.add(
        f"{prediction.dataset}\0{prediction.record_id}",
        # Votes that are kept of a record without a grade are no part of what the panel decided.
        prediction.evaluator_scores if prediction.status == "evaluated" else (),
        decisions=decisions,
        attempts=map(_judge_attempt, _of_judges(attempts)),
    )


def read_panel(run: PublishedRun, plan: Plan) -> PanelFigures | None:
    """The figures of a run's panel from its artifacts; None where it has none."""
    figures = panel_of(plan)
    # Earlier versions kept the votes of a panel, but not how they were decided.
    if figures is None or "panel" not in run.manifest.plan:
        return None
    logged = groupby(run.typed_lines("attempt_logs.jsonl", AttemptLine), key=lambda line: line.index)
    following = next(logged, None)
    for prediction in run.typed_lines("predictions.jsonl", PredictionLine):
        attempts: list[AttemptLine] = []
        if following is not None and following[0] == prediction.index:
            attempts = list(following[1])
            following = next(logged, None)
        add_record(figures, prediction, attempts)
    return figures


def _of_judges(attempts: Iterable[AttemptLine]) -> Iterator[AttemptLine]:
    return (attempt for attempt in attempts if attempt.stage == "judge")


def _judge_attempt(line: AttemptLine) -> JudgeAttempt:
    return JudgeAttempt(
        judge=line.model,
        question=line.call_id.removesuffix(AGAIN),
        is_again=line.call_id.endswith(AGAIN),
        is_failed=line.error_code is not None,
        is_free=not FREE.isdisjoint(line.flags),
        latency_ms=line.latency_ms,
        tokens=line.total_tokens,
        cost=line.cost,
    )
