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


async def running_data(rows: list[dict[str, str]], frame: object) -> None:
    def answer(prompt: str) -> str:
        return prompt

    async def later(prompt: str) -> str:
        return prompt

    runs = assay.run(rows, model=[answer, later, "openai/gpt"], judge="openai/gpt", pass_rate=0.8, runs_dir=Path("runs"))
    assert_type(runs, assay.Runs)
    assert_type(await assay.run_async(frame, model=answer, columns={"prompt": "Q"}, limit=5), assay.Runs)
    assert_type(assay.validate(rows, columns={"prompt": "Q"}), assay.ValidationReport)
    assert_type(assay.open_group("night"), assay.Runs)


def misspelling(rows: list[dict[str, str]]) -> None:
    # An unused comment is an error too, so that these say what a checker rejects.
    assay.run(rows, model="openai/gpt", bogus=1)  # type: ignore[call-arg]
    assay.run(rows, model="openai/gpt", limit="three")  # type: ignore[arg-type]
    assay.run(rows, model="openai/gpt", on_invalid="maybe")  # type: ignore[arg-type]
    assay.RunRequest(datasets=("x.json",), bogus=1)  # type: ignore[call-arg]
    assay.validate(rows, colums={})  # type: ignore[call-arg]
    assay.open_run("latest").decide(passrate=0.9)  # type: ignore[call-arg]


def failing() -> None:
    try:
        assay.validate("no-such-file.json")
    except (assay.UsageProblem, assay.SourceUnreadable) as problem:
        assert_type(problem.hint, str)
    except assay.AssayError as problem:
        assert_type(problem.message, str)
