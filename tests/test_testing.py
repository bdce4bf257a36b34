"""What users' own tests may rely on."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest

import assay
from assay.core.contract import ContractId
from assay.models.connectivity import ask_for_models
from assay.testing import StubProvider, StubReply, StubRequest, example_dataset
from tests.models.asking import ask_of, plan_of, provider_of, reply_to


@pytest.mark.parametrize("contract", ["batch_v1", "golden_v1", "legal_eval_v1", "conversation_v1"])
def test_an_example_dataset_is_valid_without_a_warning(contract: ContractId) -> None:
    report = assay.validate(example_dataset(contract), contract)
    assert list(report.issues) == []
    assert report.is_valid


def test_a_stub_answers_with_the_same_text_every_time() -> None:
    with StubProvider("Four.") as stub:
        plan = plan_of(provider_of("openai", stub.base_url))
        assert [reply_to(plan).text for _ in range(2)] == ["Four.", "Four."]


def test_a_stub_answers_in_the_order_of_its_list_and_then_with_an_error() -> None:
    with StubProvider(["one", StubReply(body={"choices": [{"message": {"content": "two"}}]})]) as stub:
        plan = plan_of(provider_of("openai", stub.base_url))
        assert [reply_to(plan).text for _ in range(2)] == ["one", "two"]
        request = urllib.request.Request(f"{stub.base_url}/chat/completions", data=b"{}")
        with pytest.raises(urllib.error.HTTPError, match="500") as caught:
            urllib.request.urlopen(request)
        caught.value.close()


def test_a_stub_answers_with_what_a_function_makes_of_the_request() -> None:
    def shout(request: StubRequest) -> str:
        return str(request.body["messages"][-1]["content"]).upper()

    with StubProvider(shout) as stub:
        assert reply_to(plan_of(provider_of("openai", stub.base_url)), ask_of("hello")).text == "HELLO"


def test_a_stub_remembers_its_requests() -> None:
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("openai", stub.base_url)), ask_of("hello"))
    request = stub.requests[0]
    assert (request.path, request.headers["content-type"]) == ("/v1/chat/completions", "application/json")
    assert json.dumps(request.body["messages"]) == '[{"role": "user", "content": "hello"}]'


def test_a_stub_has_nothing_at_a_path_that_it_does_not_know() -> None:
    with StubProvider() as stub:
        request = urllib.request.Request(f"{stub.base_url}/chat", data=b"{}")
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(request)
        assert json.load(caught.value) == {"error": {"message": "the stub has nothing at /v1/chat"}}


def test_a_stub_speaks_what_it_is_told_to_speak() -> None:
    def wrap(request: StubRequest, text: str) -> dict[str, str]:
        return {"said": text, "at": request.path}

    with StubProvider("4", wrap=wrap) as stub, urllib.request.urlopen(f"{stub.base_url}/generate", data=b"{}") as reply:
        assert json.load(reply) == {"said": "4", "at": "/v1/generate"}


def test_a_stub_has_a_list_of_models_for_the_doctor() -> None:
    with StubProvider() as stub:
        reached = asyncio.run(ask_for_models(provider_of("openai", stub.base_url), environ={}))
    assert (reached.status, reached.problem) == (200, "")
