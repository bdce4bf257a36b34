"""Parameters that a provider rejects line by line in a batch: learned, and the lines sent again in the next batch."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ServerProblem
from tests.engine.batch_runs import attempts, manifest, resumed, run, write_run
from tests.models.batch_provider import BatchProvider, Refused

Json = dict[str, Any]


def reject_temperature(body: Json) -> Json | None:
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    return (
        {"error": {"message": message, "type": "invalid_request_error", "param": "temperature"}} if "temperature" in body else None
    )


def reject_as_anthropic(body: Json) -> Json | None:
    message = ""
    if "temperature" in body:
        message = "`temperature` is deprecated for this model."
    elif body["max_tokens"] > 64_000:
        message = f"max_tokens: {body['max_tokens']} > 64000, which is the maximum allowed number of output tokens for claude-x"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}} if message else None


def test_lines_with_a_rejected_parameter_are_sent_again_without_it(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        provider.reject = reject_temperature
        run_file = write_run(tmp_path, provider)
        result = run(run_file)
    assert (result.counts.evaluated_records, provider.created, provider.live) == (6, 2, [])
    log = attempts(run_file)
    assert [line["error_code"] for line in log].count(None) == 6
    assert len(log) == 12
    (model,) = manifest(run_file)["negotiated"]
    assert [(one["parameter"], one["value"]) for one in model["adjustments"]] == [("temperature", "omitted")]
    assert {line["record_attempts"] for line in predictions(run_file)} == {1}


def predictions(run_file: Path) -> list[Json]:
    lines = (run_file.parent / "runs" / "x" / "predictions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_batch_of_messages_finds_the_models_own_maximum(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        provider.reject = reject_as_anthropic
        run_file = write_run(tmp_path, provider, kind="anthropic")
        result = run(run_file)
    assert (result.counts.evaluated_records, provider.created, provider.live) == (6, 3, [])
    (model,) = manifest(run_file)["negotiated"]
    assert (model["output_limit"], model["output_limit_origin"]) == (64_000, "provider")


def test_only_the_rejected_lines_of_a_batch_are_sent_again(tmp_path: Path) -> None:
    def reject(body: Json) -> Json | None:
        return reject_temperature(body) if "Is it 2?" in json.dumps(body) else None

    with BatchProvider() as provider:
        provider.reject = reject
        run_file = write_run(tmp_path, provider)
        result = run(run_file)
    assert (result.counts.evaluated_records, provider.live) == (6, [])
    assert [batch["requests"] for batch in manifest(run_file)["batches"]] == [6, 1]


def test_a_rejection_that_never_ends_ends_the_record(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        provider.reject = lambda _: {"error": {"message": "Unsupported parameter: 'temperature'", "type": "invalid_request_error"}}
        run_file = write_run(tmp_path, provider)
        result = run(run_file)
    assert (result.counts.failed_records, provider.created, provider.live) == (6, 2, [])


def test_an_error_that_quotes_a_prompt_is_not_learned_from(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        provider.reject = lambda body: (
            {"error": {"message": "Unsupported topic: Why is temperature not supported here?", "type": "invalid_request_error"}}
            if "Why is temperature not supported here?" in json.dumps(body)
            else None
        )
        run_file = write_run(tmp_path, provider)
        rows = (tmp_path / "law.jsonl").read_text().replace("Is it 2?", "Why is temperature not supported here?")
        (tmp_path / "law.jsonl").write_text(rows)
        result = run(run_file)
    assert (result.counts.evaluated_records, result.counts.failed_records, provider.created) == (5, 1, 1)
    assert manifest(run_file)["negotiated"][0]["adjustments"] == []


def test_a_setting_that_is_rejected_fails_a_strict_run(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        provider.reject = reject_temperature
        candidates = [{"model": "shop/model-1", "temperature": 0}]
        run_file = write_run(tmp_path, provider, candidates=candidates, strict_parameters=True)
        with pytest.raises(ServerProblem, match="rejects 'temperature', which is set"):
            run(run_file)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_before_a_large_batch_one_record_is_asked_by_itself(kind: str, tmp_path: Path) -> None:
    reject, rejections = (reject_temperature, 1) if kind == "openai" else (reject_as_anthropic, 2)
    with BatchProvider() as provider:
        provider.reject = reject
        run_file = write_run(tmp_path, provider, kind=kind, records=120)
        result = run(run_file)
    assert (result.counts.evaluated_records, len(provider.live)) == (120, rejections + 1)
    assert [batch["requests"] for batch in manifest(run_file)["batches"]] == [119]
    assert [line["error_code"] for line in attempts(run_file)].count(None) == 120


def test_a_record_that_cannot_be_asked_by_itself_goes_with_the_batch(tmp_path: Path) -> None:
    with BatchProvider(meddle=lambda _method, path, _: Refused(503) if path.endswith("/completions") else None) as provider:
        run_file = write_run(tmp_path, provider, records=120)
        result = run(run_file)
    assert result.counts.evaluated_records == 120
    assert [batch["requests"] for batch in manifest(run_file)["batches"]] == [120]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_resumed_run_sends_rejected_lines_again(kind: str, tmp_path: Path) -> None:
    reject = reject_temperature if kind == "openai" else reject_as_anthropic
    with BatchProvider() as provider:
        provider.reject = reject
        run_file = write_run(tmp_path, provider, kind=kind)
        run(run_file, is_detached=True)
        result = resumed(run_file)
    assert (result.counts.evaluated_records, provider.live) == (6, [])
