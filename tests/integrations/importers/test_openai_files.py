"""Samples of OpenAI evals, and output of the Batch API joined with its input."""

import json
import os
from pathlib import Path

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, rows_of, run_of

REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "openai_evals"
BATCH = ("batch_output.jsonl", "batch_input.jsonl")


def test_samples_become_questions_with_all_ideal_answers() -> None:
    rows = {row["prompt"]: row for row in rows_of("evals_samples.jsonl").values()}
    assert rows["What is the capital of Andorra?"]["reference_answers"] == ["Andorra la Vella", "Andorra-la-Vella"]
    assert rows["What is the capital of Andorra?"]["messages"][0] == {"role": "system", "content": "Answer with the name alone."}
    assert rows["What is the capital of Malta?"]["reference_answers"] == ["Valletta"]


def test_a_registry_names_the_eval_and_its_class_is_listed() -> None:
    rows = rows_of("evals_samples.jsonl", "evals_registry.yaml")
    report = brought("evals_samples.jsonl", "evals_registry.yaml")["report"]
    assert {row["dataset"] for row in rows.values()} == {"tiny-capitals.dev.v0"}
    assert report["left_out"]["class Match"] == 1


def test_ids_do_not_depend_on_lines_and_a_repeated_sample_is_skipped() -> None:
    lines = (FIXTURES / "evals_samples.jsonl").read_text().splitlines(keepends=True)
    Path("evals_samples.jsonl").write_text("".join([*reversed(lines), lines[0]]))
    report = brought(Path("evals_samples.jsonl").absolute())["report"]
    assert rows_of("evals_samples.jsonl").keys() == rows_of(Path("evals_samples.jsonl").absolute()).keys()
    assert report["totals"] == {"read": 4, "emitted": 3, "invalid": 0, "skipped": 1}


@pytest.mark.parametrize(
    "line", ['{"input": [], "ideal": "x"}', '{"input": "Why?", "ideal": {"a": 1}}', '{"input": 3, "ideal": "x"}']
)
def test_a_sample_that_asks_nothing_is_refused(line: str) -> None:
    Path("samples.jsonl").write_text(line + "\n" + '{"input": "Why?", "ideal": "So."}\n')
    assert brought(Path("samples.jsonl").absolute())["report"]["totals"]["invalid"] == 1


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize("path", sorted(REALDATA.glob("*__[!f]*.jsonl")), ids=lambda path: path.name)
def test_every_real_eval_becomes_a_valid_dataset(path: Path) -> None:
    report = brought(path, options=("-o", "rows.jsonl"))["report"]
    assert report["totals"]["invalid"] == 0
    assert report["totals"]["read"] == report["records"] + report["totals"]["skipped"]
    assert api.validate("rows.jsonl", "legal_eval_v1").outcome == "accepted"


def test_answers_of_a_batch_are_joined_with_their_questions() -> None:
    lines = predictions_of(run_of(*BATCH))
    french = lines["capital-fr", 0]
    assert french["model_response"] == "Paris"
    assert (french["input_tokens"], french["output_tokens"]) == (21, 2)
    assert french["first_attempt_at"] == "2026-11-15T20:00:01.000Z"


def test_failed_and_missing_requests_have_no_answer_and_no_score() -> None:
    lines = predictions_of(run_of(*BATCH))
    codes = {record: line["error_code"] for (record, _), line in lines.items()}
    assert codes == {
        "capital-de": "not_scored",
        "capital-fr": "not_scored",
        "too-long": "context_length_exceeded",
        "expired": "batch_expired",
        "lost": "no_output",
    }
    assert {line["score"] for line in lines.values()} == {None}


def test_answers_of_a_batch_can_be_graded_here() -> None:
    brought(*BATCH, options=("-o", "asked.json", "--responses", "answers.jsonl", "--to", "batch_v1"))
    document = json.loads(Path("asked.json").read_text())
    document["records"] = [record for record in document["records"] if record["record_id"].startswith("capital")]
    Path("asked.json").write_text(json.dumps(document))
    judge = 'scripted/say-{"score": 5, "justification": "Right."}'
    graded = assay("run", "asked.json", "--responses", "answers.jsonl", "--judge", judge, "--quiet", "--json")
    assert json.loads(graded.stdout)["metrics"]["pass_count"] == 2


def test_output_without_its_input_is_refused_with_what_to_do() -> None:
    result = assay("import", str(FIXTURES / "batch_output.jsonl"), "-o", "asked.json")
    assert result.exit_code == 2
    assert "name its input file too" in result.output


def test_an_answer_to_an_unknown_request_is_refused_with_its_line() -> None:
    Path("in.jsonl").write_text((FIXTURES / "batch_input.jsonl").read_text().splitlines(keepends=True)[0])
    report = brought("batch_output.jsonl", Path("in.jsonl").absolute())["report"]
    assert [(remark["line"], remark["action"]) for remark in report["remarks"] if remark["line"]] == [
        (1, "invalid"),
        (3, "invalid"),
        (4, "invalid"),
    ]
