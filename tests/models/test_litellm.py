"""LiteLLM: what to install, what it answers, and how it fails."""

from importlib.util import find_spec

import pytest

from assay.core.errors import MissingExtra
from assay.models import check_models
from assay.testing import StubProvider, StubReply
from tests.models.asking import class_of, plan_of, provider_of, reply_to

HAS_LITELLM = find_spec("litellm") is not None


@pytest.mark.skipif(HAS_LITELLM, reason="the litellm extra is installed")
def test_litellm_says_what_to_install() -> None:
    plan = plan_of(provider_of("litellm"), "openai/gpt-4o")
    assert check_models(plan, environ={}) == ["the provider 'p' needs litellm: pip install 'assay[litellm]'"]
    with pytest.raises(MissingExtra, match="LiteLLM"):
        reply_to(plan)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not HAS_LITELLM, reason="the litellm extra is not installed")
def test_litellm_answers() -> None:
    with StubProvider("Four.") as stub:
        plan = plan_of(provider_of("litellm", stub.base_url, key_variable="TEST_KEY"), "openai/stub")
        reply = reply_to(plan)
    assert (reply.text, reply.finish_reason, reply.usage.input_tokens) == ("Four.", "stop", 40)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not HAS_LITELLM, reason="the litellm extra is not installed")
@pytest.mark.parametrize(("status", "expected"), [(429, "rate_limited"), (503, "service_unavailable"), (401, "permanent")])
def test_a_failure_of_litellm_is_classed_like_any_other(status: int, expected: str) -> None:
    with StubProvider(lambda _: StubReply(status=status, body={"error": {"message": "no"}})) as stub:
        plan = plan_of(provider_of("litellm", stub.base_url, key_variable="TEST_KEY"), "openai/stub")
        assert class_of(plan) == expected
    assert len(stub.requests) == 1
