"""The suite file: several run files that are run and gated together."""

import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from assay.core.canonical import JsonObject
from assay.datasets.parsing.checks import FindingList, check_flaws
from assay.datasets.parsing.issue_locator import RecordContext, locate_issue
from assay.datasets.parsing.source import open_source
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.engine.comparison.gate import GateSpec, Measure, Mode
from assay.engine.planning.request import PlanProblems, read_settings

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", title="up to 64 letters, digits, dots, dashes, underscores")
]
RunFilePath = Annotated[str, Meta(min_length=1)]


class SuiteEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run file of a suite, and what is demanded of its runs; its own thresholds always count."""

    run: RunFilePath
    """The run file, relative to the suite file's folder."""
    name: Name | None = None
    """Part of the ids of its runs; by default the file's name without its ending."""
    baseline: str = ""
    """A baseline or a run; by default the baseline of the dataset, `none` for none."""
    mode: Mode = "absolute"
    delta: Annotated[float, Meta(gt=0)] | None = None
    measure: Measure = "pass_rate"
    required: bool = True
    """`false`: a missed gate is a warning for the suite."""

    @property
    def title(self) -> str:
        """What reports and run ids call it."""
        return self.name or _title(self.run)

    @property
    def demand(self) -> GateSpec:
        """What the gate of its runs asks for."""
        return GateSpec(mode=self.mode, delta=self.delta, measure=self.measure)


class SuiteFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a suite file may say."""

    suite: Name = "suite"
    """What reports and run ids call it."""
    runs: tuple[SuiteEntry, ...] = ()


def _title(run_file: str) -> str:
    """Return the name of a run file as far as it can be a part of an id."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(run_file).stem).strip("-.") or "run"


def load_suite(path: str | Path) -> SuiteFile:
    """Load the suite file at a path; raises PlanProblems with everything that is wrong, SourceUnreadable where there is no file."""
    document = parse_yaml(bytes(open_source(path).buffer()))
    found = FindingList()
    members: JsonObject = {}
    if document.is_readable:
        members = read_settings(document.value or {}, SuiteFile, found=found, wordings={})
        _check(members, found)
    # Flaws of the document are reported with those of its contents, in one go.
    check_flaws(found, document, ())
    if len(found):
        issues = [locate_issue(finding, document, RecordContext()) for finding in found]
        raise PlanProblems([f"{path}:{issue.line}:{issue.column}: {issue.message}{_hint(issue.hint)}" for issue in issues])
    return msgspec.convert(members, SuiteFile)


def _hint(hint: str) -> str:
    return f" ({hint})" if hint else ""


def _check(members: JsonObject, found: FindingList) -> None:
    """Check what types cannot: names are different, and a margin is only given where one is used."""
    seen: set[str] = set()
    entries = members.get("runs", ())
    # Only where the list itself was readable; otherwise its own problem is reported.
    if not entries and not any(finding.path[:1] == ("runs",) for finding in found):
        found.add("missing_required_field", ("runs",), "runs names no run file", hint="add `- run: FILE`")
    for index, entry in enumerate(entries):
        # What is not an object, or has no run file, was reported with its type.
        if not isinstance(entry, dict) or "run" not in entry:
            continue
        title = entry.get("name") or _title(entry["run"])
        if title in seen:
            found.add("duplicate_record_id", ("runs", index), f"a second run is called '{title}'", hint="give it a `name`")
        seen.add(title)
        is_margin = entry.get("mode") == "non-inferiority"
        if is_margin != (entry.get("delta") is not None):
            words = "needs `delta`, the loss that is acceptable" if is_margin else "has a `delta` without mode non-inferiority"
            found.add("invalid_field_value", ("runs", index), f"'{title}' {words}")
