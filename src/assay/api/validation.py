"""Validation: sources into reports, and corrected copies."""

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.contract import CONTRACTS, ROW_MEMBERS
from assay.core.errors import UsageProblem
from assay.core.issue import Issue
from assay.core.report import FixChange, ValidationReport
from assay.core.settings import ColumnSection
from assay.datasets import lines_of, read, resolve_contract
from assay.datasets import stream as stream_source
from assay.datasets.dataset_paths import open_dataset
from assay.datasets.fixes import fix_source
from assay.datasets.parsing.config import (
    Interface,
    Progress,
    ReadOptions,
    ValidationConfig,
    check_config,
    no_progress,
    read_columns,
)
from assay.datasets.parsing.formats import guess_contract, row_document
from assay.datasets.parsing.source import Source, open_source

__all__ = [
    "FixReport",
    "fix",
    "stream",
    "validate",
    "validate_with_hashes",
]

PARALLEL_BYTES = 25 << 20
"""Below this size a second process costs more than it saves."""


def validate(
    source: Any,
    contract: Any = "auto",
    *,
    config: ValidationConfig | None = None,
    strict: bool = False,
    allow_size: bool = False,
    null_as_absent: bool = False,
    progress: Progress | None = None,
    workers: int = 1,
    interface: Interface = "python",
    columns: ColumnSection | Mapping[str, Any] | None = None,
    sheet: str = "",
) -> ValidationReport:
    """Validate a path, bytes or a Python object; raises SourceUnreadable or UsageProblem, never for bad content.

    The contract is a name, or custom code: a function or an object that makes a case of a row. `allow_size` accepts any
    number of golden cases; hints are in the words of the `interface`. For a table, `columns` names its columns by what they
    hold, such as `{"prompt": "Question", "reference": "Answer"}`.
    """
    contract = _resolve_contract(contract)
    opened = _open_source(source, contract)
    settings = _merge_config(config, strict=strict, allow_size=allow_size, null_as_absent=null_as_absent)
    # Starting processes takes longer than reading a small file.
    processes = workers if opened.size >= PARALLEL_BYTES else 1
    named = columns if isinstance(columns, ColumnSection) else read_columns(columns or {})
    options = ReadOptions(progress or no_progress, processes, lint=settings.lint, interface=interface, table=(named, sheet))
    report = read(opened, contract, config=settings, options=options)
    # A Python object has no lines; those of its JSON would be ours.
    return _remove_locations(report) if opened.is_object else report


def validate_with_hashes(source: object, contract: str = "auto", *, config: ValidationConfig | None = None) -> ValidationReport:
    """Validate as `validate` does, and add the `hashes` of a JSONL file in the same reading."""
    opened = _open_source(source, contract)
    report = read(opened, contract, config=_merge_config(config), options=ReadOptions(hashes=True))
    return _remove_locations(report) if opened.is_object else report


def stream(source: object, contract: Any = "auto", *, config: ValidationConfig | None = None) -> Iterator[Case | Issue]:
    """Yield cases and issues one by one; a JSONL file of any size needs memory for its ids only."""
    contract = _resolve_contract(contract)
    opened = _open_source(source, contract)
    yield from stream_source(opened, contract, config=_merge_config(config))


def _resolve_contract(contract: object) -> object:
    """Return a contract's name unchanged, and any other contract as a plugin."""
    if isinstance(contract, str):
        return contract
    # Loaded here: most callers validate with built-in contracts.
    return import_module("assay.datasets.plugin_contract").given_contract(contract)


def _merge_config(
    config: ValidationConfig | None, *, strict: bool = False, allow_size: bool = False, null_as_absent: bool = False
) -> ValidationConfig:
    settings = check_config(config or ValidationConfig())
    given = {"strict_mode": strict, "allow_size": allow_size, "null_as_absent": null_as_absent}
    return msgspec.structs.replace(settings, **{name: True for name, is_on in given.items() if is_on})


def _open_source(source: object, contract: object) -> Source:
    if isinstance(source, str | Path):
        return open_dataset(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return open_source(source)
    return _encode_object(source, contract)


def _encode_object(value: Any, contract: object) -> Source:
    """Encode a Python object as the bytes that it would be read from."""
    try:
        # Encoded and parsed again, so that an object passes the same strict parser as a file.
        source = open_source(json.dumps(value).encode(), name="<object>.json")
        known = guess_contract(source).contract if contract == "auto" else contract
        stored = row_document(source)
        if stored is not None:
            source = open_source(_encode_rows(value, ROW_MEMBERS[stored]), name="<object>.json")
        elif isinstance(known, str) and known in CONTRACTS and CONTRACTS[known].is_lines:
            rows = value if isinstance(value, list | tuple) else [value]
            source = open_source("\n".join(map(json.dumps, rows)).encode(), name="<object>.jsonl")
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageProblem(
            f"the object is not JSON: {problem}", hint="give dicts, lists, strings, numbers, booleans and None"
        ) from problem
    source.is_object = True
    return source


def _encode_rows(value: JsonObject, member: str) -> bytes:
    """Encode a document of rows as runs write it, to be read in constant memory; one with other members unchanged."""
    # Other members belong to the document, and rows alone would lose them.
    if list(value) != ["schema_version", member] or not isinstance(value[member], list):
        return json.dumps(value).encode()
    head = json.dumps({**value, member: []}, separators=(",", ":"))[:-2]
    rows = ",\n".join(map(json.dumps, value[member]))
    return f"{head}\n{rows}\n]}}".encode()


def _remove_locations(report: ValidationReport) -> ValidationReport:
    """Remove lines and columns: an object has none, its path alone locates an issue."""
    report.path = "<object>"
    # Replaced, since issues are frozen and shared.
    report.issues = tuple(msgspec.structs.replace(issue, line=None, column=None, excerpt="", caret=0) for issue in report.issues)
    return report


class FixReport(msgspec.Struct, frozen=True):
    """Changes of a fix, and the report on the corrected copy."""

    changes: tuple[FixChange, ...]
    report: ValidationReport


def fix(source: str | Path, output: str | Path, contract: str = "auto", *, config: ValidationConfig | None = None) -> FixReport:
    """Write a corrected copy with safe fixes only; raises UsageProblem rather than touch the source itself."""
    opened = open_dataset(source)
    target = Path(output)
    # Also by another name: a link to the source is the source.
    if str(source) != "-" and target.exists() and target.samefile(source):
        raise UsageProblem(f"--fix would overwrite its source '{target}'", hint="give another name for the corrected copy")
    known = resolve_contract(opened, contract)
    if known is None:
        raise UsageProblem(f"no contract was recognised in '{source}'", hint="name it with --contract")
    if not isinstance(known, str):
        raise UsageProblem(f"the contract '{known.plan.name}' is a plugin's, and what is safe to fix in it is not known")
    corrected = fix_source(lines_of(opened, known), known, config)
    try:
        _write_whole(target, corrected.content)
    except OSError as problem:
        raise UsageProblem(
            f"cannot write '{target}': {(problem.strerror or str(problem)).lower()}", hint="choose another place"
        ) from problem
    # Validated again, so that the report is about what was written.
    return FixReport(corrected.changes, validate(target, known, config=config, interface="cli"))


def _write_whole(target: Path, content: bytes) -> None:
    """Write a file so that it appears with all its bytes or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
