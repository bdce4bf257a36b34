"""Judges under probe."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from assay.core.judge_card import JudgeCard
from assay.engine.judge_quality.probe import LIMIT, REPEATS, ProbeRequest, probe_judge
from assay.engine.run_counters import Snapshot
from assay.store.judge_cards import KeptCard, KeptCards, read_cards
from assay.store.judge_cards import keep_card as store_card

__all__ = ["LIMIT", "REPEATS", "KeptCard", "KeptCards", "ProbeRequest", "keep_card", "kept_cards", "probe"]


def probe(
    request: ProbeRequest, *, watch: Callable[[Snapshot], None] | None = None, environ: Mapping[str, str] | None = None
) -> JudgeCard:
    """Find out whether a judge is sound; raises UsageProblem, with everything that is wrong, before any call."""
    return probe_judge(request, environ=os.environ if environ is None else environ, clock=time.time, watch=watch)


def keep_card(card: JudgeCard, runs_dir: str | Path) -> str:
    """Keep a judge card beside runs, where the pages of a server show it; raises StoreUnavailable."""
    return store_card(Path(runs_dir), card)


def kept_cards(runs_dir: str | Path) -> KeptCards:
    """The judge cards that are kept beside runs, the newest first."""
    return read_cards(Path(runs_dir))
