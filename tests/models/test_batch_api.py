"""The provider of our tests speaks as the vendors do: their own clients understand it, strictly."""

import json
from typing import Any

import pytest

from tests.models.batch_provider import BatchProvider, Faults

LINE = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions"}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Is it?"}]}
PARAMS = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Is it?"}]}


def openai_client(provider: BatchProvider) -> Any:
    """OpenAI's own client, which checks what it gets."""
    openai = pytest.importorskip("openai", reason="OpenAI's client is not installed")
    return openai.OpenAI(api_key="sk-test", base_url=provider.base_url, max_retries=0, _strict_response_validation=True)


def anthropic_client(provider: BatchProvider) -> Any:
    """Anthropic's own client, which checks what it gets."""
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed")
    url = provider.base_url.removesuffix("/v1")
    return anthropic.Anthropic(api_key="sk-test", base_url=url, max_retries=0, _strict_response_validation=True)


def handed_in(client: Any) -> Any:
    """A batch of one request, as OpenAI's guide makes it."""
    lines = json.dumps({**LINE, "body": BODY}).encode() + b"\n"
    file = client.files.create(file=("requests.jsonl", lines), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"mark": "mine"}
    )


def test_openais_client_hands_a_batch_in_looks_at_it_and_fetches_its_results() -> None:
    with BatchProvider() as provider, openai_client(provider) as client:
        batch = handed_in(client)
        words = [client.batches.retrieve(batch.id).status for _ in range(2)]
        ended = client.batches.retrieve(batch.id)
        (line,) = client.files.content(ended.output_file_id).text.splitlines()
    assert (batch.status, words, ended.request_counts.completed) == ("validating", ["in_progress", "completed"], 1)
    assert json.loads(line)["response"]["body"]["choices"][0]["message"]["content"] == "A"


def test_openais_client_finds_a_batch_by_its_metadata_and_cancels_it() -> None:
    with BatchProvider() as provider, openai_client(provider) as client:
        batch = handed_in(client)
        found = [one.id for one in client.batches.list(limit=1) if one.metadata == {"mark": "mine"}]
        words = [client.batches.cancel(batch.id).status, client.batches.retrieve(batch.id).status]
    assert (found, words) == ([batch.id], ["cancelling", "cancelled"])


def test_openais_client_reads_what_is_wrong_with_a_batch() -> None:
    problem = {"code": "model_not_found", "message": "no such model", "line": 1, "param": "body.model"}
    with BatchProvider(faults=Faults(problems=(problem,))) as provider, openai_client(provider) as client:
        failed = client.batches.retrieve(handed_in(client).id)
    assert (failed.status, failed.errors.data[0].line, failed.errors.data[0].code) == ("failed", 1, "model_not_found")


def test_anthropics_client_hands_a_batch_in_finds_it_and_looks_at_it() -> None:
    with BatchProvider() as provider, anthropic_client(provider) as client:
        batch = client.messages.batches.create(requests=[{"custom_id": "one", "params": PARAMS}])
        found = [one.id for one in client.messages.batches.list(limit=1)]
        words = [client.messages.batches.retrieve(batch.id).processing_status for _ in range(2)]
        ended = client.messages.batches.retrieve(batch.id)
    assert (found, words, ended.request_counts.succeeded) == ([batch.id], ["in_progress", "ended"], 1)
    assert ended.results_url.endswith(f"/v1/messages/batches/{batch.id}/results")


@pytest.mark.parametrize(
    ("faults", "kind"),
    [(Faults(looks=0), "succeeded"), (Faults(looks=0, errored=1), "errored"), (Faults(looks=0, expired=1), "expired")],
)
def test_anthropics_client_reads_results_of_every_kind(faults: Faults, kind: str) -> None:
    with BatchProvider(faults=faults) as provider, anthropic_client(provider) as client:
        provider.results_at = provider.base_url
        batch = client.messages.batches.create(requests=[{"custom_id": "one", "params": PARAMS}])
        client.messages.batches.retrieve(batch.id)
        (line,) = client.messages.batches.results(batch.id)
    assert (line.custom_id, line.result.type) == ("one", kind)


def test_anthropics_client_cancels_a_batch() -> None:
    with BatchProvider(faults=Faults(looks=99)) as provider, anthropic_client(provider) as client:
        batch = client.messages.batches.create(requests=[{"custom_id": name, "params": PARAMS} for name in ("one", "two")])
        words = [client.messages.batches.cancel(batch.id).processing_status]
        words.append(client.messages.batches.retrieve(batch.id).processing_status)
    assert words == ["canceling", "ended"]
