"""A case with everything that decides how it is asked and graded."""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import msgspec

from assay.core.case import Case, Criterion
from assay.core.outcome import GradingFailure
from assay.core.plan import CriterionName
from assay.grading.policies import Policy, own_policy, resolved
from assay.grading.settings import GradingSettings
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, TOOL_CALL, texts_sha256
from assay.grading.tool_call import has_tools, is_tool_turn, offered_tools

NAMED_CRITERIA: frozenset[str] = frozenset(get_args(CriterionName))
DEFAULT_CRITERION = Criterion("overall", "overall")
"""batch_v1 names criteria only where a record wants particular ones."""
Kind = Literal["five_point", "rubric", "reference", "mcq", "turn", "pairwise", "plugin"]
_KINDS: dict[str, Kind] = {"mcq": "mcq", "open": "five_point", "rubric": "rubric", "reference": "reference", "pairwise": "pairwise"}
MCQ_ANSWER = "mcq_answer/1"
_NO_ATTACHMENTS: Mapping[str, str] = {}


class Way(msgspec.Struct, frozen=True):
    """How a case is graded, as every prediction names it."""

    evaluator: str
    """Id and version of the way of grading."""
    template: str
    """Id and version of the template that the grade hangs on: the judge's, or that of the answer's form where a program grades;
    empty where neither has one."""
    policy: str
    """Id of the policy."""
    others: tuple[str, ...] = ()
    """Further texts that the candidate or the judge is asked with."""

    @property
    def template_sha256(self) -> str:
        """Hash of all texts that the candidate and the judge are asked with."""
        return texts_sha256(tuple(filter(None, (self.template, *self.others))))


class Assignment(msgspec.Struct, frozen=True):
    """One case, its policy, and the run's settings."""

    case: Case
    settings: GradingSettings
    policy: Policy
    kind: Kind
    flags: tuple[str, ...] = ()
    """What is to be said about the policy."""
    attachments: Mapping[str, str] = _NO_ATTACHMENTS
    """Texts of the case's attachments by path."""

    @property
    def way(self) -> Way:
        """How the case is graded, unless its answer calls a tool that nobody expects."""
        evaluator, template_id = _EVALUATORS[self.kind](self)
        if self.settings.policy and template_id == MCQ_ANSWER:
            # What the candidate is asked with is not ours.
            template_id = ""
        return Way(evaluator, template_id, self.policy.id, self._others(template_id))

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What the answer is judged by: as the case says, else the run, else as a whole."""
        return self.case.criteria or tuple(Criterion(name, name) for name in self.settings.criteria) or (DEFAULT_CRITERION,)

    def _others(self, template_id: str) -> tuple[str, ...]:
        """The texts beside the template."""
        question = (self.policy.question_template,) if self.policy.question_template else ()
        if self.case.task == "mcq":
            return () if self.settings.policy else (*question, choice_task(self.case, self.settings))
        has_tools = template_id != TOOL_CALL and not self.settings.policy and offered_tools(self.case)
        tools = (TOOL_CALL,) if has_tools else ()
        is_confident = self.settings.panel.escalate and len(self.settings.judges) > 1
        judged = (
            () if template_id == TOOL_CALL or self.kind == "plugin" else (ASK_AGAIN, CONFIDENCE) if is_confident else (ASK_AGAIN,)
        )
        named = map(criterion_template, self.criteria) if self.kind == "five_point" else ()
        return (*question, *tools, *judged, *filter(None, named))


def tool_call_way(policy: Policy) -> Way:
    """How an answer is graded that calls a tool, or should."""
    return Way(*_TOOL_CALL, policy.id)


def choice_task(case: Case, settings: GradingSettings) -> str:
    """The template that says how many of the choices are to be selected."""
    if len(case.correct_choice_ids) < 2:
        return "mcq_one/1"
    return "mcq_several/1" if settings.mcq_mode == "exact" else "mcq_any/1"


def criterion_template(criterion: Criterion) -> str:
    """The rubric of ours for a criterion that is only named; empty for one that says itself what it is."""
    is_named = criterion.title == criterion.id and criterion.id in NAMED_CRITERIA
    return f"criterion_{criterion.id}/1" if is_named else ""


def _rubric(assignment: Assignment) -> tuple[str, str]:
    if assignment.settings.rubric_mode == "one_call":
        return "rubric_one_call/1", "judge_rubric/1"
    return "rubric_per_criterion/1", assignment.policy.criterion.template_id


def _reference(assignment: Assignment) -> tuple[str, str]:
    return "judge_reference/1", assignment.policy.reference.template_id


def _plugin(assignment: Assignment) -> tuple[str, str]:
    """A grader of one's own has the version of its distribution, or else the beginning of its source's hash."""
    grader = assignment.settings.grader
    assert grader is not None
    version = grader.version or grader.source_sha256[:12]
    return f"{grader.name}/{version}" if version else grader.name, MCQ_ANSWER if assignment.case.task == "mcq" else ""


_TOOL_CALL = ("tool_call_exact/1", TOOL_CALL)
_EVALUATORS: dict[Kind, Callable[[Assignment], tuple[str, str]]] = {
    "five_point": lambda _: ("judge_1_5/1", "judge_1_5/1"),
    "mcq": lambda assignment: (f"mcq_{assignment.settings.mcq_mode}/1", MCQ_ANSWER),
    "rubric": _rubric,
    "reference": _reference,
    "turn": lambda assignment: _TOOL_CALL if is_tool_turn(assignment.case) else _reference(assignment),
    "pairwise": lambda _: ("judge_pairwise/1", "judge_pairwise/1"),
    "plugin": _plugin,
}
"""Id of the way of grading and of its template, for each kind of case."""


def assign(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = _NO_ATTACHMENTS) -> Assignment:
    """The case with its policy; raises GradingFailure for a task that cannot be graded."""
    kind = "plugin" if settings.grader else kind_of(case)
    if kind is None:
        raise GradingFailure("unsupported_task", f"cases of task {case.task!r} cannot be graded")
    policy, flags = (own_policy(settings.policy.name), ()) if settings.policy else resolved(case.policy_id, case.task)
    return Assignment(case, settings, policy, kind, flags, attachments)


def kind_of(case: Case) -> Kind | None:
    """How a case is graded in one word; None for a task that cannot be graded."""
    kind = kind_for(case.contract, case.task)
    return "turn" if kind == "reference" and has_tools(case) else kind


def kind_for(contract: str, task: str) -> Kind | None:
    """The same of a record of which no more is known; only conversations may have tools."""
    return "five_point" if contract == "golden_v1" and task != "pairwise" else _KINDS.get(task)
