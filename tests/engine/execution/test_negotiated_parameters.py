"""Runs over real loopback HTTP against providers that reject parameters as vendors do."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.model_call import Adjustment
from assay.core.run_result import RunResult
from assay.engine.records.parameters import save_adjustments
from assay.store.sqlite import open_ledger
from assay.testing import StubAnswer, StubProvider, StubReply, StubRequest
from tests.engine.run_settings import mcq_row, write_golden, write_rows

VERDICT = json.dumps({"score": 5, "justification": "It is right."})
Rule = Callable[[StubRequest], dict[str, Any] | None]


def openai_error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic_error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def unsupported(name: str, *, instead: str = "") -> Rule:
    """OpenAI's rejection of a member."""
    advice = f" Use '{instead}' instead." if instead else ""
    body = openai_error(f"Unsupported parameter: '{name}' is not supported with this model.{advice}", name, "unsupported_parameter")
    return lambda request: body if name in request.body else None


def deprecated(name: str) -> Rule:
    """Anthropic's rejection of a member."""
    return lambda request: anthropic_error(f"`{name}` is deprecated for this model.") if name in request.body else None


def limited(maximum: int) -> Rule:
    """Anthropic's rejection of a high output limit."""

    def rule(request: StubRequest) -> dict[str, Any] | None:
        limit = request.body["max_tokens"]
        words = f"max_tokens: {limit} > {maximum}, which is the maximum allowed number of output tokens for claude-x"
        return anthropic_error(words) if limit > maximum else None

    return rule


class RejectingProvider:
    """Script of a stub that rejects a request by the first rule that names something in it."""

    def __init__(self, *rules: Rule, status: int = 400) -> None:
        self._rules = rules
        self._status = status
        self._lock = threading.Lock()
        self.rejections = 0

    def __call__(self, request: StubRequest) -> StubAnswer:
        found = next(filter(None, (rule(request) for rule in self._rules)), None)
        if found is None:
            return VERDICT if "score" in json.dumps(request.body) else "A"
        with self._lock:
            self.rejections += 1
        return StubReply(status=self._status, body=found)


@contextmanager
def provider_of(kind: str, monkeypatch: pytest.MonkeyPatch, *rules: Rule, status: int = 400) -> Iterator[RejectingProvider]:
    script = RejectingProvider(*rules, status=status)
    with StubProvider(script) as stub:
        monkeypatch.setenv(f"{kind.upper()}_BASE_URL", stub.base_url)
        script.requests = stub.requests  # type: ignore[attr-defined]
        yield script


def run_questions(tmp_path: Path, model: str, *, records: int = 40, **options: Any) -> RunResult:
    rows = write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{number}") for number in range(records)])
    (result,) = api.run(rows, model=model, runs_dir=str(tmp_path / "runs"), run_id="r", **options)
    return result


def attempts_of(result: RunResult) -> list[dict[str, Any]]:
    lines = (Path(result.run_dir) / "attempt_logs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def manifest_of(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(result.run_dir) / "run_manifest.json").read_text(encoding="utf-8"))
    return found


def test_a_rejected_temperature_costs_one_call_and_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, unsupported("temperature")) as provider:
        result = run_questions(tmp_path, "openai/new")
    assert (result.counts.evaluated_records, provider.rejections) == (40, 1)
    rejected, *others = attempts_of(result)
    assert (rejected["error_code"], rejected["http_status"]) == ("parameter_refused", 400)
    assert all(attempt["refused_parameters"] == ["temperature"] for attempt in others)
    (model,) = manifest_of(result)["negotiated"]
    assert model["adjustments"][0]["parameter"] == "temperature"
    assert "is not supported with this model" in model["adjustments"][0]["reason"]


def test_a_rejection_with_422_and_a_list_of_pydantic_is_negotiated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "Extra inputs are not permitted", "input": 0}]
    with provider_of(
        "openai", monkeypatch, lambda request: {"detail": detail} if "temperature" in request.body else None, status=422
    ) as provider:
        result = run_questions(tmp_path, "openai/new")
    assert (result.counts.evaluated_records, provider.rejections) == (40, 1)


def test_every_candidate_of_the_messages_api_gets_its_models_own_maximum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("anthropic", monkeypatch, deprecated("temperature"), limited(64_000)) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-key-123456")
        result = run_questions(tmp_path, "anthropic/claude-x")
    assert (result.counts.evaluated_records, provider.rejections) == (40, 2)
    (model,) = manifest_of(result)["negotiated"]
    assert (model["output_limit"], model["output_limit_origin"]) == (64_000, "provider")
    assert provider.requests[-1].body["max_tokens"] == 64_000  # type: ignore[attr-defined]


def test_thinking_with_temperature_is_negotiated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(request: StubRequest) -> dict[str, Any] | None:
        has_both = {"thinking", "temperature"} <= request.body.keys()
        return anthropic_error("`temperature` may only be set to 1 when thinking is enabled.") if has_both else None

    entry = {"model": "anthropic/claude-x", "thinking_budget": 1024}
    write_rows(tmp_path / "rows.jsonl", mcq_row("r-1"))
    (tmp_path / "run.yaml").write_text(json.dumps({"datasets": ["rows.jsonl"], "candidates": [entry]}), encoding="utf-8")
    with provider_of("anthropic", monkeypatch, rule, limited(32_000)):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-key-123456")
        (result,) = api.run(tmp_path / "run.yaml", runs_dir=str(tmp_path / "runs"))
    assert result.counts.evaluated_records == 1
    assert attempts_of(result)[-1]["refused_parameters"] == ["temperature", "max_tokens"]


@pytest.mark.parametrize(
    ("refused", "form"),
    [
        ((), "json_schema"),
        (("json_schema",), "json_object"),
        (("json_schema", "json_object"), "tools"),
        (("json_schema", "json_object", "tools"), "plain"),
    ],
)
def test_the_form_of_a_judges_reply_is_negotiated_and_recorded(
    refused: tuple[str, ...], form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(request: StubRequest) -> dict[str, Any] | None:
        wanted = request.body.get("response_format", {}).get("type")
        if wanted in refused:
            return openai_error(f"Invalid parameter: 'response_format' of type '{wanted}' is not supported.", "response_format")
        if "tools" in request.body and "tools" in refused:
            return openai_error("tool_choice is not supported by this model")
        return None

    with provider_of("openai", monkeypatch, rule) as provider:
        (result,) = api.run(
            write_golden(tmp_path / "g.json", 5), model="scripted/echo", judge="openai/judge", runs_dir=str(tmp_path / "runs")
        )
    assert (result.counts.evaluated_records, provider.rejections) == (5, len(refused))
    judge = next(model for model in manifest_of(result)["negotiated"] if model["model"] == "openai/judge")
    assert judge["reply_format"] == form


def test_anthropic_judges_go_from_schema_to_tool_to_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(request: StubRequest) -> dict[str, Any] | None:
        if "output_config" in request.body:
            return anthropic_error("output_config: Extra inputs are not permitted")
        return anthropic_error("tools: tool use is not supported for this model") if "tools" in request.body else None

    with provider_of("anthropic", monkeypatch, rule, limited(8_192)) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-key-123456")
        (result,) = api.run(
            write_golden(tmp_path / "g.json", 5), model="scripted/echo", judge="anthropic/claude-x", runs_dir=str(tmp_path / "runs")
        )
    assert (result.counts.evaluated_records, provider.rejections) == (5, 3)


def test_a_setting_that_is_rejected_fails_a_strict_run_and_its_resumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{number}") for number in range(40)])
    members = {"datasets": ["rows.jsonl"], "candidates": [{"model": "openai/new", "temperature": 0.0}], "strict_parameters": True}
    (tmp_path / "run.yaml").write_text(json.dumps(members), encoding="utf-8")
    with provider_of("openai", monkeypatch, unsupported("temperature")) as provider:
        for attempt in (1, 2):
            (result,) = api.run(tmp_path / "run.yaml", runs_dir=str(tmp_path / "runs"), run_id="r")
            assert (result.state, result.is_resumable, provider.rejections) == ("failed", True, attempt)
            assert "rejects 'temperature', which is set" in result.problem


def test_a_strict_run_leaves_a_preference_of_a_contract_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, unsupported("temperature")):
        result = run_questions(tmp_path, "openai/new", strict_parameters=True)
    assert result.counts.evaluated_records == 40


def test_a_resumed_run_starts_with_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, unsupported("temperature")) as provider:
        run_questions(tmp_path, "openai/new", is_stopping=lambda: len(provider.requests) > 10, concurrency=1)  # type: ignore[attr-defined]
        assert provider.rejections == 1
        result = api.resume("r", runs_dir=str(tmp_path / "runs"))
    assert (result.counts.evaluated_records, provider.rejections) == (40, 1)


def test_what_another_worker_learns_meanwhile_is_met_no_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(request: StubRequest) -> dict[str, Any] | None:
        found = deprecated("temperature")(request)
        if found is not None:
            # The run's other worker was faster, and has met the limit too.
            with closing(open_ledger(tmp_path / "runs" / ".active" / "r" / "ledger.sqlite")) as ledger:
                save_adjustments(ledger, "anthropic/claude-x", [Adjustment("max_tokens", "64000", "64000 at most")])
        return found

    with provider_of("anthropic", monkeypatch, rule, limited(64_000)) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-key-123456")
        result = run_questions(tmp_path, "anthropic/claude-x")
    assert (result.counts.evaluated_records, provider.rejections) == (40, 1)


def test_a_prompt_about_parameters_and_a_context_that_is_too_long_are_no_rejections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = "Why is the parameter temperature not supported by this model?"
    errors = [
        openai_error(f"Invalid prompt: your prompt was flagged: {prompt}", None, None),
        openai_error("This model's maximum context length is 8192 tokens.", "messages", "context_length_exceeded"),
    ]
    for number, body in enumerate(errors):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = write_rows(folder / "rows.jsonl", mcq_row("r-1", prompt=prompt))
        with provider_of("openai", monkeypatch, lambda _, body=body: body):
            (result,) = api.run(rows, model="openai/new", runs_dir=str(folder / "runs"))
        assert manifest_of(result)["negotiated"][0]["adjustments"] == []


def test_a_long_prompt_gets_the_room_that_its_messages_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(request: StubRequest) -> dict[str, Any] | None:
        tokens, limit = len(json.dumps(request.body["messages"])), request.body["max_tokens"]
        words = f"input length and `max_tokens` exceed context limit: {tokens} + {limit} > 5000"
        return anthropic_error(words) if tokens + limit > 5_000 else None

    long = mcq_row("r-1", prompt="Is it? " * 500)
    rows = write_rows(tmp_path / "rows.jsonl", mcq_row("r-0"), long, mcq_row("r-2"))
    (tmp_path / "run.yaml").write_text(
        json.dumps({"datasets": [str(rows)], "candidates": [{"model": "anthropic/c", "max_tokens": 2_000}]}), encoding="utf-8"
    )
    with provider_of("anthropic", monkeypatch, rule) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-key-123456")
        (result,) = api.run(tmp_path / "run.yaml", runs_dir=str(tmp_path / "runs"))
    assert (result.counts.evaluated_records, provider.rejections) == (3, 1)
    assert manifest_of(result)["negotiated"][0]["adjustments"] == []
    assert sorted(request.body["max_tokens"] for request in provider.requests)[0] < 2_000  # type: ignore[attr-defined]


def test_the_struct_of_the_manifest_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, unsupported("temperature")):
        result = run_questions(tmp_path, "openai/new", records=2)
    negotiated = api.open_run("r", runs_dir=str(tmp_path / "runs")).run_manifest.negotiated
    assert json.loads(msgspec.json.encode(negotiated)) == manifest_of(result)["negotiated"]
