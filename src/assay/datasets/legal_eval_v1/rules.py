"""The rules of legal_eval_v1, applied exactly: a row in, findings and cases out."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from assay.core.canonical import JsonObject
from assay.core.case import Attachment, Case, Choice, Criterion, Message, Task
from assay.core.issue import Finding, Path
from assay.core.tools import METADATA_CALLS
from assay.datasets.parsing.checks import (
    FindingList,
    array_at,
    check_nul,
    check_unique,
    filled_at,
    object_at,
    retype_hint,
    short,
    string_at,
    type_name,
    unknown_members,
    word_at,
)
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.record_fields import LEGAL_ROW, drop_nulls
from assay.datasets.parsing.tool_members import NO_TOOLS, metadata_tools

SCHEMA_VERSION = "legal_eval_v1"
ROLES = ("user", "assistant", "system")
TASK_FIELDS = ("rubric", "reference_answers", "choices", "correct_choice_ids")
# Tables of the contract's task types; `reference_answers` is optional for a rubric and therefore in neither.
FORBIDDEN = {
    "rubric_qa": ("choices", "correct_choice_ids"),
    "reference_qa": ("rubric", "choices", "correct_choice_ids"),
    "mcq": ("rubric", "reference_answers"),
}
"""Fields that a row of the task type must not have."""
REQUIRED = {"rubric_qa": ("rubric",), "reference_qa": ("reference_answers",), "mcq": ("choices", "correct_choice_ids")}
FIELDS = ("schema_version", "id", "dataset", "task_type", "prompt", "context", "messages", "attachments", "metadata", *TASK_FIELDS)

TASKS: dict[str, Task] = {"rubric_qa": "rubric", "reference_qa": "reference", "mcq": "mcq"}
_NEVER_NULL = frozenset(
    ("schema_version", "id", "dataset", "task_type", "prompt", "role", "content", "path", "title", "text", *TASK_FIELDS)
)
MAX_NAMED = 80
"""Maximum number of choices that a hint names."""
_MESSAGE = '{"role": "user", "content": "..."}'
_ATTACHMENT = '{"path": "a/b.pdf"}'
_CRITERION = '{"id": "c1", "title": "...", "weight": 1}'
_CHOICE = '{"id": "A", "text": "..."}'
# Attachments are read and sent to a provider: a path of an untrusted dataset must not reach any other file.
_OUTSIDE = re.compile(r"^(?:[/\\~]|[A-Za-z][A-Za-z0-9+.-]*:)|(?:^|[/\\])\.\.(?:[/\\]|$)|\\|\x00")
"""Absolute, home, drive, URL, UNC and parent paths, and backslashes, which are separators on one system only."""


def check_row(row: object, config: ValidationConfig, *, lists_errors: bool = True) -> FindingList:
    """Check one row by every rule of the contract; without `lists_errors` errors are only counted."""
    found = FindingList("the row", required=_NEVER_NULL, lists_errors=lists_errors)
    members = object_at(found, row, (), like=f'{{"schema_version": "{SCHEMA_VERSION}", ...}}, one object on each line')
    if members is None:
        return found
    if config.null_as_absent:
        drop_nulls(members, LEGAL_ROW)
    for field in ("schema_version", "id", "dataset", "task_type", "prompt"):
        if field not in members:
            found.missing((field,), members=members, known=FIELDS)
    if "schema_version" in members:
        word_at(found, members["schema_version"], ("schema_version",), words=(SCHEMA_VERSION,))
    for field in ("id", "dataset", "prompt"):
        if field in members:
            filled_at(found, members[field], (field,))
    if "context" in members:
        string_at(found, members["context"], ("context",))
    _check_messages(found, members)
    _check_attachments(found, members)
    _check_metadata(found, members)
    _check_task(found, members)
    _check_unknown(found, members)
    check_nul(found, members, ())
    return found


def _check_unknown(found: FindingList, members: Mapping[str, object]) -> None:
    for unknown in unknown_members(members, FIELDS):
        hint = "move it into metadata"
        found.warn("unsupported_field", (unknown.name,), unknown.message, hint=hint, guess=unknown.guess, on_key=True)


def warning_kind(finding: Finding) -> str:
    """Return the part that a warning shares in many rows: the code and the names on the path."""
    return ".".join([finding.code, *(step for step in finding.path if isinstance(step, str))])


def unknown_fields(members: Mapping[str, object]) -> list[str]:
    """List top-level fields that the contract does not name; they are allowed."""
    return [key for key in members if key not in FIELDS]


def _is_null(found: FindingList, members: Mapping[str, object], field: str) -> bool:
    """Warn of a null list, which is read as absent; returns whether it is null."""
    if members[field] is not None:
        return False
    found.warn("null_optional", (field,), f"{field} is null and is read as absent", hint="leave the field out")
    return True


def _check_messages(found: FindingList, members: Mapping[str, object]) -> None:
    # The contract forbids null nowhere explicitly. For optional lists it is what exports write, so it is only a warning.
    if "messages" not in members or _is_null(found, members, "messages"):
        return
    messages = array_at(found, members["messages"], ("messages",), like=f"[{_MESSAGE}, ...]")
    if messages is None:
        return
    if not messages:
        found.warn("suspicious_value", ("messages",), "messages is empty and is read as absent", hint="leave the field out")
        return
    for index, message in enumerate(messages):
        _check_message(found, message, ("messages", index))
    _check_last_message(found, messages, members.get("prompt"))


def _check_message(found: FindingList, value: object, path: Path) -> None:
    message = object_at(found, value, path, like=_MESSAGE)
    if message is None:
        return
    for field in ("role", "content"):
        if field not in message:
            found.missing((*path, field))
    if "role" in message:
        word_at(found, message["role"], (*path, "role"), words=ROLES)
    if "content" in message:
        filled_at(found, message["content"], (*path, "content"))


def _check_last_message(found: FindingList, messages: Sequence[object], prompt: object) -> None:
    """Compare the last message with the prompt: messages are sent, the prompt is for display and for the judge."""
    last = messages[-1]
    path: Path = ("messages", len(messages) - 1)
    if type(last) is not dict or type(prompt) is not str:
        return
    if last.get("role") in ("assistant", "system"):
        found.warn(
            "suspicious_value",
            (*path, "role"),
            "the last message is not from the user",
            hint="the candidate answers the last message",
        )
    elif type(content := last.get("content")) is str and prompt.strip() not in content:
        found.warn(
            "suspicious_value",
            (*path, "content"),
            "the last message differs from prompt",
            hint="messages are sent; prompt is shown",
        )


def _check_attachments(found: FindingList, members: Mapping[str, object]) -> None:
    if "attachments" not in members or _is_null(found, members, "attachments"):
        return
    attachments = array_at(found, members["attachments"], ("attachments",), like=f"[{_ATTACHMENT}, ...]")
    # Whether the file exists is not asked here: the dataset may be validated on another machine than it is run on.
    for index, value in enumerate(attachments or ()):
        path: Path = ("attachments", index)
        attachment = object_at(found, value, path, like=_ATTACHMENT)
        if attachment is None:
            continue
        if "path" not in attachment:
            found.missing((*path, "path"))
        else:
            _check_attachment_path(found, attachment["path"], (*path, "path"))
        for field in ("kind", "title"):
            if field in attachment:
                string_at(found, attachment[field], (*path, field))


def _check_attachment_path(found: FindingList, value: object, path: Path) -> None:
    text = filled_at(found, value, path)
    if text is not None and is_outside(text):
        found.add(
            "value_out_of_range", path, f"path {short(text)} is not a relative path below the dataset's folder", hint="use a/b.pdf"
        )


def is_outside(path: str) -> bool:
    """Return whether a path could leave the dataset's folder."""
    return bool(_OUTSIDE.search(path))


def _check_metadata(found: FindingList, members: Mapping[str, object]) -> None:
    if "metadata" not in members:
        return
    metadata = object_at(found, members["metadata"], ("metadata",), like='{"source": "..."}')
    if metadata is not None and "policy_id" in metadata:
        string_at(found, metadata["policy_id"], ("metadata", "policy_id"))


def _check_task(found: FindingList, members: Mapping[str, object]) -> None:
    if "task_type" not in members:
        return
    task = word_at(found, members["task_type"], ("task_type",), words=tuple(REQUIRED))
    if task is None:
        return
    for field in REQUIRED[task]:
        if field not in members:
            found.missing((field,), hint=f"a row of {task} needs it")
    # Also when it is null: the contract forbids the field, and null_as_absent is there for exports.
    for field in FORBIDDEN[task]:
        if field in members:
            found.add(
                "unsupported_field",
                (field,),
                f"{field} is forbidden in a row of {task}",
                hint=_forbidden_hint(members[field]),
                on_key=True,
            )
    if "rubric" in members and task == "rubric_qa":
        _check_rubric(found, members["rubric"])
    if "reference_answers" in members and task != "mcq":
        _check_references(found, members["reference_answers"], is_required=task == "reference_qa")
    if task == "mcq":
        _check_choices(found, members)


def _forbidden_hint(value: object) -> str:
    return "set null_as_absent: true if an export wrote nulls" if value is None else "remove it or change task_type"


def _check_rubric(found: FindingList, value: object) -> None:
    rubric = array_at(found, value, ("rubric",), like=f"[{_CRITERION}, ...]")
    if rubric is None:
        return
    if not rubric:
        found.add("value_out_of_range", ("rubric",), "rubric is empty; at least one criterion is needed")
    first: dict[str, int] = {}
    weights: list[Any] = []
    for index, criterion in enumerate(rubric):
        _check_criterion(found, criterion, ("rubric", index))
        if type(criterion) is dict:
            check_unique(found, criterion.get("id"), ("rubric", index, "id"), first)
            weights.append(criterion.get("weight", 1.0))
    # A warning: negative weights are legal, but without a positive one no score from 0 to 1 can be formed.
    if weights and all(type(weight) in (int, float) for weight in weights) and not any(weight > 0 for weight in weights):
        found.warn(
            "suspicious_value",
            ("rubric",),
            "no criterion has a positive weight, so the row has no score",
            hint="give one a weight above 0",
        )


def _check_criterion(found: FindingList, value: object, path: Path) -> None:
    criterion = object_at(found, value, path, like=_CRITERION)
    if criterion is None:
        return
    for field in ("id", "title"):
        if field not in criterion:
            found.missing((*path, field))
        else:
            filled_at(found, criterion[field], (*path, field))
    if "description" in criterion:
        string_at(found, criterion["description"], (*path, "description"))
    if "weight" in criterion:
        _check_weight(found, criterion["weight"], (*path, "weight"))


def _check_weight(found: FindingList, value: object, path: Path) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"weight must be a number, not {type_name(value)}"
        found.add("invalid_field_type", path, message, hint=retype_hint("a number", value, like="1.0"))
    elif not _is_finite(value):
        found.add("value_out_of_range", path, "weight must be a finite number")


def _is_finite(value: int | float) -> bool:
    """Return whether a double can hold the value."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _check_references(found: FindingList, value: object, *, is_required: bool) -> None:
    references = array_at(found, value, ("reference_answers",))
    if references is None:
        return
    if is_required and not references:
        found.add("value_out_of_range", ("reference_answers",), "reference_answers is empty; at least one answer is needed")
    for index, answer in enumerate(references):
        check = filled_at if is_required else string_at
        check(found, answer, ("reference_answers", index))


def _check_choices(found: FindingList, members: Mapping[str, object]) -> None:
    ids = _checked_choice_ids(found, members["choices"]) if "choices" in members else None
    if "correct_choice_ids" not in members:
        return
    correct = array_at(found, members["correct_choice_ids"], ("correct_choice_ids",))
    if correct is None:
        return
    if not correct:
        found.add("value_out_of_range", ("correct_choice_ids",), "correct_choice_ids is empty; at least one is needed")
    # Built once and cut: with many choices and many wrong ids the hints alone took quadratic time.
    known = "" if ids is None else f"choices are {', '.join(islice(ids, MAX_NAMED))[:80]}"
    for index, choice_id in enumerate(correct):
        path: Path = ("correct_choice_ids", index)
        text = string_at(found, choice_id, path)
        if text is not None and ids is not None and text not in ids:
            found.add("invalid_enum_value", path, f"{short(text)} is not the id of a choice", hint=known)


def _checked_choice_ids(found: FindingList, value: object) -> dict[str, int] | None:
    """Return the ids of well-formed choices; None when some are unknown, so that nothing is reported twice."""
    choices = array_at(found, value, ("choices",), like=f"[{_CHOICE}, ...]")
    if choices is None:
        return None
    if len(choices) < 2:
        found.add("value_out_of_range", ("choices",), f"choices has {len(choices)} item(s); at least 2 are needed")
    first: dict[str, int] = {}
    known = True
    for index, value in enumerate(choices):
        choice = object_at(found, value, ("choices", index), like=_CHOICE)
        known = known and choice is not None and type(choice.get("id")) is str
        if choice is None:
            continue
        for field in ("id", "text"):
            if field not in choice:
                found.missing(("choices", index, field))
            else:
                filled_at(found, choice[field], ("choices", index, field))
        check_unique(found, choice.get("id"), ("choices", index, "id"), first)
    return first if known else None


def to_case(row: JsonObject, index: int, *, record_sha256: str) -> Case:
    """Convert a valid row to a case."""
    metadata = row.get("metadata", {})
    tools = metadata_tools(metadata) if METADATA_CALLS in metadata else NO_TOOLS
    return Case(
        id=row["id"],
        index=index,
        contract="legal_eval_v1",
        task=TASKS[row["task_type"]],
        dataset=row["dataset"],
        prompt=row["prompt"],
        # `or ()` because null and an empty list are read as absent, with a warning.
        messages=tuple([Message(message["role"], message["content"]) for message in row.get("messages") or ()]),
        model_context=row.get("context", ""),
        references=tuple(row.get("reference_answers") or ()),
        criteria=tuple([_criterion(criterion) for criterion in row.get("rubric") or ()]),
        choices=tuple([Choice(choice["id"], choice["text"]) for choice in row.get("choices") or ()]),
        correct_choice_ids=tuple(row.get("correct_choice_ids") or ()),
        attachments=tuple(
            [Attachment(item["path"], item.get("kind", ""), item.get("title", "")) for item in row.get("attachments") or ()]
        ),
        policy_id=metadata.get("policy_id", ""),
        metadata=metadata,
        extra={key: row[key] for key in unknown_fields(row)},
        tools=tools.tools,
        expected_calls=tools.calls,
        call_matching=tools.matching,
        record_sha256=record_sha256,
    )


def _criterion(value: JsonObject) -> Criterion:
    return Criterion(value["id"], value["title"], value.get("description", ""), float(value.get("weight", 1.0)))
