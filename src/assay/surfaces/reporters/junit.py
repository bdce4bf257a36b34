"""JUnit XML: of reports on datasets a suite for each file, of runs a suite of gates and one with a case for every record.

Suites and cases are the shape that a pipeline reads, not sections; the words in them are those of every report.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.core.summary import Summary
from assay.core.text import REPLACEMENT, printable
from assay.presentation.decisions import CheckedRun, CiCheck, RecordCheck
from assay.presentation.validation import change_line, contract_name, limited, place, record_label
from assay.presentation.words import counted, metric_text
from assay.surfaces.reporters.formats import ReportSettings

MESSAGE_LIMIT = 400
ANSWER_LIMIT = 2_000
"""Characters of an answer below a failure; predictions.jsonl has all of it."""
# Beyond control characters and surrogates, XML 1.0 cannot hold these, not even as character references.
_NOT_XML = re.compile("[\ufffe\uffff]")


def junit_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write one `testsuites` document; a record without errors has no case of its own."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="assay">\n'
    for report in reports:
        yield from _file_suite(report, settings)
    yield "</testsuites>\n"


def _file_suite(report: ValidationReport, settings: ReportSettings) -> Iterator[str]:
    issues = limited(report, settings.max_issues)
    # JUnit knows no warnings; without --strict they are text below the dataset's case.
    failing = [issue for issue in issues if issue.severity == "error" or settings.is_strict]
    warnings = [] if settings.is_strict else [issue for issue in issues if issue.severity == "warning"]
    dataset = [issue for issue in failing if issue.index is None]
    records = _by_record(failing)
    # One failure for each record, and one for the dataset itself.
    failures = len(records) + bool(dataset)
    yield f'  <testsuite name={attribute(report.path)} tests="{len(records) + 1}" failures="{failures}" errors="0">\n'
    yield from _file_properties(report, omitted=report.issue_counts.total() - len(issues))
    yield from _issue_case(
        report, "dataset", issues=dataset, notes=[*map(change_line, settings.changes), *_lines(report, warnings)]
    )
    for group in records:
        yield from _issue_case(report, record_label(group[0]), issues=group)
    yield "  </testsuite>\n"


def _by_record(issues: Iterable[Issue]) -> list[list[Issue]]:
    """Groups of issues that share a record, in the order of the records."""
    # Sorted, since `groupby` joins only neighbours, and warnings come after errors.
    of_records = sorted((issue for issue in issues if issue.index is not None), key=_record_key)
    return [list(group) for _, group in groupby(of_records, key=_record_key)]


def _record_key(issue: Issue) -> tuple[int, int]:
    return (issue.conversation or 0, issue.index or 0)


def _file_properties(report: ValidationReport, *, omitted: int) -> Iterator[str]:
    counts = report.counts
    values = {
        "contract": contract_name(report),
        "outcome": report.outcome,
        "total_records": counts.total_records,
        "accepted_records": counts.accepted_records,
        "rejected_records": counts.rejected_records,
        **({"omitted_issues": omitted} if omitted else {}),
    }
    yield "    <properties>\n"
    for name, value in values.items():
        yield f'      <property name="{name}" value="{value}"/>\n'
    yield "    </properties>\n"


def _issue_case(report: ValidationReport, name: str, *, issues: Sequence[Issue], notes: Sequence[str] = ()) -> Iterator[str]:
    head = f"    <testcase classname={attribute(report.path)} name={attribute(name)}"
    if not issues and not notes:
        yield f"{head}/>\n"
        return
    yield f"{head}>\n"
    if issues:
        rest = f" (and {counted(len(issues) - 1, 'more finding')})" if len(issues) > 1 else ""
        opening = f"      <failure type={attribute(issues[0].code)} message={attribute(issues[0].message + rest)}>"
        yield f"{opening}{content(_lines(report, issues))}</failure>\n"
    if notes:
        yield f"      <system-out>{content(notes)}</system-out>\n"
    yield "    </testcase>\n"


def _lines(report: ValidationReport, issues: Iterable[Issue]) -> list[str]:
    return [_line(report.path, issue) for issue in issues]


def _line(path: str, issue: Issue) -> str:
    at = f" at {issue.path}" if issue.path else ""
    hint = f" (hint: {issue.hint})" if issue.hint else ""
    return f"{place(path, issue)}: {issue.severity}[{issue.code}] {issue.message}{at}{hint}"


# Runs


def run_junit(runs: Sequence[CheckedRun]) -> Iterator[str]:
    """Write one `testsuites` document. A failure is an answer or a gate that did not pass, an error one without a verdict."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="assay">\n'
    for checked in runs:
        yield from _run_suite(f"{checked.subject}: gates", Counter(gate.outcome for gate in checked.gates))
        for gate in checked.gates:
            yield from _check_case(gate, f"{checked.subject}.gates")
        yield "  </testsuite>\n"
        # The head of a suite counts its cases, so they are looked at twice: a run may have more than fit into memory.
        yield from _run_suite(checked.subject, Counter(record.outcome for record in checked.records()))
        yield from _run_properties(checked)
        for record in checked.records():
            yield from _check_case(record, f"{checked.subject}.{record.dataset}", record)
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


def _run_suite(name: str, outcomes: Counter[object]) -> Iterator[str]:
    counts = f'tests="{outcomes.total()}" failures="{outcomes["failure"]}" errors="{outcomes["error"]}"'
    yield f'  <testsuite name={attribute(name)} {counts} skipped="{outcomes["skipped"]}">\n'


def _run_properties(checked: CheckedRun) -> Iterator[str]:
    result, manifest = checked.run.result, checked.run.run_manifest
    summary = result.summary
    known = {
        "run_id": checked.name,
        "status": result.state,
        "candidate": result.candidate,
        "dataset": manifest.dataset_id,
        "pass_rate": None if summary is None else metric_text(summary.pass_rate_metric, is_rate=True),
        "n_scored": None if summary is None else summary.n_scored,
        "manifest_sha256": manifest.own_hash,
        **dict(_named_rates(summary)),
    }
    yield "    <properties>\n"
    for name, value in known.items():
        if value is not None:
            yield f"      <property name={attribute(name)} value={attribute(str(value))}/>\n"
    yield "    </properties>\n"


def _named_rates(summary: Summary | None) -> Iterator[tuple[str, str]]:
    """Yield the pass rates of checks and graders, by name."""
    for member in ("checks", "graders"):
        named = getattr(summary, member, None)
        for name, one in named.items() if isinstance(named, dict) else ():
            yield f"{member}.{name}", metric_text(one.pass_rate_metric, is_rate=True)


def _check_case(check: CiCheck, classname: str, record: RecordCheck | None = None) -> Iterator[str]:
    time = "" if record is None or record.seconds is None else f' time="{record.seconds:.3f}"'
    head = f"    <testcase classname={attribute(classname)} name={attribute(check.name)}{time}"
    if check.outcome == "passed":
        said = f"{check.kind} {check.reason}".strip()
        yield f"{head}>\n      <system-out>{content([said])}</system-out>\n    </testcase>\n" if said else f"{head}/>\n"
        return
    message = attribute(" ".join(check.reason.split()), limit=MESSAGE_LIMIT)
    yield f"{head}>\n"
    if check.outcome == "skipped":
        yield f"      <skipped message={message}/>\n"
    else:
        opening = f"      <{check.outcome} type={attribute(check.kind)} message={message}>"
        yield f"{opening}{content(_told(check, record))}</{check.outcome}>\n"
    yield "    </testcase>\n"


def _told(check: CiCheck, record: RecordCheck | None) -> Iterable[str]:
    yield from check.reason.splitlines()
    if record is not None and record.answer:
        yield ""
        yield "answer:"
        yield from record.answer[:ANSWER_LIMIT].splitlines()
        more = len(record.answer) - ANSWER_LIMIT
        if more > 0:
            yield f"[{more:,} more characters in predictions.jsonl]"


# Texts in XML


def attribute(text: str, *, limit: int | None = None) -> str:
    """Return one line as a quoted value."""
    escaped = escape(_NOT_XML.sub(REPLACEMENT, printable(text, limit=limit)), quote=False)
    # Single quotes around a text with double quotes keep messages readable in the file.
    if '"' in escaped and "'" not in escaped:
        return f"'{escaped}'"
    quoted = escaped.replace('"', "&quot;")
    return f'"{quoted}"'


def content(lines: Iterable[str]) -> str:
    """Lines as the text of an element."""
    # `]]>` and `&` are escaped too; control characters were replaced, as XML cannot hold them in any form.
    return escape(_NOT_XML.sub(REPLACEMENT, "\n".join(map(printable, lines))), quote=False)
