"""Rows of LEXam into reference_qa rows (open questions) and mcq rows."""

import re

import msgspec

from assay.core.canonical import JsonObject
from assay.datasets.converters.canonical import Row, RowDraft, RowOrigin, choice_id, digest, finish
from assay.datasets.converters.columns import RowRefused, SourceColumns, is_empty, list_cell, option_text, whole_number

METADATA = ("course", "language", "area", "jurisdiction", "year")

_VARIANT = re.compile(r"([0-9]+)_choices", re.ASCII)


class _IdParts(msgspec.Struct, frozen=True):
    """The parts of a row's ids: `subset` tells the variants of one question apart."""

    kind: str
    source_id: str
    subset: str
    origin: RowOrigin
    suffix: str = ""

    def row_id(self) -> str:
        if self.origin.id_style == "upstream":
            return f"lexam:{self.kind}:{self.source_id}:{self.origin.line}{self.suffix}"
        return f"lexam:{self.kind}:{self.subset}:{self.source_id}"


def convert(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """The canonical row of one question, or one row for each size of its choice list; raises RowRefused."""
    stated = columns.text("question_type").lower()
    if stated not in ("", "open", "mcq"):
        raise RowRefused(f"the question type {stated!r} is neither 'open' nor 'mcq'")
    variants = _variants(columns)
    if stated == "open" or (not stated and "choices" not in columns and not variants):
        return (_open(columns, origin),)
    if "choices" in columns or not variants:
        return (_mcq(columns, origin),)
    return tuple(_variant(columns, origin, name=name) for name in variants)


def _variants(columns: SourceColumns) -> list[str]:
    return [name for name in columns if _VARIANT.fullmatch(name) and name in columns]


def _open(columns: SourceColumns, origin: RowOrigin) -> Row:
    answer = columns.text("answer")
    if not answer:
        raise RowRefused("an open question without an answer")
    source_id = _source_id(columns, origin, content=[answer])
    naming = _IdParts("open", source_id, columns.text("source_subset") or "open_question", origin)
    draft = RowDraft(
        id=naming.row_id(),
        dataset="lexam",
        task_type="reference_qa",
        prompt=columns.text("question"),
        metadata=_metadata(columns, naming, policy="lexam_oq_v1"),
        reference_answers=[answer],
    )
    return finish(draft)


def _mcq(columns: SourceColumns, origin: RowOrigin) -> Row:
    texts = _options(columns, "choices")
    gold = whole_number(columns.get("gold"), "gold")
    source_id = _source_id(columns, origin, content=texts)
    subset = columns.text("source_subset") or f"mcq_{len(texts)}_choices"
    return _mcq_row(columns, _IdParts("mcq", source_id, subset, origin), texts=texts, gold=gold)


def _variant(columns: SourceColumns, origin: RowOrigin, *, name: str) -> Row:
    """One of the lists `4_choices` to `32_choices` that the perturbation file holds side by side."""
    texts = _options(columns, name)
    gold = whole_number(columns.get(f"{name}_gold"), f"{name}_gold")
    source_id = _source_id(columns, origin, content=[])
    subset = f"{columns.text('source_subset') or 'mcq'}_{name}"
    # The older ids know one row per line; the size of the list keeps the variants of a line apart.
    return _mcq_row(columns, _IdParts("mcq", source_id, subset, origin, suffix=f":{name}"), texts=texts, gold=gold)


def _mcq_row(columns: SourceColumns, naming: _IdParts, *, texts: list[str], gold: int) -> Row:
    if not 0 <= gold < len(texts):
        raise RowRefused(f"gold is {gold}, but the choices are numbered 0 to {len(texts) - 1}")
    style = naming.origin.id_style
    draft = RowDraft(
        id=naming.row_id(),
        dataset="lexam",
        task_type="mcq",
        prompt=columns.text("question"),
        metadata={**_metadata(columns, naming, policy="lexam_mcq_v1"), "gold_index": gold},
        choices=[{"id": choice_id(position, style), "text": text} for position, text in enumerate(texts)],
        correct_choice_ids=[choice_id(gold, style)],
    )
    return finish(draft)


def _options(columns: SourceColumns, name: str) -> list[str]:
    value = columns.get(name)
    if is_empty(value):
        raise RowRefused("a multiple-choice question without choices")
    return [
        option_text(option, f"{columns.shown(name)}[{position}]")
        for position, option in enumerate(list_cell(value, columns.shown(name)))
    ]


def _source_id(columns: SourceColumns, origin: RowOrigin, *, content: list[str]) -> str:
    fallback = f"line_{origin.line}" if origin.id_style == "upstream" else digest(columns.text("question"), content)
    return columns.identifier("id") or fallback


def _metadata(columns: SourceColumns, naming: _IdParts, *, policy: str) -> JsonObject:
    return {
        **{name: columns.get(name) for name in METADATA},
        "question_type": naming.kind,
        "source_id": naming.source_id,
        "policy_id": policy,
    }
