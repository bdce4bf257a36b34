"""Runs as JUnit XML: for each a suite of its gates, and one with a case for every record."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from assay.presentation.words import metric_text
from assay.surfaces.reporters.run_checks import CheckedRun, CiCheck, RecordCheck
from assay.surfaces.reporters.xml_text import attribute, content

MESSAGE_LIMIT = 400
ANSWER_LIMIT = 2_000
"""Characters of an answer beside a failure; predictions.jsonl has the whole of it."""


def run_junit(runs: Sequence[CheckedRun]) -> Iterator[str]:
    """One `testsuites` document. A failure is an answer or a gate that did not pass, an error one without a verdict."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="assay">\n'
    for checked in runs:
        yield from _suite(f"{checked.subject}: gates", Counter(gate.outcome for gate in checked.gates))
        for gate in checked.gates:
            yield from _case(gate, f"{checked.subject}.gates")
        yield "  </testsuite>\n"
        # The head of a suite counts its cases, so they are looked at twice: a run may have more than fit into memory.
        yield from _suite(checked.subject, Counter(record.outcome for record in checked.records()))
        yield from _properties(checked)
        for record in checked.records():
            yield from _case(record, f"{checked.subject}.{record.dataset}", record)
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


def _suite(name: str, outcomes: Counter[Any]) -> Iterator[str]:
    counts = f'tests="{outcomes.total()}" failures="{outcomes["failure"]}" errors="{outcomes["error"]}"'
    yield f'  <testsuite name={attribute(name)} {counts} skipped="{outcomes["skipped"]}">\n'


def _properties(checked: CheckedRun) -> Iterator[str]:
    result, manifest = checked.run.result, checked.run.manifest
    summary = result.summary
    known = {
        "run_id": checked.name,
        "status": result.state,
        "candidate": result.candidate,
        "dataset": manifest.get("dataset_id"),
        "pass_rate": None if summary is None else metric_text(summary.pass_rate_metric, is_rate=True),
        "n_scored": None if summary is None else summary.n_scored,
        "manifest_sha256": manifest.get("manifest_sha256"),
    }
    yield "    <properties>\n"
    for name, value in known.items():
        if value is not None:
            yield f"      <property name={attribute(name)} value={attribute(str(value))}/>\n"
    yield "    </properties>\n"


def _case(check: CiCheck, classname: str, record: RecordCheck | None = None) -> Iterator[str]:
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
