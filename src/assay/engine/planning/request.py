"""What somebody asks for, as options or in a run file, into one value whose every member still knows where it was said."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.errors import UsageProblem, in_one_line
from assay.core.exposure import Setting, settings_struct
from assay.core.issue import Finding
from assay.core.issue import Path as Steps
from assay.core.plan import DEFAULT_PROJECT, PluginKind
from assay.core.plugin import Plugin, given_plugin
from assay.core.provider import FUNCTIONS
from assay.core.report import ValidationReport
from assay.core.retention import RetentionSettings
from assay.core.secrets import RedactRule
from assay.core.settings import DatasetEntry, ModelEntry, RunFile, run_settings
from assay.datasets.parsing.checks import FindingList
from assay.datasets.parsing.config import Interface
from assay.engine.planning.run_file import LoadedRunFile, issue_of, load_run_file, read_members
from assay.store.redact import rule_problems

if TYPE_CHECKING:
    _GivenSettings = msgspec.Struct
else:
    _GivenSettings = settings_struct(
        "_GivenSettings", [(one.member, Any, one.nothing) for one in run_settings().values()], module=__name__
    )


class RunRequest(_GivenSettings, frozen=True, kw_only=True):
    """The options of `assay run`: the settings of `core/settings.py` that can be given besides a run file, which they override.

    Models, judges, `grader` and `policy` may be functions; `policies` are for the records whose `metadata.policy_id` names them.
    """

    run_file: str = ""
    contract: Any = ""
    """Of the datasets that name none: a name, or code that makes a case of a row. Default: recognised by content."""
    redact: tuple[RedactRule, ...] = ()
    """Custom redaction rules besides those of the run file."""
    project: str = DEFAULT_PROJECT
    """The API keys of this project may see the run; for servers."""
    retention: RetentionSettings | dict[str, Any] = RetentionSettings()
    """How long artifacts are kept, beside what the run file and the environment say: the longest counts."""
    interface: Interface = "python"
    """Hints are in the words of this interface."""
    code: tuple[str, ...] | None = None
    """Names of the only code that the options may name; None is any. For callers who must not choose what a process runs."""

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


class PlanProblems(UsageProblem):
    """Everything that keeps a run from being started, found before any call."""

    def __init__(self, problems: Sequence[str], *, refused: Sequence[ValidationReport] = ()) -> None:
        self.problems = tuple(problems)
        self.refused = tuple(refused)
        """What was said of datasets that cannot be used."""
        super().__init__(in_one_line(self.problems), hint="no model was called; fix these and run again")


class MergedSettings:
    """The merged settings of a request, and the place in a file or the option that each of them comes from."""

    def __init__(self, request: RunRequest) -> None:
        self.problems: list[str] = []
        self.given: dict[tuple[PluginKind, str], Plugin] = {}
        """Functions that the request holds, by the names that stand for them."""
        self._targets: dict[tuple[PluginKind, str], Any] = {}
        self._wrong: set[Steps] = set()
        self._code = request.code
        self.project = request.project
        self.interface = request.interface
        self.retention = self._retention(request)
        self.redact = request.redact
        self.problems += rule_problems(request.redact)
        self.contract: Any = request.contract
        given = [setting for setting in run_settings().values() if getattr(request, setting.member) not in ("", (), None, {})]
        self._options: dict[Steps, Setting] = {setting.path: setting for setting in given}
        self._loaded = load_run_file(request.run_file) if request.run_file else None
        self.value = self._merged(_nested({one.path: self._spelled(one.member, getattr(request, one.member)) for one in given}))

    def _retention(self, request: RunRequest) -> RetentionSettings:
        try:
            return msgspec.convert(msgspec.to_builtins(request.retention), RetentionSettings)
        except msgspec.ValidationError as problem:
            self.problems.append(f"retention: {problem}")
            return RetentionSettings()

    def _spelled(self, option: str, value: Any) -> Any:
        """The value of an option with names in the place of functions."""
        if option in ("models", "judges"):
            return tuple(entry if isinstance(entry, str) else f"{FUNCTIONS}/{self._named('model', entry)}" for entry in value)
        if option == "policies":
            return {name: self._registered(name, entry) for name, entry in value.items()}
        kind: PluginKind | None = "grader" if option == "grader" else "policy" if option == "policy" else None
        return value if kind is None or isinstance(value, str) else self._named(kind, value)

    def _registered(self, name: str, policy: Any) -> str:
        """What names a policy that records choose by `name`; a function is known by that name."""
        if isinstance(policy, str):
            return policy
        self.given["policy", name] = given_plugin("policy", policy, name=name)
        return name

    def _named(self, kind: PluginKind, target: Any) -> str:
        """The name of a function that is given, which no other one has."""
        plugin = given_plugin(kind, target)
        name, number = plugin.plan.name, 1
        while self._targets.get((kind, name), target) is not target:
            number += 1
            name = f"{plugin.plan.name}#{number}"
        self._targets[kind, name] = target
        self.given[kind, name] = given_plugin(kind, target, name=name)
        return name

    def may_name(self, path: Steps, name: str) -> bool:
        """False for code that the caller of this process names and may not choose; a run file is the operator's own."""
        return self._code is None or not self._option(path) or name in self._code

    def _merged(self, options: dict[str, Any]) -> RunFile:
        found = FindingList()
        members = read_members(options, found)
        in_file = self._loaded.members if self._loaded else {}
        if self._loaded:
            self._note(self._loaded.findings, self._loaded)
        self._note(found, None)
        merged = {**in_file, **members}
        for section in {setting.path[0] for setting in run_settings().values() if len(setting.path) > 1} - {"batch"}:
            merged[section] = {**in_file.get(section, {}), **members.get(section, {})}
        if members.get("batch"):
            # An option about batches does not turn them on.
            is_on = in_file.get("batch") is not None
            merged["batch"] = {"enabled": is_on, **(in_file.get("batch") or {}), **members["batch"]}
        for section in ("providers", "slices", "redact"):
            merged[section] = [entry for entry in merged.get(section, getattr(RunFile(), section)) if entry]
        return msgspec.convert(merged, RunFile)

    def _note(self, findings: Sequence[Finding], loaded: LoadedRunFile | None) -> None:
        for finding in findings:
            self._wrong |= {finding.path[:length] for length in range(len(finding.path) + 1)}
            where = self.place(finding.path) if loaded is None else f"{_place(loaded, finding)}: "
            self.problems.append(f"{where}{_said(finding)}")

    def add(self, path: Steps, message: str) -> None:
        """Note a problem with the setting at a path."""
        self.problems.append(f"{self.place(path)}{message}")

    def is_wrong(self, path: Steps) -> bool:
        """True when something at or below the path was refused already, so that its absence means nothing."""
        return path in self._wrong or (self._loaded is not None and not self._loaded.document.is_readable)

    def place(self, path: Steps) -> str:
        """The option or the place in the run file that a setting comes from, as the beginning of a sentence."""
        setting = self._option(path)
        if setting is not None:
            return ("DATASET" if setting.member == "datasets" else setting.option_name) + ": "
        return f"{_place(self._loaded, Finding('', path, ''))}: " if self._loaded else ""

    def folder(self, path: Steps) -> Path:
        """The folder that a path at this place is relative to."""
        return Path() if self._loaded is None or self._option(path) else Path(self._loaded.path).parent

    def _option(self, path: Steps) -> Setting | None:
        return self._options.get(path[:1]) or self._options.get(path[:2])

    def datasets(self) -> list[tuple[Steps, DatasetEntry]]:
        """The enabled datasets with their places; wrong entries are left out."""
        entries = [entry if isinstance(entry, DatasetEntry) else DatasetEntry(path=entry) for entry in self.value.datasets]
        return [(("datasets", index), entry) for index, entry in enumerate(entries) if entry.path and entry.enabled]

    def models(self, section: str) -> list[tuple[Steps, ModelEntry]]:
        """The candidates or judges with their places; wrong entries are left out."""
        given: tuple[ModelEntry | str, ...] = getattr(self.value, section)
        entries = [entry if isinstance(entry, ModelEntry) else ModelEntry(model=entry) for entry in given]
        return [((section, index), entry) for index, entry in enumerate(entries) if entry.model]


def _nested(given: dict[Steps, Any]) -> dict[str, Any]:
    """Options as the members of a run file."""
    members: dict[str, Any] = {}
    for seat, value in given.items():
        section = members if len(seat) == 1 else members.setdefault(str(seat[0]), {})
        section[str(seat[-1])] = [msgspec.to_builtins(member) for member in value] if isinstance(value, tuple) else value
    return members


def finding_lines(loaded: LoadedRunFile) -> tuple[str, ...]:
    """What is wrong with a run file by itself, a line each with its place."""
    return tuple(f"{_place(loaded, finding)}: {_said(finding)}" for finding in loaded.findings)


def _said(finding: Finding) -> str:
    return f"{finding.message} ({finding.hint})" if finding.hint else finding.message


def _place(loaded: LoadedRunFile, finding: Finding) -> str:
    issue = issue_of(loaded, finding)
    return f"{loaded.path}:{issue.line}:{issue.column}"
