"""Metrics of a run from the lines of its artifacts: its panel, its ranking, its profile, and the EvalRun of golden_v1."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from assay.core.artifact_lines import AttemptLine, PredictionLine, ScoreRange
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.model_call import FailedReply, Reply, Usage
from assay.core.outcome import Attempt, CriterionResult, Score
from assay.core.plan import ComparisonPlan, Plan
from assay.core.settings import Gates, ModelParameters
from assay.core.summary import GateCheck
from assay.datasets.parsing.checks import short
from assay.engine.records.redaction import RedactedPlan
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
from assay.metrics.golden import PASS_SCORE, GoldenParameters, GoldenResult, eval_result, eval_run_metrics
from assay.metrics.panel import JudgeAttempt, PanelMetrics
from assay.metrics.profiles import Profile, UnscoredRecord, profile_of, score_range, score_record
from assay.metrics.ranking import PairwiseComparison, PairwiseFigures, PairwiseVote, Result
from assay.store.published_run import PublishedRun


def panel_of(plan: Plan) -> PanelMetrics | None:
    """Return empty panel metrics for a plan as it is shown; None without several judges."""
    return PanelMetrics([judge.name for judge in plan.judges], plan.panel) if plan.has_panel else None


def add_record(figures: PanelMetrics, prediction: PredictionLine, attempts: Iterable[AttemptLine]) -> None:
    """Add the lines of one record."""
    decisions = () if prediction.panel is msgspec.UNSET else prediction.panel
    figures.add(
        # Ids are unique within a dataset only; the NUL keeps the two parts apart.
        f"{prediction.dataset}\0{prediction.record_id}",
        # Votes of a record without a grade are stored, but are not part of the panel's decisions.
        prediction.evaluator_scores if prediction.status == "evaluated" else (),
        decisions=decisions,
        attempts=map(_judge_attempt, _of_judges(attempts)),
    )


def read_panel(run: PublishedRun, plan: Plan) -> PanelMetrics | None:
    """Return the metrics of a run's panel from its artifacts; None without a panel."""
    figures = panel_of(plan)
    # Earlier versions kept the votes of a panel, but not how they were decided.
    if figures is None or "panel" not in run.manifest.plan_members:
        return None
    # Both files are in the order of the records and are read side by side, in constant memory.
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
        # A second request after an unusable reply has the id of the first one with this ending.
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
    """Return empty ranking metrics for a comparison as it is shown; None when nothing is compared."""
    return None if comparison is None else PairwiseFigures([run.name for run in comparison.runs], comparison.notes, seed=seed)


def add_comparison(figures: PairwiseFigures, prediction: PredictionLine, case: Case, *, cluster: str) -> None:
    """Add one comparison, from its prediction and its case."""
    pair = case.metadata[PAIR]
    meeting = PairwiseComparison(
        # Stored places count from 1, because people read them; figures count from 0.
        first=pair["first"] - 1,
        second=pair["second"] - 1,
        cluster=cluster or pair["record_id"],
        result=_result(prediction),
        votes=_votes(prediction),
    )
    figures.add(meeting)


def earlier_verdicts(parent: PublishedRun) -> Callable[[str, str], Reply | None]:
    """Return a lookup of the judges' replies in a ranking's compared records, by record hash and call id."""
    # Only decided comparisons: one with an error is judged again as a whole, in both orders.
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
    # Votes of a record without a grade are stored, but decide nothing.
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
"""Replies of the answered judge calls, by call id."""


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

    def _bounds(self, case: Case) -> ScoreRange | None:
        """Return the range of the record's possible score; None when the profile never gives it one."""
        if not self.profile.fits(kind_of(case) or ""):
            return None
        return score_range(self.profile, results_from_log(case, self._settings, replies={}, answer=None))

    def _score(self, line: PredictionLine, case: Case, replies: Replies) -> float | UnscoredRecord:
        if not self.profile.fits(kind_of(case) or ""):
            return UnscoredRecord(MISFIT)
        is_graded = line.status == "evaluated"
        # A record without an attempt had no call, so that nothing could count.
        if not is_graded and (not self.profile.is_compat or line.status in _UNTOUCHED or not line.record_attempts):
            return UnscoredRecord(self._own_reason(line, case) or line.error_code or line.status)
        marks = self._marks(line, case, replies) if self.profile.is_compat else marks_of(line.evaluator_scores)
        return marks if isinstance(marks, UnscoredRecord) else score_record(self.profile, marks)

    def _own_reason(self, line: PredictionLine, case: Case) -> str:
        """Return why the profile gives a rubric without points no score in any case; empty if it would."""
        if line.error_code != WITHOUT_POINTS:
            return ""
        marks = [CriterionResult(criterion=one.id, value=0.0, scale="0/1", weight=one.weight) for one in case.criteria]
        found = score_record(self.profile, marks)
        return found.reason if isinstance(found, UnscoredRecord) else ""

    def _marks(self, line: PredictionLine, case: Case, replies: Replies) -> tuple[CriterionResult, ...] | UnscoredRecord:
        """Return the results of a record whose failures count as its benchmark counts them."""
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
    """Return the scorer of a run's profile; None for a run without one."""
    profile = profile_of(plan.profile, is_compat=plan.compat)
    return None if profile is None else ProfileScorer(plan, profile)


def replies_of(attempts: Iterable[Attempt]) -> Replies:
    """Return the judges' replies in a record's attempts; of two to one call, which only a crash leaves, the first counts."""
    replies: dict[str, str] = {}
    for attempt in attempts:
        if attempt.stage == "judge" and attempt.reply is not None:
            replies.setdefault(attempt.call_id, attempt.reply.text)
    return replies


class UnsupportedRecords:
    """Records that a profile cannot score, for notes."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def look_at(self, record_id: str, kind: str) -> None:
        """Check one record and how it is graded."""
        if not self._profile.fits(kind):
            self._counts[kind] += 1
            # A whole dataset may not fit, so that only the first ids are stored.
            ids = self._first.setdefault(kind, [])
            if len(ids) < FIRST:
                ids.append(record_id)

    def problems(self) -> list[str]:
        """Return a sentence for each grading method that the profile does not support, with the affected records."""
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


EVAL_RESULTS = "eval_results.json"
NO_TOKEN_LIMIT = 1_000_000
"""Stands for no limit where the contract requires a number: no model's answer is longer."""


def why_no_eval_run(plan: Plan) -> str:
    """Return why the run cannot be written as an EvalRun; empty when it can, or when it has no golden dataset."""
    golden = [dataset for dataset in plan.datasets if dataset.contract == "golden_v1"]
    if not golden:
        return ""
    if plan.comparison is not None:
        return "it holds answers, and the run compares answers of other runs"
    if plan.grader() is not None:
        return "it holds scores from 1 to 5, and the run has a custom grader"
    if plan.graders or plan.checks:
        return "it holds scores from 1 to 5 and what follows from them, and the run has checks or graders besides"
    if len(plan.datasets) > 1:
        return f"it holds one golden dataset, and the run has {len(plan.datasets)} datasets; run each by itself, or as a suite"
    # The formula of the contract has this limit built in, so another one would make its verdicts untrue.
    if plan.case_pass_score != PASS_SCORE:
        return f"its cases pass with {PASS_SCORE}, and those of the run with {plan.case_pass_score}"
    if plan.profile is not None and plan.gates.min_score is not None:
        return f"its score threshold is one on the average score, and the run's is one on {plan.profile}"
    return ""


def eval_run_parameters(shown: RedactedPlan, parameters: ModelParameters) -> GoldenParameters:
    """Return the settings of the run, with the candidate's parameters as they were sent; a panel's judges are named together."""
    return GoldenParameters(
        assistant_model=shown.candidate.model,
        judge_model=", ".join(judge.model for judge in shown.judges),
        temperature=parameters.temperature,
        max_tokens=parameters.max_tokens or NO_TOKEN_LIMIT,
        dataset_version=shown.datasets[0].dataset_version,
        **_thresholds(shown.plan.gates),
    )


def _thresholds(gates: Gates) -> JsonObject:
    """Return the gates; one that is not set is a threshold that every run meets."""
    return {
        "pass_rate_threshold": 0.0 if gates.pass_rate is None else gates.pass_rate,
        "score_threshold": 1.0 if gates.min_score is None else gates.min_score,
        "max_error_rate": gates.max_error_rate,
    }


def is_true_of(eval_run: JsonObject, *, is_cancelled: bool) -> bool:
    """Return False for a cancelled run whose formula passes the part that was evaluated."""
    # The contract has no word for cancelled, so such a file would claim that the release passed.
    return not (is_cancelled and eval_run["metrics"]["overall_passed"])


def golden_result(line: PredictionLine, case: Case) -> GoldenResult:
    """Return the result of one case."""
    # The contract has whole scores; a panel's mean is rounded.
    grade = None if line.raw_score is None else (round(line.raw_score), line.justification or "")
    error = "" if line.error_code is None else _error_words(line.error_code, line.error_message or "")
    result = eval_result(
        line.record_id,
        case.prompt,
        answer=line.model_response or "",
        grade=grade,
        duration_ms=line.total_latency_ms or 0.0,
        error=error,
    )
    kept = result.justification if grade else "\n".join(map(_vote_words, line.evaluator_scores))
    return msgspec.structs.replace(result, sample=line.sample, justification=kept)


def _error_words(code: str, message: str) -> str:
    """Return the error with its code once; a judge's message names the code after the judge."""
    return f"{code}: {message.replace(f': {code}: ', ': ', 1)}"


def _vote_words(vote: Score) -> str:
    """Describe a vote of a panel that lost another judge: `rubric (judge-a): 4. Polite.`"""
    return f"{vote.criterion} ({vote.judge}): {vote.score:g}. {vote.justification}".rstrip()


def regated(document: JsonObject, plan: Plan, gates: Sequence[GateCheck]) -> dict[str, object]:
    """Return a run's EvalRun as that of another run with the same results and other gates."""
    parameters = msgspec.convert({**document["parameters"], **_thresholds(plan.gates)}, GoldenParameters)
    scores = [result["score"] for result in document["results"]]
    decided = {"parameters": msgspec.to_builtins(parameters), "metrics": eval_run_metrics(scores, parameters)}
    return {**document, "run_id": plan.run_id, **decided, "gates": [msgspec.to_builtins(gate) for gate in gates]}
