"""The datasets that a request names, each file of them validated once; what is wrong is noted in the settings."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.core.contract import CONTRACTS, file_stem
from assay.core.errors import SourceUnreadable, UsageProblem, heading
from assay.core.issue import Issue
from assay.core.issue import Path as Steps
from assay.core.report import ValidationReport
from assay.core.settings import DatasetEntry, OnInvalid
from assay.datasets import read
from assay.datasets.dataset_paths import open_dataset, part_names, similar_file
from assay.datasets.parsing.config import ReadOptions, ValidationConfig, changed_settings, load_config
from assay.datasets.parsing.source import Source
from assay.engine.planning.attachments import Attachments
from assay.engine.planning.dataset_inputs import (
    DatasetInput,
    dataset_files,
    dataset_plan,
    names_files,
    shown_path,
    unanswered_turns,
)
from assay.engine.planning.handles import make_room_for_handles
from assay.engine.planning.request import MergedSettings
from assay.engine.planning.request_plugins import RequestPlugins
from assay.engine.planning.responses import FIRST, listed
from assay.engine.records.groups import member_text

FAULTY_FILES = 10
"""Files of which everything is said before those that cannot be used are only counted."""


def on_invalid(wanted: OnInvalid | None, contract: str) -> OnInvalid:
    """What happens to the invalid records of a contract: what somebody wants, or else what is usual for it."""
    skips = contract in CONTRACTS and CONTRACTS[contract].skips_invalid
    return wanted or ("skip" if skips else "reject")


class DatasetReading:
    """The files of all datasets, one after the other."""

    def __init__(self, settings: MergedSettings, code: RequestPlugins, *, runs_dir: Path) -> None:
        self.inputs: list[DatasetInput] = []
        self.refused: list[ValidationReport] = []
        self.notes: list[str] = []
        self._settings = settings
        self._code = code
        self._runs_dir = runs_dir
        self._attachments = Attachments()
        self._names: set[str] = set()
        self._warned: list[str] = []
        self._faulty = 0
        """Files that cannot be used."""

    def read(self, entries: Sequence[tuple[Steps, DatasetEntry]]) -> None:
        """Validate every file."""
        files = [(path, file) for path, entry in entries for file in self._files(path, entry)]
        # The same sum as when it runs, so that nobody has to raise the limit twice.
        make_room_for_handles(len(files) + self._settings.value.run.concurrency)
        for path, file in files:
            self._read_dataset(path, file)
        more = self._faulty - FAULTY_FILES
        self._settings.problems += [f"{more:,} more files are not usable"] if more > 0 else []
        self.notes += listed(self._warned)

    def _files(self, path: Steps, entry: DatasetEntry) -> list[DatasetEntry]:
        """The entry itself, or one for each file of the folder or pattern that it names."""
        if entry.path == "-":
            self._settings.add(path, "a run cannot be read from standard input, because it must be able to go on after a crash")
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
        finally:
            if runs:
                more = f" and {len(runs) - 1:,} more like it" if len(runs) > 1 else ""
                self.notes.append(f"'{shown_path(runs[0])}'{more} left out: runs are not datasets")
            self.notes += listed([f"'{shown_path(file)}' shows no contract and is left out" for file in skipped])

    def _parts(self, path: Steps, entry: DatasetEntry, place: Path) -> list[DatasetEntry]:
        """The entry itself, or one for each dataset of a file that holds several."""
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
            options = ReadOptions(interface=self._settings.interface)
            report = read(source, self._code.contract(path, entry, source), config=config, options=options)
        except (SourceUnreadable, UsageProblem) as problem:
            hint = problem.hint if isinstance(problem, UsageProblem) else similar_file(Path(shown_path(str(place))))
            self._refuse(path, f"{problem.message} ({hint})" if hint else problem.message)
            return
        reason = self._refusal(report)
        if report.contract is None or reason:
            self.refused.append(report)
            self._refuse(path, reason, self._errors(report))
            return
        plan = msgspec.structs.replace(
            dataset_plan(source, report, name=entry.name or self._free_name(source)),
            split_field=entry.split_field,
            split_value=member_text(entry.split_value),
            limit=entry.limit,
            validation=changed_settings(config),
        )
        self._names.add(plan.name)
        self.inputs.append(DatasetInput(plan, source, report, self._attachments))
        unanswered = unanswered_turns(report.cases) if report.contract == "conversation_v1" else 0
        if unanswered:
            self.notes.append(f"{unanswered:,} user turn(s) of '{plan.name}' have no reply and are not evaluated")
        warnings = report.count("warning")
        if warnings:
            self._warned.append(f"'{plan.name}' has {warnings:,} warning(s); see: assay validate {entry.path}")

    def _validation(self, path: Steps, entry: DatasetEntry) -> ValidationConfig:
        """How the dataset is validated: by its own settings, else by those for all datasets."""
        given = self._settings.value.config
        if entry.config:
            config = load_config(self._settings.folder(path) / entry.config)
        else:
            config = load_config(self._settings.folder(("config",)) / given) if given else ValidationConfig()
        switches = ("allow_size", "null_as_absent")
        return msgspec.structs.replace(config, **{name: True for name in switches if getattr(self._settings.value, name)})

    def _free_name(self, source: Source) -> str:
        """The name of the file, with its folder where another dataset has it; of a run's input, the name that it had there."""
        stem = source.stored.name if source.stored else file_stem(source.name)
        return f"{Path(source.name).parent.name}/{stem}" if stem in self._names else stem

    def _refuse(self, path: Steps, reason: str, errors: Sequence[str] = ()) -> None:
        """Say what is wrong with a file; a folder may have thousands of them, and the first ones tell enough."""
        self._faulty += 1
        if self._faulty <= FAULTY_FILES:
            if reason:
                self._settings.add(path, reason)
            self._settings.problems += errors

    def _refusal(self, report: ValidationReport) -> str:
        """Why a dataset of a known contract cannot be taken; empty when it can."""
        if report.contract is None:
            return ""
        if report.outcome == "rejected":
            return heading(f"'{shown_path(report.path)}' is not usable as {report.contract}")
        rejected = report.counts.rejected_records
        if not rejected or on_invalid(self._settings.value.on_invalid, report.contract) == "skip":
            return ""
        ways = "correct them, or leave them out with on_invalid: skip (--on-invalid skip)"
        return heading(f"'{shown_path(report.path)}' has {rejected:,} invalid record(s); {ways}")

    def _errors(self, report: ValidationReport) -> list[str]:
        errors = [issue for issue in report.issues if issue.severity == "error"]
        path = shown_path(report.path)
        return listed([f"{path}:{_line(issue)}" for issue in errors[:FIRST]], report.count("error"))


def _line(issue: Issue) -> str:
    """An error in one line, with its hint."""
    hint = f" ({issue.hint})" if issue.hint else ""
    return f"{issue.line or 1}:{issue.column or 1}: {issue.code}: {issue.message}{hint}"


def _check_name(place: Path) -> None:
    """Raises UsageProblem for a name that no document could hold."""
    try:
        str(place).encode()
    except UnicodeEncodeError:
        raise UsageProblem(f"the name of {str(place)!r} is not UTF-8", hint="rename the file") from None
