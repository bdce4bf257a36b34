"""Judges under probe."""

import os
import time
from collections.abc import Callable, Mapping

from assay.core.judge_card import JudgeCard
from assay.engine.probe import LIMIT, REPEATS, ProbeRequest, probe_judge
from assay.engine.tally import Snapshot

__all__ = ["LIMIT", "REPEATS", "ProbeRequest", "probe"]


def probe(
    request: ProbeRequest, *, watch: Callable[[Snapshot], None] | None = None, environ: Mapping[str, str] | None = None
) -> JudgeCard:
    """Find out whether a judge is sound; raises UsageProblem, with everything that is wrong, before any call."""
    return probe_judge(request, environ=os.environ if environ is None else environ, clock=time.time, watch=watch)
