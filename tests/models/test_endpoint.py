"""Endpoints show nothing secret, and name what they are."""

import pytest

from assay.core.model_call import ModelFailure
from assay.models.endpoint import endpoint_problems, resolve_endpoint
from tests.models.asking import KEY, plan_of, provider_of, reply_to
from tests.models.faulty_provider import (
    faulty_provider,
    http,
    send,
)


@pytest.mark.parametrize("headers", [{"Authorization": "$TEAM"}, {"X-Pass": "$TEAM"}])
def test_the_key_in_a_header_of_the_environment_gets_into_no_message(headers: dict[str, str]) -> None:
    with faulty_provider(send(http(f"bad key: {KEY}".encode(), status=401))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url, headers=headers)), environ={"TEAM": f"Bearer {KEY}"})
    assert "bad key: [key]" in caught.value.message


def test_an_endpoint_shows_nothing_secret() -> None:
    provider = provider_of("openai", "http://host/v1", key_variable="TEST_KEY", headers={"X-Pass": "$PASS"})
    environ = {"TEST_KEY": KEY, "PASS": "pass-secret", "http_proxy": "http://anna:proxy-secret@proxy:1"}
    assert repr(resolve_endpoint(provider, environ)) == "Endpoint(provider='p', kind='openai', url='http://host/v1')"


def test_port_0_is_no_address() -> None:
    (problem,) = endpoint_problems(provider_of("openai", "http://host:0/v1"), {})
    assert "is not an http or https address" in problem
