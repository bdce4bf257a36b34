"""Judges with a prompt that the user wrote: its placeholders are filled with texts of the record, each between marks."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from assay.core.case import Case, Criterion
from assay.core.graders import NOT_ASSESSED, CategoryScale, Scale
from assay.core.outcome import Flow, Grade, GradingFailure
from assay.grading.answer_text import suspicion_flags
from assay.grading.assignment import GradingAssignment, GradingMethod
from assay.grading.candidate import (
    candidate_ask,
    context_text,
    criteria_text,
    criterion_text,
    grading_text,
    reference_text,
    task_text,
)
from assay.grading.five_point import criterion_template
from assay.grading.judge_call import CandidateAnswer, CustomPrompt, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import PanelResult, ask_judges, panel_flags, panel_reasons
from assay.grading.rubric import rubric_score
from assay.grading.templates import JUDGE_PROMPT, load_template
from assay.grading.verdict import ChoiceReplySchema, ScaleName

EVALUATOR = JUDGE_PROMPT
NOT_ASSESSED_CODE = "not_assessed"
"""Failure code of a record whose judge says that the answer cannot be assessed."""
ANSWER, CRITERION, METADATA = "answer", "criterion", "metadata."
PLACEHOLDERS = ("question", ANSWER, "reference", CRITERION, "rubric", "context", "choices")
"""Names that a prompt may hold as `{{name}}`, besides `{{metadata.NAME}}`."""
_SLOT = re.compile(r"\{\{(?P<name>[^{}\n]{0,200})\}\}")
_OPEN = re.compile(r"\{\{(?![^{}\n]{0,200}\}\})")
_EMPTY = "(none)"


class PromptProblem(NamedTuple):
    """What is wrong in a prompt, and where."""

    offset: int
    message: str
    name: str = ""
    """An unknown placeholder."""


def prompt_problems(text: str) -> Iterator[PromptProblem]:
    """Yield what is wrong with a prompt: unknown placeholders, braces that are not closed, and no place for the answer."""
    names = set()
    for match in _SLOT.finditer(text):
        name = match["name"].strip()
        names.add(name)
        if name not in PLACEHOLDERS and not (name.startswith(METADATA) and len(name) > len(METADATA)):
            yield PromptProblem(match.start(), f"unknown placeholder '{{{{{name}}}}}'", name)
    for match in _OPEN.finditer(text):
        yield PromptProblem(match.start(), "'{{' opens a placeholder that is not closed on its line")
    if ANSWER not in names:
        yield PromptProblem(0, "the prompt has no {{answer}}: the judge would not see what it grades")


def placeholders_of(text: str) -> tuple[str, ...]:
    """Return the placeholders of a prompt, each once."""
    return tuple(dict.fromkeys(match["name"].strip() for match in _SLOT.finditer(text)))


def grade_by_prompt(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then the judge: once, or once for each criterion where the prompt has a place for one."""
    (reply,) = yield (candidate_ask(assignment),)
    answer = CandidateAnswer(reply.text, assignment.case.record_sha256)
    results = yield from ask_judges(prompt_questions(assignment), assignment.settings, answer=answer)
    return assignment.sign(_grade(assignment, reply.text, results))


def prompt_questions(assignment: GradingAssignment) -> tuple[JudgeQuestion, ...]:
    """Return the judge's questions about a case."""
    prompt, name = assignment.settings.prompt, assignment.settings.grader_name
    assert prompt is not None, "the method is chosen by the prompt"
    names = placeholders_of(prompt.text)
    shape = scale_shape(assignment.settings.scale)
    frame = _frame(prompt.text, shape)
    if CRITERION not in names:
        return (_question(assignment, names, name, frame=frame, shape=shape, criterion=None),)
    return tuple(
        _question(assignment, names, criterion.id, frame=frame, shape=shape, criterion=criterion)
        for criterion in assignment.criteria
    )


def _question(
    assignment: GradingAssignment,
    names: tuple[str, ...],
    about: str,
    *,
    frame: CustomPrompt,
    shape: ChoiceReplySchema,
    criterion: Criterion | None,
) -> JudgeQuestion:
    texts = {name: _text(assignment.case, name, criterion) or _EMPTY for name in names if name != ANSWER}
    weight = 1.0 if criterion is None else criterion.weight
    return JudgeQuestion(criterion=about, template_id=JUDGE_PROMPT, blocks=texts, shape=shape, weight=weight, prompt=frame)


def _text(case: Case, name: str, criterion: Criterion | None) -> str:
    if name.startswith(METADATA):
        return metadata_words(case.metadata, name.removeprefix(METADATA))
    match name:
        case "question":
            return task_text(case)
        case "reference":
            return reference_text(case)
        case "context":
            return "\n\n".join(filter(None, (context_text(case), grading_text(case))))
        case "rubric":
            return criteria_text(case)
        case "choices":
            return "\n".join(f"{choice.id}. {choice.text}" for choice in case.choices)
        case _:
            return "" if criterion is None else _criterion_words(criterion)


def _criterion_words(criterion: Criterion) -> str:
    template_id = criterion_template(criterion)
    return load_template(template_id).text.rstrip("\n") if template_id else criterion_text(criterion)


def metadata_words(metadata: Mapping[str, object], path: str) -> str:
    """Return the text of a member of metadata, such as `court` or `court.name`; empty without one."""
    value: object = metadata.get(path)
    if value is None:
        value = metadata
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _frame(text: str, shape: ChoiceReplySchema) -> CustomPrompt:
    pieces = _SLOT.split(text)
    pieces[1::2] = [name.strip() for name in pieces[1::2]]
    return CustomPrompt(pieces=tuple(pieces), member=shape.value, words=shape.wanted)


# One object for each scale, because replies and schemas are cached by the identity of their shape.
def scale_shape(scale: Scale) -> ChoiceReplySchema:
    """Return the form of a judge's reply on a scale."""
    return _category_shape(tuple(scale.categories.items())) if isinstance(scale, CategoryScale) else _SHAPES[scale]


def _shape(
    value: str, scale: ScaleName, wanted: str, words: tuple[tuple[str, float], ...], *, has_numbers: bool
) -> ChoiceReplySchema:
    return ChoiceReplySchema(
        value=value, reason="reason", scale=scale, wanted=wanted, words=words, has_numbers=has_numbers, unassessed=NOT_ASSESSED
    )


_SHAPES: Mapping[str, ChoiceReplySchema] = {
    "pass_fail": _shape("verdict", "0/1", "pass or fail", (("pass", 1.0), ("fail", 0.0)), has_numbers=False),
    "1-5": _shape(
        "score", "1-5", "a whole number from 1 to 5", tuple((str(step), float(step)) for step in range(1, 6)), has_numbers=True
    ),
    "0-1": _shape(
        "score",
        "0-1",
        "a number from 0.0 to 1.0 in steps of 0.1",
        tuple((f"{step / 10:.1f}", step / 10) for step in range(11)),
        has_numbers=True,
    ),
}


@lru_cache(maxsize=256)
def _category_shape(categories: tuple[tuple[str, float], ...]) -> ChoiceReplySchema:
    names = [name for name, _ in categories]
    wanted = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
    return _shape("category", "0-1", wanted, categories, has_numbers=False)


def _grade(assignment: GradingAssignment, answer: str, results: tuple[PanelResult, ...]) -> Grade:
    settings = assignment.settings
    unassessed = [result.votes[0] for result in results if result.votes[0].is_unassessed]
    if unassessed:
        raise GradingFailure(NOT_ASSESSED_CODE, f"the judge cannot assess the answer: {unassessed[0].reason}")
    scale = scale_shape(settings.scale).scale
    if len(results) == 1:
        raw, weight_scale = results[0].value, scale
    else:
        # Criteria with weights are a share of what can be reached, as those of a rubric.
        weights = tuple(score.weight for result in results for score in result.scores)
        if not any(weight > 0 for weight in weights):
            raise GradingFailure("rubric_without_points", "no criterion has a positive weight, so there is no score to reach")
        values = tuple(score.normalized for result in results for score in result.scores)
        raw, weight_scale = rubric_score(weights, values), "0-1"
    needed = _pass_score(assignment, weight_scale)
    passed = raw >= needed - 1e-9
    return Grade(
        score=(raw - 1) / 4 if weight_scale == "1-5" else raw,
        passed=passed,
        answer=answer,
        raw_score=raw,
        scale=weight_scale,
        scores=tuple(score for result in results for score in result.scores),
        justification=panel_reasons(results),
        label="" if passed else "incorrect_answer",
        flags=(*panel_flags(results), *suspicion_flags(answer)),
    )


def _pass_score(assignment: GradingAssignment, scale: str) -> float:
    """Return the score from which an answer passes, on its scale."""
    settings = assignment.settings
    if scale == "0/1":
        return 1.0
    if settings.at_least is None:
        return settings.case_pass_score if scale == "1-5" else settings.pass_threshold
    # A threshold on the scale of one criterion holds for the share of several too.
    is_shared = scale == "0-1" and scale_shape(settings.scale).scale == "1-5"
    return (settings.at_least - 1) / 4 if is_shared else settings.at_least


def _topics(assignment: GradingAssignment, _: str | None) -> tuple[ReplySpec, ...]:
    questions = prompt_questions(assignment)
    return tuple(criterion_spec(question.criterion, question.shape, weight=question.weight) for question in questions)


METHOD = GradingMethod(
    about="graded by a prompt of the run's own",
    flow=grade_by_prompt,
    names=lambda _: (EVALUATOR, JUDGE_PROMPT),
    evaluators=(EVALUATOR,),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
