"""The proxy of the environment."""

from collections.abc import Mapping

import pytest

from assay.core.model_call import ModelFailure
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


@pytest.mark.parametrize(
    ("host", "excluded"),
    [
        ("localhost:8000", "localhost:8000"),
        ("[::1]:8000", "::1"),
        ("[::1]:8000", "[::1]"),
        ("[::1]:8000", "[::1]:8000"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("10.1.2.3", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3"),
        ("a.corp", "*.corp"),
        ("a.corp", "x a.corp"),
        ("a.corp", "b,*"),
        ("a.corp.", "a.corp"),
        ("A.Corp", "a.CORP."),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_that_is_excluded_in_any_usual_form_is_reached_without_the_proxy(host: str, excluded: str) -> None:
    environ = {"http_proxy": "http://proxy:1", "NO_PROXY": excluded}
    assert resolve_endpoint(provider_of("openai", f"http://{host}/v1"), environ).proxy == ""


@pytest.mark.parametrize(
    ("host", "excluded"),
    [
        ("localhost:8000", "localhost:9"),
        ("127.0.0.1", "0.0.1"),
        ("10.1.2.3", "11.0.0.0/8"),
        ("a.corp", "10.0.0.0/8"),
        ("a.corp", ".,,"),
    ],
)
def test_another_host_is_reached_through_the_proxy(host: str, excluded: str) -> None:
    environ = {"http_proxy": "http://proxy:1", "NO_PROXY": excluded}
    assert resolve_endpoint(provider_of("openai", f"http://{host}/v1"), environ).proxy == "http://proxy:1"


def test_a_proxy_for_everything_is_used_where_no_other_is_named() -> None:
    environ = {"ALL_PROXY": "http://all:1", "https_proxy": "http://proxy:1"}
    assert resolve_endpoint(provider_of("openai", "http://host/v1"), environ).proxy == "http://all:1"
    assert resolve_endpoint(provider_of("openai", "https://host/v1"), environ).proxy == "http://proxy:1"


def test_the_password_of_a_proxy_that_repeats_it_gets_into_no_message() -> None:
    with faulty_provider(send(b"HTTP/1.1 407 wrong: anna s3cret/pass\r\n\r\n")) as url:
        proxy = url.removesuffix("/v1").replace("//", "//anna:s3cret%2Fpass@")
        plan = plan_of(provider_of("openai", "https://provider.invalid/v1"))
        with pytest.raises(ModelFailure) as caught:
            reply_to(plan, environ={"https_proxy": proxy})
    assert caught.value.message.endswith("407 wrong: anna [key]")


@pytest.mark.parametrize("url", ["http://api.openai.com/v1", "https://api.openai.com:8443/v1"])
def test_the_vendors_key_goes_only_to_the_vendors_encrypted_port(url: str) -> None:
    assert resolve_endpoint(provider_of("openai", url), {"OPENAI_API_KEY": "sk-vendor"}).key == ""


@pytest.mark.parametrize("url", ["anna:s3cret@host/v1", "ftp://anna:s3cret@host", "http:/anna:s3cret@host"])
def test_a_password_in_an_address_that_is_none_is_not_repeated(url: str) -> None:
    (problem,) = endpoint_problems(provider_of("openai", url), {})
    assert "s3cret" not in problem
