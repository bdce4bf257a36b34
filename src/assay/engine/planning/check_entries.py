"""Checks and graders of a run file or a record: what is wrong with them, beyond the types of their members."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from assay.core.checks import MAX_CHECKS, Check
from assay.core.graders import MAX_GRADERS, NOT_ASSESSED
from assay.core.issue import Path as Steps
from assay.datasets.parsing.checks import FindingList, name_of
from assay.grading.checks import check_problems

_CONVERT = tuple[Check, ...]
_OF_PROMPTS = ("scale", "at_least")
"""Keys that only a judge with a prompt of its own has."""


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
            place = (*path, index, *member)
            found.add("value_out_of_range", place, f"{name_of(place)}: {problem.message}", hint=problem.hint)
        if check.name and check.name in names:
            hint = "give each check its own name, which is that of its metric"
            found.add("value_out_of_range", (*path, index, "name"), f"two checks have the name '{check.name}'", hint=hint)
        elif not problems:
            usable.append(entry)
        names.add(check.name)
    return usable


def usable_graders(entries: Sequence[Any], *, found: FindingList) -> list[Any]:
    """Return the entries that are graders; `found` gets every problem of the others."""
    wrong = {finding.path[1] for finding in found if finding.path[:1] == ("graders",) and len(finding.path) > 1}
    if len(entries) > MAX_GRADERS:
        found.add("value_out_of_range", ("graders",), f"{len(entries):,} graders are more than {MAX_GRADERS:,}")
    usable: list[Any] = []
    marked: list[int] = []
    for index, entry in enumerate(entries[:MAX_GRADERS]):
        if not isinstance(entry, Mapping):
            continue
        if "checks" in entry:
            usable_checks(entry["checks"], found=found, path=("graders", index, "checks"))
        problems = list(_grader_problems(entry)) if index not in wrong else []
        for member, message, hint in problems:
            place = ("graders", index, *((member,) if member in entry else ()))
            found.add("value_out_of_range", place, f"{name_of(place)}: {message}", hint=hint)
        marked += [index] if entry.get("primary") else []
        has_bad_check = any(finding.path[:3] == ("graders", index, "checks") for finding in found)
        if not problems and index not in wrong and not has_bad_check:
            usable.append(entry)
    for index in marked[1:]:
        message = "two graders are primary, and one decides score and result of a record"
        found.add("value_out_of_range", ("graders", index, "primary"), message, hint="leave primary out of the others")
    return usable


def _grader_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a grader: a key, a message and a hint."""
    kinds = [kind for kind in ("checks", "plugin", "judge") if entry.get(kind)]
    if not kinds:
        yield "", "a grader has checks, a plugin or a judge", "write one of the three"
        return
    if len(kinds) > 1 and kinds != ["plugin", "judge"]:
        yield kinds[1], f"a grader has {' or '.join(kinds)}, not both", "make two graders of it"
        return
    if "pass" in entry and kinds[0] != "checks":
        yield "pass", "'pass' says which checks an answer must pass, and this grader has none", "leave it out"
    if entry.get("prompt") and kinds != ["judge"]:
        yield "prompt", "a prompt is that of a judge", "write judge: provider/model"
    for member in _OF_PROMPTS:
        if member in entry and not entry.get("prompt"):
            yield member, f"'{member}' is for a judge with a prompt of its own", "write prompt: file.txt"
    scale = entry.get("scale")
    if isinstance(scale, Mapping):
        yield from _category_problems(scale.get("categories", {}))
    elif isinstance(scale, str) and "at_least" in entry:
        low, high = (1, 5) if scale == "1-5" else (0, 1)
        if scale == "pass_fail":
            yield "at_least", "on the scale pass_fail an answer passes with 'pass'", "leave at_least out"
        elif not low <= entry["at_least"] <= high:
            yield "at_least", f"{entry['at_least']:g} is not on the scale {scale}", ""


def _category_problems(categories: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if len(categories) < 2:
        yield "scale", "a scale has two categories or more", "write categories: {good: 1, poor: 0.3}"
    if len({name.casefold() for name in categories}) < len(categories):
        yield "scale", "two categories have the same name but for upper case", "give each a name of its own"
    for name in categories:
        if name.strip() != name or not name or any(mark in name for mark in '"\\\n'):
            yield "scale", f"the category {name!r} is empty, or has quotes, backslashes or spaces around it", "choose a plain name"
        if name == NOT_ASSESSED:
            yield "scale", f"every scale has '{NOT_ASSESSED}', for answers that cannot be assessed", "leave the category out"
