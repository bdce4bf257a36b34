"""Rows of APEX-v1-extended into rubric_qa rows with attachments."""

from typing import Any

from assay.core.strict_json import parse_json
from assay.datasets.converters.canonical import Row, RowDraft, RowOrigin, digest, finish, older_digest
from assay.datasets.converters.columns import RowRefused, SourceColumns, is_empty, kind


def convert(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """The canonical row of one task; raises RowRefused."""
    prompt = columns.text("prompt")
    rubric = _rubric(columns)
    task_id = columns.identifier("task_id") or (digest(prompt, rubric) if origin.id_style == "stable" else older_digest(prompt))
    draft = RowDraft(
        id=f"apexv1:{task_id}",
        dataset="apexv1",
        task_type="rubric_qa",
        prompt=prompt,
        metadata={
            "domain": columns.get("domain"),
            "source_task_id": columns.get("task_id"),
            "policy_id": "apexv1_extended_v1",
        },
        attachments=_attachments(columns.get("file_attachments")),
        rubric=rubric,
    )
    return (finish(draft),)


def _rubric(columns: SourceColumns) -> list[Row]:
    value = columns.get("rubric_json")
    if is_empty(value):
        raise RowRefused("Rubric JSON is empty")
    found = _parse(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise RowRefused(f"Rubric JSON is not an object but {kind(found)}")
    return [_criterion(name, columns.inside("Rubric JSON", item)) for name, item in found.items()]


def _parse(text: str) -> Any:
    document = parse_json(text)
    if document.flaws:
        raise RowRefused(f"Rubric JSON: {document.flaws[0].message}")
    return document.value


def _criterion(name: str, cells: SourceColumns) -> Row:
    """What is judged is the description; the justification explains it to people and judges."""
    criterion: Row = {"id": name.strip(), "title": cells.text("description")}
    justification = cells.text("justification")
    if justification:
        criterion["description"] = justification
    # Real weights are words such as "Primary objective(s)"; the benchmark counts criteria unweighted.
    if kind(cells.peek("weight")) == "a number":
        criterion["weight"] = float(cells.get("weight"))
    return criterion


def _attachments(value: object) -> list[Row]:
    """One path per line; a path may contain commas and spaces."""
    if is_empty(value):
        return []
    paths = value.splitlines() if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise RowRefused(f"File Attachments is not text but {kind(value)}")
    return [{"path": path.strip(), "kind": _kind(path)} for path in paths if path.strip()]


def _kind(path: str) -> str:
    return "pdf" if path.strip().lower().endswith(".pdf") else "file"
