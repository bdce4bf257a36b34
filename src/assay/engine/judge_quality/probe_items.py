"""Items of a judge probe: questions with answers of known quality, including those that are shipped with the product."""

import hashlib
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.plan import Plan

SHIPPED = "shipped"
_FILE = Path(__file__).with_name("probe_items.json")


class ProbeItem(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answers; an empty text means that there is no such answer."""

    case: Case
    right: str = ""
    """Known to be right."""
    partial: str = ""
    """Between right and wrong, or an answer of a run, whose quality is unknown."""
    wrong: str
    stray: str
    """A good answer to another question."""
    pair: tuple[str, str] | None = None
    """Two answers to the question, the first of which says more."""


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a probe and their source."""

    items: tuple[ProbeItem, ...]
    source: str
    sha256: str
    left_out: int = 0
    """Number of records that cannot be used."""
    run: Plan | None = None
    """The plan of the run that the answers come from."""


class _ShippedItem(msgspec.Struct, frozen=True):
    """A shipped question."""

    id: str
    question: str
    reference: str
    good: str
    middle: str
    bad: str


def shipped_items(limit: int | None = None) -> Items:
    """Return the shipped items."""
    stored = _FILE.read_bytes()
    rows = msgspec.json.decode(stored, type=list[_ShippedItem])[:limit]
    items = tuple(
        ProbeItem(
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


def _case(row: _ShippedItem, index: int) -> Case:
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
