"""The proxy of the environment."""

from collections.abc import Mapping

import pytest

from assay.models.endpoint import endpoint_problems, resolve_endpoint
from tests.models.asking import plan_of, provider_of, reply_to
from tests.models.faulty_provider import completion, faulty_provider, http, send


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, ""),
        ({"https_proxy": "http://proxy:1"}, "http://proxy:1"),
        ({"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ({"http_proxy": "http://proxy:1"}, ""),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "localhost,.openai.com"}, ""),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "OpenAI.com , localhost"}, ""),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "enai.com,,."}, "http://proxy:1"),
        ({"HTTPS_PROXY": "http://proxy:1", "no_proxy": "*"}, ""),
    ],
)
def test_the_proxy_of_the_environment_is_used_unless_it_excludes_the_host(environ: Mapping[str, str], proxy: str) -> None:
    assert resolve_endpoint(provider_of("openai", "https://api.openai.com/v1"), {**environ, "OPENAI_API_KEY": "k"}).proxy == proxy


def test_a_proxy_that_a_web_request_may_have_set_is_ignored() -> None:
    environ = {"HTTP_PROXY": "http://proxy:1", "REQUEST_METHOD": "GET"}
    assert resolve_endpoint(provider_of("openai", "http://host/v1"), environ).proxy == ""


def test_requests_go_through_the_proxy() -> None:
    with faulty_provider(send(http(completion("by proxy")))) as url:
        plan = plan_of(provider_of("openai", "http://provider.invalid/v1"))
        assert reply_to(plan, environ={"http_proxy": url.removesuffix("/v1")}).text == "by proxy"


@pytest.mark.parametrize("proxy", ["socks5://anna:secret@proxy:1080", "http://", "http://proxy:port", "ftp://proxy"])
def test_a_proxy_that_cannot_be_spoken_to_is_named_before_any_call_and_without_its_password(proxy: str) -> None:
    (problem,) = endpoint_problems(provider_of("openai", "https://provider.invalid/v1"), {"https_proxy": proxy})
    assert problem.startswith("the proxy of the environment for provider 'p' is not an http or https address")
    assert "secret" not in problem


def test_a_proxy_without_a_scheme_is_an_http_proxy() -> None:
    assert resolve_endpoint(provider_of("openai", "https://host/v1"), {"https_proxy": "proxy:3128"}).proxy == "http://proxy:3128"
