"""Run files for imported datasets: one command runs what the other tool would have run."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from assay import api
from assay.datasets.converters.rows import Row
from assay.datasets.imports import ImportedQuestion


def run_file(imported: api.ImportResult, dataset: str, *, place: str) -> Iterator[bytes]:
    """Yield the lines of a run file for a dataset, to be written to `place`."""
    questions = list(imported.intake.questions())
    is_judged = any(question.rubric or question.references for question in questions)
    yield f"# Written by assay import, from {imported.first_path.name}.\n".encode()
    yield _yaml({"datasets": [_relative(dataset, place)]})
    models, judges = list(imported.reading.models), list(imported.reading.judges)
    yield _yaml({"candidates": models}) if models else b"# candidates: [PROVIDER/MODEL]\n"
    if is_judged:
        judged = sum(bool(question.rubric or question.references) for question in questions)
        yield f"# {judged:,} of {len(questions):,} records need a judge.\n".encode()
        yield _yaml({"judges": judges}) if judges else b"# judges: [PROVIDER/MODEL]\n"
    unsaid = sum(question.is_open and not question.checks for question in questions)
    if unsaid:
        yield f"# {unsaid:,} of {len(questions):,} records do not say what a good answer is.\n".encode()
    checks = shared_checks(questions)
    if checks:
        yield b"# Every record has these checks too, in its metadata.\n" + _yaml({"checks": checks})
    if imported.pass_share is not None:
        yield _yaml({"pass": {"at_least": imported.pass_share}})


def shared_checks(questions: list[ImportedQuestion]) -> list[Row]:
    """Return the checks that all questions have alike; none where they differ."""
    first = questions[0].checks if questions else []
    return first if all(question.checks == first for question in questions) else []


def _relative(dataset: str, place: str) -> str:
    """Return the dataset as a run file names it: by its path from the run file's own folder."""
    target, folder = Path(dataset).absolute(), Path(place).absolute().parent
    return target.relative_to(folder).as_posix() if target.is_relative_to(folder) else str(target)


def _yaml(members: Row) -> bytes:
    text: str = yaml.safe_dump(members, allow_unicode=True, sort_keys=False, default_flow_style=None, width=1_000)
    return text.encode()
