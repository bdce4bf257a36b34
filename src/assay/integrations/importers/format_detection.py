"""Detection of a file's tool by its content."""

from collections.abc import Callable

from assay.core.errors import UsageProblem
from assay.datasets.converters.rows import RowRefused
from assay.datasets.imports.items import ImportFormat, ImportSource
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import LazyObject, Text, elements

_LONGEST_LINE = 1 << 20
_YAML = frozenset({".yaml", ".yml"})
_TABLES = frozenset({".csv", ".tsv"})
_SIGNS: tuple[tuple[ImportFormat, tuple[str, ...]], ...] = (
    ("inspect", ("eval version", "eval status")),
    ("lm-eval", ("doc_id doc", "results configs")),
    ("promptfoo", ("results config", "evalId", "prompts tests", "prompts providers")),
    ("openai-batch", ("custom_id response", "custom_id body", "custom_id error")),
    ("openai-evals", ("input ideal",)),
    ("deepeval", ("testCases", "test_cases", "metricsData", "goldens", "input actual_output", "input expected_output")),
    ("deepeval", ("input actualOutput", "input expectedOutput", "turns", "scenario")),
)
"""Members that identify a format, the surest first."""
FORMATS = ("inspect", "promptfoo", "openai-evals", "openai-batch", "lm-eval", "deepeval")


def detect_format(sources: list[ImportSource]) -> ImportFormat:
    """Return the format of all sources; raises UsageProblem where they have none that is known, or not the same."""
    # Two formats may match, or one file be unknown; the user has to decide.
    found = {source.name: _format_of(source) for source in sources}
    known = {form for form in found.values() if form}
    if len(known) == 1 and None not in found.values():
        return known.pop()
    shown = ", ".join(f"'{name}' looks like {form or 'none of them'}" for name, form in found.items())
    hint = f"name the format: --from {'|'.join(FORMATS)}"
    raise UsageProblem(f"unrecognized format: {shown}" if found else "no file is named", hint=hint)


def _format_of(source: ImportSource) -> ImportFormat | None:
    # Only Inspect writes archives.
    if source.is_zip:
        return "inspect"
    if source.ending in _TABLES:
        return "deepeval"
    if source.ending in _YAML:
        value = parse_yaml(bytes(source.opened.buffer())).value
        names: frozenset[str] = frozenset(value) if isinstance(value, dict) else frozenset()
        return "promptfoo" if names & {"prompts", "providers", "tests"} else "openai-evals" if names else None
    found = _first_members(source)
    return next((form for form, signs in _SIGNS if any(found.issuperset(sign.split()) for sign in signs)), None)


def _first_members(source: ImportSource) -> frozenset[str]:
    """Return the names in the first line where it is an object, else in the document, or in the first element of its list."""
    line, feed, _ = source.opened.head(_LONGEST_LINE).lstrip().partition(b"\n")
    # Text in quotes may contain line breaks only as escapes, so a first line that is an object is JSON Lines.
    readers: list[Callable[[], frozenset[str]]] = [
        lambda: _names(source.opened.buffer()),
        lambda: _names(next(iter(elements(source.opened.buffer(), source.name)), b"{}")),
    ]
    # A file without a line break is one document, and is not read twice for its first line.
    for read in [lambda: _names(line), *readers] if feed or len(line) == source.opened.size else readers:
        try:
            return read()
        except RowRefused:
            continue
    return frozenset()


def _names(text: Text) -> frozenset[str]:
    return frozenset(LazyObject(text).names())
