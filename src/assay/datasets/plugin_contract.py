"""Custom contracts: a function makes a case of a row; parsing, locations, duplicates and hashes are built in.

A row is a line of JSON Lines, an element of a JSON or YAML list, or of the list in the member that the contract names. Rows are
read one by one at the speed of Python; only the contracts of this package have a faster way.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.core.contract import CONTRACTS
from assay.core.errors import ThirdPartyCode, ThirdPartyError, UsageProblem
from assay.core.issue import CODES, Finding
from assay.core.issue import Path as Steps
from assay.core.plugin import Plugin, declared_plugins, find_plugin, given_plugin
from assay.core.report import RecordCounts, ValidationReport
from assay.core.strict_json import Location, ParsedDocument, ParseProblem, parse_json
from assay.datasets.parsing.checks import (
    NO_ROWS,
    FindingList,
    add_flaws,
    add_used_id,
    check_flaws,
    check_nul,
    nearest,
    outcome_of,
    short,
)
from assay.datasets.parsing.config import ReadOptions
from assay.datasets.parsing.formats import MAX_YAML_BYTES, first_names, parse_yaml, sniff_format
from assay.datasets.parsing.hashing import IndexSet
from assay.datasets.parsing.issue_locator import START, IssueList, RecordContext
from assay.datasets.parsing.source import Source, filled_lines

CONTRACT_ERROR = "contract_error"
"""Code of a record on which the contract's code failed."""
RESERVED_MEMBERS = frozenset({"index", "contract", "record_sha256", "sample", "turns", "attachments"})
"""Members of a case that a custom contract does not set."""
MEMBERS = tuple(name for name in Case.__struct_fields__ if name not in RESERVED_MEMBERS)
# The task follows from what the case has, so that a contract need not name it.
_REQUIRED_MEMBERS = {"rubric": "criteria", "reference": "references", "mcq": "choices"}
_YAML_NAME = rb"(?m)^[ \t]*(?:-[ \t]+)?[\"']?([A-Za-z_][\w-]*)[\"']?[ \t]*:"


def named_contract(name: str, *, folder: Path | None = None) -> Plugin:
    """Find the contract of that name: a plugin, `module:name` or `file.py:name`; raises UsageProblem."""
    return _checked(find_plugin("contract", name, folder=folder or Path(), built_in=tuple(CONTRACTS)))


def given_contract(given: object) -> Plugin:
    """Wrap a function or an object as a contract; raises UsageProblem."""
    return given if isinstance(given, Plugin) else _checked(given_plugin("contract", given))


def _checked(plugin: Plugin) -> Plugin:
    """Name a contract by its own name; raises UsageProblem for the name of a built-in one."""
    own = getattr(plugin.target, "name", "")
    name = own if isinstance(own, str) and own else plugin.plan.name
    # A plugin that took over a built-in name would change what existing files mean.
    if name in CONTRACTS:
        raise UsageProblem(f"the contract '{name}' is built in, and stays what it is", hint="give yours another name")
    return Plugin(msgspec.structs.replace(plugin.plan, name=name), plugin.target)


def recognise_contract(source: Source) -> Plugin | None:
    """Find the installed contract that recognises the content; raises UsageProblem if several do."""
    names = frozenset(_names(source))
    found = [plugin for plugin in _recognisers(tuple(sys.path)) if _recognises(plugin, names)]
    if len(found) > 1:
        both = " and ".join(repr(plugin.plan.name) for plugin in found)
        raise UsageProblem(f"the contracts {both} both recognise '{source.name}'", hint="name one with --contract")
    return found[0] if found else None


@lru_cache(4)
def _recognisers(_path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """Load the installed contracts that can recognise files; `assay plugins` reports the broken ones."""
    loaded: list[Plugin] = []
    for declared in declared_plugins():
        if declared.kind == "contract" and not declared.problem:
            try:
                loaded.append(_checked(declared.load()))
            except UsageProblem:
                continue
    return tuple(plugin for plugin in loaded if callable(getattr(plugin.target, "recognises", None)))


def _recognises(plugin: Plugin, names: frozenset[str]) -> bool:
    try:
        with ThirdPartyCode():
            # It gets names and no content: recognising must not read the file, nor depend on its records.
            return bool(plugin.target.recognises(names))
    except ThirdPartyError:
        return False


def _names(source: Source) -> set[str]:
    """Return the names of the first row's members, approximately."""
    if sniff_format(source) == "yaml":
        return {name.decode() for name in re.findall(_YAML_NAME, source.head())}
    return first_names(source.head())


class _PluginRow(msgspec.Struct, frozen=True):
    """One row and its location."""

    index: int
    value: Any
    document: ParsedDocument
    path: Steps
    start: Location = START


def read_with_plugin(source: Source, plugin: Plugin, options: ReadOptions) -> ValidationReport:
    """Validate a source by a custom contract and return the report."""
    reading = _PluginReader(plugin, IssueList())
    reading.check(source)
    options.progress(source.size, source.size)
    rejected, total = len(reading.rejected), reading.total
    counts = RecordCounts(total, total - rejected, rejected)
    return ValidationReport(
        path=source.name,
        contract=plugin.plan.name,
        outcome="rejected" if reading.is_broken else outcome_of(counts),
        counts=counts,
        issues=reading.issues.issues,
        unlisted=reading.issues.unlisted,
        broken=reading.rejected,
        open_records=lambda: iter(()) if reading.is_broken else reading.records(source),
    )


class _PluginReader:
    """Reader of one source by a custom contract."""

    def __init__(self, plugin: Plugin, issues: IssueList) -> None:
        self.issues = issues
        self._name = plugin.plan.name
        self._make = getattr(plugin.target, "case", plugin.target)
        self._member = getattr(plugin.target, "member", "")
        self._first: dict[str, int] = {}
        self.total = 0
        self.rejected = IndexSet()
        self.is_broken = False
        """True if the source as a whole could not be read."""

    def check(self, source: Source) -> None:
        """Report every issue of every row; afterwards `rejected` has the indexes of the invalid rows."""
        if sniff_format(source) == "jsonl":
            for row in self._rows(source):
                found, record_id = self._checked(row, row.document.flaws)
                self.issues.note(found, row.document, RecordContext(row.index, record_id, start=row.start))
        else:
            self._check_whole(source)
        if not self.total and not self.is_broken:
            self.issues.add(NO_ROWS)

    def _check_whole(self, source: Source) -> None:
        """Check a document that holds all rows: their locations are found together."""
        document = self._document(source)
        self._check_outside(document)
        flaws: dict[int | None, list[ParseProblem]] = {}
        for flaw in document.flaws:
            flaws.setdefault(self._index_of(flaw.path), []).append(flaw)
        every, ids = FindingList(), dict[int, str | None]()
        for row in self._rows(source):
            found, record_id = self._checked(row, flaws.get(row.index, ()))
            every += found
            if found:
                ids[row.index] = record_id

        def record_of(finding: Finding) -> RecordContext:
            index = self._index_of(finding.path)
            return RecordContext(index, None if index is None else ids.get(index))

        self.issues.note_all(every, document, record_of)

    def _check_outside(self, document: ParsedDocument) -> None:
        """Check the parts of a document outside its rows."""
        found = FindingList()
        if document.is_readable and self._listed(document.value) is None:
            what = f"an object with a list in '{self._member}', or a list" if self._member else "a list of rows, or JSON Lines"
            found.wrong_type((), what, document.value)
        check_flaws(found, document, ())
        found.discard(lambda finding: self._index_of(finding.path) is not None)
        self.is_broken = found.has_errors
        self.issues.note(found, document, RecordContext())

    def _document(self, source: Source) -> ParsedDocument:
        if sniff_format(source) == "yaml":
            return parse_yaml(source.part(0, MAX_YAML_BYTES + 1))
        return parse_json(source.buffer())

    def _listed(self, value: object) -> tuple[Steps, list[object]] | None:
        """Return the rows of a document and the path to them."""
        if type(value) is dict and type(value.get(self._member)) is list:
            return (self._member,), value[self._member]
        return ((), value) if type(value) is list else None

    def _index_of(self, path: Steps) -> int | None:
        steps = path[1:] if path[:1] == (self._member,) else path
        return steps[0] if steps and isinstance(steps[0], int) else None

    def _rows(self, source: Source) -> Iterator[_PluginRow]:
        if sniff_format(source) == "jsonl":
            for index, line in enumerate(filled_lines(source)):
                document = parse_json(line.text, is_whole=False)
                yield _PluginRow(index, document.value, document, (), Location(line.number, 1))
            return
        document = self._document(source)
        listed = self._listed(document.value) if document.is_readable and not self.is_broken else None
        way, values = listed or ((), [])
        for index, value in enumerate(values):
            yield _PluginRow(index, value, document, (*way, index))

    def _checked(self, row: _PluginRow, flaws: Iterable[ParseProblem]) -> tuple[FindingList, str | None]:
        """Check a row; returns its findings, and its id if it has one."""
        self.total += 1
        found, case = FindingList(), None
        if row.document.is_readable:
            found, case = self._make_case(row)
        add_flaws(found, flaws, ())
        record_id = case.id if case is not None else None
        if record_id is not None and not found.has_errors:
            self._note_id(record_id, row, found)
        if found.has_errors:
            self.rejected.add(row.index)
        return found, record_id

    def _note_id(self, record_id: str, row: _PluginRow, found: FindingList) -> None:
        first = self._first.setdefault(record_id, row.index)
        if first != row.index:
            add_used_id(found, record_id, row.path, first=f"row {first}")

    def _make_case(self, row: _PluginRow) -> tuple[FindingList, Case | None]:
        """Call the contract for a row; returns the findings, with paths from the document's root, and the case."""
        reported, found = FindingList(), FindingList()
        # These checks are the same for every contract, so that no plugin can let them pass.
        check_nul(found, row.value, row.path)
        case: Case | None = None
        try:
            with ThirdPartyCode():
                made = self._make(row.value, reported)
            case = self._case(made, row) if made is not None else None
            if case is None and not reported.has_errors:
                reported.add(CONTRACT_ERROR, (), "the contract made no case of the row, and reported no issue")
        except ThirdPartyError as failure:
            reported.add(CONTRACT_ERROR, (), f"the contract's code raised {failure}")
        except _NoCase as problem:
            if not reported.has_errors:
                reported.add(CONTRACT_ERROR, (), f"the contract made no case of the row: {problem}")
        found += [_with_known_code(msgspec.structs.replace(finding, path=(*row.path, *finding.path))) for finding in reported]
        found.unlisted.update(reported.unlisted)
        return found, case

    def _case(self, made: object, row: _PluginRow) -> Case:
        if not isinstance(made, dict):
            raise _NoCase(f"it gave {type(made).__name__}, not a dict")
        unknown = next((name for name in made if name not in MEMBERS), None)
        if unknown is not None:
            raise _NoCase(f"a case has no member {short(str(unknown))} here {nearest(str(unknown), MEMBERS)}".rstrip())
        task = made.get("task") or next((task for task, member in _REQUIRED_MEMBERS.items() if made.get(member)), "open")
        ours = {"index": row.index, "contract": self._name, "record_sha256": sha256_hex(canonical_json(row.value))}
        try:
            case = msgspec.convert({"task": task, "dataset": self._name, "prompt": "", **made, **ours}, Case)
        except msgspec.ValidationError as problem:
            raise _NoCase(str(problem)) from None
        _check_case(case)
        return case

    def records(self, source: Source) -> Iterator[tuple[Case, object]]:
        """Yield the cases of the accepted rows with their rows; made again, so that nothing stays in memory."""
        for row in self._rows(source):
            if row.index not in self.rejected:
                # Made once more from the row: keeping the cases of a large file would take several times its size.
                _, case = self._make_case(row)
                if case is None:
                    raise UsageProblem(f"the contract '{self._name}' does not say the same of a row twice")
                yield case, row.value


class _NoCase(Exception):
    """A contract's result that is not a case; the message says why."""


def _check_case(case: Case) -> None:
    """Raise _NoCase for a case that no candidate can answer or no method can grade."""
    needed = _REQUIRED_MEMBERS.get(case.task)
    ids = [choice.id for choice in case.choices]
    wrong = {
        # Found here and not by a grader, where it would cost a call and end in an error.
        "the id is empty": not case.id.strip(),
        "it has neither a prompt nor messages": not case.prompt.strip() and not case.messages,
        f"a case of task '{case.task}' needs {needed}": needed is not None and not getattr(case, needed),
        f"custom contracts cannot make cases of task '{case.task}'": case.task in ("conversation", "pairwise"),
        "a correct choice is none of the choices": not set(case.correct_choice_ids) <= set(ids) or len(set(ids)) < len(ids),
        "no choice is correct": case.task == "mcq" and not case.correct_choice_ids,
    }
    for why in (why for why, is_so in wrong.items() if is_so):
        raise _NoCase(why)


def _with_known_code(finding: Finding) -> Finding:
    """Replace an unknown issue code by one of ours, since codes are a closed list."""
    if finding.code in CODES:
        return finding
    return msgspec.structs.replace(finding, code="value_out_of_range", message=f"{finding.message} ({finding.code})")
