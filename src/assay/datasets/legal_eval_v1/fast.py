"""The fast lane of legal_eval_v1: typed decoding accepts clean rows, all others are left to the exact rules."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from assay.datasets.lane import Kind, Lane, Written
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.shallow import ShallowObject

_Filled = Annotated[str, Meta(min_length=1)]
_LARGEST = 1e308
"""Integers that no double can hold are larger; the exact rules look at them."""


class _Message(msgspec.Struct, gc=False):
    role: Literal["user", "assistant", "system"]
    content: _Filled


class _Attachment(msgspec.Struct, gc=False):
    path: _Filled
    kind: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class _Criterion(msgspec.Struct, gc=False):
    id: _Filled
    title: _Filled
    description: str | UnsetType = UNSET
    weight: int | float | UnsetType = UNSET


class _Choice(msgspec.Struct, gc=False):
    id: _Filled
    text: _Filled


class _Row(msgspec.Struct, gc=False, tag_field="task_type", kw_only=True, forbid_unknown_fields=True):
    schema_version: Literal["legal_eval_v1"]
    id: _Filled
    dataset: _Filled
    prompt: _Filled
    context: str | UnsetType = UNSET
    messages: list[_Message] | UnsetType = UNSET
    attachments: list[_Attachment] | UnsetType = UNSET
    metadata: ShallowObject | UnsetType = UNSET


class _Rubric(_Row, gc=False, tag="rubric_qa", kw_only=True, forbid_unknown_fields=True):
    rubric: Annotated[list[_Criterion], Meta(min_length=1)]
    reference_answers: list[str] | UnsetType = UNSET


class _Reference(_Row, gc=False, tag="reference_qa", kw_only=True, forbid_unknown_fields=True):
    reference_answers: Annotated[list[_Filled], Meta(min_length=1)]


class _Mcq(_Row, gc=False, tag="mcq", kw_only=True, forbid_unknown_fields=True):
    choices: Annotated[list[_Choice], Meta(min_length=2)]
    correct_choice_ids: Annotated[list[str], Meta(min_length=1)]


class Clean(msgspec.Struct, frozen=True, gc=False):
    """What the fast lane knows of an accepted row."""

    id: str
    warned: tuple[str, ...] = ()
    """Kinds of warnings that the exact rules have for the row."""
    row: Any = None
    """All of it."""


_TYPES = {"rubric_qa": _Rubric, "reference_qa": _Reference, "mcq": _Mcq}
_ODD_ESCAPE = re.compile(rb"\\u00(?:00|22)")


def clean_rows(lane: Lane[Any], lines: Sequence[bytes]) -> list[Clean | None]:
    """For each line what is known of a clean row; None asks for the exact rules."""
    rows = lane.clean_rows(lines)
    return [_with_unknown(line) if row is None else Clean(row.id, warned(row), row) for line, row in zip(lines, rows, strict=True)]


def _with_unknown(line: bytes) -> Clean | None:
    """A row that is clean but for unknown fields, which are allowed; a name that appears twice is not."""
    try:
        members = orjson.loads(line)
        unknown = rules.unknown_fields(members) if type(members) is dict else []
        if not unknown or line.count(b'"') != orjson.dumps(members).count(b'"') or _ODD_ESCAPE.search(line):
            return None
        known = {name: members[name] for name in rules.FIELDS if name in members}
        row = msgspec.convert(known, _TYPES[members["task_type"]])
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, msgspec.ValidationError, KeyError, TypeError):
        return None
    kinds = (f"unsupported_field.{name}" for name in unknown)
    return Clean(row.id, (*kinds, *warned(row)), row) if _Parts([row]).are_clean() else None


def has_rubric(row: _Row) -> bool:
    """True for a row that is graded by a rubric."""
    return type(row) is _Rubric


def warned(row: _Row) -> tuple[str, ...]:
    """The messages are sent and the prompt is shown; a row in which they differ gets a warning."""
    if row.messages is UNSET:
        return ()
    last = row.messages[-1]
    if last.role != "user":
        return ("suspicious_value.messages.role",)
    # Mostly they are the same, which is quicker to see than that one is in the other.
    is_sent = row.prompt == last.content or row.prompt.strip() in last.content
    return () if is_sent else ("suspicious_value.messages.content",)


class _Parts:
    """The parts of many rows, each kind in one list: a look at a whole list costs a fraction of one at each row."""

    def __init__(self, rows: Sequence[Any]) -> None:
        of_type: dict[type, list[Any]] = {_Rubric: [], _Reference: [], _Mcq: []}
        for row in rows:
            of_type[type(row)].append(row)
        self.rows = rows
        self.graded = of_type[_Rubric]
        self.rubrics = [row.rubric for row in self.graded]
        self.criteria = list(chain.from_iterable(self.rubrics))
        self.weighted = [item for item in self.criteria if item.weight is not UNSET]
        self.answers = [row.reference_answers for row in of_type[_Reference]]
        self.offers = [row.choices for row in of_type[_Mcq]]
        self.choices = list(chain.from_iterable(self.offers))
        self.correct = [row.correct_choice_ids for row in of_type[_Mcq]]
        self.chats = [row.messages for row in rows if row.messages is not UNSET]
        self.messages = list(chain.from_iterable(self.chats))
        self.attachments = [row.attachments for row in rows if row.attachments is not UNSET]
        self.metadata = [row.metadata for row in rows if row.metadata is not UNSET]

    def are_clean(self) -> bool:
        """What types cannot say: nothing blank, ids unique, choices that exist, paths below the folder, something to score."""
        return (
            self._have_clean_ids()
            and not any(map(str.isspace, self._texts()))
            and all(self.chats)
            and not [1 for items in self.attachments for item in items if rules.is_outside(item.path)]
            and not [1 for metadata in self.metadata if type(metadata.get("policy_id", "")) is not str]
            and self._have_clean_weights()
        )

    def _have_clean_ids(self) -> bool:
        """The ids of criteria and choices: they are the same few in many rows, so that few are looked at."""
        criteria = [{item.id for item in rubric} for rubric in self.rubrics]
        choices = [{choice.id for choice in offer} for offer in self.offers]
        return (
            sum(map(len, criteria)) == len(self.criteria)
            and sum(map(len, choices)) == len(self.choices)
            and all(map(set.issuperset, choices, self.correct))
            and not any(map(str.isspace, set().union(*criteria, *choices)))
        )

    def _texts(self) -> Iterator[str]:
        """All other texts that must not be blank."""
        return chain(
            [row.id for row in self.rows],
            {row.dataset for row in self.rows},
            [row.prompt for row in self.rows],
            [item.title for item in self.criteria],
            [choice.text for choice in self.choices],
            [message.content for message in self.messages],
            [item.path for items in self.attachments for item in items],
            *self.answers,
        )

    def _have_clean_weights(self) -> bool:
        # A few numbers are the weights of most criteria.
        different = {item.weight for item in self.weighted}
        if different and not (min(different) > -_LARGEST and max(different) < _LARGEST):
            return False
        # Mostly the first criterion has a positive weight.
        doubtful = [rubric for rubric in self.rubrics if rubric[0].weight is not UNSET and rubric[0].weight <= 0]
        return all(any(item.weight is UNSET or item.weight > 0 for item in rubric) for rubric in doubtful)

    def written(self) -> Written:
        """Ten strings in every row, a name for each list, and what is in the lists."""
        samples = [row.reference_answers for row in self.graded if row.reference_answers is not UNSET]
        strings = 10 * len(self.rows) + 4 * (len(self.criteria) + len(self.choices) + len(self.messages)) + len(self.weighted)
        strings += 2 * len([1 for row in self.rows if row.context is not UNSET])
        strings += 2 * len([1 for item in self.criteria if item.description is not UNSET])
        strings += sum(map(len, self.correct)) + sum(map(len, self.answers))
        named = (self.rubrics, self.offers, self.correct, self.answers, self.chats, self.attachments, self.metadata, samples)
        return Written(strings + sum(map(len, named)), [self.attachments, samples, self.metadata], self.weighted)


def _proved(rows: Sequence[Any]) -> Written | None:
    parts = _Parts(rows)
    return parts.written() if parts.are_clean() else None


KIND = Kind[Any](msgspec.json.Decoder(_Rubric | _Reference | _Mcq), b"{}", _proved, "weight")
