"""Rows of a table into records of a contract, with what keeps a row from becoming one."""

import ast
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.core.canonical import JsonObject
from assay.core.settings import ColumnSection
from assay.datasets.converters.rows import MAX_LITERAL_LENGTH, choice_id
from assay.datasets.tables.column_roles import cell
from assay.datasets.tables.table_rows import TableRow, is_blank

_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
_NUMBER = re.compile(r"[0-9]{1,3}(?:\.0*)?")


class RowProblem(NamedTuple):
    """What is wrong with a row, in the column that has it."""

    code: str
    message: str
    column: str = ""
    hint: str = ""


class UnfitCell(ValueError):
    """A cell that cannot be read as what its column holds."""

    def __init__(self, message: str, column: str, *, code: str = "invalid_field_type", hint: str = "") -> None:
        super().__init__(message)
        self.problem = RowProblem(code, message, column, hint)


class BuiltRecord(NamedTuple):
    """A record of the contract; of a row that cannot be one, a record without its question, and why."""

    record: JsonObject
    problem: RowProblem | None = None


class RecordBuilder:
    """Builds the records of one table."""

    def __init__(self, columns: ColumnSection, *, contract: str, dataset: str, answer_form: str = "") -> None:
        self.contract = contract
        self._columns = columns
        self._dataset = dataset
        self._answer_form = answer_form
        self._ids: dict[str, int] = {}
        self._used = {name for name in _column_list(columns) if name}
        self._choices = _tuple(columns.choices)
        self._metadata = _tuple(columns.metadata)

    def build(self, row: TableRow) -> BuiltRecord:
        """Build the record of a row that is not empty."""
        try:
            if row.problem:
                raise UnfitCell(row.problem, "", code="invalid_field_type")
            parts = self._parts(row.cells)
        except UnfitCell as unfit:
            # Like any invalid record it keeps its id and its metadata, by which it belongs to slices.
            return BuiltRecord(self._without_question(row), unfit.problem)
        return BuiltRecord(self._batch(row, parts) if self.contract == "batch_v1" else self._legal(row, parts))

    def _parts(self, cells: Mapping[str, object]) -> JsonObject:
        columns = self._columns
        prompt, messages = self._question(cells)
        parts: JsonObject = {"prompt": prompt, "messages": messages}
        if columns.context:
            parts["context"] = _context(cell(cells, columns.context), columns.context)
        if self._choices:
            parts |= self._choice_parts(cells)
            return parts
        if columns.rubric:
            parts["rubric"] = _rubric(cell(cells, columns.rubric), columns.rubric)
        if columns.reference:
            parts["reference_answers"] = _references(cell(cells, columns.reference), columns.reference)
        return parts

    def _question(self, cells: Mapping[str, object]) -> tuple[str, list[JsonObject]]:
        columns = self._columns
        messages: list[JsonObject] = []
        if columns.messages and not is_blank(found := cell(cells, columns.messages)):
            messages = _messages(found, columns.messages)
        if columns.prompt:
            value = cell(cells, columns.prompt)
            if is_blank(value):
                raise UnfitCell(f"the row has no question: the column {columns.prompt!r} is empty", columns.prompt, code=_MISSING)
            return text_of(value, columns.prompt), messages
        last = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
        if not last:
            raise UnfitCell("the row has no question: no message of a user", columns.messages, code=_MISSING)
        return last, messages

    def _choice_parts(self, cells: Mapping[str, object]) -> JsonObject:
        column = self._choices[0]
        if len(self._choices) > 1:
            texts = [text_of(value, name) for name in self._choices if not is_blank(value := cell(cells, name))]
        else:
            texts = [text_of(value, column) for value in list_of(cell(cells, column), column)]
        if len(texts) < 2:
            raise UnfitCell(f"the row has {len(texts)} choice(s); at least 2 are needed", column, code="value_out_of_range")
        choices = [{"id": choice_id(position, "stable"), "text": text} for position, text in enumerate(texts)]
        answer = self._columns.answer
        value = cell(cells, answer)
        if is_blank(value):
            raise UnfitCell(f"the row does not say which choice is correct: the column {answer!r} is empty", answer, code=_MISSING)
        right = [choices[at]["id"] for at in correct_positions(value, texts, self._answer_form, answer)]
        return {"choices": choices, "correct_choice_ids": right}

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
        record["input"] |= {name: parts[name] for name in ("context", "messages") if parts.get(name)}
        references = parts.get("reference_answers") or []
        reference = {"answer": references[0]} if references else {}
        reference |= {"answers": references[1:]} if len(references) > 1 else {}
        metadata = self._row_metadata(row.cells)
        return record | ({"reference": reference} if reference else {}) | ({"metadata": metadata} if metadata else {})

    def _without_question(self, row: TableRow) -> dict[str, object]:
        found, metadata = self._id(row, {"prompt": ""}), self._row_metadata(row.cells)
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
            return _id_text(value)
        # The question makes the id, so that rows can be moved and inserted, and references corrected, without changing it.
        named = [parts["prompt"], parts.get("context", ""), [choice["text"] for choice in parts.get("choices", ())]]
        if not parts["prompt"]:
            named = ["row", row.number]
        found = hashlib.blake2b(msgspec.json.encode(named), digest_size=6).hexdigest()
        self._ids[found] = number = self._ids.get(found, 0) + 1
        return f"q-{found}" if number == 1 else f"q-{found}-{number}"

    def _row_metadata(self, cells: Mapping[str, object]) -> dict[str, object]:
        if self._metadata:
            return {name: plain(value) for name in self._metadata if not is_blank(value := cell(cells, name))}
        return {name: plain(value) for name, value in cells.items() if name not in self._used and not is_blank(value)}


_MISSING = "missing_required_field"


def _tuple(value: tuple[str, ...] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _column_list(columns: ColumnSection) -> list[str]:
    roles = msgspec.structs.asdict(columns)
    return [name for role, value in roles.items() if role != "metadata" for name in _tuple(value)]


def text_of(value: object, column: str) -> str:
    """Return a cell as text; numbers and truth values are written out."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
    raise UnfitCell(f"the cell is {_kind(value)}, not text", column)


def plain(value: object) -> object:
    """Return a cell as JSON holds it; NaN is how tables write a missing number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _kind(value: object) -> str:
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, Mapping) else type(value).__name__


def list_of(value: object, column: str) -> list[object]:
    """Return a cell as a list: a list, one written as JSON or as Python writes it, or lines or parts between bars."""
    if isinstance(value, list | tuple):
        return [item for item in value if not is_blank(item)]
    if isinstance(value, Mapping):
        inner = value.get("text", value.get("choices"))
        if isinstance(inner, list | tuple):
            return list(inner)
        return list(value.values())
    if not isinstance(value, str):
        return [] if is_blank(value) else [value]
    text = value.strip()
    if text[:1] in "[{(" and len(text) <= MAX_LITERAL_LENGTH:
        found = literal(text)
        if isinstance(found, list | tuple | dict):
            return list_of(found, column)
    for separator in ("\n", "|", ";"):
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if len(parts) > 1:
            return list(parts)
    return [text] if text else []


def literal(text: str) -> Any:
    """Return the value of a JSON or Python literal; None for any other text. Nothing is executed."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _references(value: object, column: str) -> list[str]:
    if is_blank(value):
        raise UnfitCell(f"the row has no reference answer: the column {column!r} is empty", column, code=_MISSING)
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        found = literal(value.strip()) if len(value) <= MAX_LITERAL_LENGTH else None
        value = found if isinstance(found, list) and found and all(isinstance(item, str) for item in found) else value
    items = value if isinstance(value, list | tuple) else [value]
    return [text_of(item, column) for item in items if not is_blank(item)]


def _context(value: object, column: str) -> str:
    if is_blank(value):
        return ""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        found = literal(value.strip()) if len(value) <= MAX_LITERAL_LENGTH else None
        value = found if isinstance(found, list) and all(isinstance(item, str) for item in found) else value
    if isinstance(value, list | tuple):
        return "\n\n".join(text_of(item, column) for item in value if not is_blank(item))
    return text_of(value, column)


def _rubric(value: object, column: str) -> list[dict[str, object]]:
    if is_blank(value):
        raise UnfitCell(f"the row has no rubric: the column {column!r} is empty", column, code=_MISSING)
    criteria: list[JsonObject] = []
    for position, item in enumerate(_rubric_items(value), 1):
        if isinstance(item, Mapping):
            title = next((item[name] for name in ("title", "criterion", "text", "name", "description") if item.get(name)), None)
            if not isinstance(title, str):
                raise UnfitCell(f"criterion {position} has no title", column, hint='write it like {"title": "...", "weight": 1}')
            extra = {name: item[name] for name in ("description", "weight") if name in item and item[name] != title}
            criteria.append({"id": str(item.get("id", f"c{position}")), "title": title, **extra})
        else:
            criteria.append({"id": f"c{position}", "title": text_of(item, column)})
    return criteria


_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\(?[0-9]{1,2}[.)])\s+")


def _rubric_items(value: object) -> list[object]:
    """Return the criteria of a cell: a list, its JSON, or lines that begin with a bullet or a number; else one criterion."""
    if isinstance(value, str):
        found = literal(value.strip()) if value.lstrip()[:1] == "[" and len(value) <= MAX_LITERAL_LENGTH else None
        if isinstance(found, list) and found:
            return found
        lines = [line for line in value.splitlines() if line.strip()]
        if len(lines) > 1 and all(map(_BULLET.match, lines)):
            return [_BULLET.sub("", line).strip() for line in lines]
        return [value]
    return list(value) if isinstance(value, list | tuple) else [value]


_ROLE_WORDS = {
    "human": "user",
    "user": "user",
    "prompter": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "ai": "assistant",
    "chatgpt": "assistant",
    "system": "system",
    "developer": "system",
}


def _messages(value: object, column: str) -> list[dict[str, object]]:
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        value = literal(value.strip()) if len(value) <= MAX_LITERAL_LENGTH else value
    if not isinstance(value, list | tuple):
        raise UnfitCell("the cell is not a list of messages", column, hint='write it like [{"role": "user", "content": "..."}]')
    messages: list[JsonObject] = []
    for position, item in enumerate(value):
        role = item.get("role", item.get("from")) if isinstance(item, Mapping) else None
        content = item.get("content", item.get("value")) if isinstance(item, Mapping) else None
        if not isinstance(role, str) or role.lower() not in _ROLE_WORDS or not isinstance(content, str):
            raise UnfitCell(f"message {position + 1} has no role and text", column)
        if content.strip():
            messages.append({"role": _ROLE_WORDS[role.lower()], "content": content})
    return messages


def _id_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def correct_positions(value: object, texts: Sequence[str], form: str, column: str) -> list[int]:
    """Return the positions of the correct choices that a cell names by letter, number or text; raises UnfitCell."""
    items = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str) and value.strip()[:1] == "[":
        found = literal(value.strip())
        items = found if isinstance(found, list) else items
    positions = [_position(item, texts, form, column) for item in items]
    return list(dict.fromkeys(positions))


def _position(value: object, texts: Sequence[str], form: str, column: str) -> int:
    text = text_of(value, column)
    if form in ("letter", ""):
        match = _LETTER.fullmatch(text)
        if match and ord(match.group(1).upper()) - ord("A") < len(texts):
            return ord(match.group(1).upper()) - ord("A")
    if form in ("index0", "index1") and _NUMBER.fullmatch(text):
        at = int(text.partition(".")[0]) - (form == "index1")
        if 0 <= at < len(texts):
            return at
    same = [at for at, choice in enumerate(texts) if choice.strip().casefold() == text.strip().casefold()]
    if len(same) == 1:
        return same[0]
    raise UnfitCell(
        f"{text[:60]!r} is not one of the {len(texts)} choices",
        column,
        code="invalid_enum_value",
        hint="write its letter or its text",
    )
