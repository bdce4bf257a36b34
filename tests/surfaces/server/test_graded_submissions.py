"""Checks and graders over HTTP: what a request gives, what the operator's run file has, and what is refused before any call."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.engine.graded_files import GRADERS, PLUGIN, PROMPT, row
from tests.surfaces.server.serving import Answered, Serving

ROWS = (row("a", "Paris"), row("b", "Lyon"))


def asked(*given: tuple[str, Any]) -> str:
    """The query of a request; checks go as JSON."""
    return "?contract=legal_eval_v1&" + urlencode(
        [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in given]
    )


def sent(serving: Serving, *given: tuple[str, Any], rows: Iterable[dict[str, Any]] = ROWS) -> Answered:
    """Send rows of legal_eval_v1."""
    return serving.submit("\n".join(map(json.dumps, rows)).encode(), asked(*given))


def test_a_request_has_its_checks_gates_and_rule(tmp_path: Path) -> None:
    run_file = "candidates: [scripted/say-Paris]\n"
    query = (
        ("check", "equals"),
        ("check", {"type": "length", "max": 2, "name": "tiny"}),
        ("pass", "any"),
        ("check_gate", "equals=0.6"),
    )
    with Serving(tmp_path, run_file=run_file) as serving:
        ended = serving.ended(sent(serving, *query).json["run_id"])
        where = f"/v1/runs/{ended['run_id']}"
        records = serving.ask("GET", f"{where}/records").json["items"]
        record = serving.ask("GET", f"{where}/records/0").json
        metrics = serving.ask("GET", f"{where}/artifacts/metrics_summary.json").json
        run_page, record_page = (serving.ask("GET", f"/runs/{ended['run_id']}{path}").body.decode() for path in ("", "/records/1"))
    assert [one["passed"] for one in records] == [True, False]
    assert [check["passed"] for check in record["record"]["prediction"]["checks"]] == [True, False]
    assert metrics["checks"]["equals"]["pass_rate"] == 0.5
    assert metrics["gate"]["reasons"] == ["pass rate of the check 'equals' 0.50 is below 0.60"]
    assert "<h2>Checks</h2>" in run_page
    assert "the answer &#39;Paris&#39; is not &#39;Lyon&#39;" in record_page


def test_everything_that_is_wrong_with_checks_is_refused_at_once(service: Serving) -> None:
    query = (
        ("check", "equal"),
        ("check", {"type": "regex", "pattern": "("}),
        ("check", {"type": "length"}),
        ("check_gate", "other=0.5"),
        ("check_gate", "equals=2"),
    )
    before = len(service.runs())
    answer = sent(service, *query)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert [text.partition(" (")[0].partition(";")[0] for text in answer.json["error"]["details"]["errors"]] == [
        "check: checks[0].type is 'equal'",
        "check: checks[1]: unknown key 'pattern'",
        "check: checks[1].value is required",
        "check_gate: gates.checks.equals must be a number from 0 to 1, not 2.0",
        "check: checks[2]: a check of the length needs min, max or both",
        "check_gate: the run has no check 'other'",
    ]
    assert len(service.runs()) == before


def test_a_wrong_check_of_a_record_is_an_error_of_the_upload(service: Serving) -> None:
    rows = [row("a", "Paris"), row("b", "Lyon", metadata={"checks": [{"type": "number", "tolerance": "x"}]})]
    answer = sent(service, ("check", "equals"), rows=rows)
    (error,) = answer.json["error"]["details"]["errors"]
    assert error == "dataset.jsonl:2: record 'b': metadata.checks[0].tolerance must be a number from 0 on, not a string"


def test_graders_are_those_of_the_operators_run_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    (tmp_path / "own.txt").write_text(PROMPT)
    run_file = json.dumps({"candidates": ["scripted/say-Paris"], "graders": GRADERS})
    with Serving(tmp_path, run_file=run_file) as serving:
        ended = serving.ended(sent(serving).json["run_id"])
        where = f"/v1/runs/{ended['run_id']}"
        metrics = serving.ask("GET", f"{where}/artifacts/metrics_summary.json").json
        record = serving.ask("GET", f"{where}/records/0").json
        page = serving.ask("GET", f"/runs/{ended['run_id']}").body.decode()
        refused = sent(serving, ("check", "equals"))
    assert {name: found["pass_rate"] for name, found in metrics["graders"].items()} == {"form": 0.5, "polite": 0.0, "house": 1.0}
    assert [grader["name"] for grader in record["record"]["prediction"]["graders"]] == ["form", "polite", "house"]
    assert "<h2>Graders</h2>" in page
    (error,) = refused.json["error"]["details"]["errors"]
    assert error == "check: the run has graders, which take the place of checks; make it a grader with checks"
