"""What an import reports: everything that was not carried over, and how much."""

import json
from pathlib import Path

from tests.integrations.importers.bringing import brought, run_of
from tests.integrations.importers.test_honesty import batch, log, of_samples, written


def test_a_run_says_how_many_items_were_refused() -> None:
    run = run_of(log(samples=of_samples({}, {"epoch": "x"})))
    assert run.plan.imported.left_out["item that was refused"] == 1


def test_what_a_request_has_beside_its_question_comes_along_or_is_listed() -> None:
    report = brought(*batch({"content": "a"}, user="u", n=2, metadata={"topic": "law"}), options=("-o", "asked.json"))["report"]
    assert report["left_out"] == {"body.user": 1, "body.n": 1}
    assert json.loads(Path("asked.json").read_text())["records"][0]["metadata"]["topic"] == "law"


def test_all_that_a_metric_says_beside_its_score_is_listed() -> None:
    metrics = [{"name": "m", "score": 1, "threshold": 0.5, "verboseLogs": "long", "strictMode": False}, {"score": 1}, "x"]
    report = brought(written("run.json", {"testCases": [{"input": "q", "actualOutput": "a", "metricsData": metrics}]}))["report"]
    assert report["left_out"] == {
        "metric.threshold": 1,
        "metric.verboseLogs": 1,
        "metric without a name": 1,
        "metric that is text": 1,
    }
