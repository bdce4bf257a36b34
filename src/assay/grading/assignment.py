"""A case with everything that decides how it is asked and graded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from assay.core.case import Case, Criterion
from assay.core.open_fields import grading_fields, question_fields
from assay.core.outcome import Flow, Grade
from assay.core.plan import CriterionName, PluginPlan
from assay.grading.policies import Policy
from assay.grading.settings import GradingSettings
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, OPEN_FIELD, TOOL_CALL, texts_sha256
from assay.grading.tool_call import has_tools, is_tool_turn, offered_tools
from assay.grading.topic import Topic

NAMED_CRITERIA: frozenset[str] = frozenset(get_args(CriterionName))
DEFAULT_CRITERION = Criterion("overall", "overall")
"""batch_v1 names criteria only where a record wants particular ones."""
Kind = Literal["five_point", "rubric", "reference", "mcq", "turn", "tool_call", "pairwise", "plugin"]
"""The ways of grading in one word each; each has a row in the table of `grading.ways`."""
_KINDS: dict[str, Kind] = {"mcq": "mcq", "open": "five_point", "rubric": "rubric", "reference": "reference", "pairwise": "pairwise"}
MCQ_ANSWER = "mcq_answer/1"
NO_ATTACHMENTS: Mapping[str, str] = {}


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way of grading: all that distinguishes it from the others."""

    about: str
    """What records of this kind are, in words that follow on "records that are"."""
    flow: Callable[["Assignment"], Flow]
    """Asks, and comes to a grade."""
    names: Callable[["Assignment"], tuple[str, str]]
    """Id of the evaluator and of the template that the grade hangs on, which is empty where there is none."""
    evaluators: tuple[str, ...]
    """All ids that evaluators of this way may have; empty where they are others' to give."""
    needs_judge: bool
    """Grades by a judge, unless the answer itself makes one superfluous."""
    scale: Literal["0-1", "0/1", "1-5"]
    """What a score is on before it is brought to 0..1."""
    topics: Callable[["Assignment", str | None], tuple[Topic, ...]]
    """What judges were asked, given the answer: replies in the log are read back by it. Nothing where no judge's reply is."""
    texts: Callable[["Assignment"], Iterable[str]] = lambda _: ()
    """Ids of templates that only this way adds."""


class GradedBy(msgspec.Struct, frozen=True):
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
    """One case, its way of grading, its policy, and the run's settings."""

    case: Case
    settings: GradingSettings
    policy: Policy
    way: Way
    flags: tuple[str, ...] = ()
    """What is to be said about the policy."""
    attachments: Mapping[str, str] = NO_ATTACHMENTS
    """Texts of the case's attachments by path."""
    custom_policy: PluginPlan | None = None
    """The code that says what the candidate is asked: the run's policy, or the one that the case names."""

    @property
    def graded_by(self) -> GradedBy:
        """How the case is graded, unless its answer calls a tool that nobody expects."""
        evaluator, template_id = self.way.names(self)
        if self.custom_policy and template_id == MCQ_ANSWER:
            # What the candidate is asked with is not ours.
            template_id = ""
        return GradedBy(evaluator, template_id, self.policy.id, self._others(template_id))

    @property
    def policy_code(self) -> Any:
        """What makes messages of the case under its custom policy."""
        settings = self.settings
        return settings.policy_code if settings.policy else settings.record_policy_code[self.policy.id]

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What the answer is judged by: as the case says, else the run, else as a whole."""
        return self.case.criteria or tuple(Criterion(name, name) for name in self.settings.criteria) or (DEFAULT_CRITERION,)

    def signed(self, grade: Grade, *, by: GradedBy | None = None) -> Grade:
        """The grade with what every prediction names besides: who gave it, and what is to be said about the policy."""
        by = by or self.graded_by
        return msgspec.structs.replace(
            grade,
            evaluator=by.evaluator,
            template=by.template,
            template_sha256=by.template_sha256,
            policy=by.policy,
            flags=(*self.flags, *grade.flags),
        )

    def _others(self, template_id: str) -> tuple[str, ...]:
        """The texts beside the template."""
        question = (self.policy.question_template,) if self.policy.question_template else ()
        if self.case.task == "mcq":
            return () if self.custom_policy else (*question, choice_task(self.case, self.settings))
        has_tools = template_id != TOOL_CALL and not self.custom_policy and offered_tools(self.case)
        tools = (TOOL_CALL,) if has_tools else ()
        fields = (OPEN_FIELD,) if question_fields(self.case) or grading_fields(self.case) else ()
        return (*question, *fields, *tools, *(self._of_judges() if self.way.needs_judge else ()), *self.way.texts(self))

    def _of_judges(self) -> tuple[str, ...]:
        """What judges are asked besides, whatever they grade."""
        is_confident = self.settings.panel.escalate and len(self.settings.judges) > 1
        return (ASK_AGAIN, CONFIDENCE) if is_confident else (ASK_AGAIN,)


def choice_task(case: Case, settings: GradingSettings) -> str:
    """The template that says how many of the choices are to be selected."""
    if len(set(case.correct_choice_ids)) < 2:
        return "mcq_one/1"
    return "mcq_several/1" if settings.mcq_mode == "exact" else "mcq_any/1"


def kind_of(case: Case) -> Kind | None:
    """How a case is graded in one word, where the run has no grader of its own; None for a task that cannot be graded."""
    kind = kind_for(case.contract, case.task)
    if kind == "reference" and has_tools(case):
        return "tool_call" if is_tool_turn(case) else "turn"
    return kind


def kind_for(contract: str, task: str) -> Kind | None:
    """The same of a record of which no more is known; only conversations may have tools."""
    return "five_point" if contract == "golden_v1" and task != "pairwise" else _KINDS.get(task)
