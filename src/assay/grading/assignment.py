"""Grading settings of a run, and a case with everything that determines its requests and its grade."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import msgspec

from assay.core.call_rules import CallRules, has_judge_rule
from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case, Criterion
from assay.core.checks import Check, PassRule
from assay.core.graders import GraderPlan, JudgePrompt, Scale
from assay.core.open_fields import grading_fields, question_fields
from assay.core.outcome import Flow, Grade
from assay.core.plan import Plan, PluginPlan
from assay.core.settings import CriterionName, GradingRules, PanelSection, ProfileId, ToolOutputs
from assay.core.tools import ExpectedCall, ToolDefinition
from assay.grading.judge_call import ReplySpec
from assay.grading.policies import Policy
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, OPEN_FIELD, TOOL_CALL, load_template, texts_sha256
from assay.grading.tool_call import compares_calls, expected_calls, offered_tools

NAMED_CRITERIA: frozenset[str] = frozenset(get_args(CriterionName))
DEFAULT_CRITERION = Criterion("overall", "overall")
"""Used by batch_v1 records, which name criteria only when they want particular ones."""
MethodKind = Literal[
    "five_point", "rubric", "reference", "mcq", "turn", "tool_call", "judged_tool_call", "pairwise", "plugin", "checks", "prompt"
]
"""Grading methods in one word each; each has a row in `grading.methods.GRADING_METHODS`."""
# Conversations have no entry: recorded replies are graded as references, which the engine makes of them turn by turn.
_KINDS: dict[str, MethodKind] = {
    "mcq": "mcq",
    "open": "five_point",
    "rubric": "rubric",
    "reference": "reference",
    "pairwise": "pairwise",
}
MCQ_ANSWER = "mcq_answer/1"
NO_ATTACHMENTS: Mapping[str, str] = {}


class GradingSettings(GradingRules, frozen=True, kw_only=True):
    """Candidate, judges, and what is enough to pass."""

    # Names of models and not their settings: a grade must not depend on how a model is reached.
    candidate: str
    """Name of the plan's model that answers."""
    judges: tuple[str, ...] = ()
    """Names of the plan's models that judge; several form a panel."""
    system_prompt: str = ""
    """Sent to the candidate under the default policy, if the case has no system message."""
    panel: PanelSection = PanelSection()
    """Rules by which several judges decide together."""
    has_answers: bool = False
    """True if the candidate's answers are given, so that it is not called."""
    tools: tuple[ToolDefinition, ...] = ()
    """Tools that records offer which have none of their own."""
    has_native_tools: bool = False
    """The candidate's provider takes definitions of tools; another candidate is told of them in words."""
    tool_outputs: ToolOutputs = "replay"
    """What answers the candidate's tool calls."""
    tool_calls: CallRules = CallRules()
    """Rules by which tool calls are compared."""
    profile: ProfileId | None = None
    """Run's profile, which may score a rubric that has no score of its own."""
    checks: tuple[Check, ...] = ()
    """Run's checks; cases may have further ones."""
    pass_rule: PassRule = "all"
    """Checks that an answer must pass."""
    grader: PluginPlan | None = None
    """Run's custom grader, which grades every case."""
    # Code is loaded apart from the plan, which is stored as JSON and read by processes that never run it.
    grader_code: Any = None
    """Generator function of a grader that asks judges."""
    graders: tuple[GraderPlan, ...] = ()
    """Run's graders, where it has several; each grades with settings of its own."""
    grader_plugins: Mapping[str, PluginPlan] = {}
    """Plugins that they name."""
    graders_code: Mapping[str, Any] = {}
    """Functions of these plugins."""
    grader_name: str = ""
    """Of one of several graders: its name."""
    method: MethodKind | None = None
    """Of one of several graders: the method that grades every case."""
    prompt: JudgePrompt | None = None
    """Of a judge with a prompt of the user, as are the two below."""
    scale: Scale = "pass_fail"
    at_least: float | None = None
    takes_record_checks: bool = True
    """Cases may have checks of their own."""

    @property
    def has_plugin(self) -> bool:
        """Return whether a custom grader grades."""
        return self.grader is not None or bool(self.grader_plugins)

    policy: PluginPlan | None = None
    """Run's custom policy, which builds the candidate's messages in every case."""
    policy_code: Any = None
    """Function of that policy."""
    record_policies: Mapping[str, PluginPlan] = {}
    """Custom policies of the cases that name them."""
    record_policy_code: Mapping[str, Any] = {}
    """Function of each of these policies."""


def settings_of(plan: Plan) -> GradingSettings:
    """Extract the grading settings of a plan."""
    return GradingSettings(
        candidate=plan.candidate.name,
        judges=tuple(judge.name for judge in plan.judges),
        system_prompt=plan.system_prompt,
        panel=plan.panel,
        has_answers=plan.response_source != "sampled",
        tools=plan.offered_tools,
        has_native_tools=plan.has_native_tools,
        tool_outputs=plan.tool_outputs,
        tool_calls=plan.tool_calls,
        profile=plan.profile,
        checks=plan.checks,
        pass_rule=plan.pass_rule,
        graders=plan.graders,
        grader_plugins=plan.grader_plugins(),
        grader=plan.grader(),
        policy=plan.policy(),
        record_policies=plan.record_policies(),
        # By name, so that a rule that is added to both structs cannot be forgotten here.
        **{name: getattr(plan, name) for name in GradingRules.__struct_fields__},
    )


class GradingMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One grading method: everything that distinguishes it from the others."""

    about: str
    """Description of the records, to follow on "records that are"."""
    flow: Callable[["GradingAssignment"], Flow]
    """Sends requests and returns a grade."""
    names: Callable[["GradingAssignment"], tuple[str, str]]
    """Ids of the evaluator and of the template that determines the grade; the latter is empty when there is none."""
    evaluators: tuple[str, ...]
    """All ids that evaluators of this method may have; empty when plugins choose them."""
    needs_judge: bool
    """Grades by a judge, unless the answer itself makes one unnecessary."""
    scale: Literal["0-1", "0/1", "1-5"]
    """Scale of a score before it is normalized to 0..1."""
    topics: Callable[["GradingAssignment", str | None], tuple[ReplySpec, ...]]
    """Judges' questions, given the answer, for reading replies back from the log. Empty when no judge is called."""
    texts: Callable[["GradingAssignment"], Iterable[str]] = lambda _: ()
    """Ids of templates that only this method adds."""


class GradingProvenance(msgspec.Struct, frozen=True):
    """Grading method, template and policy of a case, as every prediction names them."""

    evaluator: str
    """Id and version of the grading method."""
    template: str
    """Id and version of the template that determines the grade: the judge's, or that of the answer's form when a program grades;
    empty when neither has one."""
    policy: str
    """Id of the policy."""
    others: tuple[str, ...] = ()
    """Ids of further texts in the prompts of the candidate or the judge."""
    prompt: JudgePrompt | None = None
    """The user's prompt of the judge, which is its template."""

    @property
    def template_sha256(self) -> str:
        """Hash all texts in the prompts of the candidate and the judge."""
        if self.prompt is not None:
            return _custom_sha256(self.others, self.prompt.id, self.prompt.sha256)
        return texts_sha256(tuple(filter(None, (self.template, *self.others))))


@lru_cache(maxsize=256)
def _custom_sha256(template_ids: tuple[str, ...], prompt_id: str, sha256: str) -> str:
    """Hash our texts and a prompt of the user, as `texts_sha256` does."""
    known = {template_id: load_template(template_id).sha256 for template_id in template_ids}
    return sha256_hex(canonical_json({**known, prompt_id: sha256}))


class GradingAssignment(msgspec.Struct, frozen=True):
    """One case, its grading method, its policy, and the run's settings."""

    case: Case
    settings: GradingSettings
    policy: Policy
    method: GradingMethod
    flags: tuple[str, ...] = ()
    """Flags about the policy."""
    attachments: Mapping[str, str] = NO_ATTACHMENTS
    """Texts of the case's attachments by path."""
    custom_policy: PluginPlan | None = None
    """Plugin that builds the candidate's messages: the run's policy, or the one that the case names."""

    @property
    def graded_by(self) -> GradingProvenance:
        """Return how the case is graded, unless its answer makes an unexpected tool call."""
        evaluator, template_id = self.method.names(self)
        if self.custom_policy and template_id == MCQ_ANSWER:
            # A plugin builds the prompt, so our template is not in it.
            template_id = ""
        prompt = self.settings.prompt
        if prompt is not None:
            return GradingProvenance(evaluator, prompt.id, self.policy.id, (template_id, *self._others(template_id)), prompt)
        return GradingProvenance(evaluator, template_id, self.policy.id, self._others(template_id))

    @property
    def policy_code(self) -> Any:
        """Return the function that builds messages of the case under its custom policy."""
        settings = self.settings
        return settings.policy_code if settings.policy else settings.record_policy_code[self.policy.id]

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Return the criteria of the case, else of the run, else one for the answer as a whole."""
        return self.case.criteria or tuple(Criterion(name, name) for name in self.settings.criteria) or (DEFAULT_CRITERION,)

    def sign(self, grade: Grade, *, by: GradingProvenance | None = None) -> Grade:
        """Add to a grade what every prediction names: evaluator, template and policy, and the flags of the policy."""
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
        """List the texts besides the template."""
        # The hash of a grade covers every text in the prompts: two runs with equal hashes were asked in the same words.
        question = (self.policy.question_template,) if self.policy.question_template else ()
        if self.case.task == "mcq":
            return () if self.custom_policy else (*question, choice_task(self.case, self.settings))
        is_described = not self.settings.has_native_tools and not self.custom_policy
        has_tools = template_id != TOOL_CALL and is_described and offered_tools(self.case, self.settings.tools)
        tools = (TOOL_CALL,) if has_tools else ()
        fields = (OPEN_FIELD,) if question_fields(self.case) or grading_fields(self.case) else ()
        return (*question, *fields, *tools, *(self._of_judges() if self.method.needs_judge else ()), *self.method.texts(self))

    def _of_judges(self) -> tuple[str, ...]:
        """List the texts in every judge's prompt, regardless of the method."""
        # Judges are asked for their confidence only where it decides something; without it prompts and caches stay as they were.
        is_confident = self.settings.panel.escalate and len(self.settings.judges) > 1
        return (ASK_AGAIN, CONFIDENCE) if is_confident else (ASK_AGAIN,)


def choice_task(case: Case, settings: GradingSettings) -> str:
    """Choose the template that says how many choices to select."""
    # A set, because a dataset may list the one correct choice twice.
    if len(set(case.correct_choice_ids)) < 2:
        return "mcq_one/1"
    return "mcq_several/1" if settings.mcq_mode == "exact" else "mcq_any/1"


def kind_of(case: Case) -> MethodKind | None:
    """Return the method for a case, in a run without a custom grader; None for a task that cannot be graded."""
    # Words of a turn are judged; expected tool calls are compared, and need no judge.
    if compares_calls(case):
        expected = expected_calls(case)
        if case.references and not expected and case.call_matching is msgspec.UNSET:
            return "turn"
        return kind_of_calls(expected)
    return kind_for(case.contract, case.task)


def kind_of_calls(calls: Iterable[ExpectedCall]) -> MethodKind:
    """Return the method for a record that expects these calls."""
    return "judged_tool_call" if any(has_judge_rule(call.rules) for call in calls) else "tool_call"


def kind_for(contract: str, task: str) -> MethodKind | None:
    """Return the method for a record of which only contract and task are known; only conversations may have tools."""
    return "five_point" if contract == "golden_v1" and task != "pairwise" else _KINDS.get(task)
