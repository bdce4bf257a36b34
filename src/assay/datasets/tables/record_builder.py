"""Rows of a table into records of a contract, with what keeps a row from becoming one."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from assay.core.canonical import JsonObject
from assay.core.settings import ColumnSection
from assay.datasets.converters.rows import choice_id
from assay.datasets.tables.cell_values import (
    MISSING,
    AnswerKey,
    CellProblem,
    UnfitCell,
    cell,
    correct_choices,
    criteria_of,
    identifier_of,
    messages_of,
    object_in,
    plain,
    text_of,
    texts_of,
)
from assay.datasets.tables.column_names import folded
from assay.datasets.tables.column_roles import choices_in
from assay.datasets.tables.column_writer import RecordIds
from assay.datasets.tables.table_rows import METADATA_NAMES, TableRow, is_blank, listed_columns

_encode = msgspec.json.Encoder().encode


class BuiltRecord(NamedTuple):
    """A record of the contract; of a row that cannot be one, a record without its question, and why."""

    record: JsonObject
    problem: CellProblem | None = None


class RecordBuilder:
    """Builds the records of one table."""

    def __init__(self, columns: ColumnSection, *, contract: str, dataset: str, ids: RecordIds | None = None) -> None:
        self.contract = contract
        self._columns = columns
        self._dataset = dataset
        self._ids = ids or RecordIds()
        self._choices = listed_columns(columns.choices)
        self._context = listed_columns(columns.context)
        self._metadata = listed_columns(columns.metadata)
        roles = msgspec.structs.asdict(columns)
        used = {name for role, value in roles.items() if role not in ("metadata", "first_choice") for name in listed_columns(value)}
        self._used = used
        self._inside = {name.partition(".")[0] for name in used if "." in name}
        """Columns of which only members are used."""

    def build(self, row: TableRow) -> BuiltRecord:
        """Build the record of a row that is not empty."""
        try:
            if row.problem:
                raise UnfitCell(row.problem, "")
            parts = self._parts(row.cells)
        except UnfitCell as unfit:
            # Like any invalid record it keeps its id and its metadata, by which it belongs to slices.
            return BuiltRecord(self._without_question(row), unfit.problem)
        return BuiltRecord(self._batch(row, parts) if self.contract == "batch_v1" else self._legal(row, parts))

    def _parts(self, cells: Mapping[str, object]) -> JsonObject:
        columns = self._columns
        parts = self._question(cells)
        context = self._context_of(cells)
        if context:
            parts["context"] = context
        if self._choices:
            return parts | self._choice_parts(cells)
        if columns.rubric:
            parts["rubric"] = criteria_of(cell(cells, columns.rubric), columns.rubric)
        if columns.reference:
            references = texts_of(cell(cells, columns.reference), columns.reference)
            if not references and not columns.rubric and self.contract != "batch_v1":
                message = f"the row has no reference answer: the column {columns.reference!r} is empty"
                raise UnfitCell(message, columns.reference, code=MISSING)
            parts["reference_answers"] = references
        return parts

    def _question(self, cells: Mapping[str, object]) -> JsonObject:
        columns = self._columns
        if not columns.messages or is_blank(found := cell(cells, columns.messages)):
            column = columns.prompt or columns.messages
            value = cell(cells, columns.prompt) if columns.prompt else None
            if is_blank(value):
                raise UnfitCell(f"the row has no question: the column {column!r} is empty", column, code=MISSING)
            return {"prompt": text_of(value, column)}
        messages = messages_of(found, columns.messages)
        parts: JsonObject = {}
        # What the assistant said last is the answer: the candidate must not see it, and is to write it.
        if messages and messages[-1]["role"] == "assistant":
            last = messages.pop()["content"]
            if not columns.reference:
                parts["reference_answers"] = [last]
        asked = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
        if not asked:
            raise UnfitCell("the row has no question: no message of a user before the last answer", columns.messages, code=MISSING)
        parts["prompt"] = text_of(cell(cells, columns.prompt), columns.prompt) if columns.prompt else asked
        return parts if len(messages) == 1 and not columns.prompt else {**parts, "messages": messages}

    def _context_of(self, cells: Mapping[str, object]) -> str:
        found = {name: "\n\n".join(texts_of(value, name)) for name in self._context if not is_blank(value := cell(cells, name))}
        if len(self._context) == 1:
            return next(iter(found.values()), "")
        return "\n\n".join(f"{name.rpartition('.')[2]}: {text}" for name, text in found.items())

    def _choice_parts(self, cells: Mapping[str, object]) -> JsonObject:
        column, answer = self._choices[0], self._columns.answer
        choices = choices_in(cells, self._choices)
        value = cell(cells, answer)
        if not choices and not is_blank(value) and texts_of(value, answer) and self.contract != "batch_v1":
            # A question without choices among others that have them: its answer is one to compare with.
            return {"reference_answers": texts_of(value, answer)}
        if len(choices) < 2:
            raise UnfitCell(f"the row has {len(choices)} choice(s); at least 2 are needed", column, code="value_out_of_range")
        if is_blank(value):
            message = f"the row does not say which choice is correct: the column {answer!r} is empty"
            raise UnfitCell(message, answer, code=MISSING)
        right = correct_choices(value, choices, AnswerKey(answer, self._columns.first_choice))
        order = list(range(len(choices)))
        if answer in self._choices:
            # The right one has a column of its own: always in the same place, it would be found by its place.
            order.sort(key=lambda at: hashlib.blake2b(choices[at].text.encode("utf-8", "replace")).digest())
        places = {at: choice_id(position, "stable") for position, at in enumerate(order)}
        return {
            "choices": [{"id": places[at], "text": choices[at].text} for at in order],
            "correct_choice_ids": [places[at] for at in right],
        }

    def _legal(self, row: TableRow, parts: JsonObject) -> JsonObject:
        task = "mcq" if "choices" in parts else "rubric_qa" if parts.get("rubric") else "reference_qa"
        record: JsonObject = {
            "schema_version": "legal_eval_v1",
            "id": self._id(row, parts),
            "dataset": self._dataset,
            "task_type": task,
            "prompt": parts["prompt"],
        }
        for name in ("context", "messages", "rubric", "reference_answers", "choices", "correct_choice_ids"):
            if parts.get(name):
                record[name] = parts[name]
        metadata = self._row_metadata(row.cells)
        return {**record, "metadata": metadata} if metadata else record

    def _batch(self, row: TableRow, parts: JsonObject) -> JsonObject:
        record: JsonObject = {"record_id": self._id(row, parts), "input": {"prompt": parts["prompt"]}}
        record["input"] |= {name: parts[name] for name in ("context", "messages", "choices") if parts.get(name)}
        references = parts.get("reference_answers") or []
        reference: JsonObject = {"answer": references[0]} if references else {}
        reference |= {"answers": references[1:]} if len(references) > 1 else {}
        reference |= {name: parts[name] for name in ("rubric", "correct_choice_ids") if parts.get(name)}
        metadata = self._row_metadata(row.cells)
        return record | ({"reference": reference} if reference else {}) | ({"metadata": metadata} if metadata else {})

    def _without_question(self, row: TableRow) -> JsonObject:
        found, metadata = self._id(row, {}), self._row_metadata(row.cells)
        named = {"metadata": metadata} if metadata else {}
        if self.contract == "batch_v1":
            return {"record_id": found, "input": {}, **named}
        record = {"schema_version": "legal_eval_v1", "id": found, "dataset": self._dataset}
        # Complete apart from the question, so that the contract finds one error, which the row's own problem replaces.
        if self._choices:
            choices = [{"id": "A", "text": "-"}, {"id": "B", "text": "-"}]
            return {**record, "task_type": "mcq", "choices": choices, "correct_choice_ids": ["A"], **named}
        if self._columns.rubric:
            return {**record, "task_type": "rubric_qa", "rubric": [{"id": "c1", "title": "-"}], **named}
        return {**record, "task_type": "reference_qa", "reference_answers": ["-"], **named}

    def _id(self, row: TableRow, parts: JsonObject) -> str:
        column = self._columns.id
        value = cell(row.cells, column) if column else None
        if not is_blank(value):
            return identifier_of(value)
        if not parts:
            return self._ids.of(b"row %d" % row.number)
        # The question makes the id, so that rows can be moved and inserted, and references corrected, without changing it.
        asked = [parts["prompt"], parts.get("context", ""), *(choice["text"] for choice in parts.get("choices", ()))]
        texts = [_encode(text)[1:-1] for text in asked if text]
        return self._ids.of(b"\0".join([*texts, *([_encode(parts["messages"])] if "messages" in parts else [])]))

    def _row_metadata(self, cells: Mapping[str, object]) -> JsonObject:
        if self._metadata:
            return {name: plain(value) for name in self._metadata if not is_blank(value := cell(cells, name))}
        metadata: JsonObject = {}
        for name, value in cells.items():
            if name in self._used or is_blank(value):
                continue
            members = object_in(value) if name in self._inside or folded(name) in METADATA_NAMES else None
            if members is None:
                metadata[name] = plain(value)
            elif name in self._inside:
                unused = {member: plain(inner) for member, inner in members.items() if f"{name}.{member}" not in self._used}
                metadata |= {name: unused} if unused else {}
            else:
                metadata |= {str(member): plain(inner) for member, inner in members.items() if member not in metadata}
        return metadata
