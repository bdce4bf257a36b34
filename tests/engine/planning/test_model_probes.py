"""Probes of a run's models, against stubs of the vendors' formats on loopback."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.plan import ModelPlan, Plan
from assay.core.provider import ProviderKind
from assay.core.settings import ModelParameters, UsagePaths
from assay.core.setup_checks import ModelProbe, ProbeCheck
from assay.engine.planning.model_probes import probe_models
from tests.models.asking import KEY, plan_of, provider_of
from tests.models.vendor_stub import Asked, Said, vendor

VERDICT = '{"justification": "It is right.", "score": 5, "label": ""}'
JUDGE = ModelPlan(name="j", provider="p", model="gpt-5.6", parameters=ModelParameters())
Answer = Callable[[Asked], Said]


def completion(asked: Asked, text: str = "4") -> Said:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 14, "completion_tokens": 3}
    return Said({"id": "x", "model": f"{asked.body['model']}-2026-08-07", "choices": [choice], "usage": usage})


def openai(asked: Asked) -> Said:
    """A vendor that answers, and lists two models."""
    if asked.method == "GET":
        return Said({"object": "list", "data": [{"id": "gpt-5.6"}, {"id": "gpt-5.6-mini"}]})
    return completion(asked, VERDICT if "response_format" in asked.body else "4")


def refusing(name: str, answer: Answer = openai) -> Answer:
    """The same vendor, which refuses a parameter."""

    def refuse(asked: Asked) -> Said:
        if asked.body is None or name not in asked.body:
            return answer(asked)
        error = {"message": f"Unsupported parameter: '{name}' is not supported with this model.", "param": name}
        return Said({"error": {**error, "code": "unsupported_parameter"}}, status=400)

    return refuse


def probed(
    answer: Answer, *, kind: ProviderKind = "openai", model: str = "gpt-5.6", environ: Mapping[str, str] | None = None, **plan: Any
) -> list[ModelProbe]:
    """Probe a plan with one candidate at a vendor."""
    with vendor(answer) as (url, _):
        provider = provider_of(kind, f"{url}/v1", key_variable="TEST_KEY")
        return probes_of(plan_of(provider, model, **plan), environ={"TEST_KEY": KEY} if environ is None else environ)


def probes_of(plan: Plan, *, environ: Mapping[str, str]) -> list[ModelProbe]:
    return asyncio.run(probe_models([plan], environ=environ))


def checks(probe: ModelProbe) -> dict[str, ProbeCheck]:
    """The checks by subject; of several with one subject the last."""
    return {check.subject: check for check in probe.checks}


def test_a_model_that_answers_is_well_in_every_respect() -> None:
    (probe,) = probed(openai)
    said = {check.subject: (check.standing, check.says) for check in probe.checks}
    assert said.pop("reachable")[0] == "ok"
    assert said == {
        "key": ("ok", "accepted"),
        "model": ("ok", "known; it answers as gpt-5.6-2026-08-07"),
        "parameters": ("ok", "accepted: temperature 0.0"),
        "tokens": ("ok", "counted: 14 of input, 3 of output"),
        "price": ("note", "not known, so that no cost is reported"),
    }
    assert (probe.is_well, probe.role, probe.adjustments) == (True, "candidate", ())


def test_a_refused_parameter_is_shown_with_what_is_sent_instead() -> None:
    (probe,) = probed(refusing("max_tokens"), parameters=ModelParameters(max_tokens=100))
    (refused,) = probe.adjustments
    assert (refused.parameter, refused.value) == ("max_tokens", "max_completion_tokens")
    assert checks(probe)["parameters"].says.startswith("max_tokens is refused: it is sent as max_completion_tokens ('Unsupported")
    sent = next(check.says for check in probe.checks if check.subject == "parameters")
    assert sent == "accepted: temperature 0.0, max_completion_tokens 100"
    assert probe.is_well


def test_a_refused_preference_is_a_note_and_a_refused_setting_has_a_hint() -> None:
    (probe,) = probed(refusing("temperature"))
    assert (checks(probe)["parameters"].standing, checks(probe)["parameters"].hint) == ("note", "")
    candidate = ModelPlan(name="m", provider="p", model="gpt-5.6", explicit=("temperature",))
    with vendor(refusing("temperature")) as (url, _):
        plan = Plan(run_id="r", datasets=(), candidate=candidate, providers=(provider_of("openai", url),))
        (probe,) = probes_of(plan, environ={})
        (strict,) = probes_of(
            Plan(run_id="r", datasets=(), candidate=candidate, providers=plan.providers, strict_parameters=True), environ={}
        )
    assert checks(probe)["parameters"].hint.startswith("the run file sets it")
    assert probe.is_well
    assert checks(strict)["parameters"].says.startswith(
        "it refuses 'temperature', which is set, and the run's parameters are strict"
    )
    assert not strict.is_well


def test_a_parameter_that_nothing_replaces_is_to_be_corrected() -> None:
    def refuse(asked: Asked) -> Said:
        wrong = {"error": {"message": "temperature must be between 0 and 1", "param": "temperature"}}
        return openai(asked) if asked.method == "GET" else Said(wrong, status=400)

    (probe,) = probed(refuse)
    assert (checks(probe)["parameters"].standing, probe.is_well) == ("problem", False)
    assert "temperature must be between 0 and 1" in checks(probe)["parameters"].says


def test_an_unknown_model_is_named_with_the_nearest_of_the_list() -> None:
    def missing(asked: Asked) -> Said:
        error = {"message": "The model `gpt-5.6-min` does not exist", "code": "model_not_found"}
        return openai(asked) if asked.method == "GET" else Said({"error": error}, status=404)

    (probe,) = probed(missing, model="gpt-5.6-min")
    assert (checks(probe)["model"].standing, checks(probe)["model"].hint) == ("problem", "nearest names: gpt-5.6-mini, gpt-5.6")
    assert "parameters" not in checks(probe)


def test_a_refused_key_is_said_once_and_never_shown() -> None:
    def refuse(asked: Asked) -> Said:
        error = {"message": f"Incorrect API key provided: {asked.headers['Authorization']}", "code": "invalid_api_key"}
        return Said({"error": error}, status=401)

    (probe,) = probed(refuse)
    assert (checks(probe)["key"].standing, checks(probe)["key"].hint) == (
        "problem",
        "make a new key, or set TEST_KEY to the right one",
    )
    assert "model" not in checks(probe)
    assert KEY not in repr(probe)


def test_a_key_that_may_use_a_model_but_not_list_any_is_accepted() -> None:
    (probe,) = probed(lambda asked: Said({"error": {"message": "no"}}, status=403) if asked.method == "GET" else openai(asked))
    assert (checks(probe)["key"].says, checks(probe)["model"].standing, probe.is_well) == ("accepted", "ok", True)


def test_a_key_that_is_not_set_is_asked_for_before_anything_is_sent() -> None:
    with vendor(openai) as (url, asked):
        plan = plan_of(provider_of("openai", url, key_variable="TEST_KEY"))
        (probe,) = probes_of(plan, environ={})
    assert [(check.subject, check.standing) for check in probe.checks] == [("key", "problem")]
    assert "TEST_KEY" in probe.checks[0].says
    assert asked == []


def test_a_judge_is_asked_with_its_schema_and_its_verdict_is_read() -> None:
    with vendor(openai) as (url, asked):
        _, judge = probes_of(plan_of(provider_of("openai", url), "gpt-5.6", judges=(JUDGE,)), environ={})
    assert checks(judge)["schema"].says == "accepted: the reply is requested with its JSON Schema, and a verdict is read"
    sent = [request.body for request in asked if request.body and "response_format" in request.body]
    assert [request["response_format"]["type"] for request in sent] == ["json_schema"]
    assert {message["role"] for message in sent[0]["messages"]} == {"system", "user"}


def test_a_refused_schema_is_a_note_and_a_reply_without_a_verdict_a_problem() -> None:
    def weaker(asked: Asked) -> Said:
        is_schema = asked.body is not None and asked.body.get("response_format", {}).get("type") == "json_schema"
        refused = Said(
            {"error": {"message": "response_format json_schema is not supported", "param": "response_format"}}, status=400
        )
        return refused if is_schema else openai(asked)

    _, judge = probed(weaker, judges=(JUDGE,))
    assert (checks(judge)["schema"].standing, judge.is_well) == ("note", True)
    assert "as a JSON object" in checks(judge)["schema"].says
    _, judge = probed(lambda asked: openai(asked) if asked.method == "GET" else completion(asked, "I cannot say"), judges=(JUDGE,))
    assert (checks(judge)["schema"].standing, judge.is_well) == ("problem", False)


def test_a_list_of_anthropic_is_read_page_by_page_and_its_limit_is_learned() -> None:
    soon = (datetime.now(UTC) + timedelta(days=20)).strftime("%Y-%m-%dT00:00:00Z")
    pages: dict[str, dict[str, Any]] = {
        "/v1/models": {"data": [{"type": "model", "id": "claude-sonnet-5"}], "has_more": True, "last_id": "claude-sonnet-5"},
        "/v1/models?after_id=claude-sonnet-5": {
            "data": [{"type": "model", "id": "claude-opus-5", "deprecation_date": soon}],
            "has_more": False,
            "last_id": "claude-opus-5",
        },
    }

    def anthropic(asked: Asked) -> Said:
        assert asked.headers["x-api-key"] == KEY
        if asked.method == "GET":
            return Said(pages[asked.path])
        if asked.body["max_tokens"] > 64_000:
            error = {"type": "invalid_request_error", "message": "max_tokens: 1000000 > 64000, which is the maximum allowed"}
            return Said({"type": "error", "error": error}, status=400)
        usage = {"input_tokens": 20, "output_tokens": 5}
        return Said({"id": "x", "content": [{"type": "text", "text": "4"}], "stop_reason": "end_turn", "usage": usage})

    (probe,) = probed(anthropic, kind="anthropic", model="claude-opus-5")
    sent, learned = (check.says for check in probe.checks if check.subject == "parameters")
    assert sent == "accepted: temperature 0.0, max_tokens 64000"
    assert learned.startswith("max_tokens is sent as 64,000, the most that is accepted")
    assert (checks(probe)["retirement"].standing, "in 20 days" in checks(probe)["retirement"].says) == ("note", True)
    assert probe.is_well


def test_a_list_of_google_has_names_without_their_prefix() -> None:
    def google(asked: Asked) -> Said:
        assert asked.headers["x-goog-api-key"] == KEY
        if asked.method == "GET":
            return Said({"models": [{"name": "models/gemini-3-pro", "supportedGenerationMethods": ["generateContent"]}]})
        error = {"code": 404, "message": "models/gemini-3-por is not found for API version v1beta", "status": "NOT_FOUND"}
        return Said({"error": error}, status=404)

    (probe,) = probed(google, kind="google", model="gemini-3-por")
    assert checks(probe)["model"].hint == "nearest names: gemini-3-pro"


def test_a_model_that_is_retired_is_a_problem_with_its_replacement() -> None:
    retired = {"id": "gpt-5.6", "deprecation": "2026-01-01T00:00:00Z", "deprecation_replacement_model": "gpt-6"}
    (probe,) = probed(lambda asked: Said({"data": [retired]}) if asked.method == "GET" else openai(asked))
    found = checks(probe)["retirement"]
    assert (found.standing, found.says, found.hint) == ("problem", "retired on 2026-01-01", "replacement by the provider: gpt-6")


def test_a_page_of_html_is_described_with_what_to_set() -> None:
    page = Said("<!doctype html><html><head><title>Sign in to Acme</title></head></html>", headers={"Content-Type": "text/html"})
    (probe,) = probed(lambda _: page)
    assert "it answers with a page of HTML titled 'Sign in to Acme' (HTTP 200)" in checks(probe)["reachable"].says
    assert "base_url" in checks(probe)["reachable"].hint
    assert not probe.is_well


def test_the_system_prompt_of_the_run_is_sent_since_its_role_may_be_rejected() -> None:
    def refuse(asked: Asked) -> Said:
        if asked.body is None or asked.body["messages"][0]["role"] != "system":
            return openai(asked)
        return Said({"error": {"message": "System role not supported"}}, status=400)

    (probe,) = probed(refuse, system_prompt="Be brief.")
    assert "the role of the instructions is refused: they are sent in the role 'developer'" in checks(probe)["parameters"].says


def test_an_endpoint_of_the_users_own_has_neither_models_nor_parameters() -> None:
    with vendor(lambda _: Said({"text": "4"})) as (url, _):
        provider = provider_of("http", url, body={"q": "{{prompt}}"}, answer="$.text")
        (well,) = probes_of(plan_of(provider), environ={})
        (wrong,) = probes_of(plan_of(msgspec.structs.replace(provider, answer="$.txt")), environ={})
    assert list(checks(well)) == ["reachable", "key", "tokens", "price"]
    assert "it has {text: text}" in checks(wrong)["reply"].says


@pytest.mark.parametrize("usage", ["$.use", UsagePaths(input_tokens="$.use.in")])
def test_a_wrong_path_of_usage_is_to_be_corrected(usage: str | UsagePaths) -> None:
    with vendor(lambda _: Said({"text": "4", "usage": {"in": 3}})) as (url, _):
        (probe,) = probes_of(plan_of(provider_of("http", url, body={"q": "{{prompt}}"}, answer="$.text", usage=usage)), environ={})
    check = checks(probe)["tokens"]
    assert check.standing == "problem"
    assert check.says.startswith("the reply has no usage at $.use")
    assert check.says.endswith("; it has {text: text, usage: {in: number}}")


def test_a_refused_key_of_an_endpoint_is_named_by_its_variable() -> None:
    with vendor(lambda _: Said({"error": "no"}, status=401)) as (url, _):
        headers = {"Authorization": "Bearer ${TEST_KEY}"}
        provider = provider_of("http", url, headers=headers, body={"q": "{{prompt}}"}, answer="$.text")
        (probe,) = probes_of(plan_of(provider), environ={"TEST_KEY": KEY})
    assert checks(probe)["key"].hint == "make a new key, or set TEST_KEY to the right one"


def test_a_login_page_of_an_endpoint_is_nothing_to_try_again_later() -> None:
    page = Said("<html><title>Sign in</title></html>", headers={"Content-Type": "text/html"})
    with vendor(lambda _: page) as (url, _):
        (probe,) = probes_of(plan_of(provider_of("http", url, body={"q": "{{prompt}}"}, answer="$.text")), environ={})
    assert ("login page" in checks(probe)["reply"].says, checks(probe)["reply"].hint) == (True, "")


def test_a_proxy_that_can_read_the_key_is_named() -> None:
    # The stub plays the proxy: it is asked for a host that does not exist.
    with vendor(openai) as (url, asked):
        provider = provider_of("openai", "http://models.invalid/v1", key_variable="TEST_KEY")
        (probe,) = probes_of(plan_of(provider), environ={"TEST_KEY": KEY, "http_proxy": url})
        (direct,) = probes_of(plan_of(provider_of("openai", f"{url}/v1", key_variable="TEST_KEY")), environ={"TEST_KEY": KEY})
    assert asked[0].path.startswith("http://models.invalid/v1/")
    assert checks(probe)["key"].says == "accepted; the proxy 127.0.0.1 can read it"
    assert checks(direct)["key"].says == "accepted"


def test_a_redirect_is_described_and_no_key_follows_it() -> None:
    with vendor(openai) as (other, asked):
        target = other.replace("127.0.0.1", "localhost")
        (probe,) = probed(lambda _: Said({}, status=302, headers={"Location": f"{target}/v1?token=abc"}))
    assert checks(probe)["reachable"].says.endswith("it redirects to localhost (HTTP 302), and no key follows a redirect")
    assert asked == []


def test_a_provider_that_takes_no_connection_is_a_problem_without_any_further_check() -> None:
    (probe,) = probes_of(plan_of(provider_of("openai", "http://127.0.0.1:9/v1")), environ={})
    (check,) = probe.checks
    assert (check.subject, check.standing) == ("reachable", "problem")
    assert "Connection refused" in check.says


def test_a_rate_limit_says_when_to_try_again() -> None:
    limited = Said({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "7"})
    (probe,) = probed(lambda asked: openai(asked) if asked.method == "GET" else limited)
    assert (checks(probe)["reply"].standing, checks(probe)["reply"].hint) == ("problem", "try again in 7 s")
    assert checks(probe)["model"].says == "known: the provider lists it"


def test_a_server_without_a_list_of_models_is_well() -> None:
    (probe,) = probed(lambda asked: Said("not here", status=404) if asked.method == "GET" else openai(asked))
    assert probe.is_well


def test_a_judge_that_several_candidates_share_is_probed_once() -> None:
    with vendor(openai) as (url, asked):
        plan = plan_of(provider_of("openai", url), "gpt-5.6", judges=(JUDGE,))
        assert len(asyncio.run(probe_models([plan, plan], environ={}))) == 2
    assert [request.method for request in asked].count("GET") == 1
    assert [request.method for request in asked].count("POST") == 2


@pytest.mark.parametrize(("kind", "model"), [("scripted", "echo"), ("function", "f")])
def test_models_inside_the_process_are_not_called(kind: ProviderKind, model: str) -> None:
    (probe,) = probes_of(plan_of(provider_of(kind), model), environ={})
    assert [check.says for check in probe.checks] == ["answers without a network; not called"]


def test_a_script_probes_a_dataset_with_a_model(tmp_path: Path) -> None:
    record = {"record_id": "1", "input": {"prompt": "2 + 2?"}}
    dataset = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [record]}
    (tmp_path / "d.json").write_text(json.dumps(dataset), encoding="utf-8")
    with vendor(openai) as (url, _):
        environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}
        options = {"model": "openai/gpt-5.6", "judge": "openai/gpt-5.6-mini", "runs_dir": str(tmp_path / "runs")}
        candidate, judge = api.probe_models(tmp_path / "d.json", environ=environ, **options)
    assert (candidate.is_well, candidate.role, judge.is_well, judge.role) == (True, "candidate", True, "judge")
    assert not (tmp_path / "runs").exists()


def test_a_notebook_with_a_running_loop_can_probe(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    record = {"record_id": "1", "input": {"prompt": "2 + 2?"}}
    dataset = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [record]}
    (tmp_path / "d.json").write_text(json.dumps(dataset), encoding="utf-8")
    run_file.write_text("datasets: [d.json]\ncandidates: [scripted/echo]\njudges: [scripted/judge-4]\n", encoding="utf-8")

    async def cell() -> list[ModelProbe]:
        return api.probe_models(run_file, environ={})

    assert [probe.name for probe in asyncio.run(cell())] == ["scripted/echo", "scripted/judge-4"]


def test_doctor_says_how_many_models_a_provider_lists() -> None:
    with vendor(openai) as (url, _):
        environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}
        (check,) = [check for check in api.check_installation("runs", environ=environ) if check.area == "providers"]
    assert (check.standing, check.says.split(" · ")[1:]) == ("ok", ["accepts the key", "lists 2 models"])
