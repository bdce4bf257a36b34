"""Lines of a run's artifacts into the figures of its panel, ranking and profile."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from assay.core.artifact_lines import AttemptLine, PredictionLine, Range
from assay.core.case import Case
from assay.core.model_call import FailedReply, Reply, Usage
from assay.core.outcome import Attempt, CriterionResult
from assay.core.plan import ComparisonPlan, Plan
from assay.datasets.parsing.checks import short
from assay.engine.records.run_counters import FREE
from assay.grading import (
    AGAIN,
    GRADING_METHODS,
    INCONSISTENT,
    WITHOUT_POINTS,
    UnknownCall,
    kind_of,
    marks_of,
    results_from_log,
    settings_of,
)
from assay.grading.pairwise import IN_ORDER, SWAPPED
from assay.metrics.panel import JudgeAttempt, PanelFigures
from assay.metrics.profiles import Profile, UnscoredRecord, profile_of, score_range, score_record
from assay.metrics.ranking import PairwiseComparison, PairwiseFigures, PairwiseVote, Result
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


NO_ANSWER = "no_answer"
UNKNOWN_CALL = "unknown_call"
MISFIT = "does_not_fit"
_UNTOUCHED = frozenset({"cancelled", "skipped"})
"""Statuses of records that no benchmark knows: nothing failed, they were not evaluated."""

FIRST = 10
"""Records that a misfit lists before it only counts them."""
_WORDS: dict[str, str] = {kind: way.about for kind, way in GRADING_METHODS.items()}

Replies = Mapping[str, str]
"""What was said in each judge call that was answered, by call id."""


class ProfileScorer:
    """Gives every record of a run the score of its profile."""

    def __init__(self, plan: Plan, profile: Profile) -> None:
        self.profile = profile
        self._settings = settings_of(plan)

    def apply(self, line: PredictionLine, case: Case, replies: Replies) -> None:
        """Note the score of a record in its prediction, or why it has none."""
        found = self._score(line, case, replies)
        line.profile_score = None if isinstance(found, UnscoredRecord) else found
        line.profile_unscored = found.reason if isinstance(found, UnscoredRecord) else None
        line.profile_bounds = (self._bounds(case) if isinstance(found, UnscoredRecord) else None) or msgspec.UNSET

    def _bounds(self, case: Case) -> Range | None:
        """What the record could have had; None where the profile gives it no score whatever is said."""
        if not self.profile.fits(kind_of(case) or ""):
            return None
        return score_range(self.profile, results_from_log(case, self._settings, replies={}, answer=None))

    def _score(self, line: PredictionLine, case: Case, replies: Replies) -> float | UnscoredRecord:
        if not self.profile.fits(kind_of(case) or ""):
            return UnscoredRecord(MISFIT)
        is_graded = line.status == "evaluated"
        # Nobody was asked about a record without an attempt, so that there is nothing that could count.
        if not is_graded and (not self.profile.is_compat or line.status in _UNTOUCHED or not line.record_attempts):
            return UnscoredRecord(self._own_reason(line, case) or line.error_code or line.status)
        marks = self._marks(line, case, replies) if self.profile.is_compat else marks_of(line.evaluator_scores)
        return marks if isinstance(marks, UnscoredRecord) else score_record(self.profile, marks)

    def _own_reason(self, line: PredictionLine, case: Case) -> str:
        """Why the profile gives a rubric without points no score, whatever is said of it; empty where it would."""
        if line.error_code != WITHOUT_POINTS:
            return ""
        marks = [CriterionResult(criterion=one.id, value=0.0, scale="0/1", weight=one.weight) for one in case.criteria]
        found = score_record(self.profile, marks)
        return found.reason if isinstance(found, UnscoredRecord) else ""

    def _marks(self, line: PredictionLine, case: Case, replies: Replies) -> tuple[CriterionResult, ...] | UnscoredRecord:
        """The marks of a record whose failures count as its benchmark counts them."""
        compat = self.profile.compat
        if not line.model_response and compat.unanswered == "left_out":
            return UnscoredRecord(NO_ANSWER)
        if line.status == "evaluated" and compat.replies == "graded":
            return marks_of(line.evaluator_scores)
        try:
            return results_from_log(
                case, self._settings, replies=replies, answer=line.model_response, is_first=compat.replies == "first"
            )
        except UnknownCall:
            return UnscoredRecord(UNKNOWN_CALL)


def profiler_of(plan: Plan) -> ProfileScorer | None:
    """What gives the records of a run their score; None for a run without a profile."""
    profile = profile_of(plan.profile, is_compat=plan.compat)
    return None if profile is None else ProfileScorer(plan, profile)


def replies_of(attempts: Iterable[Attempt]) -> Replies:
    """The replies of judges in a record's attempts; of two to one call, which only a crash leaves, the first counts."""
    replies: dict[str, str] = {}
    for attempt in attempts:
        if attempt.stage == "judge" and attempt.reply is not None:
            replies.setdefault(attempt.call_id, attempt.reply.text)
    return replies


class UnsupportedRecords:
    """Records that a profile cannot score, told in words."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def look_at(self, record_id: str, kind: str) -> None:
        """Look at one record and how it is graded."""
        if not self._profile.fits(kind):
            self._counts[kind] += 1
            ids = self._first.setdefault(kind, [])
            if len(ids) < FIRST:
                ids.append(record_id)

    def problems(self) -> list[str]:
        """A sentence for each way of grading that the profile is not for, with the records that it concerns."""
        wanted = " or ".join(_WORDS[kind] for kind in self._profile.kinds)
        return [
            f"the profile '{self._profile.id}' is for records that are {wanted}, but {_counted(count)} "
            f"{_WORDS.get(kind, 'of another kind')}: {self._listed(kind)}"
            for kind, count in sorted(self._counts.items())
        ]

    def _listed(self, kind: str) -> str:
        first = self._first[kind]
        more = self._counts[kind] - len(first)
        return ", ".join(map(short, first)) + (f" and {more:,} more" if more else "")


def _counted(count: int) -> str:
    return "1 record is" if count == 1 else f"{count:,} records are"
