"""Reports made by hand, and the comparison with snapshots of what is shown."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.issue import Issue
from assay.core.report import RecordCounts, ValidationReport
from assay.core.strict_json import excerpt
from tests.regenerating import check_file

SNAPSHOTS = Path(__file__).parent / "snapshots"

HOSTILE = (
    "\x1b[31mred\x1b[0m [red]x[/red] <script>alert(1)</script> ]]> ::error::x \u202egnp.exe | `tick` \ud800 %0A\r\n::warning::y"
)

Snapshot = Callable[[str, str], None]


@pytest.fixture
def snapshot() -> Snapshot:
    """Compare text with a kept file."""
    return lambda name, text: check_file(SNAPSHOTS / name, text)


def found(source: str, needle: str, *, line: int, **fields: object) -> Issue:
    """An issue that points at `needle` in a source line."""
    offset = source.index(needle)
    shown = excerpt(source, offset)
    return Issue(line=line, column=offset + 1, excerpt=shown.text, caret=shown.caret, **fields)  # type: ignore[arg-type]


def missing(index: int) -> Issue:
    return found(
        f'    {{"record_id": "q_{index:04}", "input": {{}}}},',
        "{}",
        line=index + 5,
        code="missing_required_field",
        message="field 'prompt' is required",
        path=f"records[{index}].input.prompt",
        index=index,
        record_id=f"q_{index:04}",
        hint='add "prompt" with the text that the model gets',
    )


@pytest.fixture
def clean() -> ValidationReport:
    return ValidationReport(
        path="data/clean.json", contract="batch_v1", outcome="accepted", counts=RecordCounts(12, 12, 0), issues=()
    )


@pytest.fixture
def broken() -> ValidationReport:
    """A dozen look-alikes, one finding of another kind on a wide line, and a warning."""
    wide = '    {"record_id": "問い_13", "input": {"prompt": "日本語の質問です"}, "priority": 7},'
    issues = [
        Issue(
            code="all_records_invalid",
            message="all 14 records are invalid",
            path="records",
            details={"http_status": 400, "error_code": "invalid_request"},
        ),
        *map(missing, range(12)),
        found(
            wide,
            '"priority"',
            line=17,
            code="unsupported_field",
            message="unknown field 'priority'",
            path="records[12].priority",
            index=12,
            record_id="問い_13",
            hint="move it into metadata",
        ),
        found(
            '  "comment": "draft",',
            '"comment"',
            line=2,
            code="unsupported_field",
            message="unknown field 'comment' is ignored",
            path="comment",
            severity="warning",
        ),
    ]
    return ValidationReport(
        path="data/broken.json", contract="batch_v1", outcome="rejected", counts=RecordCounts(13, 0, 13), issues=issues
    )


@pytest.fixture
def conversation() -> ValidationReport:
    issues = [
        found(
            "- {turn_id: 3, speaker: user}",
            "{",
            line=4,
            code="missing_required_field",
            message="a user turn needs 'message'",
            path="[1].message",
            index=1,
            turn_id=3,
            error_type="required_field_missing",
            name="Missing message",
        ),
        found(
            "- {turn_id: 3, speaker: user}",
            "3",
            line=4,
            code="value_out_of_range",
            message="turn_id 3 follows 1; expected 2",
            path="[1].turn_id",
            index=1,
            turn_id=3,
            error_type="sequence_error",
            name="Non-sequential turn_ids",
            hint="number the turns 1, 2, 3",
        ),
    ]
    counts = RecordCounts(2, 1, 1)
    return ValidationReport(
        path="talk.yaml", contract="conversation_v1", outcome="accepted_with_record_errors", counts=counts, issues=issues
    )


@pytest.fixture
def hostile() -> ValidationReport:
    """Every text of the report is an attack on some reader."""
    issue = Issue(
        code="invalid_enum_value",
        message=f"unknown word '{HOSTILE}'",
        path=f'records[0]["{HOSTILE}"]',
        index=0,
        record_id=HOSTILE,
        line=3,
        column=1,
        hint=HOSTILE,
        excerpt=HOSTILE,
        caret=2,
    )
    path = HOSTILE.replace("\ud800", "\udcff")  # how Python spells a byte of a file name that is not UTF-8
    return ValidationReport(path=path, contract="batch_v1", outcome="rejected", counts=RecordCounts(1, 0, 1), issues=[issue])
