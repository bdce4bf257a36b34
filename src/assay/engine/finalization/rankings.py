"""Lines of a comparing run's artifacts into the figures of its ranking, while they are written or when they are read back."""

from collections.abc import Callable

from assay.core.artifact_lines import AttemptLine, PredictionLine
from assay.core.case import Case
from assay.core.model_call import FailedReply, Reply, Usage
from assay.core.plan import ComparisonPlan
from assay.grading import INCONSISTENT
from assay.grading.methods.pairwise import IN_ORDER, SWAPPED
from assay.metrics.pairwise import PairwiseComparison, PairwiseFigures, PairwiseVote, Result
from assay.store.published_run import PublishedRun

PAIR = "assay_pair"
"""Member of a comparison's metadata: the record, and the places of the two runs in the plan, from 1."""
_RESULTS: dict[float | None, Result] = {1.0: "first", 0.5: "tie", 0.0: "second"}


def ranking_of(comparison: ComparisonPlan | None, *, seed: int) -> PairwiseFigures | None:
    """Figures to be filled, for a comparison as it is shown; None where nothing is compared."""
    return None if comparison is None else PairwiseFigures([run.name for run in comparison.runs], comparison.notes, seed=seed)


def add_comparison(figures: PairwiseFigures, prediction: PredictionLine, case: Case, *, cluster: str) -> None:
    """One comparison, from its prediction and its case."""
    pair = case.metadata[PAIR]
    meeting = PairwiseComparison(
        first=pair["first"] - 1,
        second=pair["second"] - 1,
        cluster=cluster or pair["record_id"],
        result=_result(prediction),
        votes=_votes(prediction),
    )
    figures.add(meeting)


def earlier_verdicts(parent: PublishedRun) -> Callable[[str, str], Reply | None]:
    """What judges said of the comparisons that a ranking has a result of, by their hash and the call; None for all others."""
    predictions = parent.typed_lines("predictions.jsonl", PredictionLine)
    decided = {line.index: line.record_sha256 for line in predictions if line.status == "evaluated"}
    said = {
        (decided[line.index], line.call_id): Reply(
            text=line.response, finish_reason=line.finish_reason or "", flags=("prefilled",), usage=_usage(line)
        )
        for line in parent.typed_lines("attempt_logs.jsonl", AttemptLine)
        if line.index in decided and line.response is not None
    }
    hashes = set(decided.values())
    lost = FailedReply(text="", code="vote_lost", message=f"no verdict in run '{parent.manifest.run_id}'")
    return lambda sha256, call_id: said.get((sha256, call_id), lost) if sha256 in hashes else None


def _usage(line: AttemptLine) -> Usage:
    return Usage(line.input_tokens, line.output_tokens, line.total_tokens, line.cached_tokens)


def _result(prediction: PredictionLine) -> Result | None:
    if prediction.score is None:
        return None
    return "inconsistent" if INCONSISTENT in prediction.flags else _RESULTS[prediction.score]


def _votes(prediction: PredictionLine) -> tuple[PairwiseVote, ...]:
    said: dict[str, dict[str, float]] = {}
    # Votes that are kept of a record without a grade decide nothing.
    for score in prediction.evaluator_scores if prediction.score is not None else ():
        said.setdefault(score.judge, {})[score.criterion] = score.score
    return tuple(PairwiseVote(judge, orders[IN_ORDER], orders[SWAPPED]) for judge, orders in said.items())
