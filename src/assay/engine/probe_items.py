"""What a judge is probed with: questions with a right, a partial and a wrong answer, shipped or made of a dataset's references."""

import hashlib
import random
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.datasets.config import ValidationConfig
from assay.engine.inputs import read_dataset

SHIPPED = "shipped"
_FILE = Path(__file__).with_name("probe_items.json")
_HALF = 2


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question and three answers to it whose order of quality is known."""

    case: Case
    right: str
    partial: str
    """Says something right, but not all."""
    wrong: str


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of a probe and where they come from."""

    items: tuple[Item, ...]
    source: str
    sha256: str
    left_out: int = 0
    """Records that cannot be used."""


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
    items = tuple(Item(case=_case(row, index), right=row.good, partial=row.middle, wrong=row.bad) for index, row in enumerate(rows))
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


def dataset_items(path: str, *, limit: int, seed: int) -> Items:
    """Questions of a dataset: its reference is the right answer, half of it the partial one, another record's the wrong one.

    Takes `limit` records at random, the same for the same seed. Raises SourceUnreadable, and UsageProblem where too few records
    have a reference.
    """
    source, report = read_dataset(Path(path), config=ValidationConfig())
    if report.contract is None or report.outcome == "rejected":
        raise UsageProblem(f"'{path}' is no valid dataset", hint=f"see what is wrong with it: assay validate {path}")
    cases = list(report.cases)
    usable = [case for case in cases if _is_usable(case)]
    distinct = list({case.references[0]: case for case in usable}.values())
    if len(distinct) < _HALF:
        raise UsageProblem(
            f"'{path}' has {len(distinct)} record(s) with a reference answer of their own that a judge could grade",
            hint="name a dataset with reference answers, or leave it out for the questions that come with the product",
        )
    chosen = random.Random(seed).sample(distinct, min(limit, len(distinct)))
    answers = [case.references[0] for case in chosen]
    items = tuple(
        Item(
            case=msgspec.structs.replace(case, attachments=(), max_latency_ms=None),
            right=case.references[0],
            partial=_first_half(case.references[0]),
            wrong=answers[(place + 1) % len(answers)],
        )
        for place, case in enumerate(chosen)
    )
    return Items(items=items, source=path, sha256=source.sha256(), left_out=len(cases) - len(distinct))


def _is_usable(case: Case) -> bool:
    has_words = bool(case.references) and len(case.references[0].split()) >= _HALF
    return case.task in ("open", "rubric", "reference") and has_words


def _first_half(text: str) -> str:
    words = text.split()
    return " ".join(words[: max(1, len(words) // _HALF)])
