"""Checks of a run file or a record: what is wrong with them, beyond the types of their members."""

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.core.checks import MAX_CHECKS, Check
from assay.core.issue import Path as Steps
from assay.datasets.parsing.checks import FindingList
from assay.grading.checks import check_problems

_CONVERT = tuple[Check, ...]


def usable_checks(entries: Sequence[Any], *, found: FindingList, path: Steps) -> list[Any]:
    """Return the entries that are checks; `found` gets every problem of the others, and names that are there twice."""
    wrong = {finding.path[len(path)] for finding in found if finding.path[: len(path)] == path and len(finding.path) > len(path)}
    usable: list[Any] = []
    names: set[str] = set()
    if len(entries) > MAX_CHECKS:
        found.add("value_out_of_range", path, f"{len(entries):,} checks are more than {MAX_CHECKS:,}")
    for index, entry in enumerate(entries[:MAX_CHECKS]):
        if index in wrong:
            continue
        (check,) = msgspec.convert([entry], _CONVERT)
        problems = list(check_problems(check))
        for problem in problems:
            member = (problem.member,) if problem.member in entry else ()
            found.add("value_out_of_range", (*path, index, *member), problem.message, hint=problem.hint)
        if check.name and check.name in names:
            hint = "give each check its own name, which is that of its metric"
            found.add("value_out_of_range", (*path, index, "name"), f"two checks have the name '{check.name}'", hint=hint)
        elif not problems:
            usable.append(entry)
        names.add(check.name)
    return usable
