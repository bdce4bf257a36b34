"""A rejection is met once, however many calls wait, and rejections have an end."""

import json
from pathlib import Path

import pytest

from assay import api
from tests.engine.execution.test_negotiated_parameters import openai_error, provider_of, run_questions, unsupported
from tests.engine.run_settings import mcq_row, write_rows


def test_many_rejected_parameters_are_met_once_each_whatever_the_concurrency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"model": "openai/new", "top_p": 0.9, "seed": 1, "presence_penalty": 0.5, "max_tokens": 50, "reasoning_effort": "low"}
    rules = [unsupported(name) for name in ("temperature", "top_p", "seed", "presence_penalty", "reasoning_effort")]
    run_file = tmp_path / "run.yaml"
    write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{number}") for number in range(100)])
    run_file.write_text(json.dumps({"datasets": ["rows.jsonl"], "candidates": [entry]}), encoding="utf-8")
    with provider_of("openai", monkeypatch, unsupported("max_tokens", instead="max_completion_tokens"), *rules) as provider:
        (result,) = api.run(run_file, runs_dir=str(tmp_path / "runs"), concurrency=64)
    assert (result.counts.evaluated_records, provider.rejections) == (100, 6)
    assert provider.requests[-1].body.keys() == {"model", "messages", "max_completion_tokens"}  # type: ignore[attr-defined]


def test_rejections_without_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, lambda _: openai_error("Unsupported parameter: 'temperature'")) as provider:
        result = run_questions(tmp_path, "openai/new", records=3)
    assert result.counts.failed_records == 3
    assert provider.rejections == 4
