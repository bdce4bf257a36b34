"""Whose files these are, told by their content."""

from collections.abc import Set
from typing import get_args

from assay.core.errors import UsageProblem
from assay.datasets.converters.columns import RowRefused
from assay.datasets.importers.inputs import ImportSource
from assay.datasets.importers.items import ImportFormat
from assay.datasets.importers.members import Members, elements
from assay.datasets.source import filled_lines
from assay.datasets.yaml_door import parse_yaml

_YAML = frozenset({".yaml", ".yml"})
_TABLES = frozenset({".csv", ".tsv"})
_SIGNS: tuple[tuple[ImportFormat, tuple[frozenset[str], ...]], ...] = (
    ("inspect", (frozenset({"eval", "version"}), frozenset({"eval", "status"}))),
    (
        "promptfoo",
        (frozenset({"results", "config"}), frozenset({"evalId"}), frozenset({"prompts", "tests"}), frozenset({"providers"})),
    ),
    ("openai-batch", (frozenset({"custom_id", "response"}), frozenset({"custom_id", "body"}), frozenset({"custom_id", "error"}))),
    ("lm-eval", (frozenset({"doc_id", "doc"}), frozenset({"results", "configs"}))),
    ("openai-evals", (frozenset({"input", "ideal"}),)),
    (
        "deepeval",
        (
            frozenset({"testCases"}),
            frozenset({"test_cases"}),
            frozenset({"metricsData"}),
            frozenset({"goldens"}),
            frozenset({"input", "actual_output"}),
            frozenset({"input", "expected_output"}),
            frozenset({"input", "actualOutput"}),
            frozenset({"turns"}),
            frozenset({"scenario"}),
        ),
    ),
)
"""Members that tell a format, the surest first."""


def guess_format(sources: list[ImportSource]) -> ImportFormat:
    """The format of all sources; raises UsageProblem where they have none that is known, or not the same."""
    found = {source.name: _format_of(source) for source in sources}
    known = {form for form in found.values() if form}
    if len(known) == 1 and None not in found.values():
        return known.pop()
    shown = ", ".join(f"'{name}' looks like {form or 'none of them'}" for name, form in found.items())
    hint = f"name the format: --from {'|'.join(get_args(ImportFormat))}"
    raise UsageProblem(f"cannot tell whose files these are: {shown}" if found else "no file is named", hint=hint)


def _format_of(source: ImportSource) -> ImportFormat | None:
    if source.is_zip:
        return "inspect"
    if source.ending in _TABLES:
        return "deepeval"
    if source.ending in _YAML:
        value = parse_yaml(bytes(source.opened.buffer())).value
        names: Set[str] = set(value) if isinstance(value, dict) else set()
        return "promptfoo" if names & {"prompts", "providers", "tests"} else "openai-evals" if names else None
    found = _first_members(source)
    return next((form for form, signs in _SIGNS if any(sign <= found for sign in signs)), None)


def _first_members(source: ImportSource) -> Set[str]:
    """The names in the first line where it is an object, else in the document, or in the first element of its list."""
    line = next(filled_lines(source.opened), None)
    if line is None:
        return frozenset()
    try:
        return Members(line.content).names()
    except RowRefused:
        pass
    try:
        return Members(source.opened.buffer()).names()
    except RowRefused:
        pass
    try:
        listed = elements(source.opened.buffer(), source.name)
        return Members(listed[0]).names() if listed else frozenset()
    except RowRefused:
        return frozenset()
