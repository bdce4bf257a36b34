"""Counts, verdicts and suggestions in words, the same in every reporter."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from assay.core.contract import CONTRACTS
from assay.core.field_uses import OTHERS, FieldCounts
from assay.core.issue import Issue
from assay.core.report import Outcome, ValidationReport
from assay.surfaces.reporters.settings import Change

OUTCOME_WORDS: dict[Outcome, str] = {
    "accepted": "accepted",
    "accepted_with_record_errors": "accepted with record errors",
    "rejected": "rejected",
}

PASSED, NOT_PASSED, ERROR = "passed", "not passed", "error"
"""The three results of a record, in the words of every report."""


def error_text(code: str, message: str | None) -> str:
    """`timeout: judge openai/gpt-5 after 3 attempts: no whole answer within 60 s`: the code once, then the message."""
    return ": ".join(filter(None, (code, without_code(code, message or ""))))


def without_code(code: str, message: str) -> str:
    """The message of an error without the code that is shown next to it; the message about a judge repeats it."""
    if not code:
        return message

    def kept(found: re.Match[str]) -> str:
        tries = found["tries"] or ""
        return f"{tries}: " if found["before"] else f"{tries.strip()}: " if tries else ""

    return re.sub(rf"(?P<before>^|: ){re.escape(code)}(?P<tries> after \d+ attempts)?: ", kept, message, count=1)


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


DATASETS = 8
"""Datasets that are listed by name; a folder may have thousands of files."""
Dataset = TypeVar("Dataset")


def first_datasets(datasets: Sequence[Dataset]) -> tuple[Sequence[Dataset], str]:
    """Those that are listed, and words for the others; empty when there are none."""
    more = len(datasets) - DATASETS
    return (datasets[:DATASETS], f"and {more:,} more, {len(datasets):,} in all") if more > 0 else (datasets, "")


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
        self.is_all_valid = self.is_all_valid and report.is_valid and report.outcome == "accepted"

    def line(self) -> str:
        """`2 files: 1 accepted, 1 rejected · 37 errors, 2 warnings`."""
        verdicts = [f"{self.outcomes[outcome]:,} {words}" for outcome, words in OUTCOME_WORDS.items() if self.outcomes[outcome]]
        files = counted(self.outcomes.total(), "file")
        return f"{files}: {', '.join(verdicts) or 'none read'} · {issue_counts(self.errors.total(), self.warnings.total())}"


def counted(number: int, noun: str) -> str:
    """`1 file`, `1,204 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def price_unknown_text(number: int, noun: str) -> str:
    """`price unknown for 40 records`; empty for none."""
    return f"price unknown for {counted(number, noun)}" if number else ""


def plugin_words(plugin: Mapping[str, Any]) -> tuple[str, ...]:
    """`exact`, `acme-evals 2.1`, `source 1f2e3d4c5b6a`: a piece of code as a report names it."""
    package = f"{plugin.get('distribution', '')} {plugin.get('version', '')}".strip()
    source = f"source {plugin['source_sha256'][:12]}" if plugin.get("source_sha256") else ""
    return tuple(part for part in (plugin["name"], package, source) if part)


def issue_counts(errors: int, warnings: int) -> str:
    """`37 errors, 2 warnings`; warnings are named only where there are some."""
    return ", ".join([counted(errors, "error"), *([counted(warnings, "warning")] if warnings else [])])


def contract_name(report: ValidationReport) -> str:
    """The contract that the source was read as."""
    return report.contract or "unknown contract"


AUDIENCES = {"candidate_and_judge": "candidate and judge", "judge_only": "judge only", "not_sent": "not sent"}
"""Where fields go, in words; what goes to both is usual, and is listed last."""
MAX_FIELDS = 12


def field_lines(fields: FieldCounts, noun: str = "record") -> list[tuple[str, str]]:
    """`not sent` with `metadata (6 records), context (5 records)`: each audience and its fields, those with most records first."""
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
    """What the records of a contract are called, ours or a plugin's."""
    return CONTRACTS[contract].record_word if contract is not None and contract in CONTRACTS else "record"


def record_counts(report: ValidationReport) -> str:
    """`12 records`, `9 of 12 records accepted`; the records of a conversation are turns."""
    counts = report.counts
    records = counted(counts.total_records, record_word(report.contract))
    if counts.accepted_records == counts.total_records:
        return records
    return f"{counts.accepted_records:,} of {records} accepted"


def record_label(issue: Issue) -> str:
    """`record 3 "q_0003"`, or `turn 4` of a conversation; empty for the dataset as a whole."""
    if issue.index is None:
        return ""
    if issue.error_type is not None:
        turn = f"turn {issue.turn_id}" if issue.turn_id is not None else f"turn at index {issue.index}"
        return f"conversation {issue.conversation} · {turn}" if issue.conversation is not None else turn
    return f'record {issue.index} "{issue.record_id}"' if issue.record_id is not None else f"record {issue.index}"


def place(path: str, issue: Issue) -> str:
    """`path:line:column`, as far as they are known."""
    return ":".join([path, *(str(number) for number in (issue.line, issue.column) if number is not None)])


def change_line(change: Change) -> str:
    """`line 7 · records[0].record_id · trailing space removed`."""
    parts = (f"line {change.line}" if change.line is not None else "", change.path, change.message)
    return " · ".join(part for part in parts if part)
