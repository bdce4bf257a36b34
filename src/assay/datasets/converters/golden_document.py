"""Cases of batch_v1 into a golden_v1 document, where every rule of that contract holds."""

from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.core.issue import path_text
from assay.core.open_fields import question_fields
from assay.datasets.config import ValidationConfig
from assay.datasets.converters.canonical import Row
from assay.datasets.converters.report import ConversionCounts
from assay.datasets.golden_v1 import check_document

FIRST_VERSION = "1.0.0"
SHOWN_PROBLEMS = 10


def rubric_text(case: Case) -> str:
    """The text of a golden case's one holistic criterion."""
    criterion = case.criteria[0]
    return criterion.description or criterion.title


def shared_version(cases: tuple[Case, ...]) -> str | None:
    """The version that all cases carry in their metadata, as those of golden_v1 do."""
    versions = {case.metadata.get("version") if isinstance(case.metadata.get("version"), str) else None for case in cases}
    return versions.pop() if len(versions) == 1 else None


def golden_document(cases: tuple[Case, ...], tally: ConversionCounts, *, version: str | None) -> Row:
    """The golden_v1 document of all cases; raises UsageProblem with every reason where one of them does not fit."""
    tally.read = len(cases)
    found = version or shared_version(cases)
    document: Row = {"version": found or FIRST_VERSION, "cases": [_golden_case(case) for case in cases]}
    _check(document)
    if not found:
        tally.note("changed", f"no version found; using {FIRST_VERSION!r}", path="version")
    for case in cases:
        _note_losses(case, tally, version=found)
    tally.emitted = len(cases)
    return document


def _golden_case(case: Case) -> Row:
    members = {
        "id": case.id,
        "user_prompt": _prompt(case),
        "rubric": case.extra.get("reference", {}).get("rubric"),
        "context": _notes(case),
        "tags": list(case.tags),
    }
    return {name: value for name, value in members.items() if value}


def _prompt(case: Case) -> str:
    """The prompt with what the candidate was shown besides: golden_v1 sends nothing else."""
    return "\n\n".join((case.prompt, *(f"{field.name}:\n{field.text}" for field in question_fields(case))))


def _notes(case: Case) -> str:
    notes = case.metadata.get("notes")
    return notes if isinstance(notes, str) else ""


def _check(document: Row) -> None:
    findings = [finding for finding in check_document(document, ValidationConfig()) if finding.severity == "error"]
    if findings:
        listed = [f"{path_text(finding.path)}: {finding.message}" for finding in findings[:SHOWN_PROBLEMS]]
        more = [f"and {len(findings) - SHOWN_PROBLEMS} more"] if len(findings) > SHOWN_PROBLEMS else []
        raise UsageProblem(
            f"these records cannot be golden_v1: {'; '.join(listed + more)}",
            hint="golden_v1 takes all cases or none; its rubric comes from reference.rubric",
        )


def _note_losses(case: Case, tally: ConversionCounts, *, version: str | None) -> None:
    if _notes(case):
        tally.note("moved", "notes for people; now context", record_id=case.id, path="metadata.notes")
    shown = [f"input.{field.name}" for field in question_fields(case)]
    if shown:
        tally.note("moved", "golden_v1 has no field for it; now below the prompt", record_id=case.id, path=", ".join(shown))
    for path in _lost(case, version=version):
        tally.note("dropped", "golden_v1 has no field for it", record_id=case.id, path=path)


def _lost(case: Case, *, version: str | None) -> list[str]:
    kept = {
        "reference.rubric",
        *(f"input.{field.name}" for field in question_fields(case)),
        *(["metadata.notes"] if _notes(case) else []),
        *(["metadata.version"] if case.metadata.get("version") == version else []),
    }
    expected = {"max_latency_ms": case.max_latency_ms, "required_criteria": case.extra.get("required_criteria")}
    reference = {**({"answer": case.references} if case.references else {}), **case.extra.get("reference", {})}
    nested: dict[str, JsonObject] = {
        "input": case.extra.get("input", {}),
        "reference": reference,
        "expected": {name: value for name, value in expected.items() if value},
        "metadata": case.metadata,
    }
    paths = [f"{name}.{member}" for name, members in nested.items() for member in members]
    unknown = [name for name in case.extra if name not in ("input", "reference", "required_criteria")]
    return [path for path in [*paths, *unknown] if path not in kept]
