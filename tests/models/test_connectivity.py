"""Whether a provider can be reached, without a request that costs."""

import asyncio
from typing import Any

import pytest

from assay.models import unreachable_hosts
from assay.models.connectivity import ConnectivityResult, ask_for_models
from assay.testing import StubProvider
from tests.models.asking import ENVIRON, KEY, plan_of, provider_of
from tests.models.faulty_provider import faulty_provider, http, send
from tests.models.vendor_stub import Said, vendor


def test_a_provider_that_takes_connections_is_reached_without_a_request() -> None:
    with faulty_provider(send(b"")) as url:
        assert asyncio.run(unreachable_hosts(plan_of(provider_of("openai", url)), environ={})) == []


def test_a_provider_that_takes_no_connection_is_named() -> None:
    with faulty_provider(send(b"")) as url:
        pass
    problems = asyncio.run(unreachable_hosts(plan_of(provider_of("openai", url)), environ={}))
    assert len(problems) == 1
    assert problems[0].startswith(f"the provider 'p' cannot be reached at {url[7:-3]}: ")


def test_models_without_a_network_are_always_reached() -> None:
    assert asyncio.run(unreachable_hosts(plan_of(provider_of("scripted"), "echo"), environ={})) == []


def listed(said: Said) -> ConnectivityResult:
    """What is found where a vendor answers everything alike."""
    with vendor(lambda _: said) as (url, _):
        return asyncio.run(ask_for_models(provider_of("openai", f"{url}/v1", key_variable="TEST_KEY"), environ=ENVIRON))


def test_a_list_is_read_with_each_model_once_and_without_keys() -> None:
    found = listed(Said({"data": [{"id": "a"}, {"id": "a"}, {"id": f"b-{KEY}", "replacement": KEY}]}))
    assert ([(model.id, model.replacement) for model in found.models], found.has_key) == ([("a", ""), ("b-[key]", "[key]")], True)


@pytest.mark.parametrize(
    ("said", "problem", "hint"),
    [
        (Said("<html><title>Log in</title>"), "a page of HTML titled 'Log in' (HTTP 200)", "base_url"),
        (Said("<html><title>Blocked</title>", status=403), "a page of HTML titled 'Blocked' (HTTP 403)", "proxy"),
        (Said("pong", headers={"Content-Type": "text/plain"}), "not JSON (text/plain)", "/v1"),
        (
            Said("", status=301, headers={"Location": "https://other.example/v1?token=abc"}),
            "redirects to other.example (HTTP",
            "base_url",
        ),
        (Said("", status=308, headers={"Location": "/v2/models"}), "redirects (HTTP 308)", "base_url"),
        (Said("", status=407), "the proxy wants a login (HTTP 407)", "USER:PASSWORD"),
        (Said({}, status=401), "the key is refused (HTTP 401)", "new key"),
        (Said({}, status=503), "it answers with HTTP 503", "later"),
    ],
)
def test_a_reply_that_is_no_list_is_described_with_what_to_set(said: Said, problem: str, hint: str) -> None:
    found = listed(said)
    assert problem in found.problem
    assert hint in found.hint
    assert "abc" not in found.problem


@pytest.mark.parametrize(("said", "status"), [(Said({}, status=404), 404), (Said({"detail": "ready"}), 200)])
def test_a_server_without_a_list_is_no_problem(said: Said, status: int) -> None:
    assert (listed(said).problem, listed(said).note) == ("", f"it has no list of models at /v1/models (HTTP {status})")


def test_a_later_page_that_cannot_be_read_leaves_the_list_as_long_as_it_is() -> None:
    first = http(b'{"data": [{"id": "a"}], "has_more": true, "last_id": "a"}')
    with faulty_provider(send(first), send(http(b"oops", status=500))) as url:
        found = asyncio.run(ask_for_models(provider_of("anthropic", url), environ={}))
    assert ([model.id for model in found.models], found.problem) == (["a"], "")


def test_an_endpoint_without_a_list_of_models_is_only_connected_to() -> None:
    settings: dict[str, Any] = {"body": {"q": "{{prompt}}"}, "answer": "$.answer"}
    with StubProvider() as stub:
        found = asyncio.run(ask_for_models(provider_of("http", f"{stub.base_url}/ask", **settings), environ={}))
    assert (found.problem, stub.requests) == ("", [])
    gone = asyncio.run(ask_for_models(provider_of("http", f"{stub.base_url}/ask", **settings), environ={}))
    assert "cannot be reached at 127.0.0.1" in gone.problem


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}},
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xai-1."},
    ],
)
def test_a_key_that_is_refused_with_a_status_400_is_refused(body: dict[str, Any]) -> None:
    with vendor(lambda _: Said(body, status=400)) as (url, _):
        found = asyncio.run(ask_for_models(provider_of("openai", url, key_variable="TEST_KEY"), environ=ENVIRON))
    assert found.problem == "the key is refused (HTTP 400)"
