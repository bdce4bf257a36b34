"""What batches cost: half, shown before, counted after, and never more than the run may cost."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assay.engine.planning.estimate import ModelEstimate, estimate_cost
from assay.engine.planning.request import RunRequest
from assay.models.prices import find_tariff
from tests.engine.batch_runs import attempts, manifest, run_priced
from tests.engine.run_settings import mcq_row, planned, write_rows
from tests.models.batch_provider import BatchProvider, Faults

pytest.importorskip("genai_prices", reason="prices come with the extra 'prices'")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
USED = (40 * 2.5e-6 + 12 * 10e-6) / 2
"""Dollars for the provider's 40 tokens in and 12 out at half of the price of gpt-4o."""


def test_every_answer_of_a_batch_costs_half(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        result = run_priced(tmp_path, provider)
    assert result.metrics["cost_usd"]["sum"] == pytest.approx(6 * USED)


def test_an_answer_that_was_asked_one_by_one_costs_the_whole_price(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=2)) as provider:
        run_priced(tmp_path, provider)
    costs = [line["cost"] for line in attempts(tmp_path / "run.json") if line["cost"] is not None]
    assert sorted(costs) == pytest.approx([USED] * 4 + [2 * USED] * 2)


def test_no_more_is_handed_in_than_the_run_may_cost_by_estimate(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        result = run_priced(tmp_path, provider, records=8, max_cost=0.006)
    assert (result.counts.evaluated_records, result.counts.cancelled_records, provider.live) == (2, 6, [])
    assert manifest(tmp_path / "run.json")["batches"][0]["requests"] == 2


def test_what_is_left_unanswered_is_asked_one_by_one_only_while_there_is_money(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=3)) as provider:
        result = run_priced(tmp_path, provider, records=4, max_tokens=12, max_cost=0.0005, run={"concurrency": 1})
    assert result.counts.evaluated_records + result.counts.cancelled_records == 4
    assert (result.counts.cancelled_records, len(provider.live)) == (1, 2)


def estimates(folder: Path, **batch: object) -> tuple[ModelEstimate, ...]:
    dataset = write_rows(folder / "law.jsonl", *(mcq_row(f"q-{n}") for n in range(100)))
    run_file = folder / "run.json"
    run_file.write_text(json.dumps({"datasets": [str(dataset)], "candidates": ["openai/gpt-4.1"], "batch": batch}))
    environ: Mapping[str, str] = {"OPENAI_API_KEY": "sk-test-1234567890"}
    request = RunRequest(run_file=str(run_file), runs_dir=str(folder / "runs"))
    return estimate_cost(planned(request, **environ), environ=environ, now=NOW.timestamp()).models


def test_an_estimate_says_both_prices_and_how_many_batches_there_will_be(tmp_path: Path) -> None:
    (model,) = estimates(tmp_path, max_requests=30)
    assert (model.batches, model.is_assumed) == (4, False)
    assert model.cost == pytest.approx((model.live_cost or 0) / 2)


def test_an_estimate_counts_batches_by_their_bytes_too(tmp_path: Path) -> None:
    (model,) = estimates(tmp_path, max_bytes=5_000)
    assert 4 < model.batches < 20


@pytest.mark.parametrize(
    ("url", "model"), [("https://api.openai.com/v1", "gpt-5-mini"), ("https://api.anthropic.com/v1", "claude-sonnet-4-5")]
)
def test_prices_of_batches_are_those_of_the_list(url: str, model: str) -> None:
    usual, batch = (find_tariff(url, model, at=NOW, is_batch=is_batch) for is_batch in (False, True))
    assert usual is not None
    assert batch is not None
    assert (batch.rates[-1].output, batch.is_assumed) == (pytest.approx(usual.rates[-1].output / 2), False)


def test_half_is_taken_for_granted_where_the_list_knows_no_price_of_batches() -> None:
    url = "https://api.deepseek.com"
    usual, batch = (find_tariff(url, "deepseek-chat", at=NOW, is_batch=is_batch) for is_batch in (False, True))
    assert usual is not None
    assert batch is not None
    assert (batch.rates[-1].output, batch.is_assumed) == (usual.rates[-1].output / 2, True)
