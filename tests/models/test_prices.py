"""What replies cost, by the installed price list."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from assay.core.model_call import Reply, Usage
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.models import check_models
from assay.models.prices import Tariff, TokenRates, find_tariff, pricing, usage_cost
from tests.models.asking import provider_of

genai_prices = pytest.importorskip("genai_prices")

OPENAI = "https://api.openai.com/v1"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MODELS = [
    (OPENAI, "gpt-4o-mini"),
    (OPENAI, "o3-mini"),
    ("https://api.anthropic.com/v1", "claude-sonnet-4-5"),
    ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro"),
    ("https://api.deepseek.com", "deepseek-chat"),
]
COUNTS = [(0, 0, 0), (1000, 0, 10), (1000, 400, 500), (200_000, 0, 9), (200_001, 1000, 9), (900_000, 900_000, 1)]
STUB = ModelPlan(name="m", provider="p", model="stub")


@pytest.mark.parametrize(("url", "model"), MODELS)
@pytest.mark.parametrize(("asked", "cached", "said"), COUNTS)
def test_a_cost_is_that_of_the_price_list(url: str, model: str, *, asked: int, cached: int, said: int) -> None:
    tariff = find_tariff(url, model, at=NOON)
    listed = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=asked, cache_read_tokens=cached, output_tokens=said),
        model,
        provider_api_url=url,
        genai_request_timestamp=NOON,
    )
    assert tariff is not None
    cost = usage_cost(tariff, Usage(input_tokens=asked, cached_tokens=cached, output_tokens=said))
    assert cost == pytest.approx(float(listed.total_price), rel=1e-12)


def test_the_price_changes_with_the_size_of_the_request() -> None:
    tariff = Tariff((TokenRates(100, 2.0, 1.0, 4.0, 4.0), TokenRates(-1, 1.0, 0.5, 2.0, 3.0)), 10.0)
    assert usage_cost(tariff, Usage(input_tokens=100, output_tokens=1)) == 112.0
    assert usage_cost(tariff, Usage(input_tokens=101, output_tokens=1)) == 216.0
    assert usage_cost(tariff, Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=5)) == 33.0


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=5), Usage(output_tokens=5)])
def test_tokens_that_nobody_counted_have_no_cost(usage: Usage) -> None:
    tariff = find_tariff(OPENAI, "gpt-4o-mini", at=NOON)
    assert tariff is not None
    assert usage_cost(tariff, usage) is None


@pytest.mark.parametrize(
    ("url", "model"), [(OPENAI, "no-such-model"), ("https://llm.example.com/v1", "gpt-4o"), (OPENAI, "whisper-1")]
)
def test_an_unknown_price_is_none(url: str, model: str) -> None:
    assert find_tariff(url, model, at=NOON) is None


def test_a_model_of_litellm_is_found_by_its_whole_name() -> None:
    assert find_tariff("litellm", "openai/gpt-4o-mini", at=NOON) == find_tariff(OPENAI, "gpt-4o-mini", at=NOON)


def test_the_cost_of_a_reply_is_a_function_of_it() -> None:
    model = ModelPlan(name="m", provider="p", model="gpt-4o-mini")
    cost = pricing(provider_of("openai"), model, environ={"OPENAI_API_KEY": "k"}, clock=NOON.timestamp)
    reply = Reply(text="4", usage=Usage(input_tokens=1_000_000, output_tokens=1_000_000))
    assert cost(reply) == pytest.approx(float(Decimal("0.75")))


def test_a_price_that_depends_on_the_hour_is_looked_up_anew() -> None:
    times = iter([NOON.timestamp(), NOON.timestamp(), NOON.timestamp() + 86400])
    model = ModelPlan(name="m", provider="p", model="gpt-4o-mini")
    cost = pricing(provider_of("openai"), model, environ={"OPENAI_API_KEY": "k"}, clock=lambda: next(times))
    reply = Reply(text="4", usage=Usage(input_tokens=10, output_tokens=1))
    assert cost(reply) == cost(reply)


@pytest.mark.parametrize("kind", ["scripted", "replay", "local"])
def test_what_wants_no_money_costs_nothing_and_is_not_of_unknown_price(kind: str) -> None:
    cost = pricing(provider_of(kind), STUB, environ={})  # type: ignore[arg-type]  # the list above holds kinds only
    assert cost(Reply(text="4")) == 0.0


def test_what_a_function_costs_is_not_known() -> None:
    assert pricing(provider_of("function"), STUB, environ={})(Reply(text="4")) is None


def test_a_server_on_this_machine_does_not_load_the_price_list() -> None:
    code = (
        "import sys; from assay.core.plan import *; from assay.models.prices import pricing; "
        "p = ProviderPlan(name='p', kind='openai', base_url='http://127.0.0.1:8000/v1'); "
        "pricing(p, ModelPlan(name='m', provider='p', model='gpt-4o'), environ={}); print('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_budget_over_a_model_of_unknown_price_is_refused_before_any_call() -> None:
    provider = ProviderPlan(name="own", kind="openai", base_url="http://127.0.0.1:9/v1")
    plan = Plan(
        run_id="r", datasets=(), candidate=ModelPlan(name="own/m", provider="own", model="m"), providers=(provider,), max_cost=1.0
    )
    (problem,) = check_models(plan, environ={})
    assert problem.startswith("max_cost cannot be kept: the price of 'own/m' is not known")
