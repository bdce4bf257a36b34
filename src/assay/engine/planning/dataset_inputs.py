"""Datasets of a run: files that a request names, each validated once, and their records as the run reads them."""

import glob
import os
import resource
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from assay.core import errors
from assay.core.case import Attachment, Case, Task
from assay.core.checks import RECORD_CHECKS
from assay.core.contract import CONTRACTS, DatasetIdentity, file_stem
from assay.core.errors import SourceUnreadable, StoreUnavailable, UsageProblem, heading
from assay.core.issue import Issue
from assay.core.issue import Path as Steps
from assay.core.plan import DatasetPlan, PluginPlan
from assay.core.plugin import Plugin, reopened
from assay.core.report import ValidationReport
from assay.core.settings import ColumnSection, DatasetEntry, OnInvalid
from assay.core.tools import METADATA_CALLS
from assay.datasets import lines_of, read
from assay.datasets.batch_v1.rules import HEAD_FIELDS
from assay.datasets.dataset_paths import files_in, files_like, is_saved_dataset, open_dataset, part_names, similar_file
from assay.datasets.parsing.config import DEFAULT_READ_OPTIONS, ReadOptions, ValidationConfig, changed_settings, load_config
from assay.datasets.parsing.source import Source, filled_lines
from assay.datasets.parsing.tool_members import NO_TOOLS, batch_tools, metadata_tools
from assay.engine.planning.attachments import Attachments
from assay.engine.planning.plugins import RequestPlugins
from assay.engine.planning.request import MergedSettings
from assay.engine.planning.trajectories import replayed, unanswered_turns
from assay.engine.records.groups import member_text
from assay.grading import MethodKind, has_basis, kind_for, kind_of, kind_of_calls

OWN_HANDLES = 32
"""Open files of a run besides its connections: the ledger, the artifacts, the event loop."""


def make_room_for_handles(files: int) -> None:
    """Raise the soft limit of open files to what a run needs; raises StoreUnavailable when the hard limit is lower."""
    needed = OWN_HANDLES + files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StoreUnavailable(
            f"this process may open {hard} files, and the run needs about {needed}",
            remedy=f"raise the limit of open files (ulimit -n {needed}), lower --concurrency or have fewer files",
        )
    # Raised to what is needed and no further.
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


MAX_LISTED = 10
"""Missing answers, duplicates, warnings and similar problems that are listed before further ones are only counted."""


def first_problems(problems: Sequence[str], count: int = 0) -> list[str]:
    """Return the first problems, with the number of further ones."""
    return errors.listed(problems, count, first=MAX_LISTED)


if TYPE_CHECKING:
    pass


def names_files(place: Path) -> bool:
    """Return True for a folder, and for a pattern that is not itself the name of a file."""
    return (place.is_dir() and not is_saved_dataset(place)) or (glob.has_magic(str(place)) and not place.exists())


def dataset_files(
    entry: DatasetEntry,
    place: Path,
    *,
    is_any: bool,
    besides: Path,
    on_skip: Callable[[str], None],
    on_run: Callable[[str], None],
) -> list[DatasetEntry]:
    """Return an entry for each file, in the order of their names; raises UsageProblem when there is none.

    Of a folder only files that show a contract count, unless any is wanted, and none of a run or of the folder `besides`.
    """
    if place.is_dir():
        found = files_in(place, on_skip=on_skip, on_run=on_run, is_any=is_any, besides=besides)
    else:
        found = files_like(str(place))
    files = [Path(path) for path in found]
    folder = place if place.is_dir() else Path(os.path.commonpath([file.parent for file in files]))
    entries: list[DatasetEntry] = []
    names: set[str] = set()
    for file in files:
        name = (file.relative_to(folder).parent / file_stem(file.name)).as_posix()
        # Two files of one name in different folders keep their folders, and with different endings their endings.
        if name in names:
            name = file.relative_to(folder).as_posix()
        names.add(name)
        entries.append(msgspec.structs.replace(entry, path=str(file), name=f"{entry.name}/{name}" if entry.name else name))
    return entries


class DatasetInput(msgspec.Struct, frozen=True):
    """One dataset, read and validated."""

    plan: DatasetPlan
    source: Source
    report: ValidationReport
    attachments: Attachments = msgspec.field(default_factory=Attachments)
    """Cache of its attachments, shared by the datasets of a run."""
    is_given: bool = False
    """It was given in memory, and is no file before the run has stored it."""

    @property
    def is_table(self) -> bool:
        """True if its records were made from the rows of a table."""
        return self.plan.table is not UNSET

    @property
    def broken(self) -> Collection[int]:
        """Sorted indexes of the invalid records; for conversation_v1, of conversations."""
        return self.report.broken


class RecordPreview(msgspec.Struct, frozen=True):
    """Members of a valid record that selection needs."""

    index: int
    id: str
    task: str
    metadata: dict[str, Any]
    policy_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    kind: MethodKind | None = None
    """Its grading method by itself, whatever the run grades by; None when there is none."""
    has_basis: bool = True
    """It has something that a judge can compare an answer with."""
    given_references: tuple[str, ...] | msgspec.Raw = ()
    tool_problems: tuple[str, ...] = ()
    """What is wrong with its tools and expected calls."""

    @property
    def references(self) -> tuple[str, ...]:
        """Return its reference answers, which few selections need."""
        given = self.given_references
        return given if isinstance(given, tuple) else _decode_references(given)


def read_dataset(
    path: Path,
    contract: str | Plugin = "auto",
    *,
    config: ValidationConfig | None = None,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> tuple[Source, ValidationReport]:
    """Open and validate the source at a path; raises SourceUnreadable and UsageProblem."""
    source = open_dataset(path)
    return source, read(source, contract, config=config or ValidationConfig(), options=options)


def dataset_plan(source: Source, report: ValidationReport, *, name: str) -> DatasetPlan:
    """Return the plan's entry for a dataset."""
    assert report.contract is not None
    sha256 = source.sha256()
    head = CONTRACTS[report.contract].head if report.contract in CONTRACTS else DatasetIdentity()
    return DatasetPlan(
        path=source.name,
        contract=report.contract,
        dataset_id=str(report.head[head.dataset_id]) if head.dataset_id else name,
        # A file without a version is known by its content, not by a name that outlives it.
        dataset_version=str(report.head[head.dataset_version]) if head.dataset_version else f"sha256:{sha256[:12]}",
        schema_version=str(report.head[head.schema_version]) if head.schema_version else report.contract,
        sha256=sha256,
        name=name,
        file=source.stored.file if source.stored else PurePath(source.name).name,
        fields={audience: dict(counts) for audience, counts in report.fields.items()},
        table=UNSET if source.table is None else source.table.plan,
        **_own_words(report),
    )


def _own_words(report: ValidationReport) -> dict[str, Any]:
    """Return the descriptive members of a batch_v1 document besides its id and versions."""
    head = report.head if report.contract == "batch_v1" else {}
    ignored = tuple(name for name in head if name not in HEAD_FIELDS)
    return {"created_at": str(head.get("created_at", "")), "metadata": head.get("metadata") or {}, "ignored_fields": ignored}


def reread(plan: DatasetPlan, plugins: Sequence[PluginPlan] = ()) -> DatasetInput:
    """Open the dataset of an existing plan; raises UsageProblem when the file, or its contract's code, has changed."""
    contract = plan.contract if plan.contract in CONTRACTS else _contract_among(plugins, plan.contract)
    # The columns that the plan has found, which a later version may find by other names.
    options = ReadOptions() if plan.table is UNSET else ReadOptions(table=(plan.table.columns, plan.table.sheet))
    config = msgspec.convert(plan.validation, ValidationConfig)
    source, report = read_dataset(Path(plan.path), contract, config=config, options=options)
    # A run is over exactly the contents that it was planned with.
    if source.sha256() != plan.sha256:
        raise UsageProblem(f"'{plan.path}' has changed since the run was planned", hint="bring the file back, or start a new run")
    return DatasetInput(plan, source, report)


def _contract_among(plugins: Sequence[PluginPlan], name: str) -> Plugin:
    wanted = next(plugin for plugin in plugins if (plugin.kind, plugin.name) == ("contract", name))
    return reopened(wanted)


def cases_of(dataset: DatasetInput, *, is_recorded: bool) -> Iterator[Case]:
    """Yield the valid cases; a conversation gives one per reply, which is the answer when replies are graded as recorded."""
    return (case for case, _ in records_of(dataset, is_recorded=is_recorded))


def records_of(dataset: DatasetInput, *, is_recorded: bool) -> Iterator[tuple[Case, object]]:
    """Yield the valid cases with their source records; cases of one conversation share one list of turns, to save memory."""
    if dataset.plan.contract == "conversation_v1":
        return replayed(dataset.report.records, is_recorded=is_recorded)
    return dataset.report.records


class _AttachmentRow(msgspec.Struct):
    """An attachment in a dataset; other members are ignored."""

    path: str


class _SelectionRow(msgspec.Struct):
    """Members of a legal_eval_v1 row that selection needs."""

    id: str
    task_type: str
    metadata: dict[str, Any] | None = None
    attachments: tuple[_AttachmentRow, ...] | None = None
    reference_answers: msgspec.Raw = msgspec.Raw(b"null")


def _decode_references(given: msgspec.Raw) -> tuple[str, ...]:
    return msgspec.json.decode(given, type=tuple[str, ...] | None) or ()


_decode_row = msgspec.json.Decoder(_SelectionRow).decode


def preview_records(dataset: DatasetInput, *, is_recorded: bool) -> Iterator[RecordPreview]:
    """Yield previews of the valid records; for long JSONL files this costs a fifth of building their cases."""
    if dataset.plan.contract != "legal_eval_v1":
        for case in cases_of(dataset, is_recorded=is_recorded):
            basis = RECORD_CHECKS not in case.metadata or has_basis(case)
            yield RecordPreview(
                case.index, case.id, case.task, case.metadata, case.policy_id, (), kind_of(case), basis, case.references,
                tool_problems(case),
            )  # fmt: skip
        return
    broken = dataset.broken
    # Loaded here: no other contract needs it.
    tasks: Mapping[str, Task] = import_module("assay.datasets.legal_eval_v1.rules").TASKS
    # By line and only the members that selection needs, since decoding whole cases takes five times as long.
    for index, line in enumerate(filled_lines(lines_of(dataset.source, "legal_eval_v1"))):
        if index not in broken:
            row = _decode_row(line.content)
            metadata = row.metadata or {}
            task, policy_id = tasks[row.task_type], metadata.get("policy_id") or ""
            attachments = tuple(Attachment(attachment.path) for attachment in row.attachments or ())
            kind = kind_for("legal_eval_v1", task)
            tools = metadata_tools(metadata) if METADATA_CALLS in metadata else NO_TOOLS
            if tools.calls is not msgspec.UNSET:
                kind = kind_of_calls(tools.calls)
            yield RecordPreview(
                index, row.id, task, metadata, policy_id, attachments, kind,
                given_references=row.reference_answers, tool_problems=tools.problems,
            )  # fmt: skip


def tool_problems(case: Case) -> tuple[str, ...]:
    """Return what is wrong with a record's tools and expected calls, which its case does not have then."""
    if case.expected_calls is not UNSET:
        return ()
    if case.contract != "batch_v1":
        return metadata_tools(case.metadata).problems
    return batch_tools({"input": {}, **case.extra, "metadata": case.metadata}).problems


def place_of(dataset: DatasetInput, index: int) -> str:
    """Return a record's location as people search for it."""
    path = shown_path(dataset.plan.path)
    if dataset.source.table is not None:
        return f"{path} row {dataset.source.table.row_of(index)}"
    contract = CONTRACTS.get(dataset.plan.contract)
    if contract is not None and contract.is_lines:
        lines = filled_lines(lines_of(dataset.source, dataset.plan.contract))
        line = next(line for position, line in enumerate(lines) if position == index)
        return f"{path}:{line.number}"
    return f"{path} {contract.member if contract else 'row '}[{index}]"


def shown_path(path: str) -> str:
    """Return a path relative to the current folder where possible."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


GIVEN_NAME = "records"
"""Name of a dataset in memory that has no other."""
FAULTY_FILES = 10
"""Unusable files that are reported in full before further ones are only counted."""


def on_invalid(wanted: OnInvalid | None, contract: str, *, is_table: bool = False) -> OnInvalid:
    """Return what happens to invalid records of a contract: as configured, or by default as is usual for it.

    A row of a table that cannot be a record is an invalid record among the others.
    """
    skips = is_table or (contract in CONTRACTS and CONTRACTS[contract].skips_invalid)
    return wanted or ("skip" if skips else "reject")


class DatasetReading:
    """Reader of the files of all datasets, one after the other."""

    def __init__(self, settings: MergedSettings, code: RequestPlugins, *, runs_dir: Path) -> None:
        self.inputs: list[DatasetInput] = []
        self.refused: list[ValidationReport] = []
        self.notes: list[str] = []
        self._settings = settings
        self._code = code
        self._runs_dir = runs_dir
        self._attachments = Attachments()
        self._names: set[str] = set()
        self._unanswered: list[str] = []
        self._warned: list[str] = []
        self._faulty = 0
        """Files that cannot be used."""

    def read(self, entries: Sequence[tuple[Steps, DatasetEntry]]) -> None:
        """Validate every file."""
        files = [(path, file) for path, entry in entries for file in self._files(path, entry)]
        # The same sum as when it runs, so that users need not raise the limit twice.
        # Each open dataset keeps a handle until the run has read it.
        make_room_for_handles(len(files) + self._settings.value.run.concurrency)
        for path, file in files:
            self._read_dataset(path, file)
        more = self._faulty - FAULTY_FILES
        self._settings.problems += [f"{more:,} more files are not usable"] if more > 0 else []
        self.notes += first_problems(self._unanswered)
        self.notes += first_problems(self._warned)

    def _files(self, path: Steps, entry: DatasetEntry) -> list[DatasetEntry]:
        """Return the entry itself, or one for each file of the folder or pattern that it names."""
        # A run has to be resumable after a crash, and a pipe cannot be read again.
        if entry.path == "-":
            self._settings.add(path, "a run cannot be read from standard input, because it must be resumable after a crash")
            return []
        place = (self._settings.folder(path) / entry.path).absolute()
        if not names_files(place):
            return self._parts(path, entry, place)
        skipped: list[str] = []
        runs: list[str] = []
        is_any = bool(entry.contract or self._settings.contract)
        try:
            return dataset_files(entry, place, is_any=is_any, besides=self._runs_dir, on_skip=skipped.append, on_run=runs.append)
        except UsageProblem as problem:
            self._settings.add(path, f"{problem.message} ({problem.hint})")
            return []
        # Also when no file was left: what was skipped is the explanation.
        finally:
            if runs:
                more = f" and {len(runs) - 1:,} more like it" if len(runs) > 1 else ""
                self.notes.append(f"'{shown_path(runs[0])}'{more} left out: runs are not datasets")
            self.notes += first_problems([f"'{shown_path(file)}' shows no contract and is left out" for file in skipped])

    def _parts(self, path: Steps, entry: DatasetEntry, place: Path) -> list[DatasetEntry]:
        """Return the entry itself, or one for each dataset of a file that holds several."""
        try:
            names = part_names(place)
        except SourceUnreadable as problem:
            self._refuse(path, problem.message)
            return []
        replace = msgspec.structs.replace
        parts = (replace(entry, path=f"{entry.path}#{number}", name=name) for number, name in enumerate(names, 1))
        return list(parts) or [entry]

    def _read_dataset(self, path: Steps, entry: DatasetEntry) -> None:
        if bool(entry.split_field) != bool(member_text(entry.split_value)):
            self._settings.add(path, "split_field and split_value belong together")
        place = (self._settings.folder(path) / entry.path).absolute()
        try:
            config = self._validation(path, entry)
            _check_name(place)
            source = open_dataset(place)
            options = ReadOptions(interface=self._settings.interface, table=self._table_options(entry))
            report = read(source, self._code.contract(path, entry, source), config=config, options=options)
        except (SourceUnreadable, UsageProblem) as problem:
            # A usage problem has a hint of its own; a missing file may be misspelt.
            hint = problem.hint if isinstance(problem, UsageProblem) else similar_file(Path(shown_path(str(place))))
            self._refuse(path, f"{problem.message} ({hint})" if hint else problem.message)
            return
        self._accept(path, entry, source, report, config=config)

    def read_given(self, data: object, name: str) -> None:
        """Validate a dataset in memory."""
        value, title = self._settings.value, file_stem(name) or GIVEN_NAME
        entry = DatasetEntry(path=title, name=title)
        # Loaded here: most runs are over files.
        memory = import_module("assay.datasets.memory")
        try:
            config = self._validation(("config",), entry)
            contract = self._settings.contract or "auto"
            table = (value.columns, value.sheet)
            source: Source | ValidationReport = memory.open_data(data, contract, table=table, name=name or GIVEN_NAME)
            if isinstance(source, ValidationReport):
                report = source
            else:
                options = ReadOptions(interface=self._settings.interface, table=table)
                report = read(source, self._code.contract(("datasets",), entry, source), config=config, options=options)
        except (SourceUnreadable, UsageProblem) as problem:
            self._settings.problems.append(f"{problem.message} ({problem.hint})" if problem.hint else problem.message)
            return
        report.path = title
        if isinstance(source, ValidationReport):
            self.refused.append(report)
            self._settings.problems += self._errors(report, is_given=True)
            return
        source.name = memory.given_file(source, title)
        self._accept(("datasets",), entry, source, report, config=config, is_given=True)

    def _accept(
        self,
        path: Steps,
        entry: DatasetEntry,
        source: Source,
        report: ValidationReport,
        *,
        config: ValidationConfig,
        is_given: bool = False,
    ) -> None:
        """Add a dataset that was read, or note why it cannot be used."""
        reason = self._refusal(report, is_table=source.table is not None)
        if report.contract is None or reason:
            self.refused.append(report)
            # The report is kept whole: HTTP answers and the pytest plugin list all its errors.
            self._refuse(() if is_given else path, reason, self._errors(report, is_given=is_given))
            return
        plan = msgspec.structs.replace(
            dataset_plan(source, report, name=entry.name or self._free_name(source)),
            split_field=entry.split_field,
            split_value=member_text(entry.split_value),
            limit=entry.limit,
            # Only what differs from the defaults, so that the plan's hash does not depend on new settings.
            validation=changed_settings(config),
        )
        self._names.add(plan.name)
        self.inputs.append(DatasetInput(plan, source, report, self._attachments, is_given))
        unanswered = unanswered_turns(report.cases) if report.contract == "conversation_v1" else 0
        if unanswered:
            self._unanswered.append(f"{unanswered:,} user turn(s) of '{plan.name}' have no reply and are not evaluated")
        warnings = report.count("warning")
        if warnings:
            where = "assay.validate of the same data" if is_given else f"assay validate {entry.path}"
            self._warned.append(f"'{plan.name}' has {warnings:,} warning(s); see: {where}")

    def _validation(self, path: Steps, entry: DatasetEntry) -> ValidationConfig:
        """Return the settings for validating the dataset: its own, or those for all datasets."""
        given = self._settings.value.config
        if entry.config:
            config = load_config(self._settings.folder(path) / entry.config)
        else:
            config = load_config(self._settings.folder(("config",)) / given) if given else ValidationConfig()
        switches = ("allow_size", "null_as_absent")
        return msgspec.structs.replace(config, **{name: True for name in switches if getattr(self._settings.value, name)})

    def _free_name(self, source: Source) -> str:
        """Return the file's name, with its folder when names clash; for a run's input, the name that it had there."""
        stem = source.stored.name if source.stored else file_stem(source.name)
        # A run's stored input has the name of the original, so that a repeated run is called the same.
        return f"{Path(source.name).parent.name}/{stem}" if stem in self._names else stem

    def _refuse(self, path: Steps, reason: str, errors: Sequence[str] = ()) -> None:
        """Note what is wrong with a file; only the first of possibly thousands are listed."""
        # The first ten in full: a folder of the wrong kind may have thousands.
        self._faulty += 1
        if self._faulty <= FAULTY_FILES:
            if reason:
                self._settings.add(path, reason)
            self._settings.problems += errors

    def _table_options(self, entry: DatasetEntry) -> tuple[ColumnSection, str]:
        """Return the columns and the sheet of a table: its own, or those for all datasets."""
        value = self._settings.value
        return (value.columns if entry.columns is None else entry.columns, entry.sheet or value.sheet)

    def _refusal(self, report: ValidationReport, *, is_table: bool) -> str:
        """Return why a dataset of a known contract cannot be used; empty when it can."""
        if report.contract is None:
            return ""
        if report.outcome == "rejected":
            return heading(f"'{shown_path(report.path)}' is not usable as {report.contract}")
        rejected = report.counts.rejected_records
        if not rejected or on_invalid(self._settings.value.on_invalid, report.contract, is_table=is_table) == "skip":
            return ""
        ways = "correct them, or leave them out with on_invalid: skip (--on-invalid skip)"
        return heading(f"'{shown_path(report.path)}' has {rejected:,} invalid record(s); {ways}")

    def _errors(self, report: ValidationReport, *, is_given: bool = False) -> list[str]:
        errors = [issue for issue in report.issues if issue.severity == "error"]
        # Data in memory have no lines; the path of an issue is its place.
        path = report.path if is_given else shown_path(report.path)
        lines = [_given_line(issue) if is_given else _line(issue) for issue in errors[:MAX_LISTED]]
        return first_problems([f"{path}:{line}" for line in lines], report.count("error"))


def _line(issue: Issue) -> str:
    """Format an error in one line, with its hint."""
    hint = f" ({issue.hint})" if issue.hint else ""
    return f"{issue.line or 1}:{issue.column or 1}: {issue.code}: {issue.message}{hint}"


def _given_line(issue: Issue) -> str:
    """Format an error of a dataset in memory in one line."""
    hint = f" ({issue.hint})" if issue.hint else ""
    return f"{f' {issue.path}:' if issue.path else ''} {issue.code}: {issue.message}{hint}"


def _check_name(place: Path) -> None:
    """Raise UsageProblem for a name that no document could hold."""
    try:
        str(place).encode()
    except UnicodeEncodeError:
        raise UsageProblem(f"the name of {str(place)!r} is not UTF-8", hint="rename the file") from None
