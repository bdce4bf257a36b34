"""Results and configs of promptfoo: written by the real tool with its echo provider, into datasets and runs."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of

PROMPTFOO = os.environ.get("ASSAY_PROMPTFOO", "")
RESULTS = json.loads((FIXTURES / "promptfoo_results.json").read_text())


def records(*sources: str | Path, options: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The records of the batch_v1 dataset that an import writes, by prompt, after validation found nothing wrong with it."""
    brought(*sources, options=("-o", "tests.json", *options))
    report = api.validate("tests.json", "batch_v1")
    assert (report.outcome, report.issues) == ("accepted", ())
    return {record["input"]["prompt"]: record for record in json.loads(Path("tests.json").read_text())["records"]}


def config(text: str) -> Path:
    path = Path("promptfooconfig.yaml")
    path.write_text(text)
    return path.absolute()


def test_every_test_of_a_config_is_asked_with_every_prompt() -> None:
    found = records("promptfooconfig.yaml", options=("--with-files",))
    assert len(found) == 14
    assert {"Say hello in German", "SAY hello IN German!", "Say table in Danish"} <= found.keys()


def test_config_and_results_give_the_same_records() -> None:
    assert records("promptfoo_results.json") == records("promptfooconfig.yaml", options=("--with-files",))


def test_files_outside_of_the_folder_are_never_read() -> None:
    Path("inside").mkdir()
    Path("secret.txt").write_text("a secret")
    Path("inside/promptfooconfig.yaml").write_text("prompts: ['file://../secret.txt', 'Say {{a}}']\ntests: [{vars: {a: x}}]")
    place = Path("inside/promptfooconfig.yaml").absolute()
    report = brought(place, options=("--with-files", "-o", "tests.json"))["report"]
    assert report["left_out"]["file:// outside of the config's folder"] == 1
    assert "a secret" not in Path("tests.json").read_text()


@pytest.mark.parametrize("prompt", ["file://made.py", "file://made.js:greet", "exec: ./made.sh", "made.py"])
def test_a_prompt_that_a_program_makes_is_listed_and_no_question(prompt: str) -> None:
    Path("made.py").write_text("print('hello')")
    written = config(f"prompts: ['Say {{{{a}}}}', '{prompt}']\ntests: [{{vars: {{a: x}}}}]")
    report = brought(written, options=("--with-files", "-o", "tests.json"))["report"]
    assert (report["records"], report["left_out"]) == (1, {"prompt that is code": 1})


def test_a_prompt_that_is_called_like_a_file_is_that_file() -> None:
    Path("ask.txt").write_text("Say {{a}}\n---\nShout {{a}}")
    written = config("prompts: ['ask.txt']\ntests: [{vars: {a: x}}]")
    assert list(records(written, options=("--with-files",))) == ["Say x", "Shout x"]


def test_a_value_in_a_file_is_read_where_files_are_and_never_asked_by_its_address() -> None:
    Path("value.txt").write_text("a long story\n")
    written = config("prompts: ['Sum up {{a}}', 'Say hi']\ntests: [{vars: {a: 'file://value.txt'}}]")
    report = brought(written, options=("-o", "tests.json", "--without-files"))["report"]
    assert (report["records"], report["left_out"]) == (1, {"file:// (left out by --without-files)": 1})
    reason = "the value of 'a' was not read: 'value.txt' was not read: --without-files"
    assert reason in [remark["reason"] for remark in report["remarks"]]
    assert list(records(written)) == ["Sum up a long story", "Say hi"]
    assert list(records(written, options=("--with-files",))) == ["Sum up a long story", "Say hi"]


def test_a_variable_without_a_value_is_listed() -> None:
    written = config("prompts: ['Say {{a}} {{b}}']\ntests: [{vars: {a: x}}]")
    assert brought(written)["report"]["left_out"] == {"variable without a value, kept as it stands": 1}


def test_lists_of_values_stand_for_a_test_with_each_of_them() -> None:
    asserted = "assert: [{type: llm-rubric, value: Is good}]"
    written = config(
        f"prompts: ['{{{{a}}}}-{{{{b}}}}-{{{{c}}}}']\ntests: [{{vars: {{a: [v, w], b: [x, y], c: [1, 2]}}, {asserted}}}]"
    )
    rows = brought(written, options=("-o", "rows.jsonl"))["report"]
    assert (rows["records"], rows["target"]) == (4, "legal_eval_v1")


def test_each_provider_of_a_result_becomes_a_run_of_its_own() -> None:
    runs = brought("promptfoo_results.json", options=("--run", "--id", "echoes"))["runs"]
    assert [run["run_id"] for run in runs] == ["echoes-echo", "echoes-second-echo"]
    assert api.open_run("echoes-echo").plan.imported.version == RESULTS["metadata"]["promptfooVersion"]


def test_passes_and_failures_are_those_that_promptfoo_counted_apart_from_checks_that_threw() -> None:
    runs = brought("promptfoo_results.json", options=("--run",))["runs"]
    stats = RESULTS["results"]["stats"]
    assert sum(run["metrics"]["pass_count"] for run in runs) == stats["successes"] == 18
    assert sum(run["metrics"]["fail_count"] for run in runs) == stats["failures"] - 4 == 2
    assert sum(run["counts"]["failed_records"] for run in runs) == stats["errors"] + 4


def test_an_error_and_a_check_that_threw_have_no_score() -> None:
    brought("promptfoo_results.json", options=("--run", "--id", "echoes"))
    lines = predictions_of(api.open_run("echoes-echo")).values()
    failed = {line["error_code"]: line for line in lines if line["score"] is None}
    assert failed["result_error"]["model_response"] is None
    assert "Transform failed" in failed["result_error"]["error_message"]
    assert failed["not_scored"]["error_message"].startswith("Custom function threw error")
    assert failed["not_scored"]["model_response"] == "SAY broken IN Dutch!"


def test_one_provider_can_be_chosen() -> None:
    [run] = brought("promptfoo_results.json", options=("--run", "--candidate", "second echo"))["runs"]
    assert api.open_run(run["run_id"]).result.candidate == "second echo"


def test_a_file_that_is_no_config_is_refused_in_words() -> None:
    result = assay("import", str(config("prompts: [1, {")), "-o", "tests.json")
    assert result.exit_code == 2
    assert "internal error" not in result.output


@pytest.mark.skipif(not PROMPTFOO, reason="ASSAY_PROMPTFOO names no promptfoo command")
def test_results_that_promptfoo_writes_now_are_read_like_those_of_the_fixtures(tmp_path: Path) -> None:
    for name in ("promptfooconfig.yaml", "more_tests.csv"):
        shutil.copy(FIXTURES / name, tmp_path)
    subprocess.run(["sh", Path(__file__).parent / "make_promptfoo.sh", tmp_path, PROMPTFOO], check=True, capture_output=True)
    runs = brought(tmp_path / "promptfoo_results.json", options=("--run",))["runs"]
    assert sum(run["metrics"]["pass_count"] for run in runs) == 18


OLD = {"prompt": {"raw": "Say x", "display": "Say {{a}}"}, "vars": {"a": "x"}, "response": {"output": "x"}, "success": True}


def results(*, of: object, name: str = "output.json") -> Path:
    Path(name).write_text(json.dumps(of))
    return Path(name).absolute()


def test_results_of_the_first_formats_have_verdicts_and_no_scores() -> None:
    failed = {**OLD, "prompt": {"raw": "Say y"}, "success": False, "error": "no"}
    broken = {**OLD, "prompt": {"raw": "Say z"}, "success": False, "error": "API error: 500", "response": {"error": "500"}}
    listed = [OLD, failed, broken]
    first = results(of={"version": 1, "results": listed, "stats": {}, "table": {"head": {}, "body": []}})
    second = results(of={"results": {"version": 2, "results": listed, "table": {}}, "config": {}}, name="second.json")
    for path in (first, second):
        [run] = brought(path, options=("--run", "--runs-dir", path.stem))["runs"]
        assert (run["metrics"]["pass_count"], run["metrics"]["fail_count"], run["counts"]["failed_records"]) == (1, 1, 1)


@pytest.mark.parametrize("form", ["yaml", "jsonl", "shared", "share_of_a_database"])
def test_results_in_other_forms_are_those_of_the_usual_one(form: str) -> None:
    usual = [run["metrics"] for run in brought("promptfoo_results.json", options=("--run", "--runs-dir", "usual"))["runs"]]
    listed = RESULTS["results"]["results"]
    if form == "yaml":
        Path("results.yaml").write_text(json.dumps(RESULTS, indent=1))
        path = Path("results.yaml").absolute()
    elif form == "jsonl":
        Path("results.jsonl").write_text("".join(json.dumps(result) + "\n" for result in listed))
        path = Path("results.jsonl").absolute()
    elif form == "shared":
        path = results(of={"data": RESULTS})
    else:
        renamed = {"response": "providerResponse"}
        rows = [{renamed.get(name, name): value for name, value in result.items() if name != "vars"} for result in listed]
        path = results(of={"id": "eval-1", "config": RESULTS["config"], "results": rows, "prompts": []})
    found = [run["metrics"] for run in brought(path, options=("--run", "--runs-dir", "other"))["runs"]]
    for metrics, others in zip(found, usual, strict=True):
        assert (metrics["pass_count"], metrics["fail_count"]) == (others["pass_count"], others["fail_count"])
