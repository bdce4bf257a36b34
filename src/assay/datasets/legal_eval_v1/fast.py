"""Fast path of legal_eval_v1: typed decoding accepts clean rows, all others are left to the exact rules."""

import re
from collections.abc import Iterator, Sequence, Sized
from itertools import chain
from typing import Annotated, Literal

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from assay.core.narrow_text import LARGE_BYTES
from assay.core.open_fields import FieldUse
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.parsing.fast_path import FastPath, RowSchema, ShallowObject, StringCounts
from assay.datasets.parsing.record_fields import legal_uses
from assay.datasets.parsing.scan import may_outgrow

_Filled = Annotated[str, Meta(min_length=1)]
_Weight = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | Annotated[float, Meta(gt=-1e308, lt=1e308)]
"""Weights that a double holds exactly; the exact rules check all other integers."""


class _LegalEvalMessage(msgspec.Struct, gc=False, kw_only=True):
    content: _Filled
    role: Literal["user", "assistant", "system"]


class _LegalEvalAttachment(msgspec.Struct, gc=False, kw_only=True):
    kind: str | UnsetType = UNSET
    path: _Filled
    title: str | UnsetType = UNSET


class _LegalEvalCriterion(msgspec.Struct, gc=False, kw_only=True):
    description: str | UnsetType = UNSET
    id: _Filled
    title: _Filled
    weight: _Weight | UnsetType = UNSET


class _LegalEvalChoice(msgspec.Struct, gc=False, kw_only=True):
    id: _Filled
    text: _Filled


# Members stand in the order of their names, so that a row is written as RFC 8785 wants without sorting.
class LegalEvalRow(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A row of any task: a union takes longer to decode, and attributes of one type are faster to read."""

    attachments: list[_LegalEvalAttachment] | UnsetType = UNSET
    choices: Annotated[list[_LegalEvalChoice], Meta(min_length=2)] | UnsetType = UNSET
    context: str | UnsetType = UNSET
    correct_choice_ids: Annotated[list[str], Meta(min_length=1)] | UnsetType = UNSET
    dataset: _Filled
    id: _Filled
    messages: Annotated[list[_LegalEvalMessage], Meta(min_length=1)] | UnsetType = UNSET
    metadata: ShallowObject | UnsetType = UNSET
    prompt: _Filled
    reference_answers: list[str] | UnsetType = UNSET
    rubric: Annotated[list[_LegalEvalCriterion], Meta(min_length=1)] | UnsetType = UNSET
    schema_version: Literal["legal_eval_v1"]
    task_type: Literal["rubric_qa", "reference_qa", "mcq"]


class CleanRow(msgspec.Struct, frozen=True, gc=False):
    """An accepted row, as far as the fast path reads it."""

    id: str
    warned: tuple[str, ...]
    """Kinds of warnings that the exact rules have for the row."""
    row: LegalEvalRow
    """Decoded row."""
    uses: tuple[FieldUse, ...] = ()
    """Fields that no model is sent, for a row with unknown members."""


_ODD_ESCAPE = re.compile(rb"\\u00(?:00|22)")


def clean_rows(fast_path: FastPath[LegalEvalRow], lines: Sequence[bytes]) -> list[CleanRow | None]:
    """Return the clean row of each line; None sends a line to the exact rules."""
    rows = fast_path.clean_rows(lines)
    return [
        _clean_with_unknown(line) if row is None else CleanRow(row.id, warning_kinds(row), row)
        for line, row in zip(lines, rows, strict=True)
    ]


def _clean_with_unknown(line: bytes) -> CleanRow | None:
    """Read a row that is clean except for unknown fields, which are allowed; None if a name appears twice."""
    if len(line) > LARGE_BYTES or may_outgrow(line):
        return None
    try:
        members = orjson.loads(line)
        unknown = rules.unknown_fields(members) if type(members) is dict else []
        # Equal numbers of quotation marks prove that no name appeared twice, unless one is written as \u0022.
        if not unknown or line.count(b'"') != orjson.dumps(members).count(b'"') or _ODD_ESCAPE.search(line):
            return None
        known = {name: members[name] for name in rules.FIELDS if name in members}
        row = msgspec.convert(known, LegalEvalRow)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, msgspec.ValidationError):
        return None
    kinds = (f"unsupported_field.{name}" for name in unknown)
    is_clean = members.keys().isdisjoint(rules.FORBIDDEN[row.task_type]) and _RowParts([row]).are_clean()
    return CleanRow(row.id, (*kinds, *warning_kinds(row)), row, tuple(legal_uses(members))) if is_clean else None


def has_rubric(row: LegalEvalRow) -> bool:
    """Return whether a row is graded by a rubric."""
    return row.task_type == "rubric_qa"


def warning_kinds(row: LegalEvalRow) -> tuple[str, ...]:
    """List the warnings of a row whose messages and prompt differ: the messages are sent, the prompt is shown."""
    if row.messages is UNSET:
        return ()
    last = row.messages[-1]
    if last.role != "user":
        return ("suspicious_value.messages.role",)
    # Mostly they are the same, which is quicker to see than that one is in the other.
    is_sent = row.prompt == last.content or row.prompt.strip() in last.content
    return () if is_sent else ("suspicious_value.messages.content",)


class _RowParts:
    """Parts of many rows, each kind in one list: checking a whole list costs a fraction of checking each row."""

    def __init__(self, rows: Sequence[LegalEvalRow]) -> None:
        # Fields of another task are not collected and so not counted: a row that has one holds more strings than expected.
        of_task: dict[str, list[LegalEvalRow]] = {"rubric_qa": [], "reference_qa": [], "mcq": []}
        for row in rows:
            of_task[row.task_type].append(row)
        self.rows = rows
        self.graded = of_task["rubric_qa"]
        self.rubrics = [row.rubric for row in self.graded if row.rubric is not UNSET]
        self.criteria = list(chain.from_iterable(self.rubrics))
        self.weighted = [item for item in self.criteria if item.weight is not UNSET]
        self.answers = [row.reference_answers for row in of_task["reference_qa"] if row.reference_answers is not UNSET]
        self.offers = [row.choices for row in of_task["mcq"] if row.choices is not UNSET]
        self.choices = list(chain.from_iterable(self.offers))
        self.correct = [row.correct_choice_ids for row in of_task["mcq"] if row.correct_choice_ids is not UNSET]
        self.chats = [row.messages for row in rows if row.messages is not UNSET]
        self.messages = list(chain.from_iterable(self.chats))
        self.enclosed = [row.attachments for row in rows if row.attachments is not UNSET]
        self.attachments = list(chain.from_iterable(self.enclosed))
        self.metadata = [row.metadata for row in rows if row.metadata is not UNSET]

    def are_clean(self) -> bool:
        """Check what types cannot express: no blank text, unique ids, known choices, paths below the folder, a positive weight."""
        return (
            self._are_whole()
            and self._have_clean_ids()
            and not any(map(str.isspace, self._texts()))
            and not [1 for item in self.attachments if rules.is_outside(item.path)]
            and not [1 for metadata in self.metadata if type(metadata.get("policy_id", "")) is not str]
            and self._have_clean_weights()
        )

    def _are_whole(self) -> bool:
        """Check that every row has what its task needs; fields of another task are not counted, so the string count differs."""
        has_all = len(self.rubrics) + len(self.answers) + len(self.offers) == len(self.rows) and len(self.correct) == len(
            self.offers
        )
        return has_all and all(self.answers) and all(chain.from_iterable(self.answers))

    def _have_clean_ids(self) -> bool:
        """Check the ids of criteria and choices: the same few occur in many rows, so that few are compared."""
        # Sets, because ids such as c1 to c9 repeat from row to row and are checked for blanks once.
        criteria = [{item.id for item in rubric} for rubric in self.rubrics]
        choices = [{choice.id for choice in offer} for offer in self.offers]
        return (
            sum(map(len, criteria)) == len(self.criteria)
            and sum(map(len, choices)) == len(self.choices)
            and all(map(set.issuperset, choices, self.correct))
            and not any(map(str.isspace, set().union(*criteria, *choices)))
        )

    def _texts(self) -> Iterator[str]:
        """Iterate over all other texts that must not be blank."""
        return chain(
            [row.id for row in self.rows],
            {row.dataset for row in self.rows},
            [row.prompt for row in self.rows],
            [item.title for item in self.criteria],
            [choice.text for choice in self.choices],
            [message.content for message in self.messages],
            [item.path for item in self.attachments],
            *self.answers,
        )

    def _have_clean_weights(self) -> bool:
        # Mostly the first criterion has a positive weight.
        doubtful = [rubric for rubric in self.rubrics if rubric[0].weight is not UNSET and rubric[0].weight <= 0]
        return all(any(item.weight is UNSET or item.weight > 0 for item in rubric) for rubric in doubtful)

    def count_strings(self) -> StringCounts:
        """Count ten strings in every row, names and texts of optional fields, a name for each list, and strings in lists."""
        samples = [row.reference_answers for row in self.graded if row.reference_answers is not UNSET]
        # A pair is a name and a text; the five are dataset, id, prompt, schema_version and task_type, which every row has.
        pairs = 5 * len(self.rows) + 2 * (len(self.criteria) + len(self.choices) + len(self.messages)) + len(self.attachments)
        pairs += len([1 for row in self.rows if row.context is not UNSET])
        pairs += len([1 for item in self.criteria if item.description is not UNSET])
        pairs += len([1 for item in self.attachments if item.kind is not UNSET])
        pairs += len([1 for item in self.attachments if item.title is not UNSET])
        texts = (self.correct, self.answers, samples)
        names: tuple[Sized, ...] = (self.weighted, self.rubrics, self.offers, self.chats, self.enclosed, self.metadata, *texts)
        singles = sum(map(len, names)) + sum(map(len, chain(*texts)))
        return StringCounts(2 * pairs + singles, self.metadata, self.weighted)


def _count_strings(rows: Sequence[LegalEvalRow]) -> StringCounts | None:
    parts = _RowParts(rows)
    return parts.count_strings() if parts.are_clean() else None


ROW_SCHEMA = RowSchema(msgspec.json.Decoder(LegalEvalRow), b"{}", _count_strings, "weight")
