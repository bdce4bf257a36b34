"""Reference answers: one judge call, a score of 0 to 1 in tenths."""

from assay.core.outcome import Flow
from assay.grading.assignment import Assignment, Way
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import Answer, Question
from assay.grading.judged_grade import judged_grade
from assay.grading.panel import ask_judges, proposed_label
from assay.grading.policies import metadata_text
from assay.grading.topic import Topic, topic_on
from assay.grading.transcript import context_text, reference_text, task_text

CRITERION = "reference"
EVALUATOR = "judge_reference/1"


def grade_reference(assignment: Assignment) -> Flow:
    """Asks the candidate, then a judge who compares the answer with the references."""
    (reply,) = yield (candidate_ask(assignment),)
    return (yield from judge_by_reference(assignment, reply.text))


def judge_by_reference(assignment: Assignment, text: str) -> Flow:
    """Asks a judge who compares an answer with the references."""
    settings = assignment.settings
    rulings = yield from ask_judges((_question(assignment),), settings, answer=Answer(text, assignment.case.record_sha256))
    score = rulings[0].value
    passed = score >= settings.pass_threshold
    label = "" if passed else proposed_label(rulings) or "incorrect_answer"
    return judged_grade(assignment, text, rulings=rulings, raw_score=score, passed=passed, label=label)


def _question(assignment: Assignment) -> Question:
    case, style = assignment.case, assignment.policy.reference
    blocks = {
        **{name: metadata_text(case, name) for name in style.metadata},
        "task": task_text(case),
        "context": context_text(case),
        "reference": reference_text(case),
    }
    return Question(criterion=CRITERION, template_id=style.template_id, blocks=blocks, shape=style.shape)


def judge_names(assignment: Assignment) -> tuple[str, str]:
    """The evaluator, and the template that the judge is asked with."""
    return EVALUATOR, assignment.policy.reference.template_id


def judge_topics(assignment: Assignment, _: str | None) -> tuple[Topic, ...]:
    """The one question."""
    return (topic_on(CRITERION, assignment.policy.reference.shape),)


WAY = Way(
    about="compared with a reference",
    flow=grade_reference,
    names=judge_names,
    evaluators=(EVALUATOR,),
    needs_judge=True,
    scale="0-1",
    topics=judge_topics,
)
