"""A key may name only the models that the operator lists, and those of the operator's run file."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.surfaces.server.keys import Caller, KeyStore
from assay.surfaces.server.settings import ServerSettings, offers_to
from tests.commands import assay as command
from tests.surfaces.server.serving import Answered, Serving, dataset

RUN_FILE = """\
providers: [{name: house, kind: scripted}]
candidates: [{model: say-4, provider: house, name: the house model}, scripted/echo]
judges: [{model: scripted/judge-5}]
"""


class Asked(NamedTuple):
    serving: Serving
    keys: dict[str, dict[str, str]]

    def submit(self, who: str, query: str) -> Answered:
        return self.serving.submit(dataset(1), query, self.keys[who])


@pytest.fixture(scope="module")
def unlisted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A server whose operator has listed nothing."""
    with Serving(tmp_path_factory.mktemp("unlisted"), run_file=RUN_FILE) as serving:
        keys = KeyStore(serving.runs_dir)
        yield Asked(serving, {scope: {"x-api-key": keys.add(scope, scope)} for scope in ("write", "admin")})


def test_a_model_of_the_operators_provider_that_nobody_listed_is_refused_with_those_that_are_allowed(unlisted: Asked) -> None:
    answer = unlisted.submit("write", "?model=openai/gpt-5")
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (403, "forbidden")
    assert error["message"] == "the model 'openai/gpt-5' is not offered here; allowed are: house/say-4, scripted/echo"
    assert error["details"]["offered"] == ["house/say-4", "scripted/echo"]
    assert "listing it under `models`" in error["details"]["hint"]
    assert "listing it under `judges`" in unlisted.submit("write", "?judge=openai/gpt-5").json["error"]["details"]["hint"]


@pytest.mark.parametrize("query", ["?model=house/say-4", "?model=scripted/echo&judge=scripted/judge-5"])
def test_a_model_of_the_run_file_can_be_named(unlisted: Asked, query: str) -> None:
    assert unlisted.submit("write", query).status == 202


def test_without_a_list_an_admin_key_may_name_any_model_but_no_file(unlisted: Asked) -> None:
    assert unlisted.submit("admin", "?model=scripted/say-7&judge=scripted/judge-any").status == 202
    assert unlisted.submit("admin", "?model=replay/recorded.jsonl").status == 403


@pytest.mark.parametrize("model", ["replay/recorded.jsonl", "function/own.py:answer"])
def test_a_file_that_only_a_pattern_allows_is_refused_with_the_reason(unlisted: Asked, model: str) -> None:
    error = unlisted.submit("admin", f"?model={model}").json["error"]
    assert error["message"] == f"the model '{model}' is a file or a function of the server, which no pattern such as * allows"
    assert "listing its whole name under `models`" in error["details"]["hint"]


@pytest.mark.parametrize("model", ["scripted/echo%0A", "scripted/e%01cho", "function/own.py:f%0A", "scripted/echo%E2%80%A8"])
@pytest.mark.parametrize("role", ["model", "judge"])
def test_a_name_with_a_line_feed_or_a_control_character_is_refused(unlisted: Asked, role: str, model: str) -> None:
    for who in ("write", "admin"):
        answer = unlisted.submit(who, f"?{role}={model}")
        assert (answer.status, "is not a model name" in answer.json["error"]["message"]) == (400, True)


def test_a_server_does_not_start_with_a_run_file_that_no_run_can_be_made_with(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("candidate: scripted/echo\njudges: [scripted/judge-5]\nlimit: many\n", encoding="utf-8")
    (tmp_path / "server.yaml").write_text("run_file: run.yaml\n", encoding="utf-8")
    refused = command("serve", "--port", "0", "--config", str(tmp_path / "server.yaml"))
    assert refused.exit_code == 2
    assert f"{run_file}:1:1: unknown key 'candidate' (did you mean 'candidates'?)" in refused.stderr
    assert f"{run_file}:3:8: limit" in refused.stderr
    assert "nothing was started" in refused.stderr


def test_the_form_of_the_validation_page_keeps_to_the_same_models(unlisted: Asked) -> None:
    part = '--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
    body = f"{part}{json.dumps(dataset(1))}\r\n--b--\r\n".encode()
    origin = {"Origin": f"http://127.0.0.1:{unlisted.serving.port}", **unlisted.keys["write"]}
    form = {"Content-Type": "multipart/form-data; boundary=b", **origin}
    address = unlisted.serving.ask("POST", "/validate", body, form).headers["location"]
    shown = partial(unlisted.serving.ask, "GET", address, headers=origin)
    unlisted.serving.wait_for(lambda: b"data-wait" not in shown().body)
    assert b"house/say-4</option>" in shown().body
    sent = {"Content-Type": "application/x-www-form-urlencoded", **origin}
    refused = unlisted.serving.ask("POST", f"{address}/run", b"model=openai/gpt-5", sent)
    assert (refused.status, b"is not offered here" in refused.body) == (403, True)


def test_a_list_is_for_every_key_and_the_run_file_stays_offered(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file=RUN_FILE, settings="models: ['scripted/say-*']\njudges: []\n") as serving:
        keys = KeyStore(serving.runs_dir)
        asked = Asked(serving, {scope: {"x-api-key": keys.add(scope, scope)} for scope in ("write", "admin")})
        for who in ("write", "admin"):
            assert asked.submit(who, "?model=scripted/say-9").status == 202
            assert asked.submit(who, "?model=scripted/echo").status == 202
            assert asked.submit(who, "?model=scripted/slow-1").status == 403
            assert asked.submit(who, "?judge=scripted/judge-4").status == 403


def test_without_a_list_and_a_run_file_no_other_key_names_a_model(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    (tmp_path / "server.yaml").write_text("{}", encoding="utf-8")
    KeyStore(serving.runs_dir).add("early", "write")
    with serving:
        key = {"x-api-key": KeyStore(serving.runs_dir).add("writer", "write")}
        answer = serving.submit(dataset(1), "?model=scripted/echo", key)
        assert (answer.status, "no model is allowed yet" in answer.json["error"]["message"]) == (403, True)
    assert "only admin keys may name a model so far" in (tmp_path / "server.log").read_text(encoding="utf-8")


def test_where_no_key_is_needed_any_model_can_be_named() -> None:
    assert offers_to(Caller(), ServerSettings()).candidates.patterns == ("*",)
    assert offers_to(Caller("ci", "write"), ServerSettings()).candidates.names == ()
