"""Policies: how the records of a benchmark are presented to the candidate and the judge, by `metadata.policy_id`."""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case, Message, Task
from assay.core.errors import ThirdPartyCode, ThirdPartyError
from assay.core.outcome import GradingFailure
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, TEMPLATE_IDS, TOOL_CALL, load_template
from assay.grading.verdict import CRITERION, RESULT, TENTHS, TENTHS_WITH_LABEL, ReplySchema

DEFAULT_ID = "default"
PAIRWISE_ID = "pairwise_v1"
"""Two given answers are compared; no candidate is called."""
UNKNOWN = "unknown_policy"
"""Flag of a record with an unknown policy, for which the default policy is used."""
UNSUITABLE = "unsuitable_policy"
"""Flag of a record whose policy is for another task; the default policy is used."""

_OF_JUDGES = (ASK_AGAIN, CONFIDENCE)
_OF_TASK: dict[Task, tuple[str, ...]] = {
    "open": ("judge_1_5/1", *(name for name in TEMPLATE_IDS if name.startswith("criterion_")), *_OF_JUDGES),
    "mcq": ("mcq_answer/1", "mcq_one/1", "mcq_several/1", "mcq_any/1"),
    "rubric": ("judge_rubric/1", *_OF_JUDGES),
    "reference": (TOOL_CALL, *_OF_JUDGES),
    "conversation": (TOOL_CALL, *_OF_JUDGES),
    "pairwise": ("judge_pairwise/1", *_OF_JUDGES),
}
"""Templates that every policy for a task uses."""


class JudgeStyle(msgspec.Struct, frozen=True, kw_only=True):
    """Template of a judge's prompt, and the form of the reply."""

    template_id: str
    shape: ReplySchema
    metadata: tuple[str, ...] = ()
    """Members of a record's metadata shown to the judge, each in a separate block."""
    has_background: bool = False
    """A criterion's description only explains it: it is shown in a separate block, and only the title is judged."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts of the candidate and the judge; both get the context of a record under every policy."""

    id: str
    """Id as records name it; another prompt needs another id."""
    tasks: tuple[Task, ...]
    """Tasks that the policy can be used for."""
    takes_system_prompt: bool = False
    """Send the run's system prompt; otherwise the candidate gets only what the record says."""
    question_template: str = ""
    """Template around the question; empty to send the question unchanged."""
    metadata: tuple[str, ...] = ()
    """Members of a record's metadata that the question's template has slots for."""
    criterion: JudgeStyle = JudgeStyle(template_id="judge_criterion/1", shape=CRITERION)
    reference: JudgeStyle = JudgeStyle(template_id="judge_reference/1", shape=TENTHS)

    @property
    def template_ids(self) -> tuple[str, ...]:
        """List all texts that may be in prompts under the policy."""
        named = (self.question_template, self.criterion.template_id, self.reference.template_id)
        return (*filter(None, named), *(template_id for task in self.tasks for template_id in _OF_TASK.get(task, ())))

    @property
    def sha256(self) -> str:
        """Hash the policy and the texts that it names."""
        texts = {template_id: load_template(template_id).sha256 for template_id in self.template_ids}
        return sha256_hex(canonical_json({"policy": msgspec.to_builtins(self), "templates": texts}))


DEFAULT = Policy(id=DEFAULT_ID, tasks=("open", "rubric", "reference", "mcq", "conversation"), takes_system_prompt=True)
_MCQ: tuple[Task, ...] = ("mcq",)

POLICIES: dict[str, Policy] = {
    policy.id: policy
    for policy in (
        DEFAULT,
        Policy(id="prbench_v1", tasks=("rubric",)),
        Policy(
            id="apexv1_extended_v1",
            tasks=("rubric",),
            criterion=JudgeStyle(template_id="judge_result/1", shape=RESULT, has_background=True),
        ),
        Policy(
            id="lexam_oq_v1",
            tasks=("reference",),
            question_template="exam_question/1",
            metadata=("course",),
            reference=JudgeStyle(template_id="judge_exam/1", shape=TENTHS_WITH_LABEL, metadata=("course",)),
        ),
        Policy(id="lexam_mcq_v1", tasks=_MCQ),
        Policy(id="includebase_default_v1", tasks=_MCQ),
        Policy(id="lar_echr_mcq_v1", tasks=_MCQ),
        Policy(id=PAIRWISE_ID, tasks=("pairwise",)),
    )
}
"""All policies by id."""


def custom_policy_of(name: str) -> Policy:
    """Build the policy of a custom function: it makes all candidate messages, and judges are asked as usual."""
    return Policy(id=name, tasks=())


def resolve_policy(policy_id: str, task: str) -> tuple[Policy, tuple[str, ...]]:
    """Find the policy for a record, with a flag that says why it is not the named one."""
    named = POLICIES.get(policy_id or DEFAULT_ID)
    if named is None:
        # Not an error: metadata may name a policy that only another installation has. The flag is in the prediction.
        return DEFAULT, (UNKNOWN,)
    return (named, ()) if task in named.tasks else (DEFAULT, (UNSUITABLE,))


def metadata_text(case: Case, name: str) -> str:
    """Return a member of the record's metadata if it is a text; empty otherwise."""
    value = case.metadata.get(name)
    return value.strip() if isinstance(value, str) else ""


POLICY_ERROR = "policy_error"
"""Failure code of a record for which a policy built no messages."""


def policy_messages(policy: Any, case: Case, *, attachments: Mapping[str, str]) -> tuple[Message, ...]:
    """Call the policy for the candidate's messages; raises GradingFailure when it raises, or returns none."""
    try:
        with ThirdPartyCode():
            # By its signature, so that a policy that needs no attachments has one parameter less.
            takes_attachments = "attachments" in inspect.signature(policy).parameters
            _check_attachments(case, takes_attachments=takes_attachments)
            returned = policy(case, attachments=dict(attachments)) if takes_attachments else policy(case)
    except ThirdPartyError as failure:
        raise GradingFailure(POLICY_ERROR, f"the policy raised {failure}") from failure.problem
    return _messages(returned)


def _check_attachments(case: Case, *, takes_attachments: bool) -> None:
    """Fail instead of silently dropping attachments that the policy cannot take."""
    if case.attachments and not takes_attachments:
        raise GradingFailure(POLICY_ERROR, "the record has attachments, and the policy has no parameter 'attachments' for them")


def _messages(returned: object) -> tuple[Message, ...]:
    if isinstance(returned, str):
        return (Message("user", returned),)
    try:
        # By way of plain values, so that dictionaries and Message structs are accepted alike.
        messages = msgspec.convert(msgspec.to_builtins(returned), tuple[Message, ...])
    except (msgspec.ValidationError, TypeError) as problem:
        raise GradingFailure(POLICY_ERROR, f"the policy returned something other than messages: {problem}") from None
    if not messages:
        raise GradingFailure(POLICY_ERROR, "the policy returned no messages")
    if any(message.role == "tool" and not message.tool_call_id for message in messages):
        raise GradingFailure(POLICY_ERROR, "the policy returned a message of the role 'tool' without the tool_call_id of its call")
    return messages
