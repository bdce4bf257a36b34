"""Several finished runs compared in pairs, with p values that hold for all pairs together."""

from collections.abc import Sequence
from itertools import combinations, product

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import UsageProblem
from assay.engine.comparison.run_comparison import ComparisonOptions, RunComparison, compare
from assay.metrics.paired import holm
from assay.store.published_run import PublishedRun


class PairComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two of the runs, compared."""

    comparison: RunComparison
    p_passes_adjusted: float | None
    """p of the pass rates after Holm's correction for the number of pairs."""
    p_scores_adjusted: float | None


class GroupComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Runs compared in pairs; in each pair the difference is after - before."""

    title: str
    """Names of the groups or runs."""
    pairs: tuple[PairComparison, ...]
    """In the order of the runs, each with those after it."""
    skipped: tuple[str, ...] = ()
    """Pairs that have nothing in common, each with the reason."""

    def to_dict(self) -> JsonObject:
        """Return the comparisons as JSON documents have them."""
        pairs = [
            {
                **pair.comparison.to_dict(),
                "p_passes_adjusted": pair.p_passes_adjusted,
                "p_scores_adjusted": pair.p_scores_adjusted,
            }
            for pair in self.pairs
        ]
        return {"group": self.title, "correction": "holm", "pairs": pairs, "skipped": list(self.skipped)}


Pair = tuple[PublishedRun, PublishedRun]


def pairs_within(runs: Sequence[PublishedRun]) -> list[Pair]:
    """Return each run with every later one."""
    return list(combinations(runs, 2))


def pairs_between(before: Sequence[PublishedRun], after: Sequence[PublishedRun]) -> list[Pair]:
    """Return the pairs of two groups: the runs of the same candidate; of one run and a group every pair."""
    pairs = list(product(before, after))
    if len(before) > 1 and len(after) > 1:
        pairs = [(first, second) for first, second in pairs if _candidate(first) == _candidate(second)]
    if not pairs:
        names = [", ".join(dict.fromkeys(map(_candidate, runs))) for runs in (before, after)]
        raise UsageProblem(
            f"the groups have no candidate in common: {names[0]}, and {names[1]}",
            hint="name one run of each: assay compare RUN RUN",
        )
    # A run that is in both is no pair with itself.
    return [(first, second) for first, second in pairs if first.manifest.run_id != second.manifest.run_id]


def _candidate(run: PublishedRun) -> str:
    return run.manifest.candidate.name


def compare_pairs(title: str, pairs: Sequence[Pair], choices: ComparisonOptions) -> GroupComparison:
    """Compare each pair; one without a common record is skipped. Raises UsageProblem when all are."""
    found: list[RunComparison] = []
    problems: list[UsageProblem] = []
    for before, after in pairs:
        try:
            found.append(compare(before, after, choices))
        except UsageProblem as problem:
            # Runs of a suite are about different datasets.
            problems.append(problem)
    if problems and not found:
        raise problems[0]
    passes, scores = holm([one.p_passes for one in found]), holm([one.p_scores for one in found])
    compared = tuple(
        PairComparison(comparison=one, p_passes_adjusted=p_passes, p_scores_adjusted=p_scores)
        for one, p_passes, p_scores in zip(found, passes, scores, strict=True)
    )
    return GroupComparison(title=title, pairs=compared, skipped=tuple(problem.message for problem in problems))
