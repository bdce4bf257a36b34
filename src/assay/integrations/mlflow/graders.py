"""Scorers and judges made with MLflow as graders of a run."""

import inspect
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from math import fsum
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.core.judgement import Judgement
from assay.integrations.mlflow.traces import expectations_of, inputs_of

WORDS: Mapping[str, float] = {"yes": 1.0, "no": 0.0, "pass": 1.0, "fail": 0.0, "true": 1.0, "false": 0.0}
"""What MLflow's judges say instead of a number."""


class ScorerFailed(Exception):
    """A scorer that gave no score; the record ends in an error with its reason."""


class MlflowGrader:
    """A scorer of MLflow that can be given to a run as its `grader`."""

    def __init__(self, scorer: Any, *, scale: tuple[float, float], pass_at: float | None, words: Mapping[str, float]) -> None:
        self.name = str(scorer.name)
        self._scorer = scorer
        self._low, self._high = scale
        self._pass_at = pass_at
        self._words = words

    def __call__(self, record: Case, answer: str) -> Judgement | None:
        """What the scorer says of an answer; None where it says nothing. Raises ScorerFailed."""
        asked = msgspec.to_builtins(record)
        said = self._scorer.run(inputs=inputs_of(asked), outputs=answer, expectations=expectations_of(asked))
        marks = [self._mark(one) for one in (said if isinstance(said, list) else [said]) if one is not None]
        if not marks:
            return None
        if len(marks) == 1:
            return marks[0][1]
        return _together(marks)

    def _mark(self, said: Any) -> tuple[str, Judgement]:
        """The name and the judgement of one value, or of one Feedback."""
        error = getattr(said, "error", None)
        if error is not None:
            raise ScorerFailed(f"the scorer '{self.name}' says {error.error_code}: {error.error_message}")
        value = getattr(said, "value", said) if not isinstance(said, Enum) else said.value
        value = value.value if isinstance(value, Enum) else value
        return getattr(said, "name", self.name) or self.name, self._judged(value, getattr(said, "rationale", None) or "")

    def _judged(self, value: Any, why: str) -> Judgement:
        if isinstance(value, bool):
            return Judgement(score=float(value), passed=value, justification=why, scale="0/1")
        if isinstance(value, str):
            return self._in_words(value, why)
        if isinstance(value, int | float):
            passed = None if self._pass_at is None else value >= self._pass_at
            return Judgement(score=(value - self._low) / (self._high - self._low), passed=passed, justification=why)
        raise ScorerFailed(f"the scorer '{self.name}' says {type(value).__name__}, which is no score")

    def _in_words(self, value: str, why: str) -> Judgement:
        score = self._words.get(value.strip().lower())
        if score is None:
            known = ", ".join(self._words)
            raise ScorerFailed(f"the scorer '{self.name}' says '{value[:80]}'; known words are {known} (words= names others)")
        return Judgement(score=score, passed=score == 1.0 if score in (0.0, 1.0) else None, justification=why)


def mlflow_scorer(
    scorer: Any, *, scale: tuple[float, float] = (0.0, 1.0), pass_at: float | None = None, words: Mapping[str, float] = WORDS
) -> MlflowGrader:
    """A scorer, an `@scorer` function or a judge of `make_judge` as the grader of a run; an error in it is an error of the record.

    Numbers are read on `scale` and pass from `pass_at` on, or from the run's own threshold; `words` says what each word is worth.
    """
    if not callable(getattr(scorer, "run", None)) or not getattr(scorer, "name", ""):
        raise UsageProblem(
            f"{type(scorer).__name__} is no scorer of MLflow", hint="decorate the function with mlflow.genai.scorers.scorer"
        )
    wanted = inspect.signature(scorer.__call__).parameters
    needs = [name for name in ("trace", "session") if name in wanted and wanted[name].default is inspect.Parameter.empty]
    if needs or {"inputs", "outputs"}.isdisjoint(wanted):
        raise UsageProblem(
            f"the scorer '{scorer.name}' grades {needs[0] if needs else 'neither inputs nor output'}s, which a run does not have",
            hint="a grader of a run gets inputs, outputs and expectations",
        )
    if not scale[0] < scale[1]:
        raise UsageProblem(f"the scale {scale} does not go up", hint="write scale=(lowest, highest)")
    return MlflowGrader(scorer, scale=scale, pass_at=pass_at, words={word.lower(): score for word, score in words.items()})


def _together(marks: list[tuple[str, Judgement]]) -> Judgement:
    """Several feedbacks of one scorer: their mean, which passes where each of them does."""
    counts: Counter[str] = Counter()
    for place, (name, judgement) in enumerate(marks):
        counts[name] += 1
        # Each counts for the mean, so each is shown.
        marks[place] = (name if counts[name] == 1 else f"{name} {counts[name]}"), judgement
    judgements = [judgement for _, judgement in marks]
    verdicts = [judgement.passed for judgement in judgements]
    return Judgement(
        score=fsum(judgement.score for judgement in judgements) / len(judgements),
        passed=all(verdicts) if None not in verdicts else None,
        justification="\n".join(f"{name}: {judgement.justification}" for name, judgement in marks if judgement.justification),
        scores={name: judgement.score for name, judgement in marks},
    )
