"""What a run would do and cost, before any call."""

from assay.api import CostEstimate, ModelEstimate
from assay.presentation.words import assumption_text, batch_text, estimate_text

ASKED = {"calls": 50, "input_tokens": 12_000, "output_tokens": 20_000}


def estimate(*models: ModelEstimate, cost: float | None) -> CostEstimate:
    calls = sum(model.calls for model in models)
    known = sum(model.cost or 0.0 for model in models)
    return CostEstimate(models=models, calls=calls, cost=cost, known_cost=known, records=50, sampled=50)


def test_what_calls_no_model_is_free() -> None:
    assert estimate_text(estimate(cost=0.0)) == "free: no model is called"


def test_a_price_that_is_not_listed_is_named_and_the_rest_is_counted() -> None:
    small = ModelEstimate(stage="candidate", model="small", cost=0.043, **ASKED)
    judge = ModelEstimate(stage="judge", model="openai/gpt-5", cost=None, **ASKED)
    found = estimate(small, judge, cost=None)
    assert estimate_text(found) == "unknown for 100 calls: no price is listed for openai/gpt-5; about $0.0430 for the rest"
    assert assumption_text(found).startswith("if 24,000 tokens are sent (4 bytes each), answers have ")


def test_batches_say_how_much_less_they_cost() -> None:
    model = ModelEstimate(stage="candidate", model="small", cost=1.2, live_cost=2.4, batches=2, **ASKED)
    assert (
        batch_text(model) == "2 batches of small for 50 requests, about $1.20 instead of $2.40 one by one; answers within 24 hours"
    )
