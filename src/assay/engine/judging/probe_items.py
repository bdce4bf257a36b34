"""What a judge is probed with: questions with answers of known quality, and those that come with the product."""

import hashlib
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.plan import Plan

SHIPPED = "shipped"
_FILE = Path(__file__).with_name("probe_items.json")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question and what there is of answers to it; an empty text is one that nobody has."""

    case: Case
    right: str = ""
    """Known to be right."""
    partial: str = ""
    """Between right and wrong, or an answer of a run, of which nobody knows how good it is."""
    wrong: str
    stray: str
    """A good answer to another question."""
    pair: tuple[str, str] | None = None
    """Two answers to the question, the first of which says more."""


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of a probe and where they come from."""

    items: tuple[Item, ...]
    source: str
    sha256: str
    left_out: int = 0
    """Records that cannot be used."""
    run: Plan | None = None
    """The plan of the run that the answers come from."""


class _Shipped(msgspec.Struct, frozen=True):
    """A question as it is shipped."""

    id: str
    question: str
    reference: str
    good: str
    middle: str
    bad: str


def shipped_items(limit: int | None = None) -> Items:
    """The questions that come with the product."""
    stored = _FILE.read_bytes()
    rows = msgspec.json.decode(stored, type=list[_Shipped])[:limit]
    items = tuple(
        Item(
            case=_case(row, index),
            right=row.good,
            partial=row.middle,
            wrong=row.bad,
            stray=rows[(index + 1) % len(rows)].good,
            pair=(row.good, row.middle),
        )
        for index, row in enumerate(rows)
    )
    return Items(items=items, source=SHIPPED, sha256=hashlib.sha256(stored).hexdigest())


def _case(row: _Shipped, index: int) -> Case:
    return Case(
        id=row.id,
        index=index,
        contract="batch_v1",
        task="open",
        dataset=SHIPPED,
        prompt=row.question,
        references=(row.reference,),
        record_sha256=hashlib.sha256(row.question.encode()).hexdigest(),
    )
