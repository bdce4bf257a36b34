"""Graders of one tool in the other: scorers of MLflow grade runs, and graders of assay are scorers of MLflow."""

import inspect
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from math import fsum
from pathlib import Path
from typing import Any

import msgspec

from assay import api
from assay.core.artifact_lines import PredictionLine, RecordDetails
from assay.core.case import Case
from assay.core.errors import MissingExtra, UsageProblem
from assay.core.outcome import Judgement, Score
from assay.integrations.mlflow.traces import CHOICES, EXPECTED, GUIDELINES, criterion_name, expectations_of, inputs_of
from assay.integrations.mlflow.tracking import imported

WORDS: Mapping[str, float] = {"yes": 1.0, "no": 0.0, "pass": 1.0, "fail": 0.0, "true": 1.0, "false": 0.0}
"""Scores of the words that MLflow's judges return instead of a number."""


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
        """Return the scorer's judgement of an answer; None where it gives none. Raises ScorerFailed."""
        said = self._scorer.run(inputs=inputs_of(record), outputs=answer, expectations=expectations_of(record))
        marks = [self._mark(one) for one in (said if isinstance(said, list) else [said]) if one is not None]
        if not marks:
            return None
        if len(marks) == 1:
            return marks[0][1]
        return _together(marks)

    def _mark(self, said: object) -> tuple[str, Judgement]:
        """Return the name and the judgement of one value, or of one Feedback."""
        # A judge of MLflow reports its own failure as a feedback without a value.
        error = getattr(said, "error", None)
        if error is not None:
            raise ScorerFailed(f"the scorer '{self.name}' says {error.error_code}: {error.error_message}")
        # MLflow's ratings are Enums, alone or as the value of a Feedback.
        value = getattr(said, "value", said) if not isinstance(said, Enum) else said.value
        value = value.value if isinstance(value, Enum) else value
        return getattr(said, "name", self.name) or self.name, self._judgement(value, getattr(said, "rationale", None) or "")

    def _judgement(self, value: object, why: str) -> Judgement:
        if isinstance(value, bool):
            return Judgement(score=float(value), passed=value, justification=why, scale="0/1")
        if isinstance(value, str):
            return self._in_words(value, why)
        if isinstance(value, int | float):
            # Without a limit the run's own threshold decides.
            passed = None if self._pass_at is None else value >= self._pass_at
            return Judgement(score=(value - self._low) / (self._high - self._low), passed=passed, justification=why)
        raise ScorerFailed(f"the scorer '{self.name}' returned {type(value).__name__}, which is not a score")

    def _in_words(self, value: str, why: str) -> Judgement:
        score = self._words.get(value.strip().lower())
        if score is None:
            known = ", ".join(self._words)
            raise ScorerFailed(f"the scorer '{self.name}' says '{value[:80]}'; known words are {known} (words= names others)")
        # A word between yes and no has a score, and no verdict of its own.
        return Judgement(score=score, passed=score == 1.0 if score in (0.0, 1.0) else None, justification=why)


def mlflow_scorer(
    scorer: Any, *, scale: tuple[float, float] = (0.0, 1.0), pass_at: float | None = None, words: Mapping[str, float] = WORDS
) -> MlflowGrader:
    """Wrap a scorer, an `@scorer` function or a judge of `make_judge` as the grader of a run; its errors are the record's.

    Numbers are read on `scale` and pass from `pass_at` on, or from the run's own threshold; `words` says what each word is worth.
    """
    if not callable(getattr(scorer, "run", None)) or not getattr(scorer, "name", ""):
        raise UsageProblem(
            f"{type(scorer).__name__} is not a scorer of MLflow", hint="decorate the function with mlflow.genai.scorers.scorer"
        )
    wanted = inspect.signature(scorer.__call__).parameters
    # Scorers of traces or sessions need what only MLflow's own evaluation has.
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
    """Combine several feedbacks of one scorer: their mean, which passes where each of them does."""
    counts: Counter[str] = Counter()
    for place, (name, judgement) in enumerate(marks):
        counts[name] += 1
        # Each counts for the mean, so each is shown.
        marks[place] = (name if counts[name] == 1 else f"{name} {counts[name]}"), judgement
    judgements = [judgement for _, judgement in marks]
    verdicts = [judgement.passed for judgement in judgements]
    return Judgement(
        score=fsum(judgement.score for judgement in judgements) / len(judgements),
        # One part without a verdict leaves the whole without one.
        passed=all(verdicts) if None not in verdicts else None,
        justification="\n".join(f"{name}: {judgement.justification}" for name, judgement in marks if judgement.justification),
        scores={name: judgement.score for name, judgement in marks},
    )


Json = dict[str, Any]
QUESTIONS = ("prompt", "question", "query", "input", "request")
"""Names of inputs that hold the question, the first that there is."""
FACTS = "expected_facts"
_ID, _NAME = "record", "answer"


def assay_scorer(*, name: str = "assay", criteria: Sequence[str] = (), **options: Any) -> Any:
    """Make a scorer for mlflow.genai.evaluate that grades as a run does, by `judge`, `grader` and other options of `assay.run`.

    What an answer is graded by follows from its expectations: `expected_choices` with inputs that have choices, `guidelines` or
    `expected_facts` (each met or not), `expected_response`; without any, `criteria` of batch_v1. An answer that cannot be graded,
    or that was never given, is a feedback with an error and without a value. Raises MissingExtra without the whole of MLflow.
    """
    unknown = sorted({*options} - {*api.RunRequest.__struct_fields__, "judge"})
    if unknown:
        raise UsageProblem(
            f"unknown option '{unknown[0]}'", hint="options are those of assay.run, such as judge='openai/gpt-6-sol'"
        )
    # The slim client lacks the package of scorers.
    try:
        scorers = imported("mlflow.genai.scorers")
    except MissingExtra as problem:
        raise MissingExtra(problem.message, hint="mlflow.genai.evaluate needs the whole of MLflow: pip install mlflow") from None
    entities = imported("mlflow.entities")

    def grade(inputs: Any, outputs: object, expectations: Any = None) -> object:
        answer = _answer(outputs)
        if answer is None:
            return [_error_feedback("no_answer", "there is no answer to grade", name=name, entities=entities)]
        line = _grade_answer(_row(inputs or {}, expectations or {}, criteria), answer, options)
        return _feedbacks(line, name=name, entities=entities)

    return scorers.scorer(grade, name=name)


def _grade_answer(document: Json, answer: str, options: Json) -> PredictionLine:
    """Return the prediction of a run over this one record and its answer."""
    # A run in a temporary folder: prompts, retries and parsing are then those of every run.
    with tempfile.TemporaryDirectory(prefix="assay-") as made:
        folder = Path(made)
        dataset = folder / ("dataset.json" if "records" in document else "dataset.jsonl")
        dataset.write_bytes(msgspec.json.encode(document) + b"\n")
        given = {"example_id": _ID, "candidate_name": _NAME, "response_text": answer}
        (folder / "answers.jsonl").write_bytes(msgspec.json.encode(given) + b"\n")
        place = {"responses": str(folder / "answers.jsonl"), "runs_dir": str(folder / "runs"), "run_id": _ID}
        api.run(dataset, **{**options, **place})
        found = api.open_run(_ID, runs_dir=folder / "runs").record(_ID)
    assert isinstance(found, RecordDetails), "a run of an invalid record does not start"
    return found.prediction


def _row(inputs: Json, expectations: Mapping[str, object], criteria: Sequence[str]) -> dict[str, object]:
    """Return the record in the form of the contract that has what it is graded by."""
    same = {"schema_version": "legal_eval_v1", "id": _ID, "dataset": "mlflow", **_question(inputs)}
    rubric = _texts(expectations.get(GUIDELINES)) + _texts(expectations.get(FACTS))
    # In the order of precision: choices are decided by rule, guidelines one by one, a reference as a whole.
    if expectations.get(CHOICES) and inputs.get("choices"):
        choices = {"choices": inputs["choices"], "correct_choice_ids": _texts(expectations[CHOICES])}
        return {**same, "task_type": "mcq", **choices}
    if rubric:
        numbered = [{"id": f"guideline-{number}", "title": text} for number, text in enumerate(rubric, 1)]
        references = _texts(expectations.get(EXPECTED))
        return {**same, "task_type": "rubric_qa", "rubric": numbered, **({"reference_answers": references} if references else {})}
    if expectations.get(EXPECTED):
        return {**same, "task_type": "reference_qa", "reference_answers": _texts(expectations[EXPECTED])}
    wanted = {"expected": {"required_criteria": list(criteria)}} if criteria else {}
    record = {"record_id": _ID, "input": {"prompt": same["prompt"]}, **wanted}
    head = {"dataset_id": "mlflow", "dataset_version": "1", "schema_version": "1.0", "created_at": "1970-01-01T00:00:00Z"}
    # batch_v1 is the contract whose criteria have names only; its creation time must be set, and means nothing here.
    return {**head, "records": [record]}


def _question(inputs: Mapping[str, object]) -> dict[str, object]:
    messages = inputs.get("messages")
    context = {"context": _text(inputs["context"])} if inputs.get("context") else {}
    if isinstance(messages, list) and messages:
        said = [{"role": message["role"], "content": _text(message["content"])} for message in messages]
        return {"prompt": "\n\n".join(f"{message['role']}: {message['content']}" for message in said), "messages": said, **context}
    named = next((inputs[name] for name in QUESTIONS if inputs.get(name)), None)
    # A single input is the question, under any name.
    alone = next(iter(inputs.values())) if len(inputs) == 1 else inputs
    return {"prompt": _text(alone if named is None else named), **context}


def _texts(value: object) -> list[str]:
    if value is None:
        return []
    return [_text(one) for one in (value if isinstance(value, list | tuple) else [value])]


def _answer(outputs: object) -> str | None:
    """Return the text of an answer: that of a chat completion where it is one; None where there is none, as after a failed call."""
    said = outputs
    if isinstance(outputs, Mapping):
        choices = outputs.get("choices")
        if isinstance(choices, list) and all(isinstance(choice, Mapping) for choice in choices):
            said = (choices[0].get("message") or {}).get("content") if choices else None
        elif "content" in outputs:
            said = outputs["content"]
    text = None if said is None else _text(said)
    # An empty cell of a table is a number that is none, which JSON writes as null.
    return None if text == "null" and not isinstance(said, str) else text


def _text(value: object) -> str:
    """Return a question as text, or a part of it: JSON where it is something else."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        return str(value["content"])
    return msgspec.json.encode(value).decode()


def _error_feedback(code: str, message: str, *, name: str, entities: Any, evaluator: str = "assay") -> object:
    """Return a feedback with an error instead of a verdict."""
    error = imported("mlflow.entities.assessment_error").AssessmentError(error_code=code, error_message=message)
    return entities.Feedback(name=f"{name}/passed", error=error, source=entities.AssessmentSource("CODE", evaluator))


def _feedbacks(line: PredictionLine, *, name: str, entities: Any) -> list[object]:
    evaluator = line.evaluator or "assay"
    if line.status != "evaluated":
        code, message = line.error_code or line.status, line.error_message or ""
        return [_error_feedback(code, message, name=name, entities=entities, evaluator=evaluator)]
    judges = list(dict.fromkeys(score.judge for score in line.evaluator_scores if score.judge))
    source = entities.AssessmentSource("LLM_JUDGE", ", ".join(judges)) if judges else entities.AssessmentSource("CODE", evaluator)
    noted = {"scale": line.scale, "evaluator": evaluator, "label": line.label}
    cost = {} if line.cost is None else {"mlflow.assessment.judgeCost": str(line.cost)}
    same = {
        "source": source,
        "rationale": line.justification,
        "metadata": {**{key: text for key, text in noted.items() if text}, **cost},
    }
    made = [
        entities.Feedback(name=f"{name}/{member}", value=value, **same)
        for member, value in (("passed", line.passed), ("score", line.raw_score))
    ]
    votes = [score for score in line.evaluator_scores if score.judge]
    # With one judge its vote is the grade, which is there already.
    return made + [_vote(vote, name=name, entities=entities) for vote in votes if len(votes) > 1]


def _vote(vote: Score, *, name: str, entities: Any) -> object:
    source = entities.AssessmentSource("LLM_JUDGE", vote.judge)
    return entities.Feedback(
        name=f"{name}/{criterion_name(vote.criterion)}", value=vote.score, source=source, rationale=vote.justification or None
    )
