"""What runs would cost, before anybody is asked."""

import os
import time
from collections.abc import Mapping

from assay.engine.planning.estimate import CostEstimate, ModelEstimate
from assay.engine.planning.estimate import estimate_cost as estimate_planned
from assay.engine.planning.plans import PlannedRuns

__all__ = ["CostEstimate", "ModelEstimate", "estimate_cost"]


def estimate_cost(planned: PlannedRuns, *, environ: Mapping[str, str] | None = None) -> CostEstimate:
    """The calls, tokens and dollars of planned runs; a price that is not known is None, never a guess."""
    return estimate_planned(planned, environ=os.environ if environ is None else environ, now=time.time())
