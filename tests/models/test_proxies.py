"""The proxy of the environment."""

from collections.abc import Mapping

import pytest

from assay.models.endpoint import resolve_endpoint
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
