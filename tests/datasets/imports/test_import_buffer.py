"""Items that come twice: one question, one answer, no average of both."""

import json
from pathlib import Path

from tests.integrations.importers.bringing import brought, run_of
from tests.integrations.importers.test_honesty import evaluated, judged


def test_the_same_results_twice_count_once_and_a_repeated_test_twice() -> None:
    once = judged(success=True, id="one")
    first, again = evaluated(once, {**once, "id": "two"}, name="first.json"), evaluated(once, name="again.json")
    report = brought(first, again)["report"]
    assert report["totals"] == {"read": 3, "emitted": 2, "invalid": 0, "skipped": 1}
    assert "the same result came before" in [remark["reason"] for remark in report["remarks"]]


def test_one_question_with_other_metadata_is_the_same_question_and_keeps_all_answers() -> None:
    once = judged(success=True, id="one")
    other = {**once, "id": "two", "testCase": {**once["testCase"], "metadata": {"topic": "x"}}}
    report = brought(evaluated(once, other), options=("-o", "out.json"))["report"]
    assert (report["records"], report["candidates"]) == (1, {"echo": 2})
    assert "the same question came before with other metadata, which is kept" in [remark["reason"] for remark in report["remarks"]]


def test_parameters_that_differ_between_requests_are_nobodys() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], "seed": 7}
    requests = [{"custom_id": f"c{place}", "body": {**body, "temperature": place}} for place in (0, 1)]
    Path("in.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    run = run_of(Path("in.jsonl").absolute(), options=("--from", "openai-batch"))
    assert (run.run_manifest.candidate.parameters.temperature, run.run_manifest.candidate.parameters.seed) == (None, 7)
    assert run.plan.imported.left_out["temperature, which differs between requests"] == 1
