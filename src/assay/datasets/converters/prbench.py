"""Rows of PRBench into rubric_qa rows."""

import json
import re
from typing import Any

from assay.datasets.converters.canonical import Row, RowDraft, RowOrigin, digest, finish, older_digest
from assay.datasets.converters.columns import RowRefused, SourceColumns, kind, list_cell

TURNS = 10
"""Columns prompt_0 to prompt_9 and response_0 to response_8."""
METADATA = ("topic", "field", "expert", "category", "decision_type", "economic_pathway", "classified_countries", "scratchpad")

_REFERENCE = re.compile(r"reference.*?([0-9]+)$", re.ASCII)
_WEIGHT = "_weight"


def convert(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """The canonical row of one conversation with its rubric; raises RowRefused."""
    turns = _turns(columns)
    messages = [message for turn in turns for message in _messages(turn)]
    prompts = [message["content"] for message in messages if message["role"] == "user"]
    if not prompts:
        raise RowRefused(f"no prompt in prompt_0 to prompt_{TURNS - 1}")
    rubric = _rubric(columns)
    source_id = columns.identifier("task", "id", "canary") or _content_id(columns, origin, content=[turns, rubric])
    draft = RowDraft(
        id=f"prbench:{source_id}",
        dataset="prbench",
        task_type="rubric_qa",
        prompt=prompts[-1],
        metadata={
            **{name: columns.get(name) for name in METADATA},
            "source_turns": turns,
            "source_id": source_id,
            "policy_id": "prbench_v1",
        },
        messages=messages,
        rubric=rubric,
    )
    return (finish(draft),)


def _content_id(columns: SourceColumns, origin: RowOrigin, *, content: list[Any]) -> str:
    if origin.id_style == "stable":
        return digest(*content)
    return older_digest(json.dumps(dict(columns.row), sort_keys=True, ensure_ascii=False, default=str))


def _turns(columns: SourceColumns) -> list[Row]:
    references = _references(columns)
    return [
        {
            "turn": turn,
            "prompt": columns.text(f"prompt_{turn}"),
            "response": columns.text(f"response_{turn}"),
            "reference_texts": references[turn],
        }
        for turn in range(TURNS)
    ]


def _references(columns: SourceColumns) -> list[list[str]]:
    """Every list column whose name has `reference` in it and ends in a turn's number, in column order."""
    found: list[list[str]] = [[] for _ in range(TURNS)]
    for name in columns:
        match = _REFERENCE.search(name)
        if match and int(match[1]) < TURNS:
            found[int(match[1])] += _reference_texts(columns, name)
    return found


def _reference_texts(columns: SourceColumns, name: str) -> list[str]:
    value = columns.peek(name)
    if not isinstance(value, list) and not (isinstance(value, str) and value.lstrip().startswith("[")):
        return []
    texts = list_cell(columns.get(name), columns.shown(name))
    if not all(isinstance(text, str) for text in texts):
        raise RowRefused(f"{columns.shown(name)} holds something that is not text")
    return [text.strip() for text in texts if text.strip()]


def _messages(turn: Row) -> list[Row]:
    messages = []
    if turn["prompt"]:
        references = [f"Reference Text {number}:\n{text}" for number, text in enumerate(turn["reference_texts"])]
        messages.append({"role": "user", "content": "\n\n".join([*references, turn["prompt"]])})
    if turn["response"]:
        messages.append({"role": "assistant", "content": turn["response"]})
    return messages


def _rubric(columns: SourceColumns) -> list[Row]:
    return [
        _criterion(columns.inside("rubric", item), number)
        for number, item in enumerate(list_cell(columns.get("rubric"), "rubric"), 1)
    ]


def _criterion(cells: SourceColumns, number: int) -> Row:
    annotations = cells.inside("annotations", cells.get("annotations") or {})
    criterion: Row = {"id": cells.identifier("id") or f"criterion_{number}", "title": cells.text("title")}
    description = annotations.text("criteria_description")
    weight = _weight(annotations, criterion["id"])
    if description:
        criterion["description"] = description
    if weight is not None:
        criterion["weight"] = weight
    return criterion


def _weight(annotations: SourceColumns, criterion: str) -> float | None:
    """The weight that `weight_class` names; annotators left weights of other classes behind, some with the other sign."""
    found = {name: annotations.get(name) for name in annotations if name.endswith(_WEIGHT)}
    weights = {name: value for name, value in found.items() if value is not None}
    named = annotations.text("weight_class")
    if named:
        chosen = weights.get(named.lower().replace(" ", "_") + _WEIGHT)
        if chosen is None:
            raise RowRefused(f"criterion {criterion!r} is of class {named!r}, for which it has no weight")
    elif len(weights) > 1:
        raise RowRefused(f"criterion {criterion!r} has {len(weights)} weights and no weight_class to choose by")
    else:
        chosen = next(iter(weights.values()), None)
    return None if chosen is None else _number(chosen, criterion)


def _number(value: object, criterion: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowRefused(f"the weight of criterion {criterion!r} is not a number but {kind(value)}")
    return float(value)
