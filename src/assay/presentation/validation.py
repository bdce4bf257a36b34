"""A validation report in words: outcomes, counts, locations, suggestions, and which of its issues are shown."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from assay.core.contract import CONTRACTS
from assay.core.issue import CODES, Issue, Severity
from assay.core.open_fields import OTHERS, FieldCounts
from assay.core.report import FixChange, Outcome, RecordCounts, ValidationReport
from assay.core.strict_json import EXCERPT_LEAD, EXCERPT_LENGTH
from assay.core.text import printable
from assay.presentation.sections import Badge, Cell, Column, DisplayValue, Fact, KeyMetric, Section, Table, Tone
from assay.presentation.words import counted

OUTCOME_WORDS: dict[Outcome, str] = {
    "accepted": "accepted",
    "accepted_with_record_errors": "accepted with record errors",
    "rejected": "rejected",
}
OUTCOME_TONES: dict[Outcome, Tone] = {"accepted": "good", "accepted_with_record_errors": "warn", "rejected": "bad"}

SUGGESTIONS: dict[str, str] = {
    "missing_required_field": "Add the field, with a value of the type that the contract states.",
    "invalid_field_type": "Write the value in the stated JSON type; leave an optional field out instead of writing null.",
    "value_out_of_range": "Bring the value into the stated range: length, count, depth, number or pattern.",
    "string_too_long": "Shorten the text, or split the record in two.",
    "invalid_enum_value": "Use one of the listed words, in exactly that spelling.",
    "duplicate_record_id": "Give each record a unique id, or remove the repeated record.",
    "record_too_large": "Move bulky values out of the record or shorten them until its compact JSON fits.",
    "invalid_encoding": "Save the file as UTF-8, and remove control characters, lone surrogates and repeated keys.",
    "unsupported_field": "Remove the field, correct its spelling, or move it into `metadata`.",
    "invalid_json": "Correct the syntax at the marked location; a JSON formatter will show the same line.",
    "invalid_yaml": "Correct the syntax at the marked location: indentation, quotes, no tags, one document, each key once.",
    "payload_too_large": "Split the dataset into files below the limit.",
    "all_records_invalid": "Correct the record errors below: at least one record must be valid.",
    "contract_error": "Check the code of the contract: the exception it raised, or the field of its case that is not valid.",
    "unknown_contract": "Name the format with `--contract`, or compare the top level of the file with the contract's example.",
    "unknown_columns": "Name the columns: `--prompt COL --reference COL`, or `columns` in a run file.",
    "empty_dataset": "Add at least one record.",
    "not_normalized": "No action needed; `--fix` writes a copy in Unicode NFC.",
    "null_optional": "Leave the field out instead of writing null.",
    "suspicious_value": "Check that the value is what you mean.",
    "duplicate_criterion": "Keep one of the two criteria, or describe what the second one adds.",
    "contradictory_criteria": "Remove one of the two criteria, or give the one that describes a fault a negative weight.",
    "unscorable_criterion": "Write what an answer must contain, so that a judge can decide yes or no.",
    "unreachable_criterion": "Give the criterion a weight other than 0, or remove it.",
    "reference_not_covered": "Add a criterion for the content of the reference answer, or correct the reference.",
    "unsent_context": "Write what the answer needs into `user_prompt`.",
    "structure_error": "Make the file one list of turn objects, with at least the minimum number of turns.",
    "required_field_missing": "Add the field: each turn has `turn_id` and `speaker`, and the text of that speaker.",
    "invalid_field_value": "Use a value that the configuration allows: a known speaker or tool, a positive id, a score in range.",
    "sequence_error": "Number the turns 1, 2, 3, … without gaps or repeats.",
    "content_error": "Give the message or reply a length between the configured minimum and maximum.",
    "tool_error": "Give each turn with `tool_used` both a `tool_input` object and a `tool_output`.",
}
"""What to do about each issue code, and about each error type of conversation_v1."""


class Totals:
    """Running totals over the reports of one command."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.errors: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self.is_all_valid = True

    def add(self, report: ValidationReport) -> None:
        """Count one more report."""
        self.outcomes[report.outcome] += 1
        for (code, severity), number in report.issue_counts.items():
            (self.errors if severity == "error" else self.warnings)[code] += number
        # One report with record errors makes the command end with 1, however many others are clean.
        self.is_all_valid = self.is_all_valid and report.is_valid and report.outcome == "accepted"

    def line(self) -> str:
        """Return `2 files: 1 accepted, 1 rejected · 37 errors, 2 warnings`."""
        verdicts = [f"{self.outcomes[outcome]:,} {words}" for outcome, words in OUTCOME_WORDS.items() if self.outcomes[outcome]]
        files = counted(self.outcomes.total(), "file")
        return f"{files}: {', '.join(verdicts) or 'none read'} · {issue_counts(self.errors.total(), self.warnings.total())}"


def issue_counts(errors: int, warnings: int) -> str:
    """Return `37 errors, 2 warnings`; warnings are named only where there are some."""
    return ", ".join([counted(errors, "error"), *([counted(warnings, "warning")] if warnings else [])])


def contract_name(report: ValidationReport) -> str:
    """Return the contract that the source was read as."""
    return report.contract or "unknown contract"


SHOWN_OF_A_KIND = 3
"""Look-alikes shown before the rest of them is collapsed into a count."""
_INDEX = re.compile(r"\[\d+\]")
AUDIENCES = {"candidate_and_judge": "candidate and judge", "judge_only": "judge only", "not_sent": "not sent"}
"""Where fields go, in words; what goes to both is usual, and is listed last."""
MAX_FIELDS = 12
TEXT_LIMIT = 400
"""Characters of a place or a path in a table."""


def field_lines(fields: FieldCounts, noun: str = "record") -> list[tuple[str, str]]:
    """Return each audience with its fields, most records first: `not sent`, `metadata (6 records), context (5 records)`."""
    # What no model or only judges see comes first: that is where a dataset's author may be surprised.
    order = ("not_sent", "judge_only", "candidate_and_judge")
    return [(AUDIENCES[audience], _listed_fields(fields[audience], noun)) for audience in order if fields.get(audience)]


def _listed_fields(counts: Mapping[str, int], noun: str) -> str:
    names = sorted((name for name in counts if name != OTHERS), key=lambda name: -counts[name])
    shown = [f"{name} ({counted(counts[name], noun)})" for name in names[:MAX_FIELDS]]
    if len(names) > MAX_FIELDS:
        shown.append(f"{len(names) - MAX_FIELDS:,} more")
    if OTHERS in counts:
        # One record may have many of them.
        shown.append(f"{OTHERS} ({counted(counts[OTHERS], 'value')})")
    return ", ".join(shown)


def record_word(contract: str | None) -> str:
    """Return what the records of a contract are called, ours or a plugin's."""
    return CONTRACTS[contract].record_word if contract is not None and contract in CONTRACTS else "record"


def accepted_counts(report: ValidationReport) -> str:
    """Return `12 records`, `9 of 12 records accepted`; the records of a conversation are turns."""
    counts = report.counts
    records = counted(counts.total_records, record_word(report.contract))
    if counts.accepted_records == counts.total_records:
        return records
    return f"{counts.accepted_records:,} of {records} accepted"


def record_label(issue: Issue) -> str:
    """Return `record 3 "q_0003"`, or `turn 4` of a conversation; empty for the dataset as a whole."""
    if issue.index is None:
        # Only issues of conversation_v1 have an error type; their records are turns, which people count by
        # `turn_id`.
        return ""
    if issue.error_type is not None:
        turn = f"turn {issue.turn_id}" if issue.turn_id is not None else f"turn at index {issue.index}"
        return f"conversation {issue.conversation} · {turn}" if issue.conversation is not None else turn
    return f'record {issue.index} "{issue.record_id}"' if issue.record_id is not None else f"record {issue.index}"


def place(path: str, issue: Issue) -> str:
    """Return `path:line:column`, as far as they are known."""
    return ":".join([path, *(str(number) for number in (issue.line, issue.column) if number is not None)])


def change_line(change: FixChange) -> str:
    """Return `line 7 · records[0].record_id · trailing space removed`."""
    parts = (f"line {change.line}", change.path, change.message)
    return " · ".join(part for part in parts if part)


# Files and findings as tables

FILE_COLUMNS = (
    Column("file", is_name=True, limit=TEXT_LIMIT),
    Column("contract"),
    Column("outcome"),
    Column("records"),
    Column("errors", is_number=True),
    Column("warnings", is_number=True),
)


def file_row(report: ValidationReport) -> tuple[Cell, ...]:
    """Return one file: its contract, its outcome and its counts."""
    texts = (report.path, contract_name(report), OUTCOME_WORDS[report.outcome], accepted_counts(report))
    return (*map(Cell, texts), *(Cell(f"{report.count(severity):,}") for severity in ("error", "warning")))


class FileIssue(msgspec.Struct, frozen=True):
    """An issue and the file that it was found in."""

    file: str
    issue: Issue


def finding_sections(found: Sequence[FileIssue], severity: str) -> Iterator[Section]:
    """Yield issues of one severity by error type or code, the most frequent first, each with what to do about it."""
    kinds: dict[str, list[FileIssue]] = {}
    for item in found:
        if item.issue.severity == severity:
            kinds.setdefault(item.issue.error_type or item.issue.code, []).append(item)
    columns = (
        Column("place", is_name=True, limit=TEXT_LIMIT),
        Column("record"),
        Column("path", is_name=True, limit=TEXT_LIMIT),
        Column("message"),
    )
    for kind, members in sorted(kinds.items(), key=lambda entry: -len(entry[1])):
        rows = tuple(map(_finding_row, members))
        yield Section(
            title=kind,
            tables=(Table(title=counted(len(members), severity), columns=columns, rows=rows),),
            notes=(CODES[kind],) if kind in CODES else (),
            facts=(Fact("Suggested fix", SUGGESTIONS[kind]),) if kind in SUGGESTIONS else (),
        )


def _finding_row(item: FileIssue) -> tuple[Cell, ...]:
    issue = item.issue
    message = f"{issue.message} ({issue.hint})" if issue.hint else issue.message
    return tuple(map(Cell, (place(item.file, issue), record_label(issue), issue.path, message)))


# Which issues are shown


class SimilarIssues(msgspec.Struct, frozen=True):
    """So many more issues of the kind that was just shown."""

    count: int


class IssueSelection(msgspec.Struct, frozen=True):
    """What to show in order, and what was left out beyond it."""

    shown: tuple[Issue | SimilarIssues, ...]
    omitted_errors: int
    omitted_warnings: int


def in_order(report: ValidationReport) -> list[Issue]:
    """Return errors before warnings, each by their place in the source."""
    # Issues of the dataset as a whole have no line, and come first.
    return sorted(report.issues, key=lambda issue: (issue.severity == "warning", issue.line or 0, issue.column or 0))


def limited(report: ValidationReport, max_issues: int | None) -> tuple[Issue, ...]:
    """Return the first issues in the order of the JSON form; all of them without a limit."""
    # The same order as the members of the JSON report, which is cut at the same place.
    issues = (*report.dataset_errors, *report.record_errors, *report.warnings)
    return issues[:max_issues] if max_issues else issues


def select(report: ValidationReport, *, max_issues: int, is_collapsed: bool) -> IssueSelection:
    """Return the first `max_issues` (0: all) issues, look-alikes beyond a few replaced by their count."""
    issues = in_order(report)
    totals = Counter(_kind(issue) for issue in issues) if is_collapsed else Counter()
    seen: Counter[tuple[str, str, str]] = Counter()
    # Everything counts as omitted until it is shown, or counted with its kind.
    left = {"error": report.count("error"), "warning": report.count("warning")}
    room = max_issues or len(issues)
    shown: list[Issue | SimilarIssues] = []
    for issue in issues:
        if not room:
            break
        kind = _kind(issue)
        seen[kind] += 1
        hidden = _hidden(totals[kind])
        # A collapsed issue takes no room: a file with one mistake in every row still shows its other mistakes.
        if hidden and seen[kind] > SHOWN_OF_A_KIND:
            continue
        shown.append(issue)
        room -= 1
        left[issue.severity] -= 1
        if hidden and seen[kind] == SHOWN_OF_A_KIND:
            shown.append(SimilarIssues(hidden))
            left[issue.severity] -= hidden
    # What is left over is what the room was too small for.
    return IssueSelection(tuple(shown), left["error"], left["warning"])


def _kind(issue: Issue) -> tuple[str, str, str]:
    return (issue.severity, issue.code, _INDEX.sub("[]", issue.path))


def _hidden(total: int) -> int:
    # A single look-alike is shorter shown than announced.
    return total - SHOWN_OF_A_KIND if total > SHOWN_OF_A_KIND + 1 else 0


# A report on one source, for a page or a card

# The closing quote is optional, since an excerpt may end inside the string.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
_WORD = re.compile(r"[-+.\w]+")
_ONE_CHARACTER = frozenset({"invalid_json", "invalid_yaml", "missing_required_field"})
"""Codes that point at a character, or at where an object begins, not at a value."""


class PointedLine(msgspec.Struct, frozen=True):
    """A line of text in three: what stands before the marked place, the place, and what stands after it."""

    before: str
    mark: str
    after: str


def pointed(issue: Issue) -> PointedLine:
    """Return the issue's excerpt with the place that it points at."""
    # The excerpt is a window of the line: it was cut on the left where the caret stands at the window's usual
    # place and yet further right in the file.
    before = "…" if issue.caret >= EXCERPT_LEAD and (issue.column or 0) > issue.caret + 1 else ""
    after = "…" if len(issue.excerpt) >= EXCERPT_LENGTH else ""
    # Text from the file, which may hold control or bidirectional characters that would reorder the line.
    text = before + printable(issue.excerpt) + after
    caret = min(issue.caret + len(before), len(text))
    stop = caret + _span(text[caret:], issue.code)
    return PointedLine(text[:caret], text[caret:stop], text[stop:])


def _span(rest: str, code: str) -> int:
    found = None if code in _ONE_CHARACTER else _STRING.match(rest) or _WORD.match(rest)
    return len(found[0]) if found else 1


class ShownIssue(msgspec.Struct, frozen=True, kw_only=True):
    """An issue in words, as plain values that may come from another process."""

    severity: Severity
    code: str
    meaning: str
    message: str
    place: str
    """`line 3, column 7`."""
    subject: str
    """Record and path."""
    line: int | None
    column: int | None
    path: str
    excerpt: PointedLine | None
    hint: str
    alike: int = 0
    """So many more of the kind follow."""

    @property
    def mark(self) -> Badge:
        """Code with its severity and its meaning."""
        return Badge(self.code, "bad" if self.severity == "error" else "warn", self.meaning)


class CodeCount(msgspec.Struct, frozen=True):
    """How often a code was found."""

    mark: Badge
    times: str


class ValidationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What validation says, in plain values that may come from another process."""

    outcome: Outcome
    contract: str
    counts: RecordCounts
    findings: tuple[ShownIssue, ...]
    omitted: str
    """`1,204 more errors`; empty where all are shown or counted with their kind."""
    codes: tuple[tuple[str, Severity, int], ...]
    errors: int
    warnings: int
    fields: tuple[tuple[str, str], ...] = ()
    """Who is sent the fields that the contract leaves open, in words."""


def shown_issues(shown: tuple[Issue | SimilarIssues, ...]) -> Iterator[ShownIssue]:
    """Yield the issues that are shown, each with the number of those that are alike."""
    last: ShownIssue | None = None
    for item in shown:
        if isinstance(item, SimilarIssues):
            assert last is not None
            last = msgspec.structs.replace(last, alike=item.count)
            continue
        # An issue is held back by one step, because the number of those like it follows it.
        if last is not None:
            yield last
        last = shown_issue(item)
    if last is not None:
        yield last


def shown_issue(issue: Issue) -> ShownIssue:
    """Return an issue in words."""
    numbers = ((name, number) for name, number in (("line", issue.line), ("column", issue.column)) if number is not None)
    subject = (record_label(issue), issue.path, issue.error_type)
    return ShownIssue(
        severity=issue.severity,
        code=issue.code,
        meaning=CODES.get(issue.code, ""),
        message=issue.message,
        place=", ".join(f"{name} {number:,}" for name, number in numbers),
        subject=" · ".join(part for part in subject if part),
        line=issue.line,
        column=issue.column,
        path=issue.path,
        excerpt=pointed(issue) if issue.excerpt else None,
        hint=issue.hint,
    )


def validation_reason(examined: ValidationSummary) -> str:
    """Return what can be done with the source."""
    counts = examined.counts
    unit = record_word(examined.contract)
    if examined.outcome == "accepted":
        return f"All {counted(counts.total_records, unit)} are valid {examined.contract} {unit}s."
    if examined.outcome == "rejected":
        return "Nothing can be evaluated until this is fixed."
    return (
        f"{counts.accepted_records:,} of {counted(counts.total_records, unit)} can be evaluated; fix the others or leave them out."
    )


def validation_metrics(examined: ValidationSummary) -> Iterator[KeyMetric]:
    """Return the contract and the counts of a source."""
    counts = examined.counts
    yield KeyMetric(label="Contract", figure=DisplayValue(examined.contract or "unknown", "Detected or chosen format of the file."))
    yield KeyMetric(label="Records", figure=DisplayValue(f"{counts.total_records:,}", "Records in the file."))
    yield KeyMetric(
        label="Accepted", figure=DisplayValue(f"{counts.accepted_records:,}", f"Without an error; of {counts.total_records:,}.")
    )
    yield KeyMetric(
        label="Rejected", figure=DisplayValue(f"{counts.rejected_records:,}", f"With an error; of {counts.total_records:,}.")
    )
    yield KeyMetric(label="Errors", figure=DisplayValue(f"{examined.errors:,}", "A record may have several."))
    yield KeyMetric(label="Warnings", figure=DisplayValue(f"{examined.warnings:,}", "They do not prevent a run."))


def code_counts(examined: ValidationSummary) -> Iterator[CodeCount]:
    """Return how often each code was found."""
    for code, severity, count in examined.codes:
        yield CodeCount(Badge(code, "bad" if severity == "error" else "warn", CODES.get(code, "")), f"{count:,}")
