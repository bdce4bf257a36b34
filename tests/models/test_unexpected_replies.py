"""Replies that no protocol has: the message says what was received and what to set, and no key goes or stays anywhere else."""

import asyncio
from typing import Any

import pytest

from assay.core.model_call import ModelFailure
from assay.core.provider import ProviderKind
from assay.models import open_models
from assay.testing import StubProvider, StubReply
from tests.models.asking import KEY, ask_of, plan_of, provider_of, reply_to

LOGIN = b"<!doctype html><html><head><title>Sign in - Example</title></head><body><input type='password'></body></html>"
SQUID = b"<html><head><title>ERROR: The requested URL could not be retrieved</title></head><body>squid</body></html>"
PAGE = b"<html><head><title>Welcome to nginx!</title></head></html>"
UNREAD = "the reply of 'p' cannot be read: "
LOGIN_HINT = "set base_url to the address of the API, and send what it wants of a login in headers"
HTML = {"Content-Type": "text/html"}


def failed(kind: ProviderKind, *, path: str = "/v1", environ: dict[str, str] | None = None, **reply: Any) -> ModelFailure:
    settings: dict[str, Any] = {"body": {"q": "{{prompt}}"}, "answer": "$.answer"} if kind == "http" else {}
    with StubProvider(lambda _: StubReply(**reply)) as stub:
        url = stub.base_url.removesuffix("/v1") + path
        try:
            reply_to(plan_of(provider_of(kind, url, **settings)), environ=environ or {})
        except ModelFailure as failure:
            return failure
    raise AssertionError


@pytest.mark.parametrize(
    ("kind", "path", "reply", "code", "message"),
    [
        (
            "openai",
            "/v1",
            {"body": LOGIN, "headers": HTML},
            "internal_error",
            f"{UNREAD}it is a login page ('Sign in - Example'); {LOGIN_HINT}",
        ),
        (
            "http",
            "/ask",
            {"body": PAGE, "headers": HTML},
            "internal_error",
            f"{UNREAD}it is a web page ('Welcome to nginx!'); is url the address of the API?",
        ),
        (
            "openai",
            "",
            {"body": PAGE, "headers": HTML},
            "internal_error",
            f"{UNREAD}it is a web page ('Welcome to nginx!'); is the base_url missing /v1?",
        ),
        (
            "openai",
            "/v1",
            {"status": 503, "body": SQUID, "headers": {**HTML, "X-Squid-Error": "ERR_CONNECT_FAIL 111"}},
            "service_unavailable",
            "HTTP 503 from 'p': it is the page of a proxy ('ERROR: The requested URL could not be retrieved'); "
            "it answers for 127.0.0.1",
        ),
        (
            "openai",
            "/v1",
            {"status": 502, "body": PAGE, "headers": HTML},
            "service_unavailable",
            "HTTP 502 from 'p': it is a web page ('Welcome to nginx!')",
        ),
        (
            "openai",
            "",
            {"status": 404, "body": {"detail": "Not Found"}},
            "not_found",
            "HTTP 404 from 'p': Not Found; is the base_url missing /v1?",
        ),
        (
            "google",
            "/gemini",
            {"status": 404, "body": {"detail": "Not Found"}},
            "not_found",
            "HTTP 404 from 'p': Not Found; is the base_url missing /v1beta?",
        ),
        (
            "openai",
            "/v1/chat/completions",
            {"status": 404, "body": b"404 page not found"},
            "not_found",
            "HTTP 404 from 'p': 404 page not found; base_url ends in /chat/completions, which is added to it: leave that out",
        ),
        (
            "openai",
            "/v1",
            {"status": 404, "body": {"error": {"message": "The model `x` does not exist."}}},
            "not_found",
            "HTTP 404 from 'p': The model `x` does not exist.",
        ),
        (
            "openai",
            "/v1",
            {"status": 401, "body": {"error": {"message": "Unauthorized"}}},
            "unauthorized",
            "HTTP 401 from 'p': Unauthorized; no key was sent to 127.0.0.1: name its environment variable in key_variable",
        ),
        (
            "openai",
            "/v1",
            {"body": b'data: {"choices": []}\n\n', "headers": {"Content-Type": "text/event-stream"}},
            "internal_error",
            f"{UNREAD}it is a stream of events; set stream: false in extra_body",
        ),
        (
            "http",
            "/ask",
            {"body": b'event: token\ndata: "x"\n\n'},
            "internal_error",
            f"{UNREAD}it is a stream of events; set stream: false in body",
        ),
        (
            "openai",
            "/api",
            {"body": b"OK", "headers": {"Content-Type": "text/plain"}},
            "internal_error",
            f"{UNREAD}it is a text of the type text/plain, not JSON; is the base_url missing /v1?",
        ),
        (
            "openai",
            "",
            {"body": b""},
            "internal_error",
            f"{UNREAD}it is empty; is the base_url missing /v1?",
        ),
        (
            "openai",
            "/v1",
            {"status": 307, "headers": {"Location": "https://api.example.com/v1/chat/completions?token=secret"}},
            "redirect_refused",
            "HTTP 307 from 'p': it redirects to https://api.example.com/v1/chat/completions; if that is the API, set base_url: "
            "https://api.example.com/v1 (no key follows a redirect)",
        ),
        (
            "openai",
            "/v1",
            {"status": 302, "headers": {"Location": "https://sso.example.com/oauth2/authorize?state=secret"}},
            "redirect_refused",
            f"HTTP 302 from 'p': it redirects to a login (https://sso.example.com/oauth2/authorize); {LOGIN_HINT}",
        ),
        (
            "openai",
            "/v1",
            {"status": 301, "headers": {"Location": "/v1/chat/completions/"}},
            "redirect_refused",
            "HTTP 301 from 'p': it redirects; set base_url to the address of the API: no key follows a redirect",
        ),
        (
            "openai",
            "/v1",
            {"status": 407, "body": b""},
            "refused",
            "HTTP 407 from 'p': the proxy wants a login; put it into the proxy's address: http://USER:PASSWORD@HOST:PORT",
        ),
    ],
)
def test_a_message_says_what_was_received_and_what_to_set(
    kind: ProviderKind, path: str, reply: dict[str, Any], code: str, message: str
) -> None:
    failure = failed(kind, path=path, **reply)
    assert (failure.code, failure.message) == (code, message)


def test_pages_alone_end_the_run_and_a_page_among_answers_is_tried_again() -> None:
    page, answer = StubReply(body=b"<html><title>Sign in</title></html>"), StubReply(body=COMPLETION)
    assert codes_of([page, page, page]) == ["internal_error", "internal_error", "unexpected_reply"]
    assert codes_of([page, answer, page, page, page]) == ["internal_error", "", *["internal_error"] * 3]


def codes_of(replies: list[StubReply]) -> list[str]:
    """The codes of the failures of one model's calls, one after the other; empty for an answer."""

    async def codes() -> list[str]:
        found = []
        async with open_models(plan_of(provider_of("openai", stub.base_url)), environ={}) as models:
            for _ in replies:
                try:
                    await models["m"].reply(ask_of())
                    found.append("")
                except ModelFailure as failure:
                    found.append(failure.code)
        return found

    with StubProvider(replies) as stub:
        return asyncio.run(codes())


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "4"}], "stop_reason": "end_turn"}
COMPLETION = {"object": "chat.completion", "choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}
RESPONSE = {"object": "response", "status": "completed", "output": [{"type": "message", "content": []}]}
GENERATED = {"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}]}
CONVERSED = {"output": {"message": {"content": [{"text": "4"}]}}, "stopReason": "end_turn"}
FORMATS: dict[ProviderKind, dict[str, Any]] = {
    "anthropic": MESSAGE,
    "openai": COMPLETION,
    "openai_responses": RESPONSE,
    "google": GENERATED,
    "bedrock": CONVERSED,
}


@pytest.mark.parametrize("sent", FORMATS)
@pytest.mark.parametrize("kind", FORMATS)
def test_another_protocols_reply_names_its_kind(kind: ProviderKind, sent: ProviderKind) -> None:
    if kind == sent:
        return
    failure = failed(kind, body=FORMATS[sent])
    assert (failure.code, failure.is_transient) == ("unexpected_reply", False)
    assert failure.message.endswith(f"set kind: {sent} for provider 'p', or another base_url")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"choices": [{"text": "4"}]}, None),
        ({"message": {"content": "4"}, "done": True}, "it is a reply of Ollama's own API; is the base_url missing /v1?"),
        ({"object": "list", "data": []}, "it is a list, such as that of models; is the base_url missing /v1?"),
    ],
)
def test_formats_without_a_kind_are_named_too(body: dict[str, Any], what: str | None) -> None:
    failure = failed("openai", path="/api", body=body)
    if what is None:
        assert failure.code == "empty_answer"
    else:
        assert (failure.code, failure.message) == ("unexpected_reply", f"{UNREAD}{what}")


def test_json_of_another_form_is_described_by_its_structure() -> None:
    failure = failed("openai", body={"result": {"text": "my secret"}})
    assert (failure.code, failure.message) == (
        "internal_error",
        "an error inside the reply of 'p': it has no choices; it has {result: {text: text}}",
    )


@pytest.mark.parametrize("status", [200, 401, 404, 502])
def test_no_message_repeats_a_key(status: int) -> None:
    page = f"<html><title>{KEY}</title><body>sign in {KEY}</body></html>".encode()
    environ = {"TEST_KEY": KEY}
    replies: list[dict[str, Any]] = [
        {"status": status, "body": page, "headers": HTML},
        {"status": status, "body": {KEY: KEY}},
        {"status": 302, "headers": {"Location": f"https://elsewhere.example/{KEY}?k={KEY}"}},
    ]
    for reply in replies:
        with StubProvider(lambda _, reply=reply: StubReply(**reply)) as stub, pytest.raises(ModelFailure) as caught:
            reply_to(plan_of(provider_of("openai", stub.base_url, key_variable="TEST_KEY")), environ=environ)
        assert KEY not in f"{caught.value.message} {caught.value.error_body}"


@pytest.mark.parametrize("kind", [*FORMATS, "http"])
def test_no_redirect_is_followed(kind: ProviderKind) -> None:
    with StubProvider("The answer is 4.") as other:
        failure = failed(kind, status=308, headers={"Location": f"{other.base_url}/chat/completions"})
    assert (failure.code, other.requests) == ("redirect_refused", [])


def test_the_page_of_a_proxy_names_the_variables() -> None:
    with StubProvider(lambda _: StubReply(status=403, body=SQUID, headers=HTML)) as proxy:
        environ = {"http_proxy": proxy.base_url.removesuffix("/v1")}
        with pytest.raises(ModelFailure) as caught:
            reply_to(plan_of(provider_of("openai", "http://provider.invalid/v1")), environ=environ)
    hint = "add provider.invalid to NO_PROXY, or correct HTTP_PROXY and HTTPS_PROXY"
    title = "ERROR: The requested URL could not be retrieved"
    assert (caught.value.code, caught.value.message) == (
        "forbidden",
        f"HTTP 403 from 'p': it is the page of a proxy ('{title}'); {hint}",
    )
