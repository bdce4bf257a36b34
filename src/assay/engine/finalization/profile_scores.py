"""Finished records into the score of the run's profile, from their predictions and from what their judges said."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from assay.core.artifact_lines import PredictionLine, Range
from assay.core.case import Case
from assay.core.mark import CriterionResult
from assay.core.outcome import Attempt
from assay.core.plan import Plan
from assay.datasets.checks import short
from assay.grading import GRADING_METHODS, WITHOUT_POINTS, UnknownCall, kind_of, marks_of, results_from_log, settings_of
from assay.metrics.profiles import Profile, UnscoredRecord, profile_of, score_range, score_record

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
