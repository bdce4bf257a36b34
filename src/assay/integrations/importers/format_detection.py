"""Detection of a file's tool by its content: a format is claimed only with evidence, and two formats that fit are a question."""

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.converters.rows import RowRefused
from assay.datasets.imports.items import DetectedFormat, ImportFormat, ImportSource, ImportState
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import LazyObject, Text, elements
from assay.integrations.importers.safe_zip import Archive

_LONGEST_LINE = 1 << 20
_MAX_ROWS = 20
"""Rows whose names are looked at: an optional member may be missing in the first one."""
_SHOWN_NAMES = 8
_YAML = frozenset({".yaml", ".yml"})
_TABLES = frozenset({".csv", ".tsv"})
_PROGRAMS = frozenset({".js", ".ts", ".mjs", ".cjs", ".mts", ".cts", ".py"})
_FOLDER_ENDINGS = frozenset({".eval", ".json", ".jsonl", ".ndjson", ".csv", ".tsv"}) | _YAML
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
MAX_FOLDER_FILES = 10_000
FORMATS = (
    "inspect",
    "inspect-samples",
    "promptfoo",
    "openai-evals",
    "openai-evals-api",
    "openai-batch",
    "lm-eval",
    "deepeval",
)


class FileOutline:
    """What the beginning of a file shows: the kind of its text, and the names of its members, columns or entries."""

    def __init__(self, source: ImportSource) -> None:
        self.source = source
        self.is_table = source.ending in _TABLES
        self.is_program = source.ending in _PROGRAMS
        self.is_yaml = source.ending in _YAML

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the document's members, or of those of its first rows."""
        if self.source.is_zip:
            with Archive(self.source.path) as archive:
                return frozenset(archive.names())
        if self.is_table:
            return frozenset(_columns(self.source))
        if self.is_program:
            return frozenset()
        if self.is_yaml:
            return frozenset(self.yaml) if isinstance(self.yaml, dict) else _names_of_rows(self.yaml)
        return frozenset().union(*(frozenset(names) for names in islice(self._json_names(), _MAX_ROWS)))

    @cached_property
    def yaml(self) -> object:
        """Value of a YAML file; None where it cannot be read."""
        return parse_yaml(bytes(self.source.opened.buffer()), has_merge_keys=True).value if self.is_yaml else None

    @property
    def noun(self) -> str:
        """Word for the names."""
        return "columns" if self.is_table else "entries" if self.source.is_zip else "members"

    @cached_property
    def document(self) -> LazyObject | None:
        """The whole file as one JSON object; None where it is something else."""
        # Lines are not parsed as one document, which would copy all of them.
        is_other = self.is_table or self.is_yaml or self.is_program or self.source.is_zip or self.is_lines
        try:
            return None if is_other else LazyObject(self.source.opened.buffer())
        except RowRefused:
            return None

    @cached_property
    def is_lines(self) -> bool:
        """Whether the first of several lines is an object: text in quotes may contain line breaks only as escapes."""
        line, _, rest = self.source.opened.head(_LONGEST_LINE).lstrip().partition(b"\n")
        return bool(rest.strip()) and _is_object(line)

    def has(self, *names: str) -> str:
        """Return evidence if all names are there, else an empty text."""
        return f"{self.noun} {', '.join(names)}" if self.names.issuperset(names) else ""

    def has_one_of(self, first: str, names: Sequence[str]) -> str:
        """Return evidence if the first name and one of the others are there, else an empty text."""
        found = [name for name in names if name in self.names]
        return self.has(first, *found) if found else ""

    def member_names(self, name: str) -> frozenset[str]:
        """Return the names inside a member of the document that is an object."""
        if isinstance(self.yaml, dict):
            inner = self.yaml.get(name)
            return frozenset(inner) if isinstance(inner, dict) else frozenset()
        try:
            return frozenset(LazyObject(self.document.part(name)).names()) if self.document else frozenset()
        except RowRefused:
            return frozenset()

    @cached_property
    def first_row(self) -> LazyObject | None:
        """The document where it is one JSON object, else the first of its rows; None where there is none."""
        try:
            return None if self.is_table or self.is_yaml or self.source.is_zip else LazyObject(next(self._rows(), b""))
        except RowRefused:
            return None

    def text_member(self, name: str) -> str:
        """Return a member of the document, or of its first row, that is text; empty where it is something else."""
        try:
            value = self.first_row.get(name) if self.first_row else None
        except RowRefused:
            return ""
        return value if isinstance(value, str) else ""

    def _json_names(self) -> Iterator[Sequence[str]]:
        try:
            yield from (tuple(LazyObject(row).names()) for row in self._rows())
        except RowRefused:
            return

    def _rows(self) -> Iterator[Text]:
        """Yield the first lines where each is an object, else the document, or the elements of its list."""
        if self.is_lines:
            head = self.source.opened.head(_LONGEST_LINE).lstrip()
            yield from (one for one in head.split(b"\n", _MAX_ROWS) if _is_object(one))
        elif self.document is not None:
            yield self.source.opened.buffer()
        else:
            yield from elements(self.source.opened.buffer(), self.source.name)

    def __str__(self) -> str:
        names = sorted(self.names)
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return f"{self.noun} {', '.join(names[:_SHOWN_NAMES])}{more}" if names else "no members or columns that can be read"


def _is_object(line: bytes) -> bool:
    try:
        LazyObject(line)
    except RowRefused:
        return False
    return True


def _names_of_rows(value: object) -> frozenset[str]:
    rows = [row for row in value[:_MAX_ROWS] if isinstance(row, dict)] if isinstance(value, list) else []
    return frozenset().union(*rows)


def _columns(source: ImportSource) -> list[str]:
    line = source.opened.head(_LONGEST_LINE).decode("utf-8", "replace").partition("\n")[0].rstrip("\r")
    # The separator that cuts the header into most parts; a quoted name may hold another one.
    return max((next(csv.reader([line], delimiter=one), []) for one in ",;\t|"), key=len)


_EXPECTED = ("expected_output", "expectedOutput", "actual_output", "actualOutput", "retrieval_context", "retrievalContext")
_OF_LANGFUSE = frozenset({"datasetId", "datasetItemId", "sourceTraceId", "sourceObservationId", "datasetName"})
_CONFIG = ("prompts", "providers", "targets", "tests", "scenarios", "defaultTest", "redteam")
"""Keys of a config of promptfoo, of which one alone could be of any file."""
_CONFIG_NAME = re.compile(r"(?:promptfooconfig|redteam)[\w.-]*\.(?:ya?ml|json)")
_SCHEMA = b"promptfoo.dev/config-schema.json"
_EVAL_OBJECTS = frozenset({"eval", "eval.run", "eval.run.output_item"})


def _inspect(outline: FileOutline) -> str:
    if outline.source.is_zip:
        return outline.has("header.json") or outline.has("_journal/start.json")
    return outline.has("eval", "version") or outline.has("eval", "status")


def _inspect_samples(outline: FileOutline) -> str:
    return outline.has("input", "target")


def _lm_eval(outline: FileOutline) -> str:
    return outline.has("doc_id", "doc") or outline.has("results", "configs")


def _promptfoo(outline: FileOutline) -> str:
    return _promptfoo_results(outline) or _promptfoo_config(outline)


def _promptfoo_results(outline: FileOutline) -> str:
    shared = outline.member_names("data")
    if {"results", "config"} <= shared:
        return "members data.results, data.config"
    inner = outline.member_names("results")
    if "results" in inner and inner & {"version", "stats", "table", "prompts"}:
        return "members results.results, results." + ", results.".join(sorted(inner & {"version", "stats", "table", "prompts"}))
    in_list = outline.has("results", "stats", "table") or outline.has("results", "config", "prompts")
    return outline.has("evalId") or in_list or outline.has("promptIdx", "testIdx")


def _promptfoo_config(outline: FileOutline) -> str:
    if outline.is_table:
        return ""
    keys = [name for name in _CONFIG if name in outline.names]
    if len(keys) > 1:
        return outline.has(*keys)
    is_named = _CONFIG_NAME.fullmatch(outline.source.path.name.lower().removesuffix(".gz"))
    if keys and is_named:
        return f"{outline.has(*keys)}, and the name of the file"
    is_marked = outline.is_yaml and _SCHEMA in outline.source.opened.head()
    return f"{outline.has(*keys)}, and the schema that it names" if keys and is_marked else ""


def _openai_evals(outline: FileOutline) -> str:
    return outline.has("input", "ideal") or _registry(outline)


def _registry(outline: FileOutline) -> str:
    """Return evidence of a registry: an entry that names a class of evals, or a file of samples."""
    entries = outline.yaml.values() if isinstance(outline.yaml, dict) else ()
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        arguments = entry.get("args")
        if isinstance(arguments, dict) and "samples_jsonl" in arguments:
            return "an entry with args.samples_jsonl"
        if str(entry.get("class")).startswith("evals."):
            return "an entry of a class of evals"
    return ""


def _openai_evals_api(outline: FileOutline) -> str:
    kind = outline.text_member("object")
    if kind in _EVAL_OBJECTS:
        return f"an object '{kind}'"
    if kind == "list" and outline.document is not None:
        try:
            first = LazyObject(next(iter(elements(outline.document.part("data"), "data")), b"{}")).get("object")
        except RowRefused:
            return ""
        return f"a list of objects '{first}'" if first in _EVAL_OBJECTS else ""
    return outline.has("datasource_item", "results") or outline.has("data_source_config", "testing_criteria")


def _openai_batch(outline: FileOutline) -> str:
    return next((found for name in ("response", "body", "error") if (found := outline.has("custom_id", name))), "")


def _deepeval(outline: FileOutline) -> str:
    for name in ("testCases", "test_cases", "conversationalTestCases", "conversational_test_cases", "metricsData", "goldens"):
        if name in outline.names and not outline.is_table:
            return outline.has(name)
    if outline.names & _OF_LANGFUSE:
        return ""
    conversation = outline.has_one_of("scenario", ("turns", "expected_outcome", "expectedOutcome", "user_description"))
    return outline.has_one_of("input", _EXPECTED) or conversation or _turns(outline)


def _turns(outline: FileOutline) -> str:
    """Return evidence of a conversational case: turns with a role and a content."""
    given = outline.first_row.get("turns") if outline.first_row and "turns" in outline.names and not outline.is_table else None
    first = given[0] if isinstance(given, list) and given else None
    return "members turns with role and content" if isinstance(first, dict) and {"role", "content"} <= first.keys() else ""


_SIGNS: dict[ImportFormat, Callable[[FileOutline], str]] = {
    "inspect": _inspect,
    "inspect-samples": _inspect_samples,
    "promptfoo": _promptfoo,
    "openai-evals": _openai_evals,
    "openai-evals-api": _openai_evals_api,
    "openai-batch": _openai_batch,
    "lm-eval": _lm_eval,
    "deepeval": _deepeval,
}
"""Evidence of each format in the outline of a file; empty where there is none."""


def evidence_of(source: ImportSource) -> dict[ImportFormat, str]:
    """Return every format that a file fits, with the evidence."""
    outline = FileOutline(source)
    return {form: evidence for form, sign in _SIGNS.items() if (evidence := sign(outline))}


def detect_format(sources: list[ImportSource]) -> DetectedFormat:
    """Return the format of all sources; raises UsageProblem where they have none that is known, or several fit."""
    if not sources:
        raise UsageProblem("no file is named", hint="assay import SOURCES... -o DATASET")
    found = {source.name: evidence_of(source) for source in sources}
    unknown = [source for source in sources if not found[source.name]]
    if unknown:
        raise _unrecognized(unknown)
    common = set.intersection(*(set(formats) for formats in found.values()))
    if len(common) == 1:
        form = common.pop()
        return DetectedFormat(form, {name: formats[form] for name, formats in found.items()})
    raise _ambiguous(found, common)


def _ambiguous(found: dict[str, dict[ImportFormat, str]], common: set[ImportFormat]) -> UsageProblem:
    """Describe files that two formats fit, or that have no format in common."""
    if common:
        name, formats = next(iter(found.items()))
        shown = " and ".join(f"{form} ({formats[form]})" for form in FORMATS if form in common)
        return UsageProblem(
            f"'{name}' fits {len(common)} formats: {shown}",
            hint=f"choose one: --from {'|'.join(form for form in FORMATS if form in common)}",
        )
    listed = [(name, form, evidence) for name, formats in found.items() for form, evidence in formats.items()]
    shown = ", ".join(f"'{name}' looks like {form} ({evidence})" for name, form, evidence in listed[:_SHOWN_NAMES])
    more = f" and {len(listed) - _SHOWN_NAMES} more" if len(listed) > _SHOWN_NAMES else ""
    return UsageProblem(f"files of different formats: {shown}{more}", hint="import the files of each tool on their own")


def _unrecognized(sources: list[ImportSource]) -> UsageProblem:
    """Describe files that fit no format, each with what it shows, and name the next step for the first one."""
    outlines = [FileOutline(source) for source in sources]
    shown = "; ".join(f"'{one.source.name}' {_instead(one)}" for one in outlines[:_SHOWN_NAMES])
    more = f"; and {len(outlines) - _SHOWN_NAMES} more" if len(outlines) > _SHOWN_NAMES else ""
    hint = next((hint for one in outlines if (hint := _next_step(one))), f"name the format: --from {'|'.join(FORMATS)}")
    return UsageProblem(f"unrecognized format: {shown}{more}", hint=hint)


def _instead(outline: FileOutline) -> str:
    """Return what a file that fits no format is, or shows."""
    if outline.is_program:
        return "is a program, which assay does not run"
    if outline.names == {"sample"}:
        return "has few-shot examples of OpenAI evals, not questions"
    if _is_promptfoo_tests(outline):
        return f"has tests of promptfoo without prompts ({outline.noun} {', '.join(sorted(outline.names)[:_SHOWN_NAMES])})"
    return f"has {outline}"


def _is_promptfoo_tests(outline: FileOutline) -> bool:
    return bool(
        outline.has("vars", "assert") or (outline.is_table and any(name.startswith("__expected") for name in outline.names))
    )


def _next_step(outline: FileOutline) -> str:
    if outline.is_program:
        return f"let promptfoo evaluate it and import the results: promptfoo eval -c {outline.source.path.name} -o results.json"
    if _is_promptfoo_tests(outline):
        return "name the config that uses them"
    if outline.is_table and outline.names:
        name = outline.source.name
        formats = f"a format of another tool is named by --from {'|'.join(FORMATS)}"
        return f"a table of questions is run by assay run {name}, or converted by assay convert table {name} -o OUT; {formats}"
    return ""


def open_sources(names: Sequence[str], form: ImportFormat | None, reading: ImportState) -> list[ImportSource]:
    """Open all files; of a folder those that have the format, or a format at all.

    Raises UsageProblem for a folder without such a file, and for one with files of several formats.
    """
    return [source for name in names for source in _sources_of(name, form, reading)]


def _sources_of(name: str, form: ImportFormat | None, reading: ImportState) -> list[ImportSource]:
    if name == "-" or not Path(name).is_dir():
        return [ImportSource(name)]
    found: dict[ImportFormat, list[ImportSource]] = {}
    problems: list[SourceUnreadable] = []
    unknown = 0
    for path in _files_below(Path(name)):
        try:
            source = ImportSource(str(path), root=Path(name).absolute())
            fitting = evidence_of(source)
        except SourceUnreadable as problem:
            problems.append(problem)
            continue
        for one in fitting:
            found.setdefault(one, []).append(source)
        unknown += not fitting
    if form:
        found = {form: found[form]} if form in found else {}
    if len(found) > 1:
        shown = ", ".join(f"{len(sources):,} of {one} ('{sources[0].name}' ...)" for one, sources in found.items())
        raise UsageProblem(
            f"the folder '{name}' has files of several formats: {shown}", hint=f"choose one: --from {'|'.join(found)}"
        )
    if not found:
        if problems:
            raise problems[0]
        wanted = f"of {form}" if form else "that can be imported"
        raise UsageProblem(
            f"the folder '{name}' has no file {wanted}", hint="name the files; assay import --help lists the formats"
        )
    for unread in problems:
        reading.leave_out(f"file of the folder: {unread.message}")
    # Other files next to a config of promptfoo are mostly those that it names.
    reading.leave_out("file of the folder in no known format", 0 if "promptfoo" in found else unknown, is_setting=True)
    return next(iter(found.values()))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may hold something to import, in the order of their names; raises UsageProblem."""
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            if Path(name.lower().removesuffix(".gz")).suffix not in _FOLDER_ENDINGS or name.startswith("."):
                continue
            count += 1
            if count > MAX_FOLDER_FILES:
                raise UsageProblem(
                    f"the folder '{folder}' has more than {MAX_FOLDER_FILES:,} files", hint="name a folder inside it"
                )
            yield Path(place) / name
