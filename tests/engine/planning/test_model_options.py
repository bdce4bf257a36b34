"""Options about candidates: temperature, output limit, system prompt, server and price."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.plan import changed_settings
from assay.core.settings import TokenPrice
from assay.engine.planning.estimate import estimate_cost
from assay.engine.planning.request import RunRequest
from assay.testing import StubProvider, StubReply
from tests.engine.run_settings import JUDGE, mcq_row, planned, problems_of, write_golden, write_rows

USAGE = {"prompt_tokens": 1_000, "completion_tokens": 500, "total_tokens": 1_500}


def rows(tmp_path: Path) -> str:
    return str(write_rows(tmp_path / "rows.jsonl", mcq_row("r-1"), mcq_row("r-2")))


def run_file(tmp_path: Path, **members: Any) -> str:
    (tmp_path / "run.yaml").write_text(json.dumps({"datasets": [rows(tmp_path)], **members}), encoding="utf-8")
    return str(tmp_path / "run.yaml")


def test_options_are_for_all_candidates_and_for_no_judge(tmp_path: Path) -> None:
    dataset = str(write_golden(tmp_path / "g.json"))
    request = RunRequest(
        datasets=(dataset,), models=("scripted/echo",), judges=(JUDGE,), temperature=0.5, max_tokens=9, system_prompt="Be brief."
    )
    (plan,) = planned(request).plans
    assert (plan.candidate.parameters.temperature, plan.candidate.parameters.max_tokens) == (0.5, 9)
    assert set(plan.candidate.explicit or ()) == {"temperature", "max_tokens"}
    assert (plan.judges[0].parameters.temperature, plan.judges[0].parameters.max_tokens) == (0.0, None)
    assert plan.system_prompt == "Be brief."


def test_an_option_overrides_a_candidate_and_a_key_only_fills_it(tmp_path: Path) -> None:
    candidates = [{"model": "scripted/echo", "temperature": 0.2}, "scripted/empty"]
    path = run_file(tmp_path, candidates=candidates, temperature=0.7)
    kept = [plan.candidate.parameters.temperature for plan in planned(RunRequest(run_file=path)).plans]
    overridden = [plan.candidate.parameters.temperature for plan in planned(RunRequest(run_file=path, temperature=1.0)).plans]
    assert (kept, overridden) == ([0.2, 0.7], [1.0, 1.0])


def test_an_option_of_zero_is_a_setting_of_the_user(tmp_path: Path) -> None:
    (plan,) = planned(RunRequest(datasets=(rows(tmp_path),), models=("scripted/echo",), temperature=0)).plans
    assert plan.candidate.explicit == ("temperature",)


@pytest.mark.parametrize(("member", "value"), [("temperature", 3), ("max_tokens", 0), ("price", "free"), ("base_url", "localhost")])
def test_a_wrong_value_is_named_by_its_option(member: str, value: object, tmp_path: Path) -> None:
    (problem,) = problems_of(RunRequest(datasets=(rows(tmp_path),), models=("scripted/echo",), **{member: value}))
    assert problem.startswith(f"--{member.replace('_', '-')}: {member} must be")


def test_a_server_is_called_by_any_name_and_gets_no_vendors_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1234567890")
    for model in ("server/llama", "openai/llama"):
        with StubProvider("A") as stub:
            (result,) = api.run(
                rows(tmp_path), model=model, base_url=stub.base_url, runs_dir=str(tmp_path / "runs"), temperature=0.5, max_tokens=9
            )
        assert result.counts.evaluated_records == 2
        assert stub.requests[0].body["model"] == "llama"
        assert (stub.requests[0].body["temperature"], stub.requests[0].body["max_tokens"]) == (0.5, 9)
        assert "authorization" not in stub.requests[0].headers


@pytest.mark.parametrize(
    ("models", "judges", "words"),
    [
        (("one/a", "two/b"), (), "one address for the providers 'one', 'two'"),
        (("openai/a",), ("openai/b",), "a judge is called at 'openai' too"),
        (("scripted/echo",), (), "is not called over HTTP"),
    ],
)
def test_an_address_that_is_not_for_one_server_is_refused(
    models: tuple[str, ...], judges: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    request = RunRequest(datasets=(rows(tmp_path),), models=models, judges=judges, base_url="http://localhost:1/v1")
    assert any(words in problem for problem in problems_of(request, OPENAI_API_KEY="sk-test-12345678"))


def test_prices_come_from_the_option_the_model_and_the_provider_in_that_order(tmp_path: Path) -> None:
    provider = {"name": "server", "base_url": "http://localhost:1/v1", "prices": {"input": 1, "output": 2}}
    path = run_file(
        tmp_path,
        candidates=["server/a", "server/b"],
        judges=["server/c"],
        providers=[provider],
        prices={"server/b": {"input": 3, "output": 4, "cached": 0.5}},
    )
    plans = planned(RunRequest(run_file=path)).plans
    listed = TokenPrice(input=1, output=2)
    assert [plan.candidate.price for plan in plans] == [listed, TokenPrice(input=3, output=4, cached=0.5)]
    assert plans[0].judges[0].price == listed
    given = planned(RunRequest(run_file=path, price="0,0")).plans
    assert [plan.candidate.price for plan in given] == [TokenPrice(input=0, output=0)] * 2
    assert given[0].judges[0].price == listed


def test_a_price_of_no_model_of_the_run_is_a_mistake(tmp_path: Path) -> None:
    path = run_file(tmp_path, candidates=["scripted/echo"], prices={"scripted/ecko": {"input": 1, "output": 1}})
    (problem,) = problems_of(RunRequest(run_file=path))
    assert "no model of the run is called 'scripted/ecko'" in problem


def test_a_price_changes_no_result_and_so_no_hash(tmp_path: Path) -> None:
    plain, priced = (
        planned(RunRequest(datasets=(rows(tmp_path),), models=("server/a",), base_url="http://localhost:1/v1", price=price)).plans[
            0
        ]
        for price in (None, "1,2")
    )
    assert changed_settings(plain, priced) == ()
    assert b'"price"' not in msgspec.json.encode(plain)


def test_costs_budget_and_dry_run_use_the_price(tmp_path: Path) -> None:
    completion = {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "usage": USAGE}
    with StubProvider([StubReply(body=completion)] * 2) as stub:
        common = {"datasets": (rows(tmp_path),), "models": ("server/a",), "base_url": stub.base_url, "price": "2,10"}
        request = RunRequest(**common, runs_dir=str(tmp_path / "runs"), max_cost=1.0)
        estimate = estimate_cost(planned(request), environ={}, now=1_700_000_000.0)
        (result,) = api.run(request)
    assert estimate.cost is not None
    assert estimate.cost > 0
    assert result.summary is not None
    assert result.summary.cost_usd.sum == pytest.approx(2 * (1_000 * 2 + 500 * 10) / 1_000_000)


def test_a_server_of_ones_own_is_free_and_its_cost_known(tmp_path: Path) -> None:
    with StubProvider("A") as stub:
        (result,) = api.run(
            rows(tmp_path), model="server/a", base_url=stub.base_url, price="0,0", max_cost=0.1, runs_dir=str(tmp_path / "runs")
        )
    assert result.summary is not None
    assert (result.summary.cost_usd.sum, result.summary.cost_usd.n_unknown, result.counts.evaluated_records) == (0.0, 0, 2)
