"""The EvalRun of golden_v1 for readers that demand a number for every score: the classes are those that the contract prints."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from assay import api
from assay.presentation.run_report import view_of
from assay.surfaces.pages.page_renderer import FileLinks
from assay.surfaces.pages.run import run_page
from tests.commands import assay
from tests.test_golden import PROSE, REFUSED, golden_run, write_golden

pytestmark = pytest.mark.usefixtures("workplace")


class EvalResult(BaseModel):
    """As the contract prints it."""

    case_id: str
    user_prompt: str
    assistant_response: str
    score: int = Field(..., ge=1, le=5)
    passed: bool
    justification: str
    duration_ms: int = Field(..., gt=0)
    error: str | None = None


class EvalRunMetrics(BaseModel):
    """As the contract prints it."""

    total_cases: int
    passed_cases: int
    failed_cases: int
    error_cases: int
    pass_rate: float
    average_score: float
    overall_passed: bool


def exported(said: list[Any], **sections: Any) -> tuple[dict[str, Any], str]:
    finished, _ = golden_run(Path.cwd(), said, **sections)
    written = assay("export", finished.run_dir, "--as", "eval-results", "-o", "filled.json")
    assert written.exit_code == 0
    return json.loads(Path("filled.json").read_bytes()), written.stderr


def test_the_printed_classes_read_a_run_with_errors_once_it_is_filled_in() -> None:
    found, notes = exported([4, REFUSED, PROSE, 4, 5])
    results = [EvalResult.model_validate(result) for result in found["results"]]
    assert [(one.score, one.passed, bool(one.error)) for one in results] == [
        (4, True, False),
        (1, False, True),
        (1, False, True),
        (4, True, False),
        (5, True, False),
    ]
    metrics = EvalRunMetrics.model_validate(found["metrics"])
    assert (metrics.error_cases, metrics.pass_rate, metrics.average_score, metrics.overall_passed) == (2, 1.0, 13 / 3, True)
    assert found["filled_in"] == ["case-1", "case-2"]
    assert "2 cases with an error: score 1 and passed false stand for no score" in notes


def test_the_artifact_keeps_its_nulls() -> None:
    finished, _ = golden_run(Path.cwd(), [4, REFUSED, 4, 4, 5])
    kept = json.loads((Path(finished.run_dir) / "eval_results.json").read_bytes())
    assert (kept["results"][1]["score"], kept["results"][1]["passed"]) == (None, None)
    with pytest.raises(ValidationError):
        EvalResult.model_validate(kept["results"][1])


def test_figures_that_no_case_has_a_score_for_are_those_of_what_was_filled_in() -> None:
    found, notes = exported([REFUSED] * 5)
    metrics = EvalRunMetrics.model_validate(found["metrics"])
    assert (metrics.pass_rate, metrics.average_score, metrics.overall_passed) == (0.0, 1.0, False)
    assert "no case has a score: pass_rate 0 and average_score 1 stand for undefined figures" in notes


def test_a_run_without_errors_is_exported_as_it_is() -> None:
    found, notes = exported([4, 4, 5, 3, 5])
    kept = json.loads(next(Path("runs").glob("*/eval_results.json")).read_bytes())
    assert (found, notes) == ({**kept, "filled_in": []}, "")


def test_a_document_of_an_earlier_version_is_decided_by_the_printed_formula() -> None:
    finished, _ = golden_run(Path.cwd(), [4, 4, 4, 4, REFUSED])
    path = Path(finished.run_dir) / "eval_results.json"
    kept = json.loads(path.read_bytes())
    del kept["gates"]
    kept["metrics"]["overall_passed"] = False
    path.chmod(0o600)
    path.write_text(json.dumps(kept))
    written = assay("export", finished.run_dir, "--as", "eval-results", "-o", "-")
    assert json.loads(written.stdout)["metrics"]["overall_passed"] is True


def test_a_run_over_several_golden_datasets_says_why_it_has_none() -> None:
    for name, version in (("one.json", "1.0.0"), ("two.json", "2.0.0")):
        text = write_golden(Path(name), 5).read_text(encoding="utf-8")
        Path(name).write_text(text.replace("case-", f"{name[:3]}-").replace("1.2.3", version), encoding="utf-8")
    assay("run", "one.json", "two.json", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--run-id", "both", "--quiet")
    refused = assay("export", "both", "--as", "eval-results")
    assert refused.exit_code == 2
    assert "run 'both' has no eval_results.json: it holds one golden dataset, and the run has 2 datasets" in refused.stderr


def test_reports_show_the_contracts_decision_next_to_the_gate_on_errors() -> None:
    finished, _ = golden_run(Path.cwd(), [4, 4, 4, 4, REFUSED])
    shown = " ".join(assay("show", finished.run_dir).stdout.split())
    assert "error rate 20.0 % is above 0.0 %, the default of golden_v1" in shown
    formula = "pass rate 100.0 % (at least 80.0 %), mean score 4.00 (at least 3.50)"
    assert f" note overall_passed of golden_v1 is true, which leaves errors out: {formula}" in shown
    assert " MET " not in shown
    run = api.open_run(finished.run_dir)
    page = run_page(view_of(run), place=FileLinks(), moments=run.moments, files={})
    assert [verdict.mark.text for verdict in page.verdicts] == ["missed"]
    assert page.verdict_note.startswith("overall_passed of golden_v1 is true")
