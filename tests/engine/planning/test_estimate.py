"""What a run would cost: the calls that it makes, the prompts that it sends, and prices only where they are known."""

import time
from pathlib import Path

import pytest

from assay.engine.planning.estimate import ANSWER_TOKENS, SAMPLED, CostEstimate, estimate_cost
from assay.engine.planning.request import RunRequest
from tests.engine.run_settings import JUDGE, mcq_row, planned, write_golden, write_rows

KEYS = {"OPENAI_API_KEY": "x"}
RUBRIC = {
    "schema_version": "legal_eval_v1",
    "dataset": "law",
    "task_type": "rubric_qa",
    "prompt": "Advise.",
    "rubric": [{"id": name, "title": f"Says {name}", "weight": 1.0} for name in "abc"],
}


def estimated(request: RunRequest, **environ: str) -> CostEstimate:
    return estimate_cost(planned(request, **environ), environ=environ, now=time.time())


def shares(found: CostEstimate) -> list[tuple[str, str, int]]:
    return [(model.stage, model.model, model.calls) for model in found.models]


def test_every_criterion_of_a_rubric_is_a_call_of_each_judge(tmp_path: Path) -> None:
    rows = [{**RUBRIC, "id": "r1"}, {**RUBRIC, "id": "r2"}, mcq_row("m1")]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    found = estimated(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE, "scripted/judge-2")))
    assert shares(found) == [("candidate", "scripted/echo", 3), ("judge", JUDGE, 6), ("judge", "scripted/judge-2", 6)]
    assert (found.calls, found.cost, all(model.is_free for model in found.models)) == (15, 0, True)


def test_a_price_that_is_not_listed_is_unknown_and_the_others_are_summed(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    dataset = write_golden(tmp_path / "golden.json")
    found = estimated(RunRequest(datasets=(str(dataset),), models=("openai/nobody",), judges=("openai/gpt-4o-mini",)), **KEYS)
    candidate, judge = found.models
    assert (found.cost, candidate.cost, candidate.is_free) == (None, None, False)
    assert found.known_cost == judge.cost is not None


def test_a_known_price_is_that_of_the_tokens_in_and_out(tmp_path: Path) -> None:
    prices = pytest.importorskip("genai_prices")
    dataset = write_golden(tmp_path / "golden.json")
    found = estimated(RunRequest(datasets=(str(dataset),), models=("openai/gpt-4o-mini",), judges=(JUDGE,)), **KEYS)
    candidate = found.models[0]
    usage = prices.Usage(input_tokens=candidate.input_tokens, output_tokens=candidate.output_tokens)
    assert found.cost == pytest.approx(float(prices.calc_price(usage, "gpt-4o-mini", provider_id="openai").total_price))
    assert candidate.output_tokens == 5 * ANSWER_TOKENS


def test_of_many_records_some_are_looked_at_and_all_are_counted(tmp_path: Path) -> None:
    rows = [mcq_row(f"m{number}") for number in range(3 * SAMPLED)]
    found = estimated(RunRequest(datasets=(str(write_rows(tmp_path / "law.jsonl", *rows)),), models=("scripted/echo",)))
    assert (found.calls, found.records, found.sampled) == (3 * SAMPLED, 3 * SAMPLED, SAMPLED)


def test_only_selected_records_are_counted(tmp_path: Path) -> None:
    rows = [mcq_row(f"m{number}") for number in range(10)]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    found = estimated(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), sample=4))
    assert (found.calls, found.sampled) == (4, 4)
