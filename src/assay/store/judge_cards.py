"""Judge cards, stored next to the runs that used these judges."""

import re
import secrets
from pathlib import Path

import msgspec

from assay.core.judge_card import JudgeCard
from assay.store.failures import disk_errors
from assay.store.files import replace_file

FOLDER = ".judges"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+", re.ASCII)
_decode = msgspec.json.Decoder(JudgeCard).decode


class KeptCard(msgspec.Struct, frozen=True):
    """A card and its id."""

    id: str
    card: JudgeCard


class KeptCards(msgspec.Struct, frozen=True):
    """The cards of a folder of runs, and the files among them that cannot be read."""

    cards: tuple[KeptCard, ...]
    """The newest first."""
    damaged: tuple[str, ...] = ()


def keep_card(runs_dir: Path, card: JudgeCard) -> str:
    """Store a card and return its id; raises StoreUnavailable."""
    created, judge = _UNSAFE.sub("", card.created_at), _UNSAFE.sub("-", card.judge).strip("-").lower()[:60]
    name = f"{created}-{judge or 'judge'}-{secrets.token_hex(3)}"
    path = runs_dir / FOLDER / f"{name}.json"
    replace_file(path, msgspec.json.encode(card))
    return name


def read_cards(runs_dir: Path) -> KeptCards:
    """Read all stored cards; raises StoreUnavailable when the folder cannot be read."""
    cards: list[KeptCard] = []
    damaged: list[str] = []
    with disk_errors(runs_dir / FOLDER):
        for path in sorted((runs_dir / FOLDER).glob("*.json"), reverse=True):
            try:
                cards.append(KeptCard(path.stem, _decode(path.read_bytes())))
            except msgspec.DecodeError:
                damaged.append(path.name)
    return KeptCards(tuple(cards), tuple(damaged))
