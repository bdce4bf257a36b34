"""What a type checker sees of the door from outside; `make check` reads this file, nothing runs it."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import assay


def validating(path: Path) -> None:
    report = assay.validate(path, "golden_v1", config=assay.ValidationConfig(strict_mode=True))
    assert_type(report, assay.ValidationReport)
    assert_type(report.issues, tuple[assay.Issue, ...])
    assert_type(report.cases, Iterator[assay.Case])
    assert_type(report.issues[0].line, int | None)


def streaming(content: bytes) -> None:
    assert_type(assay.stream(content), Iterator[assay.Case | assay.Issue])


def running(path: Path) -> None:
    runs = assay.run(path, model="openai/gpt", progress=False)
    assert_type(runs[0], assay.Run)
    assert_type(runs[0].pass_rate.low, float | None)
    assert_type(assay.open_run("latest").counts.evaluated_records, int)
    assert_type(assay.open_run("latest").report("run.html"), Path)


def failing() -> None:
    try:
        assay.validate("no-such-file.json")
    except (assay.UsageProblem, assay.SourceUnreadable) as problem:
        assert_type(problem.hint, str)
    except assay.AssayError as problem:
        assert_type(problem.message, str)
