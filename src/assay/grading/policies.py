"""Policies: how the records of a benchmark are put to the candidate and to the judge, by `metadata.policy_id`."""

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case, Task
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, TEMPLATE_IDS, TOOL_CALL, load_template
from assay.grading.verdict import CRITERION, RESULT, TENTHS, TENTHS_WITH_LABEL, Shape

DEFAULT_ID = "default"
PAIRWISE_ID = "pairwise_v1"
"""Two answers are compared; nobody is asked for one."""
UNKNOWN = "unknown_policy"
"""Flag of a record whose policy is in no table; the default policy stands in."""
UNSUITABLE = "unsuitable_policy"
"""Flag of a record whose policy is made for another task; the default policy stands in."""

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
    """How a judge is asked: the template, and the form of the reply."""

    template_id: str
    shape: Shape
    metadata: tuple[str, ...] = ()
    """Members of a record's metadata that the judge is shown, each in a block of its own."""
    has_background: bool = False
    """A criterion's description only explains it: it stands in a block of its own, and only the title is judged."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the candidate and of the judge; the context of a record reaches both under every policy."""

    id: str
    """As records name it; another way of asking or judging is another id."""
    tasks: tuple[Task, ...]
    """Tasks that the policy can be used for."""
    takes_system_prompt: bool = False
    """The run's system prompt is sent; otherwise the candidate gets what the record says and nothing besides."""
    question_template: str = ""
    """Frames the question; empty where it is sent as it stands."""
    metadata: tuple[str, ...] = ()
    """Members of a record's metadata that the question's template has slots for."""
    criterion: JudgeStyle = JudgeStyle(template_id="judge_criterion/1", shape=CRITERION)
    reference: JudgeStyle = JudgeStyle(template_id="judge_reference/1", shape=TENTHS)

    @property
    def template_ids(self) -> tuple[str, ...]:
        """All texts that records may be asked with."""
        named = (self.question_template, self.criterion.template_id, self.reference.template_id)
        return (*filter(None, named), *(template_id for task in self.tasks for template_id in _OF_TASK.get(task, ())))

    @property
    def sha256(self) -> str:
        """Hash of the policy and of the texts that it names."""
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


def own_policy(name: str) -> Policy:
    """A policy of the run's own: it says all that the candidate is asked, and judges are asked as usual."""
    return Policy(id=name, tasks=())


def resolved(policy_id: str, task: str) -> tuple[Policy, tuple[str, ...]]:
    """The policy for a record with this policy id and task, and the flag that says why it is not the one that is named."""
    named = POLICIES.get(policy_id or DEFAULT_ID)
    if named is None:
        return DEFAULT, (UNKNOWN,)
    return (named, ()) if task in named.tasks else (DEFAULT, (UNSUITABLE,))


def metadata_text(case: Case, name: str) -> str:
    """A member of the record's metadata when it is a text; empty otherwise."""
    value = case.metadata.get(name)
    return value.strip() if isinstance(value, str) else ""
