"""Bytes of any contract into cases and issues."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from assay.core.case import Case
from assay.core.contract import BUILT_IN, CONTRACTS, ContractId
from assay.core.errors import UsageProblem
from assay.core.issue import Finding, Issue
from assay.core.report import RecordCounts, ValidationReport
from assay.datasets.parsing.checks import nearest
from assay.datasets.parsing.config import DEFAULT_READ_OPTIONS, ReadOptions, ValidationConfig
from assay.datasets.parsing.formats import (
    MAX_YAML_BYTES,
    guess_contract,
    holds_hashes,
    holds_several,
    is_of_a_run,
    parse_yaml,
    row_document,
    shows_contract_surely,
    sniff_format,
    table_kind,
)
from assay.datasets.parsing.issue_locator import RecordContext, locate_issue
from assay.datasets.parsing.source import BOM, NoTable, Source

if TYPE_CHECKING:
    from assay.core.plugin import Plugin
    from assay.datasets.row_documents import RowLines
    from assay.datasets.tables import TableOptions, TableRecords

__all__ = ["contract_named", "lines_of", "read", "read_as_table", "read_records", "resolve_contract", "stream"]


def read(
    source: Source, contract: "str | Plugin", *, config: ValidationConfig, options: ReadOptions = DEFAULT_READ_OPTIONS
) -> ValidationReport:
    """Validate a source and return the report; `auto` detects the contract by the content. Raises UsageProblem for a bad name."""
    if source.table is not None:
        # Rows in memory are records of a table before they are read.
        return read_records(source.table, source, config, options)
    kind = table_kind(source)
    known = None if kind is not None and isinstance(contract, str) else resolve_contract(source, contract)
    is_open = contract in ("auto", BUILT_IN) and source.stored is None and not (known and _is_sure(source, known))
    is_open = is_open and not (holds_several(source) or holds_hashes(source))
    if isinstance(contract, str) and (kind is not None or is_open):
        try:
            return _read_table(source, contract, config, options, is_tried=known is not None)
        except NoTable as problem:
            if known is None:
                return _unrecognized_report(source, str(problem))
    if known is None:
        return _unrecognized_report(source)
    # A golden run with --limit stores fewer cases than golden_v1 allows, and validate must still accept what the run has stored.
    if source.stored is not None:
        # The run has checked its input before it took some of the records, with the settings that it was given.
        null_as_absent = config.null_as_absent or source.stored.null_as_absent
        config = replace(config, allow_size=True, null_as_absent=null_as_absent)
    if not isinstance(known, str):
        own_report: ValidationReport = _plugin_contracts().read_with_plugin(source, known, options)
        return own_report
    if row_document(source) == known:
        return _read_document(source, known, config, options)
    # Contracts are imported by name, so that a command loads the readers of the contracts that it meets and no others.
    report: ValidationReport = _module_of(known).read(source, config, options)
    return report


def _is_sure(source: Source, known: "ContractId | Plugin") -> bool:
    return not isinstance(known, str) or shows_contract_surely(source, known)


def _read_table(
    source: Source, contract: str, config: ValidationConfig, options: ReadOptions, *, is_tried: bool = False
) -> ValidationReport:
    """Validate the records of a table; raises NoTable where there is none, and with `is_tried` where its columns are unclear."""
    tables = import_module("assay.datasets.tables")
    try:
        return read_as_table(source, tables.TableOptions(*options.table), contract, config, options)
    except tables.ColumnsUnclear as unclear:
        # A missing comma may hide the columns, and is what the user has to hear about.
        if is_tried or (table_kind(source) is None and _syntax_error(source) is not None):
            raise NoTable(unclear.message) from unclear
        issue = Issue(code="unknown_columns", message=unclear.message, line=1, column=1, hint=unclear.hint)
        return ValidationReport(path=source.name, contract=None, outcome="rejected", counts=RecordCounts(), issues=[issue])


def read_as_table(
    source: Source,
    table: "TableOptions",
    contract: str,
    config: ValidationConfig,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
    *,
    keeps_lines: bool = False,
) -> ValidationReport:
    """Validate the records of a table, which `source.table` has afterwards; raises ColumnsUnclear and NoTable."""
    tables = import_module("assay.datasets.tables")

    def read_once(*, is_checked: bool) -> ValidationReport:
        records: TableRecords = tables.read_table(source, table, contract=contract, is_checked=is_checked)
        records.keeps_lines = keeps_lines
        return read_records(records, source, config, options)

    try:
        return read_once(is_checked=False)
    except tables.Undecodable:
        return read_once(is_checked=True)


def read_records(
    table: "TableRecords", source: Source, config: ValidationConfig, options: ReadOptions = DEFAULT_READ_OPTIONS
) -> ValidationReport:
    """Validate the records of a table that was read from a source."""
    source.table = table
    module = _module_of(table.contract)
    # Most records of a large table need no rules, and are not even written for their validation.
    is_quick = table.has_chunks and not options.hashes
    report: ValidationReport = (
        module.read_chunks(table, source.name, config, options) if is_quick else module.read(table.source, config, options)
    )
    report.relocate(table.locate, further=table.issues)
    return report


def lines_of(source: Source, contract: str) -> Source:
    """Return the source as the reader of its contract takes it: rows of a table, or stored in a document, become lines."""
    if source.table is not None:
        return cast("Source", source.table.source)
    return _rows_in(source, contract).source if row_document(source) == contract else source


def _rows_in(source: Source, contract: str, *, is_exact: bool = False) -> "RowLines":
    """Return the rows of a document that a run has stored; imported here, because few datasets are one."""
    rows: RowLines = import_module("assay.datasets.row_documents").row_lines(source, contract, is_exact=is_exact)
    return rows


def _read_document(source: Source, contract: ContractId, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    rows = _rows_in(source, contract)
    report = _read_rows(rows, contract, config, options)
    # Reading line by line is much cheaper, and how runs write these documents; a person may have reformatted one.
    if rows.is_by_line and any(issue.code == "invalid_json" for issue in report.issues):
        # Rows that are not on lines of their own after all.
        report = _read_rows(_rows_in(source, contract, is_exact=True), contract, config, options)
    return report


def _read_rows(rows: "RowLines", contract: ContractId, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    report: ValidationReport = _module_of(contract).read(rows.source, config, options)
    errors = [issue for issue in rows.issues if issue.severity == "error"]
    if errors:
        return ValidationReport(path=report.path, contract=contract, outcome="rejected", counts=report.counts, issues=rows.issues)
    report.issues = (*rows.issues, *map(rows.locate, report.issues))
    return report


def _module_of(contract: ContractId) -> ModuleType:
    """Import the module of a contract, which has a function `read`; only contracts in use are imported."""
    return import_module(f"assay.datasets.{contract}")


def stream(source: Source, contract: "str | Plugin", *, config: ValidationConfig) -> Iterator[Case | Issue]:
    """Yield issues and cases as they are found; in constant memory where the format allows it (JSONL)."""
    known = resolve_contract(source, contract)
    # The only contract of lines without anything that belongs to the file as a whole; the others have to be read first.
    if known == "legal_eval_v1" and row_document(source) is None:
        yield from _module_of(known).stream(source, config)
        return
    report = read(source, known or contract, config=config)
    yield from report.issues
    yield from report.cases


def resolve_contract(source: Source, contract: "str | Plugin") -> "ContractId | Plugin | None":
    """Find the contract of that name, built in or a plugin's; `auto` finds the one that the content shows. Raises UsageProblem."""
    if not isinstance(contract, str):
        return contract
    if contract not in ("auto", BUILT_IN):
        return CONTRACTS[contract].id if contract in CONTRACTS else _plugin_contracts().named_contract(contract)
    # Built-in contracts come first: an installed package must not take over files that were read by them before.
    guessed = guess_contract(source).contract
    if guessed is not None or contract == BUILT_IN:
        return guessed
    found: Plugin | None = _plugin_contracts().recognise_contract(source)
    return found


def _plugin_contracts() -> ModuleType:
    """Find a plugin's contract; searched only here, because listing installed packages is slow."""
    return import_module("assay.datasets.plugin_contract")


def contract_named(contract: str) -> ContractId:
    """Return the built-in contract of that name; raises UsageProblem that names the nearest one."""
    if contract in CONTRACTS:
        return CONTRACTS[contract].id
    names = (*CONTRACTS, "auto")
    raise UsageProblem(f"unknown contract {contract!r}", hint=nearest(contract, names) or f"known are {', '.join(names)}")


def _syntax_error(source: Source) -> Issue | None:
    """Return the syntax error of a text without a recognised contract; None when it can be parsed."""
    shape = sniff_format(source)
    if shape == "yaml":
        document = parse_yaml(source.part(0, MAX_YAML_BYTES + 1))
    else:
        document = source.document_to_check(by_line=shape == "jsonl")
    # A missing comma hides the members by which a contract is recognised, so the comma is what the user has to hear about.
    flaw = next((flaw for flaw in document.flaws if flaw.fatal or flaw.code == "invalid_json"), None)
    if flaw is None:
        return None
    note = "no contract can be recognised before this is corrected"
    finding = Finding(flaw.code, flaw.path, flaw.message, f"{flaw.hint}; {note}" if flaw.hint else note, offset=flaw.offset)
    return locate_issue(finding, document, RecordContext())


def _tried(source: Source, no_table: str) -> str:
    """Return what was looked for in a file without a contract."""
    return guess_contract(source).tried + (f"; not a table: {no_table}" if no_table else "")


def _unrecognized_report(source: Source, no_table: str = "") -> ValidationReport:
    is_empty = not source.head().strip() and not bytes(source.buffer()).removeprefix(BOM).strip()
    broken = None if is_empty else _syntax_error(source)
    if broken is not None:
        return ValidationReport(path=source.name, contract=None, outcome="rejected", counts=RecordCounts(), issues=[broken])
    hint = "a dataset has at least one record" if is_empty else "name it with --contract to see what is missing"
    if holds_several(source):
        hint = f"it holds several datasets: name one of them, such as '{source.name}#1'"
    elif holds_hashes(source):
        hint = "it is the input of a run that names its datasets or runs by hash, and holds no records"
    elif is_of_a_run(source):
        hint = "it looks like a run file, which is checked with: assay check FILE"
    issue = Issue(
        code="unknown_contract",
        message="the file is empty" if is_empty else f"no contract was recognised: {_tried(source, no_table)}",
        line=1,
        column=1,
        hint=hint,
    )
    return ValidationReport(path=source.name, contract=None, outcome="rejected", counts=RecordCounts(), issues=[issue])
