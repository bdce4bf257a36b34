"""Sources in, reports out."""

import glob
import json
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.issue import Issue
from assay.core.report import Report
from assay.datasets import CONTRACTS, read, resolve_contract
from assay.datasets import stream as stream_source
from assay.datasets.config import ValidationConfig, check_config, load_config
from assay.datasets.fixes import Change, fixed
from assay.datasets.progress import Effort, Progress, no_progress
from assay.datasets.source import Source, open_source

__all__ = [
    "FixReport",
    "ValidationConfig",
    "find_sources",
    "fix",
    "load_config",
    "stream",
    "validate",
    "validate_with_hashes",
]

PARALLEL_BYTES = 25 << 20
"""Below this size a second process costs more than it saves."""
DATASET_SUFFIXES = (".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".gz")


def validate(
    source: Any,
    contract: Any = "auto",
    *,
    config: ValidationConfig | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    workers: int = 1,
) -> Report:
    """The report on a path, bytes or a Python object; raises SourceUnreadable or UsageProblem, never for bad content.

    The contract is a name, or code of one's own: a function or an object that makes a case of a row.
    """
    contract = _known(contract)
    opened = _opened(source, contract)
    settings = _settings(config, strict=strict)
    effort = Effort(progress or no_progress, workers if opened.size >= PARALLEL_BYTES else 1, lint=settings.lint)
    report = read(opened, contract, config=settings, effort=effort)
    return _without_places(report) if opened.is_object else report


def validate_with_hashes(source: Any, contract: str = "auto", *, config: ValidationConfig | None = None) -> Report:
    """The report of `validate`, with the `hashes` of a JSONL file made while it was checked instead of in a second reading."""
    opened = _opened(source, contract)
    report = read(opened, contract, config=_settings(config, strict=False), effort=Effort(hashes=True))
    return _without_places(report) if opened.is_object else report


def stream(source: Any, contract: Any = "auto", *, config: ValidationConfig | None = None) -> Iterator[Case | Issue]:
    """Cases and issues one by one; a JSONL file of any size needs memory for its ids only."""
    contract = _known(contract)
    opened = _opened(source, contract)
    yield from stream_source(opened, contract, config=_settings(config, strict=False))


def _known(contract: Any) -> Any:
    """The contract as it may be named, or as a plugin."""
    if isinstance(contract, str):
        return contract
    return import_module("assay.datasets.own_contract").given_contract(contract, built_in=CONTRACTS)


def _settings(config: ValidationConfig | None, *, strict: bool) -> ValidationConfig:
    settings = check_config(config or ValidationConfig())
    return msgspec.structs.replace(settings, strict_mode=True) if strict else settings


def _opened(source: Any, contract: Any) -> Source:
    if isinstance(source, str | Path | bytes | bytearray | memoryview):
        return open_source(source)
    return _from_object(source, contract)


def _from_object(value: Any, contract: Any) -> Source:
    """A Python object as the bytes that it would be read from."""
    is_rows = contract == "legal_eval_v1" or (contract == "auto" and _looks_like_rows(value))
    rows = (value if isinstance(value, list | tuple) else [value]) if is_rows else [value]
    try:
        text = "\n".join(json.dumps(row) for row in rows)
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageProblem(
            f"the object is not JSON: {problem}", hint="give dicts, lists, strings, numbers, booleans and None"
        ) from problem
    source = open_source(text.encode(), name="<object>.jsonl" if is_rows else "<object>.json")
    source.is_object = True
    return source


def _looks_like_rows(value: Any) -> bool:
    first = value[0] if isinstance(value, list | tuple) and value else value
    return isinstance(first, dict) and "task_type" in first


def _without_places(report: Report) -> Report:
    """An object has no lines; the path alone tells where an issue is."""
    report.path = "<object>"
    report.issues = tuple(msgspec.structs.replace(issue, line=None, column=None, excerpt="", caret=0) for issue in report.issues)
    return report


class FixReport(msgspec.Struct, frozen=True):
    """What a fix changed, and the report on the corrected copy."""

    changes: tuple[Change, ...]
    report: Report


def fix(source: str | Path, output: str | Path, contract: str = "auto", *, config: ValidationConfig | None = None) -> FixReport:
    """Write a corrected copy with safe fixes only; raises UsageProblem rather than touch the source itself."""
    opened = open_source(source)
    target = Path(output)
    if str(source) != "-" and target.exists() and target.samefile(source):
        raise UsageProblem(f"--fix would overwrite its source '{target}'", hint="give another name for the corrected copy")
    known = resolve_contract(opened, contract)
    if known is None:
        raise UsageProblem(f"no contract was recognised in '{source}'", hint="name it with --contract")
    if not isinstance(known, str):
        raise UsageProblem(f"the contract '{known.plan.name}' is a plugin's, and what is safe to fix in it is not known")
    corrected = fixed(opened, known, config)
    try:
        _write_whole(target, corrected.content)
    except OSError as problem:
        raise UsageProblem(
            f"cannot write '{target}': {(problem.strerror or str(problem)).lower()}", hint="choose another place"
        ) from problem
    return FixReport(corrected.changes, validate(target, known, config=config))


def _write_whole(target: Path, content: bytes) -> None:
    """The file appears with all its bytes or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def find_sources(patterns: Sequence[str], *, on_skip: Callable[[str], None] | None = None) -> tuple[str, ...]:
    """The files behind paths, globs, folders and `-`; raises UsageProblem or SourceUnreadable.

    Of a folder only files that show a contract count; `on_skip` is told of the others.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(_expanded(pattern, on_skip or _ignore))
    return tuple(found)


def _ignore(path: str) -> None:
    """Nobody asked which files were skipped."""


def _expanded(pattern: str, on_skip: Callable[[str], None]) -> list[str]:
    path = Path(pattern)
    if pattern == "-" or path.is_file():
        return [pattern]
    if path.is_dir():
        return _in_folder(path, on_skip)
    if glob.has_magic(pattern):
        matches = sorted(match for match in glob.glob(pattern, recursive=True) if Path(match).is_file())  # noqa: PTH207  # Path.glob takes no absolute pattern
        if matches:
            return matches
        raise UsageProblem(f"no file matches {pattern!r}", hint="quote the pattern, or check the folder")
    if path.exists():
        return [pattern]
    raise SourceUnreadable(f"no such file or folder: {pattern!r}", hint=_neighbour(path))


def _in_folder(folder: Path, on_skip: Callable[[str], None]) -> list[str]:
    candidates = sorted(
        str(path) for path in folder.rglob("*") if (path.is_file() or path.is_symlink()) and path.suffix.lower() in DATASET_SUFFIXES
    )
    files = [path for path in candidates if _shows_contract(path)]
    for path in candidates:
        if path not in files:
            on_skip(path)
    if not files:
        raise UsageProblem(
            f"no datasets in folder {str(folder)!r}", hint=f"looked for files ending in {', '.join(DATASET_SUFFIXES)}"
        )
    return files


def _shows_contract(path: str) -> bool:
    """A file that cannot be read counts, so that validation says why."""
    try:
        return resolve_contract(open_source(path), "auto") is not None
    except SourceUnreadable:
        return True


def _neighbour(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.name != path.name]
    except OSError:
        return "check the path"
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean {str(path.parent / close[0])!r}?" if close else "check the path"
