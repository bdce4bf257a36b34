"""Any HTTP endpoint as a model: what is sent, what is read, sessions, failures, and no key anywhere else."""

import asyncio
from typing import Any

import msgspec
import pytest

from assay.core.case import Message
from assay.core.model_call import AttachedText, ModelFailure, ModelRequest, RecordInput, Reply, Usage
from assay.core.plan import ProviderPlan
from assay.core.settings import UsagePaths
from assay.models import check_models, open_models
from assay.models.provider_protocol import exchange_of
from assay.models.requests import request_addressing
from assay.testing import StubProvider, StubReply, StubRequest
from tests.models.asking import KEY, ask_of, plan_of, replies_to, reply_to
from tests.models.vendor_stub import Said, vendor

ENVIRON = {"APP_KEY": KEY}
DEFAULTS: dict[str, Any] = {"body": {"question": "{{prompt}}"}, "answer": "$.answer"}


def endpoint(url: str, **settings: Any) -> ProviderPlan:
    return ProviderPlan(name="p", kind="http", base_url=url, **{**DEFAULTS, **settings})


def record_of(**members: Any) -> RecordInput:
    return RecordInput(id="r-1", **{"metadata": {"team": {"name": "blue"}, "level": 3}, **members})


def asked(*messages: Message, **members: Any) -> ModelRequest:
    given = messages or (Message("user", "What is 2 + 2?"),)
    return ModelRequest(stage="candidate", call_id="candidate", model="m", messages=given, record=record_of(), **members)


def talk(
    replies: Any, ask: ModelRequest | None = None, *, path: str = "/ask", **settings: Any
) -> tuple[Reply | ModelFailure, list[StubRequest]]:
    script = (
        replies if callable(replies) else [reply if isinstance(reply, StubReply) else StubReply(body=reply) for reply in replies]
    )
    with StubProvider(script) as stub:
        url = stub.base_url.removesuffix("/v1") + path
        try:
            found: Reply | ModelFailure = reply_to(plan_of(endpoint(url, **settings)), ask or asked(), environ=ENVIRON)
        except ModelFailure as failure:
            found = failure
    return found, stub.requests


def failed(*args: Any, **settings: Any) -> ModelFailure:
    found, _ = talk(*args, **settings)
    assert isinstance(found, ModelFailure), found
    return found


def test_an_answer_is_read_where_the_entry_says() -> None:
    body = {"out": [{"text": "4"}], "trace": [{"tool": "sum", "in": [2, 2]}], "usage": {"in": 9, "out": 1}}
    reply, requests = talk(
        [body],
        answer="$.out[0].text",
        steps="$.trace",
        usage=UsagePaths(input_tokens="$.usage.in", output_tokens="$.usage.out", total_tokens="$.usage.gone"),
    )
    assert isinstance(reply, Reply)
    assert (reply.text, reply.steps, reply.usage) == ("4", ({"tool": "sum", "in": [2, 2]},), Usage(9, 1, 10))
    assert (requests[0].path, requests[0].body) == ("/ask", {"question": "What is 2 + 2?"})


def test_every_value_has_its_place() -> None:
    body = {
        "p": "{{prompt}}",
        "s": "{{system}}",
        "m": "{{messages}}",
        "team": "{{metadata.team}}",
        "who": "Team {{metadata.team.name}}, level {{metadata.level}}",
        "all": "{{metadata}}",
        "a": "{{attachments}}",
        "id": "{{record_id}}",
        "model": "{{model}}",
        "fixed": [1, None, True],
    }
    _, (request,) = talk([{"answer": "4"}], asked(Message("system", "Be short."), Message("user", "Hi")), body=body)
    assert request.body == {
        "p": "Hi",
        "s": "Be short.",
        "m": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
        "team": {"name": "blue"},
        "who": "Team blue, level 3",
        "all": {"team": {"name": "blue"}, "level": 3},
        "a": [],
        "id": "r-1",
        "model": "stub",
        "fixed": [1, None, True],
    }


def test_values_are_data_in_the_body_the_address_and_headers() -> None:
    hostile = 'x"}, {{metadata.level}} ${APP_KEY} \\ \u2028 ü&?/#'
    settings = {
        "path": "/ask/{{record_id}}?q={{prompt}}",
        "headers": {"X-Level": "{{metadata.level}}", "Authorization": "Bearer ${APP_KEY}"},
    }
    _, (request,) = talk([{"answer": "4"}], asked(Message("user", hostile)), **settings)
    assert request.body == {"question": hostile}
    assert request.path.startswith("/ask/r-1?q=x%22%7D%2C%20%7B%7Bmetadata.level%7D%7D")
    assert request.path.endswith("%C3%BC%26%3F%2F%23")
    assert (request.headers["x-level"], request.headers["authorization"]) == ("3", f"Bearer {KEY}")


def test_a_key_variable_is_sent_as_a_bearer_token() -> None:
    _, (request,) = talk([{"answer": "4"}], key_variable="APP_KEY")
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_header_takes_no_line_break_of_a_record() -> None:
    ask = msgspec.structs.replace(asked(), record=record_of(metadata={"level": "1\r\nX-Evil: 1"}))
    failure = failed([{"answer": "4"}], ask, headers={"X-Level": "{{metadata.level}}"})
    assert (failure.code, "header 'X-Level'" in failure.message) == ("invalid_request", True)


def test_a_record_without_a_needed_value_says_so() -> None:
    failure = failed([], body={"q": "{{prompt}}", "x": "{{metadata.color}}"})
    assert (failure.code, failure.message) == (
        "missing_value",
        "the record has no value for {{metadata.color}}; members of its metadata: team, level",
    )


def test_instructions_stand_before_the_question_where_nothing_else_holds_them() -> None:
    ask = asked(Message("system", "Be short."), Message("user", "Hi"))
    assert talk([{"answer": "4"}], ask)[1][0].body == {"question": "Be short.\n\nHi"}


def test_attachments_are_sent_once() -> None:
    record = record_of(attachments=(AttachedText("a.txt", "Letter", "text", "Dear all"),))
    messages = (Message("user", "Hi\n\nAttachment: Letter\nDear all"),)
    ask = msgspec.structs.replace(asked(*messages), record=record)
    _, (request,) = talk([{"answer": "4"}], ask, body={"q": "{{prompt}}", "files": "{{attachments}}"})
    assert request.body == {"q": "Hi", "files": [{"path": "a.txt", "title": "Letter", "kind": "text", "text": "Dear all"}]}
    assert talk([{"answer": "4"}], ask)[1][0].body == {"question": messages[0].content}


@pytest.mark.parametrize(
    ("body", "answer", "text"),
    [
        ({"answer": 4}, "$.answer", "4"),
        ({"answer": {"city": "Bonn"}}, "$.answer", '{"city":"Bonn"}'),
        ({"parts": [{"t": "Bo"}, {"t": None}, {"t": "nn"}]}, "$.parts[*].t", "Bonn"),
        (["x", "y"], "$[-1]", "y"),
    ],
)
def test_an_answer_of_another_type_becomes_a_text(body: Any, answer: str, text: str) -> None:
    reply, _ = talk([body], answer=answer)
    assert isinstance(reply, Reply)
    assert reply.text == text


def test_a_plain_text_is_an_answer_where_the_whole_reply_is_one() -> None:
    reply, _ = talk([StubReply(body=b"It is 4.", headers={"Content-Type": "text/plain"})], answer="$")
    assert isinstance(reply, Reply)
    assert reply.text == "It is 4."


def test_a_null_is_no_answer() -> None:
    failure = failed([{"answer": None}])
    assert (failure.code, failure.message) == ("empty_answer", "the reply of 'p' has null at $.answer, where its answer should be")


def test_a_wrong_path_is_explained_by_the_structure_of_the_reply() -> None:
    failure = failed([{"output": {"text": "my secret", "steps": [{"tool": "x"}]}, "id": 1}])
    assert (failure.code, failure.is_transient) == ("unexpected_reply", False)
    assert (
        failure.message
        == "the reply of 'p' has nothing at $.answer; it has {output: {text: text, steps: [1 x {tool: text}]}, id: number}"
    )


def test_a_wrong_path_of_usage_costs_no_answer() -> None:
    reply, _ = talk([{"answer": "4", "usage": {"in": 1}}], usage=UsagePaths(input_tokens="$.use.in"))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage) == ("4", Usage())


@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": 9, "output_tokens": 2},
        {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        {"inputTokens": 9, "outputTokens": 2, "cached": True},
        {"promptTokenCount": 9, "candidatesTokenCount": 2},
    ],
)
def test_usage_may_be_one_path_of_an_object_with_usual_names(counts: dict[str, Any]) -> None:
    reply, _ = talk([{"answer": "4", "usage": counts}], usage="$.usage")
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(9, 2, 11)


def test_steps_may_be_missing_after_a_reply_that_had_some() -> None:
    bodies = [{"answer": "4", "steps": [1], "in": 3}, {"answer": "5"}]
    with StubProvider([StubReply(body=body) for body in bodies]) as stub:
        plan = plan_of(endpoint(stub.base_url, steps="$.steps", usage=UsagePaths(input_tokens="$.in")))
        first, second = replies_to(plan, asked(), times=2, environ=ENVIRON)
    assert (first.steps, first.usage.input_tokens) == ((1,), 3)
    assert (second.text, second.steps, second.usage.input_tokens) == ("5", (), None)


# Errors


def test_an_error_is_found_at_its_path_whatever_the_status() -> None:
    in_ok = failed([{"answer": None, "err": {"msg": "The agent crashed."}}], error="$.err.msg")
    assert (in_ok.code, "The agent crashed." in in_ok.message) == ("internal_error", True)
    in_status = failed([StubReply(status=422, body={"err": {"msg": "Too long."}})], error="$.err.msg")
    assert (in_status.code, in_status.message) == ("invalid_request", "HTTP 422 from 'p': Too long.")


def test_an_errors_own_code_counts() -> None:
    limited = {"code": "rate_limit_exceeded", "message": "Slow down."}
    failure = failed([{"answer": None, "err": limited}], error="$.err")
    assert (failure.code, failure.message) == ("rate_limited", "an error inside the reply of 'p': Slow down.")
    assert failed([StubReply(status=400, body={"err": {**limited, "code": "context_length_exceeded"}})], error="$.err").code == (
        "context_too_long"
    )


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_an_empty_error_is_none(value: Any) -> None:
    reply, _ = talk([{"answer": "4", "error": value}], error="$.error")
    assert isinstance(reply, Reply)


@pytest.mark.parametrize(
    ("status", "code", "is_transient"),
    [(401, "unauthorized", False), (404, "not_found", False), (429, "rate_limited", True), (503, "service_unavailable", True)],
)
def test_a_status_is_read_as_of_any_provider(status: int, code: str, *, is_transient: bool) -> None:
    failure = failed([StubReply(status=status, body={"x": 1}, headers={"Retry-After": "3"})])
    assert (failure.code, failure.is_transient, failure.retry_after) == (code, is_transient, 3.0)


def test_no_failure_repeats_a_key() -> None:
    echo = StubReply(status=400, body={"error": {"message": f"bad key {KEY}"}, KEY: 1})
    settings = {"headers": {"Authorization": "Bearer ${APP_KEY}"}, "body": {"q": "{{prompt}}", "k": "${APP_KEY}"}}
    failures = [failed([echo], **settings), failed([{KEY: KEY}], **settings)]
    assert not any(KEY in failure.message or KEY in str(failure.error_body) for failure in failures)


def test_a_variable_that_is_not_set_is_named_before_anything_is_sent() -> None:
    provider = endpoint("http://127.0.0.1:9/${PART}?k=${K1}", headers={"X-Key": "${K2}"}, body={"q": "{{prompt}}", "k": "${K3}"})
    problems = check_models(plan_of(provider), environ={})
    assert [problem.split()[3] for problem in problems] == ["PART", "K1", "K3", "K2"]


# Sessions


def conversation() -> ModelRequest:
    return asked(
        Message("system", "Be short."), Message("user", "I am Ann."), Message("assistant", "Hello."), Message("user", "Who am I?")
    )


SESSION_BODY = {"text": "{{prompt}}", "session": "{{session}}"}


def test_every_turn_is_sent_in_one_session() -> None:
    usage = UsagePaths(input_tokens="$.in", output_tokens="$.out")
    reply, requests = talk(
        [{"answer": "Hi.", "in": 3, "out": 1}, {"answer": "Ann.", "in": 5, "out": 2}],
        conversation(),
        body=SESSION_BODY,
        usage=usage,
    )
    first, second = (request.body for request in requests)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage) == ("Ann.", Usage(8, 3, 11))
    assert (first["text"], second["text"]) == ("Be short.\n\nI am Ann.", "Who am I?")
    assert first["session"] == second["session"] != ""


def test_each_attempt_has_a_session_of_its_own() -> None:
    ids = {talk([{"answer": "4"}], body=SESSION_BODY)[1][0].body["session"] for _ in range(3)}
    assert len(ids) == 3


def test_the_servers_session_is_sent_back() -> None:
    replies = [{"answer": "Hi.", "id": 7}, {"answer": "Ann.", "id": 7}]
    _, requests = talk(replies, conversation(), body=SESSION_BODY, session="$.id")
    assert [request.body.get("session") for request in requests] == [None, "7"]
    failure = failed([{"answer": "Hi."}], conversation(), body=SESSION_BODY, session="$.id")
    assert failure.message.startswith("turn 1 of 2: the reply of 'p' has no id of a session at $.id; it has {answer: text}")


def test_a_failed_turn_says_which() -> None:
    failure = failed([{"answer": "Hi."}, StubReply(status=503, body={})], conversation(), body=SESSION_BODY)
    assert (failure.code, failure.message.startswith("turn 2 of 2: HTTP 503")) == ("service_unavailable", True)


def test_no_turn_is_dropped_in_silence() -> None:
    failure = failed([], conversation())
    assert (failure.code, "hold only the last one; add {{messages}}, or {{session}}" in failure.message) == (
        "invalid_request",
        True,
    )
    _, (request,) = talk([{"answer": "Ann."}], conversation(), body={"history": "{{messages}}"})
    assert [message["role"] for message in request.body["history"]] == ["system", "user", "assistant", "user"]


# Addresses of replies in the cache


def test_replies_are_cached_by_all_that_is_sent_and_read() -> None:
    def address(ask: ModelRequest, **settings: Any) -> str:
        provider = endpoint("http://h/ask", **settings)
        return request_addressing(provider, plan_of(provider).candidate)(ask)

    other = msgspec.structs.replace(asked(), record=record_of(metadata={"level": 4}))
    uses = {"body": {"q": "{{prompt}}", "l": "{{metadata.level}}"}}
    assert address(asked()) == address(other)
    assert address(asked(), **uses) != address(other, **uses)
    variants = [{}, uses, {"answer": "$.x"}, {"steps": "$.x"}, {"method": "PUT"}, {"headers": {"A": "1"}}]
    assert len({address(asked(), **settings) for settings in variants}) == len(variants)
    assert address(ask_of()) == address(ask_of("What is 2 + 2?"))


def test_a_get_sends_no_body() -> None:
    with vendor(lambda _: Said({"answer": "4"})) as (url, requests):
        provider = endpoint(f"{url}/ask?q={{{{prompt}}}}", method="GET", body=msgspec.UNSET)
        reply = reply_to(plan_of(provider), asked(), environ=ENVIRON)
    (request,) = requests
    assert (reply.text, request.method, request.path, request.body) == ("4", "GET", "/ask?q=What%20is%202%20%2B%202%3F", None)
    assert "Content-Length" not in request.headers


# What a probe shows


def test_the_last_exchange_is_shown_without_keys() -> None:
    body = {"q": "{{prompt}}", "court": "{{metadata.court}}", "key": "${APP_KEY}"}
    settings = {"headers": {"Authorization": "Bearer ${APP_KEY}", "X-Record": "{{record_id}}"}, "body": body, "steps": "$.steps"}

    async def shown(url: str) -> tuple[Any, Any]:
        async with open_models(plan_of(endpoint(url, **settings)), environ=ENVIRON) as models:
            before = exchange_of(models["m"])
            await models["m"].reply(ask_of("What is 2 + 2?"))
            return before, exchange_of(models["m"])

    with StubProvider([StubReply(body={"answer": f"4 {KEY}", "steps": [1]})]) as stub:
        before, found = asyncio.run(shown(stub.base_url))
    assert before is None
    assert found.request.splitlines()[1:] == [
        "Authorization: ***",
        "X-Record: ",
        '{"q":"What is 2 + 2?","court":"metadata.court","key":"[key]"}',
    ]
    assert found.read == {"answer": "4 [key]", "steps": "[1]"}
    assert KEY not in repr(found)
