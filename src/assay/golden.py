"""The entities of golden_v1 as Pydantic models, for code that reads golden datasets and results: `pip install 'assay[golden]'`.

`GoldenDataset` takes what `assay.validate(..., "golden_v1")` takes; `EvalRun` reads the `eval_results.json` of a run.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import fsum
from typing import Annotated, Any, ClassVar, Literal, Self

from assay.core.errors import MissingExtra

try:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        Field,
        StrictBool,
        StrictInt,
        StrictStr,
        ValidationInfo,
        field_validator,
        model_validator,
    )
except ImportError:
    raise MissingExtra("assay.golden needs pydantic", hint="pip install 'assay[golden]'") from None

__all__ = ["EvalResult", "EvalRun", "EvalRunMetrics", "EvalRunParameters", "GoldenDataset", "TestCase"]

PASS_SCORE = 4
"""A case has passed if and only if its score is at least 4."""
_ROUNDED = 0.005
"""A stated rate may be rounded to two digits."""
_TOLERANCE = 1e-9
"""Rounding in the last digits decides nothing."""


def _trimmed(minimum: int) -> AfterValidator:
    """Make a validator of a minimum length, in which white space at the ends does not count."""

    def check(text: str) -> str:
        if len(text.strip()) < minimum:
            raise ValueError(f"must have at least {minimum} characters besides white space at its ends")
        return text

    return AfterValidator(check)


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold NUL characters")
    return text


def _utc(moment: datetime) -> datetime:
    if moment.utcoffset() != timedelta(0):
        raise ValueError("must be a time in UTC, as in 2026-01-28T10:00:00Z")
    return moment


def _no_number(value: object) -> Any:
    if isinstance(value, int | float):
        raise ValueError("must be a time in ISO 8601, not a number")
    return value


Text = Annotated[StrictStr, AfterValidator(_storable)]
CaseId = Annotated[StrictStr, Field(pattern=r"^[a-z0-9-]+$")]
Version = Annotated[StrictStr, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
Prompt = Annotated[StrictStr, Field(min_length=1, max_length=8000), AfterValidator(_storable), _trimmed(1)]
Rubric = Annotated[StrictStr, Field(min_length=10, max_length=2000), AfterValidator(_storable), _trimmed(10)]
Score = Annotated[StrictInt, Field(ge=1, le=5)]
Count = Annotated[StrictInt, Field(ge=0)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Rate = Annotated[Number, Field(ge=0, le=1)]
MeanScore = Annotated[Number, Field(ge=1, le=5)]
Time = Annotated[datetime, BeforeValidator(_no_number), AfterValidator(_utc)]


class TestCase(BaseModel):
    """One case of a golden dataset."""

    __test__: ClassVar[bool] = False
    """Its name looks like a test to pytest, which is not to collect it."""

    id: CaseId
    user_prompt: Prompt
    rubric: Rubric
    context: Text | None = None
    """Notes for people: sent neither to the assistant nor to the judge."""
    tags: list[Text] | None = None


class GoldenDataset(BaseModel):
    """A golden dataset file: 5 to 20 cases with unique ids."""

    version: Version
    description: Text | None = None
    cases: Annotated[list[TestCase], Field(min_length=5, max_length=20)]

    @field_validator("cases")
    @classmethod
    def unique_ids(cls, cases: list[TestCase]) -> list[TestCase]:
        """Raise if two cases have the same id."""
        ids = [case.id for case in cases]
        repeated = sorted({case_id for case_id in ids if ids.count(case_id) > 1})
        if repeated:
            raise ValueError(f"case ids must be unique: {', '.join(repeated)}")
        return cases


class EvalResult(BaseModel):
    """Result of one case; score and passed are None only if `error` has the reason."""

    case_id: StrictStr
    user_prompt: StrictStr
    assistant_response: StrictStr
    error: StrictStr | None = None
    score: Score | None
    passed: StrictBool | None
    justification: StrictStr
    duration_ms: Annotated[StrictInt, Field(gt=0)]
    """Of assistant and judge together."""

    @field_validator("score")
    @classmethod
    def score_or_error(cls, score: int | None, info: ValidationInfo) -> int | None:
        """Raise for a case with neither a score nor an error."""
        # An error of the wrong type is reported separately, and missing here.
        if score is None and not (info.data.get("error", "wrong") or "").strip():
            raise ValueError("may be null only where error says why")
        return score

    @field_validator("passed")
    @classmethod
    def passed_by_score(cls, passed: StrictBool | None, info: ValidationInfo) -> StrictBool | None:
        """Raise unless `passed` agrees with the score."""
        if "score" not in info.data:
            return passed
        score = info.data["score"]
        if bool(passed) != (score is not None and score >= PASS_SCORE) or (passed is None) > (score is None):
            raise ValueError(f"must be true if and only if score is at least {PASS_SCORE}")
        return passed


class EvalRunParameters(BaseModel):
    """Settings of a run; the temperature is None where it was left to the provider."""

    assistant_model: Annotated[StrictStr, Field(min_length=1)]
    judge_model: Annotated[StrictStr, Field(min_length=1)]
    temperature: Annotated[Number, Field(ge=0)] | None
    """0 for reproducibility, unless the run says otherwise."""
    max_tokens: Annotated[StrictInt, Field(gt=0)]
    dataset_version: Version
    pass_rate_threshold: Rate
    score_threshold: MeanScore
    max_error_rate: Rate | None = None
    """Share of the cases that may have errored: a gate that the contract does not have; None for no limit."""


class EvalRunMetrics(BaseModel):
    """Aggregates of a run: errors are in no rate and no mean, and what has no denominator is None."""

    total_cases: Count
    passed_cases: Count
    failed_cases: Count
    error_cases: Count
    pass_rate: Rate | None
    average_score: MeanScore | None
    overall_passed: StrictBool

    @classmethod
    def from_results(cls, results: Iterable[EvalResult], parameters: EvalRunParameters) -> Self:
        """Compute the contract's formulas over the results of a run; thresholds are inclusive."""
        kept = list(results)
        scores = [result.score for result in kept if result.error is None and result.score is not None]
        passed = sum(score >= PASS_SCORE for score in scores)
        pass_rate = passed / len(scores) if scores else None
        average = fsum(scores) / len(scores) if scores else None
        return cls(
            total_cases=len(kept),
            passed_cases=passed,
            failed_cases=len(scores) - passed,
            error_cases=len(kept) - len(scores),
            pass_rate=pass_rate,
            average_score=average,
            overall_passed=_is_enough(pass_rate, average, parameters),
        )

    @model_validator(mode="after")
    def add_up(self) -> Self:
        """Raise if the counts do not add up to the total, or the rate is not theirs."""
        graded = self.passed_cases + self.failed_cases
        if self.total_cases != graded + self.error_cases:
            raise ValueError("total_cases must be passed_cases + failed_cases + error_cases")
        if (self.pass_rate is None or self.average_score is None) != (graded == 0):
            raise ValueError("pass_rate and average_score are null if and only if no case has a score")
        if self.pass_rate is not None and abs(self.pass_rate - self.passed_cases / graded) > _ROUNDED:
            raise ValueError("pass_rate must be passed_cases / (total_cases - error_cases)")
        if self.average_score is not None and not self._can_have(self.average_score, graded):
            raise ValueError("average_score is none that so many passed and failed cases can have")
        return self

    def _can_have(self, average: float, graded: int) -> bool:
        """Return whether the average is possible: passed cases have a score of 4 or 5, others of 1 to 3."""
        lowest = (PASS_SCORE * self.passed_cases + self.failed_cases) / graded
        highest = (5 * self.passed_cases + (PASS_SCORE - 1) * self.failed_cases) / graded
        return lowest - _ROUNDED <= average <= highest + _ROUNDED


class EvalGate(BaseModel):
    """One gate of a run, and whether the run met it."""

    name: StrictStr
    threshold: Number
    value: Number | None
    met: StrictBool


class EvalRun(BaseModel):
    """A whole run, as `eval_results.json` holds it."""

    run_id: Annotated[StrictStr, Field(min_length=1)]
    timestamp: Time
    """When the run started, UTC."""
    parameters: EvalRunParameters
    metrics: EvalRunMetrics
    results: list[EvalResult]
    status: Literal["complete", "partial"] | None = None
    """`partial` where a case errored; the contract has no word for it."""
    gates: list[EvalGate] | None = None
    """Gates of the run: those of the formula, and `max_error_rate`, which the contract does not know."""

    @model_validator(mode="after")
    def tells_of_its_results(self) -> Self:
        """Raise if a metric differs from that of the results."""
        metrics, computed = self.metrics, EvalRunMetrics.from_results(self.results, self.parameters)
        for name in ("total_cases", "passed_cases", "failed_cases", "error_cases"):
            if getattr(metrics, name) != getattr(computed, name):
                raise ValueError(f"{name} is {getattr(metrics, name)}, but the results give {getattr(computed, name)}")
        if abs((metrics.average_score or 0.0) - (computed.average_score or 0.0)) > _ROUNDED:
            raise ValueError("average_score must be the mean score of the cases without an error")
        if self.status is not None and (self.status == "partial") != (metrics.error_cases > 0):
            raise ValueError("status must be partial if and only if a case errored")
        return self

    @model_validator(mode="after")
    def decided_by_thresholds(self) -> Self:
        """Raise if the decision differs from that of metrics and thresholds."""
        metrics, cap = self.metrics, self.parameters.max_error_rate
        if self.gates is None and cap is not None and metrics.error_cases > (cap + _TOLERANCE) * metrics.total_cases:
            # Documents of earlier versions, which list no gates, have the cap on errors in the formula.
            is_enough = False
        else:
            is_enough = _is_enough(metrics.pass_rate, metrics.average_score, self.parameters)
        if metrics.overall_passed is not is_enough:
            raise ValueError("overall_passed must be true if and only if pass_rate and average_score reach their thresholds")
        return self


def _is_enough(pass_rate: float | None, average: float | None, parameters: EvalRunParameters) -> bool:
    if pass_rate is None or average is None:
        return False
    return pass_rate >= parameters.pass_rate_threshold - _TOLERANCE and average >= parameters.score_threshold - _TOLERANCE


GateCheck = EvalGate
"""The former name, for one release."""
