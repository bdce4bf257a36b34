"""Validation: sources into reports, and corrected copies."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.core.issue import Issue
from assay.core.report import FixChange, ValidationReport
from assay.core.settings import ColumnSection
from assay.datasets import lines_of, read, resolve_contract
from assay.datasets import stream as stream_source
from assay.datasets.dataset_paths import check_path, open_dataset
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
from assay.datasets.parsing.source import Source

__all__ = [
    "FixReport",
    "fix",
    "stream",
    "validate",
    "validate_with_hashes",
]

NO_COLUMNS = (ColumnSection(), "")
"""Of a table: no named columns and no sheet."""
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
    name: str = "",
) -> ValidationReport:
    """Validate a path, bytes or a Python object; raises SourceUnreadable or UsageProblem, never for bad content.

    The contract is a name, or custom code: a function or an object that makes a case of a row. `allow_size` accepts any
    number of golden cases; hints are in the words of the `interface`. For a table, `columns` names its columns by what they
    hold, such as `{"prompt": "Question", "reference": "Answer"}`;
    `name` is that of bytes, whose ending says what they are, or of rows.
    """
    contract = _resolve_contract(contract)
    named = columns if isinstance(columns, ColumnSection) else read_columns(columns or {})
    # Before the source is opened: bad settings are refused whatever the source is.
    settings = _merge_config(config, strict=strict, allow_size=allow_size, null_as_absent=null_as_absent)
    opened = _open_source(source, contract, table=(named, sheet), name=name)
    if isinstance(opened, ValidationReport):
        return _remove_locations(opened)
    # Starting processes takes longer than reading a small file.
    processes = workers if opened.size >= PARALLEL_BYTES else 1
    options = ReadOptions(progress or no_progress, processes, lint=settings.lint, interface=interface, table=(named, sheet))
    report = read(opened, contract, config=settings, options=options)
    # A Python object has no lines; those of its JSON would be ours.
    return _remove_locations(report) if opened.is_object else report


def validate_with_hashes(source: object, contract: str = "auto", *, config: ValidationConfig | None = None) -> ValidationReport:
    """Validate as `validate` does, and add the `hashes` of a JSONL file in the same reading."""
    opened = _open_source(source, contract)
    if isinstance(opened, ValidationReport):
        return _remove_locations(opened)
    report = read(opened, contract, config=_merge_config(config), options=ReadOptions(hashes=True))
    return _remove_locations(report) if opened.is_object else report


def stream(source: object, contract: Any = "auto", *, config: ValidationConfig | None = None) -> Iterator[Case | Issue]:
    """Yield cases and issues one by one; a JSONL file of any size needs memory for its ids only."""
    contract = _resolve_contract(contract)
    opened = _open_source(source, contract)
    if isinstance(opened, ValidationReport):
        yield from opened.issues
        return
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


def _open_source(
    source: object, contract: object, *, table: tuple[ColumnSection, str] = NO_COLUMNS, name: str = ""
) -> Source | ValidationReport:
    if isinstance(source, Path):
        return open_dataset(source)
    if isinstance(source, str):
        check_path(source)
        return open_dataset(source)
    # Loaded here: a command has a path.
    found: Source | ValidationReport = import_module("assay.datasets.memory").open_data(source, contract, table=table, name=name)
    return found


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
