"""Whether a provider can be reached, without a request that costs."""

import asyncio

from assay.models import unreachable_hosts
from tests.models.asking import plan_of, provider_of
from tests.models.faulty_provider import faulty_provider, send


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
