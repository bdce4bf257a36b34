"""Bodies of requests: what requests share, extra members, and what is kept of a reply."""

from assay.core.settings import ModelParameters
from assay.testing import StubProvider
from tests.models.asking import plan_of, provider_of, reply_to
from tests.models.test_openai_chat import sent


def test_members_of_the_extra_body_are_sent_as_they_are_and_win() -> None:
    body = sent("openai", parameters=ModelParameters(temperature=0.5, extra_body={"temperature": 1, "top_k": 5}))
    assert (body["temperature"], body["top_k"]) == (1, 5)


def test_a_query_in_the_address_stays_behind_the_path() -> None:
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("openai", f"{stub.base_url}/?api-version=1")))
    assert stub.requests[0].path == "/v1/chat/completions?api-version=1"


def test_the_whole_body_is_kept_where_the_plan_wants_it() -> None:
    with StubProvider("Four.") as stub:
        assert '"content": "Four."' in reply_to(plan_of(provider_of("openai", stub.base_url), keep_raw=True)).raw
